/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * args.h -- options and operands of one command, in any order.
 *
 * Not common/opt.h, which parses the program's own options: words of a shell
 * may hold any byte, and a shell parses millions of them.
 */
#ifndef CLIENT_CLI_TEXT_ARGS_H
#define CLIENT_CLI_TEXT_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/text/word.h"

#define CLI_OPTIONS_MAX 8

struct cli_option {
	const char *name;     /* without dashes; NULL ends the table */
	char letter;          /* or 0 */
	const char *argument; /* how --help calls it; NULL: a flag */
	const char *help;
};

struct cli_args {
	struct cli_word *operand;
	size_t count;
	bool help; /* --help */
	/* By place in the command's table. */
	bool given[CLI_OPTIONS_MAX];
	struct cli_word option[CLI_OPTIONS_MAX];
};

/*
 * Takes the options out of `words`, whose operands it moves to the front;
 * `args` points into it.  A word is an option if it begins with "--" or with
 * "-" and a letter, so -5 is an operand; a literal word never is.  "--" ends
 * them, and makes literal what follows.  False after setting `error`.
 */
bool cli_args_parse(struct cli_args *args, const struct cli_option *options,
		    struct cli_word *words, size_t count, char *error, size_t error_bytes);

/* A whole number in min..max; false if the word is none. */
bool cli_args_number(const struct cli_word *word, uint64_t min, uint64_t max, uint64_t *number);

/* A time, "5", "5s", "1.5s" or "500ms", of ms_min to 24 hours; false if it is none. */
bool cli_args_time(const struct cli_word *word, int ms_min, int *ms);

/* A whole number, with a '-' or without; false if the word is none of 64 bits. */
bool cli_args_integer(const struct cli_word *word, int64_t *number);

/* A time to live: "30", "1.5s", "500ms", "10m", "12h" or "7d", of 1 ms to *ms_max; false if
 * it is none. */
bool cli_args_ttl(const struct cli_word *word, uint64_t ms_max, uint64_t *ms);

/* A point in time, Unix time in seconds, "1790000000" or "1790000000.5", or UTC as
 * "2026-12-31T23:59:59Z", of 1 ms to ms_max; false if it is none. */
bool cli_args_unix_time(const struct cli_word *word, uint64_t ms_max, uint64_t *unix_ms);

/* How many slips make one word of the other: a letter too many, too few, another one, or
 * two that changed places. */
size_t cli_args_distance(const char *a, size_t a_bytes, const char *b);
/* `b` may be what was meant by `a`: one slip in up to 4 letters, two in more. */
bool cli_args_near(const char *a, size_t a_bytes, const char *b);

#endif
