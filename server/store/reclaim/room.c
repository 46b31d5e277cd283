/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/reclaim/room.h"

#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/evict.h"
#include "server/table/heap.h"
#include "server/table/index.h"

#define ROOM_TRIES_MAX 64u
#define ROOM_TRIES_PAGES_MAX 4u /* of an item that may cost many others theirs */

bool store_make_room(struct store_worker *w, struct hash hash, unsigned tries, int *status)
{
	struct store *s = w->store;
	struct index_spot spot;

	if (!s->evict) {
		if (*status != WIRE_EMEMORY)
			return false;
		if (compact_may_help(w)) {
			*status = STORE_ASIDE;
			return false;
		}
		heap_allow_waste(w->heap);
		return !tries;
	}
	if (w->evictions) {
		*status = STORE_ASIDE;
		return false;
	}
	if (*status == WIRE_ECROWDED) {
		index_lock(s->index, hash, &spot);
		index_unlock(s->index, &spot);
		if (tries < ROOM_TRIES_MAX && evict_from(w, spot.bucket[tries % 2]) == EVICT_ROOM)
			return true;
		*status = STORE_ASIDE;
		return false;
	}
	/* What was removed is being made room of. */
	uint64_t bytes = w->missing_bytes;
	bool moving = (compact_is_busy(s->compact) || (!tries && compact_is_better(w))) &&
		      compact_may_help(w);
	unsigned max = bytes < HEAP_PAGES_BYTES_MIN ? ROOM_TRIES_MAX : ROOM_TRIES_PAGES_MAX;
	if (!region_may_spare(s->table->region, bytes))
		return false;
	if (!moving && tries < max && evict_make_room(w, bytes) == EVICT_ROOM) {
		heap_allow_waste(w->heap);
		return true;
	}
	if (!evict_is_emptying(w))
		compact_may_help(w);
	*status = STORE_ASIDE;
	return false;
}
