/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/ticks.h: when the counter may stand for the clock, and grant.h, which goes by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/cache/grant.h"
#include "common/clock.h"

#define MS 1000000ull
#define RATE 3000000ull /* a millisecond */

/* Two looks at a counter of RATE, a millisecond apart. */
static struct ticks known(void)
{
	struct ticks t = { 0 };

	ticks_looked(&t, 500, 10 * MS, 600);
	ticks_looked(&t, 600 + RATE, 11 * MS, 700 + RATE);
	return t;
}

static void test_nothing_is_known_at_first(void **state)
{
	struct ticks t = { 0 };

	(void)state;
	assert_false(ticks_is_near(&t));
	ticks_looked(&t, 500, 10 * MS, 600);
	ticks_trust(&t, 10 * MS, 20 * MS);
	assert_int_equal(t.near, 0); /* no rate yet */
}

static void test_a_rate(void **state)
{
	struct ticks t = known();

	(void)state;
	assert_int_equal(t.per_ms, RATE);
	ticks_trust(&t, 11 * MS, 1000 * MS);
	assert_int_equal(t.at, 600 + RATE);
	assert_int_equal(t.near, RATE * (TICKS_NEAR_NS - TICKS_EARLY_NS) / MS);
}

/* Who stood still between counter and clock, on either side, counts less, never more. */
static void test_a_rate_is_never_too_high(void **state)
{
	struct ticks t = { 0 };

	(void)state;
	ticks_looked(&t, 500, 10 * MS, 500 + RATE); /* still behind the first */
	ticks_looked(&t, 500 + 2 * RATE, 12 * MS, 500 + 2 * RATE);
	assert_true(t.per_ms <= RATE);
	t = (struct ticks){ 0 };
	ticks_looked(&t, 500, 10 * MS, 500);
	ticks_looked(&t, 500 + RATE, 12 * MS, 500 + 2 * RATE); /* still before the second */
	assert_true(t.per_ms <= RATE);
	t = (struct ticks){ 0 };
	ticks_looked(&t, 500, 10 * MS, 500 + RATE); /* before the first, the whole time */
	ticks_looked(&t, 500 + 3 * RATE, 12 * MS, 500 + 3 * RATE);
	assert_true(t.per_ms <= RATE);
}

/* Another look is not trusted for as long as the one before it. */
static void test_each_look_is_for_itself(void **state)
{
	struct ticks t = known();

	(void)state;
	ticks_trust(&t, 11 * MS, 1000 * MS);
	assert_true(t.near > 0);
	ticks_looked(&t, 650 + RATE, 11 * MS + 10, 750 + RATE);
	assert_int_equal(t.at, 650 + RATE);
	assert_int_equal(t.near, 0);
	assert_int_equal(t.per_ms, RATE);
}

/* The lease ends before the counter is done. */
static void test_the_end_is_heeded(void **state)
{
	struct ticks t = known();

	(void)state;
	ticks_trust(&t, 11 * MS, 11 * MS + TICKS_NEAR_NS / 2);
	assert_int_equal(t.near, RATE * (TICKS_NEAR_NS / 2 - TICKS_EARLY_NS) / MS);
	ticks_trust(&t, 11 * MS, 11 * MS + TICKS_EARLY_NS);
	assert_int_equal(t.near, 0);
	ticks_trust(&t, 11 * MS, 10 * MS);
	assert_int_equal(t.near, 0);
}

/* A counter that began anew, or was set far ahead, tells no rate. */
static void test_a_counter_that_was_set(void **state)
{
	struct ticks t = known();

	(void)state;
	ticks_looked(&t, 50, 13 * MS, 60);
	assert_int_equal(t.per_ms, 0);
	t = known();
	ticks_looked(&t, 600 + 100 * RATE, 12 * MS, 600 + 100 * RATE);
	assert_int_equal(t.per_ms, 0);
	assert_int_equal(t.near, 0);
}

/* What the real counter says is never said once the clock has come. */
static void test_the_clock_has_not_come(void **state)
{
	struct ticks t = { 0 };
	unsigned near = 0;

	(void)state;
	if (!ticks_are_steady())
		skip();
	for (uint64_t end_ns = clock_ns() + 200 * MS; clock_ns() < end_ns;) {
		uint64_t until_ns = ticks_clock_ns(&t) + 300000;

		ticks_trust(&t, until_ns - 300000, until_ns);
		for (bool is_near = true; is_near;) {
			uint64_t before_ns = clock_read_ns(CLOCK_BOOTTIME);

			is_near = ticks_is_near(&t);
			near += is_near;
			assert_true(!is_near || before_ns < until_ns);
		}
	}
	assert_true(near > 100);
}

static void test_a_grant_is_of_a_reign(void **state)
{
	struct grant g;

	(void)state;
	if (!ticks_are_steady())
		skip();
	grant_begin(&g, 7);
	g.fresh_ns = UINT64_MAX;
	for (unsigned i = 0; i < 1000 && !g.ticks.near; i++) {
		for (uint64_t end_ns = clock_ns() + MS; clock_ns() < end_ns;)
			;
		grant_look_at_clock_ns(&g);
	}
	g.ticks.near = UINT64_MAX; /* however busy the machine is */
	assert_true(grant_is_fresh(&g, 7));
	assert_false(grant_is_fresh(&g, 8));
	grant_begin(&g, 7);
	assert_false(grant_is_fresh(&g, 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_known_at_first),
		cmocka_unit_test(test_a_rate),
		cmocka_unit_test(test_a_rate_is_never_too_high),
		cmocka_unit_test(test_each_look_is_for_itself),
		cmocka_unit_test(test_the_end_is_heeded),
		cmocka_unit_test(test_a_counter_that_was_set),
		cmocka_unit_test(test_the_clock_has_not_come),
		cmocka_unit_test(test_a_grant_is_of_a_reign),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
