/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer -- a peer of kvd that does not keep to the protocol.
 *
 *	peer ADDR:PORT CASE [ROUNDS [SEED]]
 *
 * Exits with 0 if kvd took it as it should, 1 with a sentence if not.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/addr.h"
#include "common/rdma/device.h"
#include "common/hash.h"
#include "common/layout.h"
#include "common/rdma/link.h"
#include "common/wire.h"

#define RECVS 64u
#define SEND_BYTES_MAX (2 * WIRE_MESSAGE_BYTES_MAX)
#define PATIENCE_S 20
#define RD_ATOM 4

struct peer {
	struct device device;
	struct addr addr;
	const struct verbs *v;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *send; /* then the receive buffers */
	struct wire_accept accept; /* of the last answer to a connect */
	struct wire_welcome welcome;
	uint64_t random_state;
	bool gone; /* kvd ended the connection */
};

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "peer: %s (%s)\n", what, strerror(errno));
	exit(1);
}

static uint64_t next_random(struct peer *p)
{
	uint64_t z = p->random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void fill_random(struct peer *p, void *to, size_t bytes)
{
	uint8_t *at = to;

	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)next_random(p);
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

	check(p->v->get_cm_event(p->channel, &e) == 0, "no event of rdma_cm");
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

	check(ibv_post_recv(p->qp, &wr, &bad) == 0, "can't post a receive");
}

