/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/shard without its threads: what people tell a member to do, whom it finds in the
 * agreement, what it says of itself.  The agreement is a register in memory, the time the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/cluster/agree/register.h"
#include "server/cluster/agree/zookeeper.h"
#include "server/cluster/member/command.h"
#include "server/cluster/shard/admin.h"
#include "server/cluster/shard/impl.h"
#include "server/cluster/shard/place.h"
#include "server/cluster/shard/roster.h"
#include "server/cluster/shard/shard.h"
#include "tests/unit/server/cluster/replica_kit.h"

#define MS 1000000ull
#define TURN_NS (50 * MS)
#define LIFE 0x1234u

static struct shard s;
static struct agree_register *reg;
static struct agree *others; /* the session of who else is there */
static uint64_t now_ns;
static unsigned actions_seen;
static enum agree_status made;
static char text[ADMIN_TEXT_BYTES];
static unsigned opened, refused; /* sessions that were asked for; that are not to be had */

/* In ZooKeeper's place. */
int agree_zookeeper_open(const struct agree_zookeeper *options, const struct agree_events *events,
			 struct agree **agree, struct err *err)
{
	opened++;
	if (opened <= refused)
		return err_set(err, -1, "%s has no address", options->servers);
	return agree_register_open(reg, events, agree);
}

static void on_config(void *arg, const struct config *c)
{
	(void)arg;
	s.member.known = s.seen.known = *c;
}

static void on_wrote(void *arg, enum keeper_outcome outcome, const struct config *c)
{
	(void)arg, (void)outcome, (void)c;
}

static void on_reached(void *arg, bool is_reached)
{
	(void)arg;
	s.member.is_reached = is_reached;
}

static void on_failed(void *arg, const char *why)
{
	(void)arg;
	assert_non_null(why);
}

static void act(struct shard *of, const struct member_actions *actions)
{
	(void)of;
	actions_seen += actions->count;
}

static void ignore_change(void *arg, const char *path)
{
	(void)arg, (void)path;
}

static void ignore_session(void *arg, enum agree_session session)
{
	(void)arg, (void)session;
}

static int set_up(void **state)
{
	const struct agree_events none = { ignore_change, ignore_session, NULL };
	struct agree_events events;

	kit_setup(state);
	memset(&s, 0, sizeof s);
	s.options.store = a.f.store;
	s.options.clients = "127.0.0.1:7480";
	s.replica = a.replica;
	s.act = act;
	s.life = LIFE;
	s.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&s.lock, NULL);
	strcpy(s.name, "anna");
	strcpy(s.servers, "zk:2181");
	strcpy(s.base, "/prod");
	strcpy(s.path, "/prod/shard-0");
	s.member.self = (struct config_member){ "anna", PRIMARY };
	s.member.joiner = s.seen.joiner = -1;
	s.keeper.path = s.path;
	s.keeper.events = (struct keeper_events){ on_config, on_wrote, on_reached, on_failed, &s };
	events = keeper_agree_events(&s.keeper);
	now_ns = 1000 * MS;
	actions_seen = opened = refused = 0;
	reg = agree_register_new();
	assert_int_equal(agree_register_open(reg, &none, &others), 0);
	return agree_register_open(reg, &events, &s.keeper.agree);
}

static int tear_down(void **state)
{
	agree_close(&s.keeper.agree);
	agree_close(&others);
	agree_register_delete(&reg);
	close(s.wake_fd);
	pthread_mutex_destroy(&s.lock);
	return kit_teardown(state);
}

/* ------------------------------------------------------------------- what happens */
static void turn(void)
{
	now_ns += TURN_NS;
	agree_poll(others);
	if (s.keeper.agree)
		agree_poll(s.keeper.agree);
	place_look(&s, now_ns);
	admin_look(&s, now_ns);
}

static void turns(unsigned n)
{
	while (n--)
		turn();
}

static void on_made(void *arg, const struct agree_answer *answer)
{
	(void)arg;
	made = answer->status;
}

