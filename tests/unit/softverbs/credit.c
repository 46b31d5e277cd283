/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * credit.c -- receive credits: as many are claimed as receives are posted, each is counted for
 * whom it is, by the claimant or by the next one, and no claim twice; and where the numbers wrap.
 */
#include "kit.h"
#include <stdlib.h>
#include "common/softverbs/exec/credit.h"

#define RQ 5u
#define NUMBERS 0x100000u /* claims of one queue pair, until their numbers come again */

static struct sv_ro *ro;
static struct sv_rw *rw;

static int set_up(void **state)
{
	(void)state;
	ro = aligned_alloc(SV_CACHE_LINE, sizeof(*ro) + SV_CACHE_LINE - sizeof(*ro) % SV_CACHE_LINE);
	rw = aligned_alloc(SV_CACHE_LINE, sizeof(*rw) + SV_CACHE_LINE - sizeof(*rw) % SV_CACHE_LINE);
	if (!ro || !rw)
		return -1;
	memset(ro, 0, sizeof(*ro));
	memset(rw, 0, sizeof(*rw));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(ro);
	free(rw);
	return 0;
}

static uint32_t claimed_of(uint32_t index)
{
	return atomic_load(&rw->qp[index].claimed);
}

/* The next claim is number n of its queue. */
static void set_claims(uint32_t n)
{
	atomic_store(&rw->rq[RQ].claim, (uint64_t)n << 32);
	atomic_store(&ro->rq[RQ].posted, n);
}

static void post(uint32_t n)
{
	atomic_fetch_add(&ro->rq[RQ].posted, n);
}

static void check_last(uint32_t claims, uint32_t claimant, uint32_t number)
{
	uint64_t word = atomic_load(&rw->rq[RQ].claim);

	assert_int_equal(word >> 32, claims);
	assert_int_equal(word >> 20 & 0xfff, claimant);
	assert_int_equal(word & 0xfffff, number);
}

static void test_as_many_as_posted(void **state)
{
	(void)state;
	assert_false(sv_credit_claim(ro, rw, RQ, 7));
	check_last(0, 0, 0);
	post(3);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(1, 7, 1);
	assert_true(sv_credit_claim(ro, rw, RQ, 4095));
	check_last(2, 4095, 1);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(3, 7, 2);
	assert_false(sv_credit_claim(ro, rw, RQ, 7));
	assert_false(sv_credit_claim(ro, rw, RQ, 4095));
	check_last(3, 7, 2);
	assert_int_equal(claimed_of(7), 2);
	assert_int_equal(claimed_of(4095), 1);
	assert_false(sv_credit_claim(ro, rw, RQ + 1, 7)); /* there, nothing is posted */
}

static void test_counts_of_claims_wrap(void **state)
{
	(void)state;
	set_claims(UINT32_MAX);
	assert_false(sv_credit_claim(ro, rw, RQ, 9));
	post(2); /* to 1 */
	assert_true(sv_credit_claim(ro, rw, RQ, 9));
	assert_true(sv_credit_claim(ro, rw, RQ, 9));
	assert_false(sv_credit_claim(ro, rw, RQ, 9));
	check_last(1, 9, 2);
	assert_int_equal(claimed_of(9), 2);
}

/* One who stops between its claim and its count is counted by the next one, and by itself no more. */
static void test_counted_by_the_next(void **state)
{
	uint64_t word;

	(void)state;
	post(3);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	word = atomic_load(&rw->rq[RQ].claim);
	atomic_store(&rw->qp[7].claimed, 0);
	assert_true(sv_credit_claim(ro, rw, RQ, 8));
	assert_int_equal(claimed_of(7), 1);
	assert_int_equal(claimed_of(8), 1);
	sv_credit_count(rw, word);
	assert_int_equal(claimed_of(7), 1);
	/* Its own next claim counts that one first, too: its number is the second. */
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(3, 7, 2);
	assert_int_equal(claimed_of(7), 2);
}

static void test_claims_that_are_not_the_next(void **state)
{
	(void)state;
	atomic_store(&rw->qp[7].claimed, 10);
	for (uint32_t number = 14; number > 7; number--) {
		sv_credit_count(rw, 7 << 20 | number);
		assert_int_equal(claimed_of(7), number > 11 ? 10 : 11);
	}
	sv_credit_count(rw, 1); /* of nobody */
	assert_int_equal(claimed_of(0), 0);
}

static void test_numbers_of_claims_wrap(void **state)
{
	(void)state;
	post(2);
	atomic_store(&rw->qp[7].claimed, 3 * NUMBERS - 2);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(1, 7, NUMBERS - 1);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(2, 7, 0);
	assert_int_equal(claimed_of(7), 3 * NUMBERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_as_many_as_posted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_counts_of_claims_wrap, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_counted_by_the_next, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_claims_that_are_not_the_next, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_numbers_of_claims_wrap, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
