/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker: one thread, one completion queue, one shared receive queue, and the
 * connections that were given to it.
 *
 * Happy path: poll a batch, execute each request, post the replies (one doorbell
 * per connection), refill the receive queue in one chain; nothing to do: spin for
 * a while, then sleep until an event.
 */
#include "server/worker/worker.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/clear.h"
#include "server/store/reclaim/evict.h"
#include "server/store/reclaim/expire.h"
#include "server/table/index.h"
#include "server/worker/conn.h"
#include "server/worker/context.h"
#include "server/worker/request/request.h"
#include "server/worker/worker_impl.h"

#define BATCH 32
#define STEP 8 /* of a batch */
#define TX_COUNT 512u
#define DEFERRED_MAX (RX_COUNT_MAX / 2)
#define STOP_NS_MAX 5000000000ull
#define DRAIN_NS_MAX 2000000000ull
#define BUSY_ROUND_NS 1000000ull /* who never sleeps looks at least so often what is due */

static void sent(struct worker *w, const struct ibv_wc *wc)
{
	void *ptr = wr_ptr(wc->wr_id);
	enum wr_kind kind = wr_kind(wc->wr_id);

	if (kind == WR_MARKER) {
		drain_marked(ptr);
		return;
	}
	struct sendq *q = kind == WR_PULL ? pull_sendq(ptr) : ((struct txbuf *)ptr)->to;
	q->used -= wr_count(wc->wr_id) - 1;
	if (wc->status != IBV_WC_SUCCESS)
		conn_close(q->conn, ibv_wc_status_str(wc->status));
	if (kind == WR_TX)
		reply_completed(&w->tx, ptr);
	else if (kind == WR_HELD)
		worker_got_held(w, ptr, wc);
	else
		pull_completed(&w->pulls, ptr, wc);
}

/* An unsignalled send failed; later ones are flushed. */
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
		stats_add(&w->stats.wc_errors[status], 1);
}

/* What was polled together. */
struct batch {
	struct ibv_wc wc[BATCH];
	struct index_spot spot[BATCH]; /* of a request's key */
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
			       request_prefetch(w, rx_buffer(&w->rx, (uint32_t)b->wc[i].wr_id),
						b->wc[i].byte_len, &b->spot[i]);
}

