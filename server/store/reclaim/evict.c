/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Happy path: a change finds no memory.  Buckets of the index are drawn at random; of the
 * entries in one, of which none was used, the oldest goes; where all were used, each
 * loses a use, until one has none.  So a key lives for as long as it is used between two
 * visits to its bucket, up to four of them, and the newest is not the first to go.  When
 * a key of the size that is wanted went, the change is tried again.
 *
 * A slab serves one size class.  If the coldest keys are of other sizes, what they leave goes
 * to others in whole slabs only.  So after a few of them a key of about the right size goes.
 * If there is none a whole slab is emptied, that with the fewest used items of some that are
 * drawn: those that were used move to other slabs, the rest goes.
 *
 * A slab may have a megabyte.  So a worker holds the one that it empties and goes on with it in
 * the rounds that follow, STEP_BYTES in each, and what needs the memory is set aside meanwhile.
 * Items that can't go (locked, pinned, in the middle of a change) stay, and so does their slab:
 * what it has free then is its class'.
 *
 * An item of whole pages needs them side by side: a run of the region is emptied of
 * everything that stands in it.
 *
 * Keys that are locked or in the middle of a change stay.
 *
 * In a cluster a key goes when all members have that: an eviction begins, and who wants the memory
 * tries again.  A worker begins some in one go, and no others until those have ended.
 */
#include "server/store/reclaim/evict.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/clock.h"
#include "server/store/change/move.h"
#include "server/store/change/remove.h"
#include "server/store/item/heat.h"
#include "server/store/reclaim/compact.h"
#include "server/table/heap.h"
#include "server/table/index.h"

#define AGES_A_TURN 16u /* while as many keys go as there are */
#define VICTIMS_MAX 64u
#define ANY_SIZE_MAX 4u /* victims of other sizes than what is wanted */
#define LONGER_PART 4u   /* a slot that is longer by so much will do, as in heap.c */
#define SLABS_DRAWN 8u
#define FREED_MAX (512ull << 10)
#define RUNS_MAX 2u
#define STEP_BYTES (128u << 10) /* of slots that are emptied in a round */
/* For the index: what is left when items find no memory. */
#define RESERVE_PART 32u

struct evict {
	_Atomic uint64_t count;
	_Atomic uint64_t next_age; /* of `count` */
	_Atomic uint64_t run; /* where the next run to be emptied begins */
	_Atomic uint64_t random;
};

int evict_new(struct store *s)
{
	const struct table *t = s->table;
	struct evict *e = calloc(1, sizeof *e);

	if (!e || heat_new(t, &s->heat)) {
		free(e);
		return ENOMEM;
	}
	atomic_init(&e->random, t->hash_seed);
	region_set_reserve(t->region, (t->bytes - t->heap_offset) / RESERVE_PART);
	s->evict = e;
	return 0;
}

void evict_delete(struct store *s)
{
	heat_delete(&s->heat);
	free(s->evict);
	s->evict = NULL;
}

uint64_t evict_count(const struct evict *e)
{
	return e ? atomic_load_explicit(&e->count, memory_order_relaxed) : 0;
}

static void count_one(const struct store *s)
{
	struct evict *e = s->evict;
	uint64_t n = atomic_fetch_add_explicit(&e->count, 1, memory_order_relaxed);
	uint64_t next = atomic_load_explicit(&e->next_age, memory_order_relaxed);

	if (n >= next && atomic_compare_exchange_strong_explicit(
				 &e->next_age, &next, n + index_keys(s->index) / AGES_A_TURN + 1,
				 memory_order_relaxed, memory_order_relaxed))
		heat_next_age(s->heat);
}

/* ----------------------------------------------------------------- victims */

static uint64_t roll(struct evict *e, uint64_t n)
{
	uint64_t x = atomic_fetch_add_explicit(&e->random, 0x9e3779b97f4a7c15ull,
					       memory_order_relaxed);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return (uint64_t)((unsigned __int128)(x ^ x >> 31) * n >> 64);
}