static void make(const char *path, const char *bytes)
{
	assert_int_equal(agree_create(others, path, bytes, strlen(bytes), false, on_made, NULL), 0);
	agree_poll(others);
	assert_true(made == AGREE_DONE || made == AGREE_EXISTS);
}

static void other_is_there(const char *name, uint64_t stripes, unsigned keys)
{
	char path[64], record[256];

	make("/prod", "");
	make("/prod/members", "");
	snprintf(path, sizeof path, "/prod/members/%s", name);
	snprintf(record, sizeof record, "kvd-member 1\nclients 127.0.0.2:7480\nincarnation %016llx\n"
		 "stripes %llu\nkeys %u\n", (unsigned long long)BACKUP, (unsigned long long)stripes, keys);
	make(path, record);
}

static void bert_is_there(unsigned keys)
{
	other_is_there("bert", a.f.table->stripes, keys);
}

static enum admin_state tell(enum admin_what what, uint64_t id, const char *member, unsigned copies)
{
	struct admin_command c = { .what = what, .id = id, .copies = copies };

	snprintf(c.member, sizeof c.member, "%s", member);
	return admin_command(&s, &c, text, sizeof text);
}

/* It is begun, and ends so within the turns; who asks again by its number is told. */
static void must_end(enum admin_what what, const char *member, unsigned copies, unsigned within,
		     enum admin_state state, const char *says)
{
	static uint64_t id;

	assert_int_equal(tell(what, ++id, member, copies), ADMIN_RUNNING);
	turns(within);
	assert_int_equal(tell(what, id, member, copies), state);
	if (!strstr(text, says))
		fail_msg("'%s' instead of '%s'", text, says);
}

/* It serves a set of its own and bert. */
static void serve(void)
{
	struct config *c = &s.member.known;

	*c = (struct config){ .epoch = 4, .reign = 3, .writer = LIFE, .copies = 2, .count = 2,
			      .set = { { "anna", PRIMARY }, { "bert", BACKUP } } };
	s.member.state = MEMBER_SERVING;
	s.member.reign = 3;
	s.member.is_reached = true;
	strcpy(s.member.peers[1].id.name, "bert");
	s.seen = s.member;
}

/* ------------------------------------------------------------------- init */
static void test_init(void **state)
{
	(void)state;
	bert_is_there(0);
	must_end(ADMIN_INIT, "", 0, 40, ADMIN_DONE, "the cluster is made, of 2 copies: primary anna");
	assert_int_equal(s.member.known.epoch, 1);
	assert_int_equal(s.member.known.count, 2);
	assert_int_equal(s.member.known.writer, LIFE);
	assert_string_equal(s.member.known.set[1].name, "bert");
	assert_int_equal(s.member.known.set[1].incarnation, BACKUP);
	must_end(ADMIN_INIT, "", 0, 2, ADMIN_FAILED, "the cluster is made already: epoch 1, primary anna");
}

static void test_init_lost_answer(void **state)
{
	(void)state;
	s.options.copies = 1;
	turns(40); /* it said that it is there */
	agree_register_fault(reg, AGREE_LOSE_ANSWER);
	must_end(ADMIN_INIT, "", 0, 60, ADMIN_DONE, "the cluster is made, of 1 copies");
}

static void test_init_lost_request(void **state)
{
	(void)state;
	turns(40);
	agree_register_fault(reg, AGREE_LOSE_REQUEST);
	must_end(ADMIN_INIT, "", 1, 150, ADMIN_RUNNING, "");
	turns(60);
	assert_int_equal(s.admin.state, ADMIN_FAILED);
	assert_non_null(strstr(s.admin.text, "it is not done after 10 s, and may be yet"));
}

static void test_init_lacks_members(void **state)
{
	(void)state;
	other_is_there("otto", a.f.table->stripes * 2, 0);
	must_end(ADMIN_INIT, "", 3, 120, ADMIN_FAILED,
		 "3 copies need as many members with the same --memory, and 1 are there");
	assert_non_null(strstr(text, "anna"));
	assert_non_null(strstr(text, "otto"));
	must_end(ADMIN_INIT, "", CONFIG_MEMBERS_MAX + 1, 2, ADMIN_FAILED, "a shard has 8 copies at the most");
}

