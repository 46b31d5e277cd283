/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Growth of the index, by one bucket at a time.
 *
 * Expansion of a group of g buckets, from the last bucket to the first: the
 * entries that leave bucket j are written to bucket j + 1, whose own leavers are
 * gone already; then bucket j is written anew, word by word, with the next epoch.
 * So an entry is always in its old place or its new one, and a reader that sees
 * words of two epochs knows that it has to look at both.  (protocols.md, 12.)
 * Entries only ever move to a bucket of a higher number, so that a scan in
 * ascending order meets every key.
 *
 * How much a bucket holds is not taken for granted: `content` grows with it, before
 * anything is changed, as do the nodes that it may need.
 */
#include "common/dma.h"
#include "server/table/index_grow.h"

#include <stdlib.h>

#include "server/table/index_bucket.h"
#include "server/table/index_impl.h"
#include "server/table/index_node.h"
#include "server/table/index_segment.h"

/* Grow above 81 % of the buckets' words.  Overflow nodes don't count: they would
 * keep the index small, and so make more of themselves. */
#define LOAD_NUMERATOR 81u
#define LOAD_DENOMINATOR 100u
#define GROW_STEPS 2u

/*
 * Where an entry goes: true if it leaves bucket p when its group goes to the
 * next epoch.  The entry may stand there by either of its key's hashes.
 */
static bool entry_leaves(struct index *x, uint64_t word, uint64_t p, unsigned epoch)
{
	const struct layout_item *item = item_of(x, word);
	struct hash h = hash_key(x->table->hash_seed, item->data,
				 layout_key_bytes(item->lengths));
	uint64_t mine = layout_bucket_of(h.a, epoch) == p ? h.a : h.b;
	return layout_bucket_of(mine, epoch + 1) != p;
}

static bool make_room(struct content *c)
{
	if (c->n == c->room) {
		unsigned room = 2 * c->room + BUCKET_WORDS_MAX;
		uint64_t *word = realloc(c->word, room * sizeof *word);
		if (word)
			c->word = word;
		bool *leaves = word ? realloc(c->leaves, room * sizeof *leaves) : NULL;
		if (!leaves)
			return false;
		c->leaves = leaves;
		c->room = room;
	}
	if (c->nodes == c->node_room) {
		unsigned room = 2 * c->node_room + BUCKET_WORDS_MAX / LAYOUT_NODE_WORDS;
		uint64_t *node = realloc(c->node, room * sizeof *node);
		if (!node)
			return false;
		c->node = node;
		c->node_room = room;
	}
	return true;
}

void index_grow_fini(struct index *x)
{
	for (unsigned j = 0; j < sizeof x->content / sizeof x->content[0]; j++) {
		free(x->content[j].word);
		free(x->content[j].leaves);
		free(x->content[j].node);
	}
}

/* The bucket's own words keep their places; those behind it follow.  False: no memory. */
static bool collect(struct index *x, uint64_t p, unsigned epoch, struct content *c)
{
	struct words w = words_of(x, p);

	c->n = c->nodes = 0;
	for (unsigned i = 0; i < w.count; i++)
		__builtin_prefetch(item_of(x, get(w.at, i)));
	do {
		for (unsigned i = 0; i < w.count; i++) {
			uint64_t word = get(w.at, i);
			bool empty = layout_word_is_empty(word) || layout_word_is_chain(word);
			if (!make_room(c))
				return false;
			if (layout_word_is_chain(word))
				c->node[c->nodes++] = word;
			if (empty && w.bucket != p)
				continue;
			c->word[c->n] = empty ? 0 : word;
			c->leaves[c->n++] = !empty && entry_leaves(x, word, p, epoch);
		}
	} while (next_node(x, &w));
	return true;
}

/* The most nodes that are taken before those of the content are given back. */
static size_t nodes_for(const struct content *c, unsigned n)
{
	size_t nodes = 0;

	for (unsigned j = 0; j < n; j++) /* its stayers, and its leavers elsewhere */
		nodes += 2 * (c[j].n / (LAYOUT_NODE_WORDS - 1) + 2);
	return nodes;
}

