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
	EVICT_BEGUN,   /* in rounds to come: other members must have it first, or a slab is being emptied */
};

/*
 * Removes keys so that `bytes` of an item may find room; keys that are locked stay.  Caller:
 * holds nothing.
 */
enum evict_made evict_make_room(struct store_worker *worker, uint64_t bytes);

/*
 * In each round of a worker, before what was set aside is tried again: a slab that evict_make_room()
 * began to empty is gone on with.  The items that it and all of evict_make_room() until the next one
 * move and remove for that have 128 KiB at the most.  Caller: holds nothing.
 */
void evict_round(struct store_worker *worker);
/* Whether there is such a slab: it goes on without anybody's asking. */
bool evict_is_emptying(const struct store_worker *worker);
/* Whether the next round goes on with it: it waits for no other member. */
bool evict_is_due(const struct store_worker *worker);
/* The worker ends: the slab is let go of, as far as it is empty its class has it. */
void evict_leave(struct store_worker *worker);

/* Removes a key that has its place in this bucket.  As evict_make_room(). */
enum evict_made evict_from(struct store_worker *worker, uint64_t bucket);

/* Keys that were removed.  evict: may be NULL. */
uint64_t evict_count(const struct evict *evict);

#endif
