/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `earliest_ms` is a lower bound of all keys' expiries: until then there is nothing
 * to do.  When it is reached, a walk over all buckets begins, which deletes what is
 * due and gathers the next bound in `next_ms`.  Buckets are walked in ascending
 * order, so that the walk meets every key though the index grows meanwhile.  A key
 * that it can't delete (locked, or the page is full) makes the next walk due at once.
 *
 * Cost: STEP_BUCKETS a millisecond, which is some 10^5 keys a second and a hundredth
 * of a core; without a pause while more than a quarter of what it sees is due.
 */
#include "server/store/expire.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/change.h"

#define STEP_BUCKETS 8u
#define STEP_NS 1000000ull
#define PAGE_BYTES 4096u

struct expire {
	_Atomic uint64_t keys;
	_Atomic uint64_t reclaimed;
	_Atomic uint64_t earliest_ms; /* UINT64_MAX: none */
	_Atomic uint64_t next_ms;
	atomic_flag walking; /* guards what follows */
	uint64_t bucket;
	_Atomic uint64_t resume_ns;
};

int expire_new(struct expire **expire)
{
	struct expire *x = calloc(1, sizeof *x);

	if (!x)
		return ENOMEM;
	atomic_init(&x->earliest_ms, UINT64_MAX);
	atomic_init(&x->next_ms, UINT64_MAX);
	*expire = x;
	return 0;
}

void expire_delete(struct expire **expire)
{
	free(*expire);
	*expire = NULL;
}

static void lower(_Atomic uint64_t *bound, uint64_t ms)
{
	uint64_t now = atomic_load(bound);

	while (now > ms && !atomic_compare_exchange_weak(bound, &now, ms))
		;
}

void expire_note(struct expire *x, uint64_t old_ms, uint64_t new_ms)
{
	if (!old_ms && !new_ms)
		return;
	if (!old_ms != !new_ms)
		atomic_fetch_add_explicit(&x->keys, new_ms ? 1 : ~0ull, memory_order_relaxed);
	if (!new_ms)
		return;
	/* In this order, for finish_walk(). */
	lower(&x->next_ms, new_ms);
	lower(&x->earliest_ms, new_ms);
}

bool expire_is_due(const struct store *s)
{
	uint64_t earliest = atomic_load_explicit(&s->expire->earliest_ms, memory_order_relaxed);

	return earliest != UINT64_MAX && earliest <= store_clock_ms(s);
}

/* The keys that are due, of a few buckets. */
struct page {
	struct store *store;
	unsigned seen, due;
	size_t bytes;
	uint8_t data[PAGE_BYTES];
};

struct page_key {
	uint64_t expiry_ms;
	uint16_t key_bytes;
	uint8_t key[];
} __attribute__((packed));

static bool gather(void *arg, const struct layout_item *item)
{
	struct page *p = arg;
	unsigned key_bytes = layout_key_bytes(item->lengths);
	struct page_key head = { item->expiry_ms, (uint16_t)key_bytes };
	bool due = item_is_expired(p->store, item);

	p->seen++;
	p->due += due;
	if (!due || p->bytes + sizeof head + key_bytes > sizeof p->data) {
		if (item->expiry_ms)
			lower(&p->store->expire->next_ms, item->expiry_ms);
		return true;
	}
	memcpy(p->data + p->bytes, &head, sizeof head);
	memcpy(p->data + p->bytes + sizeof head, item->data, key_bytes);
	p->bytes += sizeof head + key_bytes;
	return true;
}

static void reclaim(struct store_worker *w, const struct page *p)
{
	struct expire *x = w->store->expire;

	for (size_t at = 0; at < p->bytes;) {
		const struct page_key *k = (const struct page_key *)(p->data + at);
		struct store_change c = { .hash = hash_key(w->store->table->hash_seed, k->key,
							   k->key_bytes),
					  .key = k->key, .key_bytes = k->key_bytes };
		int status = store_expire(w, &c);
		if (status == WIRE_OK)
			atomic_fetch_add_explicit(&x->reclaimed, 1, memory_order_relaxed);
		else if (status == STORE_ASIDE)
			lower(&x->next_ms, k->expiry_ms);
		at += sizeof *k + k->key_bytes;
	}
}

/* A note that lowered next_ms before the second look is in it; one that did so
 * after it lowers earliest_ms after the store. */
static void finish_walk(struct expire *x)
{
	x->bucket = 0;
	atomic_store(&x->earliest_ms, atomic_exchange(&x->next_ms, UINT64_MAX));
	lower(&x->earliest_ms, atomic_load(&x->next_ms));
}

static void walk(struct store_worker *w, uint64_t now_ns)
{
	struct store *s = w->store;
	struct expire *x = s->expire;
	struct page p = { .store = s };
	unsigned epoch = 0;

	for (unsigned n = 0; n < STEP_BUCKETS && x->bucket < index_buckets(s->index); n++)
		index_walk(s->index, x->bucket++, 0, &epoch, gather, &p);
	reclaim(w, &p);
	if (x->bucket >= index_buckets(s->index))
		finish_walk(x);
	atomic_store_explicit(&x->resume_ns, 4 * p.due > p.seen ? now_ns : now_ns + STEP_NS,
			      memory_order_relaxed);
}

void expire_step(struct store_worker *w, uint64_t now_ns)
{
	struct expire *x = w->store->expire;

	if (!expire_is_due(w->store) ||
	    atomic_load_explicit(&x->resume_ns, memory_order_relaxed) > now_ns ||
	    atomic_flag_test_and_set_explicit(&x->walking, memory_order_acquire))
		return;
	walk(w, now_ns);
	atomic_flag_clear_explicit(&x->walking, memory_order_release);
}

uint64_t expire_keys(const struct expire *x)
{
	return atomic_load_explicit(&x->keys, memory_order_relaxed);
}

uint64_t expire_reclaimed(const struct expire *x)
{
	return atomic_load_explicit(&x->reclaimed, memory_order_relaxed);
}
