/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli keys and flush: which keys are told, and how; when all of them go, and who is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/command/key.h"
#include "client/cli/session/interrupt.h"
#include "tests/unit/client/commands.h"
#include "tests/unit/said.h"

#define NOW_S 1790000000ll /* 2026-09-21T14:13:20Z */

static bool terminal;
static bool interrupted_at_once;

int clock_gettime(clockid_t id, struct timespec *t)
{
	assert_int_equal(id, CLOCK_REALTIME);
	*t = (struct timespec){ NOW_S, 500000000 };
	return 0;
}

int isatty(int fd)
{
	return terminal && fd == 0;
}

/* In place of client/cli/session/interrupt.c. */
bool cli_interrupted(void)
{
	return interrupted_at_once;
}

static int set_up(void **state)
{
	terminal = interrupted_at_once = in_shell = false;
	return made_begin(state);
}

/* ------------------------------------------------------------------ keys */

static void furnish(void)
{
	made_put("user:1", "Ada");
	made_put("user:22", "");
	made_put("\"quoted\"", "12345");
	made_put_bytes("u\0\n", 3, "x", 1);
	made_put("other key", "123456789012");
}

static void keys_are_told_line_by_line(void **state)
{
	(void)state;
	RUNS(0, "", "", &cli_keys, "");
	furnish();
	RUNS(0, "user:1\nuser:22\n\"\\\"quoted\\\"\"\n\"u\\x00\\n\"\nother key\n", "", &cli_keys, "");
	assert_string_equal(made.calls, "keys \n");
	RUNS(0,
	     "           3  user:1\n           0  user:22\n           5  \"\\\"quoted\\\"\"\n"
	     "           1  \"u\\x00\\n\"\n          12  other key\n", "", &cli_keys, "--long");
	RUNS(0, "user:1\nuser:22\n", "", &cli_keys, "--prefix user");
	assert_string_equal(made.calls, "keys user\n");
	RUNS(0,
	     "{\"key\":\"user:1\",\"value_bytes\":3}\n{\"key\":\"user:22\",\"value_bytes\":0}\n", "",
	     &cli_keys, "--json --prefix user");
}

static void keys_end_with_a_zero(void **state)
{
	static const char want[] = "           5  \"quoted\"\0           1  u\0\n\0";

	(void)state;
	furnish();
	assert_int_equal(run(&cli_keys, "--null '[\"u][!s]*'"), 0);
	assert_memory_equal(printed_out, "\"quoted\"\0u\0\n\0\0", 14);
	assert_int_equal(run(&cli_keys, "--null --long '[\"u][!s]*'"), 0);
	assert_memory_equal(printed_out, want, sizeof want);
}

static void patterns_are_asked_for_by_their_beginning(void **state)
{
	(void)state;
	furnish();
	RUNS(0, "user:22\n", "", &cli_keys, "'user:2*'");
	assert_string_equal(made.calls, "keys user:2\n");
	RUNS(0, "user:1\n", "", &cli_keys, "'user:?'");
	assert_string_equal(made.calls, "keys user:\n");
	RUNS(0, "{\"key\":\"user:1\",\"value_bytes\":3}\n", "", &cli_keys, "--json 'us*1'");
	RUNS(2, "",
	     "kvcli: keys: the pattern won't do: its beginning is a prefix: give one of the two\n",
	     &cli_keys, "a --prefix a");
	RUNS(2, "", "kvcli: keys: the pattern won't do: it has a [ without its ]\n", &cli_keys, "'a[b'");
	assert_string_equal(made.calls, "");
}

