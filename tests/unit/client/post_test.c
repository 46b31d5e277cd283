/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op/post.c: what a session's work requests are, to the last flag. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/post.h"
#include "client/op/request.h"
#include "tests/lib/end.h"

#define REMOTE 0x12345600u
#define RKEY 55u
#define MOST 64u

static struct end *end;
static struct engine *e;
static struct op *op;

/* What was posted. */
static struct ibv_send_wr posted[MOST];
static struct ibv_sge sges[MOST][SGE_MAX];
static unsigned count;
static int error;

static int post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)to, (void)bad;
	for (; wr && !error; wr = wr->next) {
		assert_true(count < MOST && wr->num_sge > 0 && wr->num_sge <= (int)SGE_MAX);
		memcpy(sges[count], wr->sg_list, (size_t)wr->num_sge * sizeof sges[0][0]);
		posted[count++] = *wr;
	}
	return error;
}

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	e->qp->context->ops.post_send = post_send;
	count = 0;
	error = 0;
	op = op_new(e, &call_class, NULL, 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ops_abort(e);
	end_delete(end);
	return 0;
}

static void flush(unsigned expected)
{
	count = 0;
	assert_int_equal(engine_flush(e), 0);
	assert_int_equal(count, expected);
	assert_int_equal(e->wr_count, 0);
}

static void must_be(unsigned i, enum ibv_wr_opcode opcode, unsigned flags, const void *at, uint32_t bytes)
{
	assert_int_equal(posted[i].opcode, opcode);
	assert_int_equal(posted[i].send_flags, flags);
	assert_int_equal(posted[i].num_sge, 1);
	assert_int_equal(sges[i][0].addr, (uintptr_t)at);
	assert_int_equal(sges[i][0].length, bytes);
	assert_int_equal(sges[i][0].lkey, e->memory_mr->lkey);
}

/* The READs of one step are one doorbell, of which the last one tells; that is one round trip. */
static void test_reads(void **state)
{
	(void)state;
	op_read(op, REMOTE, RKEY, op->memory->item, 100, false);
	op_read(op, REMOTE + 4096, RKEY, op->memory->item + 100, 50, true);
	assert_int_equal(op->reads, 1);
	assert_int_equal(engine_room(e), e->sq_depth - 2);
	flush(2);
	must_be(0, IBV_WR_RDMA_READ, 0, op->memory->item, 100);
	must_be(1, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, op->memory->item + 100, 50);
	assert_int_equal(posted[0].wr.rdma.remote_addr, REMOTE);
	assert_int_equal(posted[1].wr.rdma.remote_addr, REMOTE + 4096);
	assert_int_equal(posted[1].wr.rdma.rkey, RKEY);
	assert_int_equal(posted[0].wr_id, op->index | 1u << 16 | 1u << 17);
	assert_int_equal(posted[1].wr_id, op->index | 1u << 16 | 2u << 17);
	assert_int_equal(e->counters.reads, 2);
	assert_int_equal(e->counters.read_bytes, 150);
	assert_int_equal(e->counters.round_trips, 1);
	assert_int_equal(e->counters.doorbells, 1);
	/* Two at once are one. */
	op_read(op, REMOTE, RKEY, op->memory->item, 1, true);
	assert_int_equal(op->reads, 2);
	assert_int_equal(e->counters.round_trips, 1);
	op->reads = 0;
	e->wr_count = 0;
	flush(0);
	assert_int_equal(e->counters.doorbells, 1);
}

static void test_swap(void **state)
{
	(void)state;
	op_cas(op, REMOTE, RKEY, 7, 8);
	flush(1);
	must_be(0, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_SEND_SIGNALED, op->memory->small, 8);
	assert_int_equal(posted[0].wr.atomic.remote_addr, REMOTE);
	assert_int_equal(posted[0].wr.atomic.rkey, RKEY);
	assert_int_equal(posted[0].wr.atomic.compare_add, 7);
	assert_int_equal(posted[0].wr.atomic.swap, 8);
	assert_int_equal(op->reads, 1);
	assert_int_equal(e->counters.atomics, 1);
	op->reads = 0;
}