/* Items, once the buckets are there. */
static void prefetch_items(struct worker *w, const struct batch *b, int i, int end)
{
	for (; i < end; i++)
		if (b->hashed[i])
			index_prefetch_item(w->server->store->index, &b->spot[i]);
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
static int poll_own(struct worker *w)
{
	struct batch b;
	int n = ibv_poll_cq(w->queues.cq, BATCH, b.wc);

	if (n <= 0)
		return n;
	w->polled += (unsigned)n;
	/* The clock is asked while what they look at comes into the cache. */
	prefetch(w, &b, 0, n < STEP ? n : STEP);
	uint64_t now = clock_ns();
	w->tx.clock_ms = store_clock_ms_at(w->server->store, now);
	for (int i = 0; i < n; i += STEP) {
		int end = i + STEP < n ? i + STEP : n;
		prefetch(w, &b, end, end + STEP < n ? end + STEP : n);
		prefetch_items(w, &b, i, end);
		for (int k = i; k < end; k++) {
			w->timings.begun_ns = w->server->timed ? now : 0;
			take_completion(w, &b.wc[k], b.hashed[k] ? &b.spot[k].hash : NULL);
		}
		if (end < n && !spin_is_crowded(&w->spin, now))
			reply_flush(&w->tx);
	}
	w->tx.clock_ms = 0;
	return n;
}

static int poll_batch(struct worker *w)
{
	bool has = w->guest && w->guest->poll(w->guest->arg);
	int n = poll_own(w);

	return n ? n : has;
}

/* Something waits that no completion will announce. */
static bool has_waiting(const struct worker *w)
{
	return w->deferred.count || w->tx.dirty || w->conns.closing || w->committed || pulls_waiting(&w->pulls) ||
	       rewrites_waiting(&w->rewrites);
}

static void sleep_for_event(struct worker *w)
{
	struct pollfd fds[3] = { { .fd = w->is_deaf ? -1 : w->queues.channel->fd, .events = POLLIN },
				 { .fd = w->commands.wake_fd, .events = POLLIN },
				 { .fd = w->guest ? w->guest->descriptor : -1, .events = POLLIN } };
	struct ibv_cq *cq;
	void *context;
	eventfd_t value;

	bool soon = has_waiting(w) || expire_is_due(w->server->store) ||
		    clear_is_due(w->server->store) || compact_is_due(&w->store) ||
		    (w->guest && w->guest->waits(w->guest->arg));
	/* A step is due. */
	bool now = rewrites_waiting(&w->rewrites) || evict_is_due(&w->store) ||
		   clear_is_ready(w->server->store, clock_ns());
	int n = poll(fds, 3, now ? 0 : soon ? 1 : 1000);
	if (n <= 0)
		return;
	if ((fds[0].revents & POLLIN) &&
	    !w->server->verbs->get_cq_event(w->queues.channel, &cq, &context) && ++w->events == 64) {
		w->server->verbs->ack_cq_events(w->queues.cq, w->events);
		w->events = 0;
	}
	if (fds[0].revents && !(fds[0].revents & POLLIN))
		w->is_deaf = true;
	if (fds[1].revents & POLLIN)
		eventfd_read(w->commands.wake_fd, &value);
	if (fds[2].revents & POLLIN)
		w->guest->woken(w->guest->arg);
}

/* Nothing came: spin for a while, arm the event, look once more, sleep.  Who never sleeps looks
 * after what is due now and then. */
static int wait_batch(struct worker *w)
{
	enum poll_policy policy = w->server->poll;
	uint64_t start = clock_ns();
	int n = 0;

	/* What was begun behind the last flush does not wait. */
	if (w->guest)
		w->guest->flush(w->guest->arg);
	if (durable_port_has(&w->store.port))
		return 1;
	spin_start(&w->spin, start);
	while (policy == POLL_BUSY ? clock_ns() - start < BUSY_ROUND_NS
				   : policy != POLL_EVENT && spin_again(&w->spin, start, clock_ns())) {
		for (int i = 0; i < 16 && !n; i++)
			n = poll_batch(w);
		if (n)
			spin_learn(&w->spin, clock_ns() - start);
		if (n || atomic_load_explicit(&w->commands.poked, memory_order_relaxed) || has_waiting(w))
			return n;
	}
	if (policy == POLL_BUSY)
		return 0;
	ibv_req_notify_cq(w->queues.cq, 0);
	if (w->guest)
		w->guest->arm(w->guest->arg);
	n = poll_batch(w);
	if (!n)
		sleep_for_event(w);
	spin_learn(&w->spin, clock_ns() - start);
	/* Not armed again before what it was woken for is done: that would be woken for, too. */
	return n ? n : poll_batch(w);
}

/* Collects what is drained, takes commands, buries. */
static void look_after_conns(struct worker *w, bool idle)
{
	struct conn *drained = w->conns.closing ? drain_collect(w, idle) : NULL;

	if (!drained)
		return;
	worker_take_commands(w);
	drain_bury(w, drained);
}

static bool stop_is_due(const struct worker *w, bool idle, uint64_t *deadline_ns)
{
	if (!atomic_load(&w->commands.stopping))
		return false;
	if (!*deadline_ns)
		*deadline_ns = clock_ns() + STOP_NS_MAX;
	return clock_ns() > *deadline_ns || (idle && !has_waiting(w) && !w->store.commits);
}

static void close_all(struct worker *w)
{
	worker_close_all(w, "kvd stops");
	for (uint64_t until = clock_ns() + DRAIN_NS_MAX; w->conns.first && clock_ns() < until;) {
		if (w->store.commits)
			intake_committed(w);
		bool idle = poll_batch(w) == 0;
		rewrites_step(&w->rewrites);
		look_after_conns(w, idle);
		if (idle)
			sleep_for_event(w);
	}
	if (w->guest)
		w->guest->leave(w->guest->arg);
}

static void *run(void *arg)
{
	struct worker *w = arg;
	uint64_t deadline_ns = 0, beat = 0;
	int n = 0;

	compact_join(&w->store);
	for (;;) {
		atomic_store_explicit(&w->beat, ++beat, memory_order_relaxed);
		if (n == 0 && !w->deferred.slow)
			n = wait_batch(w);
		else
			n = poll_batch(w);
		if (atomic_load_explicit(&w->commands.poked, memory_order_relaxed)) {
			atomic_store(&w->commands.poked, false);
			worker_take_commands(w);
			drain_look(w);
		}
		worker_close_former(w);
		look_after_conns(w, n == 0);
		if (w->guest)
			w->guest->flush(w->guest->arg);
		if (w->store.commits)
			intake_committed(w);
		if (w->guest)
			w->guest->ended(w->guest->arg);
		reply_flush(&w->tx); /* those who are answered don't wait for what follows */
		if (w->store.store->evict)
			evict_round(&w->store);
		if (w->deferred.count) {
			drain_room(w);
			intake_retry(w);
		}
		pulls_retry(&w->pulls);
		rewrites_step(&w->rewrites);
		if (w->pinned.first)
			pinned_lapse(&w->pinned, &w->store, clock_ns());
		if (expire_is_due(w->server->store))
			expire_step(&w->store, clock_ns());
		if (clear_is_due(w->server->store))
			clear_step(&w->store, clock_ns());
		if (compact_is_due(&w->store))
			compact_step(&w->store, clock_ns());
		reply_flush(&w->tx);
		int rc = rx_refill(&w->rx, w->conns.credits);
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

static int new_buffers(struct worker *w, struct err *err)
{
	uint32_t rx_count = w->queues.rx_count;

	w->memory_bytes = (size_t)(rx_count + TX_COUNT) * BUFFER_STRIDE_BYTES;
	w->memory = mmap(NULL, w->memory_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->memory == MAP_FAILED) {
		w->memory = NULL;
		return err_set_errno(err, -1, errno, "can't get memory for message buffers");
	}
	w->mr = w->server->verbs->reg_mr(w->rail->pd, w->memory, w->memory_bytes,
					 IBV_ACCESS_LOCAL_WRITE);
	if (!w->mr)
		return err_set_errno(err, -1, errno,
				     "can't register %zu KiB of message buffers (see 'ulimit -l')",
				     w->memory_bytes >> 10);
	w->tx.lkey = w->mr->lkey;
	if (rx_init(&w->rx, w->queues.srq, rx_count, w->memory, w->mr->lkey) ||
	    tx_init(&w->tx, TX_COUNT, w->memory + (size_t)rx_count * BUFFER_STRIDE_BYTES,
		    BUFFER_STRIDE_BYTES))
		return err_set(err, -1, "out of memory");
	return 0;
}

static void wake_for_commit(void *worker)
{
	struct worker *w = worker;

	commands_wake(&w->commands);
}

/* What needs memory only. */
static int new_parts(struct worker *w)
{
	struct server *s = w->server;
	const struct request_parts parts = { .server = s, .rail = w->rail, .store = &w->store, .tx = &w->tx,
					  .owed = &w->owed, .timings = &w->timings,
					  .stats = &w->stats,
					  .rewrites = &w->rewrites };

	w->tx.store = s->store;
	w->tx.news = s->news;
	w->tx.stats = &w->stats;
	w->tx.membership = s->membership;
	w->timings.slow_ns = (uint64_t)s->slow_ms * 1000000;
	w->timings.worker = w->id;
	w->committed_end = &w->committed;
	pinned_init(&w->pinned);
	spin_init(&w->spin);
	if (pulls_init(&w->pulls, &parts) || rewrites_init(&w->rewrites, &parts) ||
	    deferred_init(&w->deferred, DEFERRED_MAX))
		return -1;
	return (s->durable || s->membership) && owed_init(&w->owed, STORE_COMMITS_MAX) ? -1 : 0;
}

int worker_new(struct server *s, unsigned id, struct worker **worker, struct err *err)
{
	struct worker *w = calloc(1, sizeof *w);

	if (!w)
		return err_set(err, -1, "out of memory");
	*worker = w;
	w->server = s;
	w->id = id;
	w->queues.number = s->worker_first + id;
	w->rail = &s->rails[id % s->rail_count];
	int rc = commands_init(&w->commands);
	if (rc)
		return err_set_errno(err, -1, rc, "eventfd");
	rc = store_worker_init(&w->store, s->store, id);
	if (rc)
		return err_set_errno(err, -1, rc, "can't make worker %u's heap", id);
	durable_port_init(&w->store.port, wake_for_commit, w);
	if (new_parts(w))
		return err_set(err, -1, "out of memory");
	if (queues_new(&w->queues, w, s, w->rail, err) || new_buffers(w, err))
		return -1;
	rc = rx_refill(&w->rx, 0);
	return rc ? err_set_errno(err, -1, rc, "can't post receives") : 0;
}

void worker_invite(struct worker *w, const struct worker_guest *guest)
{
	w->guest = guest;
}

int worker_start(struct worker *w, struct err *err)
{
	int rc = pthread_create(&w->thread, NULL, run, w);

	return rc ? err_set_errno(err, -1, rc, "can't start worker %u", w->id) : 0;
}

void worker_stop(struct worker *w)
{
	atomic_store(&w->commands.stopping, true);
	commands_wake(&w->commands);
	pthread_join(w->thread, NULL);
}

void worker_delete(struct worker **worker)
{
	struct worker *w = *worker;

	if (!w)
		return;
	queues_delete(&w->queues, w->server->verbs, w->events);
	if (w->mr)
		w->server->verbs->dereg_mr(w->mr);
	if (w->memory)
		munmap(w->memory, w->memory_bytes);
	rx_fini(&w->rx);
	tx_fini(&w->tx);
	deferred_fini(&w->deferred);
	pulls_fini(&w->pulls);
	rewrites_fini(&w->rewrites);
	owed_fini(&w->owed);
	store_worker_fini(&w->store);
	commands_fini(&w->commands);
	free(w);
	*worker = NULL;
}

/* --------------------------------------------------------- what others look at */

const struct worker_queues *worker_queues(const struct worker *w)
{
	return &w->queues;
}

struct rail *worker_rail(const struct worker *w)
{
	return w->rail;
}

struct commands *worker_commands(struct worker *w)
{
	return &w->commands;
}

struct conn_set *worker_conn_set(struct worker *w)
{
	return &w->conns;
}

const struct worker_stats *worker_stats(const struct worker *w)
{
	return &w->stats;
}

const struct timing *worker_timing(const struct worker *w, unsigned op)
{
	return &w->timings.op[op];
}

struct store_worker *worker_store(struct worker *w)
{
	return &w->store;
}

pthread_t worker_thread(const struct worker *w)
{
	return w->thread;
}

uint64_t worker_stuck_ns(struct worker *w, uint64_t now)
{
	uint64_t beat = atomic_load_explicit(&w->beat, memory_order_relaxed);

	if (beat == w->seen_beat && w->seen_ns)
		return now - w->seen_ns;
	w->seen_beat = beat;
	w->seen_ns = now;
	return 0;
}
