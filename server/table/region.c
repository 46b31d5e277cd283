/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bit per page says which are free, and above the bits stands a tree of
 * summaries: the free run at a node's beginning, at its end, and the longest
 * anywhere in it.  Leaves cover 512 pages, inner nodes 8 children, so a search
 * for the lowest run that fits and an update each touch a few nodes per level:
 * 7 levels for 1 TiB.  It costs a 30,000th of the region, allocated once: giving
 * memory back can't fail, and nothing is ever written into the region itself,
 * which peers read.
 */
#include "server/table/region.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define LEAF_PAGES 512u
#define LEAF_WORDS (LEAF_PAGES / 64)
#define FAN_BITS 3u
#define FAN (1u << FAN_BITS)
#define LEVELS_MAX 12u

/* Free runs, in pages. */
struct summary {
	uint32_t head;
	uint32_t longest;
	uint32_t tail;
};

struct region {
	uintptr_t base;
	size_t pages;
	/* Of all below but used_bytes and reserve_bytes, which region_used_bytes loads without it. */
	pthread_mutex_t lock;
	_Atomic size_t used_bytes;
	_Atomic size_t reserve_bytes;
	bool wipes; /* set before heaps allocate */
	uint64_t *free_bits;
	unsigned levels;
	struct summary *level[LEVELS_MAX];
	size_t metadata_bytes;
	_Atomic uint32_t *notes; /* a word per page; zero pages until they are used */
};

static size_t node_pages(unsigned level)
{
	return (size_t)LEAF_PAGES << (FAN_BITS * level);
}

/* --------------------------------------------------------------- summaries */

/* The longest run of ones, as far as it is longer than `longest`. */
static uint32_t longest_in_word(uint64_t word, uint32_t longest)
{
	uint32_t run = 0;

	if ((uint32_t)__builtin_popcountll(word) <= longest)
		return longest;
	for (; word != 0; word &= word << 1)
		run++;
	return run > longest ? run : longest;
}

static struct summary summarize_leaf(const uint64_t *word)
{
	struct summary s = { 0, 0, 0 };
	uint32_t run = 0;
	bool all_free = true;

	for (unsigned i = 0; i < LEAF_WORDS; i++) {
		uint64_t used = ~word[i];
		if (used == 0) {
			run += 64;
			continue;
		}
		run += (uint32_t)__builtin_ctzll(used);
		if (all_free)
			s.head = run;
		all_free = false;
		if (run > s.longest)
			s.longest = run;
		s.longest = longest_in_word(word[i], s.longest);
		run = (uint32_t)__builtin_clzll(used);
	}
	if (all_free)
		s.head = run;
	s.tail = run;
	if (run > s.longest)
		s.longest = run;
	return s;
}

static struct summary summarize_children(const struct summary *child, size_t child_pages)
{
	struct summary s = { 0, 0, 0 };
	uint32_t run = 0;
	bool all_free = true;

	for (unsigned i = 0; i < FAN; i++) {
		if (run + child[i].head > s.longest)
			s.longest = run + child[i].head;
		if (child[i].longest > s.longest)
			s.longest = child[i].longest;
		if (all_free)
			s.head = run + child[i].head;
		if (child[i].head != child_pages) {
			all_free = false;
			run = child[i].tail;
		} else {
			run += (uint32_t)child_pages;
		}
	}
	s.tail = run;
	return s;
}

static void set_bits(uint64_t *bits, size_t first, size_t count, bool is_free)
{
	while (count > 0) {
		unsigned shift = first % 64;
		unsigned n = count < 64 - shift ? (unsigned)count : 64 - shift;
		uint64_t mask = (n == 64 ? ~0ull : (1ull << n) - 1) << shift;

		/* Else it is free twice, or handed out twice. */
		assert((bits[first / 64] & mask) == (is_free ? 0 : mask));
		bits[first / 64] ^= mask;
		first += n;
		count -= n;
	}
}

/* Marks pages free or used, and brings the nodes above them up to date. */
static void mark(struct region *r, size_t first, size_t count, bool is_free)
{
	size_t from = first / LEAF_PAGES, to = (first + count - 1) / LEAF_PAGES;

	set_bits(r->free_bits, first, count, is_free);
	for (size_t i = from; i <= to; i++)
		r->level[0][i] = summarize_leaf(&r->free_bits[i * LEAF_WORDS]);
	for (unsigned l = 1; l < r->levels; l++) {
		from >>= FAN_BITS;
		to >>= FAN_BITS;
		for (size_t i = from; i <= to; i++)
			r->level[l][i] = summarize_children(&r->level[l - 1][i << FAN_BITS],
							    node_pages(l - 1));
	}
}

