/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Items of up to 14 KiB come from jemalloc's slabs, whose classes are at most
 * 20 % apart; longer ones take whole pages of the region, which wastes less
 * than jemalloc's classes for them would (2 KiB on average, where a power of
 * two and a header would cost a quarter), and gives one path less that could
 * fragment.  heap_free gets the length, so it knows which of the two it was.
 *
 * The arena keeps nothing back: it grows by single slabs (no retaining, which
 * would ask for ever larger extents) and returns an empty one at once (no decay),
 * so what the region has given out is what the items need.  The thread cache in
 * front of it takes the edge off.
 */
#include "server/table/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jemalloc/jemalloc.h>

#define LG_ALIGNMENT 5
#define SLAB_BYTES_MAX (HEAP_PAGES_BYTES_MIN - 1)

/* jemalloc reads it at its start; there is no such option of a single arena. */
__attribute__((visibility("default"))) const char *malloc_conf = "retain:false";

struct heap {
	extent_hooks_t hooks; /* first: the hooks get its address */
	struct region *region;
	bool wipes;
	bool packing; /* no extent more: see heap_alloc_packed; the heap's worker only */
	unsigned arena;
	unsigned tcache;
	int alloc_flags;
	int free_flags;
};

/* ------------------------------------------------------------ extent hooks */

/* The first page of each extent has its arena and its length in pages. */
#define NOTE_PAGES_BITS 16u
#define NOTE_PAGES_MAX ((1u << NOTE_PAGES_BITS) - 1)

static void note_extent(struct heap *heap, const void *addr, size_t size)
{
	size_t pages = size / REGION_PAGE_BYTES;
	bool is_short = pages <= NOTE_PAGES_MAX && heap->arena < 1u << (32 - NOTE_PAGES_BITS);

	region_note(heap->region, addr,
		    is_short ? heap->arena << NOTE_PAGES_BITS | (uint32_t)pages : 0);
}

static void *extent_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t alignment,
			  bool *zero, bool *commit, unsigned arena)
{
	struct heap *heap = (struct heap *)hooks;
	void *addr;

	(void)arena;
	if (new_addr != NULL) /* in-place growth, which nobody here asks for */
		return NULL;
	if (heap->packing || !region_has_spare(heap->region, size))
		return NULL;
	if (alignment < REGION_PAGE_BYTES)
		alignment = REGION_PAGE_BYTES;
	addr = region_alloc(heap->region, size, alignment);
	if (addr != NULL && *zero)
		memset(addr, 0, size);
	if (addr != NULL)
		note_extent(heap, addr, size);
	*commit = true;
	return addr;
}

static bool extent_dalloc(extent_hooks_t *hooks, void *addr, size_t size, bool committed,
			  unsigned arena)
{
	(void)committed;
	(void)arena;
	region_note(((struct heap *)hooks)->region, addr, 0);
	region_free(((struct heap *)hooks)->region, addr, size);
	return false;
}

static void extent_destroy(extent_hooks_t *hooks, void *addr, size_t size, bool committed,
			   unsigned arena)
{
	extent_dalloc(hooks, addr, size, committed, arena);
}

static bool extent_split(extent_hooks_t *hooks, void *addr, size_t size, size_t size_a,
			 size_t size_b, bool committed, unsigned arena)
{
	struct heap *heap = (struct heap *)hooks;

	(void)size, (void)committed, (void)arena;
	note_extent(heap, addr, size_a);
	note_extent(heap, (uint8_t *)addr + size_a, size_b);
	return false;
}

static bool extent_merge(extent_hooks_t *hooks, void *addr_a, size_t size_a, void *addr_b,
			 size_t size_b, bool committed, unsigned arena)
{
	struct heap *heap = (struct heap *)hooks;

	(void)committed, (void)arena;
	region_note(heap->region, addr_b, 0);
	note_extent(heap, addr_a, size_a + size_b);
	return false;
}

