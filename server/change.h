/* SPDX-License-Identifier: BSD-2-Clause */
/* change.h -- the pieces that changes of one key and of several are made of. */
#ifndef SERVER_CHANGE_H
#define SERVER_CHANGE_H

#include "server/store.h"

/* Who holds a stripe: its token, or 0.  Acquire. */
uint64_t stripe_word(const struct store *store, uint64_t stripe);

/*
 * The stripe's mark: mutex among workers and full fence.  False: another has it.
 * stripe_unmark is a release.
 */
bool stripe_mark(const struct store *store, uint64_t stripe);
void stripe_unmark(const struct store *store, uint64_t stripe);

struct layout_item *item_at(const struct store *store, uint64_t word);
/* Release: what was written before is seen by whoever sees the state. */
void state_store(struct layout_item *item, uint64_t state);
uint64_t item_checksum(const struct store *store, const struct layout_item *item,
		       uint64_t version);
bool item_is_expired(const struct store *store, const struct layout_item *item);
/* Versions never repeat in a table's life (protocols.md, 11). */
uint64_t next_version(struct store *store);

#endif
