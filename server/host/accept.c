/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection arrives.
 *
 * CONNECT_REQUEST -> its private data is checked, which names the namespace; a queue pair is
 * made in that one's protection domain of the device that it came by, on its worker there
 * with the fewest connections, and brought to RTS without any remote right -> handed to the worker -> accepted.
 *
 * Limits: on those an address may begin (server/access/rate_limit.c), on connections, and
 * on those that have not said a good hello: the eldest of them makes room (room.c).  A
 * request that waits for it is answered once that one is buried.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/auth/auth.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "server/access/rate_limit.h"
#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/host/listener.h"
#include "server/host/rails.h"
#include "server/host/room.h"
#include "server/lock/locker.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/conn_set.h"
#include "server/worker/reply.h"
#include "server/worker/context.h"
#include "server/worker/rx.h"
#include "server/worker/worker.h"

#define WAIT_NS_MAX 3000000000ull /* as long as ending one takes at the most: drain.c */

static void refuse(struct server *s, struct rdma_cm_id *id, enum wire_refusal why,
		   uint32_t limit)
{
	struct wire_accept answer = { .magic = WIRE_MAGIC, .version = WIRE_VERSION,
				      .refusal = (uint16_t)why, .limit = limit };

	atomic_fetch_add(&s->refused, 1);
	s->verbs->reject(id, &answer, sizeof answer);
	s->verbs->destroy_id(id);
}

/* NULL: there is none. */
static struct server *find_space(struct host *h, uint64_t space)
{
	for (unsigned i = 0; i < h->server_count; i++)
		if (h->servers[i].space == space)
			return &h->servers[i];
	return NULL;
}

static enum wire_refusal check_request(const struct rdma_cm_event *e,
				       struct wire_connect *request)
{
	const struct rdma_conn_param *p = &e->param.conn;

	if (!p->private_data || p->private_data_len < sizeof *request)
		return WIRE_REFUSED_MAGIC;
	memcpy(request, p->private_data, sizeof *request);
	if (request->magic != WIRE_MAGIC)
		return WIRE_REFUSED_MAGIC;
	return request->version == WIRE_VERSION ? WIRE_ACCEPTED : WIRE_REFUSED_VERSION;
}

static uint32_t credits_of(const struct wire_connect *request)
{
	uint32_t credits = request->depth ? request->depth : CREDITS_DEFAULT;

	return credits < CREDITS_MAX ? credits : CREDITS_MAX;
}

/* The one of the rail with the fewest connections, of those whose completion queue has places for
 * all that this one may post; NULL: none has. */
static struct worker *choose_worker(const struct server *s, const struct rail *r, uint32_t depth)
{
	struct worker *best = NULL;

	for (unsigned i = 0; i < s->worker_count; i++) {
		struct worker *w = s->worker[i];
		const struct conn_set *set = worker_conn_set(w);
		if (worker_rail(w) != r)
			continue;
		if (worker_queues(w)->places - set->places < depth)
			continue;
		if (!best || set->load < worker_conn_set(best)->load)
			best = w;
	}
	return best;
}

static int new_qp(struct conn *c, const struct rail *r, const struct worker_queues *w,
		  const struct link_depths *depths, struct err *err)
{
	struct server *s = c->server;
	struct sendq *q = &c->sendq;
	struct link_config config = {
		.pd = r->pd,
		.send_cq = w->cq,
		.recv_cq = w->cq,
		.srq = w->srq,
		.context = c,
		.send_depth = c->depth,
		.send_sge = 1,
		.inline_bytes = 256,
	};

	c->qp = link_qp_new(s->verbs, &config, &q->inline_bytes, err);
	if (!c->qp)
		return -1;
	if (link_qp_init(s->verbs, c->id, c->qp, 0, err) ||
	    link_qp_ready_tuned(s->verbs, c->id, c->qp, 0, depths->issues, depths->answers,
				&s->device.tuning, err)) {
		s->verbs->destroy_qp(c->qp);
		return -1;
	}
	q->qp = c->qp;
	q->has_inline = q->inline_bytes >= REPLY_SHORT_BYTES;
	c->qp_num = c->qp->qp_num;
	return 0;
}