/* Links as many nodes as n entries need, the last one first. */
static uint64_t new_chain(struct index *x, unsigned epoch, const uint64_t *entry, unsigned n)
{
	const unsigned last = LAYOUT_NODE_WORDS - 1;
	const uint64_t mask = x->table->unit_mask;
	unsigned first = n <= LAYOUT_NODE_WORDS ? 0 : (n - 2) / last * last;
	uint64_t link = 0, filter = 0;

	for (;; first -= last) {
		uint64_t next = link;
		unsigned count = next ? last : n - first;
		link = index_node_new(x, epoch, NODE_GROWTH);
		_Atomic uint64_t *node = words_at(x, layout_word_offset(link, mask));
		for (unsigned i = 0; i < count; i++) {
			put(node, i, entry[first + i], epoch);
			filter |= layout_filter(layout_word_fp(entry[first + i], mask), mask);
		}
		if (next)
			put(node, last, next, epoch);
		link |= filter;
		if (!first)
			return link;
	}
}

/* The stayers that stood in overflow nodes: into the bucket, the rest to a new chain.
 * They are packed in c->word. */
static void write_anew(struct index *x, uint64_t p, unsigned epoch, struct content *c)
{
	_Atomic uint64_t *at = bucket_words(x, p);
	const unsigned last = LAYOUT_BUCKET_WORDS - 1;
	uint64_t fresh[LAYOUT_BUCKET_WORDS], *over = c->word + LAYOUT_BUCKET_WORDS;
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
		index_node_delete(x, c->node[i]);
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

static void expand_bucket(struct index *x, const struct group *g, unsigned j)
{
	struct content *c = &x->content[j];
	struct index_entry e;

	for (unsigned k = 0; k < c->n; k++)
		if (c->leaves[k])
			index_add(x, g->bucket[j + 1], g->epoch + 1, c->word[k], NODE_GROWTH, &e);
	write_anew(x, g->bucket[j], g->epoch + 1, c);
}

/* All that may fail.  Caller: has the group locked. */
static bool prepare(struct index *x, const struct group *g)
{
	for (unsigned j = 0; j < g->n; j++)
		if (!collect(x, g->bucket[j], g->epoch, &x->content[j]))
			return false;
	size_t nodes = nodes_for(x->content, g->n);
	return nodes <= INDEX_NODES_RESERVED || index_nodes_reserve(x, nodes);
}

/* One more bucket.  False if there is no memory. */
static bool expand(struct index *x)
{
	uint64_t buckets = atomic_load_explicit(&x->buckets, memory_order_relaxed);
	struct group g;

	next_group(buckets, &g);
	if (g.epoch / 2 >= LAYOUT_LEVEL_MAX || !index_ensure_segment(x, buckets))
		return false;
	if (!index_nodes_reserve(x, INDEX_NODES_RESERVED)) {
		index_nodes_release(x);
		return false;
	}
	lock_group(x, &g, true);
	bool ok = prepare(x, &g);
	if (ok) {
		for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
			put(bucket_words(x, buckets), i, 0, g.epoch + 1);
		for (unsigned j = g.n; j-- > 0;)
			expand_bucket(x, &g, j);
		/* Release: pairs with the acquire in address(). */
		atomic_store_explicit(&x->buckets, buckets + 1, memory_order_release);
		dma_store_fence();
		__atomic_store_n(&x->table->header->buckets, buckets + 1, __ATOMIC_RELEASE);
	}
	lock_group(x, &g, false);
	index_nodes_release(x);
	return ok;
}

static bool is_over_load(const struct index *x)
{
	uint64_t words = LAYOUT_BUCKET_WORDS *
			 atomic_load_explicit(&x->buckets, memory_order_relaxed);
	return atomic_load_explicit(&x->keys, memory_order_relaxed) * LOAD_DENOMINATOR >
	       words * LOAD_NUMERATOR;
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
