/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * saturation.c -- more than a worker can do, by peers that keep to their credits: many
 * list keys, some send pings and GETs by message as fast as they are answered, two send as
 * many as they may and take no reply until the end.
 *
 * One thread drives all connections.  Each remembers which of its requests are outstanding:
 * each must be answered exactly once.  It is nice to the threads that are measured beside
 * it: on machines of their own these peers would not take their processors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/attack/attack.h"

#define LISTERS 40u
#define FLOODS 2u
#define MUTES 2u
#define PEERS (LISTERS + FLOODS + MUTES)
#define OUTSTANDING_MAX 32u
#define END_MS 30000
#define REQUEST_BYTES (sizeof(struct wire_request) + 16)

struct peer {
	struct raw_conn c;
	enum { LISTS, FLOODS_IT, MUTE } kind;
	uint8_t *memory; /* what it sends, and what it receives: OUTSTANDING_MAX of each */
	struct ibv_mr *mr;
	uint32_t next_id;
	uint32_t asked[OUTSTANDING_MAX]; /* request ids, 0: none */
	uint64_t cursor;
	unsigned credits, outstanding;
	uint64_t sent, answered;
};

static struct peer peers[PEERS];

/* ------------------------------------------------------------------- one peer */

static uint8_t *recv_place(struct peer *p, unsigned i)
{
	return p->memory + OUTSTANDING_MAX * REQUEST_BYTES + i * WIRE_MESSAGE_BYTES_MAX;
}

static void post_receive(struct peer *p, unsigned i)
{
	struct ibv_sge sge = { (uintptr_t)recv_place(p, i), WIRE_MESSAGE_BYTES_MAX, p->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(p->c.qp, &wr, &bad))
		raw_die("can't post a receive");
}

static void make_request(struct peer *p, unsigned place, uint32_t id)
{
	struct wire_request q = { .request_id = id, .op = WIRE_PING };
	uint8_t *message = p->memory + place * REQUEST_BYTES;

	if (p->kind == LISTS) {
		q.op = WIRE_KEYS;
		q.version = p->cursor;
	} else if (id % 2) {
		q.op = WIRE_GET;
		q.key_bytes = 3;
		memcpy(message + sizeof q, "key", 3);
	}
	memcpy(message, &q, sizeof q);
}

/* The place of a request is free once it is answered: its SEND is over then, too. */
static void ask(struct peer *p, unsigned place)
{
	uint32_t id = ++p->next_id;

	make_request(p, place, id);
	struct ibv_sge sge = { (uintptr_t)p->memory + place * REQUEST_BYTES,
			       (uint32_t)(sizeof(struct wire_request) +
					  (p->kind != LISTS && id % 2 ? 3 : 0)),
			       p->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = OUTSTANDING_MAX, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = id % 16 ? 0 : IBV_SEND_SIGNALED }, *bad;
	if (ibv_post_send(p->c.qp, &wr, &bad))
		raw_die("can't send a request");
	p->asked[place] = id;
	p->outstanding++;
	p->sent++;
}

/* The place that is free now. */
static unsigned answered(struct peer *p, const uint8_t *message, uint32_t bytes)
{
	struct wire_reply reply;

	if (bytes < sizeof reply)
		raw_die("a reply is too short");
	memcpy(&reply, message, sizeof reply);
	for (unsigned i = 0; i < p->credits; i++) {
		if (!p->asked[i] || p->asked[i] != reply.request_id)
			continue;
		if (reply.status != WIRE_OK)
			raw_die("a request of a peer that keeps to its credits is refused");
		p->asked[i] = 0;
		p->outstanding--;
		p->answered++;
		p->cursor = reply.version;
		return i;
	}
	raw_die("a reply that nobody waits for, or a second one");
}

/* Takes what came; asks again for each answer if it is to go on. */
static unsigned take(struct peer *p, bool go_on)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(p->c.cq, 16, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "attack: %s, of peer %u of kind %d with %u outstanding\n",
				ibv_wc_status_str(wc[i].status), (unsigned)(p - peers), p->kind,
				p->outstanding);
			exit(1);
		}
		if (wc[i].wr_id >= OUTSTANDING_MAX)
			continue;
		unsigned place = answered(p, recv_place(p, (unsigned)wc[i].wr_id), wc[i].byte_len);
		post_receive(p, (unsigned)wc[i].wr_id);
		if (go_on)
			ask(p, place);
	}
	return n > 0 ? (unsigned)n : 0;
}

