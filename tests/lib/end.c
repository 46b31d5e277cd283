/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/end.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/get.h"
#include "client/op/hints.h"
#include "client/op/operation.h"
#include "client/op/poll.h"
#include "client/op/request.h"

#define COMPLETIONS_MAX 256u
#define RX_COUNT (END_DEPTH + 1)
#define LKEY 77u

/* One at a time: what the device's functions find it by. */
static struct end *now;
static struct ibv_context context;
static struct ibv_pd domain;
static struct ibv_cq cq;
static struct ibv_qp qp;
static struct ibv_wc done[COMPLETIONS_MAX];
static unsigned done_count;
static struct ibv_sge recvs[RX_COUNT];
static uint64_t recv_ids[RX_COUNT];
static unsigned recv_count;
static struct get *gets;
static void *memory;

/* ------------------------------------------------------------------- device */

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof *mr);

	(void)access;
	assert_non_null(mr);
	*mr = (struct ibv_mr){ .addr = addr, .length = bytes, .lkey = LKEY, .rkey = pd ? pd->handle : 0 };
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

static int get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel, (void)event;
	errno = EAGAIN;
	return -1;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **of, void **of_context)
{
	(void)channel, (void)of, (void)of_context;
	errno = EAGAIN;
	return -1;
}

/* There is no other connection. */
static struct rdma_event_channel *create_event_channel(void)
{
	errno = ENODEV;
	return NULL;
}

static void destroy_event_channel(struct rdma_event_channel *channel)
{
	(void)channel;
}

static int disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

static int destroy_qp(struct ibv_qp *of)
{
	(void)of;
	return 0;
}

static int destroy_cq(struct ibv_cq *of)
{
	(void)of;
	done_count = 0;
	return 0;
}

static void ack_cq_events(struct ibv_cq *of, unsigned n)
{
	(void)of, (void)n;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	(void)channel;
	return 0;
}

static int query_port(struct ibv_context *of, uint8_t number, struct ibv_port_attr *attr)
{
	(void)of, (void)number;
	attr->state = now->port_is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	return 0;
}

static const struct verbs verbs_end = {
	.name = "end",
	.soft = true,
	.query_port = query_port,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.get_cm_event = get_cm_event,
	.get_cq_event = get_cq_event,
	.create_event_channel = create_event_channel,
	.destroy_event_channel = destroy_event_channel,
	.disconnect = disconnect,
	.destroy_qp = destroy_qp,
	.destroy_cq = destroy_cq,
	.ack_cq_events = ack_cq_events,
	.destroy_comp_channel = destroy_comp_channel,
};

static void complete(struct ibv_wc wc)
{
	assert_true(done_count < COMPLETIONS_MAX);
	done[done_count++] = wc;
}

static void read_remote(const struct ibv_send_wr *wr)
{
	const uint8_t *base = now->bytes->base;
	uint64_t at = wr->wr.rdma.remote_addr - (uintptr_t)base;

	now->reads++;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *to = &wr->sg_list[i];
		assert_int_equal(to->lkey, LKEY);
		assert_true(at + to->length <= BYTES_ALL);
		now->read_to = (void *)(uintptr_t)to->addr;
		memcpy((void *)(uintptr_t)to->addr, base + at, to->length);
		at += to->length;
	}
}

static void swap(const struct ibv_send_wr *wr)
{
	uint64_t *word = (uint64_t *)(uintptr_t)wr->wr.atomic.remote_addr, was = *word;

	assert_true(word >= now->words && word < now->words + BYTES_STRIPES);
	memcpy((void *)(uintptr_t)wr->sg_list[0].addr, &was, sizeof was);
	if (was == wr->wr.atomic.compare_add)
		*word = wr->wr.atomic.swap;
}

static void take_message(const struct ibv_send_wr *wr)
{
	const uint8_t *message = (const void *)(uintptr_t)wr->sg_list[0].addr;
	size_t bytes = wr->sg_list[0].length - sizeof now->asked;

	memcpy(&now->asked, message, sizeof now->asked);
	memcpy(now->behind, message + sizeof now->asked,
	       bytes < sizeof now->behind ? bytes : sizeof now->behind);
	now->messages++;
	if (now->answer)
		now->answer(now, &now->asked);
}

static int post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)to, (void)bad;
	for (; wr; wr = wr->next) {
		if (wr->opcode == IBV_WR_RDMA_READ)
			read_remote(wr);
		else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
			swap(wr);
		else
			take_message(wr);
		if (wr->send_flags & IBV_SEND_SIGNALED && !now->is_hung)
			complete((struct ibv_wc){ .wr_id = wr->wr_id, .status = now->status });
	}
	return 0;
}

static int post_recv(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)to, (void)bad;
	for (; wr; wr = wr->next) {
		assert_true(recv_count < RX_COUNT);
		recv_ids[recv_count] = wr->wr_id;
		recvs[recv_count++] = wr->sg_list[0];
	}
	return 0;
}

static int poll_cq(struct ibv_cq *from, int max, struct ibv_wc *wc)
{
	unsigned n = done_count < (unsigned)max ? done_count : (unsigned)max;

	(void)from;
	if (n && now->delay) {
		now->delay--;
		return 0;
	}
	memcpy(wc, done, n * sizeof *wc);
	memmove(done, done + n, (done_count - n) * sizeof *wc);
	done_count -= n;
	return (int)n;
}

