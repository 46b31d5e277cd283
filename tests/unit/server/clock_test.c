/* SPDX-License-Identifier: BSD-2-Clause */
/* server/store/item/clock.h: kvd's clock goes on while the machine is suspended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/store/item/clock.h"

#define S 1000000000ull

static void test_suspended(void **state)
{
	struct store s = { .clock_start_ns = 0 };

	(void)state;
	store_clock_start(&s);
	uint64_t start = clock_ns(), slept = atomic_load(&s.slept_ns);
	assert_in_range(store_clock_ms(&s), 1, 10000);
	uint64_t before = store_clock_ms_at(&s, start);
	/* Looked at, with nothing new, and late. */
	store_clock_woke(&s, start + slept, start);
	store_clock_woke(&s, start, start + S);
	assert_int_equal(store_clock_ms_at(&s, start), before);
	/* A minute asleep, of which CLOCK_MONOTONIC knows nothing. */
	store_clock_woke(&s, start + slept + 60 * S, start);
	uint64_t after = store_clock_ms_at(&s, start);
	if (after < before + 60000)
		print_error("a time to live stands still while the machine sleeps\n");
	assert_int_equal(after, before + 60000);
	/* It never goes back. */
	store_clock_woke(&s, start + slept, start);
	assert_int_equal(store_clock_ms_at(&s, start), after);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_suspended) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
