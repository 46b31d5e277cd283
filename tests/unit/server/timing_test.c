/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/timing.h: each request is counted where it belongs, and slow ones are told, but not all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/worker/timing.h"
#include "tests/unit/said.h"

#define MS 1000000ull
#define S 1000000000ull

static const struct wire_request get = { .op = WIRE_GET, .key_bytes = 5, .value_bytes = 9 };

/* So many that took 50 ms; how many were told. */
static unsigned note(struct timings *t, unsigned count)
{
	said_begin();
	for (unsigned i = 0; i < count; i++)
		timing_note(t, "them", &get, "k\x01 \xffy", clock_ns() - 50 * MS);
	said_end();
	return said_lines("slow: get of them took ");
}

static void test_told_and_counted(void **state)
{
	struct timings t = { .slow_ns = 20 * MS, .worker = 3 };
	unsigned told = note(&t, 50), more;
	char text[64];

	(void)state;
	assert_in_range(told, 1, 10);
	assert_int_equal(said_lines("(key k...y, 9 bytes)"), told);
	assert_int_equal(said_lines("more slow operations"), 0);
	assert_int_equal(note(&t, 50), 0);
	/* A second later: how many were not told. */
	t.slow_since_ns -= 2 * S;
	assert_int_equal(note(&t, 1), 1);
	snprintf(text, sizeof text, "worker 3: %u more slow operations", 100 - told);
	assert_int_equal(said_lines(text), 1);
	/* As many as are told leave none over. */
	assert_int_equal(note(&t, told - 1), told - 1);
	t.slow_since_ns -= 2 * S;
	more = note(&t, told + 1);
	assert_int_equal(more, told);
	assert_int_equal(said_lines("more slow operations"), 0);
	t.slow_since_ns -= 2 * S;
	assert_int_equal(note(&t, 1), 1);
	assert_int_equal(said_lines("worker 3: 1 more slow operations"), 1);
}

static void test_not_slow(void **state)
{
	struct timings t = { .slow_ns = 0 };

	(void)state;
	assert_int_equal(note(&t, 1), 0); /* nobody wants to know */
	t.slow_ns = 10 * S;
	assert_int_equal(note(&t, 1), 0);
	assert_in_range(t.op[WIRE_GET].sum_ns, 100 * MS, S);
}

/* By its time, and the sum; not those that are not timed. */
static void test_buckets(void **state)
{
	struct timings t = { .slow_ns = 0 };
	uint64_t all = 0;

	(void)state;
	timing_note(&t, "them", &get, "key", 0);
	assert_int_equal(t.op[WIRE_GET].sum_ns, 0);
	for (unsigned b = 0; b <= TIMING_BOUNDS; b++)
		assert_int_equal(t.op[WIRE_GET].bucket[b], 0);
	for (unsigned b = 17; b <= TIMING_BOUNDS; b++) { /* from 200 ms on: shorter ones a busy machine blurs */
		/* Halfway from the bound below, as the clock goes on meanwhile. */
		uint64_t below = timing_bound_ns[b - 1];
		uint64_t above = b < TIMING_BOUNDS ? timing_bound_ns[b] : 3 * below;
		timing_note(&t, "them", &get, "key", clock_ns() - (below + above) / 2);
		assert_int_equal(t.op[WIRE_GET].bucket[b], 1);
		all += (below + above) / 2;
	}
	assert_in_range(t.op[WIRE_GET].sum_ns, all, all + S);
	assert_int_equal(t.op[WIRE_PUT].sum_ns, 0);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(timing_op_name(WIRE_CLUSTER), "cluster");
	assert_string_equal(timing_op_name(0), "unknown");
	assert_string_equal(timing_op_name(WIRE_OPS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_told_and_counted),
		cmocka_unit_test(test_not_slow),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_names),
	};

	log_open("timing_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
