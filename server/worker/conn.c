/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to one connection, as far as it needs nothing but the connection. */
#include "common/clock.h"
#include "common/log_limit.h"
#include "server/worker/worker_impl.h"

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
}

void conn_forgotten(struct conn *c)
{
	struct worker *w = c->worker;

	/* The last use of conn: it may be gone right after. */
	atomic_store(&c->lock_idle, true);
	worker_wake(w);
}
