/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * size_class.h -- the sizes of slots that items stand in, and how many pages a slab of each has.
 *
 * Classes are a unit apart while that is less than 2.25 %, and then at most 2.25 %, the tail
 * of a slab included: a slot is what so many pages can be divided into.  So an item's slot and
 * its part of the tail are less than 3 % longer than the item, or by less than a unit.  A value
 * of a round length, a quarter of a power of two from 4 KiB on, with a key of 16 bytes fits
 * into its slot exactly; a slab of few pages would have a long tail then, so where the class has
 * very many items its slabs are longer than others'.
 */
#ifndef SERVER_TABLE_SIZE_CLASS_H
#define SERVER_TABLE_SIZE_CLASS_H

#include <stddef.h>
#include <stdint.h>

#define SIZE_CLASS_BYTES_MIN 64u
#define SIZE_CLASS_BYTES_MAX (32u << 10)
#define SIZE_CLASSES_MAX 320u
#define SIZE_CLASS_PAGES_MAX 64u  /* of a slab */
#define SIZE_CLASS_PAGES_LONG_MAX 255u
#define SIZE_CLASS_SLOTS_MAX 256u /* of a slab: what has to be moved to empty it */
#define SIZE_CLASS_STEP 8u        /* the shortest unit */

struct size_class {
	uint32_t slot_bytes;
	uint8_t pages;       /* of a slab, where the class has many items */
	uint8_t pages_first; /* of its first slabs: fewer, with a longer tail */
	uint8_t pages_min;   /* for one slot */
	uint8_t pages_long;  /* where the class has very many items */
};

struct size_classes {
	unsigned count;
	struct size_class class[SIZE_CLASSES_MAX];
	uint16_t of_steps[SIZE_CLASS_BYTES_MAX / SIZE_CLASS_STEP + 1];
};

/* unit_bytes: slots are multiples of it; a power of two from SIZE_CLASS_STEP to 64. */
void size_classes_init(struct size_classes *classes, unsigned unit_bytes);

/* The class of the shortest slot for so many bytes: at most SIZE_CLASS_BYTES_MAX. */
static inline unsigned size_class_of(const struct size_classes *classes, size_t bytes)
{
	return classes->of_steps[(bytes + SIZE_CLASS_STEP - 1) / SIZE_CLASS_STEP];
}

/* Slots of a slab of so many pages. */
unsigned size_class_slots(const struct size_class *class, unsigned pages);
/* The fewest pages that have as many slots as pages_max, which has one at least. */
unsigned size_class_pages_within(const struct size_class *class, unsigned pages_max);

#endif