/* The most that a key can be, and a byte more. */
static void long_patterns(void **state)
{
	static char pattern[1026];
	struct cli cli = { .server = "here:1" };
	struct cli_args args = { .count = 1, .operand = &(struct cli_word){ pattern, 1024, true } };

	(void)state;
	memset(pattern, 'k', 1025);
	made_put_bytes(pattern, 1024, "", 0);
	FILE *was = stdout;
	stdout = fopen("/dev/null", "w");
	assert_int_equal(cli_keys.run(&cli, &args), 0);
	fclose(stdout);
	stdout = was;
	assert_int_equal(strlen(made.calls), 1024 + strlen("keys \n"));
	args.operand->bytes = 1025;
	said_begin();
	assert_int_equal(cli_keys.run(&cli, &args), 2);
	assert_string_equal(said_end(), "kvcli: keys: the pattern won't do: it is longer than any key\n");
	cli_disconnect(&cli);
}

static void what_can_not_be_listed(void **state)
{
	static const char both[] = "kvcli: keys: --json has the length, and ends lines; give it without "
				   "--long and --null\n";

	(void)state;
	furnish();
	RUNS(2, "", both, &cli_keys, "--json --long");
	RUNS(2, "", both, &cli_keys, "--json --null");
	RUNS(0, "user:1\nuser:22\n\"\\\"quoted\\\"\"\n\"u\\x00\\n\"\nother key\n", "", &cli_keys, "");
	fails("keys", KVD_EDENIED);
	RUNS(3, "", "kvcli: keys failed\n", &cli_keys, "");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_keys, "");
	fails(NULL, 0);
	interrupted_at_once = true;
	RUNS(0, "", "", &cli_keys, "");
	assert_string_equal(made.calls, "keys \nkeys stopped\n");
}

/* Nobody reads on: no more keys are asked for. */
static void output_that_fails_ends_it(void **state)
{
	static const char *const options[] = { "--json", "" };

	(void)state;
	furnish();
	for (unsigned i = 0; i < 2; i++) {
		struct cli cli = { .server = "here:1" };
		struct cli_args args = { .given = { [3] = *options[i] != '\0' } };
		FILE *was = stdout;

		made.calls[0] = '\0';
		stdout = fopen("/dev/null", "r"); /* can't be written */
		assert_int_equal(cli_keys.run(&cli, &args), 0);
		fclose(stdout);
		stdout = was;
		assert_string_equal(made.calls, "keys \nkeys stopped\n");
		cli_disconnect(&cli);
	}
}

/* ------------------------------------------------------------------ flush */

static void flush_wants_a_yes(void **state)
{
	static const char nobody[] = "kvcli: flush deletes every key, and nobody can be asked here. "
				     "Nothing was deleted. --yes deletes them\n";

	(void)state;
	furnish();
	RUNS(2, "", nobody, &cli_flush, "");
	RUNS(2, "", nobody, &cli_flush, "--delay 5");
	assert_string_equal(made.calls, "");
	RUNS(0, "", "", &cli_flush, "--yes");
	assert_string_equal(made.calls, "flush \n");
	assert_int_equal(made.items, 0);
	in_shell = true;
	RUNS(0, "OK\n", "", &cli_flush, "--yes");
	fails("flush", KVD_EDENIED);
	RUNS(3, "ERROR flush failed\n", "", &cli_flush, "--yes");
	fails("session_new", KVD_EBUSY);
	RUNS(3, "ERROR no session\n", "", &cli_flush, "--yes");
}

static void flush_at_a_time(void **state)
{
	(void)state;
	RUNS(0, "every key goes at 2026-09-21T14:13:21Z\n", "", &cli_flush, "--yes --at 1790000001");
	assert_string_equal(made.calls, "flush_at 1790000001000\n");
	RUNS(0, "every key goes at 9999-12-31T23:59:59Z\n", "", &cli_flush,
	     "--yes --at 9999-12-31T23:59:59Z");
	assert_string_equal(made.calls, "flush_at 253402300799000\n");
	/* Now is over; what comes next is not. */
	RUNS(2, "", "kvcli: --at is over; flush without it deletes now\n", &cli_flush,
	     "--yes --at 1790000000.5");
	RUNS(2, "", "kvcli: --at is over; flush without it deletes now\n", &cli_flush,
	     "--yes --at 1790000000");
	RUNS(0, "no flush is to come\n", "", &cli_flush, "--at never");
	assert_string_equal(made.calls, "flush_at 0\n");
	RUNS(2, "", "kvcli: --at wants 2026-12-31T23:59:59Z, a Unix time in seconds, or never\n",
	     &cli_flush, "--yes --at nevex");
	RUNS(2, "", "kvcli: --at wants 2026-12-31T23:59:59Z, a Unix time in seconds, or never\n",
	     &cli_flush, "--yes --at nevermore");
	RUNS(2, "", "kvcli: --at and --delay: give one of the two\n", &cli_flush,
	     "--yes --at never --delay 5");
	fails("flush_at", KVD_EINVAL);
	RUNS(2, "", "kvcli: flush_at failed\n", &cli_flush, "--at never");
}

