/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replies: built into a tx buffer, chained per connection while a batch of
 * requests is handled, posted with one doorbell per connection at its end.
 *
 * Selective signalling: a reply is signalled if its buffer is not inline, or if
 * SIGNAL_EVERY went without; its completion gives back the send queue's places of
 * all before it.  A reply has its place from reply_send() on, or its request was not
 * begun: reply_may().
 */
#include "server/worker/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log_limit.h"
#include "server/store/store.h"
#include "server/table/index.h"
#include "server/worker/conn.h"
#include "server/worker/context.h"
#include "server/worker/fate.h"
#include "server/worker/news.h"

#define SIGNAL_EVERY 16u

int tx_init(struct tx *t, uint32_t count, uint8_t *memory, size_t stride_bytes)
{
	t->buffers = calloc(count, sizeof *t->buffers);
	if (!t->buffers)
		return ENOMEM;
	t->count = t->free_count = count;
	for (uint32_t i = 0; i < count; i++) {
		t->buffers[i].data = memory + i * stride_bytes;
		t->buffers[i].next = t->free;
		t->free = &t->buffers[i];
	}
	return 0;
}

void tx_fini(struct tx *t)
{
	free(t->buffers);
}

struct txbuf *tx_take(struct tx *t, struct sendq *to)
{
	struct txbuf *b = t->free;

	if (!b)
		return NULL;
	t->free = b->next;
	t->free_count--;
	b->to = to;
	to->held++;
	return b;
}

void tx_release(struct tx *t, struct txbuf *b)
{
	b->to->held--;
	b->to = NULL;
	b->next = t->free;
	t->free = b;
	t->free_count++;
}

struct txbuf *reply_new(struct tx *t, struct sendq *to, const struct wire_request *req,
			enum wire_status status)
{
	struct txbuf *b = tx_take(t, to);

	if (!b)
		return NULL;
	*reply_head(b) = (struct wire_reply){
		.request_id = req->request_id,
		.op = req->op,
		.status = (uint8_t)status,
		.bucket = ~0ull,
		.buckets = index_buckets(t->store->index),
		.clock_ms = t->clock_ms ? t->clock_ms : store_clock_ms(t->store),
	};
	return b;
}

/* Whether it says what the table has: then only a primary may that has a lease. */
static bool tells(const struct wire_reply *reply)
{
	bool is_of_the_member = reply->op == WIRE_HELLO || reply->op == WIRE_PING ||
				reply->op == WIRE_STATS || reply->op == WIRE_WHERE ||
				reply->op == WIRE_CLUSTER;

	return !is_of_the_member &&
	       (reply->status == WIRE_OK || reply->status == WIRE_NOT_FOUND ||
		reply->status == WIRE_CONDITION);
}

bool reply_may_tell(const struct tx *t)
{
	return clock_read_ns(CLOCK_BOOTTIME) < atomic_load(&t->membership->lease_until_ns);
}

/*
 * "Still d", for a reader of that reign.  The lease is looked at first, then whose it is, then the
 * clock: who is frozen in between says less, and nothing of another reign's.
 */
static uint16_t left_ms(const struct tx *t, const struct sendq *q)
{
	uint64_t until_ns = atomic_load(&t->membership->reader_until_ns);
	bool is_its = q->reign && atomic_load(&t->membership->reign) == q->reign;
	uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
	uint64_t left = is_its && now_ns < until_ns ? (until_ns - now_ns) / 1000000 : 0;

	return left < UINT16_MAX ? (uint16_t)left : UINT16_MAX;
}

/* Behind what was sampled: who was frozen in between finds its lease over (cluster.md, 12). */
static bool may_leave(const struct tx *t, const struct wire_reply *reply)
{
	return t->is_committed || !tells(reply) || reply_may_tell(t);
}

static size_t withhold(struct txbuf *b)
{
	struct wire_reply *reply = reply_head(b);

	*reply = (struct wire_reply){ .request_id = reply->request_id, .op = reply->op,
				      .status = WIRE_EBUSY, .bucket = ~0ull,
				      .buckets = reply->buckets, .clock_ms = reply->clock_ms };
	return 0;
}

void reply_send(struct tx *t, struct txbuf *b, size_t payload_bytes)
{
	struct sendq *q = b->to;

	if (t->membership && !may_leave(t, reply_head(b)))
		payload_bytes = withhold(b);
	if (t->membership)
		reply_head(b)->lease_ms = left_ms(t, q);
	if (q->outstanding)
		q->outstanding--;
	if (q->closing) {
		tx_release(t, b);
		return;
	}
	q->used++;
	b->sge = (struct ibv_sge){
		.addr = (uintptr_t)b->data,
		.length = (uint32_t)(sizeof(struct wire_reply) + payload_bytes),
		.lkey = t->lkey,
	};
	b->next = NULL;
	if (!q->chain)
		q->chain_end = &q->chain;
	*q->chain_end = b;
	q->chain_end = &b->next;
	if (!q->is_dirty) {
		q->is_dirty = true;
		q->dirty_next = t->dirty;
		t->dirty = q;
	}
}

