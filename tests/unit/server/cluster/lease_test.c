/* SPDX-License-Identifier: BSD-2-Clause */
/* common/lease.h and server/cluster/lease: words, rounds and promises, at their edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/cluster/lease/promise.h"
#include "server/cluster/lease/round.h"

#define MS 1000000ull
#define REIGN 7u
#define B 1u
#define C 2u

static struct lease sampled(struct lease l, uint64_t a, uint64_t g, uint64_t posted_ns)
{
	lease_sampled(&l, &(struct lease_words){ REIGN, a, g }, posted_ns);
	return l;
}

/* A lease of a reader that a fast clock counts is over before a promise that a slow one counts. */
static void test_margin(void **state)
{
	(void)state;
	assert_true(LEASE_GOOD_NS / (LEASE_RHO - 1) * LEASE_RHO <
		    LEASE_NS / (LEASE_RHO + 1) * LEASE_RHO);
}

static void test_a_reader(void **state)
{
	struct lease l = { 0 };

	(void)state;
	assert_false(lease_is_good(&l, 0, 0));
	l = sampled(l, 5, 5, 100 * MS);
	assert_false(lease_is_good(&l, REIGN, 100 * MS));
	l = sampled(l, 5, 5, 110 * MS);
	assert_false(lease_is_good(&l, REIGN, 110 * MS));
	l = sampled(l, 6, 6, 150 * MS);
	assert_true(lease_is_good(&l, REIGN, 110 * MS + LEASE_GOOD_NS - 1));
	assert_false(lease_is_good(&l, REIGN, 110 * MS + LEASE_GOOD_NS));
	assert_false(lease_is_good(&l, REIGN + 1, 150 * MS));
}

/* Another reign's words take all of it away. */
static void test_a_reign(void **state)
{
	struct lease l = sampled((struct lease){ 0 }, 5, 5, 0);

	(void)state;
	lease_sampled(&l, &(struct lease_words){ REIGN + 1, 9, 9 }, 10 * MS);
	assert_false(lease_is_good(&l, REIGN + 1, 10 * MS));
	assert_false(lease_is_good(&l, REIGN, 10 * MS));
	lease_told(&l, REIGN + 1, 30 * MS, 20 * MS);
	assert_true(lease_is_good(&l, REIGN + 1, 50 * MS - 1));
	assert_false(lease_is_good(&l, REIGN + 1, 50 * MS));
	lease_told(&l, REIGN + 1, 1 * MS, 20 * MS);
	assert_true(lease_is_good(&l, REIGN + 1, 50 * MS - 1));
}

/* Who READs all the time, G being one behind A whenever it looks, has a lease all the same. */
static void test_reads_all_the_time(void **state)
{
	struct lease l = { 0 };

	(void)state;
	for (uint64_t t = 0; t < 1000; t++) {
		const uint64_t rounds = t * MS / ROUND_NS;

		l = sampled(l, 10 + rounds, 9 + rounds, t * MS);
		assert_true(rounds < 2 || lease_is_good(&l, REIGN, t * MS));
	}
}

static void test_a_round(void **state)
{
	struct round r = { 0 };

	(void)state;
	round_reign(&r, REIGN);
	round_raise(&r, B | C, 100 * MS);
	assert_int_equal(r.words.a, 1);
	assert_int_equal(r.words.g, 0);
	assert_false(round_promised(&r, B, 1));
	assert_false(round_promised(&r, B, 1));
	assert_false(round_promised(&r, C, 0));
	assert_false(round_is_good(&r, 100 * MS));
	assert_true(round_promised(&r, C, 1));
	assert_int_equal(r.words.g, 1);
	assert_true(round_is_good(&r, 100 * MS + LEASE_GOOD_NS - 1));
	assert_false(round_is_good(&r, 100 * MS + LEASE_GOOD_NS));
	assert_int_equal(round_left_ns(&r, 110 * MS), LEASE_GOOD_NS - 10 * MS);
	assert_int_equal(round_left_ns(&r, 100 * MS + LEASE_GOOD_NS), 0);
	round_raise(&r, B | C, 150 * MS);
	assert_false(round_promised(&r, B, 1)); /* an earlier round's */
	round_raise(&r, B | C, 200 * MS);
	assert_false(round_promised(&r, B, 2));
	assert_false(round_promised(&r, C, 2));
	assert_int_equal(r.words.a, 3);
	assert_int_equal(r.words.g, 1);
}

static void test_alone(void **state)
{
	struct round r = { 0 };

	(void)state;
	round_reign(&r, REIGN);
	round_raise(&r, 0, 100 * MS);
	assert_int_equal(r.words.g, 1);
	round_reign(&r, REIGN + 1);
	assert_false(round_is_good(&r, 100 * MS));
	round_raise(&r, 0, 100 * MS);
	assert_int_equal(r.words.a, 2);
}

static void test_it_grows(void **state)
{
	struct round r = { 0 };

	(void)state;
	round_reign(&r, REIGN);
	round_include(&r, B, 100 * MS);
	round_raise(&r, 0, 110 * MS);
	assert_int_equal(r.words.g, 0);
	assert_true(round_promised(&r, B, 1));
	assert_false(round_may_grow(&r, 100 * MS + LEASE_NS - 1));
	assert_true(round_may_grow(&r, 100 * MS + LEASE_NS));
	round_include(&r, 0, 200 * MS);
	assert_false(round_may_grow(&r, 900 * MS));
}

/* What is hidden is shown by no G, though it be complete when it is shown again. */
static void test_hidden(void **state)
{
	struct round r = { 0 };

	(void)state;
	round_reign(&r, REIGN);
	round_raise(&r, B, 100 * MS);
	round_hide(&r, 110 * MS);
	assert_true(round_promised(&r, B, 1));
	assert_int_equal(r.words.g, 0);
	round_raise(&r, B, 150 * MS);
	assert_int_equal(r.words.a, 1);
	assert_false(round_is_forgotten(&r, 110 * MS + LEASE_NS - 1));
	assert_true(round_is_forgotten(&r, 110 * MS + LEASE_NS));
	round_show(&r);
	assert_true(round_promised(&r, B, 2));
	assert_int_equal(r.words.g, 0);
	assert_true(round_is_good(&r, 150 * MS));
	assert_false(round_is_forgotten(&r, 900 * MS));
	round_raise(&r, B, 200 * MS);
	assert_true(round_promised(&r, B, 3));
	assert_int_equal(r.words.a, 3);
	assert_int_equal(r.words.g, 3);
}

static void test_a_promise(void **state)
{
	struct promise p = { 0 };

	(void)state;
	assert_true(promise_is_over(&p, 0));
	promise_make(&p, 5);
	assert_false(promise_is_over(&p, 5 + LEASE_NS - 1));
	assert_true(promise_is_over(&p, 5 + LEASE_NS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_margin),
		cmocka_unit_test(test_a_reader),
		cmocka_unit_test(test_a_reign),
		cmocka_unit_test(test_reads_all_the_time),
		cmocka_unit_test(test_a_round),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_it_grows),
		cmocka_unit_test(test_hidden),
		cmocka_unit_test(test_a_promise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
