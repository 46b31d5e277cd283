/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/protocol/word.h"

#include <string.h>

struct word word_next(const char **at, const char *end)
{
	struct word word;

	while (*at < end && **at == ' ')
		++*at;
	word.at = *at;
	while (*at < end && **at != ' ')
		++*at;
	word.bytes = (size_t)(*at - word.at);
	return word;
}

void words_split(struct words *words, const char *line, size_t bytes)
{
	const char *at = line, *end = line + bytes;
	struct word word;

	for (words->count = 0; words->count < WORDS_MAX; words->count++) {
		word = word_next(&at, end);
		if (!word.bytes)
			return;
		words->word[words->count] = word;
	}
}

bool word_is(struct word word, const char *text)
{
	return strlen(text) == word.bytes && !memcmp(word.at, text, word.bytes);
}

bool word_u64(struct word word, uint64_t *number)
{
	uint64_t sum = 0;
	size_t i = word.bytes && *word.at == '+';

	if (i == word.bytes)
		return false;
	for (; i < word.bytes; i++) {
		unsigned digit = (unsigned)(unsigned char)word.at[i] - '0';
		if (digit > 9 || __builtin_mul_overflow(sum, 10, &sum) ||
		    __builtin_add_overflow(sum, digit, &sum))
			return false;
	}
	*number = sum;
	return true;
}

bool word_u32(struct word word, uint32_t *number)
{
	uint64_t wide;

	if (!word_u64(word, &wide) || wide > UINT32_MAX)
		return false;
	*number = (uint32_t)wide;
	return true;
}

bool word_i64(struct word word, int64_t *number)
{
	bool minus = word.bytes && *word.at == '-';
	uint64_t wide;

	if (minus) {
		word.at++;
		word.bytes--;
		if (word.bytes && *word.at == '+')
			return false;
	}
	if (!word_u64(word, &wide) || wide > (uint64_t)INT64_MAX)
		return false;
	*number = minus ? -(int64_t)wide : (int64_t)wide;
	return true;
}
