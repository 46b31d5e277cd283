/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap.h -- memory for items: a jemalloc arena for each worker, whose extent hooks carve from
 * the region and give back to it.
 */
#ifndef SERVER_TABLE_HEAP_H
#define SERVER_TABLE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/table/region.h"

struct heap;

/* One arena and one thread cache: for one worker.  0 or an errno value. */
int heap_new(struct region *region, struct heap **heap);

/*
 * Ends the arena with all that is allocated from it but items over 14 KiB.
 * Memory of it that another heap has freed may be in that one's cache: call
 * heap_trim on each heap of the region before the first is deleted.
 */
void heap_delete(struct heap **heap);

/*
 * Memory of at least `bytes`, aligned to 32 bytes, or NULL if the region is full.
 * Only the heap's own worker may call heap_alloc.  heap_free may get memory of
 * any heap of the same region; `bytes` is what was asked for, or anything else
 * with the same heap_usable_bytes.
 *
 * Where the region says so (region_set_wipe), what is freed is zeroed: items are whole units,
 * so what is behind `bytes` in the last of them is zeroed, too.
 */
void *heap_alloc(struct heap *heap, size_t bytes);
void heap_free(struct heap *heap, void *ptr, size_t bytes);

/* Items from that many bytes on are of whole pages. */
#define HEAP_PAGES_BYTES_MIN 14337u

/* What heap_alloc(bytes) really reserves. */
size_t heap_usable_bytes(size_t bytes);

/* Gives back what the thread cache and the arena keep unused.  heap_alloc does it
 * itself before it gives up. */
void heap_trim(struct heap *heap);

/*
 * Slabs, for who moves items from sparse ones to others.  A slab is a run of slots of one
 * size, of which some are taken; the figures are a moment's.  Looks from *page on for the
 * heap's next slab, over `pages_max` pages at the most; sets *page to the page behind
 * what was looked at.  False: there was none, or the allocator can't tell.
 */
struct heap_slab {
	uint8_t *addr;
	size_t bytes;
	uint32_t slots;
	uint32_t free;
};
bool heap_slab_next(struct heap *heap, size_t *page, size_t pages_max, struct heap_slab *slab);
/* The slab whose first page that is; false if none is (any more). */
bool heap_slab_at(struct heap *heap, size_t page, struct heap_slab *slab);

/* heap_alloc and heap_free past the cache; the former without a page more than the heap
 * has: NULL. */
void *heap_alloc_packed(struct heap *heap, size_t bytes);
void heap_free_packed(struct heap *heap, void *ptr, size_t bytes);

/* What the allocator's books cost, outside the region, of all heaps and of the
 * process's malloc together.  Takes all its locks: for statistics. */
size_t heap_metadata_bytes(void);

#endif