static void resolve(struct peer *p)
{
	p->gone = false;
	p->channel = p->v->create_event_channel();
	check(p->channel != NULL, "no event channel");
	check(p->v->create_id(p->channel, &p->id, p, RDMA_PS_TCP) == 0 &&
	      device_prepare(&p->device, p->id) == 0, "no id");
	check(p->v->resolve_addr(p->id, NULL, &p->addr.sa, 5000) == 0 &&
	      next_event(p) == RDMA_CM_EVENT_ADDR_RESOLVED, "can't resolve the address");
	check(p->v->resolve_route(p->id, 5000) == 0 &&
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
	check(p->pd && p->cq && p->send, "no queues");
	p->mr = p->v->reg_mr(p->pd, p->send, bytes, IBV_ACCESS_LOCAL_WRITE);
	check(p->mr != NULL, "can't register memory");
	config.pd = p->pd;
	config.send_cq = config.recv_cq = p->cq;
	p->qp = link_qp_new(p->v, &config, &inline_bytes, &err);
	check(p->qp && link_qp_init(p->v, p->id, p->qp, 0, &err) == 0, "no queue pair");
	for (uint32_t i = 0; i < RECVS; i++)
		post_recv(p, i);
}

/* Connects with this private data; the event that answers. */
static enum rdma_cm_event_type connect_with(struct peer *p, const void *data, uint8_t bytes)
{
	struct rdma_conn_param param;
	enum rdma_cm_event_type type;
	struct err err;

	resolve(p);
	make_queues(p);
	link_conn_param(&param, p->qp, data, bytes, RD_ATOM, RD_ATOM);
	check(p->v->connect(p->id, &param) == 0, "can't connect");
	type = next_event(p);
	if (type != RDMA_CM_EVENT_CONNECT_RESPONSE)
		return type;
	check(link_qp_ready(p->v, p->id, p->qp, 0, RD_ATOM, RD_ATOM, &err) == 0, err.text);
	check(p->v->establish(p->id) == 0, "can't establish");
	/* From now on it is only looked at. */
	check(fcntl(p->channel->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
	return type;
}

static void connect_well(struct peer *p)
{
	struct wire_connect hello = { .magic = WIRE_MAGIC, .version = WIRE_VERSION };

	check(connect_with(p, &hello, sizeof hello) == RDMA_CM_EVENT_CONNECT_RESPONSE,
	      "kvd doesn't accept a good connection");
}

static void hang_up(struct peer *p)
{
	p->v->disconnect(p->id);
	p->v->destroy_qp(p->qp);
	p->v->destroy_cq(p->cq);
	p->v->dereg_mr(p->mr);
	p->v->dealloc_pd(p->pd);
	p->v->destroy_id(p->id);
	p->v->destroy_event_channel(p->channel);
	free(p->send);
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

/* True with a completion, false if kvd ended the connection instead. */
static bool next_completion(struct peer *p, struct ibv_wc *wc)
{
	time_t end = now_s() + PATIENCE_S;

	while (now_s() <= end) {
		int n = ibv_poll_cq(p->cq, 1, wc);
		check(n >= 0, "can't poll");
		if (n > 0)
			return true;
		if (p->gone)
			return false;
		look_for_hang_up(p);
		sched_yield();
	}
	check(false, "kvd neither answers nor hangs up");
	return false;
}

#define SEND_ID 1000u

static int post_send(struct peer *p, struct ibv_send_wr *wr, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)p->send, bytes, p->mr->lkey };
	struct ibv_send_wr *bad;

	wr->wr_id = SEND_ID;
	wr->sg_list = &sge;
	wr->num_sge = bytes > 0; /* a length of 0 means 2 GiB in an SGE */
	wr->send_flags = IBV_SEND_SIGNALED;
	return ibv_post_send(p->qp, wr, &bad);
}

/*
 * Sends what stands in p->send.  True with the reply; false if kvd ended the
 * connection.  A message that brings neither is what no peer may see.
 */
static bool call(struct peer *p, uint32_t bytes, struct wire_reply *reply)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	if (post_send(p, &wr, bytes) != 0)
		return false;
	for (;;) {
		if (!next_completion(p, &wc) || wc.status != IBV_WC_SUCCESS)
			return false;
		if (wc.wr_id == SEND_ID)
			continue;
		memset(reply, 0, sizeof *reply);
		check(wc.byte_len >= sizeof *reply, "a reply is too short");
		const uint8_t *message = p->send + SEND_BYTES_MAX + wc.wr_id * WIRE_MESSAGE_BYTES_MAX;
		memcpy(reply, message, sizeof *reply);
		if (reply->op == WIRE_HELLO && wc.byte_len >= sizeof *reply + sizeof p->welcome)
			memcpy(&p->welcome, message + sizeof *reply, sizeof p->welcome);
		post_recv(p, (uint32_t)wc.wr_id);
		return true;
	}
}

static uint32_t put_request(struct peer *p, const struct wire_request *request, const char *key,
			    size_t key_bytes)
{
	memcpy(p->send, request, sizeof *request);
	memcpy(p->send + sizeof *request, key, key_bytes);
	return (uint32_t)(sizeof *request + key_bytes);
}

static void say_hello(struct peer *p)
{
	struct wire_request hello = { .request_id = 1, .op = WIRE_HELLO };
	struct wire_reply reply;

	check(call(p, put_request(p, &hello, "", 0), &reply) && reply.status == WIRE_OK,
	      "kvd doesn't answer a good hello");
}

/* --------------------------------------------------------------------- cases */

static void refused_for(struct peer *p, const void *data, uint8_t bytes, enum wire_refusal why)
{
	check(connect_with(p, data, bytes) == RDMA_CM_EVENT_REJECTED, "kvd doesn't refuse");
	check(p->accept.magic == WIRE_MAGIC && p->accept.refusal == why,
	      "kvd refuses for another reason");
	hang_up(p);
}

static void case_magic(struct peer *p)
{
	struct wire_connect hello = { .magic = 0xdeadbeef, .version = WIRE_VERSION };

	refused_for(p, &hello, sizeof hello, WIRE_REFUSED_MAGIC);
}

static void case_version(struct peer *p)
{
	struct wire_connect hello = { .magic = WIRE_MAGIC, .version = WIRE_VERSION + 1 };

	refused_for(p, &hello, sizeof hello, WIRE_REFUSED_VERSION);
	hello.version = 0;
	refused_for(p, &hello, sizeof hello, WIRE_REFUSED_VERSION);
}

/* On a real device private data arrives padded with zeros. */
static void case_short(struct peer *p)
{
	struct wire_connect hello = { .magic = 0x44564b, .version = WIRE_VERSION };

	refused_for(p, &hello, 3, WIRE_REFUSED_MAGIC);
	refused_for(p, NULL, 0, WIRE_REFUSED_MAGIC);
}

static void case_noise(struct peer *p)
{
	uint8_t noise[48];

	fill_random(p, noise, sizeof noise);
	refused_for(p, noise, sizeof noise, WIRE_REFUSED_MAGIC);
}

static void case_silent(struct peer *p)
{
	connect_well(p);
	hang_up(p);
}

/* Anything but a hello to begin with. */
static void case_garbage(struct peer *p)
{
	struct wire_reply reply;
	uint32_t bytes = (uint32_t)(next_random(p) % (WIRE_MESSAGE_BYTES_MAX + 1));

	connect_well(p);
	fill_random(p, p->send, bytes);
	if (next_random(p) & 1)
		p->send[offsetof(struct wire_request, op)] = (uint8_t)(next_random(p) % WIRE_OPS);
	if (p->send[offsetof(struct wire_request, op)] == WIRE_HELLO)
		p->send[offsetof(struct wire_request, op)] = WIRE_PUT;
	if (call(p, bytes, &reply))
		check(reply.status != WIRE_OK, "kvd takes orders before the hello");
	hang_up(p);
}

static void case_too_long(struct peer *p)
{
	struct wire_reply reply;

	connect_well(p);
	say_hello(p);
	fill_random(p, p->send, SEND_BYTES_MAX);
	check(!call(p, SEND_BYTES_MAX, &reply), "kvd answers a message that is too long");
	hang_up(p);
}

/* Good requests with some of their fields changed.  Never a flush or a change of
 * the keys that the script looks at: theirs don't begin with "peer". */
static uint32_t make_mutant(struct peer *p)
{
	static const uint64_t odd[] = { 0, 1, 31, 8127, 8128, 8192, 65535, 1ull << 30,
					(1ull << 30) + 1, 1ull << 32, 1ull << 63, ~0ull };
	static const uint8_t ops[] = { WIRE_PING, WIRE_GET, WIRE_PUT, WIRE_DELETE, WIRE_KEYS,
				       WIRE_STATS, WIRE_RELEASE, WIRE_INCR, WIRE_APPEND,
				       WIRE_TOUCH, WIRE_OPS, 0, 200 };
	struct wire_request r = { .request_id = (uint32_t)next_random(p) };
	uint64_t value = odd[next_random(p) % (sizeof odd / sizeof *odd)];
	char key[16] = "peer";
	uint32_t bytes;

	r.op = ops[next_random(p) % sizeof ops];
	r.key_bytes = 5;
	key[4] = (char)('a' + next_random(p) % 8);
	r.value_bytes = next_random(p) % 100;
	r.flags = next_random(p) % 4 ? 0 : (uint8_t)next_random(p);
	bytes = (uint32_t)(sizeof r + r.key_bytes + r.value_bytes);
	switch (next_random(p) % 8) {
	case 0:
		r.key_bytes = (uint16_t)value;
		break;
	case 1:
		r.value_bytes = value;
		break;
	case 2:
		r.version = value;
		break;
	case 3:
		r.token = value;
		break;
	case 4:
		r.ttl_ms = value;
		break;
	case 5:
		bytes = (uint32_t)(next_random(p) % (WIRE_MESSAGE_BYTES_MAX + 1));
		break;
	case 6:
		r.flags = WIRE_PULL;
		r.value_bytes = next_random(p) % 2 ? value : 100000;
		r.segments = next_random(p) % 4 ? 1 : (uint32_t)(next_random(p) % 18);
		bytes = (uint32_t)(sizeof r + 5 + r.segments * sizeof(struct wire_segment));
		break;
	}
	fill_random(p, p->send, sizeof r + 600);
	put_request(p, &r, key, 5);
	/* Half the time the first segment's length is the value's. */
	if (r.segments && next_random(p) % 2)
		memcpy(p->send + sizeof r + 5 + offsetof(struct wire_segment, bytes),
		       &r.value_bytes, sizeof r.value_bytes);
	return bytes;
}

static void case_mutants(struct peer *p)
{
	struct wire_reply reply;

	connect_well(p);
	say_hello(p);
	for (unsigned i = 0; i < 50; i++) {
		if (!call(p, make_mutant(p), &reply))
			break;
		check(reply.status < WIRE_STATUSES, "a status that is none");
	}
	hang_up(p);
}

/* A one-sided request to kvd's memory; the status that it ended with. */
static enum ibv_wc_status reach(struct peer *p, enum ibv_wr_opcode opcode, uint64_t addr,
				uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = opcode };
	struct ibv_wc wc;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	check(post_send(p, &wr, 8) == 0, "can't post");
	return next_completion(p, &wc) ? wc.status : IBV_WC_FATAL_ERR;
}

