/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/clock.h: what a client says of an expiry is true of kvd's clock, whatever
 * the delays and the drift. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/cache/clock.h"

#define MS 1000000ull

static void test_unknown(void **state)
{
	struct clock c = { .known = false };

	(void)state;
	assert_int_equal(clock_judge(&c, 5, 0, 0), CLOCK_UNSURE);
}

/* kvd's clock said 1000 when ours was between 50 and 60 ms. */
static void test_bounds(void **state)
{
	struct clock c = { .known = false };

	(void)state;
	clock_learn(&c, 1000, 50 * MS, 60 * MS);
	/* At 60 ms kvd's is between 1000 and 1011, but for the drift of 10 ms. */
	assert_int_equal(clock_judge(&c, 1013, 60 * MS, 60 * MS), CLOCK_LIVE);
	assert_int_equal(clock_judge(&c, 1011, 60 * MS, 60 * MS), CLOCK_UNSURE);
	assert_int_equal(clock_judge(&c, 1000, 60 * MS, 60 * MS), CLOCK_UNSURE);
	assert_int_equal(clock_judge(&c, 998, 60 * MS, 60 * MS), CLOCK_EXPIRED);
	/* Alive when the GET began, if not at its end: kvd has to say. */
	assert_int_equal(clock_judge(&c, 1100, 60 * MS, 300 * MS), CLOCK_UNSURE);
	/* Long after, the bounds are wide. */
	assert_int_equal(clock_judge(&c, 1900, 1000 * MS, 1000 * MS), CLOCK_UNSURE);
	assert_int_equal(clock_judge(&c, 2200, 1000 * MS, 1000 * MS), CLOCK_LIVE);
	/* A new answer narrows them. */
	clock_learn(&c, 1950, 1000 * MS, 1001 * MS);
	assert_int_equal(clock_judge(&c, 1955, 1001 * MS, 1001 * MS), CLOCK_LIVE);
	assert_int_equal(clock_judge(&c, 1948, 1001 * MS, 1001 * MS), CLOCK_EXPIRED);
}

/* The bounds to the nanosecond.  At 50 ms, when the request left, there is no drift: kvd's clock was at
 * most 1001 ms, which it can't quite have been, and at least 990. */
static void test_at_the_bounds(void **state)
{
	struct clock c = { .known = false };
	const uint64_t then = 50 * MS;

	(void)state;
	clock_learn(&c, 1000, then, 60 * MS);
	/* What may have come to its end is not alive. */
	assert_int_equal(clock_judge(&c, 1001, then, then - 1), CLOCK_LIVE);
	assert_int_equal(clock_judge(&c, 1001, then, then), CLOCK_UNSURE);
	assert_int_equal(clock_judge(&c, 1001, then, then + 1), CLOCK_UNSURE);
	/* What surely has is over. */
	assert_int_equal(clock_judge(&c, 990, then - 1, then), CLOCK_UNSURE);
	assert_int_equal(clock_judge(&c, 990, then, then), CLOCK_EXPIRED);
	assert_int_equal(clock_judge(&c, 990, then + 1, then + 1), CLOCK_EXPIRED);
	/* 8 ms later there is a millisecond of drift, in both directions. */
	const uint64_t later = then + 8 * MS;
	assert_int_equal(clock_judge(&c, 1010, later, later - 1), CLOCK_LIVE);
	assert_int_equal(clock_judge(&c, 1010, later, later), CLOCK_UNSURE);
	assert_int_equal(clock_judge(&c, 997, later - 2, later), CLOCK_UNSURE);
	assert_int_equal(clock_judge(&c, 997, later, later), CLOCK_EXPIRED);
	/* What is no time is later than all. */
	assert_int_equal(clock_judge(&c, UINT64_MAX, then, then), CLOCK_LIVE);
}

/* By kvd's clock at its lowest, in whole milliseconds; where nothing is known, or left, it is asked soon. */
static void test_left(void **state)
{
	struct clock c = { .known = false };
	const uint64_t then = 50 * MS;

	(void)state;
	assert_int_equal(clock_left_ms(&c, 5000, then), 1);
	clock_learn(&c, 1000, then, 60 * MS);
	assert_int_equal(clock_left_ms(&c, 1990, then), 1000);
	assert_int_equal(clock_left_ms(&c, 1990, then + 1), 999);
	assert_int_equal(clock_left_ms(&c, 992, then), 2);
	for (uint64_t expiry = 988; expiry < 992; expiry++)
		assert_int_equal(clock_left_ms(&c, expiry, then), 1);
}

static uint64_t random_state = 1;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % below;
}

/* Random delays and a clock that drifts by up to 8 %: never a wrong word. */
static void test_never_wrong(void **state)
{
	(void)state;
	for (unsigned run = 0; run < 200; run++) {
		struct clock c = { .known = false };
		uint64_t now = draw(1000 * MS), kvd = MS + draw(5000 * MS);
		for (unsigned step = 0; step < 200; step++) {
			uint64_t there = draw(20) * MS, back = draw(20) * MS, pause = draw(2000) * MS;
			int64_t per_mille = (int64_t)draw(160) - 80;
			uint64_t sent = now;
			now += there;
			kvd += there + (uint64_t)((int64_t)there * per_mille / 1000);
			clock_learn(&c, kvd / MS, sent, now + back);
			now += back + pause;
			kvd += back + pause + (uint64_t)((int64_t)(back + pause) * per_mille / 1000);
			uint64_t expiry = kvd / MS + draw(600) - 300;
			enum clock_verdict v = clock_judge(&c, expiry, now, now);
			if (v == CLOCK_LIVE)
				assert_true(kvd / MS < expiry);
			if (v == CLOCK_EXPIRED)
				assert_true(kvd / MS >= expiry);
		}
	}
}

/* This machine was suspended for a second: it can't say how late it is at kvd's. */
static void test_suspended(void **state)
{
	struct clock c = { .known = false };

	(void)state;
	clock_learn(&c, 1000, 50 * MS, 60 * MS);
	c.slept_ns = 3 * MS;
	assert_false(clock_slept(&c, 63 * MS, 60 * MS));
	assert_false(clock_slept(&c, 64 * MS, 60 * MS));
	assert_false(clock_slept(&c, 68 * MS, 60 * MS));
	assert_true(clock_slept(&c, 68 * MS + 1, 60 * MS));
	bool told = clock_slept(&c, 1063 * MS, 60 * MS);
	if (!told)
		print_error("a suspended client believes its clock\n");
	assert_true(told);
	/* Looked at long after each other. */
	assert_false(clock_slept(&c, 63 * MS, 90 * MS));
	/* Another answer does not undo it: one of the bounds may still be that of before. */
	clock_learn(&c, 2000, 70 * MS, 80 * MS);
	assert_int_equal(c.slept_ns, 3 * MS);
	assert_true(clock_slept(&c, 1083 * MS, 80 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_at_the_bounds),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_never_wrong),
		cmocka_unit_test(test_suspended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
