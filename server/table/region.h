/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region.h -- runs of whole pages of the table.
 *
 * The first fit is handed out, of the lowest address.  Nothing is ever unmapped or
 * decommitted, because a NIC reads it.
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
/* Of whole pages, only if the first fit begins before `limit`, a page of the region. */
void *region_alloc_before(struct region *region, size_t bytes, const void *limit);
void region_free(struct region *region, void *addr, size_t bytes);

size_t region_used_bytes(const struct region *region);

/* The bytes that heaps leave for others: 0 at first.  Any thread. */
void region_set_reserve(struct region *region, size_t bytes);
bool region_has_spare(const struct region *region, size_t bytes);
/* Whether an empty region could hold so much beside the reserve. */
bool region_may_spare(const struct region *region, size_t bytes);

/* Of the longest run of free pages. */
size_t region_longest_bytes(struct region *region);

/* What is freed in it is zeroed; to be said before the first heap is made. */
void region_set_wipe(struct region *region);
bool region_wipes(const struct region *region);

/*
 * A word for each page, where the owner of the page notes what it is; 0 at first.
 * Kept outside the region; any thread, without a lock.  Who finds a note finds what was
 * written before it (release and acquire).
 */
void region_note(struct region *region, const void *addr, uint32_t note);
uint32_t region_noted(const struct region *region, size_t page);
size_t region_pages(const struct region *region);
void *region_page(const struct region *region, size_t page);

/* What the region's own books cost, outside of it. */
size_t region_metadata_bytes(const struct region *region);

#endif