/* What a disk kept is not thrown away for an empty table. */
static void test_init_beside_keys(void **state)
{
	(void)state;
	bert_is_there(7);
	must_end(ADMIN_INIT, "", 2, 60, ADMIN_FAILED,
		 "anna has no keys, and bert has 7 on its disk, which would go");
	assert_int_equal(s.member.known.epoch, 0);
}

static void test_init_with_keys(void **state)
{
	(void)state;
	kit_put(&a, "key", "value", 5);
	kit_finish();
	bert_is_there(0);
	must_end(ADMIN_INIT, "", 2, 60, ADMIN_DONE, "primary anna, whose keys are copied to the others now");
	assert_int_equal(s.member.known.count, 1);
	assert_int_equal(s.member.known.copies, 2);
}

static void test_init_unreached(void **state)
{
	(void)state;
	agree_register_end(s.keeper.agree);
	agree_poll(s.keeper.agree);
	assert_false(s.member.is_reached);
	must_end(ADMIN_INIT, "", 2, 90, ADMIN_FAILED, "ZooKeeper at zk:2181 can't be reached from anna");
}

/* ------------------------------------------------------------------- promote, remove */
static void test_one_at_a_time(void **state)
{
	(void)state;
	serve();
	assert_int_equal(tell(ADMIN_PROMOTE, 90, "bert", 0), ADMIN_RUNNING);
	assert_int_equal(tell(ADMIN_REMOVE, 91, "bert", 0), ADMIN_FAILED);
	assert_string_equal(text, "\"cluster promote\" is under way: wait for it");
	admin_look(&s, now_ns);
	assert_int_equal(tell(ADMIN_REMOVE, 92, "bert", 0), ADMIN_FAILED);
	assert_int_equal(tell(ADMIN_PROMOTE, 90, "bert", 0), ADMIN_RUNNING);
	assert_string_equal(s.member.wanted, "bert");
	assert_int_equal(s.member.state, MEMBER_LEAVING);
}

static void test_promote(void **state)
{
	(void)state;
	serve();
	must_end(ADMIN_PROMOTE, "anna", 0, 1, ADMIN_DONE, "anna is primary as of epoch 3");
	assert_int_equal(tell(ADMIN_PROMOTE, 80, "bert", 0), ADMIN_RUNNING);
	admin_look(&s, now_ns);
	admin_look(&s, now_ns);
	assert_int_equal(tell(ADMIN_PROMOTE, 80, "bert", 0), ADMIN_RUNNING);
	s.member.known.set[0] = s.member.known.set[1];
	s.member.known.epoch++;
	admin_look(&s, now_ns);
	assert_int_equal(tell(ADMIN_PROMOTE, 80, "bert", 0), ADMIN_DONE);
	assert_string_equal(text, "bert is primary as of epoch 5");
}

static void test_promote_overtaken(void **state)
{
	(void)state;
	serve();
	assert_int_equal(tell(ADMIN_PROMOTE, 81, "bert", 0), ADMIN_RUNNING);
	admin_look(&s, now_ns);
	s.member.known.epoch++;
	admin_look(&s, now_ns);
	assert_int_equal(tell(ADMIN_PROMOTE, 81, "bert", 0), ADMIN_FAILED);
	assert_non_null(strstr(text, "bert is not primary: the set changed meanwhile (epoch 5)"));
}

