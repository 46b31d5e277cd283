/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cli/kvcli.c: the options of kvcli itself, where its commands come from, and its exit status when
 * its output can't be written.  Each run is a process. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/client/made_kvd.h"

int kvcli_main(int argc, char **argv);

#define main kvcli_main
#include "client/cli/kvcli.c"
#undef main

/* What a run leaves: of the process itself there is no more than its status. */
static struct seen {
	char out[8192], err[2048];
	int timeout_ms, open;
	char device[64], credentials[64], value[64], calls[sizeof made.calls];
} *seen;

static const char *input;
static int output; /* or -1: it is kept */

static int set_up(void **state)
{
	unsetenv("KVD_SERVER");
	setenv("TERM", "dumb", 1);
	input = "";
	output = -1;
	return made_begin(state);
}

static void note_text(char text[64], const char *from)
{
	snprintf(text, 64, "%s", from ? from : "(none)");
}

/* What kvcli has not written by its end is lost. */
static void in_a_process(int memory[3], int argc, char **argv)
{
	int status;

	alarm(20);
	if (dup2(memory[0], 0) != 0 || dup2(output < 0 ? memory[1] : output, 1) != 1 || dup2(memory[2], 2) != 2)
		abort();
	status = kvcli_main(argc, argv);
	seen->timeout_ms = made.options.timeout_ms;
	seen->open = made.clients + made.sessions;
	note_text(seen->device, made.options.device);
	note_text(seen->credentials, made.options.credentials);
	note_text(seen->value, made_value("a"));
	memcpy(seen->calls, made.calls, sizeof seen->calls);
	_exit(status);
}

static void keep(int memory, char *text, size_t room)
{
	ssize_t n = pread(memory, text, room - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
	close(memory);
}

/* The words of `line`, split at blanks; the exit status. */
static int runs(const char *line)
{
	char words[256], *argv[20] = { (char[]){ "kvcli" } }, *rest = NULL;
	int argc = 1, status, memory[3];

	snprintf(words, sizeof words, "%s", line);
	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	for (int i = 0; i < 3; i++) {
		memory[i] = memfd_create("memory", MFD_CLOEXEC);
		assert_true(memory[i] >= 0);
	}
	assert_int_equal(pwrite(memory[0], input, strlen(input), 0), strlen(input));
	memset(seen, 0, sizeof *seen);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		in_a_process(memory, argc, argv);
	assert_int_equal(waitpid(child, &status, 0), child);
	close(memory[0]);
	keep(memory[1], seen->out, sizeof seen->out);
	keep(memory[2], seen->err, sizeof seen->err);
	assert_true(WIFEXITED(status));
	assert_int_equal(seen->open, 0);
	return WEXITSTATUS(status);
}

#define RUNS(status, printed, told, line) \
	do { \
		assert_int_equal(runs(line), status); \
		assert_string_equal(seen->out, printed); \
		assert_string_equal(seen->err, told); \
	} while (0)

/* ------------------------------------------------------------------ options */

static void options_say_how_to_connect(void **state)
{
	(void)state;
	made_put("a", "1");
	RUNS(0, "1", "", "get a");
	assert_int_equal(seen->timeout_ms, 5000);
	assert_string_equal(seen->device, "(none)");
	assert_string_equal(seen->credentials, "(none)");
	RUNS(0, "1", "", "--device made0 --credentials /some/file --timeout 1.5s get a");
	assert_int_equal(seen->timeout_ms, 1500);
	assert_string_equal(seen->device, "made0");
	assert_string_equal(seen->credentials, "/some/file");
	RUNS(0, "1", "", "-d made0 -b tcp -c /other -t 7 get a");
	assert_int_equal(seen->timeout_ms, 7000);
	assert_string_equal(seen->device, "made0,bootstrap=tcp");
	assert_string_equal(seen->credentials, "/other");
	RUNS(0, "1", "", "-b tcp get a");
	assert_string_equal(seen->device, ",bootstrap=tcp");
}

static void options_say_where_kvd_is(void **state)
{
	(void)state;
	made.fails = "client_new";
	made.result = KVD_ECONNECT;
	RUNS(3, "", "kvcli: " ADDR_SERVER_DEFAULT ": nobody is there\n", "get a");
	RUNS(3, "", "kvcli: there:2: nobody is there\n", "--server there:2 get a");
	setenv("KVD_SERVER", "named:3", 1);
	RUNS(3, "", "kvcli: named:3: nobody is there\n", "get a");
	RUNS(3, "", "kvcli: there:2: nobody is there\n", "-s there:2 get a");
}

static void times_have_limits(void **state)
{
	static const char *const wrong[] = { "0", "0.9ms", "86400001ms", "5m", "x", "-1" };
	char line[64];

	(void)state;
	made_put("a", "1");
	RUNS(0, "1", "", "-t 1ms get a");
	assert_int_equal(seen->timeout_ms, 1);
	RUNS(0, "1", "", "-t 86400 get a");
	assert_int_equal(seen->timeout_ms, 86400000);
	for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		snprintf(line, sizeof line, "--timeout=%s get a", wrong[i]);
		RUNS(2, "", "kvcli: --timeout wants a time from 1ms to 24 hours, as 5, 1.5s, 500ms\n", line);
		assert_string_equal(seen->calls, "");
	}
}

