/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a worker receives.
 *
 * A request that another worker or a lock holder is in the way of is set aside with its
 * buffer and tried again; when too many are aside, or for too long, it is answered "busy".
 */
#include "common/clock.h"
#include "common/log.h"
#include "server/worker/worker_impl.h"

/* A request may be aside for as long before it is answered "busy". */
#define ASIDE_NS_MAX 2000000000ull
/* Receives beyond what its connections may use: for those that are coming. */
#define RX_SPARE_PART 4u

/* So many receives are posted as may be used at once: in turn they would all be used
 * otherwise, and each message come to memory that no cache has. */
static uint32_t rx_wanted(const struct worker *w)
{
	uint32_t want = w->credits + w->rx_count / RX_SPARE_PART;

	return want < w->rx_posted ? 0 : want - w->rx_posted;
}

/* Posts free buffers in chains. */
int intake_refill(struct worker *w)
{
	struct ibv_recv_wr wr[BATCH], *bad;
	struct ibv_sge sge[BATCH];

	for (uint32_t want = rx_wanted(w); w->rx_free_count && want;) {
		uint32_t n = w->rx_free_count < BATCH ? w->rx_free_count : BATCH;
		if (n > want)
			n = want;
		want -= n;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t b = w->rx_free[--w->rx_free_count];
			sge[i] = (struct ibv_sge){ .addr = (uintptr_t)intake_buffer(w, b),
						   .length = WIRE_MESSAGE_BYTES_MAX,
						   .lkey = w->mr->lkey };
			wr[i] = (struct ibv_recv_wr){ .wr_id = b, .sg_list = &sge[i], .num_sge = 1,
						      .next = i + 1 < n ? &wr[i + 1] : NULL };
		}
		int rc = ibv_post_srq_recv(w->srq, wr, &bad);
		if (rc)
			return rc;
		w->rx_posted += n;
	}
	return 0;
}

static void release(void *worker, uint32_t buffer)
{
	struct worker *w = worker;

	w->rx_free[w->rx_free_count++] = buffer;
}

static void set_aside(struct worker *w, struct conn *c, uint32_t buffer, uint32_t bytes)
{
	uint64_t now = w->begun_ns ? w->begun_ns : clock_ns();

	if (deferred_add(&w->deferred, c, buffer, bytes, now))
		return;
	request_answer_busy(w, c, intake_buffer(w, buffer));
	release(w, buffer);
}

/* What is tried again at one time. */
struct round {
	struct worker *worker;
	uint64_t now;
};

static enum request_fate retry_one(struct worker *w, struct deferred_request *d, uint64_t now)
{
	if (d->conn->state == CONN_CLOSING)
		return REQUEST_DONE;
	w->begun_ns = w->server->timed ? d->since_ns : 0;
	if (now - d->since_ns > ASIDE_NS_MAX) {
		request_answer_busy(w, d->conn, intake_buffer(w, d->buffer));
		return REQUEST_DONE;
	}
	w->store.blocked = STORE_NOT_BLOCKED;
	enum request_fate fate =
		request_handle(w, d->conn, intake_buffer(w, d->buffer), d->bytes, NULL);
	if (fate == REQUEST_ASIDE)
		deferred_report(w->server->locker, w->store.blocked, &d->report_ns, now);
	return fate;
}

static bool again(void *arg, struct deferred_request *d)
{
	const struct round *r = arg;

	if (retry_one(r->worker, d, r->now) == REQUEST_ASIDE)
		return false;
	release(r->worker, d->buffer);
	return true;
}

void intake_forget(struct worker *w, const struct conn *c)
{
	deferred_forget(&w->deferred, c, release, w);
}

void intake_retry(struct worker *w)
{
	struct round r = { w, clock_ns() };

	deferred_retry(&w->deferred, again, &r);
}

/* Changes whose records are on disk. */
void intake_committed(struct worker *w)
{
	*w->committed_end = durable_port_take(&w->store.port);
	while (*w->committed_end)
		w->committed_end = &(*w->committed_end)->next;
	while (w->committed && w->tx_free) {
		struct durable_op *op = w->committed;
		w->committed = op->next;
		if (!w->committed)
			w->committed_end = &w->committed;
		request_committed(w, (struct commit *)op);
	}
}

void intake_received(struct worker *w, const struct ibv_wc *wc, const struct hash *hash)
{
	uint32_t buffer = (uint32_t)wc->wr_id;
	struct conn *c = worker_find(w, wc->qp_num);

	w->rx_posted--;
	if (!c) {
		/* Its connection was handed over, but not taken yet. */
		worker_take_inbox(w);
		c = worker_find(w, wc->qp_num);
	}
	if (c && c->state != CONN_CLOSING && wc->status == IBV_WC_SUCCESS) {
		if (++c->outstanding > c->credits) {
			request_malformed(c, "more requests than its credits");
		} else if (request_handle(w, c, intake_buffer(w, buffer), wc->byte_len, hash) ==
			   REQUEST_ASIDE) {
			set_aside(w, c, buffer, wc->byte_len);
			return;
		}
	} else if (c && wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR) {
		conn_close(c, ibv_wc_status_str(wc->status));
	}
	release(w, buffer);
}
