/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli cluster and doctor --cluster: what they print of members that say this and that. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

#include <cmocka.h>

#include "client/cli/cluster/command.h"
#include "client/cli/cluster/doctor.h"
#include "client/cli/session/session.h"
#include "tests/unit/client/made_members.h"
#include "tests/unit/client/printed.h"
#include "tests/unit/descriptors.h"

static long slewed; /* of the clock, as adjtimex() has it */
static int clock_state;

int adjtimex(struct timex *t)
{
	t->freq = slewed;
	return clock_state;
}

/* The first address that was given is the one that is asked. */
static int run(const char *line)
{
	struct cli cli = { .server = servers[0].address ? servers[0].address : "nobody:1",
			   .timeout_ms = 5000, .device = "mlx5_1", .credentials = "op.key" };
	int open = count_descriptors(), status = printed_run(&cli, cluster_options, cluster_run, line);

	cli_disconnect(&cli);
	assert_int_equal(count_descriptors(), open);
	assert_int_equal(sessions, 0);
	assert_int_equal(clients, 0);
	return status;
}

static void two_well(void)
{
	serve(ADDRESS("a"), SELF("a", "primary", WELL EPOCH(5) MEMBERS(A "," B)));
	serve(ADDRESS("b"), SELF("b", "backup", WELL EPOCH(5) MEMBERS(MEMBER("a", "primary", "") ","
								      MEMBER("b", "backup", ""))));
}

static void says(const char *text)
{
	if (!strstr(printed_out, text))
		fail_msg("\"%s\" is not in\n%s", text, printed_out);
}

static void keeps_to_itself(const char *text)
{
	if (strstr(printed_out, text))
		fail_msg("\"%s\" is in\n%s", text, printed_out);
}

/* ------------------------------------------------------------------ status */

static void all_is_well(void **state)
{
	(void)state;
	two_well();
	assert_int_equal(run("status"), 0);
	assert_string_equal(printed_out,
			    "epoch 5, reign 3, 2 of 2 copies in sync, ZooKeeper zk:2181\n\n"
			    "MEMBER  CLIENTS   ROLE     IN SYNC     LAG   SILENT  STATE\n"
			    "a       a:1,xa:2  primary  yes           -        -  serves, lease 700 ms\n"
			    "b       b:1,xb:2  backup   yes           7    40 ms  backup\n\nAll is well.\n");
	assert_string_equal(printed_err, "");
	assert_int_equal(longest_wait_ms, 1000);
	assert_string_equal(device, "mlx5_1"); /* the others are asked as the first one was */
	assert_string_equal(credentials, "op.key");
	assert_int_equal(run("status --json"), 0);
	assert_string_equal(printed_out, "{\"epoch\":5,\"reign\":3,\"copies\":2,\"in_sync\":2,\"agreement\":\"zk:2181\","
			    "\"primary\":\"a\",\"is_well\":true,\"members\":["
			    "{\"name\":\"a\",\"clients\":\"a:1,xa:2\",\"role\":\"primary\",\"in_sync\":true,"
			    "\"answers\":true,\"listed\":true,\"silent_ms\":null,\"lag_records\":null,"
			    "\"copied_percent\":null,\"state\":\"primary\",\"version\":\"1.5\",\"fit\":true,"
			    "\"reaches_agreement\":true,\"epoch\":5,\"lease_left_ms\":700,\"keys\":12,"
			    "\"failovers\":0,\"failover_seconds\":0.000},"
			    "{\"name\":\"b\",\"clients\":\"b:1,xb:2\",\"role\":\"backup\",\"in_sync\":true,"
			    "\"answers\":true,\"listed\":true,\"silent_ms\":40,\"lag_records\":7,"
			    "\"copied_percent\":null,\"state\":\"backup\",\"version\":\"1.5\",\"fit\":true,"
			    "\"reaches_agreement\":true,\"epoch\":5,\"lease_left_ms\":700,\"keys\":12,"
			    "\"failovers\":0,\"failover_seconds\":0.000}]}\n");
}

