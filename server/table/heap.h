/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap.h -- memory for items: a worker's way to the slabs that all share, with some free slots
 * of its own.
 */
#ifndef SERVER_TABLE_HEAP_H
#define SERVER_TABLE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/table/region.h"
#include "server/table/slab.h"

struct heap;

/* Of the slabs' region; both outlive it.  0 or an errno value. */
int heap_new(struct region *region, struct slabs *slabs, struct heap **heap);

/* What is allocated from it stays: any heap of the same region may free it. */
void heap_delete(struct heap **heap);

/*
 * Memory of at least `bytes`, aligned to the slabs' unit, or NULL if the region is full.
 * Only the heap's own worker may call heap_alloc and heap_free.  heap_free may get memory of
 * any heap of the same region; `bytes` is what was asked for, or, of a slot, less.
 *
 * Where the region says so (region_set_wipe), what is freed is zeroed.
 */
void *heap_alloc(struct heap *heap, size_t bytes);
void heap_free(struct heap *heap, void *ptr, size_t bytes);

/* Items from that many bytes on are of whole pages. */
#define HEAP_PAGES_BYTES_MIN (SIZE_CLASS_BYTES_MAX + 1u)

/* The next heap_alloc may take a run of pages of which much is wasted: rather than none. */
void heap_allow_waste(struct heap *heap);

/* What heap_alloc(bytes) reserves at least. */
size_t heap_usable_bytes(const struct heap *heap, size_t bytes);
/* What an item has that stands there: more where it was longer once, or no shorter slot was
 * free.  bytes: of the item. */
size_t heap_room_bytes(const struct heap *heap, const void *ptr, size_t bytes);

/* Gives back the free slots that it keeps.  heap_alloc does it itself before it gives up. */
void heap_trim(struct heap *heap);

/* heap_alloc and heap_free past what it keeps; the former as told: a free slot of the class,
 * and if there is none, NULL, or one of a new slab, or a free one that is somewhat longer. */
enum heap_packed { HEAP_PACKED, HEAP_PACKED_GROW, HEAP_PACKED_LONGER };
void *heap_alloc_packed(struct heap *heap, size_t bytes, enum heap_packed how);
/* Free slots that are somewhat longer than those of the class. */
uint64_t heap_longer_slots(const struct heap *heap, unsigned class);
void heap_free_packed(struct heap *heap, void *ptr, size_t bytes);

/* Of an item of whole pages that begins with that page of the region; 0: none does. */
size_t heap_run_bytes(const struct region *region, size_t page);
/* Whole pages, of the lowest run that has so many, if that begins before `limit`; or NULL. */
void *heap_alloc_before(struct heap *heap, size_t bytes, const void *limit);

#endif
