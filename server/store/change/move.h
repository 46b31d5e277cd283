/* SPDX-License-Identifier: BSD-2-Clause */
/* move.h -- puts an item elsewhere in the heap, for compaction. */
#ifndef SERVER_STORE_CHANGE_MOVE_H
#define SERVER_STORE_CHANGE_MOVE_H

#include <stddef.h>

#include "server/store/item/context.h"

/*
 * Moves an item that stands in a slot of slot_bytes, if one does, to another place of the
 * worker's heap that is not in the slab: same version, same value.
 */
enum store_moved {
	STORE_MOVED,
	STORE_MOVED_NOT,     /* no item, or one that is under way or locked */
	STORE_MOVED_NOWHERE, /* there is no place for it */
};
enum store_moved store_move(struct store_worker *worker, struct layout_item *item,
			    size_t slot_bytes, const void *slab, size_t slab_bytes);

#endif
