/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/table/size_class.h"

#include <assert.h>
#include <stdbool.h>

#include "server/table/region.h"

/* In 1/4,096: how much longer a class may be than what just did not fit into the one below;
 * what a slab of fewer pages may waste more than the best one; the first slabs' tail. */
#define GROWTH 92u
#define TOLERANCE 8u
/* The same of long slabs, and what these have to save. */
#define TOLERANCE_LONG 2u
#define GAIN_LONG 12u
#define TAIL_FIRST 256u
#define WHOLE 4096u
/* Values of round lengths, from the least on, and the header and key that stand before one. */
#define ROUND_MIN 4096u
#define ROUND_MORE 48u
#define BOOKS_BYTES 48u /* of a slab */

static unsigned slots_of(unsigned slot_bytes, unsigned pages)
{
	unsigned n = pages * REGION_PAGE_BYTES / slot_bytes;

	return n < SIZE_CLASS_SLOTS_MAX ? n : SIZE_CLASS_SLOTS_MAX;
}

unsigned size_class_slots(const struct size_class *class, unsigned pages)
{
	return slots_of(class->slot_bytes, pages);
}

/* What a slot takes with its part of the slab's tail and books, in 1/4,096 bytes. */
static uint64_t cost(unsigned slot_bytes, unsigned pages)
{
	unsigned n = slots_of(slot_bytes, pages);

	return n ? (uint64_t)(pages * REGION_PAGE_BYTES + BOOKS_BYTES) * WHOLE / n : UINT64_MAX;
}

static uint64_t least_cost(unsigned slot_bytes, unsigned pages_max)
{
	uint64_t least = UINT64_MAX;

	for (unsigned n = 1; n <= pages_max; n++)
		if (cost(slot_bytes, n) < least)
			least = cost(slot_bytes, n);
	return least;
}

/* The fewest pages with which a slot costs no more than that. */
static unsigned pages_for(unsigned slot_bytes, uint64_t cost_max)
{
	unsigned n = 1;

	while (cost(slot_bytes, n) > cost_max)
		n++;
	return n;
}

unsigned size_class_pages_within(const struct size_class *class, unsigned pages_max)
{
	unsigned slots = size_class_slots(class, pages_max), n = pages_max;

	while (n > class->pages_min && size_class_slots(class, n - 1) == slots)
		n--;
	return n;
}

/* The fewest that are nearly as good as the best number up to pages_max. */
static unsigned good_pages(unsigned slot_bytes, unsigned pages_max, unsigned tolerance)
{
	uint64_t least = least_cost(slot_bytes, pages_max);

	return pages_for(slot_bytes, least + least / WHOLE * tolerance);
}

static unsigned usual_pages(unsigned slot_bytes)
{
	return good_pages(slot_bytes, SIZE_CLASS_PAGES_MAX, TOLERANCE);
}

static unsigned long_pages(unsigned slot_bytes, unsigned usual)
{
	unsigned pages = good_pages(slot_bytes, SIZE_CLASS_PAGES_LONG_MAX, TOLERANCE_LONG);
	uint64_t c = cost(slot_bytes, pages);

	return cost(slot_bytes, usual) > c + c / WHOLE * GAIN_LONG ? pages : usual;
}

/* Whether what just did not fit into `below` costs little more in slots of that size. */
static bool is_close(unsigned below, unsigned slot_bytes)
{
	uint64_t c = cost(slot_bytes, usual_pages(slot_bytes));

	return c <= (uint64_t)(below + 1) * (WHOLE + GROWTH);
}

/* The shortest above that fits a value of a round length exactly: a quarter of a power of two. */
static unsigned next_round(unsigned below, unsigned unit)
{
	unsigned quarter = ROUND_MIN, slot;

	for (;; quarter += 1u << (29 - __builtin_clz(quarter))) {
		slot = (quarter + ROUND_MORE + unit - 1) & ~(unit - 1);
		if (slot > below)
			return slot;
	}
}

/* The longest slot that is close to the one below; at least a unit longer. */
static unsigned next_slot(unsigned below, unsigned unit)
{
	unsigned slot = (unsigned)((uint64_t)below * (WHOLE + GROWTH) / WHOLE) & ~(unit - 1);
	unsigned round = next_round(below, unit);

	if (slot > round)
		slot = round;
	while (slot > below + unit && !is_close(below, slot))
		slot -= unit;
	if (slot < below + unit)
		slot = below + unit;
	return slot < SIZE_CLASS_BYTES_MAX ? slot : SIZE_CLASS_BYTES_MAX;
}

static struct size_class make_class(unsigned slot)
{
	uint64_t first = (uint64_t)slot * (WHOLE + TAIL_FIRST);
	unsigned usual = usual_pages(slot), pages_min = (slot + REGION_PAGE_BYTES - 1) / REGION_PAGE_BYTES;
	unsigned pages_first = cost(slot, usual) < first ? pages_for(slot, first) : usual;

	return (struct size_class){ slot, (uint8_t)usual, (uint8_t)pages_first, (uint8_t)pages_min,
				    (uint8_t)long_pages(slot, usual) };
}

void size_classes_init(struct size_classes *x, unsigned unit)
{
	unsigned slot = SIZE_CLASS_BYTES_MIN, step = 0;

	assert(unit >= SIZE_CLASS_STEP && unit <= SIZE_CLASS_BYTES_MIN);
	x->count = 0;
	for (;;) {
		assert(x->count < SIZE_CLASSES_MAX);
		x->class[x->count] = make_class(slot);
		for (; step <= slot / SIZE_CLASS_STEP; step++)
			x->of_steps[step] = (uint16_t)x->count;
		x->count++;
		if (slot == SIZE_CLASS_BYTES_MAX)
			return;
		slot = next_slot(slot, unit);
	}
}
