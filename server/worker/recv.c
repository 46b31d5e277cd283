/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a worker receives.
 *
 * A request that another worker or a lock holder is in the way of, or whose reply has no place
 * yet, is set aside with its buffer and tried again.  So is one that takes as long as many others
 * (a page of keys): one of these is executed after each look at what came, so that a change
 * waits for one of them, however many clients list keys.  When too many are aside, or for too
 * long, a request is answered "busy".  A connection may have as many aside as it leaves room for others'.
 * So each request is answered, but for those of a peer that asks for more and takes no
 * reply: its connection ends.
 */
#include "common/clock.h"
#include "server/store/item/clock.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/request/request.h"
#include "server/worker/worker_impl.h"

/* A request may be aside for as long before it is answered "busy". */
#define ASIDE_NS_MAX 2000000000ull

static void set_aside(struct worker *w, struct conn *c, uint32_t buffer, uint32_t bytes)
{
	uint64_t now = w->timings.begun_ns ? w->timings.begun_ns : clock_ns();
	struct deferred *d = &w->deferred;

	if (c->sendq.aside < d->max - d->count &&
	    deferred_add(d, c, buffer, bytes, request_is_slow(rx_buffer(&w->rx, buffer)), now)) {
		c->sendq.aside++;
		return;
	}
	if (!w->tx.free)
		reply_flush(&w->tx);
	if (!request_answer_busy(w, c, rx_buffer(&w->rx, buffer)))
		conn_close(c, "it asks for more, and takes none of its replies");
	rx_release(&w->rx, buffer);
}

/* What is tried again at one time. */
struct round {
	struct worker *worker;
	uint64_t now;
	bool was_slow; /* one of the slow ones had its turn */
};

static enum request_fate retry_one(struct worker *w, struct deferred_request *d, uint64_t now)
{
	struct sendq *q = &d->conn->sendq;

	if (q->closing)
		return REQUEST_DONE;
	q->aside--;
	if (!reply_may(&w->tx, q, false)) {
		q->aside++;
		return REQUEST_ASIDE;
	}
	w->timings.begun_ns = w->server->timed ? d->since_ns : 0;
	if (now - d->since_ns > ASIDE_NS_MAX &&
	    request_answer_busy(w, d->conn, rx_buffer(&w->rx, d->buffer)))
		return REQUEST_DONE;
	w->store.blocked = STORE_NOT_BLOCKED;
	enum request_fate fate =
		request_handle(w, d->conn, rx_buffer(&w->rx, d->buffer), d->bytes, NULL);
	if (fate == REQUEST_DONE)
		return fate;
	q->aside++;
	deferred_report(w->server->locker, w->store.blocked, &d->report_ns, now);
	return fate;
}

static bool again(void *arg, struct deferred_request *d)
{
	struct round *r = arg;

	if (d->is_slow && r->was_slow)
		return false;
	r->was_slow |= d->is_slow;
	if (retry_one(r->worker, d, r->now) == REQUEST_ASIDE)
		return false;
	rx_release(&r->worker->rx, d->buffer);
	return true;
}

void intake_retry(struct worker *w)
{
	struct round r = { .worker = w, .now = clock_ns() };

	/* Who has an answer does not wait for it, too. */
	if (w->deferred.slow)
		reply_flush(&w->tx);

	deferred_retry(&w->deferred, again, &r);
}

/* Changes whose records are on disk. */
void intake_committed(struct worker *w)
{
	*w->committed_end = durable_port_take(&w->store.port);
	while (*w->committed_end)
		w->committed_end = &(*w->committed_end)->next;
	if (!w->committed)
		return;
	w->tx.clock_ms = store_clock_ms(w->server->store);
	while (w->committed && w->tx.free) {
		struct durable_op *op = w->committed;
		w->committed = op->next;
		if (!w->committed)
			w->committed_end = &w->committed;
		request_committed(w, (struct commit *)op);
	}
	w->tx.clock_ms = 0;
}

void intake_received(struct worker *w, const struct ibv_wc *wc, const struct hash *hash)
{
	uint32_t buffer = (uint32_t)wc->wr_id;
	struct conn *c = worker_find(w, wc->qp_num);

	w->rx.posted--;
	if (!c) {
		/* Its connection was handed over, but not taken yet. */
		worker_take_commands(w);
		c = worker_find(w, wc->qp_num);
	}
	if (c && c->state != CONN_CLOSING && wc->status == IBV_WC_SUCCESS) {
		if (++c->sendq.outstanding > c->credits) {
			conn_close_malformed(c, "more requests than its credits");
		} else if (request_handle(w, c, rx_buffer(&w->rx, buffer), wc->byte_len, hash) ==
			   REQUEST_ASIDE) {
			set_aside(w, c, buffer, wc->byte_len);
			return;
		}
	} else if (c && wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR) {
		conn_close(c, ibv_wc_status_str(wc->status));
	}
	rx_release(&w->rx, buffer);
}