struct try {
	enum ibv_wr_opcode opcode;
	bool lock; /* region */
	bool hello;
	int64_t offset; /* negative: from the region's end */
	bool allowed;
};

static void try_reach(struct peer *p, const struct try *t)
{
	struct wire_welcome learnt = p->welcome;
	uint64_t start, bytes;
	enum ibv_wc_status status;

	connect_well(p);
	if (t->hello) {
		say_hello(p);
		learnt = p->welcome;
	}
	start = t->lock ? learnt.lock_addr : learnt.table_addr;
	bytes = t->lock ? learnt.stripes * 8 : learnt.table_bytes;
	status = reach(p, t->opcode, start + (t->offset < 0 ? bytes + (uint64_t)t->offset
							    : (uint64_t)t->offset),
		       t->lock ? learnt.lock_rkey : learnt.table_rkey);
	check((status == IBV_WC_SUCCESS) == t->allowed, t->allowed ? "a right that is given fails"
								   : "kvd's memory can be reached");
	hang_up(p);
}

/* What a peer may do to kvd's memory, and what not. */
static void case_rights(struct peer *p)
{
	static const struct try tries[] = {
		{ IBV_WR_RDMA_READ, false, true, 0, true },
		{ IBV_WR_RDMA_READ, false, true, -8, true },
		{ IBV_WR_RDMA_READ, true, true, 0, true },
		{ IBV_WR_RDMA_READ, false, false, 0, false }, /* with rkeys of another connection */
		{ IBV_WR_RDMA_READ, true, false, 0, false },
		{ IBV_WR_RDMA_READ, false, true, -4, false }, /* over the end */
		{ IBV_WR_RDMA_WRITE, false, true, 0, false },
		{ IBV_WR_RDMA_WRITE, true, true, 0, false },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, false, true, 0, false },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, true, false, 0, false },
	};

	for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
		fprintf(stderr, "peer: try %u\n", i);
		try_reach(p, &tries[i]);
	}
}

