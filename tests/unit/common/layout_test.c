/* SPDX-License-Identifier: BSD-2-Clause */
/* What common/layout.h promises: the address map, length codes, epochs, words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/layout.h"

static uint64_t random_state = 0x9e3779b97f4a7c15ull;

static uint64_t next_random(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint64_t bucket_at(uint64_t hash, uint64_t buckets)
{
	struct layout_view v = layout_view(buckets);

	return layout_bucket_of(hash, layout_view_epoch(&v, hash));
}

/* The buckets of the group that `hash` belongs to. */
static unsigned group_buckets(uint64_t hash, uint64_t buckets)
{
	struct layout_view v = layout_view(buckets);

	return 2 + (layout_view_epoch(&v, hash) & 1);
}

/*
 * A hash from the middle of place `pos` of group `group`, where groups are
 * 2^bits of `width` buckets.
 */
static uint64_t hash_of(uint64_t group, unsigned bits, unsigned pos, unsigned width)
{
	uint64_t rest = (uint64_t)((((unsigned __int128)2 * pos + 1) << 64) / (2 * width));

	return group << (64 - bits) | rest >> bits;
}

/* One hash of each place there is with this many buckets: all numbers differ and
 * are below the count, so the map is a bijection. */
static void check_bijection(uint64_t buckets, unsigned char *seen)
{
	struct layout_view v = layout_view(buckets);
	unsigned bits = LAYOUT_BASE_BITS + v.level;
	uint64_t places = 0;

	memset(seen, 0, buckets);
	for (uint64_t group = 0; group < 1ull << bits; group++) {
		unsigned epoch = layout_view_epoch(&v, group << (64 - bits));
		/* An expanded group of three is two groups of the next level. */
		unsigned parts = epoch >> 1 == v.level ? 1 : 2, width = 2 + (epoch & 1);
		for (unsigned part = 0; part < parts; part++) {
			for (unsigned pos = 0; pos < width; pos++) {
				uint64_t hash = hash_of(group * parts + part, bits + parts - 1, pos, width);
				uint64_t bucket = bucket_at(hash, buckets);
				assert_true(bucket < buckets);
				assert_int_equal(seen[bucket], 0);
				seen[bucket] = 1;
				places++;
			}
		}
	}
	assert_int_equal(places, buckets);
}

enum { BUCKETS_ALL = 5000 };

static void test_bijection(void **state)
{
	static const uint64_t larger[] = { 8191, 8192, 8193, 12287, 12288, 12289, 16384, 49151,
					   65536, 65537, 98304, 100003, 131071 };
	unsigned char *seen = malloc(131072);

	(void)state;
	assert_non_null(seen);
	for (uint64_t buckets = LAYOUT_BUCKETS_MIN; buckets <= BUCKETS_ALL; buckets++)
		check_bijection(buckets, seen);
	for (unsigned i = 0; i < sizeof larger / sizeof *larger; i++)
		check_bijection(larger[i], seen);
	free(seen);
}

/* When a bucket is added, what moves goes from one group into the buckets that
 * this group has then: itself, a neighbour or the new one, never back. */
