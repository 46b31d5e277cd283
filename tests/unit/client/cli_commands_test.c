/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands of kvcli on single keys and on the server: what each asks kvd for, and what it prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/command/key.h"
#include "client/cli/command/server.h"
#include "client/cli/command/table.h"
#include "client/cli/session/answer.h"
#include "tests/unit/client/commands.h"

int isatty(int fd)
{
	(void)fd;
	return 0;
}

static int set_up(void **state)
{
	in_shell = false;
	return made_begin(state);
}

#define WANTS_TIME " wants a time from 1ms to 36500d, as 30, 1.5s, 500ms, 10m, 12h, 7d\n"

/* ------------------------------------------------------------------ changes */

static void put_says_what_is_wanted(void **state)
{
	(void)state;
	RUNS(0, "", "", &cli_put, "a 1 --ttl 2s --flags 4294967295 --if-absent");
	assert_string_equal(made.calls, "put a if-absent ttl 2000 flags 4294967295\n");
	RUNS(1, "", "kvcli: not done: \"a\" has version 1\n", &cli_put, "a 2 --if-absent");
	RUNS(1, "", "kvcli: not done: \"b\" is absent\n", &cli_put, "b 2 --if-present");
	RUNS(1, "", "kvcli: not done: \"a\" has version 1\n", &cli_put, "a 2 --if-version 2");
	assert_string_equal(made.calls, "put a if-version 2\n");
	RUNS(0, "", "", &cli_put, "a 2 --if-version 1");
	RUNS(0, "", "", &cli_put, "a 3 --if-present --flags 0");
	assert_string_equal(made_value("a"), "3");
	in_shell = true;
	RUNS(0, "OK\n", "", &cli_put, "a 4");
	RUNS(1, "(not done: \"a\" has version 4)\n", "", &cli_put, "a 2 --if-absent");
	fails("put", KVD_EUNKNOWN);
	made.mute = true;
	RUNS(3, "ERROR result -4\n", "", &cli_put, "a 4");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "ERROR result -3\n", "", &cli_put, "a 4");
}

static void puts_that_are_wrong(void **state)
{
	static const char one[] = "kvcli: put: one condition at the most\n";
	static const char version[] = "kvcli: put --if-version wants a version, as get --json prints it\n";

	(void)state;
	RUNS(2, "", one, &cli_put, "a 1 --if-absent --if-present");
	RUNS(2, "", one, &cli_put, "a 1 --if-absent --if-version 1");
	RUNS(2, "", one, &cli_put, "a 1 --if-present --if-version 1");
	RUNS(2, "", version, &cli_put, "a 1 --if-version 0");
	RUNS(2, "", version, &cli_put, "a 1 --if-version x");
	RUNS(2, "", "kvcli: put --flags wants a number of 32 bits, 0 to 4294967295\n", &cli_put,
	     "a 1 --flags 4294967296");
	RUNS(2, "", "kvcli: put --ttl" WANTS_TIME, &cli_put, "a 1 --ttl 0");
	RUNS(2, "", "kvcli: put: give a value or --file PATH, not both\n", &cli_put, "a 1 --file x");
	RUNS(2, "", "kvcli: put: no value; give one, or --file PATH, or - for standard input\n", &cli_put, "a");
	RUNS(2, "", "kvcli: put --file /none: No such file or directory\n", &cli_put, "a --file /none");
	RUNS(2, "", "kvcli: a path can't hold a zero byte\n", &cli_put, "a --file \"\\x00\"");
	in_shell = true;
	RUNS(2, "ERROR put: commands come from standard input here; use --file PATH, or '-' in quotes for "
	     "that value\n", "", &cli_put, "a -");
	assert_string_equal(made.calls, "");
	RUNS(0, "OK\n", "", &cli_put, "a '-'");
	assert_string_equal(made_value("a"), "-");
}

