/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli txn: what a batch may be, what is done of it and how often, and what it prints. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/command/key.h"
#include "tests/unit/client/commands.h"
#include "tests/unit/read_chk.h"

static bool terminal;
static struct timespec now;
static long step_ns; /* the clock goes on so much, each time that it is looked at */
static const char *input;
static int input_error;

int clock_gettime(clockid_t id, struct timespec *t)
{
	assert_int_equal(id, CLOCK_MONOTONIC);
	*t = now;
	now.tv_nsec += step_ns;
	now.tv_sec += now.tv_nsec / 1000000000;
	now.tv_nsec %= 1000000000;
	return 0;
}

int isatty(int fd)
{
	return terminal && fd == 1;
}

/* Standard input. */
ssize_t read(int fd, void *to, size_t bytes)
{
	size_t left = strlen(input);

	assert_int_equal(fd, 0);
	if (!left && input_error) {
		errno = input_error;
		return -1;
	}
	bytes = left < bytes ? left : bytes;
	memcpy(to, input, bytes);
	input += bytes;
	return (ssize_t)bytes;
}

static int set_up(void **state)
{
	terminal = in_shell = false;
	now = (struct timespec){ 5, 999999999 };
	step_ns = 1000000;
	input = "";
	input_error = 0;
	return made_begin(state);
}

/* ------------------------------------------------------------------ what is done */

static void each_operation(void **state)
{
	(void)state;
	made_put("a", "1");
	made_put("long key", "two words");
	RUNS(0, "1\ntwo words\n(not found)\n", "", &cli_txn, "'get a' 'get \"long key\"' 'get none'");
	assert_string_equal(made.calls, "txn_get a 4096\ntxn_get long key 4096\ntxn_get none 4096\n"
					"txn_commit\n");
	RUNS(0, "3\n(not found)\n", "", &cli_txn,
	     "'check a 1' 'put a 3' 'present a' 'absent none' 'del \"long key\"' 'get a' 'get \"long key\"' "
	     "'put empty \"\"'");
	assert_string_equal(made_value("a"), "3");
	assert_null(made_value("long key"));
	assert_string_equal(made_value("empty"), "");
	RUNS(0, "\n3\n", "", &cli_txn, "'get empty' 'check empty \"\"' 'get a'");
	assert_int_equal(made.txns, 0);
}

static void a_check_that_fails(void **state)
{
	(void)state;
	made_put("a", "12");
	RUNS(1, "", "kvcli: \"a\" has another value: nothing was done\n", &cli_txn,
	     "'put a 3' 'check a 12' 'put b 1'");
	RUNS(1, "", "kvcli: \"a\" has another value: nothing was done\n", &cli_txn, "'get a' 'check a 1'");
	RUNS(1, "", "kvcli: \"a\" has another value: nothing was done\n", &cli_txn, "'check a 123'");
	RUNS(1, "", "kvcli: \"a\" has another value: nothing was done\n", &cli_txn, "'check a 13'");
	RUNS(1, "", "kvcli: \"none\" is not there: nothing was done\n", &cli_txn, "'check none 1' 'del a'");
	RUNS(1, "", "kvcli: \"none\" is not there: nothing was done\n", &cli_txn, "'present none'");
	RUNS(1, "", "kvcli: \"a\" is there: nothing was done\n", &cli_txn, "'put b 1' 'absent a'");
	assert_string_equal(made.calls, "txn_put b\ntxn_get a 4096\n");
	RUNS(1, "", "kvcli: \"none\" is not there: nothing was done\n", &cli_txn, "'check none \"\"'");
	assert_string_equal(made_value("a"), "12");
	assert_int_equal(made.items, 1);
	assert_int_equal(made.txns, 0);
}

