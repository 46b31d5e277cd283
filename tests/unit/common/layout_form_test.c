/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/layout.h: what peers of other makers go by.  The numbers were worked out by the formulas of
 * kvd-protocol(7), not by this code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/layout.h"

#define EACH(i, table) (unsigned i = 0; i < sizeof(table) / sizeof *(table); i++)

static uint64_t ones(unsigned bits)
{
	return (1ull << bits) - 1;
}

/* A location has as many bits as the table's last multiple of 8 needs. */
static void test_locations(void **state)
{
	static const struct {
		uint64_t table_bytes, mask;
	} cases[] = {
		{ 0x0, 0x0 }, { 0x1, 0x0 }, { 0x8, 0x0 }, { 0x9, 0x1 },
		{ 0x10, 0x1 }, { 0x11, 0x3 }, { 0x18, 0x3 }, { 0x19, 0x3 },
		{ 0x20, 0x3 }, { 0x21, 0x7 }, { 0x40, 0x7 }, { 0x41, 0xf },
		{ 0xf4243, 0x1ffff }, { 0xfffff7, 0x1fffff }, { 0xfffff9, 0x1fffff }, { 0x1000000, 0x1fffff },
		{ 0x1000001, 0x3fffff }, { 0xc0000005, 0x1fffffff }, { 0xffffffff9, 0x1ffffffff }, { 0x1000000000, 0x1ffffffff },
		{ 0x1000000001, 0x3ffffffff }, { 0x2000000000, 0x3ffffffff }, { 0x2000000001, 0x7ffffffff }, { 0x10000000000, 0x7ffffffff },
	};

	(void)state;
	for EACH(i, cases)
		assert_int_equal(layout_unit_mask(cases[i].table_bytes), cases[i].mask);
	assert_int_equal(layout_unit_shift(ones(34)), 3);
	assert_int_equal(layout_unit_bytes(ones(34)), 8);
	assert_int_equal(layout_unit_shift(ones(35)), 5);
	assert_int_equal(layout_unit_bytes(ones(35)), 32);
	assert_int_equal(layout_word_offset(layout_word(0x12345, 7, 0), ones(34)), 0x12345 * 8);
	assert_int_equal(layout_word_offset(layout_word(0x12345, 7, 0), ones(35)), 0x12345 * 32);
}

static void test_fingerprints(void **state)
{
	static const struct {
		uint64_t a;
		unsigned location_bits;
		uint64_t fp, filter;
	} cases[] = {
		{ 0x123456789abcdef, 21, 0x137bc0026ae00000, 0x314000000000000 },
		{ 0x123456789abcdef, 29, 0x137bc002e0000000, 0x25000000000000 },
		{ 0x123456789abcdef, 35, 0x137bc00000000000, 0xd800000000000 },
		{ 0xfedcba9876543210, 21, 0xc84000595000000, 0xc8400000 },
		{ 0xfedcba9876543210, 29, 0xc84000500000000, 0x80000140000000 },
		{ 0xfedcba9876543210, 35, 0xc84000000000000, 0x150000000000000 },
		{ 0xdeadbeefcafef00d, 21, 0x1c034002bfa00000, 0x60800000200000 },
		{ 0xdeadbeefcafef00d, 29, 0x1c034007a0000000, 0x58400000000000 },
		{ 0xdeadbeefcafef00d, 35, 0x1c03400000000000, 0xe400000000000 },
		{ 0x8000000000007fff, 21, 0x1fffc00000000000, 0x22400010000000 },
		{ 0x8000000000007fff, 29, 0x1fffc00000000000, 0x5400040000000 },
		{ 0x8000000000007fff, 35, 0x1fffc00000000000, 0x42c00000000000 },
		{ 0x7357, 21, 0x1cd5c00000000000, 0xd000000 },
		{ 0x7357, 29, 0x1cd5c00000000000, 0x100000020000000 },
		{ 0x7357, 35, 0x1cd5c00000000000, 0x60000000000000 },
		{ 0x8000, 21, 0x200000, 0x400000000000 },
		{ 0x8000, 29, 0x20000000, 0x400000000000 },
		{ 0x8000, 35, 0x0, 0x400000000000 },
	};

	(void)state;
	for EACH(i, cases) {
		uint64_t mask = ones(cases[i].location_bits), fp = cases[i].fp;
		uint64_t filter = cases[i].filter;
		assert_int_equal(layout_fp(cases[i].a, mask), fp);
		assert_int_equal(layout_word_fp(layout_word(1, 1, fp), mask), fp);
		assert_int_equal(layout_filter(fp, mask), filter);
		/* Each bit of it has to be there. */
		assert_true(layout_link_may_lead_to(filter, fp, mask));
		for (uint64_t left = filter; left; left &= left - 1)
			assert_false(layout_link_may_lead_to(filter & ~(left & -left), fp, mask));
	}
	assert_int_equal(layout_fp_mask(ones(21)), 0x1fffc007ffe00000);
	assert_int_equal(layout_fp_mask(ones(35)), 0x1fffc00000000000);
	assert_int_equal(layout_filter_mask(ones(21)), 0x03ffc007ffe00000);
	assert_int_equal(layout_filter_mask(ones(35)), 0x03ffc00000000000);
}

