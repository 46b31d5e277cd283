/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Happy path of a change: mark the key's stripe (the workers' mutex on it), lock
 * its buckets, find the old item, look at the lock word (change.c); make the change,
 * unlock, unmark, free what was replaced.  The rules are those of protocols.md; the
 * numbers in the comments are its.
 *
 *   insert      new item complete, INSERTING; entry; new state LIVE (the point of
 *               effect)
 *   in place    old item to the scratch; state UPDATING; new bytes; state LIVE
 *               with the new version (the point of effect)
 *   elsewhere   scratch names the old item; new item complete, PREPARED; entry;
 *               old state DEAD (the point of effect); new state LIVE
 *   header      as in place, with the value left alone, so at any length
 *   delete      state DELETED (the point of effect); entry cleared
 *
 * At each step a reader finds either the old value or the new one, also if kvd
 * is stopped there (10, 13).  Freed memory is used again at once: readers with an
 * old location are kept out by versions that never repeat (11) and the checksum.
 */
#include "common/dma.h"
#include "server/store/change/effect.h"

#include <stdatomic.h>
#include <string.h>

#include "server/store/item/expiry.h"
#include "server/store/item/heat.h"
#include "server/store/item/item.h"
#include "server/table/heap.h"
#include "server/table/index.h"
#include "server/table/index_grow.h"

/* Whether the old item's slot is long enough: it may be longer than an item needs. */
static bool has_room(const struct store_worker *w, const struct layout_item *old, uint64_t bytes)
{
	uint64_t old_bytes = item_bytes(old);

	return bytes <= old_bytes || bytes <= heap_usable_bytes(w->heap, old_bytes) ||
	       bytes <= heap_room_bytes(w->heap, old, old_bytes);
}

bool work_fits_in_place(const struct store_worker *w, const struct store_change *c,
			const struct work *k)
{
	uint64_t bytes = layout_item_bytes(c->key_bytes, c->value_bytes);

	return !c->item && bytes <= LAYOUT_INPLACE_BYTES_MAX &&
	       change_len_code(c) == layout_word_len_code(k->entry.word) &&
	       has_room(w, k->old, bytes);
}

/* Readers that meet UPDATING take the old item from the scratch. */
static void begin_in_place(struct store_worker *w, struct layout_item *item, uint64_t version,
			   uint64_t copied_bytes)
{
	struct layout_item *copy = (struct layout_item *)w->scratch->item;
	uint64_t old = layout_state_version(item->state);

	w->scratch->new_version = version;
	memcpy(copy, item, copied_bytes);
	copy->state = layout_state(old, LAYOUT_LIVE, 0);
	state_store(item, layout_state(old, LAYOUT_UPDATING, w->id) | LAYOUT_PENDING);
	dma_fence();
}

/* The copy, for which nobody asks behind LIVE, and what the old item had beyond the new one. */
static void wipe_in_place(struct store_worker *w, struct layout_item *item, uint64_t old_bytes,
			  uint64_t copied_bytes)
{
	uint64_t bytes = item_bytes(item);

	if (!w->store->wipes)
		return;
	state_store((struct layout_item *)w->scratch->item, 0);
	memset(w->scratch->item, 0, copied_bytes);
	if (old_bytes > bytes)
		memset((uint8_t *)item + bytes, 0, old_bytes - bytes);
}

/* The value of a long item stays readable where it is: only its head is copied. */
static void update_header(struct store_worker *w, const struct store_change *c, struct work *k)
{
	struct layout_item *item = k->old;
	uint64_t bytes = item_bytes(item);
	uint64_t copied = bytes < LAYOUT_INPLACE_BYTES_MAX ? bytes : LAYOUT_INPLACE_BYTES_MAX;

	begin_in_place(w, item, layout_state_version(c->head->state), copied);
	item->expiry = c->head->expiry;
	item->checksum = c->head->checksum;
	state_store(item, c->head->state);
	wipe_in_place(w, item, bytes, copied);
}

static void update_in_place(struct store_worker *w, const struct store_change *c, struct work *k)
{
	struct store *s = w->store;
	struct layout_item *item = k->old;
	uint64_t version = next_version(s), old_bytes = item_bytes(item);

	begin_in_place(w, item, version, old_bytes);
	item_set_head(item, c->key_bytes, c->value_bytes, &c->with);
	memcpy(item->data + c->key_bytes, c->value, c->value_bytes);
	item->checksum = item_checksum(s, item, version);
	state_store(item, layout_state(version, LAYOUT_LIVE, 0));
	wipe_in_place(w, item, old_bytes, old_bytes);
	heat_note(s->heat, table_offset(s->table, item));
}

/* The same with an image of the item, sealed for its place. */
static void overwrite(struct store_worker *w, const struct layout_item *image, struct work *k)
{
	struct layout_item *item = k->old;
	uint64_t old_bytes = item_bytes(item);

	begin_in_place(w, item, layout_state_version(image->state), old_bytes);
	item->lengths = image->lengths;
	item->expiry = image->expiry;
	memcpy(item->data, image->data, item_bytes(image) - sizeof *image);
	item->checksum = image->checksum;
	state_store(item, image->state);
	wipe_in_place(w, item, old_bytes, old_bytes);
}

