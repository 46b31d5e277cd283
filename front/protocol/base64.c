/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/protocol/base64.h"

#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* -1: no letter of base64. */
static int value_of(char c)
{
	const char *at = c ? strchr(letters, c) : NULL;

	return at ? (int)(at - letters) : -1;
}

/* Four letters, of which `pad` are padding; false: they are none. */
static int decode_four(const char *from, unsigned pad, uint32_t *three)
{
	*three = 0;
	for (unsigned i = 0; i < 4; i++) {
		int value = i < 4 - pad ? value_of(from[i]) : 0;
		if (value < 0)
			return 0;
		*three = *three << 6 | (unsigned)value;
	}
	return 1;
}

size_t base64_decode(const char *from, size_t from_bytes, uint8_t *to, size_t max)
{
	size_t bytes = 0;
	uint32_t three;

	if (!from_bytes || from_bytes % 4)
		return 0;
	for (size_t i = 0; i < from_bytes; i += 4) {
		unsigned pad = 0;
		if (i + 4 == from_bytes)
			pad = from[i + 3] != '=' ? 0 : from[i + 2] != '=' ? 1 : 2;
		if (!decode_four(from + i, pad, &three) || bytes + 3 - pad > max)
			return 0;
		for (unsigned k = 0; k < 3 - pad; k++)
			to[bytes++] = (uint8_t)(three >> (16 - 8 * k));
	}
	return bytes;
}

size_t base64_encode(const uint8_t *from, size_t from_bytes, char *to)
{
	size_t bytes = 0;

	for (size_t i = 0; i < from_bytes; i += 3) {
		size_t left = from_bytes - i;
		uint32_t three = (uint32_t)from[i] << 16 |
				 (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
				 (left > 2 ? from[i + 2] : 0u);
		to[bytes++] = letters[three >> 18];
		to[bytes++] = letters[three >> 12 & 63];
		to[bytes++] = left > 1 ? letters[three >> 6 & 63] : '=';
		to[bytes++] = left > 2 ? letters[three & 63] : '=';
	}
	return bytes;
}
