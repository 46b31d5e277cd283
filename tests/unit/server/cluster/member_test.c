/* SPDX-License-Identifier: BSD-2-Clause */
/* server/cluster/member: event by event, what it wants done, and what it does not yet.  Joins, and who
 * has failed: member_join_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/cluster/member/command.h"
#include "server/cluster/member/primary.h"
#include "tests/unit/server/cluster/member_kit.h"

/* Its connections are yet to be made: who is silent is taken for gone later. */
static void test_expected(void **state)
{
	(void)state;
	back();
	member_expect(&m, now);
	tick(MEMBER_CONNECT_NS / MS);
	assert_null(wants(MEMBER_SEAL));
	tick(MEMBER_SILENCE_NS / MS);
	assert_non_null(wants(MEMBER_SEAL));
	back();
	member_expect(&m, now);
	member_gone(&m, "a");
	tick(1);
	assert_non_null(wants(MEMBER_SEAL));
	/* One that it hears of is silent as ever from then on. */
	back();
	member_expect(&m, now);
	hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT, .number = 5 });
	tick(MEMBER_SILENCE_NS / MS);
	assert_non_null(wants(MEMBER_SEAL));
}

/* Who can't agree on anything does not seal: it could not take that back. */
static void test_away(void **state)
{
	(void)state;
	back();
	is_mute = true;
	tick(MEMBER_SILENCE_NS / MS);
	assert_non_null(wants(MEMBER_READ));
	tick(10 * MEMBER_SILENCE_NS / MS);
	assert_null(wants(MEMBER_SEAL));
	hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT, .number = 5 });
	tick(1);
	answer(); /* of before */
	assert_null(wants(MEMBER_SEAL));
	assert_int_equal(m.state, MEMBER_BACKING);
	tick(MEMBER_SILENCE_NS / MS);
	assert_non_null(wants(MEMBER_READ));
	assert_null(wants(MEMBER_SEAL));
	is_mute = false;
	answer();
	assert_non_null(wants(MEMBER_SEAL));
}

/* Who comes late, and has not looked yet at what came meanwhile, takes nobody for gone. */
static void test_late(void **state)
{
	(void)state;
	back();
	hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT, .number = 5 });
	member_polled(&m, now);
	tick(3 * MEMBER_SILENCE_NS / MS);
	assert_null(wants(MEMBER_SEAL));
	hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT, .number = 6 });
	member_polled(&m, now);
	tick(1);
	assert_null(wants(MEMBER_SEAL));
	now += MEMBER_SILENCE_NS;
	member_polled(&m, now);
	tick(1);
	assert_non_null(wants(MEMBER_SEAL));
}

/* It began at 1000 ms, and has to count as having promised just then. */
static void test_what_serving_waits_for(void **state)
{
	(void)state;
	back();
	member_gone(&m, "a");
	tick(1);
	obey(m.seal_order);
	read_config(config(2, 2, LIFE, "bc"));
	member_wrote(&m, now, NULL, &acts);
	hear("c", C, (struct member_message){ .kind = MEMBER_OPEN, .number = 70 });
	assert_null(sends(MEMBER_BEGIN, "c")); /* its own workers are not of the epoch */
	obey(m.epoch_order);
	settled();
	c_begins();
	assert_null(wants(MEMBER_SERVE));
	now = 1000 * MS + LEASE_NS - 1;
	tick(0);
	assert_null(wants(MEMBER_SERVE));
	now++;
	tick(0);
	assert_non_null(wants(MEMBER_SERVE));
	assert_int_equal(m.state, MEMBER_TAKING);
	tick(60);
	assert_int_equal(sends(MEMBER_HEARTBEAT, "c")->number, 0); /* no lease is asked for */
	obey(m.serve_order);
	assert_int_equal(m.state, MEMBER_SERVING);
	assert_false(member_may_answer(&m, now));
	tick(0);
	assert_int_equal(sends(MEMBER_HEARTBEAT, "c")->number, m.round.number);
	assert_int_equal(wants(MEMBER_WORDS)->words.g, 0);
	assert_true(wants(MEMBER_WORDS) < wants(MEMBER_SEND)); /* raised, then asked */
	hear("c", C, (struct member_message){ .kind = MEMBER_PROMISE, .number = m.round.number });
	assert_int_equal(wants(MEMBER_WORDS)->words.g, m.round.number);
	assert_true(member_may_answer(&m, now));
	assert_int_equal(member_left_ns(&m, now), LEASE_GOOD_NS);
}