/* The longest name and the longest addresses make the columns. */
static void columns_are_as_wide_as_they_must_be(void **state)
{
	(void)state;
	serve("one", SELF("longest-name", "primary", WELL EPOCH(5) "\"members\":["
			  "{\"name\":\"longest-name\",\"clients\":\"12345678\",\"role\":\"primary\",\"there\":true},"
			  "{\"name\":\"b\",\"clients\":\"\",\"role\":\"out\",\"there\":false}]"));
	assert_int_equal(run("status"), 1);
	says("MEMBER        CLIENTS   ROLE     IN SYNC     LAG   SILENT  STATE\n"
	     "longest-name  12345678  primary  yes           -        -  serves, lease 700 ms\n"
	     "b             -         out      no            -        -  gone\n\n");
	assert_int_equal(run("status --json"), 1); /* who has no address is not asked */
	says("\"why\":\"\"}]}\n");
}

static void a_lost_copy(void **state)
{
	(void)state;
	serve(ADDRESS("a"), SELF("a", "primary", WELL EPOCH(5) MEMBERS(A "," B "," C)));
	serve(ADDRESS("c"), SELF("c", "out", WELL EPOCH(5) MEMBERS("")));
	assert_int_equal(run("status"), 1);
	says("1 of 2 copies in sync");
	says("b       b:1,xb:2  backup   yes           7    40 ms  does not answer\n");
	says("c       c:1,xc:2  out      no            -        -  out\n");
	says("\n1 of 2 copies are there: the next loss is the loss of all. Lost: b. Start a kvd with the same "
	     "--cluster, --cluster-key and --memory: it is copied to.\n");
	keeps_to_itself("All is well");
	assert_int_equal(run("status --json"), 1);
	assert_memory_equal(printed_out, "{\"epoch\":5,", 11); /* and no word beside it */
	says("\"in_sync\":1,");
	says("\"is_well\":false,");
	says("\"answers\":false,\"listed\":true,\"silent_ms\":40,\"lag_records\":7,\"copied_percent\":null,"
	     "\"why\":\"b:1,xb:2: nobody is there\"}");
}

/* Of three, two that are lost, one that never was. */
static void more_copies_than_one(void **state)
{
	(void)state;
	serve(ADDRESS("a"), SELF("a", "primary", WELL "\"epoch\":5,\"copies\":3," MEMBERS(A "," B)));
	serve(ADDRESS("b"), SELF("b", "backup", WELL EPOCH(4) MEMBERS(SAME_B)));
	assert_int_equal(run("status"), 1);
	says("\n2 of 3 copies are there. Start a kvd with");
	servers[0].json = SELF("a", "primary", WELL "\"epoch\":5,\"copies\":4," MEMBERS(
		A "," B "," MEMBER("d", "backup", "") "," MEMBER("e", "backup", "")));
	assert_int_equal(run("status"), 1);
	says("\n2 of 4 copies are there. Lost: d, e. Start a kvd with");
	servers[0].json = SELF("a", "primary", WELL "\"epoch\":5,\"copies\":1," MEMBERS(A "," B));
	assert_int_equal(run("status"), 0);
	keeps_to_itself("copies are there");
}

static void a_copy_that_is_made(void **state)
{
	(void)state;
	serve(ADDRESS("a"), SELF("a", "primary", WELL EPOCH(5)
				 "\"copy\":{\"to\":\"c\",\"percent\":40},"
				 MEMBERS(A "," B "," MEMBER("c", "joining", ""))));
	serve(ADDRESS("b"), SELF("b", "backup", WELL EPOCH(5) MEMBERS(SAME_B)));
	serve(ADDRESS("c"), SELF("c", "joining", WELL EPOCH(5) MEMBERS(MEMBER("c", "joining", ""))));
	assert_int_equal(run("status"), 0);
	says("c       c:1,xc:2  joining  no            -        -  being copied to: 40 %\n");
	assert_int_equal(run("status --json"), 0);
	says("\"role\":\"joining\",\"in_sync\":false,\"answers\":true,\"listed\":true,\"silent_ms\":null,"
	     "\"lag_records\":null,\"copied_percent\":40,\"state\":\"joining\"");
}

/* Nothing is a figure, too. */
static void a_copy_that_begins(void **state)
{
	(void)state;
	serve(ADDRESS("a"), SELF("a", "primary", WELL "\"epoch\":5,\"copies\":1,"
				 "\"copy\":{\"to\":\"c\",\"percent\":0},"
				 MEMBERS(A "," MEMBER("c", "joining", ",\"silent_ms\":0,\"lag_records\":0"))));
	serve(ADDRESS("c"), SELF("c", "joining", WELL "\"epoch\":5,\"copies\":1,"
				 MEMBERS(MEMBER("c", "joining", ""))));
	assert_int_equal(run("status"), 0);
	says("c       c:1,xc:2  joining  no            0     0 ms  being copied to: 0 %\n");
	assert_int_equal(run("status --json"), 0);
	says("\"silent_ms\":0,\"lag_records\":0,\"copied_percent\":0,");
}