static void help_and_version(void **state)
{
	static const char first[] = "Usage: kvcli [OPTION]... [COMMAND [WORD]...]    no COMMAND: a shell, or a batch\n"
				    "\nCommands (kvcli help tells what each does, kvcli COMMAND --help how):\n  put get ";
	static const char last[] = "\nStatus: 0 done, 1 not found, 2 wrong use or file, 3 server or connection.\n";

	(void)state;
	input = "nonsense\n"; /* is not read */
	RUNS(0, "kvcli 9.8-made\n", "", "--version");
	RUNS(0, "kvcli 9.8-made\n", "", "-V get a");
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(runs(i ? "-h" : "--help get a"), 0);
		assert_memory_equal(seen->out, first, sizeof first - 1);
		assert_non_null(strstr(seen->out, " help\n\nOptions, before the command:\n"));
		assert_non_null(strstr(seen->out, "--stop-on-error"));
		assert_string_equal(seen->out + strlen(seen->out) - strlen(last), last);
		assert_string_equal(seen->err, "");
		assert_string_equal(seen->calls, "");
	}
}

static void wrong_options(void **state)
{
	static const char *const lines[] = { "--frobnicate get a", "-z get a", "--server" };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(runs(lines[i]), 2);
		assert_string_equal(seen->out, "");
		assert_memory_equal(seen->err, "kvcli: ", 7);
		assert_ptr_equal(strchr(seen->err, '\n'), strchr(seen->err, '\0') - 1);
		assert_string_equal(seen->calls, "");
	}
}

/* ------------------------------------------------------------------ commands */

/* All the words behind the options; a - of them is one that nobody quoted. */
static void a_command_is_run(void **state)
{
	(void)state;
	RUNS(0, "", "", "put a 1");
	assert_string_equal(seen->value, "1");
	RUNS(0, "", "", "-t 5 put a -- --device");
	assert_string_equal(seen->value, "--device");
	input = "what comes\n";
	RUNS(0, "", "", "put a -");
	assert_string_equal(seen->value, "what comes\n");
	RUNS(1, "", "kvcli: not found: \"a\"\n", "del a");
	RUNS(2, "", "kvcli: no command \"frobnicate\"; kvcli --help lists them\n", "frobnicate a");
}

static void no_command_is_a_batch(void **state)
{
	(void)state;
	input = "put a 1\nget a\n";
	RUNS(0, "OK\n1\n", "", "");
	RUNS(0, "OK\n1\n", "", "-t 5");
	input = "nonsense\nput a 2\n";
	RUNS(2, "ERROR no command \"nonsense\"; help lists them\nOK\n", "", "");
	assert_string_equal(seen->value, "2");
	RUNS(2, "ERROR no command \"nonsense\"; help lists them\n", "", "--stop-on-error");
	assert_string_equal(seen->value, "(none)");
	RUNS(2, "ERROR no command \"nonsense\"; help lists them\n", "", "-e");
}

/* ------------------------------------------------------------------ the output */

#define FULL "kvcli: standard output can't be written. Part of it is missing. Is the disk full?\n"

static void the_disk_is_full(void **state)
{
	(void)state;
	made_put("a", "1");
	output = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(output >= 0);
	RUNS(2, "", FULL, "get a");
	RUNS(2, "", FULL, "--version");
	RUNS(2, "", FULL, "--help");
	RUNS(1, "", "kvcli: not found: \"none\"\n", "get none"); /* had nothing to write */
	RUNS(2, "", "kvcli: not found: \"none\"\n" FULL, "get a none");
	input = "get a\n";
	RUNS(2, "", FULL, "");
	/* What is worse stays so. */
	made.fails = "done";
	made.result = KVD_EBUSY;
	made.well = 1;
	RUNS(3, "", "kvcli: done failed\n" FULL, "get a a");
	close(output);
}

/* Who closes the pipe has what was wanted of a command, but the rest of a batch was not run. */
static void nobody_reads_on(void **state)
{
	int ends[2];

	(void)state;
	made_put("a", "1");
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	output = ends[1];
	RUNS(0, "", "", "get a");
	RUNS(1, "", "kvcli: not found: \"none\"\n", "get a none");
	input = "get a\nget a\n";
	RUNS(2, "", "", "");
	close(ends[1]);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(options_say_how_to_connect),
		TEST(options_say_where_kvd_is),
		TEST(times_have_limits),
		TEST(help_and_version),
		TEST(wrong_options),
		TEST(a_command_is_run),
		TEST(no_command_is_a_batch),
		TEST(the_disk_is_full),
		TEST(nobody_reads_on),
	};

	seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
