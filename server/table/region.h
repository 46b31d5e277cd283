/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region.h -- the heap of the table region: page runs, and jemalloc on top.
 *
 * `region` hands out runs of whole pages (first fit, lowest address first) and
 * takes them back; nothing is ever unmapped or decommitted, because a NIC reads
 * it.  `heap` is a jemalloc arena per worker whose extent hooks carve from the
 * region and give back to it.
 */
#ifndef SERVER_TABLE_REGION_H
#define SERVER_TABLE_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGION_PAGE_BYTES 4096u

struct region;

/*
 * Manages [base, base + bytes), page aligned, which must outlive it.  0 or
 * an errno value.  Any thread may call region_alloc and region_free; they take
 * one lock.
 */
int region_new(void *base, size_t bytes, struct region **region);
void region_delete(struct region **region);

/* bytes: a multiple of the page; alignment: a power of two >= the page.  NULL if
 * there is no such run.  The memory is not zeroed. */
void *region_alloc(struct region *region, size_t bytes, size_t alignment);
void region_free(struct region *region, void *addr, size_t bytes);

size_t region_used_bytes(const struct region *region);

/* What heaps leave of it for others: 0 at first. */
void region_set_reserve(struct region *region, size_t bytes);
bool region_has_spare(const struct region *region, size_t bytes);
/* Whether it had, were it empty. */
bool region_may_spare(const struct region *region, size_t bytes);

/*
 * A word for each page, for whoever has allocated it to remember what it is; 0 at first.
 * Kept outside the region; any thread, without a lock: relaxed.
 */
void region_note(struct region *region, const void *addr, uint32_t note);
uint32_t region_noted(const struct region *region, size_t page);
size_t region_pages(const struct region *region);
void *region_page(const struct region *region, size_t page);

/* What the region's own books cost, outside of it. */
size_t region_metadata_bytes(const struct region *region);

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