static void keys_are_deleted(void **state)
{
	(void)state;
	made_put("a", "");
	made_put("b", "");
	RUNS(1, "", "kvcli: not found: \"none\"\n", &cli_del, "a none b");
	assert_int_equal(made.items, 0);
	made_put("a", "");
	RUNS(0, "", "", &cli_del, "a");
	in_shell = true;
	made_put("a", "");
	RUNS(1, "(not found)\nOK\n", "", &cli_del, "none a");
	fails("del", KVD_EBUSY);
	made.well = 1;
	RUNS(3, "(not found)\nERROR del failed\nERROR del failed\n", "", &cli_del, "a b c");
	fails("del", KVD_EINVAL);
	made.once = true;
	RUNS(2, "ERROR del failed\n(not found)\n", "", &cli_del, "a b");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "ERROR here:1: nobody is there\n", "", &cli_del, "a");
	RUNS(3, "ERROR here:1: nobody is there\n", "", &cli_exists, "a");
	fails("exists", KVD_EBUSY);
	RUNS(3, "ERROR exists failed\n", "", &cli_exists, "a");
}

static void numbers_are_added_to(void **state)
{
	(void)state;
	RUNS(0, "1\n", "", &cli_incr, "n");
	assert_string_equal(made.calls, "incr n 1\n");
	RUNS(0, "42\n", "", &cli_incr, "n 41 --ttl 1.5s");
	assert_string_equal(made.calls, "incr n 41 ttl 1500\n");
	RUNS(0, "-8\n", "", &cli_decr, "n 50");
	RUNS(0, "-9\n", "", &cli_decr, "n");
	RUNS(0, "-7\n", "", &cli_decr, "n -2");
	RUNS(0, "9223372036854775807\n", "", &cli_decr, "m -9223372036854775807");
	RUNS(0, "-9223372036854775808\n", "", &cli_incr, "l -9223372036854775808");
	RUNS(2, "", "kvcli: decr: the amount is a whole number of 64 bits, as 1 or -20\n", &cli_decr,
	     "n -9223372036854775808");
	RUNS(2, "", "kvcli: incr: the amount is a whole number of 64 bits, as 1 or -20\n", &cli_incr, "n x");
	RUNS(2, "", "kvcli: --ttl" WANTS_TIME, &cli_incr, "n --ttl x");
	fails("incr", KVD_ENUMBER);
	RUNS(2, "", "kvcli: incr failed\n", &cli_incr, "n");
	fails("incr", KVD_ERANGE);
	RUNS(2, "", "kvcli: incr failed\n", &cli_incr, "n");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_incr, "n");
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_append, "n x");
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_touch, "n 5");
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_ttl, "n");
}

static void values_are_added_to(void **state)
{
	(void)state;
	RUNS(0, "", "", &cli_append, "a x");
	assert_string_equal(made.calls, "append a x\n");
	RUNS(0, "", "", &cli_prepend, "a y --ttl 3");
	assert_string_equal(made.calls, "prepend a y ttl 3000\n");
	in_shell = true;
	RUNS(0, "OK\n", "", &cli_append, "a x");
	RUNS(2, "ERROR prepend: no value; give one, or --file PATH, or - for standard input\n", "", &cli_prepend,
	     "a");
	RUNS(2, "ERROR --ttl" WANTS_TIME, "", &cli_append, "a x --ttl x");
	RUNS(2, "ERROR append --file /none: No such file or directory\n", "", &cli_append, "a --file /none");
	fails("append", KVD_ETOOBIG);
	RUNS(2, "ERROR append failed\n", "", &cli_append, "a x");
	fails("prepend", KVD_EFULL);
	RUNS(3, "ERROR prepend failed\n", "", &cli_prepend, "a x");
}

static void times_to_live(void **state)
{
	(void)state;
	made_put("a", "long value")->info.ttl_ms = 29074;
	made_put("b", "");
	RUNS(0, "29.074s\n", "", &cli_ttl, "a");
	RUNS(0, "never\n", "", &cli_ttl, "b");
	RUNS(0, "{\"key\":\"a\",\"ttl_ms\":29074}\n", "", &cli_ttl, "--json a");
	RUNS(0, "{\"key\":\"b\",\"ttl_ms\":null}\n", "", &cli_ttl, "--json b");
	RUNS(1, "", "kvcli: not found: \"none\"\n", &cli_ttl, "none");
	RUNS(1, "", "kvcli: not found: \"none\"\n", &cli_touch, "none 5");
	assert_string_equal(made.calls, "touch none 5000\n");
	RUNS(0, "", "", &cli_touch, "a never");
	assert_string_equal(made.calls, "touch a 0\n");
	RUNS(2, "", "kvcli: touch" WANTS_TIME, &cli_touch, "a soon");
	in_shell = true;
	RUNS(0, "OK\n", "", &cli_touch, "a 1");
	fails("touch", KVD_EDENIED);
	RUNS(3, "ERROR touch failed\n", "", &cli_touch, "a 1");
	fails("get_info", KVD_EBUSY);
	RUNS(3, "ERROR get_info failed\n", "", &cli_ttl, "a");
}

