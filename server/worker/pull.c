/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pulls: a value that is larger than a message is READ by kvd from the client's
 * memory, straight into the memory of its new item.
 *
 * Happy path: allocate the item, READ in chunks with a few in flight, hash each as
 * it comes, check the value's checksum, store_put.  While the stripe is in
 * somebody's way the pull waits, complete, and is tried again.  Failure: the
 * connection breaks (the READs are flushed) or the checksum is wrong: the item is
 * freed, nothing was changed.  The item's memory is freed only after every READ
 * into it has completed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log_limit.h"
#include "server/store/change/rmw.h"
#include "server/store/reclaim/room.h"
#include "server/worker/deferred.h"
#include "server/worker/server.h"

#define CHUNK_BYTES_MAX (1ull << 20)
#define WINDOW 4u

struct pull {
	struct pull *next;
	struct conn *conn; /* NULL: free */
	struct wire_request request;
	struct wire_segment segment[WIRE_SEGMENTS_MAX]; /* what is left of them */
	unsigned first; /* segment that is not wholly posted */
	struct layout_item *item;
	uint64_t posted, arrived;
	uint32_t chunk_bytes[WINDOW]; /* in flight, by their number */
	uint32_t chunks_posted, chunks_arrived;
	struct hash_stream value_hash, item_hash;
	bool failed;
	bool complete;
	uint64_t begun_ns;
	uint8_t key[TIMING_KEY_BYTES]; /* the item may be gone by then */
	uint64_t report_ns; /* when to tell of a lock in its way */
};

int pulls_new(struct worker *w)
{
	w->pulls = aligned_alloc(_Alignof(struct pull), PULLS * sizeof *w->pulls);
	if (!w->pulls)
		return ENOMEM;
	memset(w->pulls, 0, PULLS * sizeof *w->pulls);
	for (unsigned i = 0; i < PULLS; i++) {
		w->pulls[i].next = w->pull_free;
		w->pull_free = &w->pulls[i];
	}
	return 0;
}

void pulls_delete(struct worker *w)
{
	free(w->pulls);
	w->pulls = NULL;
}

static void pull_free(struct worker *w, struct pull *p)
{
	p->conn->pulls--;
	p->conn = NULL;
	p->next = w->pull_free;
	w->pull_free = p;
}

/* Answers and ends.  Caller: has seen that there is a tx buffer. */
static void finish(struct worker *w, struct pull *p, enum wire_status status,
		   const struct store_result *r)
{
	reply_answer_result(w, p->conn, &p->request, status, r);
	timing_note(w, p->conn, &p->request, p->key, p->begun_ns);
	pull_free(w, p);
}

static void abandon(struct worker *w, struct pull *p)
{
	store_item_delete(&w->store, p->item);
	pull_free(w, p);
}

static uint8_t *value_of(const struct pull *p)
{
	return p->item->data + p->request.key_bytes;
}

static void apply(struct worker *w, struct pull *p)
{
	const struct wire_request *q = &p->request;
	bool append = q->op == WIRE_APPEND;
	struct store_result r = { 0 };
	struct compute x;
	struct store_change c = {
		.hash = hash_key(w->server->table->hash_seed, p->item->data, q->key_bytes),
		.key = p->item->data,
		.key_bytes = q->key_bytes,
		.value = value_of(p),
		.value_bytes = q->value_bytes,
		.item = append ? NULL : p->item,
		.token = q->token,
		.expiry_ms = p->item->expiry_ms,
		.version = q->version,
		.flags = q->flags,
		.compute = append ? &x : NULL,
	};

	compute_init(&x, q, NULL);
	w->store.blocked = STORE_NOT_BLOCKED;
	int status = store_put(&w->store, &c, &r);
	if (status == STORE_ASIDE) {
		deferred_report(w->server->locker, w->store.blocked, &p->report_ns, clock_ns());
		return;
	}
	if (status == STORE_COMMIT) {
		/* The commit has what it needs of the value, and answers. */
		owed_add(w, p->conn, q, p->key, p->begun_ns);
		if (append)
			store_item_delete(&w->store, p->item);
		pull_free(w, p);
		return;
	}
	if (status != WIRE_OK || append)
		store_item_delete(&w->store, p->item);
	finish(w, p, (enum wire_status)status, &r);
}

static uint32_t in_flight(const struct pull *p)
{
	return p->chunks_posted - p->chunks_arrived;
}

static bool post_chunk(struct worker *w, struct pull *p)
{
	struct conn *c = p->conn;
	struct wire_segment *from = &p->segment[p->first];
	uint64_t max = w->server->limits.message_bytes_max;
	uint64_t bytes = max < CHUNK_BYTES_MAX ? max : CHUNK_BYTES_MAX;
	struct ibv_send_wr *bad;

	bytes = from->bytes < bytes ? from->bytes : bytes;
	struct ibv_sge sge = { .addr = (uintptr_t)(value_of(p) + p->posted),
			       .length = (uint32_t)bytes,
			       .lkey = atomic_load(&w->server->table->lkey) };
	struct ibv_send_wr wr = {
		.wr_id = wr_pack(p, WR_PULL, c->unsignaled + 1),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = from->addr, .rkey = from->rkey },
	};
	if (ibv_post_send(c->qp, &wr, &bad)) {
		p->failed = true;
		return false;
	}
	c->unsignaled = 0;
	c->sq_used++;
	p->posted += bytes;
	p->chunk_bytes[p->chunks_posted++ % WINDOW] = (uint32_t)bytes;
	from->addr += bytes;
	from->bytes -= bytes;
	p->first += !from->bytes;
	return true;
}