static void test_moves_within_a_group(void **state)
{
	enum { HASHES = 20000 };
	uint64_t *hash = malloc(HASHES * sizeof *hash), *bucket = malloc(HASHES * sizeof *bucket);
	uint64_t moved = 0;

	(void)state;
	assert_true(hash != NULL && bucket != NULL);
	for (unsigned i = 0; i < HASHES; i++) {
		hash[i] = next_random();
		bucket[i] = bucket_at(hash[i], LAYOUT_BUCKETS_MIN);
	}
	for (uint64_t n = LAYOUT_BUCKETS_MIN; n < 2000; n++) {
		struct layout_view v = layout_view(n);
		for (unsigned i = 0; i < HASHES; i++) {
			uint64_t now = bucket_at(hash[i], n + 1);
			/* Only the group at `split` expands. */
			uint64_t group = hash[i] >> (64 - LAYOUT_BASE_BITS - v.level);
			if (now == bucket[i])
				continue;
			assert_int_equal(group, v.split);
			moved++;
			/* Down the group's buckets by one place, in the order of the hash. */
			unsigned epoch = 2 * v.level + v.three;
			uint64_t rest = hash[i] << (LAYOUT_BASE_BITS + v.level);
			unsigned before = (unsigned)((unsigned __int128)rest * (2 + v.three) >> 64);
			unsigned after = (unsigned)((unsigned __int128)rest * (3 + v.three) >> 64);
			assert_int_equal(after, before + 1);
			assert_int_equal(layout_bucket_of(hash[i], epoch), bucket[i]);
			assert_int_equal(layout_bucket_of(hash[i], epoch + 1), now);
			bucket[i] = now;
		}
	}
	assert_true(moved > HASHES);
	free(hash);
	free(bucket);
}

/*
 * A bucket keeps its number through every expansion: the group's place `p` is
 * the same bucket before and after, and the new place is the bucket added.
 */
static void test_places_keep_their_bucket(void **state)
{
	(void)state;
	for (uint64_t n = LAYOUT_BUCKETS_MIN; n < 20000; n++) {
		struct layout_view v = layout_view(n);
		unsigned bits = LAYOUT_BASE_BITS + v.level, width = 2 + v.three;
		unsigned epoch = 2 * v.level + v.three;
		uint64_t last_before = hash_of(v.split, bits, width - 1, width);
		uint64_t last_after = hash_of(v.split, bits, width, width + 1);

		for (unsigned pos = 0; pos < width; pos++) {
			uint64_t before = hash_of(v.split, bits, pos, width);
			uint64_t after = hash_of(v.split, bits, pos, width + 1);
			assert_int_equal(layout_bucket_of(before, epoch),
					 layout_bucket_of(after, epoch + 1));
		}
		assert_int_equal(bucket_at(last_before, n), layout_bucket_of(last_before, epoch));
		assert_int_equal(layout_bucket_of(last_after, epoch + 1), n);
		assert_int_equal(bucket_at(last_after, n + 1), n);
	}
}

static void check_near(uint64_t n)
{
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t hash = next_random();
		uint64_t bucket = bucket_at(hash, n);
		assert_true(bucket < n);
		assert_in_range(group_buckets(hash, n), 2, 3);
	}
	assert_true(bucket_at(0, n) < n && bucket_at(UINT64_MAX, n) < n);
}

/* Sizes too large to enumerate, up to the last level. */
static void test_large_sizes(void **state)
{
	(void)state;
	for (unsigned level = 0; level <= LAYOUT_LEVEL_MAX; level++) {
		uint64_t groups = 1ull << (LAYOUT_BASE_BITS + level);
		uint64_t edges[] = { 2 * groups, 2 * groups + 1, 3 * groups - 1, 3 * groups,
				     3 * groups + 1, 4 * groups - 1 };
		for (unsigned i = 0; i < sizeof edges / sizeof *edges; i++)
			check_near(edges[i]);
	}
}

/* Buckets of a group of three get equal shares, so load is even within it. */
static void test_even_shares(void **state)
{
	enum { HASHES = 600000 };
	uint64_t n = 3 * 64;
	unsigned count[3 * 64] = { 0 };

	(void)state;
	for (unsigned i = 0; i < HASHES; i++)
		count[bucket_at(next_random(), n)]++;
	for (unsigned i = 0; i < n; i++)
		assert_in_range(count[i], HASHES / n * 9 / 10, HASHES / n * 11 / 10);
}

static uint64_t table_bytes_of(unsigned i)
{
	return 16ull << 20 << i;
}
#define TABLES 17u /* 16 MiB to 1 TiB */

