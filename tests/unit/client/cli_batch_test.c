/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli's batches: which commands go out together, in which order they are answered, where
 * they end; lines as they come. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/session/window.h"
#include "client/cli/shell.h"
#include "client/cli/text/input.h"
#include "client/cli/session/answer.h"
#include "tests/unit/client/commands.h"
#include "tests/unit/poll_chk.h"
#include "tests/unit/read_chk.h"
#include "tests/unit/said.h"

static const char *input; /* of standard input; '|': what follows comes later */
static int input_error;   /* at its end */
static unsigned interrupted_reads, waits;
static bool stop_on_error, reader_left;

int isatty(int fd)
{
	(void)fd;
	return fd == 1;
}

int poll(struct pollfd *fds, nfds_t count, int ms)
{
	assert_int_equal(count, 1);
	if (fds->fd == 1) {
		fds->revents = reader_left ? POLLERR : POLLOUT;
		return 1;
	}
	assert_int_equal(fds->fd, 0);
	assert_int_equal(fds->events, POLLIN);
	if (ms < 0) {
		waits++;
		return 1;
	}
	assert_int_equal(ms, 0);
	return *input != '|';
}

ssize_t read(int fd, void *to, size_t bytes)
{
	size_t left;

	assert_int_equal(fd, 0);
	if (interrupted_reads) {
		errno = interrupted_reads-- % 2 ? EINTR : EAGAIN;
		return -1;
	}
	input += *input == '|';
	left = strcspn(input, "|");
	if (!left && input_error) {
		errno = input_error;
		return -1;
	}
	bytes = left < bytes ? left : bytes;
	memcpy(to, input, bytes);
	input += bytes;
	return (ssize_t)bytes;
}

static size_t no_memory_for; /* a value of so many bytes */

int __real_cli_value_copy(struct cli_value *value, const void *data, size_t bytes);
int __wrap_cli_value_copy(struct cli_value *value, const void *data, size_t bytes);

int __wrap_cli_value_copy(struct cli_value *value, const void *data, size_t bytes)
{
	return no_memory_for && bytes == no_memory_for ? ENOMEM : __real_cli_value_copy(value, data, bytes);
}

static int set_up(void **state)
{
	input_error = 0;
	interrupted_reads = waits = 0;
	stop_on_error = false;
	no_memory_for = 0;
	return made_begin(state);
}

static int run_shell(struct cli *cli, const struct cli_args *args)
{
	(void)args;
	cli->stop_on_error = stop_on_error;
	return cli_shell(cli);
}

static const struct cli_command shell = { .run = run_shell };

#define BATCH(status, out, lines) \
	do { \
		input = lines; \
		RUNS(status, out, "", &shell, ""); \
	} while (0)

/* ------------------------------------------------------------------ order */

static void plain_commands_go_out_together(void **state)
{
	(void)state;
	BATCH(1, "OK\nOK\n1\n2\n(not found)\nOK\n(not found)\n", "put a 1\nput b 2\nget a b c\ndel a c\n");
	assert_string_equal(made.calls, "submit_put a\nsubmit_put b\nsubmit_get a\nsubmit_get b\n"
					"submit_get c\nsubmit_del a\nsubmit_del c\n");
	assert_null(made_value("a"));
	/* With options, or too few words, they are commands of their own. */
	BATCH(0, "OK\nOK\n", "put a 1 --if-absent\nput a 2 --if-present\n");
	assert_string_equal(made.calls, "put a if-absent\nput a if-present\n");
	BATCH(2, "ERROR put: no value; give one, or --file PATH, or - for standard input\n", "put a\n");
	BATCH(2, "ERROR get: something is missing; usage: get [OPTION]... KEY...\n", "get\n");
	BATCH(2, "ERROR del: something is missing; usage: del KEY...\n", "del\n");
	BATCH(2, "ERROR put: too many words; usage: put [OPTION]... KEY VALUE | KEY - | KEY --file PATH\n",
	      "put a b c\n");
	/* In quotes it is no option. */
	BATCH(0, "OK\n-x\n-x\n", "put \"--k\" \"-x\"\nget '--k'\nget '--k' --output -\n");
	assert_string_equal(made.calls, "submit_put --k\nsubmit_get --k\nget_alloc --k\n");
}

