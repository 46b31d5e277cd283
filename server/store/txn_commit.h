/* SPDX-License-Identifier: BSD-2-Clause */
/* txn_commit.h -- a transaction that waits for the disk. */
#ifndef SERVER_STORE_TXN_COMMIT_H
#define SERVER_STORE_TXN_COMMIT_H

struct txn;

/*
 * Hands the records over: STORE_COMMIT, and the transaction is copied; or WIRE_EMEMORY, and
 * WIRE_OK if there is nothing to write.
 */
int txn_commit_begin(struct txn *t);

#endif
