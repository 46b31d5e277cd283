/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A joiner's table becomes empty: all workers walk all of it, each from another place, until no
 * key is left.  One that has obeyed puts nothing in; so when the last has, nothing comes any more.
 */
#include "server/cluster/replica/empty.h"

#include <string.h>

#include "server/cluster/replica/impl.h"
#include "server/table/index.h"

#define STEP_BUCKETS 64u
#define PAGE_BYTES 4096u

/* Keys of a few buckets. */
struct page {
	bool is_full;
	size_t bytes;
	uint8_t data[PAGE_BYTES];
};

static bool gather(void *arg, const struct layout_item *item)
{
	struct page *p = arg;
	uint16_t key_bytes = (uint16_t)layout_key_bytes(item->lengths);

	p->is_full = p->bytes + sizeof key_bytes + key_bytes > sizeof p->data;
	if (p->is_full)
		return false;
	memcpy(p->data + p->bytes, &key_bytes, sizeof key_bytes);
	memcpy(p->data + p->bytes + sizeof key_bytes, item->data, key_bytes);
	p->bytes += sizeof key_bytes + key_bytes;
	return true;
}

static void take_away(struct store_worker *w, const struct page *p)
{
	uint16_t key_bytes;

	for (size_t at = 0; at < p->bytes; at += sizeof key_bytes + key_bytes) {
		const uint8_t *key = p->data + at + sizeof key_bytes;

		memcpy(&key_bytes, p->data + at, sizeof key_bytes);
		/* Who is in the way is met once more. */
		store_discard(w, &(struct store_change){
			.hash = hash_key(w->store->table->hash_seed, key, key_bytes),
			.key = key, .key_bytes = key_bytes, .is_decided = true });
	}
}

bool replica_empty(struct replica_worker *w)
{
	struct index *index = w->store->store->index;
	struct page p = { .bytes = 0 };
	unsigned epoch;

	for (unsigned n = 0; n < STEP_BUCKETS && !p.is_full && index_keys(index); n++) {
		if (w->emptying >= index_buckets(index))
			w->emptying = 0;
		epoch = 0;
		index_walk(index, w->emptying, 0, &epoch, gather, &p);
		w->emptying += !p.is_full;
	}
	take_away(w->store, &p);
	return !index_keys(index);
}
