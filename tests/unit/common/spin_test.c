/* SPDX-License-Identifier: BSD-2-Clause */
/* common/spin.h: how long a thread spins, what it learns of its waits, and of others that want its core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/spin.h"

/* Moments far from the beginning of the clock. */
#define T 1000000000ull

static struct spin fresh(void)
{
	struct spin s;

	spin_init(&s);
	return s;
}

/* One wait that spins for `spun_ns`, and took so long in all; whether it spun. */
static bool wait_once(struct spin *s, uint64_t now, uint64_t spun_ns, uint64_t waited_ns)
{
	bool spins;

	spin_start(s, now);
	spins = spin_again(s, now, now);
	spin_again(s, now, now + spun_ns);
	spin_learn(s, waited_ns);
	return spins;
}

/* Until the limit, and not at it. */
static void test_limit(void **state)
{
	struct spin s = fresh();

	(void)state;
	assert_int_equal(s.limit_ns, 8 * SPIN_NS_MIN);
	spin_start(&s, T);
	assert_true(spin_again(&s, T, T));
	assert_true(spin_again(&s, T, T + s.limit_ns - 1));
	assert_false(s.in_vain);
	assert_false(spin_again(&s, T, T + s.limit_ns));
	assert_true(s.in_vain);
	spin_start(&s, T);
	assert_false(s.in_vain);
}

/* The limit goes a quarter of the way to twice what was waited: to the most from half of that on, to
 * nothing where waits are too long to spin for. */
static void test_learns(void **state)
{
	static const struct {
		uint64_t limit, waited, then;
	} cases[] = {
		{ 40000, 0, 30000 }, { 40000, 10000, 35000 }, { 40000, 20000, 40000 }, { 40000, 100000, 80000 },
		{ 40000, SPIN_NS_MAX / 2 - 1, 30000 + (SPIN_NS_MAX - 2) / 4 },
		{ 40000, SPIN_NS_MAX / 2, 30000 + SPIN_NS_MAX / 4 }, { 40000, SPIN_NS_MAX - 1, 30000 + SPIN_NS_MAX / 4 },
		{ 40000, SPIN_NS_MAX, 30000 }, { 40000, 10 * SPIN_NS_MAX, 30000 }, { 40001, SPIN_NS_MAX, 30000 },
		{ 8000, SPIN_NS_MAX, 6000 }, { 6000, SPIN_NS_MAX, SPIN_NS_MIN }, { SPIN_NS_MIN, 0, SPIN_NS_MIN },
		{ 7000, 0, 5250 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct spin s = { .limit_ns = cases[i].limit };
		spin_learn(&s, cases[i].waited);
		assert_int_equal(s.limit_ns, cases[i].then);
	}
}

/* Two gaps so near mean that others want the core: no spinning for a while. */
static void test_crowded(void **state)
{
	struct spin s = { .limit_ns = SPIN_NS_MAX };

	(void)state;
	spin_start(&s, T);
	assert_true(spin_again(&s, T, T + SPIN_GAP_NS)); /* no gap yet */
	assert_int_equal(s.gap_ns, 0);
	uint64_t gap = T + 2 * SPIN_GAP_NS + 1;
	assert_true(spin_again(&s, T, gap)); /* the first */
	assert_int_equal(s.gap_ns, gap);
	/* One that comes as late as that is a first one again. */
	uint64_t late = gap + SPIN_CROWDED_NS;
	spin_start(&s, late - SPIN_GAP_NS - 1);
	assert_true(spin_again(&s, late, late));
	assert_false(spin_is_crowded(&s, late));
	uint64_t second = late + SPIN_CROWDED_NS - 1;
	spin_start(&s, second - SPIN_GAP_NS - 1);
	assert_false(spin_again(&s, second, second));
	assert_true(spin_is_crowded(&s, second));
	/* Until then, and not then. */
	uint64_t end = second + SPIN_CROWDED_NS;
	assert_true(spin_is_crowded(&s, end - 1));
	assert_false(spin_is_crowded(&s, end));
	spin_start(&s, end - 1);
	assert_false(spin_again(&s, end - 1, end - 1));
	assert_true(spin_again(&s, end - 1, end));
	assert_false(s.in_vain);
}

/* A look that came in time leaves no gap to the next one. */
static void test_looks_often(void **state)
{
	struct spin s = { .limit_ns = UINT64_MAX };

	(void)state;
	spin_start(&s, T);
	for (unsigned i = 1; i <= 100; i++)
		assert_true(spin_again(&s, T, T + i * (uint64_t)SPIN_GAP_NS));
	assert_int_equal(s.gap_ns, 0);
}

/* After each spin in vain twice as many waits, and one more, don't spin, up to the most. */
static void test_skips(void **state)
{
	struct spin s = fresh();
	unsigned due = 0;

	(void)state;
	for (unsigned round = 0; round < 12; round++) {
		s.limit_ns = 8 * SPIN_NS_MIN;
		assert_true(wait_once(&s, T, s.limit_ns, s.limit_ns));
		due = 2 * due + 1 < SPIN_SKIPS_MAX ? 2 * due + 1 : SPIN_SKIPS_MAX;
		assert_int_equal(s.skips, due);
		for (unsigned i = 0; i < due; i++) {
			assert_int_equal(s.skip, due - i);
			assert_false(wait_once(&s, T, s.limit_ns, SPIN_NS_MIN));
		}
		assert_int_equal(s.skips, due); /* they teach nothing of it */
	}
	assert_int_equal(due, SPIN_SKIPS_MAX);
	/* Each that was not in vain halves it, and all may spin. */
	for (unsigned left = SPIN_SKIPS_MAX / 2; left > 0; left /= 2) {
		assert_true(wait_once(&s, T, 0, SPIN_NS_MIN));
		assert_int_equal(s.skips, left);
		assert_int_equal(s.skip, 0);
	}
}

/* A wait too long to spin for teaches nothing of those that are short. */
static void test_long_waits(void **state)
{
	struct spin s = fresh();

	(void)state;
	assert_true(wait_once(&s, T, s.limit_ns, SPIN_NS_MAX));
	assert_int_equal(s.skips, 0);
	assert_true(wait_once(&s, T, s.limit_ns, SPIN_NS_MAX - 1));
	assert_int_equal(s.skips, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_learns),
		cmocka_unit_test(test_crowded),
		cmocka_unit_test(test_looks_often),
		cmocka_unit_test(test_skips),
		cmocka_unit_test(test_long_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
