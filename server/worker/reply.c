/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replies: built into a tx buffer, chained per connection while a batch of
 * requests is handled, posted with one doorbell per connection at its end.
 *
 * Selective signalling: a reply is signalled if its buffer is not inline, or if
 * SIGNAL_EVERY went without; its completion gives back the send queue slots of
 * all before it.  A reply that finds no slot waits in the chain.
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
#include "server/worker/fate.h"
#include "server/worker/news.h"

#define SIGNAL_EVERY 16u

int tx_init(struct tx *t, uint32_t count, uint8_t *memory, size_t stride_bytes)
{
	t->buffers = calloc(count, sizeof *t->buffers);
	if (!t->buffers)
		return ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		t->buffers[i].data = memory + i * stride_bytes;
		tx_release(t, &t->buffers[i]);
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
	b->to = to;
	return b;
}

void tx_release(struct tx *t, struct txbuf *b)
{
	b->next = t->free;
	t->free = b;
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

void reply_send(struct tx *t, struct txbuf *b, size_t payload_bytes)
{
	struct sendq *q = b->to;

	if (q->outstanding)
		q->outstanding--;
	if (q->closing) {
		tx_release(t, b);
		return;
	}
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

/* So many that a reply stays inline. */
#define NEWS_MAX 12u

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
	q->used++;
	if (signal) {
		b->wr.wr_id = wr_pack(b, WR_TX, q->unsignaled);
		q->unsignaled = 0;
		if (!q->sends++)
			atomic_store_explicit(&q->stuck_ns, clock_ns(), memory_order_relaxed);
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

/* Posts what fits of a connection's chain; true if all went. */
static bool flush_conn(struct tx *t, struct sendq *q)
{
	struct txbuf *first = q->chain, *end = first, *last = NULL, *next;
	struct ibv_send_wr *bad;

	if (q->closing) {
		drop_chain(t, q);
		return true;
	}
	for (; end && q->used < q->depth; end = end->next) {
		prepare(q, end);
		if (last)
			last->wr.next = &end->wr;
		last = end;
	}
	if (!last)
		return !q->chain;
	q->chain = end;
	int rc = ibv_post_send(q->qp, &first->wr, &bad);
	for (struct txbuf *b = first; b != end; b = next) {
		next = b->next;
		if (!(b->wr.send_flags & IBV_SEND_SIGNALED))
			tx_release(t, b);
	}
	if (rc) {
		log_limited(LOG_LEVEL_ERROR, "posting a reply failed", "posting a reply to %s failed: %s",
			    q->peer, strerror(rc));
		conn_close(q->conn, "replies can't be posted");
		drop_chain(t, q);
	}
	return !q->chain;
}

void reply_flush(struct tx *t)
{
	struct sendq *q = t->dirty, *next;

	t->dirty = NULL;
	for (; q; q = next) {
		next = q->dirty_next;
		q->is_dirty = false;
		if (!flush_conn(t, q)) {
			q->is_dirty = true;
			q->dirty_next = t->dirty;
			t->dirty = q;
		}
	}
}

void reply_completed(struct tx *t, struct txbuf *b)
{
	struct sendq *q = b->to;

	/* The main thread drops who takes nothing for a while. */
	atomic_store_explicit(&q->stuck_ns, --q->sends ? clock_ns() : 0, memory_order_relaxed);
	tx_release(t, b);
}