/* No commit, decommit, purge_lazy, purge_forced: NULL refuses each of them. */
static const extent_hooks_t extent_hooks = {
	.alloc = extent_alloc,
	.dalloc = extent_dalloc,
	.destroy = extent_destroy,
	.split = extent_split,
	.merge = extent_merge,
};

/* ------------------------------------------------------------------- arena */

/* As jemalloc's experimental.arenas_create_ext takes it. */
struct arena_config {
	extent_hooks_t *hooks;
	bool metadata_use_hooks;
};

/*
 * The arena's own books belong outside the region: inside they'd cost at least
 * 2 MiB of it per worker, where peers can read them.  Releases before 5.3 can't
 * tell the two apart.
 */
static int create_arena(struct heap *heap)
{
	struct arena_config config = { .hooks = &heap->hooks, .metadata_use_hooks = false };
	extent_hooks_t *hooks = &heap->hooks;
	size_t bytes = sizeof heap->arena;

	if (mallctl("experimental.arenas_create_ext", &heap->arena, &bytes, &config,
		    sizeof config) == 0)
		return 0;
	return mallctl("arenas.create", &heap->arena, &bytes, &hooks, sizeof hooks);
}

static int set_arena(unsigned arena, const char *name, void *value, size_t bytes)
{
	char key[64];

	snprintf(key, sizeof key, "arena.%u.%s", arena, name);
	return mallctl(key, NULL, NULL, value, bytes);
}

static int configure_arena(unsigned arena)
{
	ssize_t decay_ms = 0;
	int rc = set_arena(arena, "dirty_decay_ms", &decay_ms, sizeof decay_ms);

	if (rc == 0)
		rc = set_arena(arena, "muzzy_decay_ms", &decay_ms, sizeof decay_ms);
	return rc;
}

int heap_new(struct region *region, struct heap **heap)
{
	struct heap *h = calloc(1, sizeof *h);
	size_t bytes = sizeof h->tcache;
	int rc;

	if (h == NULL)
		return ENOMEM;
	h->hooks = extent_hooks;
	h->region = region;
	h->wipes = region_wipes(region);
	rc = create_arena(h);
	if (rc != 0)
		goto err_heap;
	rc = configure_arena(h->arena);
	if (rc == 0)
		rc = mallctl("tcache.create", &h->tcache, &bytes, NULL, 0);
	if (rc != 0)
		goto err_arena;
	h->free_flags = MALLOCX_LG_ALIGN(LG_ALIGNMENT) | (int)MALLOCX_TCACHE(h->tcache);
	h->alloc_flags = h->free_flags | (int)MALLOCX_ARENA(h->arena);
	*heap = h;
	return 0;

err_arena:
	set_arena(h->arena, "destroy", NULL, 0);
err_heap:
	free(h);
	return rc;
}

void heap_delete(struct heap **heap)
{
	struct heap *h = *heap;

	*heap = NULL;
	if (h == NULL)
		return;
	mallctl("tcache.destroy", NULL, NULL, &h->tcache, sizeof h->tcache);
	set_arena(h->arena, "destroy", NULL, 0);
	free(h);
}

/* ------------------------------------------------------------- allocations */

static size_t whole_pages(size_t bytes)
{
	return (bytes + REGION_PAGE_BYTES - 1) & ~(size_t)(REGION_PAGE_BYTES - 1);
}

static void *try_alloc(struct heap *heap, size_t bytes)
{
	if (bytes > SLAB_BYTES_MAX)
		return region_has_spare(heap->region, whole_pages(bytes))
			       ? region_alloc(heap->region, whole_pages(bytes), REGION_PAGE_BYTES)
			       : NULL;
	return mallocx(bytes, heap->alloc_flags);
}

void *heap_alloc(struct heap *heap, size_t bytes)
{
	void *ptr = try_alloc(heap, bytes);

	if (ptr != NULL)
		return ptr;
	/* What the cache keeps may be what is missing. */
	heap_trim(heap);
	return try_alloc(heap, bytes);
}

