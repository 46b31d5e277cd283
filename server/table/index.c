/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index as its writers see it.
 *
 * Happy path: a worker locks the (at most two) bucket locks of a key, finds or
 * adds an entry by storing one word, and unlocks.  After an insert that took the
 * load over the mark, one worker expands one group (index_grow.c).
 *
 * An overflow node belongs to one bucket and one epoch for as long as it is
 * linked, and the word that links it has its generation, so that a reader can tell that
 * a node was linked to the bucket all the time that it read it (index_node.c).
 *
 * Failure: without memory for a segment the index does not grow (chains get
 * longer); without memory for a node an insert fails, and the table is full.
 */
#include "common/dma.h"
#include "server/table/index.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/table/index_bucket.h"
#include "server/table/index_grow.h"
#include "server/table/index_impl.h"
#include "server/table/index_node.h"
#include "server/table/index_segment.h"
#include "server/table/match.h"

#define ITEM_PREFETCH_BYTES 256u /* the rest of a longer one comes by itself */

/* ------------------------------------------------------------------ locks */

/* Acquire: pairs with the release at the end of an expansion. */
static uint64_t buckets_of(struct index *x)
{
	return atomic_load_explicit(&x->buckets, memory_order_acquire);
}

static uint64_t address(const struct layout_view *v, uint64_t hash, unsigned *epoch)
{
	*epoch = layout_view_epoch(v, hash);
	return layout_bucket_of(hash, *epoch);
}

/* In an index of so many buckets. */
static void place(struct index_spot *s, uint64_t buckets)
{
	struct layout_view v = layout_view(buckets);

	s->bucket[0] = address(&v, s->hash.a, &s->epoch[0]);
	s->bucket[1] = address(&v, s->hash.b, &s->epoch[1]);
}

/* Whether the spot is where it was, in an index of so many buckets. */
static bool holds(const struct index_spot *s, uint64_t buckets)
{
	struct index_spot now = { .hash = s->hash };

	place(&now, buckets);
	return now.bucket[0] == s->bucket[0] && now.bucket[1] == s->bucket[1] &&
	       now.epoch[0] == s->epoch[0] && now.epoch[1] == s->epoch[1];
}

void index_lock(struct index *x, struct hash hash, struct index_spot *s)
{
	s->hash = hash;
	for (;;) {
		uint64_t before = buckets_of(x), now;
		place(s, before);
		unsigned l0 = lock_of(s->bucket[0]), l1 = lock_of(s->bucket[1]);
		s->lock[0] = l0 < l1 ? l0 : l1;
		s->lock[1] = l0 < l1 ? l1 : l0;
		s->locks = l0 == l1 ? 1 : 2;
		for (unsigned i = 0; i < s->locks; i++)
			spin_lock(&x->lock[s->lock[i]]);
		/* An expansion may have come between: it needs these locks too, so
		 * if the address still holds now, it does until the unlock. */
		now = buckets_of(x);
		if (now == before || holds(s, now))
			return;
		index_unlock(x, s);
	}
}

void index_unlock(struct index *x, const struct index_spot *s)
{
	for (unsigned i = s->locks; i-- > 0;)
		spin_unlock(&x->lock[s->lock[i]]);
}

/* ------------------------------------------------------- find and change */

static bool is_key(struct index *x, uint64_t word, const void *key, unsigned key_bytes)
{
	const struct layout_item *item = item_of(x, word);
	return layout_key_bytes(item->lengths) == key_bytes && !memcmp(item->data, key, key_bytes);
}

static bool find_in(struct index *x, uint64_t bucket, uint64_t fp, const void *key,
		    unsigned key_bytes, struct index_entry *e)
{
	const uint64_t mask = layout_fp_mask(x->table->unit_mask);
	struct words w = words_of(x, bucket);

	do {
		uint32_t bits = words_matching((const void *)w.at, w.count, mask, fp);
		for (; bits; bits &= bits - 1) {
			unsigned i = (unsigned)__builtin_ctz(bits);
			uint64_t word = get(w.at, i);
			if (!words_is_entry(word, mask, fp) || !is_key(x, word, key, key_bytes))
				continue;
			*e = (struct index_entry){ .at = w.at + i, .word = word,
						   .bucket = w.bucket, .slot = i };
			return true;
		}
	} while (next_node(x, &w));
	return false;
}

void index_prefetch(struct index *x, struct hash hash, struct index_spot *s)
{
	s->hash = hash;
	place(s, buckets_of(x));
	for (unsigned i = 0; i < 2; i++) {
		const _Atomic uint64_t *at = bucket_words(x, s->bucket[i]);
		__builtin_prefetch(&x->lock[lock_of(s->bucket[i])], 1);
		for (unsigned k = 0; k < LAYOUT_BUCKET_WORDS; k += 8)
			__builtin_prefetch((const void *)(at + k));
	}
}

