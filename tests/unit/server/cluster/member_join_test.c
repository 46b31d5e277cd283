/* SPDX-License-Identifier: BSD-2-Clause */
/* server/cluster/member: who joins, from both sides, and who has failed, and may join again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/cluster/member/backup.h"
#include "server/cluster/member/join.h"
#include "server/cluster/member/peers.h"
#include "tests/unit/server/cluster/member_kit.h"

static void invite_a(void)
{
	serve();
	assert_false(member_invite(&m, "c", now));
	assert_true(member_invite(&m, "a", now));
	keep_c(50);
	assert_int_equal(sends(MEMBER_JOIN, "a")->number, m.copy);
	hear("a", 0xa2, (struct member_message){ .kind = MEMBER_JOINED, .number = m.copy });
	assert_non_null(wants(MEMBER_COPY));
	assert_int_equal(member_place(&m, "a", 0xa2), m.joiner);
}

static void keep_both(uint64_t later_ms)
{
	for (uint64_t i = 0; i < later_ms; i += 50) {
		hear("a", 0xa2, (struct member_message){ .kind = MEMBER_PROMISE,
							 .number = m.round.number });
		keep_c(50);
	}
}

static void test_a_joiner(void **state)
{
	(void)state;
	invite_a();
	acts.count = 0;
	member_copied(&m, now, &acts);
	assert_null(wants(MEMBER_WRITE)); /* leases from before it promised */
	keep_both(300);
	assert_true(m.is_naming);
	assert_int_equal(m.joiner >= 0, 1);
	member_wrote(&m, now, NULL, &acts);
	/* It is silent, and may be named: the same set takes the version. */
	keep_c(250);
	const struct member_action *a = wants(MEMBER_WRITE);
	assert_true(m.joiner >= 0);
	assert_true(!a || a->config.count == 2);
	read_config(config(3, 2, LIFE, "bc"));
	assert_int_equal(m.joiner, -1);
}

static void test_a_joiner_given_up(void **state)
{
	(void)state;
	invite_a();
	member_gone(&m, "a");
	keep_c(50);
	assert_int_equal(m.joiner, -1);
}

static void fails(bool may_heal)
{
	acts.count = 0;
	member_failed(&m, may_heal, now, &acts);
}

static void test_a_failed_disk(void **state)
{
	(void)state;
	serve();
	fails(false);
	assert_non_null(wants(MEMBER_STOP));
	assert_non_null(wants(MEMBER_SEAL));
	obey(m.seal_order);
	tick(100);
	assert_null(wants(MEMBER_WRITE));
}

/* One that lacks a change seals in each epoch, so that it is left out. */
static void test_unfit_backup(void **state)
{
	(void)state;
	back();
	fails(true);
	assert_non_null(wants(MEMBER_SEAL));
	read_config(config(2, 1, 1, "ab"));
	assert_int_equal(m.state, MEMBER_SEALED);
	obey(m.seal_order);
	hear("a", A, (struct member_message){ .kind = MEMBER_HEARTBEAT, .number = 6 });
	assert_true(sends(MEMBER_PROMISE, "a")->number == MEMBER_REFUSED);
	tick(2 * MEMBER_SILENCE_NS / MS);
	assert_null(wants(MEMBER_WRITE));
}

/* The other side of a join. */
static void test_it_joins(void **state)
{
	(void)state;
	start();
	read_config(config(1, 1, 1, "a"));
	assert_int_equal(m.state, MEMBER_OUT);
	hear("a", A, (struct member_message){ .kind = MEMBER_JOIN, .number = 9 });
	assert_non_null(wants(MEMBER_EMPTY));
	acts.count = 0;
	member_emptied(&m, 0xb3, now, &acts);
	assert_int_equal(wants(MEMBER_EPOCH)->role, MEMBER_BACKUP);
	obey(m.resolve_order);
	assert_int_equal(sends(MEMBER_JOINED, "a")->number, 9);
	assert_int_equal(sends(MEMBER_JOINED, "a")->from, 0xb3);
	hear("a", A, (struct member_message){ .kind = MEMBER_JOIN, .number = 9 });
	assert_null(wants(MEMBER_EMPTY));
	assert_non_null(sends(MEMBER_JOINED, "a"));
	tick(1000);
	assert_int_equal(m.state, MEMBER_OUT);
}

/* Its workers take their time: nobody sends it heartbeats meanwhile. */
static void test_emptying_takes_long(void **state)
{
	(void)state;
	start();
	read_config(config(1, 1, 1, "a"));
	hear("a", A, (struct member_message){ .kind = MEMBER_JOIN, .number = 9 });
	tick(5000);
	assert_int_equal(m.state, MEMBER_JOINING);
	acts.count = 0;
	member_emptied(&m, 0xb3, now, &acts);
	tick(900);
	assert_int_equal(m.state, MEMBER_JOINING);
}

static void expect_joins(bool does)
{
	hear("a", A, (struct member_message){ .kind = MEMBER_JOIN, .number = 9 });
	assert_int_equal(!!wants(MEMBER_EMPTY), does);
	assert_int_equal(m.state, does ? MEMBER_JOINING : MEMBER_OUT);
}

/* A copy makes it whole, but not at once: it might lack the same again. */
static void test_unfit_to_join(void **state)
{
	(void)state;
	start();
	read_config(config(1, 1, 1, "a"));
	fails(true);
	expect_joins(false);
	tick(MEMBER_HEAL_NS / MS - 1);
	expect_joins(false);
	tick(1);
	expect_joins(true);
	assert_false(m.is_unfit);
	fails(true); /* again: it waits for twice as long */
	assert_int_equal(m.state, MEMBER_OUT);
	tick(MEMBER_HEAL_NS / MS);
	expect_joins(false);
	tick(MEMBER_HEAL_NS / MS);
	expect_joins(true);
}

/* Its disk failed. */
static void test_unfit_for_good(void **state)
{
	(void)state;
	start();
	read_config(config(1, 1, 1, "a"));
	fails(false);
	tick(2 * MEMBER_HEAL_NS_MAX / MS);
	expect_joins(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_joiner),
		cmocka_unit_test(test_a_joiner_given_up),
		cmocka_unit_test(test_a_failed_disk),
		cmocka_unit_test(test_unfit_backup),
		cmocka_unit_test(test_it_joins),
		cmocka_unit_test(test_emptying_takes_long),
		cmocka_unit_test(test_unfit_to_join),
		cmocka_unit_test(test_unfit_for_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
