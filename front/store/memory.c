/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/store/memory.h"

#include <stdlib.h>

#define SMALL_ALL ((size_t)MEMORY_SMALL_BYTES * MEMORY_SMALL_COUNT)
#define LARGE_ALL ((size_t)MEMORY_LARGE_BYTES * MEMORY_LARGE_COUNT)

/* A free piece, in its own memory. */
struct piece {
	struct piece *next;
};

static void push(struct piece **list, uint8_t *at)
{
	struct piece *p = (struct piece *)at;

	p->next = *list;
	*list = p;
}

static uint8_t *pop(struct piece **list)
{
	struct piece *p = *list;

	if (p)
		*list = p->next;
	return (uint8_t *)p;
}

void memory_init(struct memory *m, struct memory_budget *budget)
{
	*m = (struct memory){ .budget = budget };
}

void memory_destroy(struct memory *m)
{
	m->small = m->large = NULL;
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
		push(&m->small, (uint8_t *)arena + i * MEMORY_SMALL_BYTES);
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

static bool take_piece(struct piece **list, size_t bytes, struct block *block)
{
	block->at = pop(list);
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
