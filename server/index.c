/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index as its writers see it.
 *
 * Happy path: a worker locks the (at most two) bucket locks of a key, finds or
 * adds an entry by storing one word, and unlocks.  After an insert that took the
 * load over the mark, one worker expands one group.
 *
 * Expansion of a group of g buckets, from the last bucket to the first: the
 * entries that leave bucket j are written to bucket j + 1, whose own leavers are
 * gone already; then bucket j is written anew, word by word, with the next epoch.
 * So an entry is always in its old place or its new one, and a reader that sees
 * words of two epochs knows that it has to look at both.  (protocols.md, 12.)
 * Entries only ever move to a bucket of a higher number, so that a scan in
 * ascending order meets every key.
 *
 * An overflow node belongs to one bucket and one epoch for as long as it is
 * linked; its memory never becomes anything but an overflow node, and the word
 * that links it has its generation, so that a reader can tell that a node was
 * linked to the bucket all the time that it read it.
 *
 * Failure: without memory for a segment the index does not grow (chains get
 * longer); without memory for a node an insert fails, and the table is full.
 */
#include "server/index.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define LOCKS 4096u
#define NODES_PER_CHUNK 512u
/* Grow above 83 % of the buckets' words.  Overflow nodes don't count: they would
 * keep the index small, and so make more of themselves. */
#define LOAD_NUMERATOR 83u
#define LOAD_DENOMINATOR 100u
#define GROW_STEPS 2u
/* The most that one bucket may carry: bounds every scratch array here. */
#define BUCKET_ENTRIES_MAX 256u
#define BUCKET_NODES_MAX (BUCKET_ENTRIES_MAX / (LAYOUT_NODE_WORDS - 1u) + 2u)
/* What one expansion may need: its buckets written anew and their leavers. */
#define NODES_RESERVED (2u * 3u * BUCKET_NODES_MAX)

struct lock {
	atomic_flag held;
	char pad[63];
};

struct index {
	struct table *table;
	_Atomic uint64_t buckets;
	_Atomic uint64_t keys;
	_Atomic uint64_t nodes; /* overflow nodes linked */
	atomic_flag growing;
	struct lock lock[LOCKS];

	pthread_mutex_t pool_lock;
	uint64_t *pool; /* offsets of free nodes */
	size_t pool_used, pool_room;
	size_t pool_nodes; /* there are, free or linked; never more than pool_room */
	unsigned generation;
};

/* ------------------------------------------------------------------ locks */

/* Acquire; pairs with the release in spin_unlock. */
static void spin_lock(struct lock *l)
{
	for (unsigned n = 0; atomic_flag_test_and_set_explicit(&l->held, memory_order_acquire); n++)
		if (n % 64 == 63)
			sched_yield();
}

static void spin_unlock(struct lock *l)
{
	atomic_flag_clear_explicit(&l->held, memory_order_release);
}

static unsigned lock_of(uint64_t bucket)
{
	return (unsigned)bucket % LOCKS;
}

static uint64_t address(struct index *x, uint64_t hash, unsigned *epoch)
{
	/* Acquire: pairs with the release at the end of an expansion. */
	struct layout_view v =
		layout_view(atomic_load_explicit(&x->buckets, memory_order_acquire));
	*epoch = layout_view_epoch(&v, hash);
	return layout_bucket_of(hash, *epoch);
}

static void place(struct index *x, struct index_spot *s)
{
	s->bucket[0] = address(x, s->hash.a, &s->epoch[0]);
	s->bucket[1] = address(x, s->hash.b, &s->epoch[1]);
}

