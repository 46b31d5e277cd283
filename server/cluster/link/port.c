/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/link/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rdma/link.h"
#include "server/cluster/link/flow.h"
#include "server/cluster/link/greet.h"
#include "server/cluster/link/make.h"
#include "server/cluster/link/peer.h"

#define BATCH 32

int link_port_new(const struct link_port_options *o, struct link_port **out, struct err *err)
{
	struct link_port *port = calloc(1, sizeof *port);
	int places = LINK_PEERS_MAX * (int)(LINK_RECEIVES + LINK_SEND_DEPTH);

	if (!port)
		return err_set(err, -1, "no memory for connections with other members");
	port->options = *o;
	pthread_mutex_init(&port->lock, NULL);
	port->cq = o->verbs->create_cq(o->pd->context, places, port, o->channel, 0);
	if (!port->cq) {
		err_set_errno(err, -1, errno,
			      "can't create a completion queue of %d places for other members",
			      places);
		link_port_delete(&port);
		return -1;
	}
	*out = port;
	return 0;
}

void link_port_delete(struct link_port **at)
{
	struct link_port *port = *at;

	if (!port)
		return;
	*at = NULL;
	if (port->cq) {
		port->options.verbs->ack_cq_events(port->cq, port->events);
		port->options.verbs->destroy_cq(port->cq);
	}
	pthread_mutex_destroy(&port->lock);
	free(port);
}

void link_port_arm(struct link_port *port)
{
	ibv_req_notify_cq(port->cq, 0);
}

void link_port_woken(struct link_port *port)
{
	struct ibv_cq *cq;
	void *context;

	if (!port->options.verbs->get_cq_event(port->options.channel, &cq, &context))
		port->events++;
}

/* -------------------------------------------------------------------- who comes */
void link_port_adopt(struct link_port *port, struct link_peer *p)
{
	pthread_mutex_lock(&port->lock);
	p->next = port->arrived;
	port->arrived = p;
	atomic_store(&port->has_arrived, true);
	pthread_mutex_unlock(&port->lock);
	if (port->options.wake)
		port->options.wake(port->options.wake_arg);
}

static int post_receive(struct link_peer *p, unsigned index)
{
	struct ibv_sge sge = { (uintptr_t)(p->memory + (size_t)index * LINK_BYTES_MAX),
			       LINK_BYTES_MAX, p->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = link_wr_id(p, LINK_WR_RECEIVE, index),
				  .sg_list = &sge, .num_sge = 1 }, *bad;
	int rc = ibv_post_recv(p->qp, &wr, &bad);

	if (rc)
		link_peer_close(p, "a receive could not be posted: %s", strerror(rc));
	else
		p->receives++;
	return rc;
}

static void begin(struct link_port *port, struct link_peer *p)
{
	p->state = LINK_PROVING;
	p->since_ns = p->moved_ns = port->now_ns;
	if (port->count == LINK_PEERS_MAX) {
		/* Nothing of it is posted: the door has all of it at once. */
		link_peer_close(p, "this thread has %u connections already", LINK_PEERS_MAX);
		link_return(p);
		return;
	}
	p->serial = ++port->serial;
	port->peers[port->count++] = p;
	for (unsigned i = 0; i < LINK_RECEIVES; i++)
		if (post_receive(p, i))
			return;
	if (p->is_asker)
		link_greet(p);
}

static void take_arrived(struct link_port *port)
{
	struct link_peer *next;

	if (!atomic_load_explicit(&port->has_arrived, memory_order_relaxed))
		return;
	pthread_mutex_lock(&port->lock);
	struct link_peer *p = port->arrived;
	port->arrived = NULL;
	atomic_store(&port->has_arrived, false);
	pthread_mutex_unlock(&port->lock);
	for (; p; p = next) {
		next = p->next;
		begin(port, p);
	}
}

/* -------------------------------------------------------------------- what comes */
static void heard(struct link_peer *p, const void *bytes, uint32_t length)
{
	const struct link_events *e = &p->port->options.events;
	struct link_reader r;
	const char *why;

	if (link_open(&r, bytes, length, &why))
		link_peer_close(p, "it sent what is no message: %s", why);
	else if (p->state == LINK_PROVING)
		link_greeted(p, &r);
	else if (r.header->kind == LINK_HELLO || r.header->kind == LINK_ANSWER)
		link_peer_close(p, "it said hello again");
	else
		e->message(e->arg, p, &r);
}

