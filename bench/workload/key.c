/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/workload/key.h"

#include <assert.h>
#include <string.h>

#include "bench/workload/fnv.h"

/* "00" to "99". */
static const char pairs[200] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

/* Writes four digits, zeros in front. */
static inline void put_four(char *out, uint32_t number)
{
	memcpy(out, pairs + number / 100 * 2, 2);
	memcpy(out + 2, pairs + number % 100 * 2, 2);
}

/* The halves are independent of each other. */
static inline void put_eight(char *out, uint32_t number)
{
	put_four(out, number / 10000);
	put_four(out + 4, number % 10000);
}

#define DIGITS 20
#define EIGHT 100000000u

size_t key_make(const struct key_format *format, uint64_t number, char *key)
{
	char digits[DIGITS];
	size_t zeros = 0, count, bytes = 4;

	assert(format->padding <= KEY_PADDING_MAX);
	if (!format->ordered)
		number = fnv_hash(number);
	put_four(digits, (uint32_t)(number / EIGHT / EIGHT));
	put_eight(digits + 4, (uint32_t)(number / EIGHT % EIGHT));
	put_eight(digits + 12, (uint32_t)(number % EIGHT));
	while (zeros < DIGITS - 1 && digits[zeros] == '0')
		zeros++;
	count = DIGITS - zeros;

	memcpy(key, "user", 4);
	if (count < (size_t)format->padding) {
		memset(key + bytes, '0', (size_t)format->padding - count);
		bytes += (size_t)format->padding - count;
	}
	memcpy(key + bytes, digits + zeros, count);
	return bytes + count;
}