static void test_not_begun(void **state)
{
	(void)state;
	take_over();
	obey(m.epoch_order);
	settled();
	keep_c(400);
	assert_null(wants(MEMBER_SERVE));
	c_begins();
	assert_non_null(wants(MEMBER_SERVE));
}

static void test_not_settled(void **state)
{
	(void)state;
	take_over();
	obey(m.epoch_order);
	c_begins();
	keep_c(400);
	assert_null(wants(MEMBER_SERVE));
	acts.count = 0;
	member_settled(&m, 1, now, &acts); /* of another epoch */
	assert_null(wants(MEMBER_SERVE));
	settled();
	assert_non_null(wants(MEMBER_SERVE));
}

static void test_sealed_promises_nothing(void **state)
{
	(void)state;
	start();
	read_config(config(1, 1, 1, "abc"));
	hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT, .number = 5 });
	assert_int_equal(sends(MEMBER_PROMISE, "a")->number, 5);
	assert_int_equal(m.promise.until_ns, now + LEASE_NS);
	obey(m.epoch_order);
	tick(MEMBER_SILENCE_NS / MS);
	assert_int_equal(m.state, MEMBER_SEALED);
	hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT, .number = 6 });
	assert_true(sends(MEMBER_PROMISE, "a")->number == MEMBER_REFUSED);
	assert_int_equal(m.promise.until_ns, now - MEMBER_SILENCE_NS + LEASE_NS);
	hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT, .epoch = 2, .number = 6 });
	assert_non_null(wants(MEMBER_READ));
}

/* Without the agreement nobody seals: a shard whose members live goes on. */
static void test_agreement_away(void **state)
{
	(void)state;
	back();
	member_reached(&m, false);
	tick(500);
	assert_int_equal(m.state, MEMBER_BACKING);
}

/* What it finds itself named by may be of a life before. */
static void test_a_life_before(void **state)
{
	(void)state;
	start();
	read_config(config(4, 4, LIFE - 1, "bc"));
	assert_int_equal(m.state, MEMBER_SEALED);
	obey(m.seal_order);
	assert_int_equal(wants(MEMBER_WRITE)->config.reign, 5);
	/* Handed, and not behind what it read as a backup. */
	start();
	struct config c = config(4, 4, 1, "bac");
	c.is_handed = true;
	read_config(c);
	assert_int_equal(m.state, MEMBER_SEALED);
}

static void test_handed(void **state)
{
	struct config c = config(4, 4, 1, "bac");

	(void)state;
	start();
	read_config(config(3, 1, 1, "abc"));
	c.is_handed = true;
	read_config(c);
	assert_int_equal(m.state, MEMBER_TAKING);
	assert_int_equal(m.wait_ns, 0);
}

/* A write of unknown outcome is sent again, until a later epoch is read. */
static void test_unknown_outcome(void **state)
{
	(void)state;
	serve();
	tick(MEMBER_SILENCE_NS / MS);
	assert_string_equal(wants(MEMBER_WRITE)->config.set[0].name, "b");
	assert_int_equal(wants(MEMBER_WRITE)->config.count, 1);
	assert_int_equal(wants(MEMBER_WRITE)->config.reign, 2);
	tick(100);
	assert_null(wants(MEMBER_WRITE));
	acts.count = 0;
	member_wrote(&m, now, NULL, &acts);
	assert_non_null(wants(MEMBER_READ));
	tick(50);
	assert_non_null(wants(MEMBER_WRITE));
	read_config(config(3, 2, LIFE, "b"));
	assert_int_equal(m.state, MEMBER_SERVING);
	assert_int_equal(wants(MEMBER_EPOCH)->bits, 0);
	member_wrote(&m, now, NULL, &acts);
	read_config(config(4, 4, 1, "ca"));
	assert_int_equal(m.state, MEMBER_OUT);
	assert_non_null(wants(MEMBER_STOP));
	assert_false(member_may_answer(&m, now));
}