/* Whether an item of `usable` bytes would stand in such a slot; 0: any. */
static bool is_of_size(uint64_t slot_bytes, uint64_t usable)
{
	return !usable || (slot_bytes >= usable && slot_bytes <= usable + usable / LONGER_PART);
}

static uint64_t offset_of(const struct store *s, uint64_t word)
{
	return layout_word_offset(word, s->table->unit_mask);
}

/* What the item of an entry has. */
static uint64_t room_of(const struct store_worker *w, uint64_t word)
{
	uint64_t bytes = layout_len_decode(layout_word_len_code(word));

	/* The length of an entry is rounded up. */
	if (bytes >= HEAP_PAGES_BYTES_MIN)
		return heap_usable_bytes(w->heap, bytes);
	return heap_room_bytes(w->heap, w->store->table->base + offset_of(w->store, word), bytes);
}

/* The oldest one without a use, or 0.  *any: there was one with. */
static uint64_t coldest(const struct store_worker *w, const uint64_t *word, unsigned count,
			uint64_t usable, bool *any)
{
	const struct store *s = w->store;
	unsigned oldest = 0;
	uint64_t best = 0;

	*any = false;
	for (unsigned i = 0; i < count; i++) {
		if (usable && !is_of_size(room_of(w, word[i]), usable))
			continue;
		uint64_t offset = offset_of(s, word[i]);
		unsigned old = heat_age(s->heat, offset);
		*any = true;
		if (!heat_uses(s->heat, offset) && (!best || old > oldest)) {
			best = word[i];
			oldest = old;
		}
	}
	return best;
}

/* False: it stays. */
static bool remove_key(struct store_worker *w, const void *key, unsigned key_bytes)
{
	struct store_change c = { .key = key, .key_bytes = key_bytes };

	c.hash = hash_key(w->store->table->hash_seed, key, key_bytes);
	int status = store_evict(w, &c);
	if (status != WIRE_OK && status != STORE_COMMIT)
		return false;
	count_one(w->store);
	return true;
}

/* Removes the key of an entry; the bytes of its slot, 0: it stays. */
static uint64_t remove_entry(struct store_worker *w, uint64_t bucket, uint64_t word)
{
	const struct store *s = w->store;
	uint64_t room = room_of(w, word);
	uint8_t key[LAYOUT_KEY_BYTES_MAX];
	unsigned key_bytes = index_entry_key(s->index, bucket, word, key);

	return key_bytes && remove_key(w, key, key_bytes) ? room : 0;
}

/*
 * A key of the bucket, of slots of `usable` bytes (0: any); the bytes, 0: none.  Where all are used
 * each loses a use, and one goes only if one `must`.
 */
static uint64_t remove_from(struct store_worker *w, uint64_t bucket, uint64_t usable, bool must)
{
	const struct store *s = w->store;
	uint64_t word[INDEX_ENTRIES_MAX], victim;
	unsigned n = index_entries(s->index, bucket, word);
	bool any;

	for (;;) {
		victim = coldest(w, word, n, usable, &any);
		if (victim || !any)
			break;
		for (unsigned i = 0; i < n; i++)
			heat_cool(s->heat, offset_of(s, word[i]));
		if (!must)
			break;
	}
	return victim ? remove_entry(w, bucket, victim) : 0;
}

static enum evict_made made(const struct store_worker *w, bool any)
{
	if (w->evictions)
		return EVICT_BEGUN;
	return any ? EVICT_ROOM : EVICT_NOTHING;
}

enum evict_made evict_from(struct store_worker *w, uint64_t bucket)
{
	return made(w, remove_from(w, bucket, 0, true));
}

/* ------------------------------------------------------------------- pages */

static size_t page_of(const struct table *t, uint64_t offset)
{
	return (offset - t->heap_offset) / REGION_PAGE_BYTES;
}

/* Whether a segment of the index stands in the run: that stays. */
static bool has_index(const struct table *t, uint64_t from, uint64_t to)
{
	for (uint64_t i = 0; i < t->dir_entries; i++) {
		uint64_t at = atomic_load_explicit(&t->dir[i], memory_order_relaxed);
		if (!at)
			break;
		if (at < to && at + t->segment_bytes > from)
			return true;
	}
	return false;
}