void index_lock(struct index *x, struct hash hash, struct index_spot *s)
{
	s->hash = hash;
	for (;;) {
		place(x, s);
		unsigned l0 = lock_of(s->bucket[0]), l1 = lock_of(s->bucket[1]);
		s->lock[0] = l0 < l1 ? l0 : l1;
		s->lock[1] = l0 < l1 ? l1 : l0;
		s->locks = l0 == l1 ? 1 : 2;
		for (unsigned i = 0; i < s->locks; i++)
			spin_lock(&x->lock[s->lock[i]]);
		/* An expansion may have come between: it needs these locks too, so
		 * if the address still holds now, it does until the unlock. */
		struct index_spot now = { .hash = hash };
		place(x, &now);
		if (now.bucket[0] == s->bucket[0] && now.bucket[1] == s->bucket[1] &&
		    now.epoch[0] == s->epoch[0] && now.epoch[1] == s->epoch[1])
			return;
		index_unlock(x, s);
	}
}

void index_unlock(struct index *x, const struct index_spot *s)
{
	for (unsigned i = s->locks; i-- > 0;)
		spin_unlock(&x->lock[s->lock[i]]);
}

/* ------------------------------------------------------------------ words */

static _Atomic uint64_t *words_at(struct index *x, uint64_t offset)
{
	return (_Atomic uint64_t *)(x->table->base + offset);
}

static _Atomic uint64_t *bucket_words(struct index *x, uint64_t bucket)
{
	uint64_t per = x->table->segment_bytes / LAYOUT_BUCKET_BYTES;
	uint64_t segment =
		atomic_load_explicit(&x->table->dir[bucket / per], memory_order_relaxed);
	return words_at(x, segment + bucket % per * LAYOUT_BUCKET_BYTES);
}

/* Release: an item or a node is complete before a reader can find it. */
static void put(_Atomic uint64_t *at, unsigned slot, uint64_t word, unsigned epoch)
{
	word = (word & ~LAYOUT_EPOCH_MASK) | layout_epoch_bits(epoch, slot);
	atomic_store_explicit(at + slot, word, memory_order_release);
}

static uint64_t get(const _Atomic uint64_t *at, unsigned slot)
{
	return atomic_load_explicit(at + slot, memory_order_relaxed);
}

static const struct layout_item *item_of(struct index *x, uint64_t word)
{
	return (const struct layout_item *)(x->table->base + layout_word_offset(word));
}

/* ------------------------------------------------------------------ nodes */

/* Makes sure that n nodes are free.  Caller: has pool_lock. */
static bool pool_fill(struct index *x, size_t n)
{
	while (x->pool_used < n) {
		size_t bytes = NODES_PER_CHUNK * LAYOUT_NODE_BYTES;
		if (x->pool_room < x->pool_nodes + NODES_PER_CHUNK) {
			size_t room = 2 * x->pool_room + NODES_PER_CHUNK;
			uint64_t *pool = realloc(x->pool, room * sizeof *pool);
			if (!pool)
				return false;
			x->pool = pool;
			x->pool_room = room;
		}
		uint8_t *chunk = region_alloc(x->table->region, bytes, REGION_PAGE_BYTES);
		if (!chunk)
			return false;
		x->pool_nodes += NODES_PER_CHUNK;
		for (unsigned i = 0; i < NODES_PER_CHUNK; i++)
			x->pool[x->pool_used++] =
				table_offset(x->table, chunk) + i * LAYOUT_NODE_BYTES;
	}
	return true;
}

/*
 * A node with all words empty at `epoch`, and the word that links it; 0: none.
 * Inserts leave a reserve, so that an expansion under way never fails.
 */
static uint64_t node_new(struct index *x, unsigned epoch, size_t reserve)
{
	uint64_t offset = 0;
	unsigned generation = 0;

	pthread_mutex_lock(&x->pool_lock);
	if (pool_fill(x, 1 + reserve)) {
		offset = x->pool[--x->pool_used];
		generation = ++x->generation;
	}
	pthread_mutex_unlock(&x->pool_lock);
	if (!offset)
		return 0;
	for (unsigned i = 0; i < LAYOUT_NODE_WORDS; i++)
		put(words_at(x, offset), i, 0, epoch);
	atomic_fetch_add_explicit(&x->nodes, 1, memory_order_relaxed);
	return layout_link(offset / LAYOUT_UNIT_BYTES, generation);
}

