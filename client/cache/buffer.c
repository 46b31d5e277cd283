/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffers of a client, ordered by address, under a sequence lock: a writer makes
 * `sequence` odd meanwhile; a reader that met an odd or a changed one looks again.
 *
 * For device memory: the CPU touches a value's bytes where it checks or makes a
 * checksum (pieces_checksum, pieces_hash) and where it copies short ones
 * (pieces_gather, pieces_scatter).  These would go through a staging buffer.
 */
#include "client/cache/buffer.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "client/kvd.h"

struct entry {
	_Atomic uintptr_t begin, end;
	_Atomic uint32_t lkey, rkey;
};

struct buffers {
	_Atomic uint64_t sequence;
	_Atomic unsigned count;
	struct entry entry[KVD_BUFFERS_MAX];
};

struct buffers *buffers_new(void)
{
	return calloc(1, sizeof(struct buffers));
}

void buffers_delete(struct buffers *b)
{
	free(b);
}

#define LOAD(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define STORE(x, value) atomic_store_explicit(&(x), value, memory_order_relaxed)

/* The number of entries that begin at or before `addr`. */
static unsigned search(struct buffers *b, uintptr_t addr)
{
	unsigned low = 0, high = LOAD(b->count);

	while (low < high) {
		unsigned middle = (low + high) / 2;
		if (LOAD(b->entry[middle].begin) <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool look(struct buffers *b, uintptr_t begin, size_t bytes, struct buffer_keys *keys)
{
	unsigned i = search(b, begin);

	if (!i || begin + bytes > LOAD(b->entry[i - 1].end) || begin + bytes < begin)
		return false;
	keys->lkey = LOAD(b->entry[i - 1].lkey);
	keys->rkey = LOAD(b->entry[i - 1].rkey);
	return true;
}

bool buffers_any(const struct buffers *b)
{
	return LOAD(b->count);
}

bool buffers_find(struct buffers *b, const void *addr, size_t bytes, struct buffer_keys *keys)
{
	if (!LOAD(b->count))
		return false;
	for (;;) {
		uint64_t before = atomic_load_explicit(&b->sequence, memory_order_acquire);
		bool found = look(b, (uintptr_t)addr, bytes, keys);
		atomic_thread_fence(memory_order_acquire);
		if (!(before & 1) && LOAD(b->sequence) == before)
			return found;
		sched_yield();
	}
}

static void begin_change(struct buffers *b)
{
	STORE(b->sequence, LOAD(b->sequence) + 1);
	atomic_thread_fence(memory_order_release);
}

static void end_change(struct buffers *b)
{
	atomic_store_explicit(&b->sequence, LOAD(b->sequence) + 1, memory_order_release);
}

static void copy_entry(struct entry *to, const struct entry *from)
{
	STORE(to->begin, LOAD(from->begin));
	STORE(to->end, LOAD(from->end));
	STORE(to->lkey, LOAD(from->lkey));
	STORE(to->rkey, LOAD(from->rkey));
}

void buffers_add(struct buffers *b, uintptr_t begin, size_t bytes, const struct buffer_keys *keys)
{
	unsigned at = search(b, begin), n = LOAD(b->count);

	begin_change(b);
	for (unsigned i = n; i > at; i--)
		copy_entry(&b->entry[i], &b->entry[i - 1]);
	STORE(b->entry[at].begin, begin);
	STORE(b->entry[at].end, begin + bytes);
	STORE(b->entry[at].lkey, keys->lkey);
	STORE(b->entry[at].rkey, keys->rkey);
	STORE(b->count, n + 1);
	end_change(b);
}

void buffers_remove(struct buffers *b, uintptr_t begin)
{
	unsigned at = search(b, begin) - 1, n = LOAD(b->count);

	begin_change(b);
	for (unsigned i = at; i + 1 < n; i++)
		copy_entry(&b->entry[i], &b->entry[i + 1]);
	STORE(b->count, n - 1);
	end_change(b);
}

/* Buffers don't overlap, so that an address tells which one it is of. */
int buffers_check(struct buffers *b, uintptr_t begin, size_t bytes)
{
	unsigned after = search(b, begin);

	if (LOAD(b->count) == KVD_BUFFERS_MAX)
		return KVD_ETOOBIG;
	if ((after && LOAD(b->entry[after - 1].end) > begin) ||
	    (after < LOAD(b->count) && LOAD(b->entry[after].begin) < begin + bytes))
		return KVD_EINVAL;
	return 0;
}
