/* SPDX-License-Identifier: BSD-2-Clause */
/* txn_impl.h -- a transaction under way: between txn.c and txn_commit.c. */
#ifndef SERVER_STORE_TXN_IMPL_H
#define SERVER_STORE_TXN_IMPL_H

#include "server/store/change.h"
#include "server/store/txn.h"

struct txn {
	struct store_worker *worker;
	struct store *store;
	struct txn_key *key;
	unsigned count;
	uint64_t token;
	uint64_t version;
	uint64_t stripe[LAYOUT_TXN_KEYS_MAX]; /* ascending, each once */
	unsigned stripes;
};

/* Everything is as before, and nothing of it was ever visible. */
void txn_undo(struct txn *t);
/* Takes effect.  False: no memory for an entry, and nothing is visible. */
bool txn_publish(struct txn *t);
/* Then every state as outside of transactions, and the marks are cleared. */
void txn_finish(struct txn *t);
/* Then what is counted, and the old items' memory. */
void txn_account(struct txn *t);

/* Hands the records over: STORE_COMMIT; or WIRE_EMEMORY, and WIRE_OK if there is nothing to
 * write. */
int txn_commit_begin(struct txn *t);

#endif
