/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite.h -- WIRE_APPEND, WIRE_PREPEND and WIRE_TOUCH of a long value, in steps.
 *
 * What store_put() refuses as STORE_LONG is done here, a bounded number of bytes at a time,
 * for a worker has others to serve in between.  The old item is pinned meanwhile; its stripe
 * is not marked, so the key can be changed and deleted.  A worker's thread, all of it.
 */
#ifndef SERVER_STORE_REWRITE_H
#define SERVER_STORE_REWRITE_H

#include "server/store/change/rmw.h"

#define REWRITE_STEP_BYTES (1u << 20)
#define REWRITE_TRIES_MAX 8u /* times that another change was faster */

struct rewrite {
	struct store_change change;
	struct compute compute;
	struct rewritten made;
	struct pin pin; /* of the old item, if that is long */
	struct hash_stream hash;
	uint64_t before;    /* bytes of the old value */
	uint64_t all, done; /* bytes to be copied and hashed */
	unsigned tries;
	bool begun;
};

/* A change with its key and, of a joined value, what is joined, which stay the caller's until the
 * end. */
void rewrite_init(struct rewrite *rewrite, enum wire_op op, const struct store_change *change);
/*
 * The next step.  STORE_LONG: there are more; STORE_ASIDE: the same again, later.  Else it has
 * ended, with what store_put() returns; WIRE_EBUSY: other changes of the key were faster,
 * time and again.
 */
int rewrite_step(struct store_worker *worker, struct rewrite *rewrite,
		 struct store_result *result);
/* Ends it before its end: nothing was done. */
void rewrite_drop(struct store_worker *worker, struct rewrite *rewrite);

#endif
