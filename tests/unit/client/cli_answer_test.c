/* SPDX-License-Identifier: BSD-2-Clause */
/* How kvcli answers on a terminal and elsewhere: colours, quotes, ends of lines.  And what it connects
 * with, and what is left of a connection that was not made. */
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

#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "tests/unit/client/made_kvd.h"
#include "tests/unit/said.h"

static bool terminal[3];

int isatty(int fd)
{
	return fd >= 0 && fd < 3 && terminal[fd];
}

static int set_up(void **state)
{
	memset(terminal, 0, sizeof terminal);
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	return made_begin(state);
}

static void reads(int memory, const char *want)
{
	char text[512];
	ssize_t n = pread(memory, text, sizeof text - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
	assert_string_equal(text, want);
	close(memory);
}

/* What a terminal is like is found out once, so each answer is that of a process of its own. */
static void answers(void (*answer)(struct cli *cli), bool shell, const char *out, const char *err)
{
	int status, memory[2] = { memfd_create("out", MFD_CLOEXEC), memfd_create("err", MFD_CLOEXEC) };

	assert_true(memory[0] >= 0 && memory[1] >= 0);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct cli cli = { .shell = shell };
		alarm(10);
		dup2(memory[0], 1);
		dup2(memory[1], 2);
		answer(&cli);
		fflush(stdout);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	reads(memory[0], out);
	reads(memory[1], err);
}

/* ------------------------------------------------------------------ colours */

#define RED "\033[1;31m"
#define FAINT "\033[2m"
#define PLAIN "\033[0m"

static void error(struct cli *cli)
{
	cli_fail(cli, CLI_USAGE, "it is %s", "so");
}

/* Each stream for itself: an error is on standard error, but in a shell on standard output. */
static void errors_are_red_where_they_are_shown(void **state)
{
	(void)state;
	answers(error, false, "", "kvcli: it is so\n");
	answers(error, true, "ERROR it is so\n", "");
	terminal[1] = true;
	answers(error, false, "", "kvcli: it is so\n");
	answers(error, true, RED "ERROR " PLAIN "it is so\n", "");
	terminal[1] = false;
	terminal[2] = true;
	answers(error, false, "", RED "kvcli: " PLAIN "it is so\n");
	answers(error, true, "ERROR it is so\n", "");
}

static void some_want_no_colour(void **state)
{
	static const char in_red[] = RED "kvcli: " PLAIN "it is so\n", plain[] = "kvcli: it is so\n";

	(void)state;
	terminal[2] = true;
	setenv("NO_COLOR", "1", 1);
	answers(error, false, "", plain);
	setenv("NO_COLOR", "", 1); /* counts as if it were not there */
	answers(error, false, "", in_red);
	unsetenv("NO_COLOR");
	answers(error, false, "", in_red);
	setenv("TERM", "dumb", 1);
	answers(error, false, "", plain);
	unsetenv("TERM");
	answers(error, false, "", plain);
}

static void no_key(struct cli *cli)
{
	cli_not_found(cli, "a\033", 2);
}

static void what_is_not_found_is_faint(void **state)
{
	(void)state;
	answers(no_key, true, "(not found)\n", "");
	terminal[2] = true;
	answers(no_key, true, "(not found)\n", "");
	terminal[1] = true;
	answers(no_key, true, FAINT "(not found)" PLAIN "\n", "");
	answers(no_key, false, "", "kvcli: not found: \"a\\x1b\"\n");
}

static void wild_error(struct cli *cli)
{
	cli_fail(cli, CLI_SERVER, "%s", "~a\033[2J\177b\nc\t\x1f!\xc3\xa4");
}

/* What a server wrote moves no terminal, and is one line. */
static void errors_have_no_controls(void **state)
{
	(void)state;
	answers(wild_error, false, "", "kvcli: ~a [2J b c  !\xc3\xa4\n");
	answers(wild_error, true, "ERROR ~a [2J b c  !\xc3\xa4\n", "");
}

/* ------------------------------------------------------------------ values */

static const char *value;
static size_t value_bytes;

static void print_value(struct cli *cli)
{
	if (cli_value_answer(cli, value, value_bytes) != CLI_DONE)
		abort();
}

static void prints(const char *text, const char *out, const char *in_shell)
{
	value = text;
	value_bytes = strlen(text);
	answers(print_value, false, out, "");
	answers(print_value, true, in_shell, "");
}

/* Without a terminal nothing is added, but in a shell, where each answer is a line. */
static void values_elsewhere(void **state)
{
	(void)state;
	prints("text", "text", "text\n");
	prints("text\n", "text\n", "text\n\n");
	prints("\033[2J\xff", "\033[2J\xff", "\033[2J\xff\n");
	prints("", "", "\n");
}

static void values_on_a_terminal(void **state)
{
	(void)state;
	terminal[1] = true;
	prints("text", "text\n", "text\n");
	prints("two\n\tlines\n", "two\n\tlines\n", "two\n\tlines\n\n");
	prints("\033[2J\xff", "\"\\x1b[2J\\xff\"\n", "\"\\x1b[2J\\xff\"\n");
	prints("\001\n", "\"\\x01\\n\"\n", "\"\\x01\\n\"\n");
	prints(strchr("\n", '\0'), "\n", "\n"); /* what stands before an empty value is none of it */
}

/* ------------------------------------------------------------------ the connection */

static void it_connects_as_it_is_told(void **state)
{
	struct cli cli = { .server = "here:1", .device = "made0", .credentials = "/some/file", .timeout_ms = 1234 };
	int status = 77;
	kvd_session *session = cli_connect(&cli, &status);

	(void)state;
	assert_non_null(session);
	assert_int_equal(made.options.timeout_ms, 1234);
	assert_string_equal(made.options.device, "made0");
	assert_string_equal(made.options.credentials, "/some/file");
	/* The next command has the same one. */
	assert_ptr_equal(cli_connect(&cli, &status), session);
	assert_int_equal(made.count, 2);
	assert_int_equal(status, 77);
	cli_disconnect(&cli);
	assert_null(cli.session);
	assert_null(cli.client);
	assert_int_equal(made.clients + made.sessions, 0);
}

/* A later command of a shell begins anew, and may do better. */
static void nothing_is_left_of_a_failure(void **state)
{
	static const char *const calls[][2] = { { "client_new", "kvcli: here:1: nobody is there\n" },
						{ "session_new", "kvcli: no session\n" } };
	struct cli cli = { .server = "here:1" };
	int status;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		made.fails = calls[i][0];
		made.result = KVD_ECONNECT;
		made.well = 0;
		made.once = true;
		said_begin();
		assert_null(cli_connect(&cli, &status));
		assert_string_equal(said_end(), calls[i][1]);
		assert_int_equal(status, CLI_SERVER);
		assert_null(cli.client);
		assert_int_equal(made.clients, 0);
		made.count = 0;
		assert_non_null(cli_connect(&cli, &status));
		assert_int_equal(made.count, 2); /* a client, and a session */
		cli_disconnect(&cli);
	}
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(errors_are_red_where_they_are_shown),
		TEST(some_want_no_colour),
		TEST(what_is_not_found_is_faint),
		TEST(errors_have_no_controls),
		TEST(values_elsewhere),
		TEST(values_on_a_terminal),
		TEST(it_connects_as_it_is_told),
		TEST(nothing_is_left_of_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