static void node_delete(struct index *x, uint64_t word)
{
	pthread_mutex_lock(&x->pool_lock);
	x->pool[x->pool_used++] = layout_word_offset(word); /* has room for all */
	pthread_mutex_unlock(&x->pool_lock);
	atomic_fetch_sub_explicit(&x->nodes, 1, memory_order_relaxed);
}

static bool pool_reserve(struct index *x)
{
	pthread_mutex_lock(&x->pool_lock);
	bool ok = pool_fill(x, NODES_RESERVED);
	pthread_mutex_unlock(&x->pool_lock);
	return ok;
}

/* The words of a bucket, or of a node behind it. */
struct words {
	_Atomic uint64_t *at;
	unsigned count;
	uint64_t bucket; /* its number; ~0 of a node */
};

static struct words words_of(struct index *x, uint64_t bucket)
{
	return (struct words){ bucket_words(x, bucket), LAYOUT_BUCKET_WORDS, bucket };
}

/* The link behind these words, or 0. */
static uint64_t link_of(const struct words *w)
{
	uint64_t last = get(w->at, w->count - 1);
	return layout_word_is_chain(last) ? last : 0;
}

/* Goes on to the node behind these words; false if there is none. */
static bool next_node(struct index *x, struct words *w)
{
	uint64_t link = link_of(w);

	if (!link)
		return false;
	*w = (struct words){ words_at(x, layout_word_offset(link)), LAYOUT_NODE_WORDS, ~0ull };
	return true;
}

/* ------------------------------------------------------- find and change */

static bool is_key(struct index *x, uint64_t word, const void *key, unsigned key_bytes)
{
	const struct layout_item *item = item_of(x, word);
	return layout_key_bytes(item->lengths) == key_bytes && !memcmp(item->data, key, key_bytes);
}

static bool find_in(struct index *x, uint64_t bucket, unsigned fp, const void *key,
		    unsigned key_bytes, struct index_entry *e)
{
	struct words w = words_of(x, bucket);

	do {
		for (unsigned i = 0; i < w.count; i++) {
			uint64_t word = get(w.at, i);
			if (layout_word_fp(word) != fp)
				continue;
			if (layout_word_is_empty(word) || layout_word_is_chain(word) ||
			    !is_key(x, word, key, key_bytes))
				continue;
			*e = (struct index_entry){ .at = w.at + i, .word = word,
						   .bucket = w.bucket, .slot = i };
			return true;
		}
	} while (next_node(x, &w));
	return false;
}

void index_prefetch(struct index *x, struct hash hash)
{
	struct index_spot s = { .hash = hash };

	place(x, &s);
	for (unsigned i = 0; i < 2; i++) {
		const _Atomic uint64_t *at = bucket_words(x, s.bucket[i]);
		__builtin_prefetch(&x->lock[lock_of(s.bucket[i])], 1);
		for (unsigned k = 0; k < LAYOUT_BUCKET_WORDS; k += 8)
			__builtin_prefetch((const void *)(at + k));
	}
}

bool index_find(struct index *x, const struct index_spot *s, const void *key, unsigned key_bytes,
		struct index_entry *e)
{
	unsigned fp = layout_fp(s->hash.a);

	if (find_in(x, s->bucket[0], fp, key, key_bytes, e))
		return true;
	return s->bucket[1] != s->bucket[0] &&
	       find_in(x, s->bucket[1], fp, key, key_bytes, e);
}

static unsigned free_words(const struct words *w, unsigned *first)
{
	unsigned n = 0;

	for (unsigned i = w->count; i-- > 0;) {
		if (layout_word_is_empty(get(w->at, i))) {
			*first = i;
			n++;
		}
	}
	return n;
}