/* What the primary knows of the others is told, whoever was asked first. */
static void a_backup_is_asked(void **state)
{
	(void)state;
	serve(ADDRESS("b"), SELF("b", "backup", WELL EPOCH(5) MEMBERS(
		"{\"name\":\"a\",\"clients\":\"a:1,xa:2\",\"role\":\"primary\"}," MEMBER("c", "joining", ""))));
	serve(ADDRESS("a"), SELF("a", "primary", WELL EPOCH(5) "\"copy\":{\"to\":\"c\",\"percent\":40},"
				 MEMBERS(A "," B "," MEMBER("c", "joining", ",\"silent_ms\":9,\"lag_records\":3"))));
	serve(ADDRESS("c"), SELF("c", "joining", WELL EPOCH(5) MEMBERS("{\"name\":\"b\"},"
		MEMBER("c", "joining", ""))));
	assert_int_equal(run("status"), 0);
	says("b       -         backup   yes           7    40 ms  backup\n");
	says("c       c:1,xc:2  joining  no            3     9 ms  being copied to: 40 %\n");
	servers[1].json = NULL; /* it is too busy, and another one says that it is there */
	serve(ADDRESS("d"), SELF("d", "primary", WELL EPOCH(5) MEMBERS(A "," MEMBER("d", "primary", ""))));
	servers[0].json = SELF("b", "backup", WELL EPOCH(5) MEMBERS(
		"{\"name\":\"a\",\"clients\":\"a:1,xa:2\",\"role\":\"primary\"}," MEMBER("d", "primary", "")));
	assert_int_equal(run("status"), 1);
	says("a       a:1,xa:2  primary  yes           -        -  does not answer\n");
}

static void who_took_over(void **state)
{
	static const char more[] = "{\"server\":{\"version\":\"1.5\"},\"keys\":12,\"cluster\":{\"member\":\"a\","
		"\"state\":\"primary\",\"agreement\":\"zk:2181\",\"failovers\":2,\"failover_seconds\":0.25,"
		WELL EPOCH(5) MEMBERS(A "," B) "}}";
	static const char one[] = "{\"cluster\":{\"member\":\"b\",\"state\":\"backup\",\"failovers\":1,"
		"\"failover_seconds\":1.5," WELL EPOCH(5) MEMBERS(SAME_B) "}}";

	(void)state;
	serve(ADDRESS("a"), more);
	serve(ADDRESS("b"), one);
	assert_int_equal(run("status"), 0);
	says("\n\na took over 2 times since its start, in 250 ms the last time\n"
	     "\nb took over 1 time since its start, in 1500 ms the last time\n\nAll is well.\n");
	assert_int_equal(run("status --json"), 0);
	says("\"failovers\":2,\"failover_seconds\":0.250}");
}

static void who_is_unfit(void **state)
{
	(void)state;
	serve(ADDRESS("a"), SELF("a", "primary", WELL EPOCH(5) MEMBERS(A "," B "," C)));
	serve(ADDRESS("b"), SELF("b", "backup", UNFIT EPOCH(5) MEMBERS(SAME_B)));
	serve(ADDRESS("c"), SELF("c", "out", UNFIT EPOCH(5) MEMBERS("")));
	assert_int_equal(run("status"), 1);
	says("backup   yes           7    40 ms  unfit, waits for a copy\n");
	says("\n1 of 2 copies are there: the next loss is the loss of all. Start a kvd");
	says("\nUnfit: b, c lacks a change (its log says why), and waits to be copied to.\n");
}

static void who_does_not_reach_zookeeper(void **state)
{
	(void)state;
	serve(ADDRESS("a"), SELF("a", "primary", CUT_OFF EPOCH(5) MEMBERS(A "," B)));
	serve(ADDRESS("b"), SELF("b", "backup", CUT_OFF EPOCH(5) MEMBERS(SAME_B)));
	assert_int_equal(run("status"), 1);
	says("serves, lease 700 ms; ZooKeeper away\n");
	says("\n\nZooKeeper (zk:2181) is not reached by a, b: what is served goes on, but nobody can take over, "
	     "join or leave. Bring ZooKeeper back (its log says why it is away); nothing else is to be done.\n");
	keeps_to_itself("All is well");
}