/* ------------------------------------------------------------------ search */

struct search {
	const struct region *region;
	size_t need;
	size_t align;     /* pages */
	size_t run_start; /* the free run that ends where the search has come to */
	size_t run;
	size_t found;
};

/* Adds free pages to the run; true if it is long enough now. */
static bool extend(struct search *s, size_t start, size_t pages)
{
	size_t base_page = s->region->base / REGION_PAGE_BYTES;
	size_t at;

	if (s->run == 0)
		s->run_start = start;
	s->run += pages;
	if (s->run < s->need)
		return false;
	at = ((base_page + s->run_start + s->align - 1) & ~(s->align - 1)) - base_page;
	s->found = at;
	return at + s->need <= s->run_start + s->run;
}

/* The first bit of the leaf from `from` on that has the value, or LEAF_PAGES. */
static size_t next_bit(const uint64_t *word, size_t from, bool value)
{
	while (from < LEAF_PAGES) {
		uint64_t rest = (value ? word[from / 64] : ~word[from / 64]) >> from % 64;
		if (rest != 0)
			return from + (size_t)__builtin_ctzll(rest);
		from = (from / 64 + 1) * 64;
	}
	return LEAF_PAGES;
}

static bool search_leaf(struct search *s, size_t leaf)
{
	const uint64_t *word = &s->region->free_bits[leaf * LEAF_WORDS];
	size_t end;

	for (size_t at = next_bit(word, 0, true); at < LEAF_PAGES; at = next_bit(word, end, true)) {
		end = next_bit(word, at, false);
		s->run = 0;
		if (extend(s, leaf * LEAF_PAGES + at, end - at))
			return true;
	}
	return false;
}

/*
 * Looks through a node from left to right, with the run that ends at its left
 * edge.  Only an alignment can make a node fail that has a long enough run.
 */
static bool search_node(struct search *s, unsigned level, size_t node)
{
	const struct summary *sum = &s->region->level[level][node];
	size_t pages = node_pages(level), start = node * pages;

	if (extend(s, start, sum->head))
		return true;
	if (sum->head == pages)
		return false;
	if (sum->longest >= s->need) {
		if (level == 0) {
			if (search_leaf(s, node))
				return true;
		} else {
			s->run = 0;
			for (size_t i = 0; i < FAN; i++) {
				if (search_node(s, level - 1, (node << FAN_BITS) + i))
					return true;
			}
		}
	}
	s->run = sum->tail;
	s->run_start = start + pages - sum->tail;
	return false;
}

/* -------------------------------------------------------------- public part */

static int make_levels(struct region *r)
{
	size_t nodes = (r->pages + LEAF_PAGES - 1) / LEAF_PAGES;

	r->free_bits = calloc(nodes * LEAF_WORDS, sizeof *r->free_bits);
	if (r->free_bits == NULL)
		return ENOMEM;
	r->metadata_bytes = sizeof *r + nodes * LEAF_WORDS * sizeof *r->free_bits;
	for (;;) {
		/* Whole families, so that a parent can look at all its children. */
		size_t padded = (nodes + FAN - 1) / FAN * FAN;

		assert(r->levels < LEVELS_MAX);
		r->level[r->levels] = calloc(padded, sizeof(struct summary));
		if (r->level[r->levels] == NULL)
			return ENOMEM;
		r->metadata_bytes += padded * sizeof(struct summary);
		r->levels++;
		if (nodes == 1)
			return 0;
		nodes = padded / FAN;
	}
}

int region_new(void *base, size_t bytes, struct region **region)
{
	struct region *r;
	int rc;

	assert((uintptr_t)base % REGION_PAGE_BYTES == 0);
	if (bytes < REGION_PAGE_BYTES || bytes / REGION_PAGE_BYTES > UINT32_MAX)
		return EINVAL;
	r = calloc(1, sizeof *r);
	if (r == NULL)
		return ENOMEM;
	r->base = (uintptr_t)base;
	r->pages = bytes / REGION_PAGE_BYTES;
	pthread_mutex_init(&r->lock, NULL);
	rc = make_levels(r);
	if (rc != 0) {
		region_delete(&r);
		return rc;
	}
	r->notes = calloc(r->pages, sizeof *r->notes);
	if (r->notes == NULL) {
		region_delete(&r);
		return ENOMEM;
	}
	mark(r, 0, r->pages, true);
	*region = r;
	return 0;
}

