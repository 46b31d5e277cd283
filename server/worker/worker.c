/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker: one thread, one completion queue, one shared receive queue, and the
 * connections that were given to it.
 *
 * Happy path: poll a batch, execute each request, post the replies (one doorbell
 * per connection), refill the receive queue in one chain; nothing to do: spin for
 * a while, then sleep until an event.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/expire.h"
#include "server/table/index.h"
#include "server/worker/worker_impl.h"

#define STEP 8 /* of a batch */
#define STOP_NS_MAX 5000000000ull

static void sent(struct worker *w, const struct ibv_wc *wc)
{
	void *ptr = wr_ptr(wc->wr_id);
	struct conn *c;

	if (!ptr)
		return; /* an unsignalled one, flushed */
	if (wr_kind(wc->wr_id) != WR_PULL)
		c = ((struct tx *)ptr)->conn;
	else
		c = worker_find(w, wc->qp_num);
	if (c)
		c->sq_used -= wr_count(wc->wr_id);
	if (c && wc->status != IBV_WC_SUCCESS)
		conn_close(c, ibv_wc_status_str(wc->status));
	if (wr_kind(wc->wr_id) == WR_TX)
		reply_completed(w, ptr);
	else if (wr_kind(wc->wr_id) == WR_HELD)
		worker_got_held(w, ptr, wc);
	else
		pull_completed(w, ptr, wc);
}

/* A reply that nobody wanted to be told of; those behind it are flushed. */
static void failed(struct worker *w, const struct ibv_wc *wc)
{
	struct conn *c = worker_find(w, wc->qp_num);

	if (c && wc->status != IBV_WC_WR_FLUSH_ERR)
		conn_close(c, ibv_wc_status_str(wc->status));
}

/* -------------------------------------------------------------------- loop */

static void count_error(struct worker *w, enum ibv_wc_status status)
{
	if (status != IBV_WC_SUCCESS && (unsigned)status < WC_STATUSES)
		atomic_fetch_add_explicit(&w->stats.wc_errors[status], 1, memory_order_relaxed);
}

/* What was polled together. */
struct batch {
	struct ibv_wc wc[BATCH];
	struct hash hash[BATCH]; /* of a request's key */
	bool hashed[BATCH];
};

static bool is_message(const struct ibv_wc *wc)
{
	return !wr_count(wc->wr_id) && wc->wr_id != 0 && wc->status == IBV_WC_SUCCESS;
}

/* Buckets of completions i to end - 1. */
static void prefetch(struct worker *w, struct batch *b, int i, int end)
{
	for (; i < end; i++)
		b->hashed[i] = is_message(&b->wc[i]) &&
			       request_prefetch(w, intake_buffer(w, (uint32_t)b->wc[i].wr_id),
						b->wc[i].byte_len, &b->hash[i]);
}

/* Items, once the buckets are there. */
static void prefetch_items(struct worker *w, const struct batch *b, int i, int end)
{
	for (; i < end; i++)
		if (b->hashed[i])
			index_prefetch_item(w->server->store->index, b->hash[i]);
}

static void take_completion(struct worker *w, const struct ibv_wc *wc, const struct hash *hash)
{
	count_error(w, wc->status);
	/* The opcode is undefined in an error: receives have no kind. */
	if (wr_kind(wc->wr_id) != WR_NONE && wr_ptr(wc->wr_id) && wr_count(wc->wr_id))
		sent(w, wc);
	else if (wc->wr_id != 0 || wc->status == IBV_WC_SUCCESS)
		intake_received(w, wc, hash);
	else
		failed(w, wc);
}

/*
 * A few at a time: while they are executed what the next ones look at comes into the
 * cache, and a client that has many in flight has the first answers while the others
 * are made, if there is a core for it.
 */
static int poll_batch(struct worker *w)
{
	struct batch b;
	int n = ibv_poll_cq(w->cq, BATCH, b.wc);

	if (n <= 0)
		return n;
	uint64_t now = clock_ns();
	w->clock_ms = store_clock_ms_at(w->server->store, now);
	b.hashed[0] = false;
	if (n > 1)
		prefetch(w, &b, 0, n < STEP ? n : STEP);
	for (int i = 0; i < n; i += STEP) {
		int end = i + STEP < n ? i + STEP : n;
		prefetch(w, &b, end, end + STEP < n ? end + STEP : n);
		if (n > 1)
			prefetch_items(w, &b, i, end);
		for (int k = i; k < end; k++) {
			w->begun_ns = w->server->timed ? now : 0;
			take_completion(w, &b.wc[k], b.hashed[k] ? &b.hash[k] : NULL);
		}
		if (end < n && !spin_is_crowded(&w->spin, now))
			reply_flush(w);
	}
	w->clock_ms = 0;
	return n;
}