/* -------------------------------------------------------------------- locks */

/* The stripe of a key that the script looks at: "victim" or "innocent". */
static uint64_t stripe_of(const struct peer *p, const char *key)
{
	return layout_stripe(hash_key(p->welcome.hash_seed, key, strlen(key)).b, p->welcome.stripes);
}

/* Goes on with one lock word; the word as it was before. */
static uint64_t on_word(struct peer *p, enum ibv_wr_opcode opcode, uint64_t stripe,
			uint64_t expected, uint64_t desired)
{
	struct ibv_send_wr wr = { .opcode = opcode };
	uint64_t addr = p->welcome.lock_addr + stripe * 8, was;
	struct ibv_wc wc;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = p->welcome.lock_rkey;
		wr.wr.atomic.compare_add = expected;
		wr.wr.atomic.swap = desired;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = p->welcome.lock_rkey;
	}
	check(post_send(p, &wr, 8) == 0 && next_completion(p, &wc) && wc.status == IBV_WC_SUCCESS,
	      "can't reach a lock word");
	memcpy(&was, p->send, sizeof was);
	return was;
}

/* The word of "victim" names whom it pleases, as soon as nobody has the lock. */
static void forge(struct peer *p, uint64_t token)
{
	uint64_t was = 1;

	for (int tries = 0; was && tries < 5000; tries++) {
		if (tries)
			usleep(1000);
		was = on_word(p, IBV_WR_ATOMIC_CMP_AND_SWP, stripe_of(p, "victim"), 0, token);
	}
	check(was == 0, "the victim's lock is not free");
}

static void meet(struct peer *p)
{
	connect_well(p);
	say_hello(p);
}

static void case_forge_garbage(struct peer *p)
{
	meet(p);
	forge(p, next_random(p) | 1);
	hang_up(p);
}

/* Whoever connected before: it is there, and holds nothing of the kind. */
static void case_forge_other(struct peer *p)
{
	meet(p);
	forge(p, layout_token(p->welcome.connection_id - 1, 1 + next_random(p) % 1000));
	hang_up(p);
}

