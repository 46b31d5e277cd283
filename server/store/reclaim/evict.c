/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Happy path: a change finds no memory.  Buckets of the index are drawn at random; of the
 * entries in one, of which none was used, the oldest goes; where all were used, each
 * loses a use, until one has none.  So a key lives for as long as it is used between two
 * visits to its bucket, up to four of them, and the newest is not the first to go.  When
 * a key of the size that is wanted went, the change is tried again.
 *
 * A slab serves one size.  If the coldest keys are of other sizes, what they leave goes
 * to others in whole slabs only, which is compaction's work (compact.h); so after a few
 * of them a key of the right size goes, if there is one.
 *
 * An item of whole pages needs them side by side: a run of the region is emptied of
 * everything that stands in it.
 *
 * Keys that are locked or in the middle of a change stay.
 */
#include "server/store/reclaim/evict.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "server/store/change/remove.h"
#include "server/store/item/heat.h"
#include "server/table/heap.h"
#include "server/table/index.h"

#define AGES_A_TURN 16u /* while as many keys go as there are */
#define VICTIMS_MAX 64u
#define ANY_SIZE_MAX 16u /* victims of other sizes than what is wanted */
#define FREED_MAX (512ull << 10)
#define RUNS_MAX 2u
#define SLAB_BYTES_MAX (64ull << 10) /* that may reach into a run */
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

/* An entry's slot is of this size; 0: any. */
static bool is_of_size(uint64_t word, uint64_t usable)
{
	return !usable ||
	       heap_usable_bytes(layout_len_decode(layout_word_len_code(word))) == usable;
}

static uint64_t offset_of(const struct store *s, uint64_t word)
{
	return layout_word_offset(word, s->table->unit_mask);
}

/* The oldest one without a use, or 0.  *any: there was one with. */
static uint64_t coldest(const struct store *s, const uint64_t *word, unsigned count,
			uint64_t usable, bool *any)
{
	unsigned oldest = 0;
	uint64_t best = 0;

	*any = false;
	for (unsigned i = 0; i < count; i++) {
		if (!is_of_size(word[i], usable))
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

/* Removes the key of an entry; the bytes of its slot, 0: it stays. */
static uint64_t remove_entry(struct store_worker *w, uint64_t bucket, uint64_t word)
{
	struct store *s = w->store;
	uint8_t key[LAYOUT_KEY_BYTES_MAX];
	unsigned key_bytes = index_entry_key(s->index, bucket, word, key);
	struct store_change c = { .key = key, .key_bytes = key_bytes };

	if (!key_bytes)
		return 0;
	c.hash = hash_key(s->table->hash_seed, key, key_bytes);
	if (store_evict(w, &c) != WIRE_OK)
		return 0;
	count_one(s);
	return heap_usable_bytes(layout_len_decode(layout_word_len_code(word)));
}

/* A key of the bucket, of slots of `usable` bytes (0: any); the bytes, 0: none. */
static uint64_t remove_from(struct store_worker *w, uint64_t bucket, uint64_t usable)
{
	const struct store *s = w->store;
	uint64_t word[INDEX_ENTRIES_MAX], victim;
	unsigned n = index_entries(s->index, bucket, word);
	bool any;

	for (;;) {
		victim = coldest(s, word, n, usable, &any);
		if (victim || !any)
			break;
		for (unsigned i = 0; i < n; i++)
			heat_cool(s->heat, offset_of(s, word[i]));
	}
	return victim ? remove_entry(w, bucket, victim) : 0;
}

bool evict_from(struct store_worker *w, uint64_t bucket)
{
	return remove_from(w, bucket, 0) != 0;
}

/* ------------------------------------------------------------------- pages */

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

static void remove_all_in(struct store_worker *w, uint64_t from, uint64_t to)
{
	struct index *x = w->store->index;
	uint64_t word[INDEX_ENTRIES_MAX];

	for (uint64_t b = 0; b < index_buckets(x); b++) {
		unsigned n = index_entries(x, b, word);
		for (unsigned i = 0; i < n; i++) {
			uint64_t at = offset_of(w->store, word[i]);
			uint64_t bytes = layout_len_decode(layout_word_len_code(word[i]));
			if (at < to && at + bytes > from)
				remove_entry(w, b, word[i]);
		}
	}
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
		remove_all_in(w, from < SLAB_BYTES_MAX ? 0 : from - SLAB_BYTES_MAX,
			      to + SLAB_BYTES_MAX);
		heap_trim(w->heap);
		if (has_room(w, bytes))
			return true;
	}
	return false;
}

bool evict_make_room(struct store_worker *w, uint64_t bytes)
{
	struct store *s = w->store;
	uint64_t usable = heap_usable_bytes(bytes), freed = 0;

	if (usable >= HEAP_PAGES_BYTES_MIN)
		return empty_run(w, bytes);
	for (unsigned n = 0; n < VICTIMS_MAX && freed < FREED_MAX; n++) {
		uint64_t bucket = roll(s->evict, index_buckets(s->index));
		uint64_t went = remove_from(w, bucket, n < ANY_SIZE_MAX ? 0 : usable);
		freed += went;
		if (went == usable)
			return true;
	}
	return freed != 0;
}
