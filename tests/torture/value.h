/* SPDX-License-Identifier: BSD-2-Clause */
/* value.h -- values that say what they are, so that any wrong byte shows. */
#ifndef TESTS_TORTURE_VALUE_H
#define TESTS_TORTURE_VALUE_H

#include <stdint.h>
#include <string.h>

#define VALUE_BYTES_MIN 24u

static inline uint64_t value_word(uint64_t id, uint64_t i)
{
	uint64_t x = id * 0x9e3779b97f4a7c15ull + i;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 29;
}

/* key, id, length, then words that follow from id and length. */
static inline void value_make(uint8_t *value, uint64_t bytes, uint64_t key, uint64_t id)
{
	const uint64_t head[3] = { key, id, bytes };
	uint64_t word, i;

	memcpy(value, head, sizeof head);
	for (i = 3; 8 * i < bytes; i++) {
		word = value_word(id, i) ^ bytes;
		memcpy(value + 8 * i, &word, bytes - 8 * i < 8 ? bytes - 8 * i : 8);
	}
}

/* The id of a whole value of this key, or 0. */
static inline uint64_t value_check(const uint8_t *value, uint64_t bytes, uint64_t key)
{
	uint64_t head[3], word, i;

	if (bytes < sizeof head)
		return 0;
	memcpy(head, value, sizeof head);
	if (head[0] != key || !head[1] || head[2] != bytes)
		return 0;
	for (i = 3; 8 * i < bytes; i++) {
		word = value_word(head[1], i) ^ bytes;
		if (memcmp(value + 8 * i, &word, bytes - 8 * i < 8 ? bytes - 8 * i : 8))
			return 0;
	}
	return head[1];
}

#endif
