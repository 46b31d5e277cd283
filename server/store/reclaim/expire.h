/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * expire.h -- the memory of keys whose time is over, reclaimed in the background.
 *
 * Readers don't wait for it: they look at an item's expiry themselves.  Workers
 * walk over the index, a few buckets at a time, one worker at once, and only while
 * there may be a key that is due.
 */
#ifndef SERVER_STORE_RECLAIM_EXPIRE_H
#define SERVER_STORE_RECLAIM_EXPIRE_H

#include <stdbool.h>
#include <stdint.h>

struct expire;
struct store;
struct store_worker;

/* 0 or an errno value. */
int expire_new(struct expire **expire);
void expire_delete(struct expire **expire);

/* Whether a key may be due.  Any worker; a hint. */
bool expire_is_due(const struct store *store);

/* Goes on with the walk if it is due and nobody else is at it; bounded work.
 * now_ns: CLOCK_MONOTONIC. */
void expire_step(struct store_worker *worker, uint64_t now_ns);

/* Keys that were reclaimed so far. */
uint64_t expire_reclaimed(const struct expire *expire);

#endif