/* Something waits that no completion will announce. */
static bool has_waiting(const struct worker *w)
{
	return w->deferred.count || w->dirty || w->closing || w->committed || pulls_waiting(w);
}

static void sleep_for_event(struct worker *w)
{
	struct pollfd fds[2] = { { .fd = w->channel->fd, .events = POLLIN },
				 { .fd = w->wake_fd, .events = POLLIN } };
	struct ibv_cq *cq;
	void *context;
	eventfd_t value;

	bool soon = has_waiting(w) || expire_is_due(w->server->store) ||
		    compact_is_due(&w->store);
	int n = poll(fds, 2, soon ? 1 : 1000);
	if (n <= 0)
		return;
	if ((fds[0].revents & POLLIN) &&
	    !w->server->verbs->get_cq_event(w->channel, &cq, &context) && ++w->events == 64) {
		w->server->verbs->ack_cq_events(w->cq, w->events);
		w->events = 0;
	}
	if (fds[1].revents & POLLIN)
		eventfd_read(w->wake_fd, &value);
}

/* Nothing came: spin for a while, arm the event, look once more, sleep. */
static int wait_batch(struct worker *w)
{
	int policy = w->server->options.poll;
	uint64_t start = clock_ns();
	int n = 0;

	spin_start(&w->spin, start);
	while (policy != POLL_EVENT &&
	       (policy == POLL_BUSY || spin_again(&w->spin, start, clock_ns()))) {
		for (int i = 0; i < 16 && !n; i++)
			n = poll_batch(w);
		if (n)
			spin_learn(&w->spin, clock_ns() - start);
		if (n || atomic_load_explicit(&w->poked, memory_order_relaxed) || has_waiting(w))
			return n;
	}
	ibv_req_notify_cq(w->cq, 0);
	n = poll_batch(w);
	if (!n)
		sleep_for_event(w);
	spin_learn(&w->spin, clock_ns() - start);
	return n;
}

/* Collects what is drained, takes commands, buries. */
static void look_after_conns(struct worker *w, bool idle)
{
	struct conn *drained = drain_collect(w, idle);

	if (!drained)
		return;
	worker_take_inbox(w);
	drain_bury(w, drained);
}

static bool stop_is_due(const struct worker *w, bool idle, uint64_t *deadline_ns)
{
	if (!atomic_load(&w->stopping))
		return false;
	if (!*deadline_ns)
		*deadline_ns = clock_ns() + STOP_NS_MAX;
	return clock_ns() > *deadline_ns || (idle && !has_waiting(w) && !w->store.commits);
}

static void close_all(struct worker *w)
{
	for (struct conn *c = w->conns; c; c = c->worker_next)
		conn_close(c, "kvd stops");
	for (uint64_t until = clock_ns() + CLOSE_NS_MAX + CLOSE_NS_MAX;
	     w->conns && clock_ns() < until;) {
		if (w->store.commits)
			intake_committed(w);
		bool idle = poll_batch(w) == 0;
		look_after_conns(w, idle);
		if (idle)
			sleep_for_event(w);
	}
}

static void *run(void *arg)
{
	struct worker *w = arg;
	uint64_t deadline_ns = 0, beat = 0;
	int n = 0;

	compact_join(&w->store);
	for (;;) {
		atomic_store_explicit(&w->beat, ++beat, memory_order_relaxed);
		if (n == 0)
			n = wait_batch(w);
		else
			n = poll_batch(w);
		if (atomic_load_explicit(&w->poked, memory_order_relaxed)) {
			atomic_store(&w->poked, false);
			worker_take_inbox(w);
			look_after_conns(w, n == 0);
		} else if (w->closing) {
			look_after_conns(w, n == 0);
		}
		if (w->store.commits)
			intake_committed(w);
		if (w->deferred.count)
			intake_retry(w);
		pulls_retry(w);
		if (expire_is_due(w->server->store))
			expire_step(&w->store, clock_ns());
		if (compact_is_due(&w->store))
			compact_step(&w->store, clock_ns());
		reply_flush(w);
		int rc = intake_refill(w);
		if (rc)
			log_error("worker %u can't refill its receive queue: %s", w->id,
				  strerror(rc));
		if (stop_is_due(w, n == 0, &deadline_ns))
			break;
	}
	close_all(w);
	compact_leave(&w->store);
	return NULL;
}

/* ---------------------------------------------------------- start and stop */