static void nobody_has_made_it(void **state)
{
	(void)state;
	serve(ADDRESS("a"), SELF("a", "out", WELL "\"epoch\":0," MEMBERS(MEMBER("a", "out", ""))));
	assert_int_equal(run("status"), 1);
	says("\nNobody has made the cluster yet: \"kvcli cluster init --copies N\", once N members are there.\n");
	keeps_to_itself("copies are there");
	keeps_to_itself("lost");
}

static void nobody_serves(void **state)
{
	(void)state;
	serve(ADDRESS("b"), SELF("b", "backup", WELL EPOCH(5) MEMBERS(A "," B)));
	assert_int_equal(run("status"), 1);
	says("\nNo member serves at this moment: one that is in sync is taking over, or can't as ZooKeeper is "
	     "away. Ask again.\n1 of 2 copies are there: the next loss is the loss of all. Lost: a. ");
	assert_int_equal(run("status --json"), 1);
	says("\"primary\":null,");
	/* One of an earlier epoch is none, one that leaves still is. */
	serve(ADDRESS("a"), SELF("a", "primary", WELL EPOCH(4) MEMBERS("")));
	assert_int_equal(run("status"), 1);
	says("No member serves at this moment");
	servers[1].json = SELF("a", "leaving", WELL EPOCH(5) MEMBERS(A));
	assert_int_equal(run("status"), 0);
}

static void all_are_lost(void **state)
{
	(void)state;
	serve(ADDRESS("c"), SELF("c", "out", WELL EPOCH(5) MEMBERS(A "," B "," C "," MEMBER("d", "out", "") ","
							      MEMBER("e", "out", ""))));
	serve(ADDRESS("d"), SELF("d", "out", WELL EPOCH(5) MEMBERS("")));
	assert_int_equal(run("status"), 1);
	says("\nAll that are in sync are lost: a, b. If one of them still runs and is only cut off, bring back "
	     "its network: it goes on. Otherwise what they had is gone, but for what a member has that was left "
	     "out earlier: c, d. \"kvcli -s ADDRESS cluster force\" makes it primary with that, after it has "
	     "told what is given up.\n");
	keeps_to_itself("copies are there");
}

static void all_are_lost_but_one_that_is_unfit(void **state)
{
	(void)state;
	serve(ADDRESS("b"), SELF("b", "backup", UNFIT EPOCH(5) MEMBERS(A "," B)));
	assert_int_equal(run("status"), 1);
	says("All that are in sync are lost: a. ");
	says("Otherwise what they had is gone.\n");
}

/* A later configuration counts, and so do members that only another one names. */
static void who_is_named_by_others_is_asked(void **state)
{
	(void)state;
	serve(ADDRESS("a"), SELF("a", "out", WELL EPOCH(4) MEMBERS(A "," B)));
	serve(ADDRESS("b"), SELF("b", "primary", WELL "\"epoch\":6,\"reign\":9,\"copies\":1," MEMBERS(
		MEMBER("a", "out", "") "," MEMBER("b", "primary", "") "," MEMBER("c", "joining", ""))));
	serve(ADDRESS("c"), SELF("c", "joining", WELL EPOCH(5) MEMBERS(MEMBER("a", "backup", ""))));
	assert_int_equal(run("status"), 0);
	says("epoch 6, reign 9, 1 of 1 copies in sync");
	says("a       a:1,xa:2  out      no ");
	says("b       b:1,xb:2  primary  yes ");
	says("c       c:1,xc:2  joining  no            -        -  joining\n");
}

