/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/fixture.h"

#include "server/store/reclaim/evict.h"
#include "server/table/heap.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int mem_alloc(size_t size_bytes, int kind, void **addr)
{
	(void)kind;
	*addr = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return *addr == MAP_FAILED ? errno : 0;
}

static int mem_free(void *addr, size_t size_bytes)
{
	return munmap(addr, size_bytes) ? errno : 0;
}

static const struct verbs verbs_memory = { .name = "memory", .mem_alloc = mem_alloc,
					   .mem_free = mem_free };

static void die(const char *what)
{
	fprintf(stderr, "%s\n", what);
	abort();
}

static void make(struct fixture *f, uint64_t table_bytes, unsigned workers, bool wipe)
{
	struct err err = { .text = "" };

	f->workers = workers;
	if (table_new(&verbs_memory, table_bytes, workers, &f->table, &err))
		die(err.text);
	if (wipe)
		region_set_wipe(f->table->region);
	if (store_new(f->table, &f->store, &err))
		die(err.text);
	f->table->hash_seed = 42; /* what a test saw it sees again */
	for (unsigned i = 0; i < workers; i++)
		if (store_worker_init(&f->worker[i], f->store, i))
			die("no heap");
}

void fixture_new(struct fixture *f, uint64_t table_bytes, unsigned workers)
{
	make(f, table_bytes, workers, false);
}

void fixture_new_wiping(struct fixture *f, uint64_t table_bytes, unsigned workers)
{
	make(f, table_bytes, workers, true);
}

void fixture_delete(struct fixture *f)
{
	for (unsigned i = 0; i < f->workers; i++)
		heap_trim(f->worker[i].heap);
	for (unsigned i = 0; i < f->workers; i++)
		store_worker_fini(&f->worker[i]);
	store_delete(&f->store);
	table_delete(&f->table);
}

static struct store_change change_of(const struct store_worker *w, const void *key,
				     size_t key_bytes)
{
	uint64_t seed = w->store->table->hash_seed;

	return (struct store_change){ .hash = hash_key(seed, key, key_bytes), .key = key,
				      .key_bytes = (unsigned)key_bytes };
}

static int put(struct store_worker *w, const struct store_change *c, uint64_t *version)
{
	struct store_result r;
	int status;

	while ((status = store_put(w, c, &r)) == STORE_ASIDE) {
		evict_round(w);
		sched_yield();
	}
	if (version && status == WIRE_OK)
		*version = r.version;
	return status;
}

int fixture_put(struct store_worker *w, const void *key, size_t key_bytes, const void *value,
		size_t value_bytes, unsigned flags, uint64_t *version)
{
	struct store_change c = change_of(w, key, key_bytes);

	c.value = value;
	c.value_bytes = value_bytes;
	c.flags = flags;
	c.version = version ? *version : 0;
	return put(w, &c, version);
}

int fixture_put_item(struct store_worker *w, const void *key, size_t key_bytes, const void *value,
		     size_t value_bytes, uint64_t *version)
{
	struct store_change c = change_of(w, key, key_bytes);

	c.item = store_item_new(w, key, (unsigned)key_bytes, value_bytes,
				&(struct layout_attributes){ 0 });
	if (!c.item)
		return WIRE_EMEMORY;
	memcpy(c.item->data + key_bytes, value, value_bytes);
	c.value_bytes = value_bytes;
	int status = put(w, &c, version);
	if (status != WIRE_OK)
		store_item_delete(w, c.item);
	return status;
}

enum store_moved fixture_move(struct store_worker *w, const void *key, size_t key_bytes)
{
	struct store *s = w->store;
	struct layout_item *item = NULL;
	struct index_spot spot;
	struct index_entry e;
	uint64_t bytes = 0;

	index_lock(s->index, hash_key(s->table->hash_seed, key, key_bytes), &spot);
	if (index_find(s->index, &spot, key, (unsigned)key_bytes, &e)) {
		item = (struct layout_item *)(s->table->base + layout_word_offset(e.word, s->table->unit_mask));
		bytes = layout_item_bytes(key_bytes, layout_value_bytes(item->lengths));
	}
	index_unlock(s->index, &spot);
	if (!item)
		return STORE_MOVED_NOT;
	return store_move(w, item, heap_room_bytes(w->heap, item, bytes), HEAP_PACKED);
}

int fixture_remove(struct store_worker *w, const void *key, size_t key_bytes)
{
	struct store_change c = change_of(w, key, key_bytes);
	struct store_result r;
	int status;

	while ((status = store_remove(w, &c, &r)) == STORE_ASIDE)
		sched_yield();
	return status;
}

int fixture_get(struct store_worker *w, const void *key, size_t key_bytes, void *buf,
		size_t buf_bytes, size_t *value_bytes, uint64_t *version)
{
	struct store_change c = change_of(w, key, key_bytes);
	struct store_result r;
	int status;

	while ((status = store_get(w, &c, buf, buf_bytes, &r)) == STORE_ASIDE)
		sched_yield();
	if (status != WIRE_OK)
		return status;
	*value_bytes = r.value_bytes;
	if (version)
		*version = r.version;
	return r.value_bytes > buf_bytes ? WIRE_ETOOBIG : WIRE_OK;
}

uint64_t fixture_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}