/*
 * Hangs a node behind full words and puts the entry that stood in the last of
 * them, and the new one, into it, before it is linked.
 */
static bool extend(struct index *x, const struct words *w, unsigned epoch, uint64_t word,
		   size_t reserve, struct index_entry *e)
{
	unsigned last = w->count - 1;
	uint64_t link = node_new(x, epoch, reserve), moved = get(w->at, last);

	if (!link)
		return false;
	_Atomic uint64_t *node = words_at(x, layout_word_offset(link));
	put(node, 0, moved, epoch);
	put(node, 1, word, epoch);
	link |= layout_class(layout_word_fp(moved)) | layout_class(layout_word_fp(word));
	put(w->at, last, link, epoch);
	*e = (struct index_entry){ .at = node + 1, .word = get(node, 1), .bucket = ~0ull,
				   .slot = 1 };
	return true;
}

/* Adds a word to a bucket or its overflow. */
static bool add(struct index *x, uint64_t bucket, unsigned epoch, uint64_t word, size_t reserve,
		struct index_entry *e)
{
	struct words w = words_of(x, bucket);
	unsigned slot;

	for (;;) {
		if (free_words(&w, &slot)) {
			put(w.at, slot, word, epoch);
			*e = (struct index_entry){ .at = w.at + slot, .word = get(w.at, slot),
						   .bucket = w.bucket, .slot = slot };
			return true;
		}
		uint64_t link = link_of(&w);
		if (!link)
			return extend(x, &w, epoch, word, reserve, e);
		/* Readers have to know that it may be there before it is. */
		put(w.at, w.count - 1, link | layout_class(layout_word_fp(word)), epoch);
		next_node(x, &w);
	}
}

bool index_insert(struct index *x, const struct index_spot *s, uint64_t unit, unsigned len_code,
		  struct index_entry *e)
{
	struct words w[2] = { words_of(x, s->bucket[0]), words_of(x, s->bucket[1]) };
	unsigned slot;
	unsigned which = free_words(&w[1], &slot) > free_words(&w[0], &slot);

	if (!add(x, s->bucket[which], s->epoch[which],
		 layout_word(unit, len_code, layout_fp(s->hash.a)), NODES_RESERVED, e))
		return false;
	atomic_fetch_add_explicit(&x->keys, 1, memory_order_relaxed);
	return true;
}

void index_replace(struct index *x, struct index_entry *e, uint64_t unit, unsigned len_code)
{
	(void)x;
	e->word = layout_word(unit, len_code, layout_word_fp(e->word)) |
		  (e->word & LAYOUT_EPOCH_MASK);
	atomic_store_explicit(e->at, e->word, memory_order_release);
}

void index_remove(struct index *x, struct index_entry *e)
{
	atomic_store_explicit(e->at, e->word & LAYOUT_EPOCH_MASK, memory_order_release);
	atomic_fetch_sub_explicit(&x->keys, 1, memory_order_relaxed);
}

/* -------------------------------------------------------------- expansion */

/* What one bucket held before it was written anew. */
struct content {
	uint64_t word[BUCKET_ENTRIES_MAX];
	bool leaves[BUCKET_ENTRIES_MAX];
	unsigned n; /* entry i < LAYOUT_BUCKET_WORDS stood in word i of the bucket */
	uint64_t node[BUCKET_NODES_MAX]; /* links */
	unsigned nodes;
};

/*
 * Where an entry goes: true if it leaves bucket p when its group goes to the
 * next epoch.  The entry may stand there by either of its key's hashes.
 */
static bool entry_leaves(struct index *x, uint64_t word, uint64_t p, unsigned epoch)
{
	const struct layout_item *item = item_of(x, word);
	struct hash h = hash_key(item->data, layout_key_bytes(item->lengths));
	uint64_t mine = layout_bucket_of(h.a, epoch) == p ? h.a : h.b;
	return layout_bucket_of(mine, epoch + 1) != p;
}