/* Longer than the first buffer, and longer again when it is read again. */
static void long_values(void **state)
{
	static char value[5000], want[5200];

	(void)state;
	memset(value, 'v', sizeof value);
	memcpy(want, value, sizeof value);
	made_put_bytes("fits", 4, value, 4096);
	made_put_bytes("long", 4, value, 4097);
	made_put_bytes("a", 1, "1", 1);
	assert_int_equal(run(&cli_txn, "'get fits' 'get long' 'get a'"), 0);
	assert_int_equal(strlen(printed_out), 4096 + 4097 + 1 + 3);
	assert_string_equal(printed_out + 4096 + 4097 + 1, "\n1\n");
	assert_string_equal(made.calls, "txn_get fits 4096\ntxn_get long 4096\ntxn_get long 4097\n"
					"txn_get a 4097\ntxn_commit\n");
	made.meanwhile = 100;
	assert_int_equal(run(&cli_txn, "'get long'"), 0);
	memset(want + 4097, '+', 100);
	want[4197] = '\n';
	want[4198] = '\0';
	assert_string_equal(printed_out, want);
	assert_string_equal(made.calls, "txn_get long 4096\ntxn_get long 4097\ntxn_get long 4197\n"
					"txn_commit\n");
}

/* ------------------------------------------------------------------ what a batch is */

#define FORMS "there are get KEY, put KEY VALUE, del KEY, check KEY VALUE, present KEY, absent KEY\n"

static void batches_that_are_wrong(void **state)
{
	(void)state;
	made_put("a", "1");
	RUNS(2, "", "kvcli: txn: \"get\" with 0 words behind it is no operation; " FORMS, &cli_txn,
	     "'put a 9' get");
	RUNS(2, "", "kvcli: txn: \"put\" with 1 words behind it is no operation; " FORMS, &cli_txn,
	     "'put a'");
	RUNS(2, "", "kvcli: txn: \"del\" with 2 words behind it is no operation; " FORMS, &cli_txn,
	     "'del a b' 'steal a'");
	RUNS(2, "", "kvcli: txn: \"steal\" with 1 words behind it is no operation; " FORMS, &cli_txn,
	     "'steal a'");
	assert_int_equal(run(&cli_txn, "'put a 9' 'put a \"' 'steal'"), 2);
	assert_memory_equal(printed_err, "kvcli: txn: ", 12);
	assert_null(strstr(printed_err, "steal"));
	assert_string_equal(made.calls, "");
	assert_int_equal(made.count, 0);
	assert_string_equal(made_value("a"), "1");
}

static void lines_of_standard_input(void **state)
{
	(void)state;
	input = "# a batch\nput a 4\n\n  \nget a\n# get b\nget 'b c'";
	made_put("b c", "words");
	RUNS(0, "4\nwords\n", "", &cli_txn, "");
	input = "put a 5\nfrobnicate\nput\n";
	RUNS(2, "", "kvcli: txn: \"frobnicate\" with 0 words behind it is no operation; " FORMS, &cli_txn,
	     "");
	assert_string_equal(made_value("a"), "4");
	RUNS(0, "", "", &cli_txn, "");
	input = "put a 6\n";
	input_error = EISDIR;
	RUNS(2, "", "kvcli: standard input: Is a directory\n", &cli_txn, "");
	assert_string_equal(made_value("a"), "4");
	in_shell = true;
	RUNS(2, "ERROR txn: in a shell its lines are its words: txn 'check a 1' 'put a 2'\n", "", &cli_txn,
	     "");
	RUNS(0, "4\nOK\n", "", &cli_txn, "'get a'");
}

/* More than there is room for at once. */
static void many_operations(void **state)
{
	static char lines[16 * 1024], want[16 * 1024];

	(void)state;
	made_put("a", "1");
	for (unsigned i = 0; i < 200; i++) {
		snprintf(lines + strlen(lines), 64, "get %s\n", i % 3 ? "none" : "a");
		strcat(want, i % 3 ? "(not found)\n" : "1\n");
	}
	input = lines;
	RUNS(0, want, "", &cli_txn, "");
}

/* ------------------------------------------------------------------ what goes wrong */

static void calls_that_fail(void **state)
{
	static const char *const calls[] = { "txn_new", "txn_get", "txn_put", "txn_del", "txn_commit" };
	char want[64];

	(void)state;
	made_put("a", "1");
	for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		fails(calls[i], KVD_EBUSY);
		snprintf(want, sizeof want, "kvcli: %s failed\n", calls[i]);
		RUNS(3, "", want, &cli_txn, "'get a' 'put a 2' 'del a' 'get a'");
		assert_int_equal(made.txns, 0);
		assert_string_equal(made_value("a"), "1");
	}
	fails("txn_put", KVD_ETOOBIG);
	RUNS(2, "", "kvcli: txn_put failed\n", &cli_txn, "'put a 2' 'get a'");
	assert_string_equal(made.calls, "txn_put a\n");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_txn, "'get a'");
	assert_string_equal(made.calls, "");
}

