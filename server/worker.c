/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker: one thread, one completion queue, one shared receive queue, and the
 * connections that were given to it.
 *
 * Happy path: poll a batch, execute each request, post the replies (one doorbell
 * per connection), refill the receive queue in one chain; nothing to do: spin for
 * a while, then sleep until an event.  A request that another worker or a lock
 * holder is in the way of is set aside with its buffer and tried again; when too
 * many are aside it is answered "busy".
 *
 * Teardown of a connection: its queue pair goes to error, what was under way is
 * flushed through the completion queue, and after the last of it (or LAST_WQE for
 * what was received, or a second at the latest) the main thread destroys it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/log_limit.h"
#include "server/compact.h"
#include "server/expire.h"
#include "server/server.h"

#define BATCH 32
#define STEP 8 /* of a batch */
#define RX_COUNT 1024u
#define TX_COUNT 512u
/* Receives beyond what its connections may use: for those that are coming. */
#define RX_SPARE_PART 4u
#define DEFERRED_MAX (RX_COUNT / 2)
/* A request may be aside for as long before it is answered "busy". */
#define ASIDE_NS_MAX 2000000000ull
#define REPORT_AGAIN_NS 20000000ull
#define CLOSE_NS_MAX 1000000000ull
#define STOP_NS_MAX 5000000000ull

uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* What another thread asks of a worker. */
struct command {
	struct command *next;
	enum { CMD_ADOPT, CMD_ANSWER, CMD_READ_HELD, CMD_FENCE, CMD_DENY, CMD_NOTICE } kind;
	struct conn *conn;
	uint64_t connection; /* as in a token; CMD_DENY: its whole id */
	uint64_t look;       /* CMD_READ_HELD */
	uint64_t secret;     /* CMD_FENCE by a client: of that connection's hello */
	struct wire_request request;
	enum wire_status status;
	enum wire_notice notice;
};

/* ------------------------------------------------------------- connections */

static struct conn **map_slot(struct worker *w, uint32_t qp_num)
{
	struct conn **at = &w->map[qp_num % WORKER_MAP];

	while (*at && (*at)->qp->qp_num != qp_num)
		at = &(*at)->map_next;
	return at;
}

static struct conn *map_find(struct worker *w, uint32_t qp_num)
{
	return *map_slot(w, qp_num);
}

static void adopt(struct worker *w, struct conn *c)
{
	struct conn **at = map_slot(w, c->qp->qp_num);

	c->map_next = NULL;
	*at = c;
	w->credits += c->credits;
	c->worker_next = w->conns;
	c->worker_prev = &w->conns;
	if (w->conns)
		w->conns->worker_prev = &c->worker_next;
	w->conns = c;
}

/* Gives back the buffers; retry_deferred(), which may be running, drops the rest. */
static void forget_deferred(struct worker *w, const struct conn *c)
{
	for (uint32_t i = 0; i < w->deferred_count; i++) {
		struct deferred *d = &w->deferred[i];
		if (d->conn != c)
			continue;
		w->rx_free[w->rx_free_count++] = d->buffer;
		d->conn = NULL;
	}
}

void conn_close(struct conn *c, const char *reason)
{
	struct worker *w = c->worker;

	if (c->state == CONN_CLOSING)
		return;
	log_limited(LOG_LEVEL_INFO, reason, "connection %llu from %s closed: %s",
		    (unsigned long long)c->connection_id, c->peer.text, reason);
	if (c->state == CONN_READY)
		atomic_fetch_sub_explicit(&w->server->connections, 1, memory_order_relaxed);
	else
		atomic_fetch_sub_explicit(&w->server->pending, 1, memory_order_relaxed);
	__atomic_store_n(&c->state, CONN_CLOSING, __ATOMIC_RELAXED); /* look_after() looks */
	c->close_ns = clock_ns() + CLOSE_NS_MAX;
	link_qp_set_error(w->server->verbs, c->qp);
	w->closing++;
	forget_deferred(w, c);
	if (w->server->locker)
		locker_forget(w->server->locker, c, c->lock_note);
	else
		atomic_store(&c->lock_idle, true);
}

