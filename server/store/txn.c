/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transactions.
 *
 * Happy path: mark all stripes in order; find the old items and show the marks in
 * them; look at the lock words; check the versions; make the new items, in state NEW;
 * put the old ones into state OLD and the new ones into the index; set `committed` in
 * the scratch: the point of effect, one word for all keys; then every state as it is
 * outside of transactions.  A reader that meets OLD or NEW asks the scratch, so at
 * each instant it finds all old values or all new ones, also if kvd is stopped there
 * (protocols.md, 16: no new item is live before every old one is dead).
 *
 * Failure: a stripe is in somebody's way, a check fails, or memory: everything is as
 * before, and nothing of it was ever visible.
 */
#include "server/store/txn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/expire.h"
#include "server/store/txn_impl.h"
#include "server/table/index_grow.h"

static bool has_twins(const struct txn *t)
{
	for (unsigned i = 0; i < t->count; i++)
		for (unsigned j = 0; j < i; j++)
			if (t->key[i].change.key_bytes == t->key[j].change.key_bytes &&
			    !memcmp(t->key[i].change.key, t->key[j].change.key,
				    t->key[i].change.key_bytes))
				return true;
	return false;
}

static void sort_stripes(struct txn *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		uint64_t s = layout_stripe(t->key[i].change.hash.b, t->store->table->stripes);
		unsigned at = 0;
		while (at < t->stripes && t->stripe[at] < s)
			at++;
		if (at < t->stripes && t->stripe[at] == s)
			continue;
		memmove(&t->stripe[at + 1], &t->stripe[at], (t->stripes - at) * sizeof s);
		t->stripe[at] = s;
		t->stripes++;
	}
}

/*
 * Each stripe free, or held with the transaction's token; and if it has one, one of
 * them is: a transaction under a lock that was lost must not take effect.
 */
static bool are_permitted(const struct txn *t)
{
	bool held = !t->token;

	for (unsigned i = 0; i < t->stripes; i++) {
		uint64_t word = stripe_word(t->store, t->stripe[i]);
		if (word != 0 && word != t->token) {
			t->worker->blocked = t->stripe[i];
			return false;
		}
		held |= word == t->token;
	}
	return held;
}

static void unmark(const struct txn *t, unsigned n)
{
	while (n-- > 0)
		stripe_unmark(t->store, t->stripe[n]);
}

/* All or none. */
static bool mark(struct txn *t)
{
	if (!are_permitted(t))
		return false;
	for (unsigned i = 0; i < t->stripes; i++) {
		if (!stripe_mark(t->store, t->stripe[i])) {
			unmark(t, i);
			return false;
		}
	}
	return true;
}

/* The marks keep items and entries, but an expansion may move an entry's word. */
static bool find(struct txn *t, const struct store_change *c, struct index_spot *spot,
		 struct index_entry *entry)
{
	index_lock(t->store->index, c->hash, spot);
	return index_find(t->store->index, spot, c->key, c->key_bytes, entry);
}

static void find_old(struct txn *t)
{
	struct index_spot spot;
	struct index_entry entry;

	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		k->old = NULL;
		k->item = NULL;
		k->old_word = 0;
		if (find(t, &k->change, &spot, &entry)) {
			k->old_word = entry.word & ~LAYOUT_EPOCH_MASK;
			k->old = item_at(t->store, entry.word);
			state_store(k->old, k->old->state | LAYOUT_PENDING);
		}
		index_unlock(t->store->index, &spot);
	}
}

/* Nothing was visible yet. */
void txn_undo(struct txn *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		if (k->old)
			state_store(k->old, k->old->state & ~LAYOUT_PENDING);
		if (k->item)
			store_item_delete(t->worker, k->item);
	}
	unmark(t, t->stripes);
}

static bool check(const struct txn *t, unsigned *failed)
{
	for (unsigned i = 0; i < t->count; i++) {
		const struct txn_key *k = &t->key[i];
		bool there = k->old && !item_is_expired(t->store, k->old);
		uint64_t version = there ? layout_state_version(k->old->state) : WIRE_TXN_ABSENT;
		if (k->version != WIRE_TXN_ANY && k->version != version) {
			*failed = i;
			return false;
		}
	}
	return true;
}

static bool make_items(struct txn *t)
{
	t->version = next_version(t->store);
	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		const struct store_change *c = &k->change;
		if (k->kind != WIRE_TXN_PUT)
			continue;
		k->item = store_item_new(t->worker, c->key, c->key_bytes, c->value_bytes,
					 c->expiry_ms);
		if (!k->item)
			return false;
		memcpy(k->item->data + c->key_bytes, c->value, c->value_bytes);
		k->item->checksum = item_checksum(t->store, k->item, t->version);
		state_store(k->item, layout_state(t->version, LAYOUT_NEW, t->worker->id));
	}
	return true;
}