#define AGAIN "kvcli: txn: others changed what it read, again and again. Nothing was done\n"

/* From the start: what was read before is forgotten. */
static void others_change_it(void **state)
{
	(void)state;
	made_put("a", "1");
	made.conflicts = 3;
	RUNS(0, "1\n", "", &cli_txn, "'get a' 'put b 2'");
	assert_string_equal(made.calls, "txn_get a 4096\ntxn_put b\ntxn_commit\n"
					"txn_get a 4096\ntxn_put b\ntxn_commit\n"
					"txn_get a 4096\ntxn_put b\ntxn_commit\n"
					"txn_get a 4096\ntxn_put b\ntxn_commit\n");
	assert_string_equal(made_value("b"), "2");
	/* A read that finds so: the same. */
	fails("txn_get", KVD_CONDITION);
	made.well = 1;
	made.once = true;
	RUNS(0, "1\n1\n", "", &cli_txn, "'get a' 'put b 3' 'get a' 'del c'");
	assert_string_equal(made.calls, "txn_get a 4096\ntxn_put b\ntxn_get a 4096\n"
					"txn_get a 4096\ntxn_put b\ntxn_get a 4096\ntxn_del c\ntxn_commit\n");
}

static void not_for_ever(void **state)
{
	(void)state;
	made_put("a", "1");
	made.conflicts = 1000;
	step_ns = 100000000;
	/* 700 ms: at 100, 200, ..., 600 it is not over; at 700 it is. */
	RUNS(1, "", AGAIN, &cli_txn, "'get a' 'put b 2'");
	assert_int_equal(1000 - made.conflicts, 7);
	assert_null(made_value("b"));
	/* Half a second each, and 5 s where nothing is said. */
	made.conflicts = 1000;
	step_ns = 500000000;
	struct cli cli = { .server = "here:1" };
	assert_int_equal(printed_run(&cli, cli_txn.options, cli_txn.run, "'get a'"), 1);
	assert_int_equal(1000 - made.conflicts, 10);
	cli_disconnect(&cli);
}

static void a_terminal_gets_no_controls(void **state)
{
	(void)state;
	made_put("a", "\033[1m");
	made_put("b", "text\nof two lines");
	RUNS(0, "\033[1m\n", "", &cli_txn, "'get a'");
	terminal = true;
	RUNS(0, "\"\\x1b[1m\"\ntext\nof two lines\n(not found)\n", "", &cli_txn,
	     "'get a' 'get b' 'get c'");
}

static void memory_is_given_back(void **state)
{
	(void)state;
	made_put("a", "1");
	made_put("b", "2");
	keeps_nothing(&cli_txn, "'get a' 'get b' 'put a 1' '# get a' ''");
	keeps_nothing(&cli_txn, "'get a' 'check b 1' 'get b'");
	fails("txn_commit", KVD_CONDITION);
	made.once = true;
	keeps_nothing(&cli_txn, "'get a'");
}

static const char lines[] = "get a\nget none\n";

static void rewind_input(void)
{
	input = lines;
}

static void memory_of_input_is_given_back(void **state)
{
	(void)state;
	rewind_input();
	made.asked = rewind_input; /* for the next run */
	keeps_nothing(&cli_txn, "");
}

static unsigned commits;

static void conflict_at_each(void)
{
	made.conflicts = ++commits % 3 != 0;
}

static void memory_of_attempts_is_given_back(void **state)
{
	(void)state;
	made_put("a", "1");
	made.asked = conflict_at_each;
	keeps_nothing(&cli_txn, "'get a' 'get a'");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_operation),
		TEST(a_check_that_fails),
		TEST(long_values),
		TEST(batches_that_are_wrong),
		TEST(lines_of_standard_input),
		TEST(many_operations),
		TEST(calls_that_fail),
		TEST(others_change_it),
		TEST(not_for_ever),
		TEST(a_terminal_gets_no_controls),
		TEST(memory_is_given_back),
		TEST(memory_of_input_is_given_back),
		TEST(memory_of_attempts_is_given_back),
	};

	setenv("TERM", "dumb", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