static struct conn *new_conn(struct server *s, struct worker *w, struct rdma_cm_id *id,
			     const struct wire_connect *request)
{
	struct conn *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	if (s->locker && !(c->lock_note = locker_note_new())) {
		free(c);
		return NULL;
	}
	c->server = s;
	/* Before there can be an event of its queue pair. */
	c->commands = worker_commands(w);
	c->set = worker_conn_set(w);
	c->id = id;
	c->number = ++s->host->conn_last_number;
	c->credits = credits_of(request);
	c->depth = sendq_depth(c->credits);
	c->sendq.slots = sendq_slots(c->credits);
	c->handshake.depth = request->depth;
	c->handshake.space = request->space;
	c->handshake.nowhere = request->space != s->space;
	c->handshake.rail = worker_rail(w)->number;
	memcpy(c->handshake.client_nonce, request->nonce, sizeof c->handshake.client_nonce);
	auth_nonce(c->handshake.server_nonce);
	c->since_ns = clock_ns();
	addr_from(&c->peer, rdma_get_peer_addr(id));
	c->listener = listeners_find(s->host, id);
	c->sendq.conn = c;
	c->sendq.peer = c->peer.text;
	return c;
}

/* The device's completion queues are smaller than --connections times the longest queue. */
static void refuse_crowded(struct server *s, struct rdma_cm_id *id, uint32_t credits)
{
	struct addr peer;

	addr_from(&peer, rdma_get_peer_addr(id));
	log_limited(LOG_LEVEL_WARN, "no place in a completion queue",
		    "refused %s: no worker's completion queue has places for %u requests in flight "
		    "more: the device has no longer ones, start kvd with more --workers", peer.text,
		    credits);
	refuse(s, id, WIRE_REFUSED_RESOURCES, 0);
}

static void accept_conn(struct server *s, struct rdma_cm_id *id,
			const struct wire_connect *request, const struct rdma_conn_param *asked)
{
	struct wire_accept answer = { .magic = WIRE_MAGIC, .version = WIRE_VERSION,
				      .flags = gate_has_users(s->gate) ? WIRE_ACCEPT_USERS : 0 };
	struct rdma_conn_param param;
	struct err err = { "out of memory" };
	const struct rail *r = rails_find(s, id->verbs);
	struct worker *w = r ? choose_worker(s, r, sendq_depth(credits_of(request))) : NULL;
	if (!r || atomic_load(&r->is_lost)) {
		refuse(s, id, WIRE_REFUSED_RESOURCES, 0);
		return;
	}
	if (!w) {
		refuse_crowded(s, id, credits_of(request));
		return;
	}
	const struct worker_queues *queues = worker_queues(w);
	struct conn *c = new_conn(s, w, id, request);
	struct link_depths depths = link_depths(asked, r->limits.rd_atom);

	if (depths.issues > LINK_RD_ATOM_MAX)
		depths.issues = LINK_RD_ATOM_MAX;
	if (!c || new_qp(c, r, queues, &depths, &err)) {
		log_limited(LOG_LEVEL_ERROR, "no connection for a peer", "no connection for %s: %s",
			    c ? c->peer.text : "a peer", err.text);
		if (c)
			free(c->lock_note);
		free(c);
		refuse(s, id, WIRE_REFUSED_RESOURCES, 0);
		return;
	}
	c->handshake.client_qpn = asked->qp_num;
	c->handshake.server_qpn = c->qp->qp_num;
	memcpy(answer.nonce, c->handshake.server_nonce, sizeof answer.nonce);
	id->context = c;
	conns_add(s, c);
	atomic_fetch_add(&s->pending, 1);
	c->set->load++;
	c->set->places += c->depth;
	commands_post(c->commands, &(struct command){ .kind = CMD_ADOPT, .conn = c });
	link_conn_param(&param, c->qp, &answer, sizeof answer, depths.issues, depths.answers);
	if (s->verbs->accept(id, &param)) {
		log_limited(LOG_LEVEL_ERROR, "accepting failed", "accepting %s failed: %s",
			    c->peer.text, strerror(errno));
		conn_drop(c, "it could not be accepted");
		return;
	}
	if (!conn_check_rights(c, 0)) {
		conn_drop(c, "its queue pair has remote rights that nobody gave it");
		return;
	}
	if (atomic_load(&r->is_lost)) /* since it was looked at; who lost it may not have seen this one */
		conn_drop(c, "its device is of no use any more");
	log_debug("connection %llu from %s on worker %u of %s%s%s", (unsigned long long)c->number,
		  c->peer.text, queues->number - s->worker_first, rail_name(r),
		  *s->name ? ", namespace " : "", s->name);
}

