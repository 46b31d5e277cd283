/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the lower bound of all keys' expiries (expiry.h) is reached, a walk over all
 * buckets begins, which deletes what is due and gathers the next bound.  Buckets are
 * walked in ascending order, so that the walk meets every key though the index grows
 * meanwhile.  A key that it can't delete (locked, or the page is full) makes the next
 * walk due at once.
 *
 * Cost: STEP_BUCKETS a millisecond, which is some 10^5 keys a second and a hundredth
 * of a core; without a pause while more than a quarter of what it sees is due.
 */
#include "server/store/reclaim/expire.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/change/remove.h"
#include "server/store/item/expiry.h"
#include "server/store/item/item.h"
#include "server/table/index.h"

#define STEP_BUCKETS 8u
#define STEP_NS 1000000ull
#define PAGE_BYTES 4096u

struct expire {
	_Atomic uint64_t reclaimed;
	_Atomic uint64_t resume_ns;
	atomic_flag walking; /* guards what follows */
	uint64_t bucket;
};

int expire_new(struct expire **expire)
{
	*expire = calloc(1, sizeof **expire);
	return *expire ? 0 : ENOMEM;
}

void expire_delete(struct expire **expire)
{
	free(*expire);
	*expire = NULL;
}

bool expire_is_due(const struct store *s)
{
	/* Where no key ever ends no clock is asked. */
	return expiry_has_any(s->expiry) && expiry_is_due(s->expiry, store_clock_ms(s));
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
	struct page_key head = { layout_expiry_ms(item->expiry), (uint16_t)key_bytes };
	bool due = item_is_expired(p->store, item);

	p->seen++;
	p->due += due;
	if (!due || p->bytes + sizeof head + key_bytes > sizeof p->data) {
		if (head.expiry_ms)
			expiry_seen(p->store->expiry, head.expiry_ms);
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
			expiry_seen(w->store->expiry, k->expiry_ms);
		at += sizeof *k + k->key_bytes;
	}
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
	if (x->bucket >= index_buckets(s->index)) {
		x->bucket = 0;
		expiry_walked(s->expiry);
	}
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

uint64_t expire_reclaimed(const struct expire *x)
{
	return atomic_load_explicit(&x->reclaimed, memory_order_relaxed);
}
