/* SPDX-License-Identifier: BSD-2-Clause */
/* common/clock.h: nanoseconds of the kernel's clocks, and how long the machine was suspended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/clock.h"

/* Between two readings of the same clock. */
static void test_now(void **state)
{
	struct timespec before, after;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		clock_gettime(CLOCK_MONOTONIC, &before);
		uint64_t ns = clock_ns();
		clock_gettime(CLOCK_MONOTONIC, &after);
		assert_in_range(ns, (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec,
				(uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec);
	}
}

static void test_slept(void **state)
{
	(void)state;
	assert_int_equal(clock_slept_ns(500, 200), 300);
	assert_int_equal(clock_slept_ns(201, 200), 1);
	assert_int_equal(clock_slept_ns(200, 200), 0);
	/* The later reading is ahead of a clock that was read before it. */
	assert_int_equal(clock_slept_ns(199, 200), 0);
	assert_int_equal(clock_slept_ns(0, UINT64_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_now),
		cmocka_unit_test(test_slept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