static void others_wait_for_those_before(void **state)
{
	(void)state;
	BATCH(0, "OK\nyes\nOK\n2\n", "put a 1\nexists a\nput a 2\nget a\n");
	assert_string_equal(made.calls, "submit_put a\nexists a\nsubmit_put a\nsubmit_get a\n");
	BATCH(2, "2\nERROR no command \"frobnicate\"; help lists them\nyes\n", "get a\nfrobnicate\nexists a\n");
	input = "get a\nget \"b\nget a\n";
	assert_int_equal(run(&shell, ""), 2);
	assert_memory_equal(printed_out, "2\nERROR ", 8);
	assert_string_equal(strchr(printed_out + 2, '\n'), "\n2\n");
}

static void lines_without_an_answer(void **state)
{
	(void)state;
	made_put("a", "1");
	BATCH(0, "1\n", "\n   \n# get a\n \t # get \"a\n\t\n#\nget a");
	BATCH(0, "1\n", "get a\nquit\nget a\n");
	BATCH(0, "1\n", "get a\nexit\nfrobnicate\n");
	BATCH(0, "", "");
	BATCH(0, "", " ");
}

/* ------------------------------------------------------------------ the end */

static void the_status_is_that_of_the_worst(void **state)
{
	(void)state;
	made_put("a", "1");
	BATCH(1, "(not found)\n1\n", "get none\nget a\n");
	BATCH(2, "ERROR no command \"nonsense\"; help lists them\n(not found)\n1\n", "nonsense\nget none\nget a\n");
	fails("done", KVD_EBUSY);
	made.once = true;
	BATCH(3, "1\nERROR done failed\n", "get a\nget a\n");
}

static void an_error_ends_it(void **state)
{
	(void)state;
	stop_on_error = true;
	BATCH(2, "OK\nERROR no command \"nonsense\"; help lists them\n", "put a 1\nnonsense\nput a 2\n");
	assert_string_equal(made_value("a"), "1");
	BATCH(1, "(not found)\n(not found)\n1\n", "get none other\nget a\n"); /* is none */
	fails("done", KVD_ETOOBIG);
	BATCH(2, "ERROR done failed\n", "put a 3\nput a 4\nexists a\n");
	assert_string_equal(made.calls, "submit_put a\n");
	fails("submit_get", KVD_EINVAL);
	BATCH(2, "ERROR submit_get failed\n", "get a\nget a\n");
	fails(NULL, 0);
	stop_on_error = false;
	BATCH(2, "ERROR no command \"nonsense\"; help lists them\nOK\n", "nonsense\nput a 2\n");
}

static void commands_that_can_not_be_read(void **state)
{
	(void)state;
	input_error = EISDIR;
	BATCH(2, "OK\nERROR reading commands: Is a directory\n", "put a 1\nput b 2");
	assert_null(made_value("b"));
	input_error = 0;
	fails("client_new", KVD_ECONNECT);
	input = "get a";
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &shell, "");
}

/* A value that there is no memory for: it is told in its turn, behind what was under way. */
static void a_value_without_memory(void **state)
{
	(void)state;
	made_put("a", "1");
	no_memory_for = 4;
	BATCH(2, "1\nOK\nERROR put: no memory for a value of 4 bytes\n2\n",
	      "get a\nput b 2\nput c 1234\nget b\n");
	assert_null(made_value("c"));
}

/* Nobody reads the answers: nothing more is done. */
static void nobody_reads_on(void **state)
{
	FILE *was = stdout;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct cli cli = { .server = "here:1" };

		reader_left = i;
		input = "put a 1\n|put b 2\n";
		stdout = fopen("/dev/full", "w");
		said_begin();
		assert_int_equal(cli_shell(&cli), 0);
		assert_string_equal(said_end(), i ? "" : "kvcli: standard output can't be written. Part of it is "
						      "missing. Is the disk full?\n");
		assert_int_equal(cli.output_error, i ? EPIPE : EIO);
		assert_false(cli_output_flush(&cli));
		assert_null(made_value("b"));
		fclose(stdout);
		stdout = was;
		cli_disconnect(&cli);
	}
}

/* Nor what is in the same input, as soon as an answer could not be written. */
static void an_answer_can_not_be_written(void **state)
{
	static char much[100000]; /* more than is kept of what is printed */
	struct cli cli = { .server = "here:1" };
	FILE *was = stdout;

	(void)state;
	memset(much, 'x', sizeof much);
	made_put_bytes("a", 1, much, sizeof much);
	input = "get a\nexists a\nput b 2 --flags 1\n";
	stdout = fopen("/dev/full", "w");
	said_begin();
	assert_int_equal(cli_shell(&cli), 0);
	said_end();
	assert_null(made_value("b"));
	fclose(stdout);
	stdout = was;
	cli_disconnect(&cli);
}

/* ------------------------------------------------------------------ lines */

static char idle_at[64];

