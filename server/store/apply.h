/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * apply.h -- changes of another member's table, made in this one.
 *
 * The other one looked at conditions, locks and times; here they only take effect, with the
 * version that they have there.
 */
#ifndef SERVER_STORE_APPLY_H
#define SERVER_STORE_APPLY_H

#include "server/store/item/item.h"

/* Versions that are given out here, once it is primary, are above. */
void store_apply_saw(struct store *store, uint64_t version);
/* An item of store_item_new() whose value is there gets that version, and its checksum. */
void store_apply_seal(struct store_worker *worker, struct layout_item *item, uint64_t version);
/* An item of it, sealed; NULL: there is no memory. */
struct layout_item *store_apply_item(struct store_worker *worker, const struct durable_record *record);
/* The key's item; NULL: it has none.  Its stripe is marked, or nobody else is there. */
struct layout_item *store_apply_find(const struct store *store, struct hash hash, const void *key,
				     unsigned key_bytes);
/*
 * In the place of what the key has.  WIRE_OK: it is the store's; otherwise nothing was done.
 * STORE_ASIDE: the stripe is marked, or locked; WIRE_ECROWDED, WIRE_EMEMORY: no place.
 */
int store_apply_put(struct store_worker *worker, struct layout_item *item);
/* WIRE_OK, WIRE_NOT_FOUND; STORE_ASIDE as above. */
int store_apply_remove(struct store_worker *worker, const void *key, unsigned key_bytes);

#endif