static void test_promote(void **state)
{
	(void)state;
	serve();
	assert_false(member_promote(&m, "a", now));
	assert_true(member_promote(&m, "c", now));
	assert_int_equal(m.state, MEMBER_LEAVING);
	assert_int_equal(member_left_ns(&m, now), 0);
	assert_true(member_may_answer(&m, now));
	tick(0);
	assert_int_equal(sends(MEMBER_HEARTBEAT, "c")->next, C); /* it may connect meanwhile */
	keep_c(50);
	tick(LEASE_NS / MS - 51);
	assert_null(wants(MEMBER_HOLD));
	tick(1);
	assert_non_null(wants(MEMBER_HOLD));
	tick(1);
	assert_null(wants(MEMBER_WRITE));
	obey(m.hold_order);
	tick(1);
	const struct config *c = &wants(MEMBER_WRITE)->config;
	assert_string_equal(c->set[0].name, "c");
	assert_true(c->is_handed);
	assert_int_equal(c->reign, 3);
	assert_false(member_may_answer(&m, now));
}

/* Of two backups the one that is named connects, until another epoch. */
static void test_next(void **state)
{
	struct member_message msg = { .kind = MEMBER_HEARTBEAT, .number = 5, .next = C };

	(void)state;
	back();
	hear("a", A, msg);
	assert_false(m.is_next);
	msg.next = B;
	hear("a", A, msg);
	assert_true(m.is_next);
	read_config(config(2, 1, 1, "ab"));
	assert_false(m.is_next);
}

/* Who takes over has its workers told, and says so; who asked too early asks again. */
static void test_asked_too_early(void **state)
{
	const struct member_message early = { .kind = MEMBER_HEARTBEAT };

	(void)state;
	take_over();
	tick(0);
	assert_non_null(sends(MEMBER_HEARTBEAT, "c"));
	tick(1);
	assert_null(sends(MEMBER_HEARTBEAT, "c"));
	obey(m.epoch_order);
	tick(0);
	assert_non_null(sends(MEMBER_HEARTBEAT, "c"));
	back();
	assert_non_null(sends(MEMBER_OPEN, "a"));
	hear("a", A, early);
	assert_non_null(sends(MEMBER_OPEN, "a"));
}

/* Two connections: what is asked over one comes later than what is asked next over the other. */
static void test_a_late_question(void **state)
{
	(void)state;
	take_over();
	obey(m.epoch_order);
	settled();
	hear("c", C, (struct member_message){ .kind = MEMBER_OPEN, .number = 80 });
	assert_int_equal(sends(MEMBER_BEGIN, "c")->number, 80);
	hear("c", C, (struct member_message){ .kind = MEMBER_OPEN, .number = 79 });
	assert_null(sends(MEMBER_BEGIN, "c"));
	hear("c", C, (struct member_message){ .kind = MEMBER_OPEN, .number = 80 }); /* its next part */
	assert_int_equal(sends(MEMBER_BEGIN, "c")->number, 80);
	hear("c", C, (struct member_message){ .kind = MEMBER_BEGUN, .number = 80 });
	assert_non_null(wants(MEMBER_BEGUN_BY));
	/* Another life counts from elsewhere on. */
	hear("c", C, (struct member_message){ .kind = MEMBER_OPEN, .number = 80 - (1ull << 62) });
	assert_non_null(sends(MEMBER_BEGIN, "c"));
}

static bool is_answered(uint64_t question)
{
	hear("c", C, (struct member_message){ .kind = MEMBER_OPEN, .number = question });
	return sends(MEMBER_BEGIN, "c");
}

/*
 * A life counts from any number on, also past the last one; what is less than 2^32 behind is an
 * earlier question of it, and what is further away is one of another life, which waits for its answer.
 */
