/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compact.h -- gives memory that deleted items left in sparse slabs back to all sizes.
 *
 * A slab serves one size class.  Where most of its items are gone it is of no use to other
 * sizes, so the rest of its items are moved to other slabs of theirs, and its pages go
 * back to the region.  A move is an update elsewhere to the same value and version:
 * readers meet nothing new, but whoever has the old location mirrored READs the index
 * again; so items are moved only where memory is short.
 */
#ifndef SERVER_STORE_RECLAIM_COMPACT_H
#define SERVER_STORE_RECLAIM_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

struct compact;
struct store_worker;

/* What all workers share.  0 or an errno value. */
int compact_new(struct compact **compact);
void compact_delete(struct compact **compact);

/* A worker that is going to call compact_step() until it leaves.  Its own thread. */
void compact_join(struct store_worker *worker);
void compact_leave(struct store_worker *worker);

/*
 * An allocation failed: whether moving items may make room.  Then the change is to be
 * tried again later; after all workers have looked and found nothing it is false.
 */
bool compact_may_help(struct store_worker *worker);

/*
 * What has to find memory found none for long, and nobody will give it up: a round begins, if none
 * is under way, however little was freed since the last one.
 */
void compact_force(struct store_worker *worker);

/*
 * Of a cache that finds no room: whether so much of the memory is wasted that items are to be
 * moved rather than removed.  At most once while a sixteenth of the memory is freed.
 */
bool compact_is_better(struct store_worker *worker);

/* Whether items are being moved. */
bool compact_is_busy(const struct compact *compact);

/* Whether compact_step() has something to do.  Cheap. */
bool compact_is_due(const struct store_worker *worker);

/* Goes on: some items, or half a millisecond where changes wait for it.  Holding nothing. */
void compact_step(struct store_worker *worker, uint64_t now_ns);

struct compact_stats {
	uint64_t passes;
	uint64_t items;
	uint64_t item_bytes;
	uint64_t freed_bytes; /* of slabs that were emptied */
	uint64_t waits;       /* changes that were set aside for it */
	uint64_t longest_ns;  /* that a step kept a worker from its clients, of eviction, too */
};
/* A step of eviction ends that moved and removed items; it began with stall_begin(). */
void compact_note_stall(struct store_worker *worker, uint64_t begun_ns);
struct compact_stats compact_stats(const struct compact *compact);

#endif