/* What there is to say against a request that is well-formed, or nothing; *limit: which
 * limit it hit. */
static enum wire_refusal judge(struct host *h, const struct server *s, const struct addr *peer,
			       uint32_t *limit)
{
	*limit = 0;
	if (!knock_may(h->knock, peer, clock_ns())) {
		*limit = (uint32_t)h->servers->options->handshakes;
		return WIRE_REFUSED_RATE;
	}
	/* Where there are users it is denied its hello, like somebody whom nobody knows. */
	if (!s && !gate_has_users(h->servers->gate))
		return WIRE_REFUSED_SPACE;
	return WIRE_ACCEPTED;
}

static const char *const refusals[] = {
	[WIRE_REFUSED_MAGIC] = "it does not speak kvd's protocol",
	[WIRE_REFUSED_VERSION] = "it speaks another version of the protocol",
	[WIRE_REFUSED_CONNECTIONS] = "the limit of connections is reached (--connections)",
	[WIRE_REFUSED_RESOURCES] = "there is no memory for it",
	[WIRE_REFUSED_STOPPING] = "kvd stops",
	[WIRE_REFUSED_RATE] = "too many handshakes from there (--handshakes)",
	[WIRE_REFUSED_SPACE] = "it asks for a namespace that is none (--namespace)",
};

static void tell_and_refuse(struct server *s, struct rdma_cm_id *id, enum wire_refusal why,
			    uint32_t limit)
{
	struct addr peer;

	addr_from(&peer, rdma_get_peer_addr(id));
	log_limited(LOG_LEVEL_WARN, refusals[why], "refused %s: %s", peer.text, refusals[why]);
	refuse(s, id, why, limit);
}

/* It is let in, waits for room, or is refused. */
static void let_in(struct host *h, const struct arrival *a)
{
	uint32_t limit;

	switch (room_make(h, a->server, &limit)) {
	case ROOM_THERE:
		accept_conn(a->server, a->id, &a->request, &a->asked);
		break;
	case ROOM_SOON:
		if (!room_wait(h, a))
			tell_and_refuse(a->server, a->id, WIRE_REFUSED_RESOURCES, 0);
		break;
	case ROOM_NONE:
		tell_and_refuse(a->server, a->id, WIRE_REFUSED_CONNECTIONS, limit);
	}
}

void arrival_asked(struct host *h, struct rdma_cm_event *e)
{
	struct arrival a = { .id = e->id, .asked = e->param.conn, .since_ns = clock_ns() };
	struct addr peer;
	enum wire_refusal refusal = check_request(e, &a.request);
	struct server *s = NULL;
	uint32_t limit = 0;

	addr_from(&peer, rdma_get_peer_addr(a.id));
	h->servers->verbs->ack_cm_event(e);
	if (refusal == WIRE_ACCEPTED) {
		s = find_space(h, a.request.space);
		refusal = judge(h, s, &peer, &limit);
	}
	a.server = s ? s : h->servers;
	if (refusal != WIRE_ACCEPTED) {
		tell_and_refuse(a.server, a.id, refusal, limit);
		return;
	}
	if (!s)
		log_limited(LOG_LEVEL_WARN, refusals[WIRE_REFUSED_SPACE],
			    "%s asks for a namespace that is none: its hello will be denied",
			    peer.text);
	let_in(h, &a);
}

void arrivals_go_on(struct host *h)
{
	struct arrival *a;

	while ((a = room_next(h))) {
		accept_conn(a->server, a->id, &a->request, &a->asked);
		free(a);
	}
}

void arrivals_refuse(struct host *h, bool all)
{
	uint64_t now = clock_ns();
	struct arrival *a;

	while ((a = room_late(h, all ? ~0ull : now - WAIT_NS_MAX))) {
		tell_and_refuse(a->server, a->id,
				all ? WIRE_REFUSED_STOPPING : WIRE_REFUSED_CONNECTIONS,
				all ? 0 : a->server->connections_max);
		free(a);
	}
}