/* A change's: fills in its result, notes its fate, and adds what is new. */
static void send_result(struct tx *t, struct txbuf *b, const struct store_result *result)
{
	struct wire_reply *reply = reply_head(b);
	struct sendq *q = b->to;
	unsigned n;

	fate_note(q->fate, reply->request_id, (enum wire_status)reply->status, result->version,
		  result->value_bytes);
	if (reply->status == WIRE_OK || reply->status == WIRE_CONDITION) {
		reply->version = result->version;
		reply->value_bytes = result->value_bytes;
		reply->bucket = result->bucket;
		reply->word = result->word;
		reply->flags = (uint16_t)(result->slot & WIRE_SLOT_MASK);
	}
	if (result->moved && result->bucket != ~0ull)
		news_put(t->news, q->connection_id, result->bucket, result->slot, result->word);
	n = news_take(t->news, q->connection_id, &q->news_seen, (struct wire_news *)reply_payload(b),
		      NEWS_MAX);
	reply_send(t, b, n * sizeof(struct wire_news));
}

static struct txbuf *counted(struct tx *t, struct sendq *q, const struct wire_request *req,
			     enum wire_status status)
{
	if (status != WIRE_OK)
		stats_add(status == WIRE_NOT_FOUND ? &t->stats->not_found : &t->stats->failed, 1);
	return reply_new(t, q, req, status);
}

void reply_answer(struct tx *t, struct sendq *q, const struct wire_request *req,
		  enum wire_status status)
{
	reply_send(t, counted(t, q, req, status), 0);
}

void reply_answer_result(struct tx *t, struct sendq *q, const struct wire_request *req,
			 enum wire_status status, const struct store_result *result)
{
	send_result(t, counted(t, q, req, status), result);
}

static void prepare(struct sendq *q, struct txbuf *b)
{
	bool small = b->sge.length <= q->inline_bytes;
	bool signal = !small || q->unsignaled + 1 >= SIGNAL_EVERY;

	b->wr = (struct ibv_send_wr){
		.sg_list = &b->sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = (small ? IBV_SEND_INLINE : 0) | (signal ? IBV_SEND_SIGNALED : 0),
	};
	q->unsignaled++;
	if (signal) {
		b->wr.wr_id = wr_pack(b, WR_TX, q->unsignaled + 1);
		q->unsignaled = 0;
		sendq_wait(q);
	}
}

static void drop_chain(struct tx *t, struct sendq *q)
{
	while (q->chain) {
		struct txbuf *b = q->chain;
		q->chain = b->next;
		tx_release(t, b);
	}
}

/* Posts a connection's chain: each has its place. */
static void flush_conn(struct tx *t, struct sendq *q)
{
	struct txbuf *first = q->chain, *next;
	struct ibv_send_wr *bad = NULL;
	bool posted = true;

	if (q->closing) {
		drop_chain(t, q);
		return;
	}
	q->chain = NULL;
	for (struct txbuf *b = first; b; b = b->next) {
		prepare(q, b);
		b->wr.next = b->next ? &b->next->wr : NULL;
	}
	int rc = ibv_post_send(q->qp, &first->wr, &bad);
	if (rc) {
		log_limited(LOG_LEVEL_ERROR, "posting a reply failed", "posting a reply to %s failed: %s",
			    q->peer, strerror(rc));
		conn_close(q->conn, "replies can't be posted");
	}
	for (struct txbuf *b = first; b; b = next) {
		next = b->next;
		posted &= !rc || &b->wr != bad;
		bool signal = b->wr.send_flags & IBV_SEND_SIGNALED;
		if (signal && !posted)
			sendq_waited(q); /* no completion comes of it */
		if (!signal || !posted)
			tx_release(t, b);
	}
}

void reply_flush(struct tx *t)
{
	struct sendq *q = t->dirty, *next;

	t->dirty = NULL;
	for (; q; q = next) {
		next = q->dirty_next;
		q->is_dirty = false;
		flush_conn(t, q);
	}
}

void reply_completed(struct tx *t, struct txbuf *b)
{
	sendq_waited(b->to);
	tx_release(t, b);
}

void reply_forget(struct tx *t, const struct sendq *q)
{
	for (uint32_t i = 0; i < t->count; i++)
		if (t->buffers[i].to == q)
			tx_release(t, &t->buffers[i]);
}
