/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * expiry.h -- how many keys expire, and when the next one may be due.
 *
 * Any worker.  The bounds are lower bounds of all keys' expiries: nothing is due before.
 */
#ifndef SERVER_STORE_ITEM_EXPIRY_H
#define SERVER_STORE_ITEM_EXPIRY_H

#include <stdbool.h>
#include <stdint.h>

struct expiry;

/* 0 or an errno value. */
int expiry_new(struct expiry **expiry);
void expiry_delete(struct expiry **expiry);

/* A key's expiry was old_ms and is new_ms; 0: none, or no such key. */
void expiry_note(struct expiry *expiry, uint64_t old_ms, uint64_t new_ms);

/* Whether any key of those that were noted has an end. */
bool expiry_has_any(const struct expiry *expiry);
/* Whether there may be a key whose expiry is not after now_ms.  A hint. */
bool expiry_is_due(const struct expiry *expiry, uint64_t now_ms);

/* A walk over all keys met one that stays, of this expiry; and is through. */
void expiry_seen(struct expiry *expiry, uint64_t ms);
void expiry_walked(struct expiry *expiry);

/* Keys that have one. */
uint64_t expiry_keys(const struct expiry *expiry);

#endif
