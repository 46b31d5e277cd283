/* SPDX-License-Identifier: BSD-2-Clause */
/* What is sent over a connection: a ring of messages, the other end's credits, READs. */
#include "server/cluster/link/peer.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/rdma/link.h"
#include "server/cluster/link/flow.h"
#include "server/cluster/link/impl.h"

const char *link_peer_name(const struct link_peer *p)
{
	return p->name;
}

const struct link_lane *link_peer_lane(const struct link_peer *p)
{
	return &p->lane;
}

bool link_peer_is_asker(const struct link_peer *p)
{
	return p->is_asker;
}

static bool is_open(const struct link_peer *p)
{
	return p->state == LINK_PROVING || p->state == LINK_UP;
}

static uint8_t *send_buffer(struct link_peer *p, uint32_t number)
{
	return p->memory + (size_t)(LINK_RECEIVES + number % LINK_SENDS) * LINK_BYTES_MAX;
}

/* For credits, or a completion that will come. */
static bool waits(const struct link_peer *p)
{
	return p->queued != p->posted || p->signalled || p->reads;
}

/* From now on, if nothing was awaited. */
static void await(struct link_peer *p)
{
	if (!waits(p))
		p->moved_ns = p->port->now_ns;
}

void *link_peer_reserve(struct link_peer *p)
{
	if (is_open(p) && p->queued - p->completed < LINK_SENDS)
		return send_buffer(p, p->queued);
	p->is_crowded = true;
	return NULL;
}

void link_peer_send(struct link_peer *p, uint32_t bytes)
{
	if (!is_open(p))
		return;
	await(p);
	p->bytes[p->queued++ % LINK_SENDS] = bytes;
	link_flow_push(p);
}

/* messages: that were posted, with this one. */
static int post(struct link_peer *p, enum link_wr kind, uint32_t messages, struct ibv_sge *sge)
{
	bool is_signalled = kind == LINK_WR_EMPTY || messages % LINK_SIGNAL_EACH == 0;
	struct ibv_send_wr wr = { .wr_id = link_wr_id(p, kind, messages),
				  .sg_list = sge, .num_sge = sge ? 1 : 0,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = is_signalled ? IBV_SEND_SIGNALED : 0,
				  .imm_data = htonl(p->taken) }, *bad;
	int rc = ibv_post_send(p->qp, &wr, &bad);

	if (rc) {
		link_peer_close(p, "a message could not be posted: %s", strerror(rc));
		return -1;
	}
	if (kind == LINK_WR_EMPTY)
		p->empties++;
	else if (is_signalled)
		p->signalled++;
	p->told = p->taken;
	p->sent++;
	return 0;
}

void link_flow_push(struct link_peer *p)
{
	while (is_open(p) && p->posted != p->queued && p->sent - p->granted < LINK_CREDITS) {
		struct ibv_sge sge = { (uintptr_t)send_buffer(p, p->posted),
				       p->bytes[p->posted % LINK_SENDS], p->mr->lkey };
		if (post(p, LINK_WR_SEND, p->posted + 1, &sge))
			return;
		p->posted++;
	}
}

void link_flow_tell(struct link_peer *p)
{
	if (!is_open(p) || p->taken - p->told < LINK_CREDITS / 2 ||
	    p->sent - p->granted >= LINK_RECEIVES || p->empties == LINK_EMPTY_POSTED)
		return;
	post(p, LINK_WR_EMPTY, p->posted, NULL);
}

/* Behind all that was posted, in an error state: its completion comes last. */
static void post_last(struct link_peer *p)
{
	struct ibv_send_wr wr = { .wr_id = link_wr_id(p, LINK_WR_EMPTY, p->posted),
				  .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	/* Otherwise LINK_DRAIN_NS ends it. */
	if (p->completed != p->posted && !ibv_post_send(p->qp, &wr, &bad))
		p->empties++;
}

bool link_flow_granted(struct link_peer *p, uint32_t taken)
{
	if (taken - p->granted > p->sent - p->granted)
		return false;
	if (p->granted != taken)
		p->moved_ns = p->port->now_ns;
	p->granted = taken;
	return true;
}

/* Completions come in order, so the ring's eldest are free. */
void link_flow_sent(struct link_peer *p, enum link_wr kind, unsigned index)
{
	p->completed += (uint16_t)(index - p->completed);
	if (kind == LINK_WR_EMPTY)
		p->empties--;
	else if (index % LINK_SIGNAL_EACH == 0)
		p->signalled--;
	p->moved_ns = p->port->now_ns;
}

bool link_flow_is_stalled(const struct link_peer *p)
{
	return is_open(p) && waits(p) && p->port->now_ns - p->moved_ns >= LINK_STALL_NS;
}

bool link_peer_read(struct link_peer *p, const struct link_read *r)
{
	unsigned i = 0;

	while (i < LINK_READS && p->reading & 1u << i)
		i++;
	if (p->state != LINK_UP || i == LINK_READS) {
		p->is_crowded = true;
		return false;
	}
	struct ibv_sge sge = { (uintptr_t)r->to, r->bytes, r->lkey };
	struct ibv_send_wr wr = { .wr_id = link_wr_id(p, LINK_WR_READ, i), .sg_list = &sge,
				  .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { r->from, r->rkey } }, *bad;
	int rc = ibv_post_send(p->qp, &wr, &bad);
	if (rc) {
		link_peer_close(p, "a READ could not be posted: %s", strerror(rc));
		return false;
	}
	await(p);
	p->cookies[i] = r->cookie;
	p->reading |= 1u << i;
	p->reads++;
	return true;
}

void link_flow_read(struct link_peer *p, unsigned index, bool is_ok)
{
	const struct link_events *e = &p->port->options.events;

	p->reading &= ~(1u << index);
	p->reads--;
	p->moved_ns = p->port->now_ns;
	if (e->read)
		e->read(e->arg, p, p->cookies[index], is_ok);
}

void link_peer_close(struct link_peer *p, const char *why, ...)
{
	const struct link_events *e = &p->port->options.events;
	char what[256], text[512];
	va_list args;

	if (p->state == LINK_ENDING)
		return;
	va_start(args, why);
	vsnprintf(what, sizeof what, why, args);
	va_end(args);
	snprintf(text, sizeof text, "the connection with member %s (%s) ended: %s",
		 p->name[0] ? p->name : "(not known yet)", p->addr.text, what);
	p->state = LINK_ENDING;
	p->since_ns = p->port->now_ns;
	link_qp_set_error(p->port->options.verbs, p->qp);
	post_last(p);
	e->down(e->arg, p, text);
}