/* Which words are empty, which link a node, and which two link one use of it. */
static void test_kinds_of_words(void **state)
{
	const uint64_t mask = ones(29), epoch = 5ull << 61;

	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t word = 1ull << bit, chain = 1ull << 7 | word;
		assert_int_equal(layout_word_is_empty(word), bit > 34);
		assert_int_equal(layout_word_is_chain(word), bit <= 34);
		assert_int_equal(layout_word_is_chain(chain), bit < 35 || bit > 45);
		assert_int_equal(layout_word_len_code(word), bit < 35 || bit > 45 ? 0 : 1u << (bit - 35));
		/* Beside the location, generation and epoch say which use: the filter does not. */
		assert_int_equal(layout_is_same_link(chain, 1ull << 7, mask),
				 bit == 7 || (bit > 28 && bit < 35) || (bit > 45 && bit < 58));
	}
	assert_true(layout_word_is_empty(epoch));
	assert_false(layout_word_is_chain(epoch));
	assert_false(layout_word_is_empty(1));
	assert_true(layout_word_is_chain(1));
	for (unsigned g = 0; g < 20; g++)
		assert_int_equal(layout_link(0x123, g), 0x123 | (uint64_t)(g % 8) << 58);
}

static void test_epoch_bits(void **state)
{
	uint64_t word[LAYOUT_BUCKET_WORDS];
	unsigned epoch;

	(void)state;
	/* 41: 1 + 2^3 + 2^5. */
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++) {
		word[i] = layout_epoch_bits(41, i);
		assert_int_equal(word[i], i == 1 || i == 3 ? 5ull << 61 : 1ull << 61);
		assert_int_equal(layout_epoch_bits(1u << 17 | 2, i), i == 15 ? 6ull << 61 : 2ull << 61);
		assert_int_equal(layout_epoch_bits(1u << 18, i), 0);
	}
	assert_true(layout_bucket_epoch(word, &epoch));
	assert_int_equal(epoch, 41);
	/* No epoch is known of a word behind the 16th but its two low bits. */
	word[16] |= 4ull << 61;
	assert_true(layout_bucket_epoch(word, &epoch));
	assert_int_equal(epoch, 41);
	assert_false(layout_bucket_epochs(word, &epoch));
	/* Each word alone can be of another one. */
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++) {
		uint64_t before = word[i];
		word[i] ^= 2ull << 61;
		assert_false(layout_bucket_epoch(word, &epoch));
		word[i] = before;
	}
}

/* From which epoch a bucket is being rewritten, whichever word is the one that is done, or isn't. */
static void test_rewriting(void **state)
{
	const unsigned last = 2 * LAYOUT_LEVEL_MAX;
	uint64_t word[LAYOUT_BUCKET_WORDS];
	unsigned older;

	(void)state;
	for (unsigned e = 0; e <= last + 1; e++) {
		for (unsigned other = 0; other < LAYOUT_BUCKET_WORDS; other++) {
			for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
				word[i] = layout_epoch_bits(e + (i != other), i);
			older = 99;
			assert_int_equal(layout_bucket_epochs(word, &older), e <= last);
			assert_int_equal(older, e <= last ? e : 99);
			for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
				word[i] = layout_epoch_bits(e + (i == other), i);
			assert_int_equal(layout_bucket_epochs(word, &older), e <= last);
			word[other] = layout_epoch_bits(e + 2, other);
			assert_false(layout_bucket_epochs(word, &older));
		}
	}
}

