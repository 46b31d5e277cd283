/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/conn.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "server/access/rate_limit.h"
#include "server/worker/conn_impl.h"
#include "server/worker/conn_set.h"
#include "server/worker/context.h"

void conn_close(struct conn *c, const char *reason)
{
	struct server *s = c->server;

	if (c->state == CONN_CLOSING)
		return;
	log_limited(LOG_LEVEL_INFO, reason, "connection %llu from %s closed: %s",
		    (unsigned long long)c->number, c->peer.text, reason);
	atomic_fetch_sub_explicit(c->state == CONN_READY ? &s->connections : &s->pending, 1,
				  memory_order_relaxed);
	gate_leave_seat(s->gate, &c->handshake);
	__atomic_store_n(&c->state, CONN_CLOSING, __ATOMIC_RELAXED); /* conn_is_pending() looks */
	c->sendq.closing = true;
	c->close_ns = clock_ns();
	link_qp_set_error(s->verbs, c->qp);
	c->closing_next = c->set->closing;
	c->set->closing = c;
}

void conn_close_malformed(struct conn *c, const char *wrong)
{
	atomic_fetch_add_explicit(&c->server->protocol_errors, 1, memory_order_relaxed);
	/* No client of libkvd sends such: whoever does has to wait for the next try. */
	knock_failed(c->server->knock, &c->peer, clock_ns());
	conn_close(c, wrong);
}

void conn_drop(struct conn *c, const char *reason)
{
	const char *none = NULL;

	atomic_compare_exchange_strong(&c->drop_reason, &none, reason);
	atomic_store(&c->disconnected, true);
	commands_wake(c->commands);
}

void conn_cut(struct conn *c, const char *reason)
{
	if (c->qp)
		link_qp_set_error(c->server->verbs, c->qp);
	conn_drop(c, reason);
}

void conn_drained(struct conn *c)
{
	atomic_store(&c->last_wqe, true);
	commands_wake(c->commands);
}

void conn_answer(struct conn *c, const struct wire_request *request, enum wire_status status)
{
	if (!commands_post(c->commands, &(struct command){ .kind = CMD_ANSWER, .conn = c,
							   .request = *request,
							   .status = status }))
		log_error("out of memory: a lock request of %s stays without an answer",
			  c->peer.text);
}

void conn_forgotten(struct conn *c)
{
	struct commands *commands = c->commands;

	/* The last use of conn: it may be gone right after. */
	atomic_store(&c->lock_idle, true);
	commands_wake(commands);
}

/* Asks the device: rdma_cm and drivers are known to raise them by themselves. */
bool conn_check_rights(struct conn *c, int rights)
{
	struct server *s = c->server;
	int has = link_qp_access(s->verbs, c->qp);

	/* The main thread's question, which the worker has overtaken. */
	if (!rights && atomic_load(&c->said_hello))
		return true;
	log_debug("connection %llu: its queue pair has the remote rights 0x%x",
		  (unsigned long long)c->number, (unsigned)has);
	if (has == rights || atomic_load(&c->disconnected))
		return true;
	link_qp_set_error(s->verbs, c->qp);
	atomic_fetch_add(&s->wrong_rights, 1);
	log_error("%s: its queue pair has the remote rights 0x%x instead of 0x%x", c->peer.text,
		  (unsigned)has, (unsigned)rights);
	return false;
}

const char *conn_peer(const struct conn *c)
{
	return c->peer.text;
}
