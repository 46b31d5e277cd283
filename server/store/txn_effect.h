/* SPDX-License-Identifier: BSD-2-Clause */
/* txn_effect.h -- a transaction's keys, and how they take effect or are as before. */
#ifndef SERVER_STORE_TXN_EFFECT_H
#define SERVER_STORE_TXN_EFFECT_H

#include "common/layout.h"
#include "server/store/change/change.h"

struct txn_key {
	enum wire_txn_kind kind;
	uint64_t version; /* that it must have, WIRE_TXN_ABSENT or WIRE_TXN_ANY */
	struct store_change change;

	/* The transaction's own. */
	struct layout_item *old;
	uint64_t old_word;
	struct layout_item *item;
};

/* A transaction under way: its stripes are marked. */
struct txn {
	struct store_worker *worker;
	struct store *store;
	struct txn_key *key;
	unsigned count;
	uint64_t token;
	uint64_t version; /* its number, which is that of the first key that it puts */
	uint64_t stripe[LAYOUT_TXN_KEYS_MAX]; /* ascending, each once */
	unsigned stripes;
	unsigned promised; /* places in the index, of all keys that are new */
};

/* Clears the first n marks. */
void txn_unmark(const struct txn *t, unsigned n);
/*
 * Locks a key's buckets and finds its entry.  The marks keep items and entries, but an
 * expansion may move an entry's word.
 */
bool txn_find(struct txn *t, const struct store_change *key, struct index_spot *spot,
	      struct index_entry *entry);

/* Everything is as before, and nothing of it was ever visible. */
void txn_undo(struct txn *t);
/* Whether the key will be another than it is: it is not only checked, nor absent and deleted. */
bool txn_key_changes(const struct txn_key *key);
/*
 * Takes effect; at least one key changes.  False: no memory for an entry, and nothing is visible;
 * not where places were promised.
 */
bool txn_publish(struct txn *t);
/* Then every state as outside of transactions, and the marks and the scratch are free. */
void txn_finish(struct txn *t);
/* Then what is counted, and the old items' memory. */
void txn_account(struct txn *t);

#endif