static void test_lengths(void **state)
{
	static const struct {
		unsigned code;
		uint64_t bytes;
	} cases[] = {
		{ 0, 0 }, { 1, 32 }, { 2, 64 }, { 1022, 32704 }, { 1023, 32736 }, { 1024, 32768 },
		{ 1025, 33280 }, { 1087, 65024 }, { 1088, 65536 }, { 1089, 66560 }, { 1151, 130048 }, { 1152, 131072 },
		{ 1500, 6029312 }, { 2047, 2130706432 },
	};

	(void)state;
	for EACH(i, cases) {
		unsigned code = cases[i].code;
		uint64_t bytes = cases[i].bytes;
		assert_int_equal(layout_len_decode(code), bytes);
		assert_int_equal(layout_len_encode(bytes), code);
		if (code > 1)
			assert_int_equal(layout_len_encode(layout_len_decode(code - 1) + 1), code);
		if (code < 2047)
			assert_int_equal(layout_len_encode(bytes + 1), code + 1);
	}
}

static void test_views(void **state)
{
	static const struct {
		uint64_t buckets;
		struct layout_view view;
	} cases[] = {
		{ 64, { 0, 0, 0 } }, { 65, { 0, 0, 1 } }, { 95, { 0, 0, 31 } }, { 96, { 0, 1, 0 } },
		{ 97, { 0, 1, 1 } }, { 127, { 0, 1, 31 } }, { 128, { 1, 0, 0 } }, { 129, { 1, 0, 1 } },
		{ 191, { 1, 0, 63 } }, { 192, { 1, 1, 0 } }, { 200, { 1, 1, 8 } }, { 255, { 1, 1, 63 } },
		{ 256, { 2, 0, 0 } }, { 1000, { 3, 1, 232 } }, { 100003, { 10, 1, 1699 } }, { 3145727, { 15, 0, 1048575 } },
		{ 3145728, { 15, 1, 0 } }, { 17179869183, { 27, 1, 4294967295 } },
	};

	(void)state;
	for EACH(i, cases) {
		struct layout_view v = layout_view(cases[i].buckets), want = cases[i].view;
		assert_int_equal(v.level, want.level);
		assert_int_equal(v.three, want.three);
		assert_int_equal(v.split, want.split);
	}
}

static void test_buckets(void **state)
{
	static const struct {
		uint64_t hash, buckets;
		unsigned epoch;
		uint64_t bucket, group, floor;
	} cases[] = {
		{ 0x4164d8399f767c45, 64, 0, 8, 8, 64 }, { 0x5bc8fbbcbde5c099, 64, 0, 11, 11, 64 },
		{ 0xb0c11fdecb91ce37, 70, 0, 22, 22, 64 }, { 0xd76d4330f1446bea, 70, 0, 58, 26, 64 },
		{ 0xa6eb8c9ebd69fe29, 96, 1, 84, 20, 84 }, { 0x87b0b125ec1d7da0, 96, 1, 80, 16, 80 },
		{ 0xd7210dff076ce2ef, 97, 1, 90, 26, 90 }, { 0xc6a5387777330bdb, 97, 1, 88, 24, 88 },
		{ 0x3fc1ea36f17fd374, 127, 2, 103, 15, 103 }, { 0x0d464138a6233255, 127, 2, 65, 3, 97 },
		{ 0x2827688de6a16a3b, 128, 2, 5, 10, 101 }, { 0x5f2dd97f1cfb10f6, 128, 2, 107, 23, 107 },
		{ 0xde5271007814e8a2, 150, 2, 123, 55, 123 }, { 0x617959ce3f1f65a8, 150, 2, 12, 24, 108 },
		{ 0x1a1afe878b33e968, 192, 3, 35, 6, 134 }, { 0x3fd4235992edcf45, 192, 3, 143, 15, 143 },
		{ 0xbb2edb20035b7399, 300, 4, 238, 93, 238 }, { 0x687c966c377b9aa2, 300, 4, 13, 52, 218 },
		{ 0x2e9c82b1478c281d, 777, 7, 203, 46, 558 }, { 0xde11cc9dea959c21, 777, 7, 183, 222, 734 },
		{ 0x63b229f1c4069545, 1000, 8, 611, 199, 867 }, { 0xc30d8b7628dbd25e, 1000, 8, 353, 390, 963 },
		{ 0x126a1e48cc11d357, 100003, 21, 33946, 2357, 67893 }, { 0x9e30691c238642ea, 100003, 21, 5361, 20248, 85784 },
		{ 0x71e0c07e9e115e4b, 3145727, 31, 320449, 466444, 2563596 }, { 0x21da8978206f5c66, 3145727, 31, 205274, 138664, 2235816 },
		{ 0xf8eb18b900745130, 8589946937, 54, 6383045724, 4176156857, 8530529372 }, { 0x015c33b2df1461aa, 8589946937, 54, 3226930412, 22819762, 6453860825 },
		{ 0x0000000000000000, 100, 2, 0, 0, 96 }, { 0x0000000000000000, 500, 6, 0, 0, 384 },
		{ 0xffffffffffffffff, 100, 1, 95, 31, 95 }, { 0xffffffffffffffff, 500, 5, 383, 127, 383 },
		{ 0x8000000000000000, 100, 1, 16, 16, 80 }, { 0x8000000000000000, 500, 6, 16, 128, 448 },
		{ 0x0800000000000000, 100, 2, 1, 2, 97 }, { 0x0800000000000000, 500, 6, 1, 8, 388 },
		{ 0x07ffffffffffffff, 100, 2, 96, 1, 96 }, { 0x07ffffffffffffff, 500, 6, 387, 7, 387 },
		{ 0x5555555555555555, 100, 1, 42, 10, 74 }, { 0x5555555555555555, 500, 6, 298, 85, 426 },
		{ 0xaaaaaaaaaaaaaaaa, 100, 1, 21, 21, 85 }, { 0xaaaaaaaaaaaaaaaa, 500, 6, 234, 170, 469 },
	};

	(void)state;
	for EACH(i, cases) {
		struct layout_view v = layout_view(cases[i].buckets);
		unsigned epoch = cases[i].epoch;
		uint64_t bucket = cases[i].bucket;
		assert_int_equal(layout_view_epoch(&v, cases[i].hash), epoch);
		assert_int_equal(layout_bucket_of(cases[i].hash, epoch), bucket);
		assert_int_equal(layout_group_of(bucket, epoch), cases[i].group);
		assert_int_equal(layout_buckets_floor(bucket, epoch), cases[i].floor);
	}
	assert_int_equal(layout_stripe(0x123456789abcdef, 1 << 12), 0xdef);
	assert_int_equal(layout_stripe(0x123456789abcdef, 2), 1);
	assert_int_equal(layout_stripe(0x123456789abcdef, 1), 0);
}