static void flush_after_a_time(void **state)
{
	(void)state;
	RUNS(0, "every key goes at 2026-09-21T14:13:20Z\n", "", &cli_flush, "--yes --delay 499ms");
	assert_string_equal(made.calls, "flush_at 1790000000999\n");
	RUNS(0, "every key goes at 2126-08-28T14:13:20Z\n", "", &cli_flush, "--yes --delay 36500d");
	assert_string_equal(made.calls, "flush_at 4943600000500\n");
	RUNS(2, "", "kvcli: --delay wants a time from 1ms to 36500d, as 30, 1.5s, 500ms, 10m, 12h, 7d\n",
	     &cli_flush, "--yes --delay 0");
	assert_string_equal(made.calls, "");
}

/* On a terminal: what is typed, and what is asked. */
static void answers(int status, const char *typed, const char *question, const char *line)
{
	FILE *was = stdin;

	furnish();
	terminal = true;
	stdin = *typed ? fmemopen((char *)(uintptr_t)typed, strlen(typed), "r") : fopen("/dev/null", "r");
	assert_non_null(stdin);
	assert_int_equal(run(&cli_flush, line), status);
	fclose(stdin);
	stdin = was;
	assert_string_equal(printed_err, question);
	assert_string_equal(printed_out, status ? "nothing was deleted\n" :
				       strstr(line, "at") ? "every key goes at 2096-10-02T07:06:40Z\n" : "");
	assert_string_equal(made.calls, status ? "" : strstr(line, "at") ? "flush_at 4000000000000\n" :
									   "flush \n");
	terminal = false;
}

static void somebody_is_asked(void **state)
{
	static const char all[] = "Delete all 12 keys of here:1? [y/N] ";

	(void)state;
	made.stats = "{\"memory\":{\"keys\":7},\"keys\":12,\"more\":3}";
	answers(0, "y\n", all, "");
	answers(0, "yes\n", all, "");
	answers(1, "\n", all, "");
	answers(1, "n\n", all, "");
	answers(1, "y es\n", all, "");
	answers(1, "", "Delete all 12 keys of here:1? [y/N] \n", "");
	answers(0, "y\n", "Delete all 12 keys of here:1 at 2096-10-02T07:06:40Z? [y/N] ", "--at 4000000000");
	fails("stats", KVD_EBUSY);
	answers(1, "no\n", "Delete all keys of here:1? [y/N] ", "");
	fails(NULL, 0);
	made.stats = "{\"keys\":1234567890123456789012345678901234567890}";
	answers(0, "y\n", "Delete all 1234567890123456789012345678901 keys of here:1? [y/N] ", "");
	terminal = true;
	RUNS(0, "no flush is to come\n", "", &cli_flush, "--at never"); /* nobody has to be asked */
	RUNS(0, "", "", &cli_flush, "--yes");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keys_are_told_line_by_line),
		TEST(keys_end_with_a_zero),
		TEST(patterns_are_asked_for_by_their_beginning),
		TEST(long_patterns),
		TEST(what_can_not_be_listed),
		TEST(output_that_fails_ends_it),
		TEST(flush_wants_a_yes),
		TEST(flush_at_a_time),
		TEST(flush_after_a_time),
		TEST(somebody_is_asked),
	};

	setenv("TERM", "dumb", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
