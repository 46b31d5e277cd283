/* SPDX-License-Identifier: BSD-2-Clause */
/* pending.h -- an item that a change or a transaction is about to replace. */
#ifndef CLIENT_GET_PENDING_H
#define CLIENT_GET_PENDING_H

#include "client/get/state.h"

/* The READ of a scratch that READ_UPDATING, READ_PREPARED and READ_TXN are.  False: the item
 * names none. */
bool pending_plan(struct get *g, enum step step);

enum step pending_got_updating(struct get *g);
enum step pending_got_prepared(struct get *g);
enum step pending_got_old(struct get *g);
enum step pending_got_txn(struct get *g);
enum step pending_got_txn_old(struct get *g);

#endif