/* ------------------------------------------------------------------ get */

static void values_are_printed(void **state)
{
	struct made_item *item;

	(void)state;
	made_put("a", "1");
	made_put("b", "2");
	item = made_put_bytes("c\xff", 2, "\xfe", 1);
	item->info.ttl_ms = 60000;
	item->info.flags = 9;
	item->info.signs = KVD_STALE | KVD_CLAIMED;
	RUNS(0, "1", "", &cli_get, "a");
	RUNS(0, "1", "", &cli_get, "a --output -");
	RUNS(1, "12", "kvcli: not found: \"none\"\n", &cli_get, "a none b");
	RUNS(1, "", "kvcli: not found: \"none\"\n", &cli_get, "none");
	RUNS(1,
	     "{\"key\":\"a\",\"value\":\"1\",\"version\":1}\n{\"key\":\"none\",\"value\":null}\n"
	     "{\"key_base64\":\"Y/8=\",\"value_base64\":\"/g==\",\"version\":3,\"ttl_ms\":60000,\"flags\":9,"
	     "\"stale\":true,\"claimed\":true}\n", "", &cli_get, "--json a none \"c\\xff\"");
	RUNS(0, "{\"key\":\"b\",\"value\":\"2\",\"version\":2}\n", "", &cli_get, "--json b");
	RUNS(2, "", "kvcli: get: --output takes one value as it is; for several, send standard output to a file\n",
	     &cli_get, "a b --output x");
	RUNS(2, "", "kvcli: get: --output takes one value as it is; for JSON, send standard output to a file\n",
	     &cli_get, "a --json --output x");
	RUNS(2, "", "kvcli: a path can't hold a zero byte\n", &cli_get, "a --output \"\\x00\"");
	RUNS(2, "", "kvcli: get --output /none/x: No such file or directory\n", &cli_get, "a --output /none/x");
	in_shell = true;
	RUNS(0, "OK\n", "", &cli_get, "a --output /dev/null");
	RUNS(0, "1\n2\n", "", &cli_get, "a b");
	fails("get_alloc", KVD_EBUSY);
	RUNS(3, "ERROR get_alloc failed\n", "", &cli_get, "a");
	fails("done", KVD_ETOOBIG);
	made.once = true;
	RUNS(2, "1\nERROR done failed\n", "", &cli_get, "a b");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "ERROR here:1: nobody is there\n", "", &cli_get, "a");
	RUNS(3, "ERROR here:1: nobody is there\n", "", &cli_get, "a b");
}

static void nothing_is_kept(void **state)
{
	(void)state;
	made_put("a", "1");
	in_shell = true;
	keeps_nothing(&cli_get, "a");
	keeps_nothing(&cli_get, "a b");
	keeps_nothing(&cli_get, "a --output /none/x");
	keeps_nothing(&cli_put, "a --file /proc/version");
	keeps_nothing(&cli_put, "a --file /none");
	keeps_nothing(&cli_append, "a --file /proc/version");
	keeps_nothing(&cli_ping, "");
	made.stats = "{\"keys\":1}";
	keeps_nothing(&cli_stats, "");
	keeps_nothing(&cli_info, "");
	made.stats = "nonsense";
	keeps_nothing(&cli_stats, "");
	fails("ping", KVD_EBUSY);
	keeps_nothing(&cli_ping, "");
}

/* ------------------------------------------------------------------ the server */

static void pings(void **state)
{
	(void)state;
	assert_int_equal(run(&cli_ping, "--count 6"), 0);
	/* Of 1.0, 3.0, 7.1, 998.9, 999.9 and 2500 us. */
	assert_string_equal(printed_out, "6 round trips: min 1.0 us, median 998.9 us, max 2.50 ms\n");
	assert_int_equal(run(&cli_ping, "-n 1"), 0);
	assert_string_equal(printed_out, "1 round trip: min 2.50 ms, median 2.50 ms, max 2.50 ms\n");
	assert_int_equal(run(&cli_ping, ""), 0);
	assert_memory_equal(printed_out, "100 round trips: ", 17);
	assert_int_equal(strlen(made.calls), 100 * strlen("ping\n"));
	RUNS(2, "", "kvcli: ping --count wants a whole number from 1 to 1000000\n", &cli_ping, "-n 0");
	RUNS(2, "", "kvcli: ping --count wants a whole number from 1 to 1000000\n", &cli_ping, "-n 1000001");
	fails("ping", KVD_EBUSY);
	made.well = 2;
	RUNS(3, "", "kvcli: ping failed\n", &cli_ping, "");
	assert_string_equal(made.calls, "ping\nping\nping\n");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_ping, "");
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_stats, "");
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_info, "");
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_backup, "/x");
}

