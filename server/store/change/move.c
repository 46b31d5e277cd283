/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An item that goes elsewhere, for compaction: a change as any other, of an item that keeps
 * its version and its value.
 */
#include "server/store/change/move.h"

#include <string.h>

#include "server/store/change/change.h"
#include "server/store/change/effect.h"
#include "server/store/item/item.h"
#include "server/table/index.h"

/*
 * Others may write the slot, so what is read may be torn.
 *
 * To ThreadSanitizer the others' plain writes race with this.  They do, and it does no
 * harm: the bytes are copied once, their number is bounded by what was copied, and they
 * are used to look the key up and for nothing else.  If the index, with the key's stripe
 * marked, leads to this very slot, it is the key's live item and is read anew, behind the
 * mark; if not, store_move() leaves it alone.
 */
__attribute__((no_sanitize("thread")))
unsigned store_peek_key(const struct layout_item *item, size_t slot_bytes, uint64_t *key)
{
	uint64_t state = __atomic_load_n(&item->state, __ATOMIC_ACQUIRE);
	uint64_t lengths = __atomic_load_n(&item->lengths, __ATOMIC_RELAXED);
	unsigned key_bytes = layout_key_bytes(lengths);
	const uint64_t *from = (const uint64_t *)(const void *)item->data;

	if (layout_state_kind(state) != LAYOUT_LIVE || !key_bytes ||
	    key_bytes > LAYOUT_KEY_BYTES_MAX ||
	    layout_item_bytes(key_bytes, layout_value_bytes(lengths)) > slot_bytes)
		return 0;
	/* Slots are whole units, so the last word is the slot's, too. */
	for (unsigned i = 0; i < (key_bytes + 7) / 8; i++)
		key[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
	return key_bytes;
}

/* A copy of the item elsewhere, of the same version, dead as yet; or NULL. */
static struct layout_item *copy_packed(struct store_worker *w, const struct layout_item *old,
				       enum heap_packed how)
{
	uint64_t bytes = item_bytes(old), version = layout_state_version(old->state);
	struct layout_item *item = bytes >= HEAP_PAGES_BYTES_MIN
					   ? heap_alloc_before(w->heap, bytes, old)
					   : heap_alloc_packed(w->heap, bytes, how);

	if (!item)
		return NULL;
	memcpy(&item->lengths, &old->lengths, bytes - offsetof(struct layout_item, lengths));
	item->checksum = item_checksum(w->store, item, version);
	state_store(item, layout_state(version, LAYOUT_DEAD, 0));
	return item;
}

void store_move_fetch(const struct store_worker *w, const struct layout_item *item,
		      size_t slot_bytes)
{
	const struct table *t = w->store->table;
	uint64_t key[LAYOUT_KEY_BYTES_MAX / 8];
	unsigned key_bytes = store_peek_key(item, slot_bytes, key);
	struct index_spot spot;

	if (!key_bytes)
		return;
	struct hash hash = hash_key(t->hash_seed, key, key_bytes);
	uint64_t stripe = layout_stripe(hash.b, t->stripes);
	__builtin_prefetch((const void *)&t->marks[stripe], 1);
	__builtin_prefetch((const void *)&t->locks[stripe]);
	index_prefetch(w->store->index, hash, &spot);
}

enum store_moved store_move(struct store_worker *w, struct layout_item *old, size_t slot_bytes,
			    enum heap_packed how)
{
	uint64_t key[LAYOUT_KEY_BYTES_MAX / 8];
	struct store_change c = { .key = key, .key_bytes = store_peek_key(old, slot_bytes, key) };
	struct work k;

	if (!c.key_bytes)
		return STORE_MOVED_NOT;
	c.hash = hash_key(w->store->table->hash_seed, key, c.key_bytes);
	if (!work_enter(w, &c, &k))
		return STORE_MOVED_NOT;
	if (k.old != old || pin_has(w->store->pins, old)) {
		work_leave_unchanged(w, &k);
		return STORE_MOVED_NOT;
	}
	struct layout_item *item = copy_packed(w, old, how);
	if (!item) {
		work_leave_unchanged(w, &k);
		return STORE_MOVED_NOWHERE;
	}
	uint64_t bytes = item_bytes(old);
	work_replace(w, &k, item, layout_word_len_code(k.entry.word));
	work_leave(w, &k);
	state_store(old, 0);
	heap_free_packed(w->heap, old, bytes);
	return STORE_MOVED;
}
