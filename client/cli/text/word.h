/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * word.h -- words: how a line of the shell is split into them, and how
 * bytes are shown so that they can be read and typed again.
 *
 * Words are separated by spaces and tabs.  "..." may hold spaces and the escapes
 * \n \r \t \0 \xNN \" \\; '...' holds everything but ' as it stands; pieces that
 * touch are one word.  A backslash outside of quotes is a backslash.  Any other
 * byte, zero and over 127 too, stands for itself.
 */
#ifndef CLIENT_CLI_TEXT_WORD_H
#define CLIENT_CLI_TEXT_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct cli_word {
	const char *data;
	size_t bytes;
	/* It was quoted or stood behind "--": no option, no "-". */
	bool literal;
};

/* A quote is open at the end of the line: more of it may follow. */
bool cli_word_is_open(const char *line, size_t line_bytes);

/* A growing array, reused from line to line. */
struct cli_words {
	struct cli_word *word;
	size_t count, room;
};

/* Splits a line, whose bytes it overwrites and which the words then point into.
 * True, or false after setting `error` to what is wrong. */
bool cli_word_split(struct cli_words *words, char *line, size_t line_bytes, char *error,
		    size_t error_bytes);
void cli_words_free(struct cli_words *words);

/* The word is this string, and isn't literal. */
bool cli_word_is(const struct cli_word *word, const char *text);

/* A copy that ends in a zero byte; NULL if the word has one within, or for want
 * of memory.  free() it. */
char *cli_word_string(const struct cli_word *word);

/* Valid UTF-8 without control characters, but for \n and \t if `lines`. */
bool cli_word_is_text(const void *data, size_t bytes, bool lines);

/* Writes bytes as a "..." word. */
void cli_word_quote(FILE *file, const void *data, size_t bytes);

/* "..." into a buffer, for sentences; long ones end in "...".  Returns buf. */
const char *cli_word_show(const void *data, size_t bytes, char *buf, size_t buf_bytes);

#endif