static void test_may_not(void **state)
{
	static const enum admin_what both[] = { ADMIN_PROMOTE, ADMIN_REMOVE };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		serve();
		s.member.state = MEMBER_TAKING;
		must_end(both[i], "bert", 0, 1, ADMIN_FAILED, "anna is no primary that serves: ask again");
		serve();
		s.member.joiner = 2;
		must_end(both[i], "bert", 0, 1, ADMIN_FAILED, "anna is copying to a member that joins");
		s.member.joiner = -1;
		s.member.is_reached = false;
		assert_int_equal(tell(both[i], 70 + i, "bert", 0), ADMIN_RUNNING);
		admin_look(&s, now_ns);
		assert_int_equal(tell(both[i], 70 + i, "bert", 0), ADMIN_FAILED);
		assert_non_null(strstr(text, "without it nobody's part changes"));
		/* A backup says whom to ask. */
		serve();
		s.member.state = s.seen.state = MEMBER_BACKING;
		assert_int_equal(tell(both[i], 60 + i, "bert", 0), ADMIN_NONE);
	}
	serve();
	must_end(ADMIN_PROMOTE, "otto", 0, 1, ADMIN_FAILED, "otto is not in sync");
}

static void test_remove(void **state)
{
	(void)state;
	serve();
	must_end(ADMIN_REMOVE, "anna", 0, 1, ADMIN_FAILED, "anna is the primary: promote another one first");
	must_end(ADMIN_REMOVE, "otto", 0, 1, ADMIN_DONE, "otto is not in the set");
	assert_int_equal(tell(ADMIN_REMOVE, 50, "bert", 0), ADMIN_RUNNING);
	admin_look(&s, now_ns);
	assert_string_equal(s.member.unwanted, "bert");
	s.member.known.epoch++; /* of something else */
	admin_look(&s, now_ns);
	assert_int_equal(tell(ADMIN_REMOVE, 50, "bert", 0), ADMIN_RUNNING);
	s.member.known.epoch++;
	s.member.known.count = 1;
	admin_look(&s, now_ns);
	assert_int_equal(tell(ADMIN_REMOVE, 50, "bert", 0), ADMIN_DONE);
	assert_non_null(strstr(text, "bert is left out as of epoch 6"));
}

/* ------------------------------------------------------------------- force */
static void test_force(void **state)
{
	(void)state;
	serve();
	s.member.state = MEMBER_OUT;
	must_end(ADMIN_FORCE, "bert", 0, 1, ADMIN_FAILED, "this is anna, and not bert");
	s.member.is_unfit = true;
	must_end(ADMIN_FORCE, "anna", 0, 1, ADMIN_FAILED, "anna lacks changes: force a member that has them");
	s.member.is_unfit = false;
	s.member.state = MEMBER_BACKING;
	must_end(ADMIN_FORCE, "anna", 0, 1, ADMIN_FAILED, "anna is in the set: it takes over by itself");
	s.member.state = MEMBER_OUT;
	s.member.known.epoch = 0;
	must_end(ADMIN_FORCE, "anna", 0, 1, ADMIN_FAILED, "there is no configuration");
	s.member.is_reached = false;
	assert_int_equal(tell(ADMIN_FORCE, 40, "anna", 0), ADMIN_RUNNING);
	admin_look(&s, now_ns);
	assert_int_equal(tell(ADMIN_FORCE, 40, "anna", 0), ADMIN_FAILED);
	assert_non_null(strstr(text, "bring it back first"));
	assert_int_equal(actions_seen, 0);
	serve();
	s.member.state = MEMBER_OUT;
	assert_int_equal(tell(ADMIN_FORCE, 41, "anna", 0), ADMIN_RUNNING);
	admin_look(&s, now_ns);
	assert_true(s.member.is_forced);
	assert_true(actions_seen > 0);
	admin_look(&s, now_ns);
	assert_int_equal(tell(ADMIN_FORCE, 41, "anna", 0), ADMIN_RUNNING);
	s.member.state = MEMBER_SERVING;
	admin_look(&s, now_ns);
	assert_int_equal(tell(ADMIN_FORCE, 41, "anna", 0), ADMIN_DONE);
	assert_string_equal(text, "anna is primary as of epoch 4, alone");
}

