/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Items of up to 32 KiB stand in slots of slabs (slab.h); longer ones take whole pages of the
 * region.  heap_free gets the length, so it knows which of the two it was.
 *
 * A magazine for each class of short slots takes the edge off: some free ones, which no other
 * worker can have.  It is filled and emptied by halves.  What it holds may be longer than its
 * class, never shorter: an item's slot goes into the magazine of the item's length.  Slots over
 * MAGAZINE_BYTES go straight to and from the slabs: to copy such a value costs more than the
 * slabs' lock, and one of each length would be more than a megabyte a worker.
 */
#include "server/table/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGAZINE_SLOTS 16u
#define MAGAZINE_BYTES 4096u
/* How much longer a slot may be than one of the right class, where there is none: a quarter. */
#define LONGER_PART 4u
/* The same of an item that is moved: an eighth. */
#define PACKED_LONGER_PART 8u

/* Of all that malloc() gives: jemalloc reads it at its start. */
__attribute__((visibility("default"))) const char *malloc_conf = "retain:false";

struct magazine {
	uint16_t count;
	uint16_t max;
	void *slot[MAGAZINE_SLOTS];
};

struct heap {
	struct region *region;
	struct slabs *slabs;
	const struct size_classes *classes;
	bool wipes;
	bool may_waste; /* the next heap_alloc */
	struct magazine magazine[SIZE_CLASSES_MAX];
};

static uint16_t magazine_slots(size_t slot_bytes)
{
	size_t n = MAGAZINE_BYTES / slot_bytes;

	return (uint16_t)(n > MAGAZINE_SLOTS ? MAGAZINE_SLOTS : n);
}

int heap_new(struct region *region, struct slabs *slabs, struct heap **heap)
{
	struct heap *h = calloc(1, sizeof *h);

	if (h == NULL)
		return ENOMEM;
	h->region = region;
	h->slabs = slabs;
	h->classes = slabs_classes(slabs);
	h->wipes = region_wipes(region);
	for (unsigned i = 0; i < h->classes->count; i++)
		h->magazine[i].max = magazine_slots(h->classes->class[i].slot_bytes);
	*heap = h;
	return 0;
}

void heap_delete(struct heap **heap)
{
	struct heap *h = *heap;

	*heap = NULL;
	if (h == NULL)
		return;
	heap_trim(h);
	free(h);
}

/* ------------------------------------------------------------- allocations */

static size_t whole_pages(size_t bytes)
{
	return (bytes + REGION_PAGE_BYTES - 1) & ~(size_t)(REGION_PAGE_BYTES - 1);
}

static bool is_of_pages(size_t bytes)
{
	return bytes >= HEAP_PAGES_BYTES_MIN;
}

static void *note_run(struct heap *h, void *run, size_t bytes)
{
	if (run)
		region_note(h->region, run, SLAB_NOTE_RUN | (uint32_t)(bytes / REGION_PAGE_BYTES));
	return run;
}

static void *alloc_pages(struct heap *h, size_t bytes)
{
	return !region_has_spare(h->region, bytes) ? NULL :
	       note_run(h, region_alloc(h->region, bytes, REGION_PAGE_BYTES), bytes);
}

static void free_pages(struct heap *h, void *ptr, size_t bytes)
{
	region_note(h->region, ptr, 0);
	region_free(h->region, ptr, bytes);
}

static void *pop(struct magazine *m)
{
	return m->count ? m->slot[--m->count] : NULL;
}

/* The magazine is empty. */
static void *fill(struct heap *h, unsigned class, enum slabs_grow grow)
{
	struct magazine *m = &h->magazine[class];

	m->count = (uint16_t)slabs_take(h->slabs, class, m->slot, m->max ? (m->max + 1u) / 2 : 1, grow);
	return pop(m);
}

/* The longest class whose slots are longer by so much at the most. */
static unsigned longest_for(const struct heap *h, unsigned class, unsigned part)
{
	const struct size_class *c = h->classes->class;
	unsigned bytes_max = c[class].slot_bytes + c[class].slot_bytes / part, i = class;

	while (i + 1 < h->classes->count && c[i + 1].slot_bytes <= bytes_max)
		i++;
	return i;
}

/* A slot that is somewhat longer: there is none of the class, and no page for one. */
static void *alloc_longer(struct heap *h, unsigned class)
{
	unsigned last = longest_for(h, class, LONGER_PART);
	void *slot = NULL;

	for (unsigned i = class + 1; !slot && i <= last; i++) {
		slot = pop(&h->magazine[i]);
		if (!slot)
			slot = fill(h, i, SLABS_GROW_NOT);
	}
	return slot;
}

