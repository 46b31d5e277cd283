/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pulls: a value that is larger than a message is READ by kvd from the client's
 * memory, straight into the memory of its new item.
 *
 * Happy path: allocate the item, READ in chunks with a few in flight, check the
 * value's checksum, store_put.  While the stripe is in somebody's way the pull
 * waits, complete, and is tried again.  Failure: the connection breaks (the READs
 * are flushed) or the checksum is wrong: the item is freed, nothing was changed.
 * The item's memory is freed only after every READ into it has completed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "server/server.h"

#define CHUNK_BYTES_MAX (1ull << 20)
#define WINDOW 4u

struct pull {
	struct pull *next;
	struct conn *conn; /* NULL: free */
	struct wire_request request;
	struct layout_item *item;
	uint64_t posted;
	uint32_t in_flight;
	bool failed;
	bool complete;
};

int pulls_new(struct worker *w)
{
	w->pulls = calloc(PULLS, sizeof *w->pulls);
	if (!w->pulls)
		return ENOMEM;
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
	struct tx *tx = reply_new(w, p->conn, &p->request, status);

	fate_note(p->conn->fate, p->request.request_id, status, r ? r->version : 0);
	if (status == WIRE_OK) {
		struct wire_reply *reply = reply_head(tx);
		reply->version = r->version;
		reply->value_bytes = r->value_bytes;
		reply->bucket = r->bucket;
		reply->word = r->word;
		reply->flags = (uint16_t)r->slot;
	} else {
		atomic_fetch_add_explicit(&w->stats.failed, 1, memory_order_relaxed);
	}
	reply_send(w, tx, 0);
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
	struct store_result r = { 0 };
	struct store_change c = {
		.hash = hash_key(p->item->data, q->key_bytes),
		.key = p->item->data,
		.key_bytes = q->key_bytes,
		.value_bytes = q->value_bytes,
		.item = p->item,
		.token = q->token,
		.version = q->version,
		.flags = q->flags,
	};

	int status = store_put(&w->store, &c, &r);
	if (status == STORE_ASIDE)
		return;
	if (status != WIRE_OK)
		store_item_delete(&w->store, p->item);
	finish(w, p, (enum wire_status)status, &r);
}

static bool post_chunk(struct worker *w, struct pull *p)
{
	struct conn *c = p->conn;
	uint64_t left = p->request.value_bytes - p->posted;
	uint64_t max = w->server->limits.message_bytes_max;
	uint64_t bytes = max < CHUNK_BYTES_MAX ? max : CHUNK_BYTES_MAX;
	struct ibv_send_wr *bad;

	bytes = left < bytes ? left : bytes;
	struct ibv_sge sge = { .addr = (uintptr_t)(value_of(p) + p->posted),
			       .length = (uint32_t)bytes,
			       .lkey = w->server->table->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_pack(p, WR_PULL, c->unsignaled + 1),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = p->request.value_addr + p->posted,
			     .rkey = p->request.value_rkey },
	};
	if (ibv_post_send(c->qp, &wr, &bad)) {
		p->failed = true;
		return false;
	}
	c->unsignaled = 0;
	c->sq_used++;
	p->posted += bytes;
	p->in_flight++;
	return true;
}

static void advance(struct worker *w, struct pull *p)
{
	while (!p->failed && p->conn->state != CONN_CLOSING && p->posted < p->request.value_bytes && p->in_flight < WINDOW &&
	       p->conn->sq_used < p->conn->sq_depth)
		if (!post_chunk(w, p))
			break;
	if (p->in_flight)
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
	if (!p->complete &&
	    hash_bytes(value_of(p), p->request.value_bytes) != p->request.value_checksum) {
		store_item_delete(&w->store, p->item);
		finish(w, p, WIRE_EPULL, NULL);
		return;
	}
	p->complete = true;
	apply(w, p);
}

enum request_fate pull_start(struct worker *w, struct conn *conn,
			     const struct wire_request *q, const uint8_t *key)
{
	struct pull *p = w->pull_free;
	struct tx *tx;

	if (!p || !w->tx_free)
		return REQUEST_ASIDE;
	uint64_t expiry = q->ttl_ms ? store_clock_ms(w->server->store) + q->ttl_ms : 0;
	struct layout_item *item =
		store_item_new(&w->store, key, q->key_bytes, q->value_bytes, expiry);
	if (!item) {
		tx = reply_new(w, conn, q, WIRE_EMEMORY);
		reply_send(w, tx, 0);
		return REQUEST_DONE;
	}
	w->pull_free = p->next;
	*p = (struct pull){ .conn = conn, .request = *q, .item = item };
	conn->pulls++;
	atomic_fetch_add_explicit(&w->stats.pulls, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&w->stats.pull_bytes, q->value_bytes, memory_order_relaxed);
	advance(w, p);
	return REQUEST_DONE;
}

void pull_completed(struct worker *w, struct pull *p, const struct ibv_wc *wc)
{
	p->in_flight--;
	if (wc->status != IBV_WC_SUCCESS) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			log_warn("READ of a value from %s failed: %s (vendor error 0x%x)",
				 p->conn->peer.text, ibv_wc_status_str(wc->status),
				 wc->vendor_err);
		p->failed = true;
	}
	advance(w, p);
}

void pulls_retry(struct worker *w)
{
	for (unsigned i = 0; i < PULLS; i++)
		if (w->pulls[i].conn && !w->pulls[i].in_flight)
			advance(w, &w->pulls[i]);
}

bool pulls_waiting(const struct worker *w)
{
	for (unsigned i = 0; i < PULLS; i++)
		if (w->pulls[i].conn && !w->pulls[i].in_flight)
			return true;
	return false;
}