static void test_how_old_a_question_is(void **state)
{
	const uint64_t last = 5ull << 32;

	(void)state;
	take_over();
	obey(m.epoch_order);
	settled();
	assert_true(is_answered(last));
	assert_false(is_answered(last - UINT32_MAX));
	assert_true(is_answered(last - UINT32_MAX - 1));
	assert_true(is_answered(~0ull));
	assert_true(is_answered(1)); /* its next one: there is no 0 */
	assert_false(is_answered(~0ull));
	assert_false(is_answered(1 - (uint64_t)UINT32_MAX));
	assert_true(is_answered(1 - (1ull << 32)));
}

/* One of two connections with the primary ends: what it was told last may be lost with it. */
static void test_one_of_two_connections(void **state)
{
	uint64_t asked;

	(void)state;
	back();
	asked = sends(MEMBER_OPEN, "a")->number;
	hear("a", A, (struct member_message){ .kind = MEMBER_BEGIN, .number = asked });
	obey(m.resolve_order);
	assert_int_equal(sends(MEMBER_BEGUN, "a")->number, asked);
	tick(MEMBER_ASK_NS / MS);
	assert_null(sends(MEMBER_OPEN, "a"));
	member_lost(&m, "c");
	tick(1);
	assert_null(sends(MEMBER_OPEN, "a"));
	member_lost(&m, "a");
	tick(1);
	assert_non_null(sends(MEMBER_OPEN, "a"));
	assert_int_equal(m.state, MEMBER_BACKING);
}

/* Answers take longer than from one question to the next: that gets longer, or all came too late. */
static void test_patience(void **state)
{
	unsigned asked = 0;

	(void)state;
	back();
	member_expect(&m, now);
	for (unsigned ms = 0; ms < 900; ms++) {
		hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT });
		asked += sends(MEMBER_OPEN, "a") != NULL;
		tick(1);
		asked += sends(MEMBER_OPEN, "a") != NULL;
	}
	assert_in_range(asked, 5, 14);
	/* In the next epoch, too, the second one comes at once. */
	read_config(config(2, 1, 1, "abc"));
	obey(m.epoch_order);
	assert_non_null(sends(MEMBER_OPEN, "a"));
	hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT });
	assert_non_null(sends(MEMBER_OPEN, "a"));
}

/* By command: the next configuration says who, and has the others. */
static void test_remove(void **state)
{
	(void)state;
	serve();
	assert_false(member_remove(&m, "b"));
	assert_false(member_remove(&m, "nobody"));
	assert_true(member_remove(&m, "c"));
	keep_c(1);
	const struct config *c = &wants(MEMBER_WRITE)->config;
	assert_int_equal(c->count, 1);
	assert_string_equal(c->removed.name, "c");
	assert_int_equal(c->reign, 2);
}

/* Who is out has sealed before it writes, and waits as if it had promised just now. */
static void test_force(void **state)
{
	(void)state;
	start();
	acts.count = 0;
	assert_false(member_force(&m, now, &acts));
	read_config(config(3, 3, 1, "ac"));
	acts.count = 0;
	assert_true(member_force(&m, now, &acts));
	assert_non_null(wants(MEMBER_SEAL));
	member_reached(&m, true);
	tick(1);
	assert_null(wants(MEMBER_WRITE));
	obey(m.seal_order);
	assert_int_equal(wants(MEMBER_WRITE)->config.count, 1);
	assert_int_equal(wants(MEMBER_WRITE)->config.reign, 4);
	read_config(config(4, 4, LIFE, "b"));
	assert_int_equal(m.state, MEMBER_TAKING);
	assert_true(m.wait_ns >= now + LEASE_NS - MS);
}

/* It is there, and gives no promise: that ends nobody's wait but by leaving it out. */
static void test_who_has_sealed_is_left_out(void **state)
{
	(void)state;
	serve();
	for (unsigned i = 0; i < MEMBER_SILENCE_NS / MS / 50; i++) {
		assert_null(wants(MEMBER_WRITE));
		hear("c", C, (struct member_message){ .kind = MEMBER_PROMISE, .number = MEMBER_REFUSED });
		tick(50);
	}
	assert_non_null(wants(MEMBER_WRITE));
	assert_int_equal(wants(MEMBER_WRITE)->config.count, 1);
}