/* ------------------------------------------------------------------- who is there */
/* What can't be used is passed over; of the set one stays known that is gone. */
static void test_roster(void **state)
{
	const struct roster_member *fit[ROSTER_MAX];

	(void)state;
	bert_is_there(3);
	other_is_there("otto", 1, 0);
	make("/prod/members/bad name", "kvd-member 1 clients x incarnation 1 stripes 1 keys 0");
	make("/prod/members/later", "kvd-member 2 whatever");
	make("/prod/members/early", "kvd-member 1 clients y incarnation ff stripes 1");
	strcpy(s.roster.of[0].name, "gone");
	strcpy(s.roster.of[1].name, "past");
	s.roster.count = 2;
	s.member.known = (struct config){ .epoch = 1, .count = 1, .set = { { "gone", 9 } } };
	turns(40);
	assert_int_equal(s.roster.count, 5); /* and itself */
	assert_true(roster_find(&s.roster, "anna")->is_there);
	assert_int_equal(roster_find(&s.roster, "bert")->keys, 3);
	assert_int_equal(roster_find(&s.roster, "bert")->incarnation, BACKUP);
	assert_string_equal(roster_find(&s.roster, "bert")->clients, "127.0.0.2:7480");
	assert_int_equal(roster_find(&s.roster, "early")->incarnation, 0xff);
	assert_false(roster_find(&s.roster, "gone")->is_there);
	assert_null(roster_find(&s.roster, "past"));
	assert_null(roster_find(&s.roster, "later"));
	assert_int_equal(roster_fit(&s, fit, ROSTER_MAX), 2);
}

/* What a former life of this one said there is said anew. */
static void test_said_anew(void **state)
{
	(void)state;
	other_is_there("anna", 1, 5);
	turns(60);
	assert_int_equal(roster_find(&s.roster, "anna")->incarnation, PRIMARY);
	assert_int_equal(roster_find(&s.roster, "anna")->stripes, a.f.table->stripes);
	assert_string_equal(roster_find(&s.roster, "anna")->clients, "127.0.0.1:7480");
}

/* ------------------------------------------------------------------- what it says */
static void must_have(const char *json, const char *part)
{
	if (!strstr(json, part))
		fail_msg("no %s in %s", part, json);
}

static void test_status(void **state)
{
	struct shard_figures f;
	char json[4096];

	(void)state;
	serve();
	bert_is_there(0);
	turns(40);
	s.seen.round.until_ns = shard_clock_ns() + 60000 * MS;
	s.seen.peers[1].heard_ns = shard_clock_ns() - 500 * MS;
	s.failovers = 2;
	s.failover_ns = 1500 * MS;
	size_t n = shard_status(&s, json, sizeof json);
	assert_int_equal(n, strlen(json));
	must_have(json, "{\"member\":\"anna\",\"state\":\"primary\",\"epoch\":4,\"reign\":3,\"reached\":true,"
		  "\"agreement\":\"zk:2181\",\"copies\":2,\"in_sync\":2,\"set\":\"anna bert\",\"fit\":true,");
	must_have(json, "\"lease_left_ms\":59");
	must_have(json, "\"failovers\":2,\"failover_seconds\":1.500");
	must_have(json, "{\"name\":\"anna\",\"clients\":\"127.0.0.1:7480\",\"role\":\"primary\",\"there\":true,"
		  "\"silent_ms\":0}");
	must_have(json, "{\"name\":\"bert\",\"clients\":\"127.0.0.2:7480\",\"role\":\"backup\",\"there\":true,"
		  "\"silent_ms\":5");
	must_have(json, ",\"lag_records\":0}]}");
	assert_int_equal(shard_status(&s, json, 100), 0);
	shard_figures(&s, &f);
	assert_int_equal(f.epoch, 4);
	assert_int_equal(f.in_sync, 2);
	assert_int_equal(f.failovers, 2);
	assert_true(f.serves && f.is_reached && f.is_fit);
	assert_in_range(f.lease_left_ns, 50000 * MS, 60000 * MS);
}

