/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker's connections, and how they end.
 *
 * Happy path: conn_close() puts the queue pair to error, and its work requests are flushed to
 * the completion queue.  In the worker's next look at its connections what is deferred is
 * forgotten, and the locker is told.  LAST_WQE says that the device takes no receive for the
 * queue pair any more.  Then a marker is posted, which is flushed like the rest: a completion
 * queue gives them in order, so when the marker comes nothing of the connection is left in it,
 * however much others put there.  The main thread destroys the queue pair and frees the
 * connection.
 *
 * A device that does not tell LAST_WQE: the marker is posted after LAST_WQE_NS_MAX.  One that
 * takes no work request in error: the connection is flushed when the completion queue was
 * empty once, or as many completions came as it holds.
 *
 * Nothing comes (GIVE_UP_NS): the main thread destroys the queue pair as it is, after which
 * neither a completion nor a READ of it comes, and says so.  Only then what completions would
 * have freed is freed here, and the connection by the main thread.
 */
#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "server/lock/locker.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/worker_impl.h"

/* Who lost its port waits for the fate of its changes meanwhile: a second would be all that it has. */
#define LAST_WQE_NS_MAX 250000000ull
#define GIVE_UP_NS 2000000000ull
/* Where others wait, a peer that takes nothing is ended so soon, one in each ROOM_NS. */
#define STUCK_NS 250000000ull
#define ROOM_NS 1000000ull

static struct conn **map_slot(struct worker *w, uint32_t qp_num)
{
	struct conn **at = &w->conns.map[qp_num % CONN_MAP];

	while (*at && (*at)->qp_num != qp_num)
		at = &(*at)->map_next;
	return at;
}

struct conn *worker_find(struct worker *w, uint32_t qp_num)
{
	return *map_slot(w, qp_num);
}

void worker_adopt(struct worker *w, struct conn *c)
{
	struct conn **at = map_slot(w, c->qp_num);

	c->map_next = NULL;
	*at = c;
	w->conns.credits += c->credits;
	c->set_next = w->conns.first;
	c->set_prev = &w->conns.first;
	if (w->conns.first)
		w->conns.first->set_prev = &c->set_next;
	w->conns.first = c;
}

static void release(void *rx, uint32_t buffer)
{
	rx_release(rx, buffer);
}

/* What it left with others: its queue pair is in error already. */
static void begin(struct worker *w, struct conn *c)
{
	c->draining = true;
	deferred_forget(&w->deferred, c, release, &w->rx);
	c->sendq.aside = 0;
	if (w->server->locker && c->sendq.connection_id) /* who has none never waited */
		locker_forget(w->server->locker, c, c->lock_note);
	else
		atomic_store(&c->lock_idle, true);
}

/* The number may be another's soon. */
static void unmap(struct worker *w, struct conn *c)
{
	struct conn **at = map_slot(w, c->qp_num);

	if (*at == c)
		*at = c->map_next;
}

static void bury(struct worker *w, struct conn *c)
{
	if (c->sendq.is_dirty)
		reply_flush(&w->tx);
	pinned_end(&w->pinned, &w->store, &c->pinned);
	unmap(w, c);
	*c->set_prev = c->set_next;
	if (c->set_next)
		c->set_next->set_prev = c->set_prev;
	w->conns.credits -= c->credits;
	w->server->hooks.done(c);
}

