/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer -- a peer of kvd that does not keep to the protocol.
 *
 *	peer ADDR:PORT CASE [ROUNDS [SEED]]
 *
 * Exits with 0 if kvd took it as it should, 1 with a sentence if not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/layout.h"
#include "tests/integration/peer_conn.h"

/* --------------------------------------------------------------------- cases */

static void refused_for(struct peer *p, const void *data, uint8_t bytes, enum wire_refusal why)
{
	peer_check(peer_connect_with(p, data, bytes) == RDMA_CM_EVENT_REJECTED, "kvd doesn't refuse");
	peer_check(p->accept.magic == WIRE_MAGIC && p->accept.refusal == why,
	      "kvd refuses for another reason");
	peer_hang_up(p);
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

	peer_fill(p, noise, sizeof noise);
	refused_for(p, noise, sizeof noise, WIRE_REFUSED_MAGIC);
}

static void case_silent(struct peer *p)
{
	peer_connect(p);
	peer_hang_up(p);
}

/* Anything but a hello to begin with. */
static void case_garbage(struct peer *p)
{
	struct wire_reply reply;
	uint32_t bytes = (uint32_t)(peer_random(p) % (WIRE_MESSAGE_BYTES_MAX + 1));

	peer_connect(p);
	peer_fill(p, p->send, bytes);
	if (peer_random(p) & 1)
		p->send[offsetof(struct wire_request, op)] = (uint8_t)(peer_random(p) % WIRE_OPS);
	if (p->send[offsetof(struct wire_request, op)] == WIRE_HELLO)
		p->send[offsetof(struct wire_request, op)] = WIRE_PUT;
	if (peer_call(p, bytes, &reply))
		peer_check(reply.status != WIRE_OK, "kvd takes orders before the hello");
	peer_hang_up(p);
}

static void case_too_long(struct peer *p)
{
	struct wire_reply reply;

	peer_connect(p);
	peer_hello(p);
	peer_fill(p, p->send, SEND_BYTES_MAX);
	peer_check(!peer_call(p, SEND_BYTES_MAX, &reply), "kvd answers a message that is too long");
	peer_hang_up(p);
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
	struct wire_request r = { .request_id = (uint32_t)peer_random(p) };
	uint64_t value = odd[peer_random(p) % (sizeof odd / sizeof *odd)];
	char key[16] = "peer";
	uint32_t bytes;

	r.op = ops[peer_random(p) % sizeof ops];
	r.key_bytes = 5;
	key[4] = (char)('a' + peer_random(p) % 8);
	r.value_bytes = peer_random(p) % 100;
	r.flags = peer_random(p) % 4 ? 0 : (uint8_t)peer_random(p);
	bytes = (uint32_t)(sizeof r + r.key_bytes + r.value_bytes);
	switch (peer_random(p) % 8) {
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
		bytes = (uint32_t)(peer_random(p) % (WIRE_MESSAGE_BYTES_MAX + 1));
		break;
	case 6:
		r.flags = WIRE_PULL;
		r.value_bytes = peer_random(p) % 2 ? value : 100000;
		r.segments = peer_random(p) % 4 ? 1 : (uint32_t)(peer_random(p) % 18);
		bytes = (uint32_t)(sizeof r + 5 + r.segments * sizeof(struct wire_segment));
		break;
	}
	peer_fill(p, p->send, sizeof r + 600);
	peer_put_request(p, &r, key, 5);
	/* Half the time the first segment's length is the value's. */
	if (r.segments && peer_random(p) % 2)
		memcpy(p->send + sizeof r + 5 + offsetof(struct wire_segment, bytes),
		       &r.value_bytes, sizeof r.value_bytes);
	return bytes;
}