static int req_notify_cq(struct ibv_cq *of, int solicited)
{
	(void)of, (void)solicited;
	return now->notify_error;
}

void end_reply(struct end *end, struct wire_reply reply, const void *payload, size_t bytes)
{
	uint8_t *to = (uint8_t *)(uintptr_t)recvs[0].addr;

	assert_true(recv_count && sizeof reply + bytes <= recvs[0].length);
	reply.request_id = end->asked.request_id;
	reply.op = end->asked.op;
	memcpy(to, &reply, sizeof reply);
	if (bytes)
		memcpy(to + sizeof reply, payload, bytes);
	complete((struct ibv_wc){ .wr_id = recv_ids[0],
				  .byte_len = (uint32_t)(sizeof reply + bytes) });
	recv_count--;
	memmove(recvs, recvs + 1, recv_count * sizeof recvs[0]);
	memmove(recv_ids, recv_ids + 1, recv_count * sizeof recv_ids[0]);
}

/* ------------------------------------------------------------- begin and end */

static void set_engine(struct end *end)
{
	struct engine *e = end->engine;
	static struct rdma_event_channel channel;
	static struct ibv_comp_channel comp;

	e->options = &end->client.options;
	e->health = (struct health){ .connected = true,
				     .peer = "here",
				     .user = "they",
				     .role = "role",
				     .verbs = &verbs_end,
				     .ctx = &context,
				     .port = 1 };
	e->time = (struct call_time){ .limit_ns = 5000000000ull };
	e->table = end->bytes->table;
	e->table.welcome.table_addr = (uintptr_t)end->bytes->base;
	e->table.welcome.lock_addr = (uintptr_t)end->words;
	e->table.welcome.stripes = BYTES_STRIPES;
	e->registrar = (struct registrar){ .verbs = &verbs_end, .pd = &domain, .buffers = buffers_new() };
	assert_int_equal(buffers_join(e->registrar.buffers, &verbs_end, 0, &domain), 0);
	e->event_fd = e->timer_fd = -1;
	channel.fd = comp.fd = -1;
	e->channel = &channel;
	e->comp = &comp;
	e->cq = &cq;
	e->qp = &qp;
	e->message_bytes_max = 1u << 14;
	e->sge_max = SGE_MAX;
	e->sq_depth = 64;
	e->depth = END_DEPTH;
	e->rx_count = RX_COUNT;
	e->wr = calloc(e->sq_depth, sizeof *e->wr);
	e->sge = calloc(e->sq_depth * SGE_MAX, sizeof *e->sge);
	e->memory_mr = reg_mr(NULL, memory, 1, 0);
	e->rx = (uint8_t *)memory + END_DEPTH * sizeof(struct op_memory);
	e->look = (struct layout_lease *)(e->rx + RX_COUNT * RX_STRIDE_BYTES);
	e->held.page = calloc(LAYOUT_HELD_MAX, sizeof *e->held.page);
	spin_init(&e->spin);
	assert_true(e->wr && e->sge && e->held.page && ops_new(e, memory));
	gets = gets_new(e);
	assert_non_null(gets);
}

struct end *end_new(void)
{
	struct end *end = calloc(1, sizeof *end);

	assert_non_null(end);
	now = end;
	end->engine = &end->session.engine;
	end->session.client = &end->client;
	end->bytes = bytes_new();
	done_count = recv_count = 0;
	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	context.ops.poll_cq = poll_cq;
	context.ops.req_notify_cq = req_notify_cq;
	qp.context = cq.context = &context;
	memory = calloc(1, END_DEPTH * sizeof(struct op_memory) + RX_COUNT * RX_STRIDE_BYTES +
				   sizeof(struct layout_lease));
	assert_non_null(memory);
	set_engine(end);
	for (unsigned i = 0; i < RX_COUNT; i++) {
		recv_ids[i] = i;
		recvs[i] = (struct ibv_sge){ (uintptr_t)(end->engine->rx + i * RX_STRIDE_BYTES),
					     WIRE_MESSAGE_BYTES_MAX, LKEY };
	}
	recv_count = RX_COUNT;
	return end;
}

void end_delete(struct end *end)
{
	struct engine *e = end->engine;

	hints_delete(e->hints);
	ops_delete(e);
	free(gets);
	free(e->wr);
	free(e->sge);
	free(e->held.page);
	dereg_mr(e->memory_mr);
	buffers_delete(e->registrar.buffers);
	free(memory);
	bytes_delete(end->bytes);
	free(end);
}

struct op *end_change(struct end *end, const char *key, void *tag)
{
	const struct wire_request q = { .op = WIRE_DELETE };
	struct op *op = op_new(end->engine, &change_class, key, strlen(key));

	op_set_tag(op, tag);
	if (request_start(op, &q, NULL, 0))
		abort();
	return op;
}

const struct outcome *end_run(struct end *end, struct op *op)
{
	if (engine_await(end->engine, op, NULL))
		ops_abort(end->engine);
	ops_forget_done(end->engine);
	op_free(op);
	return op_outcome(op);
}