/* Behind all that was posted, and all that was received. */
static void post_marker(struct worker *w, struct conn *c)
{
	struct ibv_send_wr wr = { .wr_id = wr_pack(c, WR_MARKER, 1), .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	c->is_marked = true;
	if (ibv_post_send(c->qp, &wr, &bad))
		c->flushed_at = w->polled + (uint64_t)w->queues.cq->cqe;
}

void drain_marked(struct conn *c)
{
	c->is_flushed = true;
}

/* Whether nothing of it is in the completion queue, or comes there. */
static bool is_flushed(struct worker *w, struct conn *c, bool idle, uint64_t now)
{
	if (!c->is_marked) {
		if (atomic_load(&c->last_wqe) || now - c->close_ns > LAST_WQE_NS_MAX)
			post_marker(w, c);
		return false;
	}
	if (c->flushed_at && !c->sendq.waited && (idle || w->polled >= c->flushed_at))
		c->is_flushed = true;
	return c->is_flushed;
}

/* Its queue pair is gone, and nobody frees what it had. */
static void forget(struct worker *w, struct conn *c)
{
	reply_forget(&w->tx, &c->sendq);
	pulls_forget(&w->pulls, &c->sendq);
	c->reads_held = false;
	c->sendq.waited = 0;
	c->is_flushed = true;
}

static void give_up(struct worker *w, struct conn *c)
{
	log_limited(LOG_LEVEL_WARN, "a queue pair is not flushed",
		    "connection %llu from %s: the device did not flush its queue pair in %u s, which "
		    "is destroyed as it is (%u of its work requests did not end)",
		    (unsigned long long)c->number, c->peer.text,
		    (unsigned)(GIVE_UP_NS / 1000000000), c->sendq.waited);
	c->is_given_up = true;
	if (c->sendq.is_dirty)
		reply_flush(&w->tx); /* drops them */
	unmap(w, c);
	w->server->hooks.done(c);
}

/* Whether nothing of a closing connection is under way any more. */
static bool is_drained(struct worker *w, struct conn *c, bool idle, uint64_t now)
{
	if (c->is_given_up && !c->is_flushed && atomic_load(&c->is_cut_off))
		forget(w, c);
	if (!is_flushed(w, c, idle, now)) {
		if (!c->is_given_up && now - c->close_ns > GIVE_UP_NS)
			give_up(w, c);
		return false;
	}
	/* Nobody may have its locks before its changes are through. */
	return !c->sendq.pulls && !c->sendq.held && !c->sendq.commits && !c->reads_held &&
	       (!c->is_given_up || atomic_load(&c->is_cut_off)) && atomic_load(&c->lock_idle);
}

static const char *drop_reason(struct conn *c)
{
	const char *why = atomic_load(&c->drop_reason);

	return why ? why : "disconnected by the peer";
}

void drain_look(struct worker *w)
{
	for (struct conn *c = w->conns.first; c; c = c->set_next)
		if (c->state != CONN_CLOSING && atomic_load(&c->disconnected))
			conn_close(c, drop_reason(c));
}

/* What others wait for, of a peer that takes nothing. */
static uint32_t hoard_of(const struct conn *c, uint64_t now)
{
	uint64_t stuck = atomic_load_explicit(&c->sendq.stuck_ns, memory_order_relaxed);

	if (c->state == CONN_CLOSING || !stuck || now < stuck + STUCK_NS)
		return 0;
	return c->sendq.held + c->sendq.aside;
}

void drain_room(struct worker *w)
{
	struct conn *worst = NULL;
	uint32_t most = 0;

	if (w->tx.free_count > TX_SPARE && w->deferred.count < w->deferred.max)
		return;
	uint64_t now = clock_ns();
	if (now - w->room_ns < ROOM_NS)
		return;
	w->room_ns = now;
	for (struct conn *c = w->conns.first; c; c = c->set_next) {
		uint32_t n = hoard_of(c, now);
		if (n > most) {
			most = n;
			worst = c;
		}
	}
	if (worst)
		conn_close(worst, "it took none of its replies for a while, and others wait for theirs");
}

struct conn *drain_collect(struct worker *w, bool idle)
{
	struct conn *drained = NULL, **at = &w->conns.closing, *c;
	uint64_t now = clock_ns();

	while ((c = *at)) {
		if (!c->draining)
			begin(w, c);
		if (is_drained(w, c, idle, now)) {
			*at = c->closing_next;
			c->next = drained;
			drained = c;
		} else {
			at = &c->closing_next;
		}
	}
	return drained;
}

void drain_bury(struct worker *w, struct conn *drained)
{
	for (struct conn *c = drained, *next; c; c = next) {
		next = c->next;
		bury(w, c);
	}
}

struct conn *worker_find_id(struct worker *w, uint64_t connection)
{
	struct conn *c = w->conns.first;

	while (c && c->sendq.connection_id != connection)
		c = c->set_next;
	return c && c->state == CONN_READY ? c : NULL;
}

void worker_close_all(struct worker *w, const char *why)
{
	for (struct conn *c = w->conns.first; c; c = c->set_next)
		conn_close(c, why);
}

void worker_close_former(struct worker *w)
{
	uint64_t reign = w->server->membership ? atomic_load(&w->server->membership->reign) : 0;

	/* As it hands over they are told by their requests: nobody knows yet where the next one is. */
	if (reign == w->reign || (!reign && atomic_load(&w->server->membership->is_held)))
		return;
	w->reign = reign;
	for (struct conn *c = w->conns.first; c; c = c->set_next)
		if (c->sendq.reign && c->sendq.reign != reign)
			conn_close(c, "this member of the cluster is not the primary that it was");
}
