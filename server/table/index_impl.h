/* SPDX-License-Identifier: BSD-2-Clause */
/* index_impl.h -- what the parts of the index share: its state, its locks, its words. */
#ifndef SERVER_TABLE_INDEX_IMPL_H
#define SERVER_TABLE_INDEX_IMPL_H

#include <pthread.h>
#include <sched.h>

#include "common/dma.h"
#include "server/table/index_entry.h"
#include "server/table/table.h"

#define INDEX_LOCKS 4096u
/*
 * A bucket with so many words behind its own takes no more.  Chance makes no tenth of it:
 * somebody who knows the seed made keys for it, and each search there has to go through
 * all of them.  An expansion may bring the keys of two such buckets together.
 */
#define BUCKET_WORDS_MAX 224u

struct lock {
	atomic_flag held;
	char pad[63];
};

/* What one bucket held before it was written anew. */
struct content {
	uint64_t *word;
	bool *leaves;
	unsigned n; /* entry i < LAYOUT_BUCKET_WORDS stood in word i of the bucket */
	unsigned room;
	uint64_t *node; /* links */
	unsigned nodes;
	unsigned node_room;
};

struct index {
	struct table *table;
	_Atomic uint64_t buckets;
	_Atomic uint64_t keys;
	_Atomic uint64_t nodes;   /* overflow nodes linked */
	_Atomic uint64_t crowded; /* inserts that were refused */
	atomic_flag growing;      /* guards `content` */
	struct content content[3];
	struct lock lock[INDEX_LOCKS];

	pthread_mutex_t pool_lock;
	uint64_t *pool; /* offsets of free nodes */
	size_t pool_used, pool_room;
	size_t pool_nodes; /* there are, free or linked; never more than pool_room */
	size_t pool_reserve;  /* that inserts leave */
	size_t pool_promised; /* beyond these */
	bool pool_grows;      /* an expansion is under way, which may take its reserve */
	unsigned generation;
};

/* Acquire; pairs with the release in spin_unlock. */
static inline void spin_lock(struct lock *l)
{
	for (unsigned n = 0; atomic_flag_test_and_set_explicit(&l->held, memory_order_acquire); n++)
		if (n % 64 == 63)
			sched_yield();
}

static inline void spin_unlock(struct lock *l)
{
	atomic_flag_clear_explicit(&l->held, memory_order_release);
}

static inline unsigned lock_of(uint64_t bucket)
{
	return (unsigned)bucket % INDEX_LOCKS;
}

static inline _Atomic uint64_t *words_at(struct index *x, uint64_t offset)
{
	return (_Atomic uint64_t *)(x->table->base + offset);
}

static inline _Atomic uint64_t *bucket_words(struct index *x, uint64_t bucket)
{
	uint64_t per = x->table->segment_bytes / LAYOUT_BUCKET_BYTES;
	uint64_t segment =
		atomic_load_explicit(&x->table->dir[bucket / per], memory_order_relaxed);
	return words_at(x, segment + bucket % per * LAYOUT_BUCKET_BYTES);
}

/* Release: an item or a node is complete before a reader can find it. */
static inline void put(_Atomic uint64_t *at, unsigned slot, uint64_t word, unsigned epoch)
{
	word = (word & ~LAYOUT_EPOCH_MASK) | layout_epoch_bits(epoch, slot);
	dma_store_fence();
	atomic_store_explicit(at + slot, word, memory_order_release);
}

static inline uint64_t get(const _Atomic uint64_t *at, unsigned slot)
{
	return atomic_load_explicit(at + slot, memory_order_relaxed);
}

static inline const struct layout_item *item_of(struct index *x, uint64_t word)
{
	return (const struct layout_item *)(x->table->base + layout_word_offset(word, x->table->unit_mask));
}

/* The words of a bucket, or of a node behind it. */
struct words {
	_Atomic uint64_t *at;
	unsigned count;
	uint64_t bucket; /* its number; ~0 of a node */
};

static inline struct words words_of(struct index *x, uint64_t bucket)
{
	return (struct words){ bucket_words(x, bucket), LAYOUT_BUCKET_WORDS, bucket };
}

/* The link behind these words, or 0. */
static inline uint64_t link_of(const struct words *w)
{
	uint64_t last = get(w->at, w->count - 1);
	return layout_word_is_chain(last) ? last : 0;
}

/* Goes on to the node behind these words; false if there is none. */
static inline bool next_node(struct index *x, struct words *w)
{
	uint64_t link = link_of(w);

	if (!link)
		return false;
	*w = (struct words){ words_at(x, layout_word_offset(link, x->table->unit_mask)), LAYOUT_NODE_WORDS, ~0ull };
	return true;
}

#endif
