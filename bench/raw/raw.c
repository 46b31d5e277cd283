/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each figure has a connection of its own, so that the peer knows what it is for:
 * it sleeps, echoes, takes messages, or forwards them.
 *
 * For a rate, work requests are posted in batches while there are fewer than `depth` under
 * way; every `signal`-th is signalled, and its completion stands for those before it.
 */
#include "bench/raw/raw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure/stopwatch.h"
#include "bench/raw/end.h"
#include "bench/workload/random.h"

#define LINE_BYTES 64u
#define WC_BATCH 64
#define WARMUP 100u
#define EXCHANGES_MAX 32u /* under way */
#define RECEIVES EXCHANGES_MAX

const char *const raw_names[RAW_OPS + 1] = {
	[RAW_READ] = "READ",
	[RAW_WRITE] = "WRITE",
	[RAW_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
	[RAW_CAS] = "CAS",
	[RAW_FADD] = "FADD",
	[RAW_SEND] = "SEND",
	[RAW_SEND_WITH_IMM] = "SEND_WITH_IMM",
	[RAW_EXCHANGE] = "EXCHANGE",
};

static const enum ibv_wr_opcode opcodes[RAW_OPS] = {
	[RAW_READ] = IBV_WR_RDMA_READ,
	[RAW_WRITE] = IBV_WR_RDMA_WRITE,
	[RAW_WRITE_WITH_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[RAW_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
	[RAW_FADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[RAW_SEND] = IBV_WR_SEND,
	[RAW_SEND_WITH_IMM] = IBV_WR_SEND_WITH_IMM,
	[RAW_EXCHANGE] = IBV_WR_SEND,
};

bool raw_has(enum rawtransport transport, enum raw_op op)
{
	return (op != RAW_EXCHANGE || transport == RAWTRANSPORT_RC) &&
	       rawtransport_has(transport, opcodes[op]);
}

struct raw {
	const struct raw_config *config;
	enum raw_op op;
	uint64_t bytes;
	struct rawend_legs legs; /* of an exchange */
	uint64_t stride, slots; /* of the region */
	struct rawend end;
	struct random random;

	struct ibv_send_wr wr[RAW_DEPTH_MAX];
	struct ibv_sge sge[RAW_DEPTH_MAX];
	uint64_t posted, completed;
	uint64_t credits; /* messages that the peer has room for: posted stays below */
	struct ibv_wc wc[WC_BATCH];
};

/* -------------------------------------------------------------- work requests */

static bool is_message(enum raw_op op)
{
	return op == RAW_SEND || op == RAW_SEND_WITH_IMM || op == RAW_EXCHANGE;
}

/* Does it take a receive of the peer's? */
static bool takes_receive(enum raw_op op)
{
	return is_message(op) || op == RAW_WRITE_WITH_IMM;
}

static bool may_inline(const struct raw *r)
{
	return r->op != RAW_READ && !raw_is_atomic(r->op) && r->bytes <= r->end.inline_bytes;
}

static uint64_t random_offset(struct raw *r)
{
	return random_below(&r->random, r->slots) * r->stride;
}

/* The i-th work request of a chain, on a random address of both regions. */
static void fill_wr(struct raw *r, uint32_t i, bool signaled)
{
	struct ibv_send_wr *wr = &r->wr[i];
	uint64_t remote = r->end.remote_addr + random_offset(r);

	r->sge[i] = (struct ibv_sge){ (uintptr_t)(r->end.memory + random_offset(r)),
				      (uint32_t)r->bytes, r->end.mr->lkey };
	*wr = (struct ibv_send_wr){
		.wr_id = r->posted + i + 1,
		.sg_list = &r->sge[i],
		.num_sge = 1,
		.opcode = opcodes[r->op],
		.send_flags = (signaled ? IBV_SEND_SIGNALED : 0) |
			      (may_inline(r) ? IBV_SEND_INLINE : 0),
	};
	if (raw_is_atomic(r->op)) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = r->end.remote_rkey;
		wr->wr.atomic.compare_add = r->op == RAW_FADD;
		wr->wr.atomic.swap = 1;
	} else {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = r->end.remote_rkey;
	}
	rawtransport_address(&r->end.peer, wr);
}

static int post(struct raw *r, uint32_t count, uint32_t signal, struct err *err)
{
	struct ibv_send_wr *bad;
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		fill_wr(r, i, (r->posted + i + 1) % signal == 0);
		r->wr[i].next = i + 1 < count ? &r->wr[i + 1] : NULL;
	}
	rc = ibv_post_send(r->end.qp, r->wr, &bad);
	if (rc != 0)
		return err_set_errno(err, -1, rc, "posting a %s", raw_names[r->op]);
	r->posted += count;
	return 0;
}

/* Takes completions; *messages: how many of them are receives.  0 or -1. */
static int take(struct raw *r, uint32_t *messages, struct err *err)
{
	int n = rawend_wait(&r->end, r->wc, WC_BATCH, err);

	for (int i = 0; i < n; i++) {
		if (!(r->wc[i].opcode & IBV_WC_RECV)) {
			r->completed = r->wc[i].wr_id;
			continue;
		}
		++*messages;
		if (rawend_post_receive(&r->end) != 0)
			return err_set(err, -1, "posting a receive failed");
	}
	return n < 0 ? -1 : 0;
}

/* ---------------------------------------------------------------- connection */

static enum rawend_mode latency_mode(enum raw_op op)
{
	if (op == RAW_EXCHANGE)
		return RAWEND_RELAY;
	return is_message(op) ? RAWEND_ECHO : takes_receive(op) ? RAWEND_SINK : RAWEND_PASSIVE;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static int check_limits(const struct raw *r, struct err *err)
{
	const struct link_limits *limits = &r->end.limits;
	uint64_t bytes = most(most(r->bytes, r->legs.answer_bytes),
			      most(r->legs.record_bytes, r->legs.ack_bytes));

	if (bytes > limits->message_bytes_max)
		return err_set(err, -1, "%llu bytes are more than a message of this device may have "
			       "(%llu)", (unsigned long long)bytes,
			       (unsigned long long)limits->message_bytes_max);
	if (r->end.peer.message_bytes_max != 0 && bytes > r->end.peer.message_bytes_max)
		return err_set(err, -1, "%llu bytes are more than a datagram on this path may have "
			       "(%llu, its MTU)", (unsigned long long)bytes,
			       (unsigned long long)r->end.peer.message_bytes_max);
	if (raw_is_atomic(r->op) && !limits->atomics)
		return err_set(err, -1, "this device has no atomics");
	return 0;
}

static int raw_connect(struct raw *r, enum rawend_mode mode, struct err *err)
{
	const struct raw_config *c = r->config;
	struct rawend_config config = {
		.transport = c->transport,
		.send_depth = 2 * c->depth,
		.send_sge = 1,
		.recv_depth = RECEIVES,
		.recv_bytes = most(most(r->bytes, r->legs.answer_bytes), LINE_BYTES),
		.inline_bytes = (uint32_t)c->inline_bytes,
		.events = c->events,
		.plain_peer = c->plain,
		.legs = r->legs,
	};

	r->stride = r->bytes + -r->bytes % LINE_BYTES;
	r->slots = c->region_bytes / r->stride;
	if (r->slots == 0)
		r->slots = 1;
	config.region_bytes = r->slots * r->stride;
	r->random = random_stream(random_base(1), 0);
	r->posted = r->completed = 0;
	r->credits = RAWEND_SINK_RECEIVES;
	if (rawend_connect(&r->end, c->device, &c->addr, &config, mode, err) < 0)
		return -1;
	return check_limits(r, err);
}

/* ------------------------------------------------------------------- figures */

/* Of what takes a receive and is not answered: the peer has one.  Without, RC would wait and try
 * again, and UC lose it. */
static int await_credit(struct raw *r, struct err *err)
{
	while (takes_receive(r->op) && !is_message(r->op) && r->posted >= r->credits) {
		uint32_t messages = 0;

		if (take(r, &messages, err) < 0)
			return -1;
		r->credits += (uint64_t)messages * RAWEND_CREDIT;
	}
	return 0;
}

static int one_round_trip(struct raw *r, struct err *err)
{
	bool echoed = is_message(r->op);
	uint32_t messages = 0;

	if (post(r, 1, 1, err) < 0)
		return -1;
	while (r->completed < r->posted || (echoed && messages == 0)) {
		if (take(r, &messages, err) < 0)
			return -1;
	}
	r->credits += (uint64_t)messages * RAWEND_CREDIT;
	return 0;
}

static int measure_latency(struct raw *r, struct raw_figure *figure, struct err *err)
{
	uint64_t deadline = 0, before = 0, now = 0;

	histogram_clear(&figure->latency);
	for (uint64_t i = 0; deadline == 0 || now < deadline; i++) {
		if (await_credit(r, err) < 0)
			return -1;
		before = stopwatch_ns();
		if (one_round_trip(r, err) < 0)
			return -1;
		now = stopwatch_ns();
		if (i == WARMUP)
			deadline = now + (uint64_t)(r->config->seconds * 1e9);
		if (i > WARMUP)
			histogram_record(&figure->latency, now - before);
	}
	return 0;
}

static bool may_post(const struct raw *r)
{
	const struct raw_config *c = r->config;

	if (takes_receive(r->op) && r->posted + c->batch > r->credits)
		return false;
	return r->posted + c->batch <= r->completed + c->depth;
}

static int measure_rate(struct raw *r, struct raw_figure *figure, struct err *err)
{
	const struct raw_config *c = r->config;
	uint64_t begin = stopwatch_ns(), now = begin, end = begin + (uint64_t)(c->seconds * 1e9);

	while (now < end) {
		uint32_t messages = 0;
		while (may_post(r)) {
			if (post(r, c->batch, c->signal, err) < 0)
				return -1;
		}
		if (take(r, &messages, err) < 0)
			return -1;
		r->credits += (uint64_t)messages * RAWEND_CREDIT;
		now = stopwatch_ns();
	}
	figure->per_second = (double)r->completed * 1e9 / (double)(now - begin);
	return 0;
}

/* So many are under way all the time, on the connection of the latencies: another one would have to
 * be made by all of them, who may spin. */
static int measure_exchanges(struct raw *r, struct raw_figure *figure, struct err *err)
{
	const struct raw_config *c = r->config;
	uint32_t depth = c->depth < EXCHANGES_MAX ? c->depth : EXCHANGES_MAX;
	uint64_t begin = stopwatch_ns(), now = begin, end = begin + (uint64_t)(c->seconds * 1e9);
	uint64_t before = r->posted, answered = before;

	while (now < end) {
		uint32_t messages = 0;
		while (r->posted < answered + depth) {
			if (post(r, 1, c->signal, err) < 0)
				return -1;
		}
		if (take(r, &messages, err) < 0)
			return -1;
		answered += messages;
		now = stopwatch_ns();
	}
	figure->per_second = (double)(answered - before) * 1e9 / (double)(now - begin);
	return 0;
}

/* Of an exchange: more may be gone than the peer. */
static int explain(const struct raw *r, int rc, struct err *err)
{
	struct err why = *err;

	if (rc < 0 && r->op == RAW_EXCHANGE)
		err_set(err, -1, "EXCHANGE: %s; one that the peer forwards to may be gone", why.text);
	return rc;
}

static int measure(struct raw *r, struct raw_figure *figure, struct err *err)
{
	int rc;

	figure->transport = r->config->transport;
	figure->op = r->op;
	figure->bytes = r->bytes;
	figure->per_second = NAN;
	rc = raw_connect(r, latency_mode(r->op), err);
	if (rc == 0)
		rc = measure_latency(r, figure, err);
	if (rc == 0 && r->op == RAW_EXCHANGE)
		rc = measure_exchanges(r, figure, err);
	rawend_clear(&r->end);
	if (rc < 0 || r->op == RAW_EXCHANGE)
		return explain(r, rc, err);
	rc = raw_connect(r, takes_receive(r->op) ? RAWEND_SINK : RAWEND_PASSIVE, err);
	if (rc == 0)
		rc = measure_rate(r, figure, err);
	rawend_clear(&r->end);
	return rc;
}

/* Those of an exchange; of others the answer is as long as the message. */
static struct rawend_legs legs_of(const struct raw_config *config, uint64_t bytes)
{
	struct rawend_legs legs = config->legs;

	if (legs.record_bytes == 0)
		legs.record_bytes = bytes;
	if (legs.ack_bytes == 0)
		legs.ack_bytes = bytes;
	if (legs.answer_bytes == 0)
		legs.answer_bytes = bytes;
	return legs;
}

int raw_measure(const struct raw_config *config, enum raw_op op, uint64_t bytes,
		struct raw_figure *figure, struct err *err)
{
	struct raw *r = calloc(1, sizeof *r);
	int rc;

	if (r == NULL)
		return err_set(err, -1, "out of memory");
	r->config = config;
	r->op = op;
	r->bytes = raw_is_atomic(op) ? RAW_ATOMIC_BYTES : bytes;
	if (op == RAW_EXCHANGE)
		r->legs = legs_of(config, bytes);
	rc = measure(r, figure, err);
	free(r);
	return rc;
}
