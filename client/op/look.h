/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * look.h -- looks at the words in the header of a primary's table (doc/cluster.md, 10).
 *
 * A look is a READ that no operation waits for.  It is posted when one is due and something was
 * READ anyway, and goes with what is posted next; its completion is taken with others'.
 */
#ifndef CLIENT_OP_LOOK_H
#define CLIENT_OP_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/op/engine.h"

#define LOOK_INDEX 0xffffu /* in the place of an operation's, in a wr_id */

/* As below, where the lease is not fresh. */
bool look_again(struct engine *e, uint64_t reign);
/* The completion of a look. */
void look_seen(struct engine *e);

/*
 * In a cluster: whether what was READ counts, all of which is complete.  reign: grant_reign()
 * before it was posted.
 */
static inline bool look_counts(struct engine *e, uint64_t reign)
{
	return grant_is_fresh(&e->table.grant, reign) || look_again(e, reign);
}

#endif