static bool collect(struct index *x, uint64_t p, unsigned epoch, struct content *c)
{
	struct words w = words_of(x, p);

	c->n = LAYOUT_BUCKET_WORDS;
	c->nodes = 0;
	for (unsigned i = 0; i < w.count; i++)
		__builtin_prefetch(item_of(x, get(w.at, i)));
	do {
		for (unsigned i = 0; i < w.count; i++) {
			uint64_t word = get(w.at, i);
			bool empty = layout_word_is_empty(word) || layout_word_is_chain(word);
			if (layout_word_is_chain(word)) {
				if (c->nodes == BUCKET_NODES_MAX)
					return false;
				c->node[c->nodes++] = word;
			}
			if (w.bucket != p && (empty || c->n == BUCKET_ENTRIES_MAX)) {
				if (!empty)
					return false;
				continue;
			}
			unsigned k = w.bucket == p ? i : c->n++;
			c->word[k] = empty ? 0 : word;
			c->leaves[k] = !empty && entry_leaves(x, word, p, epoch);
		}
	} while (next_node(x, &w));
	return true;
}

/* Links as many nodes as n entries need, the last one first. */
static uint64_t new_chain(struct index *x, unsigned epoch, const uint64_t *entry, unsigned n)
{
	const unsigned last = LAYOUT_NODE_WORDS - 1;
	unsigned first = n <= LAYOUT_NODE_WORDS ? 0 : (n - 2) / last * last;
	uint64_t link = 0, classes = 0;

	for (;; first -= last) {
		uint64_t next = link;
		unsigned count = next ? last : n - first;
		link = node_new(x, epoch, 0);
		_Atomic uint64_t *node = words_at(x, layout_word_offset(link));
		for (unsigned i = 0; i < count; i++) {
			put(node, i, entry[first + i], epoch);
			classes |= layout_class(layout_word_fp(entry[first + i]));
		}
		if (next)
			put(node, last, next, epoch);
		link |= classes;
		if (!first)
			return link;
	}
}

/* The stayers that stood in overflow nodes: into the bucket, the rest to a new chain. */
static void write_anew(struct index *x, uint64_t p, unsigned epoch, struct content *c)
{
	_Atomic uint64_t *at = bucket_words(x, p);
	const unsigned last = LAYOUT_BUCKET_WORDS - 1;
	uint64_t fresh[LAYOUT_BUCKET_WORDS], over[BUCKET_ENTRIES_MAX];
	unsigned n = 0, next = 0;

	for (unsigned k = LAYOUT_BUCKET_WORDS; k < c->n; k++)
		if (!c->leaves[k])
			over[n++] = c->word[k];
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++) {
		fresh[i] = c->leaves[i] ? 0 : c->word[i];
		/* The last word stays free for the link unless all the rest fits. */
		if (!fresh[i] && next < n && (i < last || next + 1 == n))
			fresh[i] = over[next++];
	}
	if (next < n)
		fresh[last] = new_chain(x, epoch, over + next, n - next);
	/* The link last: until then the old chain is complete. */
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
		put(at, i, fresh[i], epoch);
	for (unsigned i = 0; i < c->nodes; i++)
		node_delete(x, c->node[i]);
}

static bool ensure_segment(struct index *x, uint64_t bucket)
{
	struct table *t = x->table;
	uint64_t per = t->segment_bytes / LAYOUT_BUCKET_BYTES, i = bucket / per;

	if (i >= t->dir_entries)
		return false;
	if (atomic_load_explicit(&t->dir[i], memory_order_relaxed))
		return true;
	uint8_t *segment = region_alloc(t->region, t->segment_bytes, REGION_PAGE_BYTES);
	if (!segment)
		return false;
	memset(segment, 0, t->segment_bytes);
	atomic_store_explicit(&t->dir[i], table_offset(t, segment), memory_order_release);
	return true;
}

