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

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

/* The keys of a device are read by who uses it, after buffers_join(). */
struct entry {
	_Atomic uintptr_t begin, end;
	_Atomic uint32_t lkey[BUFFER_DEVICES_MAX], rkey[BUFFER_DEVICES_MAX];
	struct ibv_mr *mr[BUFFER_DEVICES_MAX]; /* the writers' */
};

struct buffers {
	struct ibv_pd *pd[BUFFER_DEVICES_MAX]; /* the writers'; NULL: no such device */
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

static bool look(struct buffers *b, unsigned device, uintptr_t begin, size_t bytes,
		 struct buffer_keys *keys)
{
	unsigned i = search(b, begin);

	if (!i || begin + bytes > LOAD(b->entry[i - 1].end) || begin + bytes < begin)
		return false;
	keys->lkey = LOAD(b->entry[i - 1].lkey[device]);
	keys->rkey = LOAD(b->entry[i - 1].rkey[device]);
	return true;
}

bool buffers_any(const struct buffers *b)
{
	return LOAD(b->count);
}

bool buffers_find(struct buffers *b, unsigned device, const void *addr, size_t bytes,
		  struct buffer_keys *keys)
{
	if (!LOAD(b->count))
		return false;
	for (;;) {
		uint64_t before = atomic_load_explicit(&b->sequence, memory_order_acquire);
		bool found = look(b, device, (uintptr_t)addr, bytes, keys);
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

static void set_mr(struct entry *e, unsigned device, struct ibv_mr *mr)
{
	e->mr[device] = mr;
	STORE(e->lkey[device], mr ? mr->lkey : 0);
	STORE(e->rkey[device], mr ? mr->rkey : 0);
}

static void copy_entry(struct entry *to, const struct entry *from)
{
	STORE(to->begin, LOAD(from->begin));
	STORE(to->end, LOAD(from->end));
	for (unsigned d = 0; d < BUFFER_DEVICES_MAX; d++)
		set_mr(to, d, from->mr[d]);
}

/* Nobody knows these: they are of no entry, or of none that is found. */
static void deregister(const struct verbs *v, struct ibv_mr *const mr[])
{
	for (unsigned d = 0; d < BUFFER_DEVICES_MAX; d++)
		if (mr[d])
			v->dereg_mr(mr[d]);
}

/* With each device; 0 or an errno value, and then with none. */
static int register_with_all(struct buffers *b, const struct verbs *v, uintptr_t begin,
			     size_t bytes, struct ibv_mr *mr[])
{
	for (unsigned d = 0; d < BUFFER_DEVICES_MAX; d++) {
		mr[d] = b->pd[d] ? v->reg_mr(b->pd[d], (void *)begin, bytes, ACCESS) : NULL;
		if (b->pd[d] && !mr[d]) {
			int rc = errno;
			deregister(v, mr);
			return rc ? rc : ENOMEM;
		}
	}
	return 0;
}

int buffers_add(struct buffers *b, const struct verbs *v, uintptr_t begin, size_t bytes)
{
	unsigned at = search(b, begin), n = LOAD(b->count);
	struct ibv_mr *mr[BUFFER_DEVICES_MAX] = { NULL };
	int rc = register_with_all(b, v, begin, bytes, mr);

	if (rc)
		return rc;
	begin_change(b);
	for (unsigned i = n; i > at; i--)
		copy_entry(&b->entry[i], &b->entry[i - 1]);
	STORE(b->entry[at].begin, begin);
	STORE(b->entry[at].end, begin + bytes);
	for (unsigned d = 0; d < BUFFER_DEVICES_MAX; d++)
		set_mr(&b->entry[at], d, mr[d]);
	STORE(b->count, n + 1);
	end_change(b);
	return 0;
}

void buffers_remove(struct buffers *b, const struct verbs *v, uintptr_t begin)
{
	unsigned at = search(b, begin) - 1, n = LOAD(b->count);
	struct ibv_mr *mr[BUFFER_DEVICES_MAX];

	memcpy(mr, b->entry[at].mr, sizeof mr);
	begin_change(b);
	for (unsigned i = at; i + 1 < n; i++)
		copy_entry(&b->entry[i], &b->entry[i + 1]);
	STORE(b->count, n - 1);
	end_change(b);
	deregister(v, mr);
}

int buffers_join(struct buffers *b, const struct verbs *v, unsigned device, struct ibv_pd *pd)
{
	b->pd[device] = pd;
	for (unsigned i = 0; i < LOAD(b->count); i++) {
		struct entry *e = &b->entry[i];
		uintptr_t begin = LOAD(e->begin);
		struct ibv_mr *mr = v->reg_mr(pd, (void *)begin, LOAD(e->end) - begin, ACCESS);
		int rc = errno;

		set_mr(e, device, mr);
		if (!mr) {
			buffers_leave(b, v, device);
			return rc ? rc : ENOMEM;
		}
	}
	return 0;
}

void buffers_leave(struct buffers *b, const struct verbs *v, unsigned device)
{
	for (unsigned i = 0; i < LOAD(b->count); i++) {
		if (b->entry[i].mr[device])
			v->dereg_mr(b->entry[i].mr[device]);
		set_mr(&b->entry[i], device, NULL);
	}
	b->pd[device] = NULL;
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