/* There are sixteen at the most; a member that nobody lists tells of itself. */
static void many_members(void **state)
{
	char json[4096], one[200];

	(void)state;
	snprintf(json, sizeof json, "{\"cluster\":{\"member\":\"self\",\"state\":\"out\"," WELL EPOCH(1) "\"members\":[");
	for (unsigned i = 0; i < 18; i++) {
		snprintf(one, sizeof one, "%s{\"name\":\"m%u.\",\"role\":\"out\"}", i ? "," : "", i);
		strcat(json, one);
	}
	strcat(json, "]}}");
	serve("x", json);
	assert_int_equal(run("status"), 1);
	says("m0.");
	says("m15.");
	keeps_to_itself("m16.");
	keeps_to_itself("self");
	servers[0].json = SELF("self", "out", WELL EPOCH(1) MEMBERS(C));
	assert_int_equal(run("status"), 1);
	says("self    -         out      no            -        -  out\n");
	/* The sixteenth is told of itself, or by another; one more has no place. */
	for (unsigned i = 0; i < 2; i++) {
		snprintf(json, sizeof json, "{\"cluster\":{\"member\":\"%s\",\"state\":\"out\"," WELL EPOCH(1)
			 "\"members\":[" MEMBER("b", "backup", ""), i ? "b" : "self");
		for (unsigned k = 1; k < 15; k++) {
			snprintf(one, sizeof one, ",{\"name\":\"m%u.\",\"role\":\"out\"%s}", k, i && k == 1 ?
				 ",\"clients\":\"y\"" : "");
			strcat(json, one);
		}
		strcat(json, "]}}");
		servers[0].json = json;
		assert_int_equal(run("status"), 1);
		says(i ? "n15." : "self ");
		keeps_to_itself("n16.");
		says("epoch 1, reign 3, ");
		serve("y", SELF("m1.", "out", WELL EPOCH(1) MEMBERS(
			"{\"name\":\"n15.\",\"role\":\"out\"},{\"name\":\"n16.\",\"role\":\"out\"}")));
	}
}

static void who_can_not_be_asked(void **state)
{
	(void)state;
	assert_int_equal(run("status"), 3);
	assert_string_equal(printed_err, "kvcli: nobody:1: nobody is there\n");
	assert_int_equal(run("status --json"), 3);
	assert_string_equal(printed_out, "");
	serve("busy:1", NULL);
	assert_int_equal(run("status"), 3);
	assert_string_equal(printed_err, "kvcli: it is too busy\n");
	servers[0].json = "{\"keys\":1}";
	assert_int_equal(run("status"), 3);
	assert_string_equal(printed_err, "kvcli: cluster: the kvd at busy:1 is of none: it was started without "
					 "--cluster\n");
	/* Of the others it is told. */
	set_up(NULL);
	two_well();
	servers[1].json = NULL;
	assert_int_equal(run("status --json"), 1);
	says("\"why\":\"it is too busy\"");
}

/* ------------------------------------------------------------------ changes */

static void changes_are_asked_for(void **state)
{
	static const char *const lines[][2] = {
		{ "init", "1 - 0" },	       { "init -c 1", "1 - 1" },   { "init --copies 8 -s 1", "1 - 8" },
		{ "promote", "2 b 0" },	       { "promote b", "2 b 0" },   { "promote b:1", "2 b 0" },
		{ "promote xa:2", "2 a 0" },   { "remove b", "3 b 0" },	   { "remove xb:2", "3 b 0" },
		{ "remove b:1,xb:2", "3 b 0" }, { "remove a:1", "3 a 0" }, { "force --yes", "4 a 0" },
	};

	(void)state;
	two_well();
	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
		asked[0] = '\0';
		assert_int_equal(run(lines[i][0]), 0);
		assert_string_equal(asked, lines[i][1]);
		says("it is done\n");
		assert_string_equal(printed_err, "");
	}
	servers[0].json = SELF("d", "out", WELL EPOCH(5) MEMBERS(A "," B)); /* another one than before */
	assert_int_equal(run("force --yes"), 0);
	assert_string_equal(asked, "4 d 0");
}