static void *alloc_slot(struct heap *h, unsigned class)
{
	void *slot = pop(&h->magazine[class]);

	if (!slot)
		slot = fill(h, class, SLABS_GROW);
	return slot ? slot : alloc_longer(h, class);
}

static void *try_alloc(struct heap *h, size_t bytes)
{
	return is_of_pages(bytes) ? alloc_pages(h, whole_pages(bytes))
				  : alloc_slot(h, size_class_of(h->classes, bytes));
}

void *heap_alloc(struct heap *heap, size_t bytes)
{
	void *ptr = try_alloc(heap, bytes);

	if (ptr != NULL)
		return ptr;
	/* What it keeps of other classes may be what is missing. */
	heap_trim(heap);
	ptr = try_alloc(heap, bytes);
	if (ptr == NULL && heap->may_waste && !is_of_pages(bytes))
		ptr = fill(heap, size_class_of(heap->classes, bytes), SLABS_GROW_ANY);
	heap->may_waste = false;
	return ptr;
}

void heap_allow_waste(struct heap *heap)
{
	heap->may_waste = true;
}

static void wipe(const struct heap *heap, void *ptr, size_t bytes)
{
	if (heap->wipes)
		memset(ptr, 0, bytes);
}

/* Gives back all but `left`, of those that are there for longest. */
static void empty(struct heap *h, struct magazine *m, unsigned left)
{
	if (m->count <= left)
		return;
	slabs_give(h->slabs, m->slot, m->count - left);
	memmove(m->slot, m->slot + m->count - left, left * sizeof m->slot[0]);
	m->count = (uint16_t)left;
}

void heap_free(struct heap *heap, void *ptr, size_t bytes)
{
	wipe(heap, ptr, bytes);
	if (is_of_pages(bytes)) {
		free_pages(heap, ptr, whole_pages(bytes));
		return;
	}
	struct magazine *m = &heap->magazine[size_class_of(heap->classes, bytes)];
	if (!m->max) {
		slabs_give(heap->slabs, &ptr, 1);
		return;
	}
	if (m->count == m->max)
		empty(heap, m, m->max / 2);
	m->slot[m->count++] = ptr;
}

size_t heap_usable_bytes(const struct heap *heap, size_t bytes)
{
	if (is_of_pages(bytes))
		return whole_pages(bytes);
	return heap->classes->class[size_class_of(heap->classes, bytes)].slot_bytes;
}

size_t heap_room_bytes(const struct heap *heap, const void *ptr, size_t bytes)
{
	return is_of_pages(bytes) ? whole_pages(bytes) : slabs_slot_bytes(heap->slabs, ptr);
}

void heap_trim(struct heap *heap)
{
	for (unsigned i = 0; i < heap->classes->count; i++)
		empty(heap, &heap->magazine[i], 0);
}

uint64_t heap_longer_slots(const struct heap *h, unsigned class)
{
	uint64_t slots = 0;

	for (unsigned i = longest_for(h, class, PACKED_LONGER_PART); i > class; i--) {
		struct slab_use use = slabs_use(h->slabs, i);
		slots += use.slots - use.taken;
	}
	return slots;
}

void *heap_alloc_packed(struct heap *heap, size_t bytes, enum heap_packed how)
{
	enum slabs_grow grow = how == HEAP_PACKED_GROW ? SLABS_GROW : SLABS_GROW_NOT;
	void *slot = NULL;

	if (is_of_pages(bytes))
		return NULL;
	unsigned class = size_class_of(heap->classes, bytes);
	unsigned last = how == HEAP_PACKED_LONGER ? longest_for(heap, class, PACKED_LONGER_PART) : class;
	for (unsigned i = class; !slot && i <= last; i++)
		slabs_take(heap->slabs, i, &slot, 1, grow);
	return slot;
}

void heap_free_packed(struct heap *heap, void *ptr, size_t bytes)
{
	wipe(heap, ptr, bytes);
	if (is_of_pages(bytes))
		free_pages(heap, ptr, whole_pages(bytes));
	else
		slabs_give(heap->slabs, &ptr, 1);
}

size_t heap_run_bytes(const struct region *region, size_t page)
{
	uint32_t note = region_noted(region, page);

	return note & SLAB_NOTE_RUN ? (note & ~SLAB_NOTE_RUN) * (size_t)REGION_PAGE_BYTES : 0;
}

void *heap_alloc_before(struct heap *heap, size_t bytes, const void *limit)
{
	bytes = whole_pages(bytes);
	return note_run(heap, region_alloc_before(heap->region, bytes, limit), bytes);
}
