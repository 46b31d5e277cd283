/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hints.h -- where a session's one-sided GETs found their items, for a kvd that is a
 * cache: it would not know otherwise what is used.
 *
 * Collected, and sent WIRE_HINTS_MAX at a time in a message that nobody waits for.  Only
 * a part of the GETs is told, and each place once in a message.
 */
#ifndef CLIENT_OP_HINTS_H
#define CLIENT_OP_HINTS_H

#include <stdint.h>

struct engine;
struct hints;

/* A connection begins; e->hints is NULL if its kvd wants none, or without memory. */
void hints_begin(struct engine *e);
void hints_delete(struct hints *hints);

/* A GET found its item where `word` says; e->hints is not NULL. */
void hints_note(struct engine *e, uint64_t word);

#endif