/* The location's bits are as many as the table needs, a fingerprint's the others. */
static void test_masks(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TABLES; i++) {
		uint64_t bytes = table_bytes_of(i), mask = layout_unit_mask(bytes);
		bool is_short = bytes <= LAYOUT_SHORT_TABLE_BYTES_MAX;
		assert_int_equal(mask, is_short ? bytes / LAYOUT_SHORT_UNIT_BYTES - 1 : LAYOUT_LOC_MASK);
		assert_int_equal(layout_unit_bytes(mask),
				 is_short ? LAYOUT_SHORT_UNIT_BYTES : LAYOUT_UNIT_BYTES);
		assert_true((mask + 1) * layout_unit_bytes(mask) >= bytes);
		assert_int_equal(layout_unit_mask(bytes - 4096), mask);
		if (is_short)
			assert_int_equal(layout_unit_mask(bytes + 4096), 2 * mask + 1);
		assert_int_equal(layout_fp_mask(mask) & mask, 0);
		assert_int_equal(__builtin_popcountll(layout_fp_mask(mask) | mask),
				 LAYOUT_LOC_BITS + LAYOUT_FP_BITS);
		assert_int_equal(layout_fp(~0ull, mask), layout_fp_mask(mask));
	}
	assert_int_equal(table_bytes_of(TABLES - 1), LAYOUT_TABLE_BYTES_MAX);
	assert_int_equal(layout_unit_mask(LAYOUT_TABLE_BYTES_MAX), LAYOUT_LOC_MASK);
}

/* A link says of each fingerprint that was added that it may be behind it, of few others. */
static void check_links(uint64_t mask, unsigned entries, unsigned per_mille_max)
{
	const unsigned rounds = 100, others = 1000;
	unsigned may = 0;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t first = layout_link(12345, round) | layout_epoch_bits(6, 3), link = first;
		uint64_t fp[8];
		for (unsigned i = 0; i < entries; i++) {
			fp[i] = layout_fp(next_random(), mask);
			assert_false(i == 0 && layout_link_may_lead_to(link, fp[i], mask));
			link |= layout_filter(fp[i], mask);
			assert_true(layout_is_same_link(link, first, mask));
		}
		for (unsigned i = 0; i < entries; i++)
			assert_true(layout_link_may_lead_to(link, fp[i], mask));
		for (unsigned i = 0; i < others; i++)
			may += layout_link_may_lead_to(link, layout_fp(next_random(), mask), mask);
		assert_true(layout_word_is_chain(link));
		assert_int_equal(layout_word_unit(link, mask), 12345);
		assert_int_equal(link & LAYOUT_EPOCH_MASK, layout_epoch_bits(6, 3));
		assert_false(layout_is_same_link(link, layout_link(12345, round + 1), mask));
		assert_false(layout_is_same_link(link, layout_link(12346, round), mask));
	}
	assert_in_range(may, 0, rounds * others / 1000 * per_mille_max);
}

static void test_links(void **state)
{
	(void)state;
	check_links(LAYOUT_LOC_MASK, 2, 80);             /* 12 bits */
	check_links(LAYOUT_LOC_MASK, 4, 370);
	check_links(layout_unit_mask(3ull << 30), 2, 30); /* 18 bits */
	check_links(layout_unit_mask(3ull << 30), 4, 165);
	check_links(layout_unit_mask(64ull << 20), 4, 75);
}

static void test_views(void **state)
{
	struct layout_view v;

	(void)state;
	v = layout_view(LAYOUT_BUCKETS_MIN);
	assert_true(v.level == 0 && v.three == 0 && v.split == 0);
	v = layout_view(LAYOUT_BUCKETS_MIN + 31);
	assert_true(v.level == 0 && v.three == 0 && v.split == 31);
	v = layout_view(3 << LAYOUT_BASE_BITS);
	assert_true(v.level == 0 && v.three == 1 && v.split == 0);
	v = layout_view(4 << LAYOUT_BASE_BITS);
	assert_true(v.level == 1 && v.three == 0 && v.split == 0);
}

