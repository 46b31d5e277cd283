/* SPDX-License-Identifier: BSD-2-Clause */
/* item.h -- the item that an entry names, and what follows from what its READ brought. */
#ifndef CLIENT_GET_ITEM_H
#define CLIENT_GET_ITEM_H

#include "client/get/state.h"

/* The length of the READ of the item that g->word names.  False: it names none. */
bool item_plan(struct get *g);
/* The same of one whose value goes straight into the caller's memory. */
void item_plan_direct(struct get *g);
/* How much of that is to be READ next: 0, there are enough parts in flight, or it is all. */
uint32_t item_next_part(const struct get *g);
/* So much was posted; it has arrived, in the order in which it was posted. */
void item_part_posted(struct get *g, uint32_t bytes);
void item_part_arrived(struct get *g);

/* The READ of the item again; START_OVER after too many. */
enum step item_again(struct get *g);
enum step item_got(struct get *g);
/* The one that kvd pinned, as it was told at g->held_version; ASK: it is gone. */
enum step item_got_pinned(struct get *g);
/* A live item: the key's value, unless its time is over (protocols.md, 14). */
enum step item_got_live(struct get *g);
/* The head of one that is longer than the caller's buffer. */
enum step item_got_cut(struct get *g);
/* A whole item of another key, of this version, where the entry led. */
enum step item_got_other(struct get *g, uint64_t version);
/* The header of another key's item, perhaps: its value is not at hand. */
enum step item_got_untold(struct get *g);

#endif
