/* SPDX-License-Identifier: BSD-2-Clause */
/* change.h -- the pieces that changes of one key and of several are made of. */
#ifndef SERVER_STORE_CHANGE_H
#define SERVER_STORE_CHANGE_H

#include "server/store/store.h"

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
uint64_t item_bytes(const struct layout_item *item);
bool item_is_expired(const struct store *store, const struct layout_item *item);
/* Versions never repeat in a table's life (protocols.md, 11). */
uint64_t next_version(struct store *store);

/* A change under way: the stripe is marked and the buckets are locked. */
struct work {
	uint64_t stripe;
	struct index_spot spot;
	struct index_entry entry;
	struct layout_item *old; /* NULL: there is no such key */
};

/*
 * Begins a change: marks the stripe, locks the buckets, finds the old item.  False:
 * another worker or a lock holder is in the way, and nothing is held.
 */
bool work_enter(struct store_worker *worker, const struct store_change *change,
		struct work *work);
/* Locks the buckets again; the mark kept the item, but its entry may have moved. */
void work_lock(struct store_worker *worker, struct work *work);
/* Ends a change that was made. */
void work_leave(struct store_worker *worker, struct work *work);
/* Ends a change that did nothing. */
void work_leave_unchanged(struct store_worker *worker, struct work *work);
bool work_fits_in_place(const struct store_change *change, const struct work *work);
/*
 * Makes the change and ends it; `image`: what the old item is overwritten with, or
 * NULL.  WIRE_EMEMORY: nothing was done, and it has not ended.
 */
int work_put(struct store_worker *worker, const struct store_change *change,
	     const struct layout_item *image, struct work *work, struct store_result *result);
/* Puts a complete item, sealed or not, into the old one's place, which is the caller's then. */
void work_replace(struct store_worker *worker, struct work *work, struct layout_item *item,
		  unsigned len_code);
/* The key's item is to go; ends the change. */
void work_remove(struct store_worker *worker, struct work *work);
/* What the entry names now. */
void work_tell(const struct store *store, const struct work *work, struct store_result *result);

/* commit.c: the same, once it is on disk.  STORE_COMMIT: change->item is the commit's. */
/* Or WIRE_EMEMORY: nothing was done, and the change has not ended. */
int commit_put(struct store_worker *worker, const struct store_change *change, struct work *work);
/* Or WIRE_EMEMORY: nothing was done, and it has ended. */
int commit_remove(struct store_worker *worker, struct work *work,
		  const struct store_result *result);

#endif