static bool may_post(const struct pull *p)
{
	const struct conn *c = p->conn;

	return !p->failed && c->state != CONN_CLOSING && p->posted < p->request.value_bytes &&
	       in_flight(p) < WINDOW && c->sq_used < c->sq_depth;
}

static void advance(struct worker *w, struct pull *p)
{
	while (may_post(p))
		if (!post_chunk(w, p))
			break;
	if (in_flight(p))
		return;
	if (p->conn->state == CONN_CLOSING) {
		abandon(w, p);
		return;
	}
	if (p->failed) {
		conn_close(p->conn, "reading the value of a PUT from its memory failed");
		abandon(w, p);
		return;
	}
	if (p->posted < p->request.value_bytes || !w->tx_free)
		return; /* no room to go on: pulls_retry() */
	if (!p->complete) {
		if (hash_bytes_end(&p->value_hash) != p->request.value_checksum) {
			store_item_delete(&w->store, p->item);
			finish(w, p, WIRE_EPULL, &(struct store_result){ .bucket = ~0ull });
			return;
		}
		store_item_hash_stream(p->item, &p->item_hash);
		p->complete = true;
		p->report_ns = clock_ns() + REPORT_FIRST_NS;
	}
	apply(w, p);
}

/* Takes the segments, which are not aligned; false if they don't add up. */
static bool take_segments(struct pull *p, const void *segments)
{
	uint64_t left = p->request.value_bytes;

	memcpy(p->segment, segments, p->request.segments * sizeof p->segment[0]);
	for (uint32_t i = 0; i < p->request.segments; i++) {
		if (!p->segment[i].bytes || p->segment[i].bytes > left)
			return false;
		left -= p->segment[i].bytes;
	}
	return left == 0;
}

static enum request_fate refuse(struct worker *w, struct conn *conn, const struct wire_request *q,
				enum wire_status status)
{
	reply_answer(w, conn, q, status);
	return REQUEST_DONE;
}

static int make_item(struct worker *w, struct pull *p, const uint8_t *key, uint64_t expiry_ms)
{
	const struct wire_request *q = &p->request;
	int status = WIRE_EMEMORY;
	unsigned tries = 0;

	do
		p->item = store_item_new(&w->store, key, q->key_bytes, q->value_bytes, expiry_ms);
	while (!p->item && store_make_room(&w->store, (struct hash){ 0 }, tries++, &status));
	return p->item ? WIRE_OK : status;
}

enum request_fate pull_start(struct worker *w, struct conn *conn,
			     const struct wire_request *q, const uint8_t *key,
			     const void *segments)
{
	struct pull *p = w->pull_free;

	if (!p || !w->tx_free)
		return REQUEST_ASIDE;
	p->request = *q;
	if (!take_segments(p, segments))
		return refuse(w, conn, q, WIRE_EINVALID);
	uint64_t expiry = q->ttl_ms ? store_clock_ms(w->server->store) + q->ttl_ms : 0;
	int status = make_item(w, p, key, expiry);
	if (status != WIRE_OK)
		return status == STORE_ASIDE ? REQUEST_ASIDE
					     : refuse(w, conn, q, (enum wire_status)status);
	w->pull_free = p->next;
	p->conn = conn;
	p->begun_ns = timing_keep(w, p->key, key, q->key_bytes);
	p->first = 0;
	p->posted = p->arrived = 0;
	p->chunks_posted = p->chunks_arrived = 0;
	p->failed = p->complete = false;
	hash_bytes_begin(&p->value_hash);
	hash_item_begin(&p->item_hash, p->item, q->key_bytes);
	conn->pulls++;
	atomic_fetch_add_explicit(&w->stats.pulls, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&w->stats.pull_bytes, q->value_bytes, memory_order_relaxed);
	advance(w, p);
	return REQUEST_DONE;
}

/* READs of one queue pair complete in the order in which they were posted. */
static void arrived(struct pull *p)
{
	uint32_t bytes = p->chunk_bytes[p->chunks_arrived % WINDOW];

	hash_add(&p->value_hash, value_of(p) + p->arrived, bytes);
	hash_add(&p->item_hash, value_of(p) + p->arrived, bytes);
	p->arrived += bytes;
}

void pull_completed(struct worker *w, struct pull *p, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS) {
		arrived(p);
	} else {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			log_limited(LOG_LEVEL_WARN, "READ of a value from a client failed",
				    "READ of a value from %s failed: %s (vendor error 0x%x)",
				    p->conn->peer.text, ibv_wc_status_str(wc->status), wc->vendor_err);
		p->failed = true;
	}
	p->chunks_arrived++;
	advance(w, p);
}

void pulls_retry(struct worker *w)
{
	for (unsigned i = 0; i < PULLS; i++)
		if (w->pulls[i].conn && !in_flight(&w->pulls[i]))
			advance(w, &w->pulls[i]);
}

bool pulls_waiting(const struct worker *w)
{
	for (unsigned i = 0; i < PULLS; i++)
		if (w->pulls[i].conn && !in_flight(&w->pulls[i]))
			return true;
	return false;
}
