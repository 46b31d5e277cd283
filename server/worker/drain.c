/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker's connections.
 *
 * Teardown of one: conn_close() puts its queue pair to error.  In the worker's next look at
 * its connections what is deferred is forgotten, and the locker is told.  What was under
 * way is flushed through the completion queue.  After the last of it (or LAST_WQE for what
 * was received, or a second at the latest) the main thread destroys it.
 */
#include "common/clock.h"
#include "common/log.h"
#include "server/lock/locker.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/worker_impl.h"

static struct conn **map_slot(struct worker *w, uint32_t qp_num)
{
	struct conn **at = &w->conns.map[qp_num % CONN_MAP];

	while (*at && (*at)->qp->qp_num != qp_num)
		at = &(*at)->map_next;
	return at;
}

struct conn *worker_find(struct worker *w, uint32_t qp_num)
{
	return *map_slot(w, qp_num);
}

void worker_adopt(struct worker *w, struct conn *c)
{
	struct conn **at = map_slot(w, c->qp->qp_num);

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
	if (w->server->locker && c->sendq.connection_id) /* who has none never waited */
		locker_forget(w->server->locker, c, c->lock_note);
	else
		atomic_store(&c->lock_idle, true);
}

static void bury(struct worker *w, struct conn *c)
{
	struct conn **at = map_slot(w, c->qp->qp_num);

	if (c->sendq.is_dirty)
		reply_flush(&w->tx);
	if (c->copy)
		store_item_delete(&w->store, c->copy);
	*at = c->map_next;
	*c->set_prev = c->set_next;
	if (c->set_next)
		c->set_next->set_prev = c->set_prev;
	w->conns.closing--;
	w->conns.credits -= c->credits;
	atomic_fetch_sub_explicit(&w->conns.load, 1, memory_order_relaxed);
	w->server->hooks.done(c);
}

/* Whether nothing of a closing connection is under way any more. */
static bool is_drained(const struct conn *c, uint64_t now)
{
	if (!atomic_load(&c->lock_idle))
		return false;
	if (c->sendq.pulls || c->reads_held)
		return false; /* its READs write into table memory until they complete */
	if (c->sendq.commits)
		return false; /* nobody may have its locks before its changes are through */
	return now >= c->close_ns || (!c->sendq.sends && atomic_load(&c->last_wqe));
}

static const char *drop_reason(struct conn *c)
{
	const char *why = atomic_load(&c->drop_reason);

	return why ? why : "disconnected by the peer";
}

struct conn *drain_collect(struct worker *w, bool idle)
{
	struct conn *drained = NULL;
	uint64_t now = clock_ns();

	for (struct conn *c = w->conns.first; c; c = c->set_next) {
		if (c->state != CONN_CLOSING && atomic_load(&c->disconnected))
			conn_close(c, drop_reason(c));
		if (c->state != CONN_CLOSING)
			continue;
		if (!c->draining)
			begin(w, c);
		if (idle && is_drained(c, now)) {
			c->next = drained;
			drained = c;
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
