/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Overflow nodes: a pool that only grows.  The memory of a node never becomes anything
 * but a node, and the word that links it has its generation.
 */
#include "server/table/index_node.h"

#include <stdlib.h>

#define NODES_PER_CHUNK 512u

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

uint64_t index_node_new(struct index *x, unsigned epoch, enum node_use use)
{
	uint64_t offset = 0;
	unsigned generation = 0;

	pthread_mutex_lock(&x->pool_lock);
	if (pool_fill(x, 1 + (use == NODE_INSERT ? x->pool_reserve + x->pool_promised : 0))) {
		offset = x->pool[--x->pool_used];
		generation = ++x->generation;
	}
	pthread_mutex_unlock(&x->pool_lock);
	if (!offset)
		return 0;
	for (unsigned i = 0; i < LAYOUT_NODE_WORDS; i++)
		put(words_at(x, offset), i, 0, epoch);
	atomic_fetch_add_explicit(&x->nodes, 1, memory_order_relaxed);
	return layout_link(offset >> layout_unit_shift(x->table->unit_mask), generation);
}

void index_node_delete(struct index *x, uint64_t word)
{
	pthread_mutex_lock(&x->pool_lock);
	x->pool[x->pool_used++] = layout_word_offset(word, x->table->unit_mask); /* has room for all */
	pthread_mutex_unlock(&x->pool_lock);
	atomic_fetch_sub_explicit(&x->nodes, 1, memory_order_relaxed);
}

bool index_nodes_reserve(struct index *x, size_t n)
{
	pthread_mutex_lock(&x->pool_lock);
	x->pool_reserve = n;
	x->pool_grows = true;
	bool ok = pool_fill(x, n + x->pool_promised);
	pthread_mutex_unlock(&x->pool_lock);
	return ok;
}

void index_nodes_release(struct index *x)
{
	pthread_mutex_lock(&x->pool_lock);
	x->pool_reserve = INDEX_NODES_RESERVED;
	x->pool_grows = false;
	pthread_mutex_unlock(&x->pool_lock);
}

bool index_node_promise(struct index *x, bool needed)
{
	pthread_mutex_lock(&x->pool_lock);
	bool ok = pool_fill(x, x->pool_reserve + x->pool_promised + 1) ||
		  (!needed && !x->pool_grows && x->pool_used > x->pool_promised);
	x->pool_promised += ok;
	pthread_mutex_unlock(&x->pool_lock);
	return ok;
}

void index_node_promises_end(struct index *x, unsigned count)
{
	pthread_mutex_lock(&x->pool_lock);
	x->pool_promised -= count;
	pthread_mutex_unlock(&x->pool_lock);
}