static const char figures[] =
	"{\"server\":{\"version\":\"1.2\",\"device\":\"soft\",\"uptime_seconds\":1234},\"rails\":[{\"device\":\"soft\"},"
	"{\"device\":\"mlx1\"}],\"connections\":2,\"keys\":1234567,\"ratio\":1.5,"
	"\"memory\":{\"used_bytes\":1536,\"budget_bytes\":1073741824},\"note\":\"longer than twenty-four letters\"}";

static void figures_are_shown(void **state)
{
	(void)state;
	made.stats = figures;
	RUNS(0,
	     "server.version               1.2\nserver.device               soft\nserver.uptime_seconds      1,234\n"
	     "rails.0.device              soft\nrails.1.device              mlx1\nconnections                    2\n"
	     "keys                   1,234,567\nratio                        1.5\nmemory.used_bytes        1.5 KiB\n"
	     "memory.budget_bytes        1 GiB\nnote                   longer than twenty-four letters\n",
	     "", &cli_stats, "");
	assert_int_equal(run(&cli_stats, "--json"), 0);
	assert_int_equal(strlen(printed_out), sizeof figures);
	assert_memory_equal(printed_out, figures, sizeof figures - 1);
	made.stats = "{\"keys\":12";
	RUNS(3, "", "kvcli: stats: here:1 answered with what is no JSON; is kvcli of the same version? (kvcli info)\n",
	     &cli_stats, "");
	fails("stats", KVD_EBUSY);
	RUNS(3, "", "kvcli: stats failed\n", &cli_stats, "");
	RUNS(3, "", "kvcli: stats failed\n", &cli_info, "");
}

static void server_and_device_are_shown(void **state)
{
	(void)state;
	made.stats = figures;
	assert_int_equal(run(&cli_info, ""), 0);
	assert_string_equal(printed_out,
	     "server       here:1\ndevice       made0, because it is made up\nlibkvd       9.8-made\n"
	     "kvd          1.2\nits device   soft\nits device   mlx1\nseconds up   1,234\nconnections  2\n"
	     "keys         1,234,567\nmemory used  1.5 KiB\nof at most   1 GiB\nround trip   998.9 us\n");
	assert_int_equal(run(&cli_info, "--json"), 0);
	assert_string_equal(printed_out,
	     "{\"server\":\"here:1\",\"device\":\"made0, because it is made up\",\"libkvd_version\":\"9.8-made\","
	     "\"kvd_version\":1.2,\"kvd_device\":\"soft\",\"uptime_seconds\":1234,\"connections\":2,\"keys\":1234567,"
	     "\"memory_used_bytes\":1536,\"memory_budget_bytes\":1073741824,\"round_trip_ns\":998900}\n");
	fails("ping", KVD_EBUSY);
	assert_int_equal(run(&cli_info, "--json"), 0);
	assert_null(strstr(printed_out, "round_trip"));
	assert_int_equal(run(&cli_info, ""), 0);
	assert_null(strstr(printed_out, "round trip"));
}

static void backups(void **state)
{
	char line[400] = "/", want[sizeof line + 8];

	(void)state;
	RUNS(0, "OK\n", "", &cli_backup, "/var/backup");
	assert_string_equal(made.calls, "backup /var/backup\n");
	memset(line + 1, 'x', 390);
	snprintf(want, sizeof want, "backup %s\n", line);
	RUNS(0, "OK\n", "", &cli_backup, line);
	assert_string_equal(made.calls, want);
	RUNS(2, "", "kvcli: backup: that is no path\n", &cli_backup, "\"a\\x00b\"");
	assert_string_equal(made.calls, "");
	fails("backup", KVD_EDISK);
	RUNS(3, "", "kvcli: backup failed\n", &cli_backup, "/x");
}

/* ------------------------------------------------------------------ the table */