static void write_scratch(struct txn *t)
{
	struct layout_txn *e = t->worker->scratch->txn;

	memset(e, 0, sizeof t->worker->scratch->txn);
	for (unsigned i = 0; i < t->count; i++) {
		const struct txn_key *k = &t->key[i];
		e[i] = (struct layout_txn){
			.version = t->version,
			.old_word = k->old_word,
			.old_version = k->old ? layout_state_version(k->old->state) : 0,
			.new_unit = k->item ? table_offset(t->store->table, k->item) /
						      LAYOUT_UNIT_BYTES : 0,
		};
		e[i].seal = hash_txn(&e[i]);
	}
	atomic_thread_fence(memory_order_seq_cst);
}

static unsigned len_code(const struct store_change *c)
{
	return layout_len_encode(layout_item_bytes(c->key_bytes, c->value_bytes));
}

/* Puts a new item into the index; false if there is no memory for its entry. */
static bool enter_index(struct txn *t, struct txn_key *k)
{
	uint64_t unit = table_offset(t->store->table, k->item) / LAYOUT_UNIT_BYTES;
	struct index_spot spot;
	struct index_entry entry;
	bool ok = true;

	if (find(t, &k->change, &spot, &entry))
		index_replace(t->store->index, &entry, unit, len_code(&k->change));
	else
		ok = index_insert(t->store->index, &spot, unit, len_code(&k->change), &entry);
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
		if (find(t, &k->change, &spot, &entry)) {
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

static void set_old(struct txn *t, enum layout_kind kind, bool pending)
{
	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		if (k->kind == WIRE_TXN_CHECK || !k->old)
			continue;
		state_store(k->old, layout_state(layout_state_version(k->old->state), kind,
						 t->worker->id) |
					    (pending ? LAYOUT_PENDING : 0));
	}
}

bool txn_publish(struct txn *t)
{
	write_scratch(t);
	set_old(t, LAYOUT_OLD, true);
	for (unsigned i = 0; i < t->count; i++) {
		if (!t->key[i].item || enter_index(t, &t->key[i]))
			continue;
		leave_index(t, i);
		set_old(t, LAYOUT_LIVE, true);
		return false;
	}
	/* The point of effect.  Everything before it is seen before it. */
	atomic_thread_fence(memory_order_seq_cst);
	__atomic_store_n(&t->worker->scratch->committed, t->version, __ATOMIC_RELEASE);
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}

/* Every state as outside of transactions; the scratch is free after that. */
void txn_finish(struct txn *t)
{
	struct index_spot spot;
	struct index_entry entry;

	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		if (k->kind == WIRE_TXN_DELETE && k->old) {
			state_store(k->old, layout_state(layout_state_version(k->old->state),
							 LAYOUT_DELETED, 0));
			if (find(t, &k->change, &spot, &entry))
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
			state_store(t->key[i].item, layout_state(t->version, LAYOUT_LIVE, 0));
	unmark(t, t->stripes);
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
		expire_note(t->store->expire, k->old ? k->old->expiry_ms : 0,
			    k->item ? k->change.expiry_ms : 0);
		if (k->old)
			store_item_delete(t->worker, k->old);
	}
	index_grow(t->store->index);
}

static int run_once(struct store_worker *w, struct txn_key *keys, unsigned count, uint64_t token,
		    uint64_t *version, unsigned *failed)
{
	struct txn t = { .worker = w, .store = w->store, .key = keys, .count = count,
			 .token = token };
	int status = WIRE_OK;

	if (!count || count > LAYOUT_TXN_KEYS_MAX || has_twins(&t))
		return WIRE_EINVALID;
	sort_stripes(&t);
	if (w->commits >= STORE_COMMITS_MAX || !mark(&t))
		return STORE_ASIDE;
	find_old(&t);
	atomic_thread_fence(memory_order_seq_cst);
	if (!are_permitted(&t))
		status = STORE_ASIDE;
	else if (!check(&t, failed))
		status = WIRE_CONDITION;
	else if (!make_items(&t))
		status = WIRE_EMEMORY;
	else if (w->store->durable)
		status = txn_commit_begin(&t);
	if (status == STORE_COMMIT)
		return status;
	if (status == WIRE_OK && !txn_publish(&t))
		status = WIRE_EMEMORY;
	if (status != WIRE_OK) {
		txn_undo(&t);
		return status;
	}
	txn_finish(&t);
	txn_account(&t);
	*version = t.version;
	return WIRE_OK;
}

int txn_run(struct store_worker *w, struct txn_key *keys, unsigned count, uint64_t token,
	    uint64_t *version, unsigned *failed)
{
	int status;

	for (unsigned tries = 0;; tries++) {
		w->missing_bytes = LAYOUT_NODE_BYTES; /* unless it is an item */
		status = run_once(w, keys, count, token, version, failed);
		if (status != WIRE_EMEMORY ||
		    !store_make_room(w, keys[0].change.hash, tries, &status))
			return status;
	}
}
