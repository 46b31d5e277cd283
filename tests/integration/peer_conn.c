/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/integration/peer_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/rdma/link.h"

#define RECVS 64u
#define PATIENCE_S 20
#define RD_ATOM 4
#define SEND_ID 1000u

void peer_check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "peer: %s (%s)\n", what, strerror(errno));
	exit(1);
}

uint64_t peer_random(struct peer *p)
{
	uint64_t z = p->random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void peer_fill(struct peer *p, void *to, size_t bytes)
{
	uint8_t *at = to;

	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)peer_random(p);
}

static time_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* ---------------------------------------------------------------- connection */

static enum rdma_cm_event_type next_event(struct peer *p)
{
	struct rdma_cm_event *e;
	enum rdma_cm_event_type type;

	peer_check(p->v->get_cm_event(p->channel, &e) == 0, "no event of rdma_cm");
	type = e->event;
	memset(&p->accept, 0, sizeof p->accept);
	if (e->param.conn.private_data && e->param.conn.private_data_len >= sizeof p->accept)
		memcpy(&p->accept, e->param.conn.private_data, sizeof p->accept);
	p->v->ack_cm_event(e);
	return type;
}

static void post_recv(struct peer *p, uint32_t i)
{
	struct ibv_sge sge = { (uintptr_t)p->send + SEND_BYTES_MAX +
				       (uint64_t)i * WIRE_MESSAGE_BYTES_MAX,
			       WIRE_MESSAGE_BYTES_MAX, p->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	peer_check(ibv_post_recv(p->qp, &wr, &bad) == 0, "can't post a receive");
}

static void resolve(struct peer *p)
{
	p->gone = false;
	p->channel = p->v->create_event_channel();
	peer_check(p->channel != NULL, "no event channel");
	peer_check(p->v->create_id(p->channel, &p->id, p, RDMA_PS_TCP) == 0 &&
	      device_prepare(&p->device, p->id) == 0, "no id");
	peer_check(p->v->resolve_addr(p->id, NULL, &p->addr.sa, 5000) == 0 &&
	      next_event(p) == RDMA_CM_EVENT_ADDR_RESOLVED, "can't resolve the address");
	peer_check(p->v->resolve_route(p->id, 5000) == 0 &&
	      next_event(p) == RDMA_CM_EVENT_ROUTE_RESOLVED, "can't resolve the route");
}

static void make_queues(struct peer *p)
{
	size_t bytes = SEND_BYTES_MAX + RECVS * WIRE_MESSAGE_BYTES_MAX;
	struct link_config config = { .send_depth = 64, .recv_depth = RECVS, .send_sge = 1 };
	uint32_t inline_bytes;
	struct err err;

	p->pd = p->v->alloc_pd(p->id->verbs);
	p->cq = p->v->create_cq(p->id->verbs, 64 + RECVS, NULL, NULL, 0);
	p->send = calloc(1, bytes);
	p->held = aligned_alloc(4096, 4096);
	peer_check(p->pd && p->cq && p->send && p->held, "no queues");
	memset(p->held, 0, 4096);
	p->mr = p->v->reg_mr(p->pd, p->send, bytes, IBV_ACCESS_LOCAL_WRITE);
	p->held_mr = p->v->reg_mr(p->pd, p->held, 4096, IBV_ACCESS_REMOTE_READ);
	peer_check(p->mr && p->held_mr, "can't register memory");
	config.pd = p->pd;
	config.send_cq = config.recv_cq = p->cq;
	p->qp = link_qp_new(p->v, &config, &inline_bytes, &err);
	peer_check(p->qp && link_qp_init(p->v, p->id, p->qp, IBV_ACCESS_REMOTE_READ, &err) == 0,
		   "no queue pair");
	for (uint32_t i = 0; i < RECVS; i++)
		post_recv(p, i);
}

enum rdma_cm_event_type peer_connect_with(struct peer *p, const void *data, uint8_t bytes)
{
	struct rdma_conn_param param;
	enum rdma_cm_event_type type;
	struct err err;

	resolve(p);
	make_queues(p);
	link_conn_param(&param, p->qp, data, bytes, RD_ATOM, RD_ATOM);
	peer_check(p->v->connect(p->id, &param) == 0, "can't connect");
	type = next_event(p);
	if (type != RDMA_CM_EVENT_CONNECT_RESPONSE)
		return type;
	peer_check(link_qp_ready(p->v, p->id, p->qp, IBV_ACCESS_REMOTE_READ, RD_ATOM, RD_ATOM, &err) == 0, err.text);
	peer_check(p->v->establish(p->id) == 0, "can't establish");
	/* From now on it is only looked at. */
	peer_check(fcntl(p->channel->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
	return type;
}

void peer_connect(struct peer *p)
{
	struct wire_connect hello = { .magic = WIRE_MAGIC, .version = WIRE_VERSION };

	peer_check(peer_connect_with(p, &hello, sizeof hello) == RDMA_CM_EVENT_CONNECT_RESPONSE,
	      "kvd doesn't accept a good connection");
}

void peer_hang_up(struct peer *p)
{
	p->v->disconnect(p->id);
	p->v->destroy_qp(p->qp);
	p->v->destroy_cq(p->cq);
	p->v->dereg_mr(p->mr);
	p->v->dereg_mr(p->held_mr);
	p->v->dealloc_pd(p->pd);
	p->v->destroy_id(p->id);
	p->v->destroy_event_channel(p->channel);
	free(p->send);
	free(p->held);
}

/* ------------------------------------------------------------------ messages */

/* A queue pair whose peer is gone need not flush by itself: rdma_cm tells. */
static void look_for_hang_up(struct peer *p)
{
	struct rdma_cm_event *e;

	while (p->v->get_cm_event(p->channel, &e) == 0) {
		p->gone = p->gone || e->event == RDMA_CM_EVENT_DISCONNECTED;
		p->v->ack_cm_event(e);
	}
}

bool peer_completion(struct peer *p, struct ibv_wc *wc)
{
	time_t end = now_s() + PATIENCE_S;

	while (now_s() <= end) {
		int n = ibv_poll_cq(p->cq, 1, wc);
		peer_check(n >= 0, "can't poll");
		if (n > 0)
			return true;
		if (p->gone)
			return false;
		look_for_hang_up(p);
		sched_yield();
	}
	peer_check(false, "kvd neither answers nor hangs up");
	return false;
}

int peer_send(struct peer *p, struct ibv_send_wr *wr, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)p->send, bytes, p->mr->lkey };
	struct ibv_send_wr *bad;

	wr->wr_id = SEND_ID;
	wr->sg_list = &sge;
	wr->num_sge = bytes > 0; /* a length of 0 means 2 GiB in an SGE */
	wr->send_flags = IBV_SEND_SIGNALED;
	return ibv_post_send(p->qp, wr, &bad);
}

bool peer_call(struct peer *p, uint32_t bytes, struct wire_reply *reply)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	if (peer_send(p, &wr, bytes) != 0)
		return false;
	for (;;) {
		if (!peer_completion(p, &wc) || wc.status != IBV_WC_SUCCESS)
			return false;
		if (wc.wr_id == SEND_ID)
			continue;
		memset(reply, 0, sizeof *reply);
		peer_check(wc.byte_len >= sizeof *reply, "a reply is too short");
		const uint8_t *message = p->send + SEND_BYTES_MAX + wc.wr_id * WIRE_MESSAGE_BYTES_MAX;
		memcpy(reply, message, sizeof *reply);
		if (reply->op == WIRE_HELLO && wc.byte_len >= sizeof *reply + sizeof p->welcome)
			memcpy(&p->welcome, message + sizeof *reply, sizeof p->welcome);
		post_recv(p, (uint32_t)wc.wr_id);
		return true;
	}
}

uint32_t peer_put_request(struct peer *p, const struct wire_request *request, const char *key,
			  size_t key_bytes)
{
	memcpy(p->send, request, sizeof *request);
	memcpy(p->send + sizeof *request, key, key_bytes);
	return (uint32_t)(sizeof *request + key_bytes);
}

void peer_hello(struct peer *p)
{
	struct wire_request hello = { .request_id = 1, .op = WIRE_HELLO,
				      .value_addr = (uintptr_t)p->held,
				      .value_rkey = p->held_mr->rkey };
	struct wire_reply reply;

	peer_check(peer_call(p, peer_put_request(p, &hello, "", 0), &reply) && reply.status == WIRE_OK,
	      "kvd doesn't answer a good hello");
}
