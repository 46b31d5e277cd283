/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * held.h -- the locks that a session holds, and what kvd READs in this process to learn
 * whether it holds one still.
 */
#ifndef CLIENT_OP_HELD_H
#define CLIENT_OP_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"

struct held {
	struct layout_held *page;         /* tokens that are held or tried for: kvd READs it */
	uint64_t counter;                 /* of tokens */
	uint64_t stripe[LAYOUT_HELD_MAX]; /* those that are held */
	unsigned count;
};

/* A connection begins: kvd releases what the last one held. */
void held_forget(struct held *held);

/* A token is held from now on, or tried for.  False: too many. */
bool held_say(struct held *held, uint64_t stripe, uint64_t token);
void held_say_free(struct held *held, uint64_t token);

#endif
