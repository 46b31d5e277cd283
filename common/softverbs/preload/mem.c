/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.c -- memory of unmodified programs that peers can map.
 *
 * Programs that want speed allocate their regions on page boundaries: memalign(),
 * posix_memalign() or aligned_alloc() with the alignment of a page.  That memory
 * comes from sv_mem_alloc(), so a READ of it is a copy and needs no instruction of
 * its owner.  Other memory can be registered too, and is served by the control
 * thread; nothing is ever remapped.
 *
 * Memory given so is shared with forked children, not copied.  SOFTVERBS_MEMALIGN=0
 * leaves the allocator alone.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "common/softverbs/preload/preload.h"

/* Each costs descriptors; a program that has more of them gets the rest from the
 * system's allocator. */
#define BLOCKS_MAX 256
#define SMALLEST_PAGE 4096u

static struct block {
	_Atomic(void *) addr; /* NULL: free; written under the lock */
	size_t bytes;	      /* as asked for */
} blocks[BLOCKS_MAX];
/* How many of them were ever used; a reader looks at no more. */
static _Atomic unsigned int used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_wanted(void)
{
	static _Atomic int known; /* 1: yes, 2: no */
	int value = atomic_load_explicit(&known, memory_order_relaxed);
	const char *text;

	if (!value) {
		text = getenv("SOFTVERBS_MEMALIGN");
		value = text && !strcmp(text, "0") ? 2 : 1;
		atomic_store_explicit(&known, value, memory_order_relaxed);
	}
	return value == 1;
}

/* The block that begins there; NULL.  Only its owner may free it, so what is found
 * stays. */
static struct block *find(const void *addr)
{
	unsigned int n;

	if (!addr || (uintptr_t)addr % SMALLEST_PAGE)
		return NULL;
	n = atomic_load_explicit(&used, memory_order_acquire);
	for (unsigned int i = 0; i < n; i++) {
		if (atomic_load_explicit(&blocks[i].addr, memory_order_acquire) == addr)
			return &blocks[i];
	}
	return NULL;
}

/* lock held. */
static struct block *free_block(void)
{
	unsigned int i;

	for (i = 0; i < BLOCKS_MAX && atomic_load_explicit(&blocks[i].addr, memory_order_relaxed);)
		i++;
	return i < BLOCKS_MAX ? &blocks[i] : NULL;
}

/* Memory on a page boundary; NULL: it has to come from elsewhere. */
static void *allocate(size_t alignment, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct block *block;
	void *addr = NULL;

	if (alignment != page || !bytes || !is_wanted())
		return NULL;
	pthread_mutex_lock(&lock);
	block = free_block();
	if (block && !sv_mem_alloc(bytes, 0, &addr)) {
		unsigned int n = (unsigned int)(block - blocks) + 1;

		block->bytes = bytes;
		/* release: partner find(). */
		atomic_store_explicit(&block->addr, addr, memory_order_release);
		if (n > atomic_load_explicit(&used, memory_order_relaxed))
			atomic_store_explicit(&used, n, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return addr;
}

static void release(struct block *block)
{
	void *addr;

	pthread_mutex_lock(&lock);
	addr = atomic_load_explicit(&block->addr, memory_order_relaxed);
	/* What is still registered stays: a peer may be reading it. */
	if (!sv_mem_free(addr))
		atomic_store_explicit(&block->addr, NULL, memory_order_release);
	pthread_mutex_unlock(&lock);
}

EXPORT void *memalign(size_t alignment, size_t bytes)
{
	void *addr = allocate(alignment, bytes);

	return addr ? addr : SYSTEM(memalign)(alignment, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
	void *addr = allocate(alignment, bytes);

	return addr ? addr : SYSTEM(aligned_alloc)(alignment, bytes);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	void *addr = allocate(alignment, bytes);

	if (!addr)
		return SYSTEM(posix_memalign)(out, alignment, bytes);
	*out = addr;
	return 0;
}

EXPORT void free(void *addr)
{
	struct block *block = find(addr);

	if (block)
		release(block);
	else
		SYSTEM(free)(addr);
}

/* Before a function is missed: the search for free() itself frees what dlerror() is to say of that. */
__attribute__((constructor)) static void find_free(void)
{
	void *volatile none = NULL; /* which the compiler does not know */

	free(none);
}

EXPORT void *realloc(void *addr, size_t bytes)
{
	struct block *block = find(addr);
	void *other;

	if (!block)
		return SYSTEM(realloc)(addr, bytes);
	if (!bytes) {
		release(block);
		return NULL;
	}
	other = malloc(bytes);
	if (!other)
		return NULL;
	memcpy(other, addr, bytes < block->bytes ? bytes : block->bytes);
	release(block);
	return other;
}

EXPORT size_t malloc_usable_size(void *addr)
{
	struct block *block = find(addr);

	return block ? block->bytes : SYSTEM(malloc_usable_size)(addr);
}