void region_delete(struct region **region)
{
	struct region *r = *region;

	*region = NULL;
	if (r == NULL)
		return;
	for (unsigned l = 0; l < LEVELS_MAX; l++)
		free(r->level[l]);
	free(r->free_bits);
	free((void *)r->notes);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* The first fit, if it begins before that page. */
static void *alloc_before(struct region *region, size_t bytes, size_t alignment, size_t page)
{
	struct search s = { .region = region, .need = bytes / REGION_PAGE_BYTES,
			    .align = alignment / REGION_PAGE_BYTES };
	bool found;

	assert(bytes > 0 && bytes % REGION_PAGE_BYTES == 0);
	assert(alignment >= REGION_PAGE_BYTES && (alignment & (alignment - 1)) == 0);
	pthread_mutex_lock(&region->lock);
	found = search_node(&s, region->levels - 1, 0) && s.found < page;
	if (found) {
		mark(region, s.found, s.need, false);
		atomic_fetch_add_explicit(&region->used_bytes, bytes, memory_order_relaxed);
	}
	pthread_mutex_unlock(&region->lock);
	return found ? (void *)(region->base + s.found * REGION_PAGE_BYTES) : NULL;
}

void *region_alloc(struct region *region, size_t bytes, size_t alignment)
{
	return alloc_before(region, bytes, alignment, region->pages);
}

void *region_alloc_before(struct region *region, size_t bytes, const void *limit)
{
	return alloc_before(region, bytes, REGION_PAGE_BYTES,
			    ((uintptr_t)limit - region->base) / REGION_PAGE_BYTES);
}

void region_free(struct region *region, void *addr, size_t bytes)
{
	size_t first = ((uintptr_t)addr - region->base) / REGION_PAGE_BYTES;
	size_t count = bytes / REGION_PAGE_BYTES;

	assert((uintptr_t)addr >= region->base && (uintptr_t)addr % REGION_PAGE_BYTES == 0);
	assert(bytes > 0 && bytes % REGION_PAGE_BYTES == 0 && first + count <= region->pages);
	pthread_mutex_lock(&region->lock);
	mark(region, first, count, true);
	atomic_fetch_sub_explicit(&region->used_bytes, bytes, memory_order_relaxed);
	pthread_mutex_unlock(&region->lock);
}

size_t region_longest_bytes(struct region *region)
{
	pthread_mutex_lock(&region->lock);
	size_t pages = region->level[region->levels - 1]->longest;
	pthread_mutex_unlock(&region->lock);
	return pages * REGION_PAGE_BYTES;
}

void region_set_reserve(struct region *r, size_t bytes)
{
	atomic_store_explicit(&r->reserve_bytes, bytes, memory_order_relaxed);
}

static size_t reserve_bytes(const struct region *r)
{
	return atomic_load_explicit(&r->reserve_bytes, memory_order_relaxed);
}

bool region_may_spare(const struct region *r, size_t bytes)
{
	return reserve_bytes(r) + bytes <= r->pages * REGION_PAGE_BYTES;
}

void region_set_wipe(struct region *r)
{
	r->wipes = true;
}

bool region_wipes(const struct region *r)
{
	return r->wipes;
}

bool region_has_spare(const struct region *r, size_t bytes)
{
	return region_used_bytes(r) + reserve_bytes(r) + bytes <= r->pages * REGION_PAGE_BYTES;
}

size_t region_used_bytes(const struct region *region)
{
	return atomic_load_explicit(&region->used_bytes, memory_order_relaxed);
}

static size_t page_of(const struct region *r, const void *addr)
{
	return ((uintptr_t)addr - r->base) / REGION_PAGE_BYTES;
}

void region_note(struct region *region, const void *addr, uint32_t note)
{
	atomic_store_explicit(&region->notes[page_of(region, addr)], note, memory_order_release);
}

uint32_t region_noted(const struct region *region, size_t page)
{
	return atomic_load_explicit(&region->notes[page], memory_order_acquire);
}

size_t region_pages(const struct region *region)
{
	return region->pages;
}

void *region_page(const struct region *region, size_t page)
{
	return (void *)(region->base + page * REGION_PAGE_BYTES);
}

size_t region_metadata_bytes(const struct region *region)
{
	return region->metadata_bytes;
}