static void take_inbox(struct worker *w);

static void bury(struct worker *w, struct conn *c)
{
	take_inbox(w); /* the locker's last answers to it */
	struct conn **at = map_slot(w, c->qp->qp_num);

	if (c->is_dirty)
		reply_flush(w);
	if (c->copy)
		store_item_delete(&w->store, c->copy);
	*at = c->map_next;
	*c->worker_prev = c->worker_next;
	if (c->worker_next)
		c->worker_next->worker_prev = c->worker_prev;
	w->closing--;
	w->credits -= c->credits;
	atomic_fetch_sub_explicit(&w->load, 1, memory_order_relaxed);
	conn_done(c);
}

/* Whether nothing of a closing connection is under way any more. */
static bool is_drained(const struct conn *c, uint64_t now)
{
	if (!atomic_load(&c->lock_idle))
		return false;
	if (c->pulls || c->reads_held)
		return false; /* its READs write into table memory until they complete */
	if (c->commits)
		return false; /* nobody may have its locks before its changes are through */
	return now >= c->close_ns || (!c->sends && atomic_load(&c->last_wqe));
}

static const char *drop_reason(struct conn *c)
{
	const char *why = atomic_load(&c->drop_reason);

	return why ? why : "disconnected by the peer";
}

static void progress_conns(struct worker *w, bool idle)
{
	uint64_t now = clock_ns();
	struct conn *next;

	for (struct conn *c = w->conns; c; c = next) {
		next = c->worker_next;
		if (c->state != CONN_CLOSING && atomic_load(&c->disconnected))
			conn_close(c, drop_reason(c));
		/* Only with an empty completion queue is nothing of it left there. */
		if (c->state == CONN_CLOSING && idle && is_drained(c, now))
			bury(w, c);
	}
}

static struct conn *find_by_id(struct worker *w, uint64_t connection)
{
	struct conn *c = w->conns;

	while (c && (c->connection_id & LAYOUT_LOCK_CONNECTION_MASK) != connection)
		c = c->worker_next;
	return c && c->state == CONN_READY ? c : NULL;
}

/* The tokens that a client says it holds: from its memory, without its help. */
static void read_held(struct worker *w, struct conn *c, uint64_t look)
{
	struct tx *tx = w->tx_free;
	struct ibv_send_wr *bad;

	if (!tx || c->reads_held || !c->held_rkey || c->sq_used >= c->sq_depth)
		return;
	w->tx_free = tx->next;
	tx->conn = c;
	tx->sge = (struct ibv_sge){ (uintptr_t)tx->data, LAYOUT_HELD_MAX * sizeof(struct layout_held),
				    w->mr->lkey };
	tx->wr = (struct ibv_send_wr){
		.wr_id = wr_pack(tx, WR_HELD, c->unsignaled + 1),
		.sg_list = &tx->sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = c->held_addr, .rkey = c->held_rkey },
	};
	if (ibv_post_send(c->qp, &tx->wr, &bad)) {
		tx_free(w, tx);
		return;
	}
	c->unsignaled = 0;
	c->sq_used++;
	c->reads_held = true;
	c->look = look;
}

static void got_held(struct worker *w, struct tx *tx, const struct ibv_wc *wc)
{
	struct conn *c = tx->conn;

	c->reads_held = false;
	if (wc->status == IBV_WC_SUCCESS)
		locker_held(w->server->locker, c->connection_id, c->look,
			    (const struct layout_held *)tx->data);
	tx_free(w, tx);
}

static void answer_for(struct worker *w, const struct command *m)
{
	struct tx *tx = m->conn->state == CONN_CLOSING
				? NULL
				: reply_new(w, m->conn, &m->request, m->status);

	if (tx)
		reply_send(w, tx, 0);
	else if (m->conn->state != CONN_CLOSING)
		conn_close(m->conn, "no buffer for the answer to a lock request");
}