static void case_mutants(struct peer *p)
{
	struct wire_reply reply;

	peer_connect(p);
	peer_hello(p);
	for (unsigned i = 0; i < 50; i++) {
		if (!peer_call(p, make_mutant(p), &reply))
			break;
		peer_check(reply.status < WIRE_STATUSES, "a status that is none");
	}
	peer_hang_up(p);
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
	peer_check(peer_send(p, &wr, 8) == 0, "can't post");
	return peer_completion(p, &wc) ? wc.status : IBV_WC_FATAL_ERR;
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

	peer_connect(p);
	if (t->hello) {
		peer_hello(p);
		learnt = p->welcome;
	}
	start = t->lock ? learnt.lock_addr : learnt.table_addr;
	bytes = t->lock ? learnt.stripes * 8 : learnt.table_bytes;
	status = reach(p, t->opcode, start + (t->offset < 0 ? bytes + (uint64_t)t->offset
							    : (uint64_t)t->offset),
		       t->lock ? learnt.lock_rkey : learnt.table_rkey);
	peer_check((status == IBV_WC_SUCCESS) == t->allowed, t->allowed ? "a right that is given fails"
								   : "kvd's memory can be reached");
	peer_hang_up(p);
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
	peer_check(peer_send(p, &wr, 8) == 0 && peer_completion(p, &wc) && wc.status == IBV_WC_SUCCESS,
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
	peer_check(was == 0, "the victim's lock is not free");
}

static void meet(struct peer *p)
{
	peer_connect(p);
	peer_hello(p);
}

static void case_forge_garbage(struct peer *p)
{
	meet(p);
	forge(p, peer_random(p) | 1);
	peer_hang_up(p);
}

/* Whoever connected before: it is there, and holds nothing of the kind. */
static void case_forge_other(struct peer *p)
{
	meet(p);
	forge(p, layout_token(p->welcome.connection_id - 1, 1 + peer_random(p) % 1000));
	peer_hang_up(p);
}

/* The very token of who holds "innocent". */
static void case_forge_copy(struct peer *p)
{
	meet(p);
	uint64_t word = on_word(p, IBV_WR_RDMA_READ, stripe_of(p, "innocent"), 0, 0);
	peer_check(word != 0, "nobody holds the lock that is to be copied");
	forge(p, word & ~LAYOUT_LOCK_WAIT);
	peer_hang_up(p);
}

/* Holds the lock for as long as it is let. */
static void case_squat(struct peer *p)
{
	struct ibv_wc wc;

	meet(p);
	uint64_t token = layout_token(p->welcome.connection_id, 1);

	p->held[0] = (struct layout_held){ .token = token, .stripe = stripe_of(p, "victim") };
	forge(p, token);
	while (peer_completion(p, &wc) && wc.status == IBV_WC_SUCCESS)
		;
	peer_hang_up(p);
}

static enum wire_status ask(struct peer *p, struct wire_request request, bool *answered)
{
	struct wire_reply reply = { .status = WIRE_STATUSES };

	request.request_id = (uint32_t)peer_random(p);
	*answered = peer_call(p, peer_put_request(p, &request, "victim", request.key_bytes), &reply);
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
	peer_check(answered && status == WIRE_EINVALID, "a wait for a lock that is none");
	status = ask(p, (struct wire_request){ .op = WIRE_UNLOCK, .version = stripe_of(p, "victim"),
					       .token = own }, &answered);
	peer_check(answered && status == WIRE_OK, "an unlock of what it does not hold");
	/* Under a lock that it does not hold: kept waiting, then refused. */
	status = ask(p, (struct wire_request){ .op = WIRE_DELETE, .key_bytes = 6, .token = own },
		     &answered);
	peer_check(answered && status == WIRE_EBUSY, "a change under no lock");
	ask(p, (struct wire_request){ .op = WIRE_DELETE, .key_bytes = 6,
				      .token = layout_token(p->welcome.connection_id - 1, 7) },
	    &answered);
	peer_check(!answered, "a change with somebody else's token");
	peer_hang_up(p);
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
	peer_check(peer_send(p, &wr, peer_put_request(p, &q, "", 0)) == 0 && peer_completion(p, &wc) &&
	      wc.status == IBV_WC_SUCCESS, "can't send");
	peer_hang_up(p);
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