/* The very token of who holds "innocent". */
static void case_forge_copy(struct peer *p)
{
	meet(p);
	uint64_t word = on_word(p, IBV_WR_RDMA_READ, stripe_of(p, "innocent"), 0, 0);
	check(word != 0, "nobody holds the lock that is to be copied");
	forge(p, word & ~LAYOUT_LOCK_WAIT);
	hang_up(p);
}

/* Holds the lock for as long as it is let, and does not answer for it. */
static void case_squat(struct peer *p)
{
	struct ibv_wc wc;

	meet(p);
	forge(p, layout_token(p->welcome.connection_id, 1));
	while (next_completion(p, &wc) && wc.status == IBV_WC_SUCCESS)
		;
	hang_up(p);
}

static enum wire_status ask(struct peer *p, struct wire_request request, bool *answered)
{
	struct wire_reply reply = { .status = WIRE_STATUSES };

	request.request_id = (uint32_t)next_random(p);
	*answered = call(p, put_request(p, &request, "victim", request.key_bytes), &reply);
	return (enum wire_status)reply.status;
}

/* Requests about locks that make no sense: refused, and nothing comes of them. */
static void case_lock_mutants(struct peer *p)
{
	bool answered;

	meet(p);
	uint64_t stripes = p->welcome.stripes, own = layout_token(p->welcome.connection_id, 7);
	enum wire_status status = ask(p, (struct wire_request){ .op = WIRE_LOCK, .version = stripes,
								.token = own }, &answered);
	check(answered && status == WIRE_EINVALID, "a wait for a lock that is none");
	status = ask(p, (struct wire_request){ .op = WIRE_UNLOCK, .version = stripe_of(p, "victim"),
					       .token = own }, &answered);
	check(answered && status == WIRE_OK, "an unlock of what it does not hold");
	/* Under a lock that it does not hold: kept waiting, then refused. */
	status = ask(p, (struct wire_request){ .op = WIRE_DELETE, .key_bytes = 6, .token = own },
		     &answered);
	check(answered && status == WIRE_EBUSY, "a change under no lock");
	ask(p, (struct wire_request){ .op = WIRE_DELETE, .key_bytes = 6,
				      .token = layout_token(p->welcome.connection_id - 1, 7) },
	    &answered);
	check(!answered, "a change with somebody else's token");
	hang_up(p);
}

/* Waits in kvd's queue, and goes. */
static void case_wait_and_go(struct peer *p)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct wire_request q = { .request_id = 2, .op = WIRE_LOCK, .ttl_ms = 60000 };
	struct ibv_wc wc;

	meet(p);
	q.version = stripe_of(p, "innocent");
	q.token = layout_token(p->welcome.connection_id, 1);
	check(post_send(p, &wr, put_request(p, &q, "", 0)) == 0 && next_completion(p, &wc) &&
	      wc.status == IBV_WC_SUCCESS, "can't send");
	hang_up(p);
}

static const struct {
	const char *name;
	void (*run)(struct peer *p);
} cases[] = {
	{ "magic", case_magic },     { "version", case_version }, { "short", case_short },
	{ "noise", case_noise },     { "silent", case_silent },	  { "garbage", case_garbage },
	{ "too_long", case_too_long }, { "mutants", case_mutants }, { "rights", case_rights },
	{ "forge_garbage", case_forge_garbage }, { "forge_other", case_forge_other },
	{ "forge_copy", case_forge_copy }, { "squat", case_squat },
	{ "lock_mutants", case_lock_mutants }, { "wait_and_go", case_wait_and_go },
};

int main(int argc, char **argv)
{
	struct peer p = { 0 };
	long rounds = argc > 3 ? atol(argv[3]) : 1;
	struct err err;

	if (argc < 3)
		return 2;
	alarm(300);
	p.random_state = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
	if (addr_parse(&p.addr, argv[1], &err) || device_choose(&p.device, NULL, &p.addr, &err)) {
		fprintf(stderr, "peer: %s\n", err.text);
		return 2;
	}
	p.v = p.device.verbs;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(cases[i].name, argv[2]) != 0)
			continue;
		for (long round = 0; round < rounds; round++)
			cases[i].run(&p);
		return 0;
	}
	fprintf(stderr, "peer: no case %s\n", argv[2]);
	return 2;
}