/* ------------------------------------------------------------------ all peers */

static void enter(struct raw *raw, struct peer *p, const struct credentials *who)
{
	size_t bytes = OUTSTANDING_MAX * (REQUEST_BYTES + WIRE_MESSAGE_BYTES_MAX);
	struct wire_request ping = { .request_id = 1, .op = WIRE_PING };
	struct ibv_wc wc;

	raw->recvs = 2; /* of the hello and the ping: nothing of them is left then */
	raw_enter(raw, &p->c, who);
	p->memory = calloc(1, bytes);
	p->mr = p->memory ? raw->v->reg_mr(raw->pd, p->memory, bytes, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!p->mr)
		raw_die("can't register memory");
	p->credits = p->kind == LISTS ? 1 : p->c.welcome.credits;
	if (p->credits > OUTSTANDING_MAX)
		p->credits = OUTSTANDING_MAX;
	for (unsigned left = 2; left;) {
		if (!raw_send(&p->c, &ping, sizeof ping))
			raw_die("no ping");
		for (bool is_reply = false; !is_reply; left -= is_reply) {
			if (!raw_completion(&p->c, &wc, 20000) || wc.status != IBV_WC_SUCCESS)
				raw_die("no answer to a ping");
			is_reply = wc.opcode & IBV_WC_RECV;
		}
	}
	if (p->kind != MUTE)
		for (unsigned i = 0; i < OUTSTANDING_MAX; i++)
			post_receive(p, i);
}

static void begin(struct peer *p)
{
	for (unsigned i = 0; i < p->credits; i++)
		ask(p, i);
}

static uint64_t outstanding(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < PEERS; i++)
		n += peers[i].outstanding;
	return n;
}

/* Those that were mute make room now, and whatever is outstanding comes. */
static void take_all(void)
{
	uint64_t end = raw_now_ms() + END_MS;

	for (unsigned i = LISTERS + FLOODS; i < PEERS; i++)
		for (unsigned k = 0; k < peers[i].credits; k++)
			post_receive(&peers[i], k);
	while (outstanding() && raw_now_ms() < end)
		for (unsigned i = 0; i < PEERS; i++)
			take(&peers[i], false);
	if (!outstanding())
		return;
	for (unsigned i = 0; i < PEERS; i++)
		if (peers[i].outstanding)
			fprintf(stderr, "attack: peer %u of kind %d: %u of %llu requests unanswered\n", i,
				peers[i].kind, peers[i].outstanding, (unsigned long long)peers[i].sent);
	exit(1);
}

static void tell(void)
{
	uint64_t sent[3] = { 0 };

	for (unsigned i = 0; i < PEERS; i++)
		sent[peers[i].kind] += peers[i].answered;
	printf("answered: %llu pages of keys, %llu pings and GETs, %llu of mute peers\n",
	       (unsigned long long)sent[LISTS], (unsigned long long)sent[FLOODS_IT],
	       (unsigned long long)sent[MUTE]);
}

/* Until the file `end` is there, or a minute is over; tells with a line when it is at it. */
void attack_saturate(struct raw *raw, const char *name, const char *end)
{
	struct credentials who = attack_load(name);
	uint64_t limit = raw_now_ms() + 60000;

	for (unsigned i = 0; i < PEERS; i++) {
		peers[i].kind = i < LISTERS ? LISTS : i < LISTERS + FLOODS ? FLOODS_IT : MUTE;
		enter(raw, &peers[i], &who);
	}
	setpriority(PRIO_PROCESS, 0, 19);
	for (unsigned i = 0; i < PEERS; i++)
		begin(&peers[i]);
	puts("saturated");
	fflush(stdout);
	for (unsigned round = 0; access(end, F_OK) && raw_now_ms() < limit; round++)
		for (unsigned n = 0; n < 50; n++)
			for (unsigned i = 0; i < LISTERS + FLOODS; i++)
				take(&peers[i], true);
	take_all();
	tell();
	for (unsigned i = 0; i < PEERS; i++)
		raw_hang_up(&peers[i].c);
}
