/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * glob.h -- patterns of keys, as the shell has them for names of files.
 *
 * '*' is any number of characters, '?' is one, "[a-z_]" one of these, "[!a-z]" one that is
 * none of these; '\' takes away the meaning of what follows.  A '/' is like any other
 * character.  A character is one of UTF-8, or one byte that is no part of one.
 */
#ifndef CLIENT_CLI_TEXT_GLOB_H
#define CLIENT_CLI_TEXT_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* NULL if it is a pattern; else what is wrong with it. */
const char *cli_glob_check(const char *pattern, size_t pattern_bytes);

/* All of the text is what the pattern says.  Takes at most the product of both lengths. */
bool cli_glob_match(const char *pattern, size_t pattern_bytes, const void *text,
		    size_t text_bytes);

/* What every text that matches begins with; into `prefix`, which has room for all of the
 * pattern.  Returns its length. */
size_t cli_glob_prefix(const char *pattern, size_t pattern_bytes, char *prefix);

#endif