/* Tells a denied connection so, which is the end of it. */
static void deny(struct worker *w, uint64_t id)
{
	struct conn *c = w->conns;

	while (c && c->connection_id != id)
		c = c->worker_next;
	if (!c || c->state != CONN_DENIED)
		return;
	struct tx *tx = reply_new(w, c, &(struct wire_request){ .request_id = c->hello_id,
								.op = WIRE_HELLO }, WIRE_EDENIED);
	if (tx)
		reply_send(w, tx, 0);
}

/* To those that have a receive for it; it is no answer, so no credit comes back. */
static void give_notice(struct worker *w, enum wire_notice notice)
{
	const struct wire_request none = { .request_id = WIRE_NOTICE_ID };

	for (struct conn *c = w->conns; c; c = c->worker_next) {
		struct tx *tx = c->state == CONN_READY && c->takes_notices
					? reply_new(w, c, &none, (enum wire_status)notice)
					: NULL;
		if (!tx)
			continue;
		c->outstanding++;
		reply_send(w, tx, 0);
	}
}

static void obey(struct worker *w, const struct command *m)
{
	struct conn *c;

	switch (m->kind) {
	case CMD_ADOPT:
		adopt(w, m->conn);
		break;
	case CMD_ANSWER:
		answer_for(w, m);
		break;
	case CMD_READ_HELD:
		c = find_by_id(w, m->connection);
		if (c)
			read_held(w, c, m->look);
		break;
	case CMD_DENY:
		deny(w, m->connection);
		break;
	case CMD_NOTICE:
		give_notice(w, m->notice);
		break;
	case CMD_FENCE:
		c = find_by_id(w, m->connection);
		if (c && m->secret && fate_is_secret(c->fate, m->secret))
			conn_close(c, "its client has another connection now");
		else if (c && !m->secret)
			conn_close(c, "it held a lock for longer than its lease");
		break;
	}
}

static void take_inbox(struct worker *w)
{
	pthread_mutex_lock(&w->inbox_lock);
	struct command *m = w->inbox, *next;
	w->inbox = NULL;
	w->inbox_end = &w->inbox;
	pthread_mutex_unlock(&w->inbox_lock);
	for (; m; m = next) {
		next = m->next;
		obey(w, m);
		free(m);
	}
}

static bool command(struct worker *w, const struct command *m)
{
	struct command *copy = malloc(sizeof *copy);

	if (!copy)
		return false;
	*copy = *m;
	copy->next = NULL;
	pthread_mutex_lock(&w->inbox_lock);
	*w->inbox_end = copy;
	w->inbox_end = &copy->next;
	pthread_mutex_unlock(&w->inbox_lock);
	worker_wake(w);
	return true;
}

bool worker_give(struct worker *w, struct conn *c)
{
	c->worker = w;
	return command(w, &(struct command){ .kind = CMD_ADOPT, .conn = c });
}

void worker_answer(struct conn *c, const struct wire_request *request, enum wire_status status)
{
	if (!command(c->worker, &(struct command){ .kind = CMD_ANSWER, .conn = c,
						   .request = *request, .status = status }))
		log_error("out of memory: a lock request of %s stays without an answer",
			  c->peer.text);
}

void worker_deny(struct conn *c)
{
	command(c->worker, &(struct command){ .kind = CMD_DENY, .connection = c->connection_id });
}

/* A connection is only known by its token: its worker is the one that has it. */
static void command_all(struct server *s, const struct command *m)
{
	for (unsigned i = 0; i < s->worker_count; i++)
		if (!command(&s->workers[i], m))
			log_error("out of memory: a worker is not told what to do");
}

void worker_read_held(struct server *s, uint64_t connection, uint64_t look)
{
	command_all(s, &(struct command){ .kind = CMD_READ_HELD, .connection = connection,
					  .look = look });
}

void worker_fence_id(struct server *s, uint64_t connection, uint64_t secret)
{
	command_all(s, &(struct command){ .kind = CMD_FENCE, .connection = connection,
					  .secret = secret });
}

void worker_notice_all(struct server *s, enum wire_notice notice)
{
	command_all(s, &(struct command){ .kind = CMD_NOTICE, .notice = notice });
}

