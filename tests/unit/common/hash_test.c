/* SPDX-License-Identifier: BSD-2-Clause */
/* common/hash.h: a hash of pieces is that of the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/hash.h"

enum { BYTES = 5000, KEY_BYTES = 17 };

static struct layout_item *make_item_of(size_t bytes)
{
	struct layout_item *item = calloc(1, sizeof *item + KEY_BYTES + BYTES);

	assert_non_null(item);
	item->lengths = layout_lengths(bytes, KEY_BYTES);
	item->expiry = 99;
	for (unsigned i = 0; i < KEY_BYTES + BYTES; i++)
		item->data[i] = (uint8_t)(i * i >> 3);
	return item;
}

static struct layout_item *make_item(void)
{
	return make_item_of(BYTES);
}

static void test_pieces(void **state)
{
	static const size_t steps[] = { 1, 7, 64, 255, 4096, BYTES };
	struct layout_item *item = make_item();
	const uint8_t *value = item->data + KEY_BYTES;
	uint64_t whole = hash_item(item, layout_item_bytes(KEY_BYTES, BYTES), 5, 4096);

	(void)state;
	assert_true(hash_item_split(item, KEY_BYTES, value, BYTES, 5, 4096) == whole);
	assert_true(hash_item_split(item, KEY_BYTES, value, BYTES, 6, 4096) != whole);
	assert_true(hash_item_split(item, KEY_BYTES, value, BYTES, 5, 4128) != whole);
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		struct hash_stream a, b;
		hash_item_begin(&a, item, KEY_BYTES);
		hash_bytes_begin(&b);
		for (size_t at = 0; at < BYTES; at += steps[i]) {
			size_t n = BYTES - at < steps[i] ? BYTES - at : steps[i];
			hash_add(&a, value + at, n);
			hash_add(&b, value + at, n);
		}
		assert_true(hash_item_end(&a, 5, 4096) == whole);
		assert_true(hash_bytes_end(&b) == hash_bytes(value, BYTES));
	}
	free(item);
}

/* By whatever instructions: XXH3 has other code for each range of lengths. */
static void test_is_xxh3(void **state)
{
	struct layout_item *item = make_item();

	(void)state;
	for (size_t n = 0; n <= BYTES; n += n < 1200 ? 1 : 61)
		assert_true(hash_bytes(item->data + 1, n) == XXH3_64bits(item->data + 1, n));
	free(item);
}

/* Whatever bit is flipped, but for the state and the checksum itself; of a value that is hashed
 * with its head, and of one that is not. */
static void test_every_bit(void **state)
{
	static const size_t lengths[] = { 100, LAYOUT_APART_BYTES_MIN - 1, LAYOUT_APART_BYTES_MIN };

	(void)state;
	for (unsigned n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
		struct layout_item *item = make_item_of(lengths[n]);
		uint64_t bytes = layout_item_bytes(KEY_BYTES, lengths[n]);
		uint64_t whole = hash_item(item, bytes, 5, 4096);
		uint8_t *from = (uint8_t *)&item->lengths;
		for (size_t i = 0; i < 8 * (bytes - offsetof(struct layout_item, lengths)); i++) {
			from[i / 8] ^= (uint8_t)(1u << i % 8);
			assert_true(hash_item(item, bytes, 5, 4096) != whole);
			from[i / 8] ^= (uint8_t)(1u << i % 8);
		}
		free(item);
	}
}

/* One way or another, at the length where one ends and the other begins. */
static void test_long_and_short(void **state)
{
	(void)state;
	for (size_t n = LAYOUT_APART_BYTES_MIN - 2; n < LAYOUT_APART_BYTES_MIN + 2; n++) {
		struct layout_item *item = make_item_of(n);
		const uint8_t *value = item->data + KEY_BYTES;
		uint64_t whole = hash_item(item, layout_item_bytes(KEY_BYTES, n), 5, 4096);
		uint64_t joined = hash_item_join(item, KEY_BYTES, hash_bytes(value, n));
		assert_true(hash_item_split(item, KEY_BYTES, value, n, 5, 4096) == whole);
		assert_int_equal(hash_item_of(joined, 5, 4096) == whole,
				 n >= LAYOUT_APART_BYTES_MIN);
		free(item);
	}
}