/* Also where a client's READ has it in another cache: a fence would wait until it is there no more.
 * Compilers ask for less where a processor could be too old for this, which then does nothing. */
static void prefetch_to_write(const void *at)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
	__builtin_prefetch(at, 1);
#endif
}

void index_prefetch_item(struct index *x, const struct index_spot *s)
{
	const uint64_t mask = layout_fp_mask(x->table->unit_mask);
	const uint64_t fp = layout_fp(s->hash.a, x->table->unit_mask);

	for (unsigned i = 0; i < 2; i++) {
		const _Atomic uint64_t *at = bucket_words(x, s->bucket[i]);
		uint32_t bits = words_matching((const void *)at, LAYOUT_BUCKET_WORDS, mask, fp);
		for (; bits; bits &= bits - 1) {
			const uint8_t *item = (const uint8_t *)item_of(x, get(at, __builtin_ctz(bits)));
			for (unsigned k = 0; k < ITEM_PREFETCH_BYTES; k += 64)
				prefetch_to_write(item + k);
		}
	}
}

bool index_find(struct index *x, const struct index_spot *s, const void *key, unsigned key_bytes,
		struct index_entry *e)
{
	uint64_t fp = layout_fp(s->hash.a, x->table->unit_mask);

	if (find_in(x, s->bucket[0], fp, key, key_bytes, e))
		return true;
	return s->bucket[1] != s->bucket[0] &&
	       find_in(x, s->bucket[1], fp, key, key_bytes, e);
}

bool index_find_again(struct index *x, const struct index_spot *s, const void *key,
		      unsigned key_bytes, struct index_entry *e)
{
	if ((e->bucket == s->bucket[0] || e->bucket == s->bucket[1]) &&
	    get(bucket_words(x, e->bucket), e->slot) == e->word)
		return true;
	return index_find(x, s, key, key_bytes, e);
}

/* Words behind a bucket's own, until there are too many. */
static unsigned words_behind(struct index *x, uint64_t bucket)
{
	struct words w = words_of(x, bucket);
	unsigned n = 0;

	while (n < BUCKET_WORDS_MAX && next_node(x, &w))
		n += w.count - 1;
	return n;
}

/* Whether a word of the buckets' own is free, and of which. */
static bool has_room(struct index *x, const struct index_spot *s, unsigned *which)
{
	struct words w[2] = { words_of(x, s->bucket[0]), words_of(x, s->bucket[1]) };
	unsigned slot, room[2] = { index_free_words(&w[0], &slot), index_free_words(&w[1], &slot) };

	*which = room[1] > room[0];
	return room[*which];
}

/* Where a key is to go; false: to neither. */
static bool choose(struct index *x, const struct index_spot *s, unsigned *which)
{
	if (has_room(x, s, which))
		return true;
	unsigned behind[2] = { words_behind(x, s->bucket[0]), words_behind(x, s->bucket[1]) };
	*which = behind[1] < behind[0];
	return behind[*which] < BUCKET_WORDS_MAX;
}

bool index_has_place(struct index *x, const struct index_spot *s)
{
	unsigned which;

	if (choose(x, s, &which))
		return true;
	atomic_fetch_add_explicit(&x->crowded, 1, memory_order_relaxed);
	return false;
}

static bool insert_into(struct index *x, const struct index_spot *s, unsigned which, uint64_t unit,
			unsigned len_code, enum node_use use, struct index_entry *e)
{
	uint64_t word = layout_word(unit, len_code, layout_fp(s->hash.a, x->table->unit_mask));

	if (!index_add(x, s->bucket[which], s->epoch[which], word, use, e))
		return false;
	atomic_fetch_add_explicit(&x->keys, 1, memory_order_relaxed);
	return true;
}

bool index_insert(struct index *x, const struct index_spot *s, uint64_t unit, unsigned len_code,
		  struct index_entry *e)
{
	unsigned which;

	return choose(x, s, &which) && insert_into(x, s, which, unit, len_code, NODE_INSERT, e);
}

bool index_promise(struct index *x, const struct index_spot *s)
{
	unsigned which;

	return choose(x, s, &which) && index_node_promise(x, !has_room(x, s, &which));
}

void index_promises_end(struct index *x, unsigned count)
{
	index_node_promises_end(x, count);
}

/* Others may have filled the buckets since it was promised; that limit is for new ones. */
void index_insert_promised(struct index *x, const struct index_spot *s, uint64_t unit,
			   unsigned len_code, struct index_entry *e)
{
	unsigned which;

	choose(x, s, &which);
	bool inserted = insert_into(x, s, which, unit, len_code, NODE_PROMISED, e);
	assert(inserted);
	(void)inserted;
}

