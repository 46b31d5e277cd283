/* SPDX-License-Identifier: BSD-2-Clause */
/* word.h -- a line's words, and the numbers in them.  Any thread; nothing is allocated. */
#ifndef FRONT_PROTOCOL_WORD_H
#define FRONT_PROTOCOL_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Into the line, not terminated. */
struct word {
	const char *at;
	size_t bytes;
};

/* More than any command has.  What stands behind so many words is one word more. */
#define WORDS_MAX 24u

struct words {
	struct word word[WORDS_MAX];
	unsigned count;
};

/* Blanks separate words, and nothing else does.  The line is without its end. */
void words_split(struct words *words, const char *line, size_t bytes);

/* The word at *at, or one of no bytes if there is none before `end`; *at moves behind it. */
struct word word_next(const char **at, const char *end);

bool word_is(struct word word, const char *text);

/* Decimal, all of the word, a "+" before it may be.  False: it is none, or does not fit. */
bool word_u64(struct word word, uint64_t *number);
bool word_u32(struct word word, uint32_t *number);
bool word_i64(struct word word, int64_t *number);

#endif
