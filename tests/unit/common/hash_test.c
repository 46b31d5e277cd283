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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_is_xxh3),
		cmocka_unit_test(test_every_bit),
		cmocka_unit_test(test_long_and_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
