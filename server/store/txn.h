/* SPDX-License-Identifier: BSD-2-Clause */
/* txn.h -- changes of several keys, all or nothing. */
#ifndef SERVER_STORE_TXN_H
#define SERVER_STORE_TXN_H

#include "server/store/store.h"

struct txn_key {
	enum wire_txn_kind kind;
	uint64_t version; /* that it must have, WIRE_TXN_ABSENT or WIRE_TXN_ANY */
	struct store_change change;

	/* txn.c's own. */
	uint64_t stripe;
	struct layout_item *old;
	uint64_t old_word;
	struct layout_item *item;
};

/*
 * An enum wire_status, STORE_ASIDE or STORE_COMMIT.  WIRE_OK: *version is that of all new items;
 * WIRE_CONDITION: *failed is the key whose check failed; WIRE_EINVAL: a key twice.
 */
int txn_run(struct store_worker *worker, struct txn_key *keys, unsigned count, uint64_t token,
	    uint64_t *version, unsigned *failed);

#endif