/* A READ of nobody's operation. */
static void test_engine_reads(void **state)
{
	(void)state;
	e->table.welcome.table_rkey = RKEY;
	engine_read(e, 0xffff, REMOTE, e->look, 24);
	flush(1);
	must_be(0, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, e->look, 24);
	assert_int_equal(posted[0].wr.rdma.remote_addr, REMOTE);
	assert_int_equal(posted[0].wr.rdma.rkey, RKEY);
	assert_int_equal(posted[0].wr_id, 0xffff | 1u << 17);
	assert_int_equal(e->counters.reads, 1);
	assert_int_equal(e->counters.read_bytes, 24);
}

/* Short messages go with their request, and one of sixteen tells. */
static void test_sends(void **state)
{
	(void)state;
	e->inline_bytes = 100;
	for (unsigned i = 0; i < 33; i++)
		op_send(op, i % 2 ? 100 : 101, false);
	flush(33);
	for (unsigned i = 0; i < 33; i++)
		must_be(i, IBV_WR_SEND, (i % 2 ? IBV_SEND_INLINE : 0) |
			(i % 16 == 15 ? IBV_SEND_SIGNALED : 0), op->memory->message, i % 2 ? 100 : 101);
	assert_int_equal(op->reads, 0);
	assert_int_equal(e->counters.messages, 33);
	assert_int_equal(e->counters.message_bytes, 16 * 100 + 17 * 101);
	/* What tells by itself counts, too. */
	op_read(op, REMOTE, RKEY, op->memory->item, 1, true);
	for (unsigned i = 0; i < 16; i++)
		op_send(op, 10, false);
	flush(17);
	for (unsigned i = 1; i < 17; i++)
		assert_int_equal(posted[i].send_flags & IBV_SEND_SIGNALED, i == 16 ? IBV_SEND_SIGNALED : 0);
	op->reads = 0;
}

/* A value in registered memory is gathered, and its SEND is waited for. */
static void test_gathers(void **state)
{
	static char value[600];
	const struct iovec iov[] = { { value, 200 }, { value + 300, 300 } };

	(void)state;
	assert_int_equal(buffers_add(e->registrar.buffers, e->registrar.verbs, (uintptr_t)value,
				     sizeof value), 0);
	assert_int_equal(op_set_value(op, iov, 2), 0);
	assert_true(pieces_find(&op->value, &e->registrar));
	e->inline_bytes = 579;
	op_send(op, 80, true);
	e->inline_bytes = 580;
	op_send(op, 80, true);
	flush(2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(posted[i].opcode, IBV_WR_SEND);
		assert_int_equal(posted[i].send_flags, IBV_SEND_SIGNALED | (i ? IBV_SEND_INLINE : 0));
		assert_int_equal(posted[i].num_sge, 3);
		assert_int_equal(sges[i][0].addr, (uintptr_t)op->memory->message);
		assert_int_equal(sges[i][0].length, 80);
		assert_int_equal(sges[i][1].addr, (uintptr_t)value);
		assert_int_equal(sges[i][1].length, 200);
		assert_int_equal(sges[i][2].addr, (uintptr_t)value + 300);
		assert_int_equal(sges[i][2].length, 300);
	}
	assert_int_equal(op->reads, 2);
	assert_int_equal(e->counters.message_bytes, 2 * 580);
	op->reads = 0;
	buffers_remove(e->registrar.buffers, e->registrar.verbs, (uintptr_t)value);
}