static bool note_idle(void *arg)
{
	const struct cli_input *in = arg;

	snprintf(idle_at + strlen(idle_at), 16, "%zu ", in->end - in->begin);
	return strlen(idle_at) < 8;
}

static void expect_line(struct cli_input *in, const char *want)
{
	char *line;
	size_t bytes;

	assert_int_equal(cli_input_line(in, note_idle, in, &line, &bytes), 1);
	assert_int_equal(bytes, strlen(want));
	assert_memory_equal(line, want, bytes);
}

/* Before it waits what has come is dealt with. */
static void it_waits_when_there_is_nothing(void **state)
{
	struct cli_input in = { .fd = 0 };
	char *line;
	size_t bytes;

	(void)state;
	idle_at[0] = '\0';
	interrupted_reads = 4;
	input = "one\nt|wo\n\nthree|!\nfour|\nfive";
	expect_line(&in, "one");
	assert_int_equal(waits, 2);
	assert_string_equal(idle_at, "");
	expect_line(&in, "two");
	assert_string_equal(idle_at, "1 ");
	expect_line(&in, "");
	expect_line(&in, "three!");
	assert_string_equal(idle_at, "1 5 ");
	expect_line(&in, "four");
	assert_string_equal(idle_at, "1 5 4 ");
	in.searched = 0;
	expect_line(&in, "five");
	assert_int_equal(cli_input_line(&in, note_idle, &in, &line, &bytes), 0);
	assert_int_equal(cli_input_line(&in, note_idle, &in, &line, &bytes), 0);
	cli_input_free(&in);
	assert_null(in.data);
	/* Who has enough gets no more: not what is there of a line either. */
	input = "si|x\n";
	strcpy(idle_at, "full up");
	assert_int_equal(cli_input_line(&in, note_idle, &in, &line, &bytes), 0);
	assert_int_equal(cli_input_line(&in, note_idle, &in, &line, &bytes), 0);
	cli_input_free(&in);
}

/* Longer than the room at first; in the room there is, when what was before it is over. */
static void long_lines(void **state)
{
	static const size_t sizes[] = { 65535, 65536, 65537, 30000, 40000, 131071, 200000, 1 };
	struct cli_input in = { .fd = 0 };
	char *all = malloc(1 << 20), *at = all, *line;
	size_t bytes;

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		memset(at, 'a' + (int)i, sizes[i]);
		at += sizes[i];
		*at++ = '\n';
	}
	*at = '\0';
	input = all;
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(cli_input_line(&in, note_idle, &in, &line, &bytes), 1);
		assert_int_equal(bytes, sizes[i]);
		assert_int_equal(line[0], 'a' + (int)i);
		assert_int_equal(line[bytes - 1], 'a' + (int)i);
		assert_true(in.room <= 262144);
	}
	assert_int_equal(cli_input_line(&in, note_idle, &in, &line, &bytes), 0);
	cli_input_free(&in);
	free(all);
}

static void a_line_that_is_too_long(void **state)
{
	struct cli_input in = { .fd = 0, .room = CLI_INPUT_LINE_MAX, .end = CLI_INPUT_LINE_MAX };
	char *line;
	size_t bytes;

	(void)state;
	in.data = malloc(1); /* nobody looks at it */
	in.searched = in.end;
	input = "x";
	errno = 0;
	assert_int_equal(cli_input_line(&in, note_idle, &in, &line, &bytes), -1);
	assert_int_equal(errno, EFBIG);
	assert_int_equal(*input, 'x');
	cli_input_free(&in);
}

static const char repeated[] = "put a 1\nget a none\ndel b\nfrobnicate\nget \"a\nput a 2 --flags 7\n";

static int run_twice(struct cli *cli, const struct cli_args *args)
{
	input = repeated;
	return run_shell(cli, args);
}

static void memory_is_given_back(void **state)
{
	static const struct cli_command again = { .run = run_twice };

	(void)state;
	made_put("a", "1");
	keeps_nothing(&again, "");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(plain_commands_go_out_together),
		TEST(others_wait_for_those_before),
		TEST(lines_without_an_answer),
		TEST(the_status_is_that_of_the_worst),
		TEST(an_error_ends_it),
		TEST(commands_that_can_not_be_read),
		TEST(a_value_without_memory),
		TEST(nobody_reads_on),
		TEST(an_answer_can_not_be_written),
		TEST(it_waits_when_there_is_nothing),
		TEST(long_lines),
		TEST(a_line_that_is_too_long),
		TEST(memory_is_given_back),
	};

	setenv("TERM", "dumb", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
