/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replies: built into a tx buffer, chained per connection while a batch of
 * requests is handled, posted with one doorbell per connection at its end.
 *
 * Selective signalling: a reply is signalled if its buffer is not inline, or if
 * SIGNAL_EVERY went without; its completion gives back the send queue slots of
 * all before it.  A reply that finds no slot waits in the chain.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log_limit.h"
#include "server/table/index.h"
#include "server/worker/server.h"

#define SIGNAL_EVERY 16u

struct tx *reply_new(struct worker *w, struct conn *conn, const struct wire_request *req,
		     enum wire_status status)
{
	struct tx *tx = w->tx_free;

	if (!tx)
		return NULL;
	w->tx_free = tx->next;
	tx->conn = conn;
	*reply_head(tx) = (struct wire_reply){
		.request_id = req->request_id,
		.op = req->op,
		.status = (uint8_t)status,
		.bucket = ~0ull,
		.buckets = index_buckets(w->server->store->index),
		.clock_ms = w->clock_ms ? w->clock_ms : store_clock_ms(w->server->store),
	};
	return tx;
}

void tx_free(struct worker *w, struct tx *tx)
{
	tx->next = w->tx_free;
	w->tx_free = tx;
}

void reply_send(struct worker *w, struct tx *tx, size_t payload_bytes)
{
	struct conn *c = tx->conn;

	if (c->outstanding)
		c->outstanding--;
	if (c->state == CONN_CLOSING) {
		tx_free(w, tx);
		return;
	}
	tx->sge = (struct ibv_sge){
		.addr = (uintptr_t)tx->data,
		.length = (uint32_t)(sizeof(struct wire_reply) + payload_bytes),
		.lkey = w->mr->lkey,
	};
	tx->next = NULL;
	if (!c->chain)
		c->chain_end = &c->chain;
	*c->chain_end = tx;
	c->chain_end = &tx->next;
	if (!c->is_dirty) {
		c->is_dirty = true;
		c->dirty_next = w->dirty;
		w->dirty = c;
	}
}

/* So many that a reply stays inline. */
#define NEWS_MAX 12u

/* A change's: fills in its result, notes its fate, and adds what is new. */
static void send_result(struct worker *w, struct tx *tx, const struct store_result *result)
{
	struct wire_reply *reply = reply_head(tx);
	struct news *news = w->server->news;
	struct conn *c = tx->conn;
	unsigned n;

	fate_note(c->fate, reply->request_id, (enum wire_status)reply->status, result->version,
		  result->value_bytes);
	if (reply->status == WIRE_OK || reply->status == WIRE_CONDITION) {
		reply->version = result->version;
		reply->value_bytes = result->value_bytes;
		reply->bucket = result->bucket;
		reply->word = result->word;
		reply->flags = (uint16_t)(result->slot & WIRE_SLOT_MASK);
	}
	if (result->moved && result->bucket != ~0ull)
		news_put(news, c->connection_id, result->bucket, result->slot, result->word);
	n = news_take(news, c->connection_id, &c->news_seen, (struct wire_news *)reply_payload(tx),
		      NEWS_MAX);
	reply_send(w, tx, n * sizeof(struct wire_news));
}

/* Only the worker writes it; others read. */
static void count(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static struct tx *counted(struct worker *w, struct conn *c, const struct wire_request *q,
			  enum wire_status status)
{
	if (status != WIRE_OK)
		count(status == WIRE_NOT_FOUND ? &w->stats.not_found : &w->stats.failed);
	return reply_new(w, c, q, status);
}

void reply_answer(struct worker *w, struct conn *c, const struct wire_request *q,
		  enum wire_status status)
{
	reply_send(w, counted(w, c, q, status), 0);
}

void reply_answer_result(struct worker *w, struct conn *c, const struct wire_request *q,
			 enum wire_status status, const struct store_result *result)
{
	send_result(w, counted(w, c, q, status), result);
}

static void prepare(struct conn *c, struct tx *tx)
{
	bool small = tx->sge.length <= c->inline_bytes;
	bool signal = !small || c->unsignaled + 1 >= SIGNAL_EVERY;

	tx->wr = (struct ibv_send_wr){
		.sg_list = &tx->sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = (small ? IBV_SEND_INLINE : 0) | (signal ? IBV_SEND_SIGNALED : 0),
	};
	c->unsignaled++;
	c->sq_used++;
	if (signal) {
		tx->wr.wr_id = wr_pack(tx, WR_TX, c->unsignaled);
		c->unsignaled = 0;
		if (!c->sends++)
			atomic_store_explicit(&c->stuck_ns, clock_ns(), memory_order_relaxed);
	}
}

static void drop_chain(struct worker *w, struct conn *c)
{
	while (c->chain) {
		struct tx *tx = c->chain;
		c->chain = tx->next;
		tx_free(w, tx);
	}
}

/* Posts what fits of a connection's chain; true if all went. */
static bool flush_conn(struct worker *w, struct conn *c)
{
	struct tx *first = c->chain, *tx = first, *last = NULL, *next;
	struct ibv_send_wr *bad;

	if (c->state == CONN_CLOSING) {
		drop_chain(w, c);
		return true;
	}
	for (; tx && c->sq_used < c->sq_depth; tx = tx->next) {
		prepare(c, tx);
		if (last)
			last->wr.next = &tx->wr;
		last = tx;
	}
	if (!last)
		return !c->chain;
	c->chain = tx;
	int rc = ibv_post_send(c->qp, &first->wr, &bad);
	for (struct tx *t = first; t != tx; t = next) {
		next = t->next;
		if (!(t->wr.send_flags & IBV_SEND_SIGNALED))
			tx_free(w, t);
	}
	if (rc) {
		log_limited(LOG_LEVEL_ERROR, "posting a reply failed", "posting a reply to %s failed: %s",
			    c->peer.text, strerror(rc));
		conn_close(c, "replies can't be posted");
		drop_chain(w, c);
	}
	return !c->chain;
}

void reply_flush(struct worker *w)
{
	struct conn *c = w->dirty, *next;

	w->dirty = NULL;
	for (; c; c = next) {
		next = c->dirty_next;
		c->is_dirty = false;
		if (!flush_conn(w, c)) {
			c->is_dirty = true;
			c->dirty_next = w->dirty;
			w->dirty = c;
		}
	}
}

void reply_completed(struct worker *w, struct tx *tx)
{
	struct conn *c = tx->conn;

	/* The main thread drops who takes nothing for a while. */
	atomic_store_explicit(&c->stuck_ns, --c->sends ? clock_ns() : 0, memory_order_relaxed);
	tx_free(w, tx);
}
