/* SPDX-License-Identifier: BSD-2-Clause */
/* txn.h -- changes of several keys, all or nothing. */
#ifndef SERVER_STORE_TXN_H
#define SERVER_STORE_TXN_H

#include "server/store/txn_effect.h"

/*
 * An enum wire_status, STORE_ASIDE or STORE_COMMIT.  WIRE_OK: *version is that of all new items;
 * WIRE_CONDITION: *failed is the key whose check failed; WIRE_EINVAL: a key twice.
 */
int txn_run(struct store_worker *worker, struct txn_key *keys, unsigned count, uint64_t token,
	    uint64_t *version, unsigned *failed);

#endif