static void check_length(uint64_t bytes)
{
	unsigned code = layout_len_encode(bytes);
	uint64_t decoded = layout_len_decode(code);

	assert_in_range(code, 1, (1u << LAYOUT_LEN_BITS) - 1);
	assert_true(decoded >= bytes);
	if (bytes < LAYOUT_LEN_EXACT * LAYOUT_UNIT_BYTES - LAYOUT_UNIT_BYTES)
		assert_true(decoded - bytes < LAYOUT_UNIT_BYTES);
	else
		assert_true(decoded - bytes <= bytes / 64 + LAYOUT_UNIT_BYTES);
	/* A code is of its own length. */
	assert_int_equal(layout_len_encode(decoded), code);
}

static void test_lengths(void **state)
{
	uint64_t longest = layout_item_bytes(LAYOUT_KEY_BYTES_MAX, LAYOUT_VALUE_BYTES_MAX);
	unsigned before = 0;

	(void)state;
	for (uint64_t bytes = 1; bytes < 200000; bytes++) {
		check_length(bytes);
		assert_true(layout_len_encode(bytes) >= before);
		before = layout_len_encode(bytes);
	}
	for (uint64_t bytes = 200000; bytes < longest; bytes += bytes / 1000) {
		check_length(bytes);
		assert_true(layout_len_encode(bytes) >= before);
		before = layout_len_encode(bytes);
	}
	for (unsigned shift = 10; shift <= 30; shift++) {
		check_length((1ull << shift) - 1);
		check_length(1ull << shift);
		check_length((1ull << shift) + 1);
	}
	check_length(longest);
}

static void test_words(void **state)
{
	unsigned len_max = (1u << LAYOUT_LEN_BITS) - 1;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t mask = layout_unit_mask(table_bytes_of(i % TABLES));
		uint64_t unit = next_random() & mask, fp = layout_fp(next_random(), mask);
		unsigned len = (unsigned)next_random() & len_max;
		uint64_t word = layout_word(unit ? unit : 1, len, fp);
		assert_int_equal(word & LAYOUT_EPOCH_MASK, 0);
		word |= (next_random() & LAYOUT_EPOCH_MASK); /* whatever the epoch is */
		assert_int_equal(layout_word_unit(word, mask), unit ? unit : 1);
		assert_int_equal(layout_word_offset(word, mask),
				 (unit ? unit : 1) * layout_unit_bytes(mask));
		assert_int_equal(layout_word_len_code(word), len);
		assert_int_equal(layout_word_fp(word, mask), fp);
		assert_false(layout_word_is_empty(word));
		assert_int_equal(layout_word_is_chain(word), len == 0);
		assert_true(layout_word_is_empty(word & LAYOUT_EPOCH_MASK));
	}
	assert_true((LAYOUT_LOC_MASK + 1) * LAYOUT_UNIT_BYTES >= LAYOUT_TABLE_BYTES_MAX);
}

static void write_epoch(uint64_t *word, unsigned i, unsigned epoch)
{
	word[i] = (word[i] & ~LAYOUT_EPOCH_MASK) | layout_epoch_bits(epoch, i);
}

static void test_epochs(void **state)
{
	uint64_t word[LAYOUT_BUCKET_WORDS];
	unsigned got;

	(void)state;
	for (unsigned epoch = 0; epoch <= 2 * LAYOUT_LEVEL_MAX + 3; epoch++) {
		for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++) {
			word[i] = next_random();
			write_epoch(word, i, epoch);
		}
		assert_true(layout_bucket_epoch(word, &got));
		assert_int_equal(got, epoch);
		/* Halfway to any of the next three epochs, in any order of words, it has none. */
		for (unsigned step = 1; step <= 3; step++) {
			uint64_t mixed[LAYOUT_BUCKET_WORDS];
			unsigned new_words = 0;
			memcpy(mixed, word, sizeof mixed);
			for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++) {
				if (next_random() & 1) {
					write_epoch(mixed, i, epoch + step);
					new_words++;
				}
			}
			if (new_words == 0 || new_words == LAYOUT_BUCKET_WORDS)
				continue;
			assert_false(layout_bucket_epoch(mixed, &got));
			if (step == 1 && epoch <= 2 * LAYOUT_LEVEL_MAX) {
				assert_true(layout_bucket_epochs(mixed, &got));
				assert_int_equal(got, epoch);
			}
		}
	}
}

