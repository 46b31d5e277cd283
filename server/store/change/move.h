/* SPDX-License-Identifier: BSD-2-Clause */
/* move.h -- puts an item elsewhere in the heap, for compaction. */
#ifndef SERVER_STORE_CHANGE_MOVE_H
#define SERVER_STORE_CHANGE_MOVE_H

#include <stddef.h>

#include "server/store/item/context.h"
#include "server/table/heap.h"

/*
 * Moves an item that stands in a slot of slot_bytes, if one does, to another slot: same
 * version, same value.  Its slab is held (slab.h), so the other slot is not of it.  how: which
 * slot it may be (heap.h).  An item of whole pages goes to pages before it.
 */
enum store_moved {
	STORE_MOVED,
	STORE_MOVED_NOT,     /* no item, or one that is under way or locked */
	STORE_MOVED_NOWHERE, /* there is no place for it */
};
enum store_moved store_move(struct store_worker *worker, struct layout_item *item,
			    size_t slot_bytes, enum heap_packed how);

/* Fetches into the cache what store_move() of the same slot will look at. */
void store_move_fetch(const struct store_worker *worker, const struct layout_item *item,
		      size_t slot_bytes);

/* The key of what seems to be a live item in a slot, by words; its bytes, 0: it is none.
 * Only the index knows whether it is that key's. */
unsigned store_peek_key(const struct layout_item *item, size_t slot_bytes, uint64_t *key);

#endif