/* Removes the key of what seems to be an item there, of so many bytes at the most. */
static void remove_at(struct store_worker *w, const uint8_t *at, size_t bytes)
{
	uint64_t key[LAYOUT_KEY_BYTES_MAX / 8];
	unsigned key_bytes = store_peek_key((const struct layout_item *)at, bytes, key);

	if (key_bytes)
		remove_key(w, key, key_bytes);
}

static void remove_slab(struct store_worker *w, const struct slab_held *slab)
{
	for (unsigned i = 0; i < slab->slots; i++)
		if (slab_held_is_taken(slab, i))
			remove_at(w, slab->addr + i * slab->slot_bytes, slab->slot_bytes);
}

/* What begins with that page, or, of a slab, has it; the page behind it. */
static size_t remove_page(struct store_worker *w, size_t page)
{
	const struct table *t = w->store->table;
	size_t bytes = heap_run_bytes(t->region, page);
	struct slab_held slab;

	if (bytes) {
		remove_at(w, region_page(t->region, page), bytes);
		return page + bytes / REGION_PAGE_BYTES;
	}
	if (!slabs_look(t->slabs, page, &slab))
		return page + 1;
	remove_slab(w, &slab);
	return page_of(t, table_offset(t, slab.addr) + slab.bytes);
}

/* The first page of an item of whole pages that the page is of; else the page. */
static size_t first_page(const struct table *t, size_t page)
{
	size_t first = page;

	while (first && !region_noted(t->region, first))
		first--;
	size_t bytes = heap_run_bytes(t->region, first);
	return first + bytes / REGION_PAGE_BYTES > page ? first : page;
}

static void remove_all_in(struct store_worker *w, uint64_t from, uint64_t to)
{
	const struct table *t = w->store->table;
	size_t end = page_of(t, to < t->bytes ? to : t->bytes);

	for (size_t page = first_page(t, page_of(t, from)); page < end;)
		page = remove_page(w, page);
}

static bool has_room(struct store_worker *w, uint64_t bytes)
{
	void *p = heap_alloc(w->heap, bytes);

	if (p)
		heap_free(w->heap, p, bytes);
	return p;
}

/* Empties runs of the region, one after the other in turn. */
static bool empty_run(struct store_worker *w, uint64_t bytes)
{
	struct evict *e = w->store->evict;
	struct table *t = w->store->table;

	for (unsigned runs = 0, looks = 0; runs < RUNS_MAX && looks < 1000; looks++) {
		uint64_t from = atomic_load(&e->run);
		if (from < t->heap_offset || from + bytes > t->bytes)
			from = t->heap_offset;
		uint64_t to = from + bytes + REGION_PAGE_BYTES;
		bool blocked = has_index(t, from, to);
		atomic_store(&e->run, blocked ? from + t->segment_bytes : to);
		if (blocked)
			continue;
		runs++;
		remove_all_in(w, from, to);
		heap_trim(w->heap);
		if (has_room(w, bytes))
			return true;
		if (made(w, true) == EVICT_BEGUN)
			break;
	}
	return false;
}

/* ------------------------------------------------------------------- slabs */

static unsigned used_in(const struct store *s, const struct slab_held *slab)
{
	uint64_t at = table_offset(s->table, slab->addr);
	unsigned used = 0;

	for (unsigned i = 0; i < slab->slots; i++)
		used += slab_held_is_taken(slab, i) && heat_uses(s->heat, at + i * slab->slot_bytes);
	return used;
}