static void test_groups(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		unsigned level = (unsigned)(next_random() % 20);
		uint64_t groups = 1ull << (LAYOUT_BASE_BITS + level), hash = next_random();
		uint64_t buckets = 2 * groups + next_random() % (2 * groups);
		struct layout_view v = layout_view(buckets);
		unsigned epoch = layout_view_epoch(&v, hash);
		uint64_t bucket = layout_bucket_of(hash, epoch);
		assert_true(bucket < buckets);
		assert_int_equal(layout_group_of(bucket, epoch),
				 hash >> (64 - LAYOUT_BASE_BITS - (epoch >> 1)));
		assert_true(layout_buckets_floor(bucket, epoch) <= buckets);
		/* It is what a view of so many buckets says of the group before. */
		struct layout_view floor = layout_view(layout_buckets_floor(bucket, epoch));
		assert_true(layout_view_epoch(&floor, hash) + 1 >= epoch);
	}
}

static void test_items(void **state)
{
	uint64_t s, l;

	(void)state;
	s = layout_state(LAYOUT_VERSION_MAX, LAYOUT_PREPARED, LAYOUT_WORKERS_MAX - 1);
	assert_int_equal(layout_state_version(s), LAYOUT_VERSION_MAX);
	assert_int_equal(layout_state_kind(s), LAYOUT_PREPARED);
	assert_int_equal(layout_state_worker(s), LAYOUT_WORKERS_MAX - 1);
	assert_int_equal(s & LAYOUT_PENDING, 0);
	assert_int_equal(layout_state_version(s | LAYOUT_PENDING), LAYOUT_VERSION_MAX);
	assert_int_equal(layout_state_kind(s | LAYOUT_PENDING), LAYOUT_PREPARED);
	assert_int_equal(layout_state_worker(s | LAYOUT_PENDING), LAYOUT_WORKERS_MAX - 1);
	l = layout_lengths(LAYOUT_VALUE_BYTES_MAX, LAYOUT_KEY_BYTES_MAX);
	assert_int_equal(layout_value_bytes(l), LAYOUT_VALUE_BYTES_MAX);
	assert_int_equal(layout_key_bytes(l), LAYOUT_KEY_BYTES_MAX);
}

/* Bucket, fingerprint and stripe of a key must not follow from one another. */
static void test_fingerprint_bits(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TABLES; i++) {
		uint64_t bytes = table_bytes_of(i), mask = layout_unit_mask(bytes);
		/* Groups of two buckets, and the place in a group, in a quarter of the table. */
		unsigned address = 63 - (unsigned)__builtin_clzll(bytes / 4 / LAYOUT_BUCKET_BYTES) + 2;
		unsigned fp = (unsigned)__builtin_popcountll(layout_fp_mask(mask));
		assert_true(address + fp <= 64);
		assert_int_equal(layout_fp(~0ull << fp, mask), 0);
	}
	assert_int_equal(layout_stripe(0x123456789abcdefull, 1 << 20), 0xbcdef);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_masks),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_bijection),
		cmocka_unit_test(test_moves_within_a_group),
		cmocka_unit_test(test_places_keep_their_bucket),
		cmocka_unit_test(test_large_sizes),
		cmocka_unit_test(test_even_shares),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_items),
		cmocka_unit_test(test_fingerprint_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