void work_replace(struct store_worker *w, struct work *k, struct layout_item *item,
		  unsigned len_code)
{
	struct store *s = w->store;
	struct layout_item *old = k->old;
	uint64_t old_version = layout_state_version(old->state);

	store_item_seal(w, item);
	uint64_t version = layout_state_version(item->state);

	w->scratch->old_word = k->entry.word;
	w->scratch->old_version = old_version;
	dma_store_fence();
	__atomic_store_n(&w->scratch->new_version, version, __ATOMIC_RELEASE);
	state_store(item, layout_state(version, LAYOUT_PREPARED, w->id));
	heat_note_moved(s->heat, table_offset(s->table, old), table_offset(s->table, item));
	index_replace(s->index, &k->entry, item_unit(s, item),
		      len_code);
	state_store(old, layout_state(old_version, LAYOUT_DEAD, w->id));
	state_store(item, layout_state(version, LAYOUT_LIVE, 0));
}

static bool insert(struct store_worker *w, struct work *k, struct layout_item *item,
		   unsigned len_code)
{
	struct store *s = w->store;

	store_item_seal(w, item);
	uint64_t version = layout_state_version(item->state);
	/* Absent to those who find it by an old location, until those who go by the index
	 * find it, too (10).  It says so itself: what the scratch says belongs to the next
	 * change a moment later. */
	state_store(item, layout_state(version, LAYOUT_INSERTING, 0));
	heat_note_new(s->heat, table_offset(s->table, item));
	if (k->is_promised) {
		index_insert_promised(s->index, &k->spot, item_unit(s, item), len_code, &k->entry);
	} else if (!index_insert(s->index, &k->spot, item_unit(s, item), len_code, &k->entry)) {
		state_store(item, 0);
		return false;
	}
	state_store(item, layout_state(version, LAYOUT_LIVE, 0));
	return true;
}

/* The change's item: the caller's, or a new one with the value copied in. */
static struct layout_item *change_item(struct store_worker *w, const struct store_change *c)
{
	if (c->item)
		return c->item;
	struct layout_item *item =
		store_item_new(w, c->key, c->key_bytes, c->value_bytes, &c->with);
	if (item)
		memcpy(item->data + c->key_bytes, c->value, c->value_bytes);
	return item;
}

static int put_elsewhere(struct store_worker *w, const struct store_change *c, struct work *k)
{
	struct layout_item *item = change_item(w, c);

	if (!item)
		return WIRE_EMEMORY;
	if (k->old) {
		work_replace(w, k, item, change_len_code(c));
		heat_note(w->store->heat, table_offset(w->store->table, item));
	} else if (!insert(w, k, item, change_len_code(c))) {
		if (!c->item)
			store_item_delete(w, item);
		w->missing_bytes = LAYOUT_NODE_BYTES;
		return WIRE_EMEMORY;
	}
	return WIRE_OK;
}

/* *freed: the old item, if another took its place. */
static int apply(struct store_worker *w, const struct store_change *c,
		 const struct layout_item *image, struct work *k, struct layout_item **freed)
{
	int status = WIRE_OK;

	if (image) {
		overwrite(w, image, k);
	} else if (c->head) {
		update_header(w, c, k);
	} else if (k->old && work_fits_in_place(w, c, k)) {
		update_in_place(w, c, k);
	} else {
		status = put_elsewhere(w, c, k);
		if (status == WIRE_OK)
			*freed = k->old;
	}
	return status;
}

int work_put(struct store_worker *w, const struct store_change *c,
	     const struct layout_item *image, struct work *k, struct store_result *r)
{
	struct store *s = w->store;
	struct layout_item *freed = NULL;
	uint64_t old_bytes = k->old ? layout_value_bytes(k->old->lengths) : 0;
	uint64_t old_expiry = k->old ? layout_expiry_ms(k->old->expiry) : 0;
	bool inserted = !k->old;
	int status = apply(w, c, image, k, &freed);

	if (status != WIRE_OK)
		return status;
	work_tell(s, k, r);
	r->moved = inserted || freed;
	work_leave(w, k);
	atomic_fetch_add_explicit(&s->value_bytes, c->value_bytes - old_bytes,
				  memory_order_relaxed);
	expiry_note(s->expiry, old_expiry,
		    c->head ? layout_expiry_ms(c->head->expiry) : c->with.expiry_ms);
	if (freed)
		store_item_delete(w, freed);
	if (inserted)
		index_grow(s->index);
	return WIRE_OK;
}

void work_remove(struct store_worker *w, struct work *k)
{
	struct store *s = w->store;
	uint64_t expiry_ms = layout_expiry_ms(k->old->expiry);

	atomic_fetch_sub_explicit(&s->value_bytes, layout_value_bytes(k->old->lengths),
				  memory_order_relaxed);
	state_store(k->old, layout_state(layout_state_version(k->old->state), LAYOUT_DELETED, 0));
	index_remove(s->index, &k->entry);
	work_leave(w, k);
	expiry_note(s->expiry, expiry_ms, 0);
	store_item_delete(w, k->old);
}