void index_replace(struct index *x, struct index_entry *e, uint64_t unit, unsigned len_code)
{
	e->word = layout_word(unit, len_code, layout_word_fp(e->word, x->table->unit_mask)) |
		  (e->word & LAYOUT_EPOCH_MASK);
	dma_store_fence();
	atomic_store_explicit(e->at, e->word, memory_order_release);
}

void index_remove(struct index *x, struct index_entry *e)
{
	dma_store_fence();
	atomic_store_explicit(e->at, e->word & LAYOUT_EPOCH_MASK, memory_order_release);
	atomic_fetch_sub_explicit(&x->keys, 1, memory_order_relaxed);
}

/* ------------------------------------------------------------------- rest */

int index_new(struct table *table, struct index **index)
{
	struct index *x;
	int rc = posix_memalign((void **)&x, 64, sizeof *x);

	if (rc)
		return rc;
	memset(x, 0, sizeof *x);
	x->table = table;
	x->pool_reserve = INDEX_NODES_RESERVED;
	pthread_mutex_init(&x->pool_lock, NULL);
	for (uint64_t b = 0; b < LAYOUT_BUCKETS_MIN; b++) {
		if (!index_ensure_segment(x, b)) {
			index_delete(&x);
			return ENOMEM;
		}
		for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
			put(bucket_words(x, b), i, 0, 0);
	}
	atomic_store(&x->buckets, LAYOUT_BUCKETS_MIN);
	table->header->buckets = LAYOUT_BUCKETS_MIN;
	*index = x;
	return 0;
}

void index_delete(struct index **index)
{
	if (!*index)
		return;
	pthread_mutex_destroy(&(*index)->pool_lock);
	free((*index)->pool);
	index_grow_fini(*index);
	free(*index);
	*index = NULL;
}

uint64_t index_keys(const struct index *x)
{
	return atomic_load_explicit(&x->keys, memory_order_relaxed);
}

uint64_t index_buckets(const struct index *x)
{
	return atomic_load_explicit(&x->buckets, memory_order_relaxed);
}

uint64_t index_crowded(const struct index *x)
{
	return atomic_load_explicit(&x->crowded, memory_order_relaxed);
}

uint64_t index_overflow_nodes(const struct index *x)
{
	return atomic_load_explicit(&x->nodes, memory_order_relaxed);
}

/* Counts places, not entries: those only move on to a later one, whatever comes and goes. */
static unsigned walk_locked(struct index *x, uint64_t bucket, unsigned skip,
			    bool (*each)(void *arg, const struct layout_item *item), void *arg)
{
	struct words w = words_of(x, bucket);
	unsigned place = 0;

	do {
		for (unsigned i = 0; i < w.count; i++, place++) {
			uint64_t word = get(w.at, i);
			if (place < skip || layout_word_is_empty(word) || layout_word_is_chain(word))
				continue;
			if (!each(arg, item_of(x, word)))
				return place;
		}
	} while (next_node(x, &w));
	return place;
}

unsigned index_walk(struct index *x, uint64_t bucket, unsigned skip, unsigned *epoch,
		    bool (*each)(void *arg, const struct layout_item *item), void *arg)
{
	struct lock *l = &x->lock[lock_of(bucket)];
	uint64_t words[LAYOUT_BUCKET_WORDS];
	unsigned now = 0;

	spin_lock(l);
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
		words[i] = get(bucket_words(x, bucket), i);
	layout_bucket_epoch(words, &now);
	if (now != *epoch)
		skip = 0;
	*epoch = now;
	skip = walk_locked(x, bucket, skip, each, arg);
	spin_unlock(l);
	return skip;
}

unsigned index_entries(struct index *x, uint64_t bucket, uint64_t word[INDEX_ENTRIES_MAX])
{
	struct lock *l = &x->lock[lock_of(bucket)];
	struct words w = words_of(x, bucket);
	unsigned n = 0;

	spin_lock(l);
	do {
		for (unsigned i = 0; i < w.count && n < INDEX_ENTRIES_MAX; i++) {
			uint64_t at = get(w.at, i);
			if (!layout_word_is_empty(at) && !layout_word_is_chain(at))
				word[n++] = at & ~LAYOUT_EPOCH_MASK;
		}
	} while (next_node(x, &w));
	spin_unlock(l);
	return n;
}

unsigned index_entry_key(struct index *x, uint64_t bucket, uint64_t word, void *key)
{
	struct lock *l = &x->lock[lock_of(bucket)];
	struct words w = words_of(x, bucket);
	unsigned key_bytes = 0;

	spin_lock(l);
	do {
		for (unsigned i = 0; i < w.count && !key_bytes; i++) {
			if ((get(w.at, i) & ~LAYOUT_EPOCH_MASK) != word)
				continue;
			const struct layout_item *item = item_of(x, word);
			key_bytes = layout_key_bytes(item->lengths);
			memcpy(key, item->data, key_bytes);
		}
	} while (!key_bytes && next_node(x, &w));
	spin_unlock(l);
	return key_bytes;
}
