/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slab.h -- slots for items, in slabs: runs of pages of the region, each for one size class.
 *
 * All workers share them.  What is free of a class serves every worker, and a slab that is
 * empty goes back to the region at once, for other classes and the index.  The books are
 * outside of the region: a bit a slot, which says whether it is free, and 32 bytes a slab.
 *
 * Any thread may call any of them; a class has a mutex, and of the slabs' numbers there is
 * one (doc/threads.md).  A caller that needs many slots takes some at a time (heap.h).
 */
#ifndef SERVER_TABLE_SLAB_H
#define SERVER_TABLE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/table/region.h"
#include "server/table/size_class.h"

struct slabs;

/*
 * Of what is noted of a page (region_note): without it the number of the slab that the page is of;
 * with it an item of so many whole pages begins there (heap.h).
 */
#define SLAB_NOTE_RUN 0x80000000u

/* Slots are multiples of unit_bytes (size_class.h).  The region outlives it.  0 or an errno
 * value. */
int slabs_new(struct region *region, unsigned unit_bytes, struct slabs **slabs);
/* The slabs that are left go back to the region. */
void slabs_delete(struct slabs **slabs);

const struct size_classes *slabs_classes(const struct slabs *slabs);

/* Whether a slab is added if no slot is free; SLABS_GROW_ANY: also one that is as short as a
 * slot, with any tail. */
enum slabs_grow { SLABS_GROW_NOT, SLABS_GROW, SLABS_GROW_ANY };

/*
 * Takes up to `count` free slots of a class; how many there were.  Slots of full slabs come
 * first.
 */
unsigned slabs_take(struct slabs *slabs, unsigned class, void **slot, unsigned count,
		    enum slabs_grow grow);
/* Gives slots back, of any class.  None of them may be free. */
void slabs_give(struct slabs *slabs, void *const *slot, unsigned count);

/* The bytes of the slot that begins there, which is taken; of what is none, anything. */
size_t slabs_slot_bytes(const struct slabs *slabs, const void *slot);

/* A moment's figures: all slots of a class, and those that are taken. */
struct slab_use {
	uint64_t slots;
	uint64_t taken;
	uint64_t bytes; /* of the slabs */
	unsigned pages; /* that the next slab should have */
};
struct slab_use slabs_use(struct slabs *slabs, unsigned class);

/*
 * A slab that somebody empties.  While it is held no slot of it is taken, and its pages stay
 * its own; slots that are given back stay with it.  `free` has a bit a slot, as they were
 * when it was held.
 */
struct slab_held {
	uint32_t number; /* 0: none */
	unsigned class;
	uint8_t *addr;
	size_t bytes;
	size_t slot_bytes;
	unsigned slots;
	unsigned taken;
	uint64_t free[SIZE_CLASS_SLOTS_MAX / 64];
};

/* What the slab is that a page of the region belongs to, without holding it.  False: none. */
bool slabs_look(struct slabs *slabs, size_t page, struct slab_held *slab);

/* Holds that slab.  False: there is none, or somebody holds it. */
bool slabs_hold(struct slabs *slabs, size_t page, struct slab_held *slab);
/* Adds an empty slab that is as long, if the lowest run for it begins before this one. */
bool slabs_add_before(struct slabs *slabs, const struct slab_held *slab);
/* Lets go of it.  True: it was empty, and its pages are the region's again. */
bool slabs_release(struct slabs *slabs, struct slab_held *slab);

static inline bool slab_held_is_taken(const struct slab_held *slab, unsigned slot)
{
	return !(slab->free[slot / 64] >> slot % 64 & 1);
}

/* What the books cost, outside of the region. */
size_t slabs_metadata_bytes(struct slabs *slabs);

#endif