/* Draws slabs of which one will do for such an item; that with the fewest used items a byte. */
static bool draw_slab(const struct store *s, uint64_t bytes_min, size_t *page)
{
	size_t pages = region_pages(s->table->region);
	uint64_t best_used = 0, best_bytes = 0;
	struct slab_held slab;

	for (unsigned n = 0, looks = 0; n < SLABS_DRAWN && looks < 8 * SLABS_DRAWN; looks++) {
		size_t at = roll(s->evict, pages);
		if (!slabs_look(s->table->slabs, at, &slab) || slab.bytes < bytes_min)
			continue;
		uint64_t used = used_in(s, &slab);
		n++;
		if (best_bytes && used * best_bytes >= best_used * slab.bytes)
			continue;
		best_used = used;
		best_bytes = slab.bytes;
		*page = at;
	}
	return best_bytes;
}

static void clear_slot(struct store_worker *w, uint8_t *slot, size_t slot_bytes)
{
	const struct store *s = w->store;

	if (!heat_uses(s->heat, table_offset(s->table, slot)) ||
	    store_move(w, (struct layout_item *)slot, slot_bytes, HEAP_PACKED) != STORE_MOVED)
		remove_at(w, slot, slot_bytes);
}

/* Of the slab that it holds, as many slots as it may in this round. */
static void clear_slots(struct store_worker *w)
{
	struct emptying *e = &w->emptying;
	const struct slab_held *slab = &e->slab;

	for (; e->slot < slab->slots && e->left_bytes >= slab->slot_bytes; e->slot++) {
		if (!slab_held_is_taken(slab, e->slot))
			continue;
		clear_slot(w, slab->addr + e->slot * slab->slot_bytes, slab->slot_bytes);
		e->left_bytes -= slab->slot_bytes;
	}
	heap_trim(w->heap); /* it keeps what was removed */
}

/* Goes on with the slab that it holds.  Whether its pages are all others' now. */
static bool empty_on(struct store_worker *w)
{
	struct emptying *e = &w->emptying;

	if (e->slot < e->slab.slots) {
		if (e->left_bytes < e->slab.slot_bytes)
			return false;
		uint64_t begun_ns = stall_begin(&w->stall);
		clear_slots(w);
		compact_note_stall(w, begun_ns);
	}
	/* In a cluster what was removed is there until all members have that. */
	return e->slot == e->slab.slots && !w->evictions && slabs_release(w->store->table->slabs, &e->slab);
}

/* Begins with a slab that may make room for such an item. */
static bool empty_slab(struct store_worker *w, uint64_t bytes)
{
	size_t page;

	if (!draw_slab(w->store, bytes, &page) ||
	    !slabs_hold(w->store->table->slabs, page, &w->emptying.slab))
		return false;
	w->emptying.slot = 0;
	return empty_on(w);
}

bool evict_is_emptying(const struct store_worker *w)
{
	return w->emptying.slab.number;
}

bool evict_is_due(const struct store_worker *w)
{
	return evict_is_emptying(w) && !w->evictions;
}

void evict_round(struct store_worker *w)
{
	w->emptying.left_bytes = STEP_BYTES;
	if (evict_is_due(w))
		empty_on(w);
}

void evict_leave(struct store_worker *w)
{
	if (evict_is_emptying(w))
		slabs_release(w->store->table->slabs, &w->emptying.slab);
}

enum evict_made evict_make_room(struct store_worker *w, uint64_t bytes)
{
	struct store *s = w->store;
	uint64_t usable = heap_usable_bytes(w->heap, bytes), freed = 0;

	if (usable >= HEAP_PAGES_BYTES_MIN)
		return made(w, empty_run(w, bytes));
	if (evict_is_emptying(w))
		return empty_on(w) ? EVICT_ROOM : EVICT_BEGUN;
	for (unsigned n = 0; n < VICTIMS_MAX && freed < FREED_MAX; n++) {
		uint64_t bucket = roll(s->evict, index_buckets(s->index));
		/* One of another size may be of no help: it does not go for that while it is used. */
		bool any = n < ANY_SIZE_MAX;
		uint64_t went = remove_from(w, bucket, any ? 0 : usable, !any);
		freed += went;
		if (is_of_size(went, usable) && made(w, true) == EVICT_ROOM)
			return EVICT_ROOM;
	}
	return made(w, empty_slab(w, bytes) || freed);
}