/* The buckets of the group to be expanded next, the new one last. */
struct group {
	uint64_t bucket[4];
	unsigned n; /* before */
	unsigned epoch;
};

static void next_group(uint64_t buckets, struct group *g)
{
	struct layout_view v = layout_view(buckets);
	unsigned bits = LAYOUT_BASE_BITS + v.level;
	uint64_t base = v.split << (64 - bits);

	g->epoch = 2 * v.level + v.three;
	g->n = 2 + v.three;
	for (unsigned j = 0; j < g->n; j++) {
		/* A hash in the middle of the j-th part of the group's range. */
		uint64_t part = (uint64_t)(((unsigned __int128)(2 * j + 1) << 64) / (2 * g->n));
		g->bucket[j] = layout_bucket_of(base | part >> bits, g->epoch);
	}
	g->bucket[g->n] = buckets;
}

static void lock_group(struct index *x, const struct group *g, bool lock)
{
	unsigned order[4], n = g->n + 1;

	for (unsigned i = 0; i < n; i++) {
		unsigned j = i, l = lock_of(g->bucket[i]);
		for (; j > 0 && order[j - 1] > l; j--)
			order[j] = order[j - 1];
		order[j] = l;
	}
	for (unsigned i = 0; i < n; i++) {
		if (i && order[i] == order[i - 1])
			continue;
		if (lock)
			spin_lock(&x->lock[order[i]]);
		else
			spin_unlock(&x->lock[order[i]]);
	}
}

static void expand_bucket(struct index *x, const struct group *g, unsigned j, struct content *c)
{
	struct index_entry e;

	for (unsigned k = 0; k < c->n; k++)
		if (c->leaves[k])
			add(x, g->bucket[j + 1], g->epoch + 1, c->word[k], 0, &e);
	write_anew(x, g->bucket[j], g->epoch + 1, c);
}

/* One more bucket.  False if there is no memory or a bucket is overfull. */
static bool expand(struct index *x)
{
	uint64_t buckets = atomic_load_explicit(&x->buckets, memory_order_relaxed);
	struct content content[3];
	struct group g;
	bool ok = true;

	next_group(buckets, &g);
	if (g.epoch / 2 >= LAYOUT_LEVEL_MAX || !ensure_segment(x, buckets) ||
	    !pool_reserve(x))
		return false;
	lock_group(x, &g, true);
	for (unsigned j = 0; j < g.n && ok; j++)
		ok = collect(x, g.bucket[j], g.epoch, &content[j]);
	if (ok) {
		for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
			put(bucket_words(x, buckets), i, 0, g.epoch + 1);
		for (unsigned j = g.n; j-- > 0;)
			expand_bucket(x, &g, j, &content[j]);
		/* Release: pairs with the acquire in address(). */
		atomic_store_explicit(&x->buckets, buckets + 1, memory_order_release);
		__atomic_store_n(&x->table->header->buckets, buckets + 1, __ATOMIC_RELEASE);
	}
	lock_group(x, &g, false);
	return ok;
}

static bool is_over_load(const struct index *x)
{
	uint64_t words = LAYOUT_BUCKET_WORDS * index_buckets(x);
	return index_keys(x) * LOAD_DENOMINATOR > words * LOAD_NUMERATOR;
}

void index_grow(struct index *x)
{
	if (!is_over_load(x) ||
	    atomic_flag_test_and_set_explicit(&x->growing, memory_order_acquire))
		return;
	for (unsigned i = 0; i < GROW_STEPS && is_over_load(x) && expand(x); i++)
		;
	atomic_flag_clear_explicit(&x->growing, memory_order_release);
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
	pthread_mutex_init(&x->pool_lock, NULL);
	for (uint64_t b = 0; b < LAYOUT_BUCKETS_MIN; b++) {
		if (!ensure_segment(x, b)) {
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
