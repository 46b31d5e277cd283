/* SPDX-License-Identifier: BSD-2-Clause */
/* remove.h -- a key goes: by request, for its memory, or because its time is over. */
#ifndef SERVER_STORE_CHANGE_REMOVE_H
#define SERVER_STORE_CHANGE_REMOVE_H

#include "server/store/change/change.h"

/* An enum wire_status, STORE_ASIDE or STORE_COMMIT. */
int store_remove(struct store_worker *worker, const struct store_change *change,
		 struct store_result *result);

/* Removes a key, whatever it has.  WIRE_OK, WIRE_NOT_FOUND or STORE_ASIDE. */
int store_drop(struct store_worker *worker, const struct store_change *key);

/* The same; nobody waits for its lock. */
int store_discard(struct store_worker *worker, const struct store_change *key);

/* The same with one whose memory others need.  In a cluster STORE_COMMIT, which nobody waits for:
 * it goes when all members have that. */
int store_evict(struct store_worker *worker, const struct store_change *key);

/* Removes a key whose time is over; WIRE_NOT_FOUND if that is not so. */
int store_expire(struct store_worker *worker, const struct store_change *key);

/* Removes a key whose version is this or a lower one; WIRE_NOT_FOUND if it has none such. */
int store_clear(struct store_worker *worker, const struct store_change *key, uint64_t version);

#endif
