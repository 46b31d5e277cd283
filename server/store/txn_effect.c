/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/dma.h"
#include "server/store/txn_effect.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "server/store/item/expiry.h"
#include "server/store/item/item.h"
#include "server/store/item/stripe.h"
#include "server/table/index.h"
#include "server/table/index_grow.h"

void txn_unmark(const struct txn *t, unsigned n)
{
	while (n-- > 0)
		stripe_unmark(t->store, t->stripe[n]);
}

bool txn_find(struct txn *t, const struct store_change *c, struct index_spot *spot,
	      struct index_entry *entry)
{
	index_lock(t->store->index, c->hash, spot);
	return index_find(t->store->index, spot, c->key, c->key_bytes, entry);
}

void txn_undo(struct txn *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		if (k->old)
			state_store(k->old, k->old->state & ~LAYOUT_PENDING);
		if (k->item)
			store_item_delete(t->worker, k->item);
	}
	txn_unmark(t, t->stripes);
}

bool txn_key_changes(const struct txn_key *k)
{
	return k->kind == WIRE_TXN_PUT || (k->kind == WIRE_TXN_DELETE && k->old);
}

/*
 * An entry with an old item and no new one says that the key is deleted.  So a key that is
 * only checked has none: a reader that met its item in state OLD, of an earlier transaction
 * that was taken back, would take it for deleted.
 */
static void write_scratch(struct txn *t)
{
	struct layout_txn *e = t->worker->scratch->txn;

	memset(e, 0, sizeof t->worker->scratch->txn);
	for (unsigned i = 0; i < t->count; i++) {
		const struct txn_key *k = &t->key[i];
		if (!txn_key_changes(k))
			continue;
		e[i] = (struct layout_txn){
			.commit = t->version,
			.version = k->item ? layout_state_version(k->item->state) : 0,
			.old_word = k->old_word,
			.old_version = k->old ? layout_state_version(k->old->state) : 0,
			.new_unit = k->item ? item_unit(t->store, k->item) : 0,
		};
		e[i].seal = hash_txn(&e[i]);
	}
	dma_fence();
}

/* Puts a new item into the index; false if there is no memory for its entry. */
static bool enter_index(struct txn *t, struct txn_key *k)
{
	uint64_t unit = item_unit(t->store, k->item);
	struct index_spot spot;
	struct index_entry entry;
	bool ok = true;

	if (txn_find(t, &k->change, &spot, &entry))
		index_replace(t->store->index, &entry, unit, change_len_code(&k->change));
	else if (t->promised)
		index_insert_promised(t->store->index, &spot, unit, change_len_code(&k->change), &entry);
	else
		ok = index_insert(t->store->index, &spot, unit, change_len_code(&k->change), &entry);
	index_unlock(t->store->index, &spot);
	return ok;
}

/* Takes new items out of the index again: they were never live. */
static void leave_index(struct txn *t, unsigned n)
{
	struct index_spot spot;
	struct index_entry entry;

	for (unsigned i = 0; i < n; i++) {
		struct txn_key *k = &t->key[i];
		if (!k->item)
			continue;
		if (txn_find(t, &k->change, &spot, &entry)) {
			if (k->old)
				index_replace(t->store->index, &entry, layout_word_unit(k->old_word,
								t->store->table->unit_mask),
					      layout_word_len_code(k->old_word));
			else
				index_remove(t->store->index, &entry);
		}
		index_unlock(t->store->index, &spot);
	}
}

static void set_old(struct txn *t, enum layout_kind kind)
{
	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		if (k->kind == WIRE_TXN_CHECK || !k->old)
			continue;
		state_store(k->old, layout_state(layout_state_version(k->old->state), kind,
						 t->worker->id) |
					    LAYOUT_PENDING);
	}
}

/*
 * `committed` only grows: readers rely on that.  Versions are drawn in the order in which
 * transactions are sent to the disk, and they come back in it.  One that changes nothing
 * does not wait for the disk, would overtake those that do, and has nothing to publish.
 */
bool txn_publish(struct txn *t)
{
	assert(t->version > t->worker->scratch->committed);
	write_scratch(t);
	set_old(t, LAYOUT_OLD);
	for (unsigned i = 0; i < t->count; i++) {
		if (!t->key[i].item || enter_index(t, &t->key[i]))
			continue;
		leave_index(t, i);
		set_old(t, LAYOUT_LIVE);
		return false;
	}
	/* The point of effect.  Everything before it is seen before it. */
	dma_fence();
	__atomic_store_n(&t->worker->scratch->committed, t->version, __ATOMIC_RELEASE);
	dma_fence();
	return true;
}

void txn_finish(struct txn *t)
{
	struct index_spot spot;
	struct index_entry entry;

	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		if (k->kind == WIRE_TXN_DELETE && k->old) {
			state_store(k->old, layout_state(layout_state_version(k->old->state),
							 LAYOUT_DELETED, 0));
			if (txn_find(t, &k->change, &spot, &entry))
				index_remove(t->store->index, &entry);
			index_unlock(t->store->index, &spot);
		} else if (k->kind == WIRE_TXN_PUT && k->old) {
			state_store(k->old, layout_state(layout_state_version(k->old->state),
							 LAYOUT_DEAD, 0));
		} else if (k->old) {
			state_store(k->old, k->old->state & ~LAYOUT_PENDING);
		}
	}
	for (unsigned i = 0; i < t->count; i++)
		if (t->key[i].item)
			state_store(t->key[i].item,
				    layout_state(layout_state_version(t->key[i].item->state),
						 LAYOUT_LIVE, 0));
	txn_unmark(t, t->stripes);
}

/* The old items are this thread's alone, the new ones may be others' by now. */
void txn_account(struct txn *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		if (k->kind == WIRE_TXN_CHECK)
			continue;
		uint64_t old = k->old ? layout_value_bytes(k->old->lengths) : 0;
		uint64_t new = k->item ? k->change.value_bytes : 0;
		atomic_fetch_add_explicit(&t->store->value_bytes, new - old, memory_order_relaxed);
		expiry_note(t->store->expiry, k->old ? layout_expiry_ms(k->old->expiry) : 0,
			    k->item ? k->change.with.expiry_ms : 0);
		if (k->old)
			store_item_delete(t->worker, k->old);
	}
	index_grow(t->store->index);
}
