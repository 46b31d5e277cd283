/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of keys, in the order of their buckets: to list, or to delete. */
#include <stdlib.h>
#include <string.h>

#include "server/store/reclaim/clear.h"
#include "server/table/index.h"
#include "server/worker/context.h"
#include "server/worker/request/attributes.h"
#include "server/worker/request/impl.h"
#include "server/worker/worker_impl.h"

/* Buckets that one WIRE_KEYS or WIRE_FLUSH walks at the most. */
#define WALK_BUCKETS_MAX 32u

/*
 * A walk's cursor: bit 0..11 entries of the bucket to skip, 12..19 the bucket's
 * epoch then, 20..63 the bucket.
 */
struct walk {
	struct request *r;
	uint8_t *out;
	size_t bytes;
	size_t room;
	bool full;
};

static uint64_t cursor_pack(uint64_t bucket, unsigned epoch, unsigned skip)
{
	return bucket << 20 | (uint64_t)(epoch & 0xff) << 12 | (skip & 0xfff);
}

static bool add_key(void *arg, const struct layout_item *item)
{
	struct walk *k = arg;
	const struct wire_request *q = k->r->head;
	unsigned key_bytes = layout_key_bytes(item->lengths);
	struct wire_key head = { .value_bytes = layout_value_bytes(item->lengths),
				 .key_bytes = (uint16_t)key_bytes };

	if (key_bytes < q->key_bytes || memcmp(item->data, k->r->key, q->key_bytes))
		return true;
	if (item_is_expired(k->r->worker->server->store, item))
		return true;
	k->full = sizeof head + key_bytes > k->room - k->bytes;
	if (k->full)
		return false;
	memcpy(k->out + k->bytes, &head, sizeof head);
	memcpy(k->out + k->bytes + sizeof head, item->data, key_bytes);
	k->bytes += sizeof head + key_bytes;
	return true;
}

/*
 * Fills k->out from the cursor on; returns the next cursor, 0 at the end.  A page
 * ends in the middle of a bucket only if the bucket does not fit into an empty
 * page.
 */
static uint64_t walk_page(struct walk *k, uint64_t cursor)
{
	struct index *index = k->r->worker->server->store->index;
	uint64_t bucket = cursor >> 20;
	unsigned skip = cursor & 0xfff, epoch = (unsigned)(cursor >> 12) & 0xff;

	for (unsigned n = 0; bucket < index_buckets(index); bucket++, n++) {
		size_t before = k->bytes;
		if (n == WALK_BUCKETS_MAX)
			return cursor_pack(bucket, 0, 0);
		k->full = false;
		unsigned to = index_walk(index, bucket, skip, &epoch, add_key, k);
		if (k->full && before == 0)
			return cursor_pack(bucket, epoch, to);
		if (k->full) {
			k->bytes = before;
			return cursor_pack(bucket, 0, 0);
		}
		skip = 0;
	}
	return 0;
}

enum request_fate request_keys(struct request *r)
{
	struct txbuf *tx = reply_new(&r->worker->tx, r->to, r->head, WIRE_OK);
	struct walk k = { .r = r, .out = reply_payload(tx), .room = REPLY_PAYLOAD_MAX };
	uint64_t next = walk_page(&k, r->head->version);

	reply_head(tx)->version = next;
	reply_head(tx)->value_bytes = k.bytes;
	reply_send(&r->worker->tx, tx, k.bytes);
	return REQUEST_DONE;
}

/* A page of keys being deleted, some of which wait for the disk. */
struct flush {
	unsigned left;
	enum wire_status status;
	uint64_t next; /* cursor */
};

static void answer_flush(struct worker *w, struct sendq *to, const struct wire_request *q,
			 const struct flush *f)
{
	bool all = f->status == WIRE_OK;
	struct txbuf *tx = reply_new(&w->tx, to, q, f->status);

	/* What was deleted moved the others up: begin with the first of the bucket. */
	reply_head(tx)->version = all ? f->next & ~0xfffull : q->version;
	reply_send(&w->tx, tx, 0);
	/* What was flushed is not to stay in the workers' caches. */
	if (all && !f->next)
		commands_trim_all(&w->server->commands);
}

/* Deletes one key; `later` is where it is counted if it waits for the disk. */
static enum wire_status remove_one(struct request *r, const struct wire_key *key,
				   struct flush *later)
{
	struct worker *w = r->worker;
	struct store_result result = { 0 };
	uint64_t seed = w->server->table->hash_seed;
	struct store_change c = { .hash = hash_key(seed, key->key, key->key_bytes),
				  .key = key->key,
				  .key_bytes = key->key_bytes };
	uint64_t report_ns = 0;

	w->store.blocked = STORE_NOT_BLOCKED;
	int status = store_remove(&w->store, &c, &result);
	if (status == STORE_COMMIT) {
		owed_add(&w->owed, w->store.commit, r->to, r->head, r->key, 0)->flush = later;
		/* That one key went says nothing of the page: who asks again deletes it again. */
		w->store.commit->op.fate.connection = 0;
		later->left++;
	} else if (status == STORE_ASIDE) {
		/* The client asks again; until then the locker looks who that is. */
		deferred_report(w->server->locker, w->store.blocked, &report_ns, clock_ns());
		return WIRE_EBUSY;
	}
	return WIRE_OK;
}

/* Not now: what is there at that time goes then. */
static enum request_fate flush_then(struct request *r)
{
	struct store *s = r->worker->server->store;

	clear_set(s, r->head->ttl_ms ? request_expiry_ms(s, r->head) : 0);
	reply_answer(&r->worker->tx, r->to, r->head, WIRE_OK);
	return REQUEST_DONE;
}

/* Deletes a page of keys; the client asks again with the cursor until it is 0. */
enum request_fate request_flush(struct request *r)
{
	uint8_t page[4096];
	if (r->head->flags & WIRE_UNIX)
		return flush_then(r);
	struct walk k = { .r = r, .out = page, .room = sizeof page };
	struct flush *f = calloc(1, sizeof *f);

	if (!f) {
		reply_answer(&r->worker->tx, r->to, r->head, WIRE_EBUSY);
		return REQUEST_DONE;
	}
	f->next = walk_page(&k, r->head->version);
	for (uint64_t at = 0; at < k.bytes;) {
		const struct wire_key *key = (const struct wire_key *)(page + at);
		if (remove_one(r, key, f) != WIRE_OK)
			f->status = WIRE_EBUSY;
		at += sizeof *key + key->key_bytes;
	}
	if (f->left) {
		timing_take(&r->worker->timings); /* not timed */
		return REQUEST_DONE; /* request_flushed() answers */
	}
	answer_flush(r->worker, r->to, r->head, f);
	free(f);
	return REQUEST_DONE;
}

void request_flushed(struct worker *w, struct sendq *to, const struct wire_request *q,
		     struct flush *f, int status)
{
	if (status != WIRE_OK && status != WIRE_NOT_FOUND)
		f->status = (enum wire_status)status;
	if (--f->left)
		return;
	answer_flush(w, to, q, f);
	free(f);
}
