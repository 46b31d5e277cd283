/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffers of a client, ordered by address, under a sequence lock: writers hold
 * the client's mutex and make `sequence` odd meanwhile; a reader that met an odd or
 * a changed one looks again.
 *
 * For device memory: the CPU touches a value's bytes where it checks or makes a
 * checksum (pieces_checksum, pieces_hash) and where it copies short ones
 * (pieces_gather, pieces_scatter).  These would go through a staging buffer.
 */
#include "client/cache/buffer.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "client/op/session.h"

struct entry {
	_Atomic uintptr_t begin, end;
	_Atomic uint32_t lkey, rkey;
};

struct buffers {
	_Atomic uint64_t sequence;
	_Atomic unsigned count;
	struct entry entry[KVD_BUFFERS_MAX];
};

struct kvd_buffer {
	struct kvd_client *client;
	struct ibv_mr *mr;
	uintptr_t begin;
	size_t bytes;
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

bool buffer_any(const struct kvd_client *c)
{
	return LOAD(c->buffers->count);
}

bool buffer_find(struct kvd_client *c, const void *addr, size_t bytes, struct buffer_keys *keys)
{
	struct buffers *b = c->buffers;

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

/* Changes of the list: the caller has the client's mutex. */
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

static void insert(struct buffers *b, const struct kvd_buffer *buffer)
{
	unsigned at = search(b, buffer->begin), n = LOAD(b->count);

	begin_change(b);
	for (unsigned i = n; i > at; i--)
		copy_entry(&b->entry[i], &b->entry[i - 1]);
	STORE(b->entry[at].begin, buffer->begin);
	STORE(b->entry[at].end, buffer->begin + buffer->bytes);
	STORE(b->entry[at].lkey, buffer->mr->lkey);
	STORE(b->entry[at].rkey, buffer->mr->rkey);
	STORE(b->count, n + 1);
	end_change(b);
}

static void remove_entry(struct buffers *b, const struct kvd_buffer *buffer)
{
	unsigned at = search(b, buffer->begin) - 1, n = LOAD(b->count);

	begin_change(b);
	for (unsigned i = at; i + 1 < n; i++)
		copy_entry(&b->entry[i], &b->entry[i + 1]);
	STORE(b->count, n - 1);
	end_change(b);
}

/* Buffers don't overlap, so that an address tells which one it is of. */
static int check_buffer(struct kvd_client *c, uintptr_t begin, size_t bytes)
{
	struct buffers *b = c->buffers;

	if (!begin || !bytes || begin + bytes < begin)
		return err_set(&c->err, KVD_EINVAL, "a buffer needs an address and a length");
	if (!c->pd)
		return err_set(&c->err, KVD_EINVAL,
			       "memory is registered with the device that the first session opens: make "
			       "a session before the first buffer");
	if (LOAD(b->count) == KVD_BUFFERS_MAX)
		return err_set(&c->err, KVD_ETOOBIG, "a client has at most %d buffers: register "
			       "fewer and larger ones", KVD_BUFFERS_MAX);
	unsigned after = search(b, begin);
	if ((after && LOAD(b->entry[after - 1].end) > begin) ||
	    (after < LOAD(b->count) && LOAD(b->entry[after].begin) < begin + bytes))
		return err_set(&c->err, KVD_EINVAL, "a part of this memory is in a buffer already");
	return 0;
}

static int make(struct kvd_client *c, struct kvd_buffer *buffer)
{
	int rc = check_buffer(c, buffer->begin, buffer->bytes);

	if (rc)
		return rc;
	buffer->mr = c->verbs->reg_mr(c->pd, (void *)buffer->begin, buffer->bytes,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!buffer->mr)
		return err_set_errno(&c->err, KVD_EDEVICE, errno,
				     "can't register a buffer of %zu bytes: the locked-memory limit may be "
				     "too low (see 'ulimit -l')", buffer->bytes);
	insert(c->buffers, buffer);
	return KVD_OK;
}

int kvd_buffer_new(kvd_client *client, void *addr, size_t bytes, kvd_buffer **buffer)
{
	struct kvd_buffer *b = calloc(1, sizeof *b);

	*buffer = NULL;
	if (!b)
		return KVD_ENOMEM;
	*b = (struct kvd_buffer){ .client = client, .begin = (uintptr_t)addr, .bytes = bytes };
	pthread_mutex_lock(&client->lock);
	int rc = make(client, b);
	pthread_mutex_unlock(&client->lock);
	if (rc) {
		free(b);
		return rc;
	}
	*buffer = b;
	return KVD_OK;
}

void kvd_buffer_delete(kvd_buffer **buffer)
{
	struct kvd_buffer *b = *buffer;

	if (!b)
		return;
	pthread_mutex_lock(&b->client->lock);
	remove_entry(b->client->buffers, b);
	pthread_mutex_unlock(&b->client->lock);
	b->client->verbs->dereg_mr(b->mr);
	free(b);
	*buffer = NULL;
}