/* One of two is left out at once; where both are silent it is more likely this one that is cut off. */
static void test_all_others_at_once(void **state)
{
	(void)state;
	serve();
	read_config(config(3, 2, LIFE, "bca"));
	hear("c", C, (struct member_message){ .kind = MEMBER_PROMISE, .number = m.round.number });
	tick(MEMBER_SILENCE_NS / MS + 1);
	assert_null(wants(MEMBER_WRITE));
	tick(MEMBER_ALONE_NS / MS - 10);
	assert_null(wants(MEMBER_WRITE));
	tick(10);
	assert_non_null(wants(MEMBER_WRITE));
	assert_int_equal(wants(MEMBER_WRITE)->config.count, 1);
}

static void test_one_of_two_others(void **state)
{
	(void)state;
	serve();
	read_config(config(3, 2, LIFE, "bca"));
	keep_c(MEMBER_SILENCE_NS / MS);
	assert_non_null(wants(MEMBER_WRITE));
	assert_int_equal(wants(MEMBER_WRITE)->config.count, 2);
}

/* One of two is to leave, and is heard of; the other one is silent: that is nobody's cut. */
static void test_one_is_removed_one_is_silent(void **state)
{
	(void)state;
	serve();
	read_config(config(3, 2, LIFE, "bca"));
	keep_c(MEMBER_SILENCE_NS / MS - 50);
	assert_true(member_remove(&m, "c"));
	hear("c", C, (struct member_message){ .kind = MEMBER_PROMISE, .number = m.round.number });
	tick(100);
	assert_non_null(wants(MEMBER_WRITE));
	assert_int_equal(wants(MEMBER_WRITE)->config.count, 1);
}

/* Its own port is down: it is not the others who are gone. */
static void test_a_primary_whose_port_is_down(void **state)
{
	(void)state;
	serve();
	member_cut(&m, true, now);
	member_gone(&m, "c");
	tick(5000);
	assert_null(wants(MEMBER_WRITE));
	member_cut(&m, false, now);
	tick(MEMBER_CONNECT_NS / MS);
	assert_null(wants(MEMBER_WRITE));
	tick(MEMBER_SILENCE_NS / MS + 1);
	assert_non_null(wants(MEMBER_WRITE));
}

static void test_a_backup_whose_port_is_down(void **state)
{
	(void)state;
	back();
	member_reached(&m, true);
	member_cut(&m, true, now);
	member_gone(&m, "a");
	tick(5000);
	assert_int_equal(m.state, MEMBER_BACKING);
	member_cut(&m, false, now);
	tick(MEMBER_CONNECT_NS / MS);
	assert_int_equal(m.state, MEMBER_BACKING);
	tick(MEMBER_SILENCE_NS / MS + 1);
	assert_int_equal(m.state, MEMBER_SEALED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expected),
		cmocka_unit_test(test_away),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_what_serving_waits_for),
		cmocka_unit_test(test_not_begun),
		cmocka_unit_test(test_not_settled),
		cmocka_unit_test(test_sealed_promises_nothing),
		cmocka_unit_test(test_agreement_away),
		cmocka_unit_test(test_a_life_before),
		cmocka_unit_test(test_handed),
		cmocka_unit_test(test_unknown_outcome),
		cmocka_unit_test(test_promote),
		cmocka_unit_test(test_next),
		cmocka_unit_test(test_asked_too_early),
		cmocka_unit_test(test_a_late_question),
		cmocka_unit_test(test_how_old_a_question_is),
		cmocka_unit_test(test_one_of_two_connections),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_remove),
		cmocka_unit_test(test_force),
		cmocka_unit_test(test_who_has_sealed_is_left_out),
		cmocka_unit_test(test_all_others_at_once),
		cmocka_unit_test(test_one_of_two_others),
		cmocka_unit_test(test_one_is_removed_one_is_silent),
		cmocka_unit_test(test_a_primary_whose_port_is_down),
		cmocka_unit_test(test_a_backup_whose_port_is_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
