/* SPDX-License-Identifier: BSD-2-Clause */
/* common/lease.h: for how long a reader trusts what it READs, by which samples and which words of the primary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/lease.h"

#define REIGN 7u
#define MS 1000000ull
#define GOOD (60 * MS) /* doc/cluster.md: 80 ms (1 - 2/8) */

static void sample(struct lease *l, uint64_t a, uint64_t g, uint64_t posted_ns)
{
	const struct lease_words words = { .reign = REIGN, .a = a, .g = g };

	lease_sampled(l, &words, posted_ns);
}

/* Good until then, not at that moment; 0: not at all. */
static void check_until(const struct lease *l, uint64_t until_ns)
{
	if (until_ns)
		assert_true(lease_is_good(l, REIGN, until_ns - 1));
	assert_false(lease_is_good(l, REIGN, until_ns));
	assert_false(lease_is_good(l, REIGN, until_ns + 1));
	assert_false(lease_is_good(l, REIGN + 1, until_ns ? until_ns - 1 : 0));
}

/* A sample is worth a lease once a G is above its A: from before its READ was posted. */
static void test_a_round(void **state)
{
	struct lease l = { 0 };

	(void)state;
	assert_int_equal(LEASE_GOOD_NS, GOOD);
	check_until(&l, 0);
	sample(&l, 5, 4, 100);
	check_until(&l, 0);
	sample(&l, 5, 5, 200); /* not above it: some may have promised before the READ */
	check_until(&l, 0);
	sample(&l, 6, 6, 300);
	check_until(&l, 200 + GOOD); /* the later sample of that A */
	sample(&l, 7, 7, 400);
	check_until(&l, 300 + GOOD);
}

/* Its own READ's words are no proof of a sample that is kept only behind it. */
static void test_g_above_its_own_a(void **state)
{
	struct lease l = { 0 };

	(void)state;
	sample(&l, 5, 6, 100);
	check_until(&l, 0);
	sample(&l, 5, 6, 100);
	check_until(&l, 100 + GOOD);
}

/* Of one A counts what was posted last, in whatever order the answers come. */
static void test_out_of_order(void **state)
{
	struct lease l = { 0 };

	(void)state;
	sample(&l, 5, 0, 300);
	sample(&l, 5, 0, 200);
	sample(&l, 9, 6, 400);
	check_until(&l, 300 + GOOD);
	/* An A below the newest is not kept: 8 would be worth more than the 5 that is. */
	sample(&l, 8, 0, 500);
	sample(&l, 9, 9, 350);
	check_until(&l, 300 + GOOD);
	sample(&l, 9, 10, 360);
	check_until(&l, 400 + GOOD);
}

/* Two samples are kept: of a reader that READs often the one before the newest is worth a lease. */
static void test_two_are_kept(void **state)
{
	struct lease l = { 0 };

	(void)state;
	sample(&l, 1, 0, 100);
	sample(&l, 2, 1, 200);
	sample(&l, 2, 2, 250);
	check_until(&l, 100 + GOOD);
	sample(&l, 3, 2, 300); /* in the place of the oldest */
	assert_int_equal(l.count, 2);
	assert_true(l.samples[0].a == 2 && l.samples[0].posted_ns == 250);
	assert_true(l.samples[1].a == 3 && l.samples[1].posted_ns == 300);
	sample(&l, 4, 3, 400);
	check_until(&l, 250 + GOOD);
	sample(&l, 4, 4, 500);
	check_until(&l, 300 + GOOD);
	/* Both at once: the later one. */
	sample(&l, 5, 5, 600);
	check_until(&l, 500 + GOOD);
}

/* However often an A is READ, it is one sample: the one before it stays to be worth a lease. */
static void test_one_sample_of_an_a(void **state)
{
	struct lease l = { 0 };

	(void)state;
	sample(&l, 1, 0, 100);
	for (unsigned i = 0; i < 3; i++)
		sample(&l, 2, 1, 200 + i);
	assert_int_equal(l.count, 2);
	sample(&l, 2, 2, 210);
	check_until(&l, 100 + GOOD);
}

/* A lease never becomes shorter, but ends with the reign. */
static void test_told(void **state)
{
	const struct lease_words next = { .reign = REIGN + 1, .a = 9, .g = 9 };
	struct lease l = { 0 };

	(void)state;
	lease_told(&l, REIGN, 50, 1000);
	check_until(&l, 1050);
	lease_told(&l, REIGN, 20, 1020);
	check_until(&l, 1050);
	lease_told(&l, REIGN, 60, 1000);
	check_until(&l, 1060);
	sample(&l, 1, 0, 10);
	sample(&l, 2, 2, 20);
	check_until(&l, 10 + GOOD);
	lease_told(&l, REIGN + 1, 5, 2000);
	assert_false(lease_is_good(&l, REIGN, 0));
	assert_true(lease_is_good(&l, REIGN + 1, 2004));
	assert_false(lease_is_good(&l, REIGN + 1, 2005));
	/* Nothing of the reign before is a sample any more. */
	sample(&l, 1, 0, 10);
	check_until(&l, 0);
	lease_sampled(&l, &next, 30);
	assert_int_equal(l.count, 1);
	assert_false(lease_is_good(&l, REIGN + 1, 0));
	check_until(&l, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_round),
		cmocka_unit_test(test_g_above_its_own_a),
		cmocka_unit_test(test_out_of_order),
		cmocka_unit_test(test_two_are_kept),
		cmocka_unit_test(test_one_sample_of_an_a),
		cmocka_unit_test(test_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
