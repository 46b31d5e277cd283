/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the time comes the store's last version is noted: what has that or a lower one goes,
 * and what is stored later has a higher one and stays.  The buckets are walked in ascending
 * order, so that the walk meets every key though the index grows meanwhile.  If a key was
 * locked, or the disk's queue full, the walk begins again.
 */
#include "server/store/reclaim/clear.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/change/remove.h"
#include "server/store/item/item.h"
#include "server/table/index.h"

#define STEP_BUCKETS 8u
#define AGAIN_NS 100000000ull /* a walk behind one that left something */
#define PAUSE_NS 1000000ull   /* behind a step that did */
#define PAGE_BYTES 4096u

struct clear {
	_Atomic uint64_t at_ms;   /* 0: none is set */
	_Atomic uint64_t version; /* that goes, with all lower ones; 0: none */
	_Atomic uint64_t resume_ns;
	atomic_flag walking; /* guards what follows */
	uint64_t walked;     /* the version that this walk is for */
	uint64_t bucket;
	bool left; /* a key that could not go */
};

int clear_new(struct clear **clear)
{
	*clear = calloc(1, sizeof **clear);
	return *clear ? 0 : ENOMEM;
}

void clear_delete(struct clear **clear)
{
	free(*clear);
	*clear = NULL;
}

void clear_set(struct store *s, uint64_t at_ms)
{
	atomic_store(&s->clear->at_ms, at_ms);
}

static bool has_come(const struct store *s)
{
	uint64_t at_ms = atomic_load_explicit(&s->clear->at_ms, memory_order_relaxed);

	return at_ms && at_ms <= store_clock_ms(s);
}

bool clear_is_due(const struct store *s)
{
	return atomic_load_explicit(&s->clear->version, memory_order_relaxed) || has_come(s);
}

bool clear_is_ready(const struct store *s, uint64_t now_ns)
{
	return clear_is_due(s) &&
	       atomic_load_explicit(&s->clear->resume_ns, memory_order_relaxed) <= now_ns;
}

/* The version that goes.  Two workers may note it at the same time: then the higher counts. */
static uint64_t note(struct store *s)
{
	struct clear *x = s->clear;
	uint64_t at_ms = atomic_load(&x->at_ms), was = atomic_load(&x->version);

	if (!at_ms || at_ms > store_clock_ms(s))
		return was;
	uint64_t version = atomic_load(&s->version);
	while (was < version && !atomic_compare_exchange_weak(&x->version, &was, version))
		;
	atomic_compare_exchange_strong(&x->at_ms, &at_ms, 0); /* unless another was set */
	return atomic_load(&x->version);
}

bool clear_key(struct store_worker *w, const struct store_change *key)
{
	return store_clear(w, key, note(w->store)) != STORE_ASIDE;
}

/* The keys that are to go, of a few buckets. */
struct page {
	uint64_t version;
	bool full;
	size_t bytes;
	uint8_t data[PAGE_BYTES];
};

static bool gather(void *arg, const struct layout_item *item)
{
	struct page *p = arg;
	uint16_t key_bytes = (uint16_t)layout_key_bytes(item->lengths);

	if (layout_state_version(item->state) > p->version)
		return true;
	p->full |= p->bytes + sizeof key_bytes + key_bytes > sizeof p->data;
	if (p->full)
		return false;
	memcpy(p->data + p->bytes, &key_bytes, sizeof key_bytes);
	memcpy(p->data + p->bytes + sizeof key_bytes, item->data, key_bytes);
	p->bytes += sizeof key_bytes + key_bytes;
	return true;
}

/* Whether all of them went. */
static bool take_away(struct store_worker *w, const struct page *p)
{
	bool all = true;
	uint16_t key_bytes;

	for (size_t at = 0; at < p->bytes; at += sizeof key_bytes + key_bytes) {
		const uint8_t *key = p->data + at + sizeof key_bytes;
		memcpy(&key_bytes, p->data + at, sizeof key_bytes);
		struct store_change c = {
			.hash = hash_key(w->store->table->hash_seed, key, key_bytes),
			.key = key, .key_bytes = key_bytes };
		all &= store_clear(w, &c, p->version) != STORE_ASIDE;
	}
	return all;
}

static void put_off(struct clear *x, uint64_t until_ns)
{
	atomic_store_explicit(&x->resume_ns, until_ns, memory_order_relaxed);
}

static void walk(struct store_worker *w, uint64_t now_ns)
{
	struct clear *x = w->store->clear;
	struct index *index = w->store->index;
	struct page p = { .version = note(w->store) };
	unsigned epoch = 0;

	if (p.version != x->walked) {
		x->walked = p.version;
		x->bucket = 0;
		x->left = false;
	}
	for (unsigned n = 0; n < STEP_BUCKETS && !p.full && x->bucket < index_buckets(index); n++) {
		epoch = 0;
		index_walk(index, x->bucket, 0, &epoch, gather, &p);
		x->bucket += !p.full; /* else it is met once more, without what is gone then */
	}
	bool all = take_away(w, &p);
	x->left |= !all;
	x->bucket += p.full && !all;
	if (!all)
		put_off(x, now_ns + PAUSE_NS);
	if (x->bucket < index_buckets(index))
		return;
	x->bucket = 0;
	if (x->left)
		put_off(x, now_ns + AGAIN_NS);
	else
		atomic_compare_exchange_strong(&x->version, &p.version, 0);
	x->left = false;
}

void clear_step(struct store_worker *w, uint64_t now_ns)
{
	struct clear *x = w->store->clear;

	if (!clear_is_ready(w->store, now_ns) ||
	    atomic_flag_test_and_set_explicit(&x->walking, memory_order_acquire))
		return;
	walk(w, now_ns);
	atomic_flag_clear_explicit(&x->walking, memory_order_release);
}
