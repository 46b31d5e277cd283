/* SPDX-License-Identifier: BSD-2-Clause */
/* evict.h -- which keys of a cache (--evict) go when its memory is full. */
#ifndef SERVER_STORE_RECLAIM_EVICT_H
#define SERVER_STORE_RECLAIM_EVICT_H

#include <stdbool.h>
#include <stdint.h>

struct evict;
struct store;
struct store_worker;

/* Makes a cache of the store, before the first change.  0 or an errno value. */
int evict_new(struct store *store);
void evict_delete(struct store *store);

enum evict_made {
	EVICT_NOTHING, /* nothing could be removed now */
	EVICT_ROOM,    /* it is worth trying again */
	EVICT_BEGUN,   /* it goes when the worker's evictions have ended, which others must have first */
};

/*
 * Removes keys so that `bytes` of an item may find room; keys that are locked stay.  Caller:
 * holds nothing.
 */
enum evict_made evict_make_room(struct store_worker *worker, uint64_t bytes);

/* Removes a key that has its place in this bucket.  As evict_make_room(). */
enum evict_made evict_from(struct store_worker *worker, uint64_t bucket);

/* Keys that were removed.  evict: may be NULL. */
uint64_t evict_count(const struct evict *evict);

#endif
