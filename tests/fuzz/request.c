/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages as a worker of kvd gets them, all of them executed: on a real store, with a
 * queue pair that is none.  An input is a role, then messages: two bytes of length, and
 * as many bytes; each as long as an input of its own would be.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/log.h"
#include "server/access/gate.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/fate.h"
#include "server/worker/news.h"
#include "server/worker/request/request.h"
#include "server/worker/worker_impl.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/fixture.h"

#define TXS 128u /* twice those that stay spare */
#define INPUTS_PER_TABLE 2000u

static struct server server;
static struct worker worker;
static struct fixture fixture;
static uint8_t *memory;
static unsigned replies;

/* What was posted and is not complete: READs of values, signalled SENDs. */
static struct ibv_wc posted[512];
static unsigned posted_count;

/* --------------------------------------------------- in the place of the device */

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

static const struct verbs verbs_none = { .name = "none", .soft = true, .modify_qp = modify_qp };

static void check_send(const struct ibv_send_wr *wr)
{
	const struct wire_reply *reply = (const void *)(uintptr_t)wr->sg_list[0].addr;

	FUZZ_CHECK(wr->num_sge == 1 && wr->sg_list[0].length >= sizeof *reply &&
		   wr->sg_list[0].length <= WIRE_MESSAGE_BYTES_MAX);
	FUZZ_CHECK(reply->op < WIRE_OPS && reply->status < WIRE_STATUSES);
	replies++;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		*bad = wr;
		if (posted_count == sizeof posted / sizeof *posted || qp->state == IBV_QPS_ERR)
			return ENOMEM;
		if (wr->opcode == IBV_WR_SEND)
			check_send(wr);
		else /* a READ's bytes */
			memset((void *)(uintptr_t)wr->sg_list[0].addr, 'v', wr->sg_list[0].length);
		if (wr->send_flags & IBV_SEND_SIGNALED)
			posted[posted_count++] = (struct ibv_wc){ .wr_id = wr->wr_id };
	}
	return 0;
}

static struct ibv_context context = { .ops = { .post_send = post_send } };

static void complete_all(struct conn *c)
{
	for (unsigned i = 0; i < posted_count; i++) {
		struct ibv_wc wc = posted[i];
		c->sendq.used -= wr_count(wc.wr_id) - 1;
		if (c->state == CONN_CLOSING)
			wc.status = IBV_WC_WR_FLUSH_ERR;
		if (wr_kind(wc.wr_id) == WR_TX)
			reply_completed(&worker.tx, wr_ptr(wc.wr_id));
		else
			pull_completed(&worker.pulls, wr_ptr(wc.wr_id), &wc);
		/* That may have posted more, at the end. */
	}
	posted_count = 0;
}

/* -------------------------------------------------------------------- server */

static void new_store(void)
{
	fixture_new(&fixture, 16 << 20, 1);
	server.table = fixture.table;
	server.store = fixture.store;
	worker.tx.store = fixture.store;
	worker.store = fixture.worker[0];
}

static void delete_store(void)
{
	fixture.worker[0] = worker.store;
	fixture_delete(&fixture);
}

static bool knows(struct server *s, uint64_t connection_id)
{
	return connection_id == 1 && s == &server;
}

static size_t stats(const struct server *s, char *buf, size_t buf_bytes)
{
	return (size_t)snprintf(buf, buf_bytes, "{\"connections\":%u}", s->conn_count);
}

static void start(void)
{
	const struct request_parts parts = { .server = &server, .rail = &server.rails[0], .store = &worker.store,
					  .tx = &worker.tx, .owed = &worker.owed,
					  .timings = &worker.timings, .stats = &worker.stats,
					  .rewrites = &worker.rewrites };
	struct err err;

	log_open("fuzz", LOG_LEVEL_ERROR);
	server.verbs = &verbs_none;
	server.hooks = (struct server_hooks){ .knows = knows, .stats = stats };
	server.rails[0].limits = (struct link_limits){ .message_bytes_max = 1 << 20, .atomics = true };
	context.device = calloc(1, sizeof *context.device);
	server.rails[0].ctx = &context;
	FUZZ_CHECK(context.device &&
		   gate_new(&(struct gate_config){ .is_local = true }, &server.gate, &err) == 0);
	server.fates = fates_new();
	server.news = news_new();
	worker.server = &server;
	worker.tx.news = server.news;
	worker.tx.stats = &worker.stats;
	memory = malloc(TXS * WIRE_MESSAGE_BYTES_MAX);
	FUZZ_CHECK(server.fates && server.news && memory);
	pinned_init(&worker.pinned);
	FUZZ_CHECK(rewrites_init(&worker.rewrites, &parts) == 0);
	FUZZ_CHECK(pulls_init(&worker.pulls, &parts) == 0);
	FUZZ_CHECK(tx_init(&worker.tx, TXS, memory, WIRE_MESSAGE_BYTES_MAX) == 0);
	new_store();
}