static void changes_that_are_wrong(void **state)
{
	static const char *const lines[][2] = {
		{ "init --copies 0", "kvcli: cluster init --copies wants a whole number from 1 to 8\n" },
		{ "init --copies 9", "kvcli: cluster init --copies wants a whole number from 1 to 8\n" },
		{ "init --shards 0", "kvcli: cluster init --shards: a cluster has one shard, yet\n" },
		{ "init --shards 2", "kvcli: cluster init --shards: a cluster has one shard, yet\n" },
		{ "promote z", "kvcli: cluster: no member z: \"kvcli cluster status\" lists them\n" },
		{ "promote xb:", "kvcli: cluster: no member xb:: \"kvcli cluster status\" lists them\n" },
		{ "remove b:", "kvcli: cluster: no member b:: \"kvcli cluster status\" lists them\n" },
		{ "remove ''", "kvcli: cluster: no member : \"kvcli cluster status\" lists them\n" },
		{ "force", "kvcli: cluster force: nobody is there to be asked: --yes does it\n" },
	};
	static const char *const usage[] = { "init x", "status x", "remove", "remove b c", "force x", "what",
					     "promote \"a\\0\"" };

	(void)state;
	two_well();
	assert_non_null(freopen("/dev/null", "r", stdin));
	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
		assert_int_equal(run(lines[i][0]), 2);
		assert_string_equal(printed_err, lines[i][1]);
		assert_string_equal(asked, "");
	}
	for (unsigned i = 0; i < sizeof usage / sizeof *usage; i++) {
		assert_int_equal(run(usage[i]), 2);
		assert_string_equal(printed_err, "kvcli: cluster: usage: cluster init [--copies N] | status [--json] | "
						 "promote [MEMBER] | remove MEMBER | force [--yes]\n");
		assert_string_equal(asked, "");
	}
}

static void changes_that_are_refused(void **state)
{
	(void)state;
	two_well();
	servers[1].address = "elsewhere";
	assert_int_equal(run("promote"), 1);
	assert_string_equal(printed_err, "kvcli: cluster promote: no other member is in sync\n");
	set_up(NULL);
	serve("x", SELF("busy", "out", WELL EPOCH(1) MEMBERS("")));
	assert_int_equal(run("remove busy"), 3);
	assert_string_equal(printed_err, "kvcli: it failed\n");
	set_up(NULL);
	assert_int_equal(run("remove a"), 3);
	assert_int_equal(run("promote"), 3);
	assert_int_equal(run("force"), 3);
	assert_int_equal(run("init"), 3);
	assert_string_equal(asked, "");
}

/* On a terminal it is asked; what is given up is told before. */
static void force_asks(void **state)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), input = dup(0);

	(void)state;
	assert_true(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
	assert_non_null(freopen(ptsname(terminal), "r", stdin));
	serve(ADDRESS("a"), SELF("a", "out", WELL EPOCH(4) MEMBERS(MEMBER("a", "out", "") "," MEMBER("c", "primary", ""))));
	serve(ADDRESS("c"), SELF("c", "primary", WELL EPOCH(5) MEMBERS(MEMBER("a", "out", "") ","
								       MEMBER("c", "primary", ""))));
	assert_int_equal(write(terminal, "yes\n", 4), 4);
	assert_int_equal(run("force"), 0);
	assert_string_equal(printed_out,
			    "a is not in sync. It holds 12 keys, as of epoch 4 at the latest; the present epoch is 5.\n"
			    "Made primary, it serves those alone. All changes since it was left out are given up, also "
			    "those\nthat were answered; keys that were deleted since may be there again.\n"
			    "c serves at this moment, with all changes. There is no reason to do this.\n"
			    "1 of 2 copies are there: the next loss is the loss of all. Start a kvd with the same "
			    "--cluster, --cluster-key and --memory: it is copied to.\n"
			    "Type \"yes\" to do it: it is done\n");
	assert_string_equal(asked, "4 a 0");
	asked[0] = '\0';
	assert_int_equal(write(terminal, "yes!\n", 5), 5);
	assert_int_equal(run("force"), 1);
	assert_string_equal(printed_err, "kvcli: cluster force: nothing was done\n");
	assert_int_equal(write(terminal, "\004", 1), 1);
	assert_int_equal(run("force"), 1);
	assert_string_equal(asked, "");
	dup2(input, 0);
	clearerr(stdin);
	close(input);
	close(terminal);
}

/* ------------------------------------------------------------------ doctor */

static void each_line(void *arg, const char *mark, const char *what, const char *text)
{
	fprintf(arg, "%s|%s|%s\n", mark, what, text);
}

static unsigned findings;

static int examine(struct cli *cli, const struct cli_args *args)
{
	(void)args;
	findings = cluster_doctor(cli, each_line);
	return 0;
}

static void examined(unsigned count, const char *text)
{
	struct cli cli = { .server = servers[0].address ? servers[0].address : "nobody:1", .timeout_ms = 200 };

	assert_int_equal(printed_run(&cli, NULL, examine, ""), 0);
	cli_disconnect(&cli);
	assert_string_equal(printed_out, text);
	assert_int_equal(findings, count);
}

