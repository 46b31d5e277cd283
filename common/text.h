/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * text.h -- what may be shown on a terminal: UTF-8 without control characters.  C1 controls
 * (U+0080 to U+009F) move terminals as those of ASCII do.  Any thread.
 */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The length of the character at `at`; 0 if it is no UTF-8, or a control character.
 * left: how many bytes there are, 1 at least. */
size_t text_length(const uint8_t *at, size_t left);

/* Makes a text of it that may be shown: newline and tab become a blank, each other byte
 * that is in no such character becomes '?'. */
void text_tame(char *text);

#endif