static void begin(struct conn *c, struct ibv_qp *qp, unsigned role)
{
	*qp = (struct ibv_qp){ .context = &context, .state = IBV_QPS_RTS, .qp_num = 1 };
	*c = (struct conn){ .server = &server, .set = &worker.conns, .qp = qp, .credits = 32,
			    .connection_id = 1, .state = CONN_READY,
			    .sendq = { .conn = c, .qp = qp, .peer = "peer", .connection_id = 1,
				       .slots = 256, .inline_bytes = 256, .has_inline = true } };
	c->handshake.user.role = (enum role)role;
	c->sendq.fate = fate_ring_new(1, c->credits);
	FUZZ_CHECK(c->sendq.fate != NULL);
}

/* A long value that is appended to or touched: in steps, and answered in the end. */
static void finish_rewrites(void)
{
	while (rewrites_waiting(&worker.rewrites))
		rewrites_step(&worker.rewrites);
}

static void end(struct conn *c)
{
	unsigned free_count = 0;

	if (c->state != CONN_CLOSING)
		conn_close(c, "the input is over");
	worker.conns.closing = NULL;
	reply_flush(&worker.tx);
	complete_all(c);
	pulls_retry(&worker.pulls);
	finish_rewrites();
	pinned_end(&worker.pinned, &worker.store, &c->pinned);
	fate_ring_delete(&c->sendq.fate);
	/* Nothing is lost, whatever came. */
	for (struct txbuf *t = worker.tx.free; t; t = t->next)
		free_count++;
	FUZZ_CHECK(free_count == TXS && c->sendq.pulls == 0 && c->sendq.waited == 0);
}

/* A value that was READ is set aside as a small request is, for two seconds at the most. */
static bool waits(const struct conn *c, const uint8_t *message)
{
	const struct wire_request *q = (const void *)message;

	return c->state == CONN_READY && c->sendq.pulls && (q->flags & WIRE_PULL) && !replies;
}

/* One message; as long as it is, and in memory aligned as a receive buffer. */
static void one(struct conn *c, const uint8_t *message, uint32_t bytes)
{
	uint8_t *exact = aligned_alloc(8, bytes ? (bytes + 7u) / 8 * 8 : 8);

	FUZZ_CHECK(exact != NULL);
	memcpy(exact, message, bytes);
	replies = 0;
	bool ready = c->state == CONN_READY;
	enum request_fate fate = request_handle(&worker, c, exact, bytes, NULL);
	reply_flush(&worker.tx);
	complete_all(c);
	pulls_retry(&worker.pulls);
	finish_rewrites();
	reply_flush(&worker.tx);
	complete_all(c);
	/* Answered once, or the end of the connection. */
	FUZZ_CHECK(!ready || fate == REQUEST_ASIDE || waits(c, exact) || replies == 1 ||
		   c->state == CONN_CLOSING);
	if (waits(c, exact))
		conn_close(c, "nobody is there to let its value through");
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };
	static unsigned inputs;
	struct ibv_qp qp;
	struct conn c;

	if (!server.verbs)
		start();
	if (++inputs % INPUTS_PER_TABLE == 0) {
		delete_store();
		new_store();
	}
	begin(&c, &qp, ROLE_READ + (unsigned)fuzz_take(&in, 1) % 3);
	while (in.left && c.state == CONN_READY) {
		size_t n = fuzz_take(&in, 2);
		n = n > in.left ? in.left : n;
		n = n > WIRE_MESSAGE_BYTES_MAX ? WIRE_MESSAGE_BYTES_MAX : n;
		one(&c, in.at, (uint32_t)n);
		in.at += n;
		in.left -= n;
	}
	end(&c);
	return 0;
}