static void test_lock_words(void **state)
{
	const uint64_t count = 0xabcdef0123, connection = 0x5a5a5a;

	(void)state;
	assert_int_equal(layout_token(connection, count), connection << 40 | count);
	assert_int_equal(layout_token(connection + (1ull << 23), count + (1ull << 40)), connection << 40 | count);
	assert_int_equal(layout_token_connection(LAYOUT_LOCK_WAIT | connection << 40 | count), connection);
}

/* Each field at its bits, whatever its neighbours are. */
static void test_items(void **state)
{
	const struct layout_attributes with = { .expiry_ms = 0x2aaaaaaaaaab, .flags = 0x89abcdef,
						.signs = LAYOUT_CLAIMED };
	const uint64_t version = 0x89abcdef0123;
	uint64_t s = layout_state(version, LAYOUT_PREPARED, 0x55), l, e;

	(void)state;
	assert_int_equal(s, version << 16 | 0x55 << 9 | 9);
	s |= LAYOUT_PENDING;
	assert_int_equal(layout_state_kind(s), LAYOUT_PREPARED);
	assert_int_equal(layout_state_worker(s), 0x55);
	assert_int_equal(layout_state_version(s), version);

	l = layout_lengths(0x89abcdef, 0x8181);
	assert_int_equal(l, 0x818189abcdef);
	l |= layout_flags_high(with.flags);
	assert_int_equal(l, 0x89ab818189abcdef);
	assert_int_equal(layout_value_bytes(l), 0x89abcdef);
	assert_int_equal(layout_key_bytes(l), 0x8181);
	e = layout_expiry(&with);
	assert_int_equal(e, 0xcdefull << 48 | 2ull << 46 | with.expiry_ms);
	assert_int_equal(layout_expiry_ms(e), with.expiry_ms);
	assert_int_equal(layout_signs(e), LAYOUT_CLAIMED);
	assert_int_equal(layout_flags(l, e), 0x89abcdef);

	struct layout_attributes a = layout_attributes(l, e);
	assert_true(a.expiry_ms == with.expiry_ms && a.flags == with.flags && a.signs == with.signs);
	assert_int_equal(layout_item_bytes(3, 5), 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_locations),
		cmocka_unit_test(test_fingerprints),
		cmocka_unit_test(test_kinds_of_words),
		cmocka_unit_test(test_epoch_bits),
		cmocka_unit_test(test_rewriting),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_lock_words),
		cmocka_unit_test(test_items),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