/* An item: its head into the operation's memory, its value where the caller wants it. */
/* One of more pieces than a work request has room for is copied, as is a short one. */
static void test_what_is_gathered(void **state)
{
	static char value[2048];
	struct iovec iov[SGE_MAX + 1];
	unsigned most;

	(void)state;
	most = e->sge_max - 1; /* the first one is the message */
	assert_in_range(most, 2, SGE_MAX - 1);
	assert_int_equal(buffers_add(e->registrar.buffers, e->registrar.verbs, (uintptr_t)value,
				     sizeof value), 0);
	for (unsigned i = 0; i < 3; i++) {
		unsigned pieces = i == 1 ? most + 1 : most;
		uint64_t before = e->counters.copied_bytes;

		for (unsigned k = 0; k < pieces; k++)
			iov[k] = (struct iovec){ value + 10 * k, 1 };
		iov[0].iov_len = 512 - (pieces - 1) - (i == 2);
		op->key_bytes = 0;
		assert_int_equal(request_start(op, &(struct wire_request){ .op = WIRE_PUT }, iov, (int)pieces),
				 0);
		flush(1);
		assert_int_equal(posted[0].num_sge, i ? 1 : pieces + 1);
		assert_int_equal(sges[0][0].length, sizeof(struct wire_request) + (i ? 512 - (i == 2) : 0));
		assert_int_equal(e->counters.copied_bytes - before, i ? 512 - (i == 2) : 0);
		op->reads = 0;
		count = 0;
		pieces_release(&op->value, e->registrar.verbs);
	}
	buffers_remove(e->registrar.buffers, e->registrar.verbs, (uintptr_t)value);
}

static void test_items(void **state)
{
	static const struct {
		uint64_t from;
		uint32_t bytes;
		unsigned head, value; /* so much of each, from there on */
	} cases[] = {
		{ 0, 300, 64, 236 }, { 0, 64, 64, 0 }, { 0, 30, 30, 0 }, { 10, 300, 54, 246 },
		{ 64, 300, 0, 300 }, { 100, 50, 0, 50 }, { 0, 65, 64, 1 },
	};
	static char value[600];

	(void)state;
	assert_int_equal(op_set_value(op, &(struct iovec){ value, sizeof value }, 1), 0);
	assert_int_equal(pieces_register(&op->value, &e->registrar, IBV_ACCESS_LOCAL_WRITE), 0);
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		unsigned n = 0;

		assert_int_equal(op_read_item(op, REMOTE, RKEY, cases[i].from, 64, cases[i].bytes),
				 cases[i].bytes);
		flush(1);
		assert_int_equal(posted[0].opcode, IBV_WR_RDMA_READ);
		assert_int_equal(posted[0].send_flags, IBV_SEND_SIGNALED);
		assert_int_equal(posted[0].wr.rdma.remote_addr, REMOTE);
		assert_int_equal(posted[0].num_sge, !!cases[i].head + !!cases[i].value);
		if (cases[i].head) {
			assert_int_equal(sges[0][n].addr, (uintptr_t)op->memory->item + cases[i].from);
			assert_int_equal(sges[0][n++].length, cases[i].head);
		}
		if (cases[i].value) {
			uint64_t at = cases[i].from > 64 ? cases[i].from - 64 : 0;

			assert_int_equal(sges[0][n].addr, (uintptr_t)value + at);
			assert_int_equal(sges[0][n].length, cases[i].value);
		}
		op->reads = 0;
	}
}

static void test_cannot_post(void **state)
{
	(void)state;
	op_send(op, 10, false);
	error = ENOMEM;
	assert_int_equal(engine_flush(e), KVD_ECONNECT);
	assert_string_equal(e->health.err.text, "posting to here failed: Cannot allocate memory");
	/* Nor where there is no connection. */
	error = 0;
	op_send(op, 10, false);
	assert_int_equal(engine_flush(e), KVD_ECONNECT);
	assert_int_equal(count, 0);
	assert_int_equal(e->wr_count, 0);
	assert_int_equal(e->counters.doorbells, 1);
	e->health.broken = e->health.connected = false;
	op_send(op, 10, false);
	engine_flush(e);
	assert_int_equal(count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_reads),
		TEST(test_swap),
		TEST(test_engine_reads),
		TEST(test_sends),
		TEST(test_gathers),
		TEST(test_what_is_gathered),
		TEST(test_items),
		TEST(test_cannot_post),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
