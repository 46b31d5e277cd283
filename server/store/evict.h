/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evict.h -- a cache's memory (--evict): which keys were used, and which go when it is
 * full.
 *
 * A byte for each 64 of the table, outside of it: how often the item that stands there
 * was used (0 to 3) and when it came.  Changes and GETs by message are noted by the
 * worker that handles them; of one-sided GETs clients tell (WIRE_HINTS).  All of it is
 * relaxed and a hint; any worker.
 */
#ifndef SERVER_STORE_EVICT_H
#define SERVER_STORE_EVICT_H

#include <stdbool.h>
#include <stdint.h>

struct evict;
struct store_worker;
struct table;

/* How clients tell of their GETs: of each how many-th, the item's offset >> shift. */
#define EVICT_HINTS_EVERY 2u
unsigned evict_hint_shift(const struct evict *evict);

/* 0 or an errno value. */
int evict_new(struct table *table, struct evict **evict);
void evict_delete(struct evict **evict);

/* The item at this offset of the table was used; took its place; came from another.
 * Offsets are not believed.  evict: may be NULL. */
void evict_note(struct evict *evict, uint64_t offset);
void evict_note_hint(struct evict *evict, uint32_t hint);
void evict_note_new(struct evict *evict, uint64_t offset);
void evict_note_moved(struct evict *evict, uint64_t from, uint64_t to);

/*
 * Removes keys so that `bytes` of an item may find room; keys that are locked stay.
 * Whether it is worth trying again; if not, nothing could be removed now.  Caller: holds
 * nothing.
 */
bool evict_make_room(struct store_worker *worker, uint64_t bytes);

/* Removes a key that has its place in this bucket.  As evict_make_room(). */
bool evict_from(struct store_worker *worker, uint64_t bucket);

/* Keys that were removed. */
uint64_t evict_count(const struct evict *evict);

#endif