static int run_words(struct cli *cli, const struct cli_args *args)
{
	return cli_command_run(cli, args->operand, args->count);
}

static const struct cli_command any = { .run = run_words };

static void commands_are_found(void **state)
{
	static const char *const others[][2] = {
		{ "set", "put" }, { "delete", "del" }, { "rm", "del" }, { "remove", "del" }, { "list", "keys" },
		{ "ls", "keys" }, { "scan", "keys" }, { "clear", "flush" }, { "flushall", "flush" },
		{ "mget", "get" }, { "inc", "incr" }, { "dec", "decr" }, { "expire", "touch" },
		{ "persist", "touch" }, { "store", "put-tree" }, { "fetch", "get-tree" }, { "pt", "put" },
		{ "gte", "get" }, { "udpate", "update" }, { "inof", "info" },
	};
	char want[96];

	(void)state;
	RUNS(0, "", "", &any, "put a 1");
	for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
		snprintf(want, sizeof want, "kvcli: no command \"%s\"; did you mean %s?\n", others[i][0], others[i][1]);
		RUNS(2, "", want, &any, others[i][0]);
	}
	RUNS(2, "", "kvcli: no command \"frobnicate\"; kvcli --help lists them\n", &any, "frobnicate");
	RUNS(2, "", "kvcli: no command \"pu\"; did you mean put?\n", &any, "pu a 1");
	RUNS(2, "", "kvcli: exists: too many words; usage: exists KEY\n", &any, "exists a b");
	RUNS(2, "", "kvcli: exists: something is missing; usage: exists KEY\n", &any, "exists");
	RUNS(2, "", "kvcli: ping: too many words; usage: ping [OPTION]...\n", &any, "ping a");
	in_shell = true;
	RUNS(2, "ERROR no command \"frobnicate\"; help lists them\n", "", &any, "frobnicate");
	RUNS(2, "ERROR no command \"frobnicate\"; help lists them\n", "", &any, "help frobnicate");
}

static void help_is_given(void **state)
{
	static const char of_exists[] = "Usage: kvcli exists KEY\n\nPrints yes, with status 0, or no, with status 1.\n"
					"\nOptions:\n      --help           show this\n";

	(void)state;
	RUNS(0, of_exists, "", &any, "help exists");
	RUNS(0, "Usage: kvcli ttl [OPTION]... KEY\n\nPrints when the key expires, as 29.874s from now, or never.\n"
	     "\nOptions:\n  -j, --json           as a JSON object\n      --help           show this\n", "", &any, "help ttl");
	assert_int_equal(run(&any, "help ping"), 0);
	assert_memory_equal(printed_out, "Usage: kvcli ping [OPTION]...\n\n", 31);
	assert_int_equal(run(&any, "help put"), 0);
	assert_non_null(strstr(printed_out, "\n      --if-version N   only if"));
	assert_int_equal(run(&any, "help"), 0);
	assert_memory_equal(printed_out, "  put        store a value              get-tree   write keys as files\n", 67);
	assert_non_null(strstr(printed_out, "\n  put-tree   store a folder's files\n"));
	assert_null(strstr(printed_out, "quit"));
	in_shell = true;
	assert_int_equal(run(&any, "help"), 0);
	assert_non_null(strstr(printed_out, "\n  quit       leave; so does Ctrl-D\n"));
}

static int print_names(struct cli *cli, const struct cli_args *args)
{
	(void)cli, (void)args;
	cli_command_names();
	return 0;
}

static void names_fill_lines(void **state)
{
	static const struct cli_command names = { .run = print_names };

	(void)state;
	RUNS(0, "  put get del exists incr decr append prepend touch ttl keys flush lock update\n"
	     "  txn put-tree get-tree check-tree backup export import ping info stats user\n"
	     "  cluster top devices doctor counters help\n", "", &names, "");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(put_says_what_is_wanted),
		TEST(puts_that_are_wrong),
		TEST(keys_are_deleted),
		TEST(numbers_are_added_to),
		TEST(values_are_added_to),
		TEST(times_to_live),
		TEST(values_are_printed),
		TEST(nothing_is_kept),
		TEST(pings),
		TEST(figures_are_shown),
		TEST(server_and_device_are_shown),
		TEST(backups),
		TEST(commands_are_found),
		TEST(help_is_given),
		TEST(names_fill_lines),
	};

	setenv("TERM", "dumb", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
