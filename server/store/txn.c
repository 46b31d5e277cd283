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
#include "common/dma.h"
#include "server/store/txn.h"

#include <stdatomic.h>
#include <string.h>

#include "server/store/item/item.h"
#include "server/store/item/stripe.h"
#include "server/store/reclaim/room.h"
#include "server/store/txn_commit.h"
#include "server/store/txn_effect.h"
#include "server/table/index.h"

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

/* All or none. */
static bool mark(struct txn *t)
{
	if (!are_permitted(t))
		return false;
	for (unsigned i = 0; i < t->stripes; i++) {
		if (!stripe_mark(t->store, t->stripe[i])) {
			txn_unmark(t, i);
			return false;
		}
	}
	return true;
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
		if (txn_find(t, &k->change, &spot, &entry)) {
			k->old_word = entry.word & ~LAYOUT_EPOCH_MASK;
			k->old = item_at(t->store, entry.word);
			state_store(k->old, k->old->state | LAYOUT_PENDING);
		}
		index_unlock(t->store->index, &spot);
	}
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

static unsigned count_puts(const struct txn *t)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->count; i++)
		n += t->key[i].kind == WIRE_TXN_PUT;
	return n;
}

/*
 * The versions of the keys that it puts are consecutive, in their order; each has its own,
 * so that place and version name one item (protocols.md, 11).
 */
static bool make_items(struct txn *t)
{
	uint64_t version = t->version = next_versions(t->store, count_puts(t));

	for (unsigned i = 0; i < t->count; i++) {
		struct txn_key *k = &t->key[i];
		const struct store_change *c = &k->change;
		if (k->kind != WIRE_TXN_PUT)
			continue;
		k->item = store_item_new(t->worker, c->key, c->key_bytes, c->value_bytes,
					 &c->with);
		if (!k->item)
			return false;
		memcpy(k->item->data + c->key_bytes, c->value, c->value_bytes);
		k->item->checksum = item_checksum(t->store, k->item, version);
		state_store(k->item, layout_state(version++, LAYOUT_NEW, t->worker->id));
	}
	return true;
}

static bool changes(const struct txn *t)
{
	for (unsigned i = 0; i < t->count; i++)
		if (txn_key_changes(&t->key[i]))
			return true;
	return false;
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
	if (commits_are_full(w) || !mark(&t))
		return STORE_ASIDE;
	find_old(&t);
	dma_fence();
	if (!are_permitted(&t))
		status = STORE_ASIDE;
	else if (!check(&t, failed))
		status = WIRE_CONDITION;
	else if (!make_items(&t))
		status = WIRE_EMEMORY;
	else if (w->store->waits)
		status = txn_commit_begin(&t);
	if (status == STORE_COMMIT)
		return status;
	if (status == WIRE_OK && changes(&t) && !txn_publish(&t))
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
