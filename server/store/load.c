/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * There are more threads than workers, because one only reads where another computes.  The
 * memory of items comes from the workers' heaps, which therefore have a lock here.
 */
#include "server/store/load.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/store/item/expiry.h"
#include "server/store/item/item.h"
#include "server/table/index.h"
#include "server/table/index_grow.h"

#define THREADS_MAX 16u

/* A thread: a worker whose heap is shared. */
struct loader {
	struct store_worker worker;
	pthread_mutex_t *heap_lock;
	struct layout_scratch scratch;
};

struct load {
	struct store *store;
	struct loader *loaders;
	pthread_mutex_t *heap_locks;
};

static uint64_t clock_read_ms(const void *store)
{
	return store_clock_ms(store);
}

struct durable_clock store_durable_clock(const struct store *s)
{
	return (struct durable_clock){ clock_read_ms, s };
}

static bool is_storable(const struct durable_record *r)
{
	return r->key_bytes && r->key_bytes <= LAYOUT_KEY_BYTES_MAX &&
	       r->value_bytes <= LAYOUT_VALUE_BYTES_MAX && r->version <= LAYOUT_VERSION_MAX;
}

static int load_item(void *arg, unsigned thread, const struct durable_record *r)
{
	struct load *l = arg;
	struct loader *o = &l->loaders[thread];
	struct store *s = l->store;
	struct index_spot spot;
	struct index_entry entry;

	if (!is_storable(r))
		return EINVAL;
	pthread_mutex_lock(o->heap_lock);
	struct layout_item *item =
		store_item_new(&o->worker, r->key, r->key_bytes, r->value_bytes, &r->with);
	pthread_mutex_unlock(o->heap_lock);
	if (!item)
		return ENOMEM;
	memcpy(item->data + r->key_bytes, r->value, r->value_bytes);
	item->checksum = item_checksum(s, item, r->version);
	state_store(item, layout_state(r->version, LAYOUT_LIVE, 0));
	index_lock(s->index, hash_key(s->table->hash_seed, r->key, r->key_bytes), &spot);
	bool ok = index_insert(s->index, &spot, item_unit(s, item),
			       layout_len_encode(item_bytes(item)), &entry);
	index_unlock(s->index, &spot);
	if (!ok)
		return ENOMEM; /* the item is not freed: this is the end */
	atomic_fetch_add_explicit(&s->value_bytes, r->value_bytes, memory_order_relaxed);
	expiry_note(s->expiry, 0, r->with.expiry_ms);
	index_grow(s->index);
	return 0;
}

static void set_version(void *arg, uint64_t version)
{
	const struct load *l = arg;

	if (atomic_load(&l->store->version) < version)
		atomic_store(&l->store->version, version);
}

static unsigned pick_threads(unsigned workers)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = cpus > 0 ? (unsigned)cpus : 1;

	n = n > workers ? n : workers;
	return n < THREADS_MAX ? n : THREADS_MAX;
}

int store_load(struct store *s, struct durable *durable, struct store_worker *const *workers,
	       unsigned worker_count, bool (*stop)(void *arg), void *arg, struct err *err)
{
	unsigned threads = pick_threads(worker_count);
	struct load l = { .store = s, .loaders = calloc(threads, sizeof *l.loaders),
			  .heap_locks = calloc(worker_count, sizeof *l.heap_locks) };
	struct durable_sink sink = { .load = load_item, .set_version = set_version, .arg = &l };
	int rc;

	if (!l.loaders || !l.heap_locks) {
		rc = err_set(err, -1, "out of memory");
		goto out;
	}
	for (unsigned i = 0; i < worker_count; i++)
		pthread_mutex_init(&l.heap_locks[i], NULL);
	for (unsigned i = 0; i < threads; i++) {
		l.loaders[i].worker = *workers[i % worker_count];
		l.loaders[i].worker.scratch = &l.loaders[i].scratch;
		l.loaders[i].heap_lock = &l.heap_locks[i % worker_count];
	}
	rc = durable_load(durable, &sink, threads, stop, arg, err);
	for (unsigned i = 0; i < worker_count; i++)
		pthread_mutex_destroy(&l.heap_locks[i]);
out:
	free(l.loaders);
	free(l.heap_locks);
	return rc;
}