/* As kvd-protocol(7) has it. */
static uint64_t mixed(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93;
	x ^= x >> 29;
	x *= 0x9fb21c651e98df25;
	return x ^ (x >> 32);
}

static uint64_t documented(const struct layout_item *item, size_t value_bytes, uint64_t version, uint64_t offset)
{
	uint64_t hash;

	if (value_bytes >= 4096)
		hash = mixed(XXH3_64bits(&item->lengths, 16 + KEY_BYTES)) +
		       XXH3_64bits(item->data + KEY_BYTES, value_bytes);
	else
		hash = XXH3_64bits(&item->lengths, 16 + KEY_BYTES + value_bytes);
	return mixed(hash + mixed(version + 0x9e3779b97f4a7c15) + mixed(offset ^ 0xc2b2ae3d27d4eb4f));
}

static void test_is_documented(void **state)
{
	static const size_t lengths[] = { 0, 1, 207, 208, 209, 1000, 4095, 4096, 4097, BYTES };

	(void)state;
	/* mix(1), worked out apart from any code of it. */
	assert_true(mixed(1) == 0xe4c4c01b56d0238b);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		size_t n = lengths[i];
		struct layout_item *item = make_item_of(n);
		const uint8_t *value = item->data + KEY_BYTES;
		for (uint64_t version = 1; version < 1ull << 48; version *= 1023) {
			uint64_t offset = 32 * version, whole = documented(item, n, version, offset);
			struct hash_stream s;
			assert_true(hash_item(item, layout_item_bytes(KEY_BYTES, n), version, offset) == whole);
			assert_true(hash_item_split(item, KEY_BYTES, value, n, version, offset) == whole);
			hash_item_begin(&s, item, KEY_BYTES);
			hash_add(&s, value, n / 2);
			hash_item_sum(&s, version, offset);
			hash_add(&s, value + n / 2, n - n / 2);
			assert_true(hash_item_sum(&s, version, offset) == whole);
			assert_true(hash_item_end(&s, version, offset) == whole);
		}
		free(item);
	}
}

/* Two hashes of one key, and others with another seed. */
static void test_keys(void **state)
{
	const XXH128_hash_t h = XXH3_128bits_withSeed("key", 3, 12345);
	struct hash got = hash_key(12345, "key", 3), other = hash_key(12346, "key", 3);

	(void)state;
	assert_true(got.a == h.low64 && got.b == h.high64);
	assert_true(got.a != other.a && got.b != other.b);
}

/* Seals of words: XXH3 of what stands before them, with bit 0 set. */
static void test_seals(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 20; n++) {
		struct layout_lease lease = { .reign = n, .a = 2, .g = 1, .checksum = n };
		struct layout_txn txn = { .commit = n, .version = 2, .old_word = 3, .old_version = 4, .new_unit = 5, .seal = n };
		assert_true(hash_lease(&lease) == (XXH3_64bits(&lease, 24) | 1));
		assert_true(hash_txn(&txn) == (XXH3_64bits(&txn, 40) | 1));
	}
}

/* An item whose length, as READ, is less than what its head says of the value: a hash of what there is. */
static void test_head_lies(void **state)
{
	struct layout_item *item = make_item();

	(void)state;
	for (size_t n = 4000; n < BYTES; n += 500) {
		uint64_t hash = XXH3_64bits(&item->lengths, 16 + n);
		assert_true(hash_item(item, layout_item_bytes(0, n), 5, 4096) == hash_item_of(hash, 5, 4096));
	}
	/* The value alone, without a key, is whole again. */
	assert_true(hash_item(item, layout_item_bytes(0, BYTES), 5, 4096) ==
		    hash_item_of(hash_item_join(item, 0, hash_bytes(item->data, BYTES)), 5, 4096));
	assert_true(hash_item(item, layout_item_bytes(0, BYTES - 1), 5, 4096) ==
		    hash_item_of(XXH3_64bits(&item->lengths, 16 + BYTES - 1), 5, 4096));
	free(item);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_is_xxh3),
		cmocka_unit_test(test_every_bit),
		cmocka_unit_test(test_long_and_short),
		cmocka_unit_test(test_is_documented),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_seals),
		cmocka_unit_test(test_head_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
