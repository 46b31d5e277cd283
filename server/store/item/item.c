/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/item/item.h"

#include <string.h>

#include "server/table/heap.h"

struct layout_item *store_item_new(struct store_worker *w, const void *key, unsigned key_bytes,
				   uint64_t value_bytes, const struct layout_attributes *with)
{
	struct layout_item *item = heap_alloc(w->heap, layout_item_bytes(key_bytes, value_bytes));

	if (!item) {
		w->missing_bytes = layout_item_bytes(key_bytes, value_bytes);
		return NULL;
	}
	state_store(item, 0);
	item->checksum = 0;
	item_set_head(item, key_bytes, value_bytes, with);
	memcpy(item->data, key, key_bytes);
	return item;
}

static void free_item(struct store_worker *w, struct layout_item *item, uint64_t bytes)
{
	state_store(item, 0);
	heap_free(w->heap, item, bytes);
	atomic_fetch_add_explicit(&w->store->freed_bytes, bytes, memory_order_relaxed);
}

void store_item_delete(struct store_worker *w, struct layout_item *item)
{
	uint64_t bytes = item_bytes(item);

	if (bytes < PIN_ITEM_BYTES_MIN || !pin_keeps(w->store->pins, item, bytes))
		free_item(w, item, bytes);
}

void store_item_unpin(struct store_worker *w, struct pin *pin)
{
	struct layout_item *item = pin_end(w->store->pins, pin);

	if (item)
		free_item(w, item, item_bytes(item));
}

/* Dead, and its checksum is as yet that of all but version and place. */
#define HASHED layout_state(0, LAYOUT_DEAD, 1)

void store_item_seal(struct store_worker *w, struct layout_item *item)
{
	uint64_t version = layout_state_version(item->state);

	if (version)
		return;
	version = next_version(w->store);
	if (item->state == HASHED)
		item->checksum = hash_item_of(item->checksum, version,
					      table_offset(w->store->table, item));
	else
		item->checksum = item_checksum(w->store, item, version);
	state_store(item, layout_state(version, LAYOUT_DEAD, 0));
}

void store_item_hash_stream(struct layout_item *item, struct hash_stream *stream)
{
	item->checksum = hash_bytes_end(stream);
	state_store(item, HASHED);
}

/* A short value is hashed with its head, by store_item_seal(). */
void store_item_hash_value(struct layout_item *item, uint64_t value_hash)
{
	if (layout_value_bytes(item->lengths) < LAYOUT_APART_BYTES_MIN)
		return;
	item->checksum = hash_item_join(item, layout_key_bytes(item->lengths), value_hash);
	state_store(item, HASHED);
}