void worker_wake(struct worker *w)
{
	atomic_store(&w->poked, true);
	if (eventfd_write(w->wake_fd, 1))
		log_error("can't wake a worker: %s", strerror(errno));
}

/* ----------------------------------------------------------------- receive */

/* An odd number of cache lines from one buffer to the next: at multiples of 8 KiB all
 * messages would share a few sets of the cache. */
#define BUFFER_STRIDE_BYTES (WIRE_MESSAGE_BYTES_MAX + 5 * 64)

static uint8_t *rx_buffer(const struct worker *w, uint32_t i)
{
	return w->memory + (size_t)i * BUFFER_STRIDE_BYTES;
}

/* So many receives are posted as may be used at once: in turn they would all be used
 * otherwise, and each message come to memory that no cache has. */
static uint32_t rx_wanted(const struct worker *w)
{
	uint32_t want = w->credits + w->rx_count / RX_SPARE_PART;

	return want < w->rx_posted ? 0 : want - w->rx_posted;
}

/* Posts free buffers in chains. */
static int refill(struct worker *w)
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
			sge[i] = (struct ibv_sge){ .addr = (uintptr_t)rx_buffer(w, b),
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

static void set_aside(struct worker *w, struct conn *c, uint32_t buffer, uint32_t bytes)
{
	if (w->deferred_count == DEFERRED_MAX) {
		request_answer_busy(w, c, rx_buffer(w, buffer));
		w->rx_free[w->rx_free_count++] = buffer;
		return;
	}
	uint64_t now = w->begun_ns ? w->begun_ns : clock_ns();
	w->deferred[w->deferred_count++] = (struct deferred){
		.conn = c, .buffer = buffer, .bytes = bytes, .since_ns = now,
		.report_ns = now + REPORT_FIRST_NS,
	};
}

void worker_report_lock(struct worker *w, uint64_t *report_ns, uint64_t now)
{
	if (w->store.blocked == STORE_NOT_BLOCKED || now < *report_ns || !w->server->locker)
		return;
	locker_watch(w->server->locker, w->store.blocked);
	*report_ns = now + REPORT_AGAIN_NS;
}

static enum request_fate retry_one(struct worker *w, struct deferred *d, uint64_t now)
{
	if (now - d->since_ns <= ASIDE_NS_MAX) {
		w->store.blocked = STORE_NOT_BLOCKED;
		w->begun_ns = w->server->timed ? d->since_ns : 0;
		enum request_fate fate =
			request_handle(w, d->conn, rx_buffer(w, d->buffer), d->bytes, NULL);
		if (fate == REQUEST_ASIDE)
			worker_report_lock(w, &d->report_ns, now);
		return fate;
	}
	w->begun_ns = w->server->timed ? d->since_ns : 0;
	request_answer_busy(w, d->conn, rx_buffer(w, d->buffer));
	return REQUEST_DONE;
}

static void retry_deferred(struct worker *w)
{
	uint32_t n = w->deferred_count, kept = 0;
	uint64_t now = clock_ns();

	for (uint32_t i = 0; i < n; i++) {
		struct deferred d = w->deferred[i];
		if (!d.conn)
			continue;
		w->deferred[i].conn = NULL; /* or conn_close() would free the buffer too */
		if (retry_one(w, &d, now) == REQUEST_DONE)
			w->rx_free[w->rx_free_count++] = d.buffer;
		else
			w->deferred[kept++] = d;
	}
	w->deferred_count = kept;
}

/* Changes whose records are on disk. */
static void take_committed(struct worker *w)
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

static void received(struct worker *w, const struct ibv_wc *wc, const struct hash *hash)
{
	uint32_t buffer = (uint32_t)wc->wr_id;
	struct conn *c = map_find(w, wc->qp_num);

	w->rx_posted--;
	if (!c) {
		/* Its connection was handed over, but not taken yet. */
		take_inbox(w);
		c = map_find(w, wc->qp_num);
	}
	if (c && c->state != CONN_CLOSING && wc->status == IBV_WC_SUCCESS) {
		if (++c->outstanding > c->credits) {
			request_malformed(c, "more requests than its credits");
		} else if (request_handle(w, c, rx_buffer(w, buffer), wc->byte_len, hash) ==
			   REQUEST_ASIDE) {
			set_aside(w, c, buffer, wc->byte_len);
			return;
		}
	} else if (c && wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR) {
		conn_close(c, ibv_wc_status_str(wc->status));
	}
	w->rx_free[w->rx_free_count++] = buffer;
}

static void sent(struct worker *w, const struct ibv_wc *wc)
{
	void *ptr = wr_ptr(wc->wr_id);
	struct conn *c;

	if (!ptr)
		return; /* an unsignalled one, flushed */
	if (wr_kind(wc->wr_id) != WR_PULL)
		c = ((struct tx *)ptr)->conn;
	else
		c = map_find(w, wc->qp_num);
	if (c)
		c->sq_used -= wr_count(wc->wr_id);
	if (c && wc->status != IBV_WC_SUCCESS)
		conn_close(c, ibv_wc_status_str(wc->status));
	if (wr_kind(wc->wr_id) == WR_TX)
		reply_completed(w, ptr);
	else if (wr_kind(wc->wr_id) == WR_HELD)
		got_held(w, ptr, wc);
	else
		pull_completed(w, ptr, wc);
}

/* A reply that nobody wanted to be told of; those behind it are flushed. */
static void failed(struct worker *w, const struct ibv_wc *wc)
{
	struct conn *c = map_find(w, wc->qp_num);

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
			       request_prefetch(w, rx_buffer(w, (uint32_t)b->wc[i].wr_id),
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
		received(w, wc, hash);
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
	return w->deferred_count || w->dirty || w->closing || w->committed || pulls_waiting(w);
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
			take_committed(w);
		bool idle = poll_batch(w) == 0;
		progress_conns(w, idle);
		if (idle)
			sleep_for_event(w);
	}
}

static void *run(void *arg)
{
	struct worker *w = arg;
	uint64_t deadline_ns = 0, beat = 0;
	int n = 0;
	char where[128];

	affinity_pin(w->server, w->id, where, sizeof where);
	log_debug("worker %u runs on %s", w->id, where);
	compact_join(&w->store);
	for (;;) {
		atomic_store_explicit(&w->beat, ++beat, memory_order_relaxed);
		if (n == 0)
			n = wait_batch(w);
		else
			n = poll_batch(w);
		if (atomic_load_explicit(&w->poked, memory_order_relaxed)) {
			atomic_store(&w->poked, false);
			take_inbox(w);
			progress_conns(w, n == 0);
		} else if (w->closing) {
			progress_conns(w, n == 0);
		}
		if (w->store.commits)
			take_committed(w);
		if (w->deferred_count)
			retry_deferred(w);
		pulls_retry(w);
		if (expire_is_due(w->server->store))
			expire_step(&w->store, clock_ns());
		if (compact_is_due(&w->store))
			compact_step(&w->store, clock_ns());
		reply_flush(w);
		int rc = refill(w);
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
	w->deferred = calloc(DEFERRED_MAX, sizeof *w->deferred);
	if (!w->rx_free || !w->tx || !w->deferred)
		return err_set(err, -1, "out of memory");
	/* Buffer 0 is never a receive buffer: a wr_id of 0 is a flushed send. */
	for (uint32_t i = 1; i < w->rx_count; i++)
		w->rx_free[w->rx_free_count++] = i;
	for (uint32_t i = 0; i < w->tx_count; i++) {
		w->tx[i].data = rx_buffer(w, w->rx_count + i);
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
	if (pulls_new(w))
		return err_set(err, -1, "out of memory");
	if (new_queues(w, err) || new_buffers(w, err))
		return -1;
	rc = refill(w);
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
	free(w->deferred);
	pulls_delete(w);
	store_worker_fini(&w->store);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	pthread_mutex_destroy(&w->inbox_lock);
}
