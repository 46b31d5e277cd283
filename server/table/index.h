/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * index.h -- the writer's side of the index (layout.h has its form).
 *
 * Locks.  Every bucket belongs to one of a fixed number of spin locks.  A worker
 * holds those of both buckets of a key from index_lock() to index_unlock(); an
 * expansion holds those of all buckets of its group.  Lock order: mark of a
 * stripe, then bucket locks in ascending order, then the allocator.
 */
#ifndef SERVER_TABLE_INDEX_H
#define SERVER_TABLE_INDEX_H

#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/hash.h"
#include "server/table/index_entry.h"
#include "server/table/table.h"

struct index;

/* 0 or an errno value. */
int index_new(struct table *table, struct index **index);
void index_delete(struct index **index);

void index_lock(struct index *index, struct hash hash, struct index_spot *spot);
/* Fetches into the cache what index_lock() and index_find() will look at, which *spot says. */
void index_prefetch(struct index *index, struct hash hash, struct index_spot *spot);
/* And, when that has come, the key's item.  Caller: holds nothing, and gets no answer: the
 * index may have grown since. */
void index_prefetch_item(struct index *index, const struct index_spot *spot);
void index_unlock(struct index *index, const struct index_spot *spot);

/* Finds the entry of a key.  Caller: has the spot locked. */
bool index_find(struct index *index, const struct index_spot *spot, const void *key,
		unsigned key_bytes, struct index_entry *entry);

/* The same, of one that was found before: nearly always it is still there. */
bool index_find_again(struct index *index, const struct index_spot *spot, const void *key,
		      unsigned key_bytes, struct index_entry *entry);

/*
 * Whether the buckets take another key: those that keys were made for do not, at a limit
 * that chance does not reach.  Caller: has the spot locked.
 */
bool index_has_place(struct index *index, const struct index_spot *spot);

/*
 * Adds an entry for a key that is not there: from now on readers find the item.
 * False if there is no memory for an overflow node, or !index_has_place().
 * Caller: has the spot locked.
 */
bool index_insert(struct index *index, const struct index_spot *spot, uint64_t unit,
		  unsigned len_code, struct index_entry *entry);

/*
 * A place for the entry of a key that is not there is kept for it, until index_promises_end(),
 * which ends so many: a change that is on a disk, or with others, can't fail any more.  False as
 * of index_insert(), or because what is left is promised to others.
 * Caller: has the spot locked, and may let it go; ends it on any thread.
 */
bool index_promise(struct index *index, const struct index_spot *spot);
void index_promises_end(struct index *index, unsigned count);
/* index_insert() of one of them, which always has its place. */
void index_insert_promised(struct index *index, const struct index_spot *spot, uint64_t unit,
			   unsigned len_code, struct index_entry *entry);

/* Names another item (of the same key) in an entry; clears it. */
void index_replace(struct index *index, struct index_entry *entry, uint64_t unit,
		   unsigned len_code);
void index_remove(struct index *index, struct index_entry *entry);

/*
 * A bucket's entries, those behind it too, as they are: how many.  And the key of one of
 * them, if it is still there: its length, or 0.
 */
#define INDEX_ENTRIES_MAX 256u
unsigned index_entries(struct index *index, uint64_t bucket, uint64_t word[INDEX_ENTRIES_MAX]);
unsigned index_entry_key(struct index *index, uint64_t bucket, uint64_t word, void *key);

uint64_t index_keys(const struct index *index);
uint64_t index_buckets(const struct index *index);
uint64_t index_overflow_nodes(const struct index *index);
/* Keys that found no place in their buckets. */
uint64_t index_crowded(const struct index *index);

/*
 * Walks over a bucket and its overflow while it is locked: calls `each` with every
 * item behind the first `skip` words; stops where it returns false.  *epoch is the bucket's
 * epoch at the last call: if it was expanded since, `skip` counts as 0.  Returns
 * what to skip next time.
 */
unsigned index_walk(struct index *index, uint64_t bucket, unsigned skip, unsigned *epoch,
		    bool (*each)(void *arg, const struct layout_item *item), void *arg);

#endif
