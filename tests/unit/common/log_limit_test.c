/* SPDX-License-Identifier: BSD-2-Clause */
/* common/log_limit.h: a bucket lets its burst through, then its rate, and loses no count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "tests/unit/said.h"

#define S 1000000000ull

/* How many of `tries` at that time are let through. */
static unsigned take(struct log_bucket *b, unsigned tries, uint64_t now_ns)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < tries; i++)
		taken += log_bucket_take(b, now_ns);
	return taken;
}

static void test_burst_and_rate(void **state)
{
	struct log_bucket b = { 0 };

	(void)state;
	assert_int_equal(take(&b, 1000, 5 * S), LOG_LIMIT_BURST);
	assert_int_equal(b.unsaid, 1000 - LOG_LIMIT_BURST);
	assert_int_equal(b.unsaid_since_ns, 5 * S);
	assert_int_equal(take(&b, 1000, 15 * S), 10 * LOG_LIMIT_PER_S);
	assert_int_equal(b.unsaid, 2000 - LOG_LIMIT_BURST - 10 * LOG_LIMIT_PER_S);
	/* Still since the first of them. */
	assert_int_equal(b.unsaid_since_ns, 5 * S);
}

/* However long nothing was said, no more than a burst. */
static void test_idle(void **state)
{
	struct log_bucket b = { 0 };

	(void)state;
	assert_int_equal(take(&b, 1, S), 1);
	assert_int_equal(take(&b, 1000, 1000000 * S), LOG_LIMIT_BURST);
}

/* A thread whose clock is behind takes none, and gives none. */
static void test_backwards(void **state)
{
	struct log_bucket b = { 0 };

	(void)state;
	assert_int_equal(take(&b, 1000, 50 * S), LOG_LIMIT_BURST);
	assert_int_equal(take(&b, 10, 40 * S), 0);
	assert_int_equal(take(&b, 10, 50 * S), 0);
	assert_int_equal(take(&b, 10, 51 * S), LOG_LIMIT_PER_S);
}

/* For a day of the worst flood: what kvd(8) says. */
static void test_day(void **state)
{
	struct log_bucket b = { 0 };
	unsigned lines = 0;

	(void)state;
	for (uint64_t ms = 1; ms < 86400000; ms += 7)
		lines += log_bucket_take(&b, ms * 1000000);
	assert_in_range(lines, 86400 * LOG_LIMIT_PER_S, 86400 * LOG_LIMIT_PER_S + LOG_LIMIT_BURST + 1);
	assert_int_equal(lines + b.unsaid, (86400000 - 1 + 6) / 7);
}

static unsigned tell(uint64_t now_ns, bool all)
{
	said_begin();
	log_limit_tell(now_ns, all);
	said_end();
	return said_lines("more like this suppressed");
}

/* A count that was left out waits for its time, is told once, and not before; or at once, with all. */
static void test_told(void **state)
{
	uint64_t begun_ns = clock_ns();

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		said_begin();
		for (unsigned i = 0; i < 200; i++)
			log_limited(LOG_LEVEL_INFO, "a kind", "line %u", i);
		said_end();
		assert_in_range(said_lines(": line "), round ? 0 : LOG_LIMIT_BURST, 199);
		assert_int_equal(tell(begun_ns, false), 0);
		assert_int_equal(tell(begun_ns + (LOG_LIMIT_TELL_S - 1) * S, false), 0);
		assert_int_equal(tell(clock_ns() + (round ? 0 : LOG_LIMIT_TELL_S) * S, round), 1);
		assert_int_equal(tell(clock_ns() + LOG_LIMIT_TELL_S * S, false), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_burst_and_rate),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_backwards),
		cmocka_unit_test(test_day),
		cmocka_unit_test(test_told),
	};

	log_open("log_limit_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
