/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heat.h -- which items of a cache (--evict) are used, and how old they are.
 *
 * A byte for each 64 of the table, outside of it: how often the item that stands there
 * was used (0 to 3) and when it came.  Changes and GETs by message are noted by the
 * worker that handles them; of one-sided GETs clients tell (WIRE_HINTS).  All of it is
 * relaxed and a hint; any worker.
 */
#ifndef SERVER_STORE_ITEM_HEAT_H
#define SERVER_STORE_ITEM_HEAT_H

#include <stdint.h>

struct heat;
struct table;

/* How clients tell of their GETs: of each how many-th, the item's offset >> shift. */
#define HEAT_HINTS_EVERY 2u
unsigned heat_hint_shift(const struct heat *heat);

/* 0 or an errno value. */
int heat_new(const struct table *table, struct heat **heat);
void heat_delete(struct heat **heat);

/*
 * The item at this offset of the table was used; took its place; came from another.
 * Offsets and hints may be anything.  heat: may be NULL.
 */
void heat_note(struct heat *heat, uint64_t offset);
void heat_note_hint(struct heat *heat, uint32_t hint);
void heat_note_new(struct heat *heat, uint64_t offset);
void heat_note_moved(struct heat *heat, uint64_t from, uint64_t to);

/* What comes from now on is one age younger. */
void heat_next_age(struct heat *heat);
/* Of an item: its uses, the ages since it came (modulo HEAT_AGES); takes one use away. */
#define HEAT_AGES 64u
unsigned heat_uses(const struct heat *heat, uint64_t offset);
unsigned heat_age(const struct heat *heat, uint64_t offset);
void heat_cool(struct heat *heat, uint64_t offset);

#endif