static int new_queues(struct worker *w, struct err *err)
{
	struct server *s = w->server;
	const struct verbs *v = s->verbs;
	struct ibv_srq_init_attr srq = { .srq_context = w, .attr = { .max_wr = w->rx_count, .max_sge = 1 } };
	uint32_t cqe = w->rx_count + (uint32_t)s->options.connections / s->worker_count * 128 + 128;

	if (cqe > s->limits.cqe_max)
		cqe = s->limits.cqe_max;
	w->channel = v->create_comp_channel(s->ctx);
	/* A bell without an event must not block a worker. */
	if (!w->channel || fcntl(w->channel->fd, F_SETFL, O_NONBLOCK))
		return err_set_errno(err, -1, errno, "can't create a completion channel");
	w->cq = v->create_cq(s->ctx, (int)cqe, w, w->channel, 0);
	if (!w->cq)
		return err_set_errno(err, -1, errno, "can't create a completion queue of %u entries",
				     cqe);
	w->srq = v->create_srq(s->pd, &srq);
	if (!w->srq)
		return err_set_errno(err, -1, errno, "can't create a shared receive queue of %u entries",
				     w->rx_count);
	return 0;
}

static int new_buffers(struct worker *w, struct err *err)
{
	w->memory_bytes = (size_t)(w->rx_count + w->tx_count) * BUFFER_STRIDE_BYTES;
	w->memory = mmap(NULL, w->memory_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->memory == MAP_FAILED) {
		w->memory = NULL;
		return err_set_errno(err, -1, errno, "can't get memory for message buffers");
	}
	w->mr = w->server->verbs->reg_mr(w->server->pd, w->memory, w->memory_bytes,
					 IBV_ACCESS_LOCAL_WRITE);
	if (!w->mr)
		return err_set_errno(err, -1, errno,
				     "can't register %zu KiB of message buffers (see 'ulimit -l')",
				     w->memory_bytes >> 10);
	w->rx_free = calloc(w->rx_count, sizeof *w->rx_free);
	w->tx = calloc(w->tx_count, sizeof *w->tx);
	if (!w->rx_free || !w->tx || deferred_init(&w->deferred, DEFERRED_MAX))
		return err_set(err, -1, "out of memory");
	/* Buffer 0 is never a receive buffer: a wr_id of 0 is a flushed send. */
	for (uint32_t i = 1; i < w->rx_count; i++)
		w->rx_free[w->rx_free_count++] = i;
	for (uint32_t i = 0; i < w->tx_count; i++) {
		w->tx[i].data = intake_buffer(w, w->rx_count + i);
		w->tx[i].next = w->tx_free;
		w->tx_free = &w->tx[i];
	}
	return 0;
}

static void wake_for_commit(void *worker)
{
	worker_wake(worker);
}

int worker_new(struct server *s, struct worker *w, unsigned id, struct err *err)
{
	w->server = s;
	w->id = id;
	w->rx_count = RX_COUNT < s->limits.srq_wr_max ? RX_COUNT : s->limits.srq_wr_max;
	w->tx_count = TX_COUNT;
	spin_init(&w->spin);
	pthread_mutex_init(&w->inbox_lock, NULL);
	w->inbox_end = &w->inbox;
	w->committed_end = &w->committed;
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake_fd < 0)
		return err_set_errno(err, -1, errno, "eventfd");
	int rc = store_worker_init(&w->store, s->store, id);
	if (rc)
		return err_set_errno(err, -1, rc, "can't make worker %u's heap", id);
	durable_port_init(&w->store.port, wake_for_commit, w);
	if (pulls_new(w) || (s->durable && owed_new(w)))
		return err_set(err, -1, "out of memory");
	if (new_queues(w, err) || new_buffers(w, err))
		return -1;
	rc = intake_refill(w);
	return rc ? err_set_errno(err, -1, rc, "can't post receives") : 0;
}

int worker_start(struct worker *w, struct err *err)
{
	int rc = pthread_create(&w->thread, NULL, run, w);

	return rc ? err_set_errno(err, -1, rc, "can't start worker %u", w->id) : 0;
}

void worker_stop(struct worker *w)
{
	atomic_store(&w->stopping, true);
	worker_wake(w);
	pthread_join(w->thread, NULL);
}

/* After every connection was destroyed. */
void worker_delete(struct worker *w)
{
	const struct verbs *v = w->server->verbs;

	if (w->srq)
		v->destroy_srq(w->srq);
	if (w->cq) {
		v->ack_cq_events(w->cq, w->events);
		v->destroy_cq(w->cq);
	}
	if (w->channel)
		v->destroy_comp_channel(w->channel);
	if (w->mr)
		v->dereg_mr(w->mr);
	if (w->memory)
		munmap(w->memory, w->memory_bytes);
	free(w->rx_free);
	free(w->tx);
	deferred_fini(&w->deferred);
	pulls_delete(w);
	owed_delete(w);
	store_worker_fini(&w->store);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	pthread_mutex_destroy(&w->inbox_lock);
}