#define CLOCK_OK "ok|clock|this machine's clock is slewed by less than a twentieth\n"
#define RUN_ONE "ok|versions|all members that answer run 1.5\n"

static void the_doctor_looks_at_it(void **state)
{
	(void)state;
	two_well();
	examined(0, CLOCK_OK "ok|cluster|a primary serves, all copies are in sync, ZooKeeper is reached\n" RUN_ONE);
	assert_int_equal(longest_wait_ms, 200);
	servers[1].json = SELF("b", "backup", CUT_OFF EPOCH(5) MEMBERS(SAME_B));
	servers[0].json = SELF("a", "primary", UNFIT EPOCH(5) MEMBERS(A "," B));
	examined(3, CLOCK_OK
		 "FIX|cluster|ZooKeeper (zk:2181) is not reached by b: what is served goes on, but nobody can take "
		 "over, join or leave. Bring ZooKeeper back (its log says why it is away); nothing else is to be "
		 "done.\n"
		 "FIX|cluster|1 of 2 copies are there: the next loss is the loss of all. Start a kvd with the same "
		 "--cluster, --cluster-key and --memory: it is copied to.\n"
		 "FIX|cluster|Unfit: a lacks a change (its log says why), and waits to be copied to.\n" RUN_ONE);
	set_up(NULL);
	examined(1, CLOCK_OK "FIX|cluster|no member answers as one (see above): give the address of one that runs "
		 "(-s)\n");
}

static void the_doctor_looks_at_versions(void **state)
{
	(void)state;
	two_well();
	servers[1].json = "{\"server\":{\"version\":\"1.6\"},\"cluster\":{\"member\":\"b\",\"state\":\"backup\","
			  WELL EPOCH(5) MEMBERS(SAME_B) "}}";
	examined(1, CLOCK_OK "ok|cluster|a primary serves, all copies are in sync, ZooKeeper is reached\n"
		 "FIX|versions|members run 1.5 and 1.6: go on with the upgrade, one by one\n");
	/* Of one that is gone nothing is known. */
	servers[0].json = SELF("a", "primary", WELL "\"epoch\":5,\"copies\":1," MEMBERS(MEMBER("gone", "out", "") "," A));
	servers[1].address = "elsewhere";
	examined(0, CLOCK_OK "ok|cluster|a primary serves, all copies are in sync, ZooKeeper is reached\n" RUN_ONE);
}

/* Parts of a million, with 16 bits behind the point. */
static void the_doctor_looks_at_the_clock(void **state)
{
	char text[512];

	(void)state;
	two_well();
	for (int sign = -1; sign <= 1; sign += 2) {
		snprintf(text, sizeof text, "%s%s", CLOCK_OK, "ok|cluster|a primary serves, all copies are in sync, "
			 "ZooKeeper is reached\n" RUN_ONE);
		slewed = sign * (50000l << 16);
		examined(0, text);
		slewed = sign * (50001l << 16);
		examined(1, "FIX|clock|this machine's clock is slewed by 50001 ppm: leases rest on clocks that are "
			 "wrong by less than an eighth: look at the time daemon\n"
			 "ok|cluster|a primary serves, all copies are in sync, ZooKeeper is reached\n" RUN_ONE);
	}
	clock_state = TIME_ERROR; /* of a clock that nobody sets, and that is slewed no less */
	examined(1, printed_out);
	clock_state = -1;
	examined(0, text);
	clock_state = 0;
	slewed = 0;
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_is_well),
		TEST(columns_are_as_wide_as_they_must_be),
		TEST(a_lost_copy),
		TEST(more_copies_than_one),
		TEST(a_copy_that_is_made),
		TEST(a_copy_that_begins),
		TEST(a_backup_is_asked),
		TEST(who_took_over),
		TEST(who_is_unfit),
		TEST(who_does_not_reach_zookeeper),
		TEST(nobody_has_made_it),
		TEST(nobody_serves),
		TEST(all_are_lost),
		TEST(all_are_lost_but_one_that_is_unfit),
		TEST(who_is_named_by_others_is_asked),
		TEST(many_members),
		TEST(who_can_not_be_asked),
		TEST(changes_are_asked_for),
		TEST(changes_that_are_wrong),
		TEST(changes_that_are_refused),
		TEST(force_asks),
		TEST(the_doctor_looks_at_it),
		TEST(the_doctor_looks_at_versions),
		TEST(the_doctor_looks_at_the_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