static void test_status_of_a_backup(void **state)
{
	struct shard_figures f;
	char json[4096];

	(void)state;
	serve();
	other_is_there("otto", 1, 0);
	turns(40);
	strcpy(s.name, "bert");
	s.seen.state = MEMBER_BACKING;
	s.seen.is_reached = false;
	s.seen.heard_ns = 0;
	shard_say(&s, "it lacks a change");
	assert_true(shard_status(&s, json, sizeof json) > 0);
	must_have(json, "\"state\":\"backup\"");
	must_have(json, "\"reached\":false");
	must_have(json, "\"fit\":false,\"lease_left_ms\":0");
	must_have(json, "\"role\":\"primary\",\"there\":true}"); /* it never heard of it */
	must_have(json, "{\"name\":\"otto\",\"clients\":\"127.0.0.2:7480\",\"role\":\"out\",\"there\":true}");
	shard_figures(&s, &f);
	assert_false(f.serves || f.is_reached || f.is_fit);
	assert_int_equal(f.lease_left_ns, 0);
}

static void test_where(void **state)
{
	struct shard_where w;
	char buf[100];

	(void)state;
	serve();
	turns(40); /* bert is not there */
	s.seen.heard_ns = shard_clock_ns() - 2 * MS;
	size_t n = shard_where(&s, &w, buf, sizeof buf);
	assert_int_equal(n, strlen(buf));
	assert_string_equal(buf, "127.0.0.1:7480\n-\n");
	assert_int_equal(w.epoch, 4);
	assert_int_equal(w.ports, 1);
	assert_in_range(w.heard_us, 2000, 60000000);
	s.seen.is_gone = true;
	assert_int_equal(shard_where(&s, &w, buf, 5), 0);
	assert_int_equal(w.heard_us, UINT32_MAX);
}

/* An address of each of its devices: in its record, and to clients. */
static void test_devices(void **state)
{
	struct shard_where w;
	char buf[200];

	(void)state;
	s.options.clients = "127.0.0.1:7480,127.0.0.2:7480,127.0.0.3:7480";
	serve();
	make("/prod", "");
	make("/prod/members", "");
	make("/prod/members/bert", "kvd-member 1\nclients 127.0.0.4:1\nincarnation 1\nstripes 1\nkeys 0\n"
	     "also 127.0.0.5:1,127.0.0.6:1\nmore to come\n");
	turns(60);
	assert_string_equal(roster_find(&s.roster, "anna")->clients, s.options.clients);
	assert_string_equal(roster_find(&s.roster, "bert")->clients, "127.0.0.4:1,127.0.0.5:1,127.0.0.6:1");
	assert_true(shard_where(&s, &w, buf, sizeof buf) > 0);
	assert_string_equal(buf, "127.0.0.1:7480\n127.0.0.2:7480\n127.0.0.3:7480\n"
			    "127.0.0.4:1\n127.0.0.5:1\n127.0.0.6:1\n");
	assert_int_equal(w.ports, 3);
}

/* No address is found for the next session, a few times: it is begun when there is one. */
static void test_session_again(void **state)
{
	(void)state;
	turns(10);
	assert_true(s.member.is_reached);
	agree_register_end(s.keeper.agree);
	s.is_over = true;
	refused = 3;
	turns(2);
	assert_false(s.member.is_reached);
	assert_int_equal(opened, 1);
	assert_null(s.keeper.agree);
	turns(80);
	assert_int_equal(opened, refused + 1);
	assert_true(s.member.is_reached);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_init),
		TEST(test_init_lost_answer),
		TEST(test_init_lost_request),
		TEST(test_init_lacks_members),
		TEST(test_init_beside_keys),
		TEST(test_init_with_keys),
		TEST(test_init_unreached),
		TEST(test_one_at_a_time),
		TEST(test_promote),
		TEST(test_promote_overtaken),
		TEST(test_may_not),
		TEST(test_remove),
		TEST(test_force),
		TEST(test_roster),
		TEST(test_devices),
		TEST(test_said_anew),
		TEST(test_session_again),
		TEST(test_status),
		TEST(test_status_of_a_backup),
		TEST(test_where),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
