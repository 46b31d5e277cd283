/* SPDX-License-Identifier: BSD-2-Clause */
/* server/table/match: the wide search finds what the narrow one does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/table/match.h"

#define UNIT_MASK 0xffffffull

static uint64_t fp_mask, fp;
static uint64_t aligned[LAYOUT_BUCKET_WORDS + 2] __attribute__((aligned(32)));

/* Both; at: aligned to 16 bytes. */
static uint32_t matching(const uint64_t *at, unsigned count)
{
	uint32_t narrow = words_matching_narrow(at, count, fp_mask, fp);

	assert_int_equal(words_matching(at, count, fp_mask, fp), narrow);
	return narrow;
}

static int set_up(void **state)
{
	(void)state;
	fp_mask = layout_fp_mask(UNIT_MASK);
	fp = layout_fp(0x0123456789abcdefull, UNIT_MASK);
	return 0;
}

static void test_each_word(void **state)
{
	(void)state;
	for (unsigned shift = 0; shift < 4; shift += 2)
		for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++) {
			uint64_t *at = aligned + (shift & 2);
			for (unsigned k = 0; k < LAYOUT_BUCKET_WORDS; k++)
				at[k] = ~fp & fp_mask;
			assert_int_equal(matching(at, LAYOUT_BUCKET_WORDS), 0);
			at[i] = fp | (~fp_mask & 0x5555);
			assert_int_equal(matching(at, LAYOUT_BUCKET_WORDS), 1u << i);
		}
}

static void test_all_and_few(void **state)
{
	(void)state;
	for (unsigned k = 0; k < LAYOUT_BUCKET_WORDS; k++)
		aligned[k] = fp;
	assert_int_equal(matching(aligned, LAYOUT_BUCKET_WORDS), ~0u);
	assert_int_equal(matching(aligned, LAYOUT_NODE_WORDS), (1u << LAYOUT_NODE_WORDS) - 1);
}

/* Each bit of the fingerprint above bit 31 counts to both. */
static void test_one_bit_off(void **state)
{
	(void)state;
	for (unsigned bit = 32; bit < 64; bit++) {
		for (unsigned k = 0; k < LAYOUT_BUCKET_WORDS; k++)
			aligned[k] = fp ^ 1ull << bit;
		assert_int_equal(matching(aligned, LAYOUT_BUCKET_WORDS),
				 fp_mask >> bit & 1 ? 0 : ~0u);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_word),
		cmocka_unit_test(test_all_and_few),
		cmocka_unit_test(test_one_bit_off),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
