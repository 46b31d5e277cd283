/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/attack/raw_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define RD_ATOM 4
#define REST_NS_MIN 50000
#define REST_NS_MAX 10000000
#define SPINS 100u
#define SEND_ID 1000u
#define REACH_ID 1001u

void raw_die(const char *what)
{
	fprintf(stderr, "attack: %s (%s)\n", what, strerror(errno));
	exit(1);
}

uint64_t raw_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t raw_random(struct raw *raw)
{
	uint64_t z = raw->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void raw_open(struct raw *raw, const char *addr)
{
	char address[300], space[SPACE_NAME_BYTES_MAX + 1];
	struct err err = { "libsodium does not start" };

	raw->recvs = RAW_RECVS;
	if (auth_init() || space_split(addr, address, sizeof address, space, &err) ||
	    addr_parse(&raw->addr, address, &err) ||
	    device_choose(&raw->device, NULL, &raw->addr, &err))
		raw_die(err.text);
	raw->space = space_number(space);
	raw->v = raw->device.verbs;
	raw->channel = raw->v->create_event_channel();
	if (!raw->channel || fcntl(raw->channel->fd, F_SETFL, O_NONBLOCK))
		raw_die("no event channel");
}

void raw_close(struct raw *raw)
{
	if (raw->mr)
		raw->v->dereg_mr(raw->mr);
	if (raw->pd)
		raw->v->dealloc_pd(raw->pd);
	raw->v->destroy_event_channel(raw->channel);
	free(raw->memory);
}

/* --------------------------------------------------------------- connection */

/* One connection is made at a time: every event is its own, or of one that ended. */
static enum rdma_cm_event_type wait_event(struct raw_conn *c)
{
	struct raw *raw = c->raw;
	struct pollfd fd = { raw->channel->fd, POLLIN, 0 };
	uint64_t end = raw_now_ms() + PATIENCE_MS;
	struct rdma_cm_event *e;

	while (raw_now_ms() < end) {
		if (raw->v->get_cm_event(raw->channel, &e)) {
			poll(&fd, 1, 100);
			continue;
		}
		enum rdma_cm_event_type type = e->event;
		bool own = e->id == c->id;
		const struct rdma_conn_param *p = &e->param.conn;
		if (own && (type == RDMA_CM_EVENT_CONNECT_RESPONSE || type == RDMA_CM_EVENT_REJECTED)) {
			if (p->private_data && p->private_data_len >= sizeof c->accept)
				memcpy(&c->accept, p->private_data, sizeof c->accept);
			c->server_qpn = p->qp_num;
		}
		raw->v->ack_cm_event(e);
		if (own)
			return type;
	}
	raw_die("no event of rdma_cm");
}

static void share(struct raw *raw, struct rdma_cm_id *id)
{
	size_t bytes = RAW_SENDS * RAW_SEND_BYTES + RAW_REACH + RAW_RECVS * WIRE_MESSAGE_BYTES_MAX;

	if (raw->pd)
		return;
	raw->ctx = id->verbs;
	raw->pd = raw->v->alloc_pd(raw->ctx);
	raw->memory = aligned_alloc(4096, bytes);
	if (!raw->pd || !raw->memory)
		raw_die("no memory");
	memset(raw->memory, 0, bytes);
	raw->mr = raw->v->reg_mr(raw->pd, raw->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!raw->mr)
		raw_die("can't register memory");
	raw->reach = raw->memory + RAW_SENDS * RAW_SEND_BYTES;
	raw->recv = raw->reach + RAW_REACH;
}

static void post_recv(struct raw_conn *c, uint32_t i)
{
	struct ibv_sge sge = { (uintptr_t)c->raw->recv + (uint64_t)i * WIRE_MESSAGE_BYTES_MAX,
			       WIRE_MESSAGE_BYTES_MAX, c->raw->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	ibv_post_recv(c->qp, &wr, &bad); /* not on one that is gone */
}

static void make_queues(struct raw_conn *c)
{
	struct raw *raw = c->raw;
	struct link_config config = { .send_depth = RAW_SENDS, .recv_depth = RAW_RECVS, .send_sge = 1 };
	uint32_t inline_bytes;
	struct err err;

	c->cq = raw->v->create_cq(raw->ctx, 64 + (int)RAW_RECVS, NULL, NULL, 0);
	if (!c->cq)
		raw_die("no completion queue");
	config.pd = raw->pd;
	config.send_cq = config.recv_cq = c->cq;
	c->qp = link_qp_new(raw->v, &config, &inline_bytes, &err);
	if (!c->qp || link_qp_init(raw->v, c->id, c->qp, 0, &err))
		raw_die(err.text);
	for (uint32_t i = 0; i < raw->recvs; i++)
		post_recv(c, i);
}

void raw_hang_up(struct raw_conn *c)
{
	struct raw *raw = c->raw;

	raw->v->disconnect(c->id);
	if (c->qp)
		raw->v->destroy_qp(c->qp);
	if (c->cq)
		raw->v->destroy_cq(c->cq);
	raw->v->destroy_id(c->id);
}

bool raw_connect(struct raw *raw, struct raw_conn *c, const struct wire_connect *connect)
{
	struct rdma_conn_param param;
	struct err err;

	*c = (struct raw_conn){ .raw = raw, .connect = *connect };
	if (raw->v->create_id(raw->channel, &c->id, c, RDMA_PS_TCP) ||
	    device_prepare(&raw->device, c->id))
		raw_die("no id");
	if (raw->v->resolve_addr(c->id, NULL, &raw->addr.sa, 5000) ||
	    wait_event(c) != RDMA_CM_EVENT_ADDR_RESOLVED)
		raw_die("can't resolve the address");
	if (raw->v->resolve_route(c->id, 5000) || wait_event(c) != RDMA_CM_EVENT_ROUTE_RESOLVED)
		raw_die("can't resolve the route");
	share(raw, c->id);
	make_queues(c);
	link_conn_param(&param, c->qp, connect, sizeof *connect, RD_ATOM, RD_ATOM);
	if (raw->v->connect(c->id, &param))
		raw_die("can't connect");
	if (wait_event(c) != RDMA_CM_EVENT_CONNECT_RESPONSE) {
		raw_hang_up(c);
		return false;
	}
	/* A kvd that waited too long for this may have hung up meanwhile. */
	bool ready = !link_qp_ready(raw->v, c->id, c->qp, 0, RD_ATOM, RD_ATOM, &err);
	if (ready && !raw->v->establish(c->id))
		return true;
	if (!raw->tolerant)
		raw_die(ready ? "can't establish" : err.text);
	raw_hang_up(c);
	return false;
}

void raw_connect_well(struct raw *raw, struct raw_conn *c)
{
	struct wire_connect connect = { .magic = WIRE_MAGIC, .version = WIRE_VERSION,
					.depth = raw->depth, .space = raw->space };

	auth_nonce(connect.nonce);
	if (!raw_connect(raw, c, &connect))
		raw_die(c->accept.refusal == WIRE_REFUSED_RATE ? "refused: too many handshakes"
							       : "kvd doesn't accept a good connection");
}

void raw_look(struct raw_conn *c)
{
	struct rdma_cm_event *e;

	while (c->raw->v->get_cm_event(c->raw->channel, &e) == 0) {
		if (e->id == c->id && e->event == RDMA_CM_EVENT_DISCONNECTED)
			c->gone = true;
		c->raw->v->ack_cm_event(e);
	}
}

/* ------------------------------------------------------------------ messages */

bool raw_completion(struct raw_conn *c, struct ibv_wc *wc, int patience_ms)
{
	struct pollfd fd = { c->raw->channel->fd, POLLIN, 0 };
	uint64_t end = raw_now_ms() + (uint64_t)patience_ms;
	unsigned spins = 0;
	long rest_ns = REST_NS_MIN;

	do {
		if (ibv_poll_cq(c->cq, 1, wc) > 0)
			return true;
		raw_look(c);
		if (c->gone)
			return ibv_poll_cq(c->cq, 1, wc) > 0;
		/* Short on an event of rdma_cm; late on a completion by an eighth of the wait, so
		 * that many who wait for a slow no leave the processors to others. */
		if (spins++ > SPINS) {
			ppoll(&fd, 1, &(struct timespec){ .tv_nsec = rest_ns }, NULL);
			rest_ns += rest_ns < REST_NS_MAX ? rest_ns / 8 : 0;
		}
	} while (raw_now_ms() < end);
	return false;
}

bool raw_send(struct raw_conn *c, const void *message, uint32_t bytes)
{
	/* Used again after as many as a connection may have under way. */
	uint8_t *place = c->raw->memory + c->raw->sent++ % RAW_SENDS * RAW_SEND_BYTES;
	struct ibv_sge sge = { (uintptr_t)place, bytes, c->raw->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = SEND_ID, .sg_list = &sge, .num_sge = bytes > 0,
				  .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	memcpy(place, message, bytes);
	return ibv_post_send(c->qp, &wr, &bad) == 0;
}

bool raw_reply(struct raw_conn *c, struct wire_reply *reply, void *payload, size_t payload_max,
	       int patience_ms)
{
	struct ibv_wc wc;

	while (raw_completion(c, &wc, patience_ms)) {
		if (wc.status != IBV_WC_SUCCESS)
			return false;
		if (wc.wr_id >= SEND_ID)
			continue;
		const uint8_t *message = c->raw->recv + wc.wr_id * WIRE_MESSAGE_BYTES_MAX;
		memset(reply, 0, sizeof *reply);
		if (wc.byte_len < sizeof *reply)
			raw_die("a reply is too short");
		memcpy(reply, message, sizeof *reply);
		size_t n = wc.byte_len - sizeof *reply;
		if (payload_max)
			memcpy(payload, message + sizeof *reply, n < payload_max ? n : payload_max);
		post_recv(c, (uint32_t)wc.wr_id);
		return true;
	}
	return false;
}

static void fill_exchange(const struct raw_conn *c, const struct credentials *who,
			  const struct wire_request *q, struct wire_signed *text,
			  struct auth_exchange *x)
{
	*text = (struct wire_signed){ .depth = c->connect.depth,
				      .space = c->connect.space,
				      .value_addr = q->value_addr,
				      .value_checksum = q->value_checksum,
				      .value_rkey = q->value_rkey,
				      .name_bytes = (uint16_t)strlen(who->name) };
	memcpy(text->name, who->name, strlen(who->name));
	*x = (struct auth_exchange){ .server = who->server, .version = WIRE_VERSION,
				     .client_qpn = c->qp->qp_num, .server_qpn = c->server_qpn,
				     .hello = text, .hello_bytes = sizeof *text };
	memcpy(x->client_nonce, c->connect.nonce, sizeof x->client_nonce);
	memcpy(x->server_nonce, c->accept.nonce, sizeof x->server_nonce);
}

void raw_make_hello(struct raw_conn *c, const struct credentials *who)
{
	struct wire_request q = { .request_id = 1, .op = WIRE_HELLO, .value_checksum = 42,
				  .value_addr = c->lent_addr, .value_rkey = c->lent_rkey };
	struct wire_signed text;
	struct auth_exchange x;

	if (who) {
		q.key_bytes = (uint16_t)strlen(who->name);
		q.value_bytes = WIRE_PROOF_BYTES;
		memcpy(c->hello + sizeof q, who->name, q.key_bytes);
		fill_exchange(c, who, &q, &text, &x);
		auth_prove_client(&x, &who->secret, c->hello + sizeof q + q.key_bytes);
	}
	memcpy(c->hello, &q, sizeof q);
	c->hello_bytes = (uint32_t)(sizeof q + q.key_bytes + q.value_bytes);
}

int raw_say_hello(struct raw_conn *c, const struct credentials *who)
{
	uint8_t payload[sizeof c->welcome + WIRE_PROOF_BYTES];
	struct wire_request q;
	struct wire_signed text;
	struct auth_exchange x;
	struct wire_reply reply;

	if (!raw_send(c, c->hello, c->hello_bytes) ||
	    !raw_reply(c, &reply, payload, sizeof payload, PATIENCE_MS))
		return -1;
	if (reply.status != WIRE_OK)
		return reply.status;
	memcpy(&c->welcome, payload, sizeof c->welcome);
	memcpy(&q, c->hello, sizeof q);
	if (who) {
		fill_exchange(c, who, &q, &text, &x);
		if (!auth_check_server(&x, c->hello + sizeof q + q.key_bytes, &c->welcome,
				       sizeof c->welcome, payload + sizeof c->welcome))
			raw_die("kvd proves nothing");
	}
	return WIRE_OK;
}

void raw_enter(struct raw *raw, struct raw_conn *c, const struct credentials *who)
{
	raw_connect_well(raw, c);
	raw_make_hello(c, who);
	if (raw_say_hello(c, who) != WIRE_OK)
		raw_die("kvd doesn't let a user in");
}

enum ibv_wc_status raw_reach(struct raw_conn *c, enum ibv_wr_opcode opcode, uint64_t addr,
			     uint32_t rkey, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)c->raw->reach, bytes, c->raw->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = REACH_ID, .sg_list = &sge, .num_sge = 1,
				  .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 0 : 1;
		wr.wr.atomic.swap = ~0ull;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	if (ibv_post_send(c->qp, &wr, &bad))
		return IBV_WC_LOC_QP_OP_ERR;
	while (raw_completion(c, &wc, PATIENCE_MS))
		if (wc.wr_id == REACH_ID || wc.status != IBV_WC_SUCCESS)
			return wc.status;
	return IBV_WC_FATAL_ERR;
}
