/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/store/memory.h"

#include <stdlib.h>

/* An odd number of cache lines: at multiples of 16 KiB the beginnings of all pieces, which is
 * all that short values take, would share a few sets of the cache. */
#define SMALL_STRIDE_BYTES ((size_t)MEMORY_SMALL_BYTES + 5 * 64)
#define SMALL_ALL (SMALL_STRIDE_BYTES * MEMORY_SMALL_COUNT)
#define LARGE_ALL ((size_t)MEMORY_LARGE_BYTES * MEMORY_LARGE_COUNT)

/* A piece is not touched by who frees or takes it: the device's copy meets it in any case. */
static void push(struct pieces *p, uint8_t *at)
{
	p->free[p->count++] = at;
}

static uint8_t *pop(struct pieces *p)
{
	return p->count ? p->free[--p->count] : NULL;
}

void memory_init(struct memory *m, struct memory_budget *budget)
{
	*m = (struct memory){ .budget = budget };
}

void memory_destroy(struct memory *m)
{
	m->small.count = m->large.count = 0;
	kvd_buffer_delete(&m->buffer);
}

const char *memory_make(struct memory *m, kvd_client *client)
{
	void *arena;

	if (m->asked)
		return NULL;
	m->asked = true;
	if (kvd_buffer_alloc(client, SMALL_ALL + LARGE_ALL, &arena, &m->buffer))
		return kvd_client_error(client);
	for (size_t i = MEMORY_SMALL_COUNT; i-- > 0;)
		push(&m->small, (uint8_t *)arena + i * SMALL_STRIDE_BYTES);
	for (size_t i = MEMORY_LARGE_COUNT; i-- > 0;)
		push(&m->large, (uint8_t *)arena + SMALL_ALL + i * MEMORY_LARGE_BYTES);
	return NULL;
}

static bool take_heap(struct memory *m, size_t bytes, struct block *block)
{
	uint64_t used = atomic_fetch_add_explicit(&m->budget->used, bytes, memory_order_relaxed);

	block->at = used + bytes <= m->budget->max ? malloc(bytes) : NULL;
	if (!block->at) {
		atomic_fetch_sub_explicit(&m->budget->used, bytes, memory_order_relaxed);
		return false;
	}
	block->bytes = bytes;
	block->heap = true;
	return true;
}

static bool take_piece(struct pieces *p, size_t bytes, struct block *block)
{
	block->at = pop(p);
	block->bytes = bytes;
	block->heap = false;
	return block->at;
}

bool memory_take(struct memory *m, size_t bytes, struct block *block)
{
	if (bytes <= MEMORY_SMALL_BYTES && take_piece(&m->small, MEMORY_SMALL_BYTES, block))
		return true;
	if (bytes > MEMORY_SMALL_BYTES && bytes <= MEMORY_LARGE_BYTES &&
	    take_piece(&m->large, MEMORY_LARGE_BYTES, block))
		return true;
	return take_heap(m, bytes, block);
}

bool memory_take_for_sending(struct memory *m, size_t bytes, struct block *block)
{
	return bytes <= MEMORY_HEAP_BYTES ? take_heap(m, bytes, block)
					  : memory_take(m, bytes, block);
}

void memory_give_back(struct memory *m, struct block *block)
{
	if (block->at && block->heap) {
		free(block->at);
		atomic_fetch_sub_explicit(&m->budget->used, block->bytes, memory_order_relaxed);
	} else if (block->at) {
		push(block->bytes == MEMORY_SMALL_BYTES ? &m->small : &m->large, block->at);
	}
	*block = (struct block){ 0 };
}