static void received(struct link_peer *p, const struct ibv_wc *wc, unsigned index)
{
	if (wc->opcode != IBV_WC_RECV || !(wc->wc_flags & IBV_WC_WITH_IMM)) {
		link_peer_close(p, "it sent what no member sends: without a count of messages");
		return;
	}
	if (!link_flow_granted(p, ntohl(wc->imm_data))) {
		link_peer_close(p, "it says that it has taken more messages than it was sent");
		return;
	}
	if (wc->byte_len)
		heard(p, p->memory + (size_t)index * LINK_BYTES_MAX, wc->byte_len);
	if (p->state != LINK_ENDING && !post_receive(p, index))
		p->taken++;
}

static void broke(struct link_peer *p, enum ibv_wc_status status)
{
	if (status != IBV_WC_WR_FLUSH_ERR)
		link_peer_close(p, "%s", ibv_wc_status_str(status));
	else if (p->state == LINK_PROVING && p->is_asker)
		link_peer_close(p, "it ended it before it had proved who it is: do both have the "
				"same --cluster-key?");
	else
		link_peer_close(p, atomic_load(&p->is_gone) ? "it ended it, or its process is gone"
							    : "its queue pair failed");
}

static struct link_peer *find(struct link_port *port, uint32_t serial)
{
	for (unsigned i = 0; i < port->count; i++)
		if (port->peers[i]->serial == serial)
			return port->peers[i];
	return NULL;
}

static void complete(struct link_port *port, const struct ibv_wc *wc)
{
	struct link_peer *p = find(port, (uint32_t)(wc->wr_id >> 32));
	enum link_wr kind = (wc->wr_id >> 16) & 0xffff;
	unsigned index = wc->wr_id & 0xffff;
	bool is_ok = wc->status == IBV_WC_SUCCESS;

	if (!p)
		return; /* its queue pair was destroyed before it was drained */
	if (kind == LINK_WR_RECEIVE)
		p->receives--;
	else if (kind == LINK_WR_READ)
		link_flow_read(p, index, is_ok);
	else
		link_flow_sent(p, kind, index);
	if (!is_ok)
		broke(p, wc->status);
	else if (kind == LINK_WR_RECEIVE && p->state != LINK_ENDING)
		received(p, wc, index);
}

/* -------------------------------------------------------------------- who goes */
static bool is_drained(const struct link_peer *p)
{
	return !p->receives && p->completed == p->posted && !p->empties && !p->reads;
}

static void bury(struct link_port *port, unsigned i)
{
	struct link_peer *p = port->peers[i];

	port->peers[i] = port->peers[--port->count];
	link_return_qp(p);
	/* UNTESTED: of a device that has not flushed them; the software device always does. */
	for (unsigned k = 0; k < LINK_READS; k++)
		if (p->reading & 1u << k)
			link_flow_read(p, k, false);
	link_return(p);
}

static void tell_of_room(struct link_peer *p)
{
	const struct link_events *e = &p->port->options.events;

	if (!p->is_crowded || p->queued - p->completed > LINK_SENDS / 2 ||
	    p->reads > LINK_READS / 2)
		return;
	p->is_crowded = false;
	if (e->room)
		e->room(e->arg, p);
}

static void look_after(struct link_peer *p)
{
	uint64_t age_ns = p->port->now_ns - p->since_ns;

	link_flow_push(p);
	link_flow_tell(p);
	if (p->state == LINK_UP)
		tell_of_room(p);
	if (p->state == LINK_PROVING && age_ns >= LINK_PROVE_NS)
		link_peer_close(p, "it has not proved who it is within %llu ms",
				LINK_PROVE_NS / 1000000);
	else if (link_flow_is_stalled(p))
		link_peer_close(p, "it has taken nothing for %llu ms: it is frozen, or can't be "
				"reached", LINK_STALL_NS / 1000000);
}

static void look_after_all(struct link_port *port)
{
	for (unsigned i = 0; i < port->count; i++) {
		struct link_peer *p = port->peers[i];

		if (p->state != LINK_ENDING)
			look_after(p);
		if (p->state == LINK_ENDING &&
		    (is_drained(p) || port->now_ns - p->since_ns >= LINK_DRAIN_NS))
			bury(port, i--);
	}
}

bool link_port_poll(struct link_port *port, uint64_t now_ns)
{
	struct ibv_wc wc[BATCH];

	port->now_ns = now_ns;
	take_arrived(port);
	int n = ibv_poll_cq(port->cq, BATCH, wc);
	for (int i = 0; i < n; i++)
		complete(port, &wc[i]);
	look_after_all(port);
	return n > 0;
}

void link_port_end(struct link_port *port, const char *why)
{
	take_arrived(port);
	for (unsigned i = 0; i < port->count; i++)
		link_peer_close(port->peers[i], "%s", why);
}

bool link_port_is_empty(struct link_port *port)
{
	return !port->count && !atomic_load(&port->has_arrived);
}