/* A slot that was overwritten by less has the rest of its last unit, too. */
static void wipe(const struct heap *heap, void *ptr, size_t bytes)
{
	const size_t unit = (size_t)1 << LG_ALIGNMENT;

	if (heap->wipes)
		memset(ptr, 0, (bytes + unit - 1) & ~(unit - 1));
}

void heap_free(struct heap *heap, void *ptr, size_t bytes)
{
	wipe(heap, ptr, bytes);
	if (bytes > SLAB_BYTES_MAX)
		region_free(heap->region, ptr, whole_pages(bytes));
	else
		sdallocx(ptr, bytes, heap->free_flags);
}

size_t heap_usable_bytes(size_t bytes)
{
	if (bytes > SLAB_BYTES_MAX)
		return whole_pages(bytes);
	return nallocx(bytes, MALLOCX_LG_ALIGN(LG_ALIGNMENT));
}

void heap_trim(struct heap *heap)
{
	mallctl("tcache.flush", NULL, NULL, &heap->tcache, sizeof heap->tcache);
	/* An extent that is freed while another thread purges stays with the arena,
	 * until the next one is. */
	set_arena(heap->arena, "purge", NULL, 0);
}

/* ------------------------------------------------------------------- slabs */

/* jemalloc's answer about the slab of an address: all 0 if there is none. */
struct utilization {
	size_t free;
	size_t slots;
	size_t bytes;
};

static bool look_at(const void *addr, struct utilization *u)
{
	size_t bytes = sizeof *u;

	return mallctl("experimental.utilization.batch_query", u, &bytes, (void *)&addr,
		       sizeof addr) == 0;
}

bool heap_slab_at(struct heap *heap, size_t page, struct heap_slab *slab)
{
	uint32_t note = region_noted(heap->region, page);
	void *addr = region_page(heap->region, page);
	struct utilization u;

	if (note == 0 || note >> NOTE_PAGES_BITS != heap->arena || !look_at(addr, &u) ||
	    u.slots <= 1 || u.free > u.slots ||
	    u.bytes != (size_t)(note & NOTE_PAGES_MAX) * REGION_PAGE_BYTES || u.bytes % u.slots != 0)
		return false;
	*slab = (struct heap_slab){ addr, u.bytes, (uint32_t)u.slots, (uint32_t)u.free };
	return true;
}

bool heap_slab_next(struct heap *heap, size_t *page, size_t pages_max, struct heap_slab *slab)
{
	size_t pages = region_pages(heap->region), end = *page + pages_max;

	for (; *page < pages && *page < end; ++*page) {
		if (!heap_slab_at(heap, *page, slab))
			continue;
		*page += slab->bytes / REGION_PAGE_BYTES;
		return true;
	}
	return false;
}

void *heap_alloc_packed(struct heap *heap, size_t bytes)
{
	int flags = MALLOCX_LG_ALIGN(LG_ALIGNMENT) | (int)MALLOCX_ARENA(heap->arena);

	if (bytes > SLAB_BYTES_MAX)
		return NULL;
	heap->packing = true;
	void *ptr = mallocx(bytes, flags | MALLOCX_TCACHE_NONE);
	heap->packing = false;
	return ptr;
}

void heap_free_packed(struct heap *heap, void *ptr, size_t bytes)
{
	wipe(heap, ptr, bytes);
	sdallocx(ptr, bytes, MALLOCX_LG_ALIGN(LG_ALIGNMENT) | MALLOCX_TCACHE_NONE);
}

size_t heap_metadata_bytes(void)
{
	uint64_t epoch = 1;
	size_t bytes = 0, bytes_bytes = sizeof bytes;

	/* Figures are as of the last change of the epoch. */
	mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
	if (mallctl("stats.metadata", &bytes, &bytes_bytes, NULL, 0) != 0)
		return 0;
	return bytes;
}
