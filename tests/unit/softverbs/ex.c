/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended verbs: requests built call by call, completions read field by
 * field, attributes.  One process, its queue pair connected to itself.
 */
#include "tests/unit/softverbs/ud.h"

#define OPS                                                                                 \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |      \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |               \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
#define SEND_WR 4
#define INLINE_BYTES 64

struct ex {
	struct kit k;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
};

static struct ibv_qp *make_qp(struct ex *e, uint64_t ops, uint32_t mask)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(e->cq), .recv_cq = ibv_cq_ex_to_cq(e->cq),
		.qp_type = IBV_QPT_RC, .comp_mask = mask, .pd = e->k.pd, .send_ops_flags = ops,
		.cap = { .max_send_wr = SEND_WR, .max_recv_wr = 8, .max_send_sge = 2,
			 .max_recv_sge = 1, .max_inline_data = INLINE_BYTES },
	};

	return ibv_create_qp_ex(e->k.ctx, &init);
}

static void open_ex(struct ex *e)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};

	kit_open(&e->k, &kit_defaults, -1);
	e->cq = ibv_create_cq_ex(e->k.ctx, &init);
	CHECK(e->cq);
	e->qp = make_qp(e, OPS, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
	CHECK(e->qp);
	e->qpx = sv_qp_to_qp_ex(e->qp);
	CHECK(e->qpx && !sv_qp_to_qp_ex(e->k.qp));
	kit_to_init(&e->k, e->qp);
	kit_to_rts(&e->k, e->qp, e->qp->qp_num);
}

static void close_ex(struct ex *e)
{
	CHECK(!sv_destroy_qp(e->qp));
	CHECK(!sv_destroy_cq(ibv_cq_ex_to_cq(e->cq)));
	kit_close(&e->k);
}

/* The next completion is this one. */
static void expect(struct ex *e, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;
	int ret;

	while ((ret = ibv_start_poll(e->cq, &attr)) == ENOENT)
		CHECK(kit_now_ns() < until);
	CHECK(!ret);
	CHECK(e->cq->wr_id == wr_id && e->cq->status == IBV_WC_SUCCESS);
	CHECK(ibv_wc_read_opcode(e->cq) == opcode);
	CHECK(ibv_wc_read_qp_num(e->cq) == e->qp->qp_num);
	CHECK(ibv_wc_read_completion_ts(e->cq) != 0);
	if (opcode == IBV_WC_RECV && ibv_wc_read_wc_flags(e->cq) & IBV_WC_WITH_IMM)
		CHECK(ibv_wc_read_imm_data(e->cq) == 77);
	ibv_end_poll(e->cq);
}

static void start(struct ex *e, uint64_t wr_id)
{
	ibv_wr_start(e->qpx);
	e->qpx->wr_id = wr_id;
	e->qpx->wr_flags = IBV_SEND_SIGNALED;
}

/* Bytes 0..7 are a word, 64.. a place to write to, 128.. where results go. */
static void every_opcode(int sock)
{
	struct ex e;
	uint8_t *mem;
	uint64_t *word, base;
	struct ibv_data_buf bufs[2] = { { (void *)(uintptr_t)"ab", 2 }, { (void *)(uintptr_t)"cd", 2 } };
	struct ibv_sge list[2];

	(void)sock;
	open_ex(&e);
	mem = e.k.mem;
	word = (uint64_t *)(void *)mem;
	base = (uintptr_t)mem;
	*word = 5;

	start(&e, 1);
	ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, base + 64);
	ibv_wr_set_inline_data_list(e.qpx, 2, bufs);
	CHECK(!ibv_wr_complete(e.qpx));
	expect(&e, 1, IBV_WC_RDMA_WRITE);
	CHECK(!memcmp(mem + 64, "abcd", 4));

	start(&e, 2);
	ibv_wr_rdma_read(e.qpx, e.k.mr->rkey, base + 64);
	list[0] = (struct ibv_sge){ base + 130, 2, e.k.mr->lkey };
	list[1] = (struct ibv_sge){ base + 128, 2, e.k.mr->lkey };
	ibv_wr_set_sge_list(e.qpx, 2, list);
	CHECK(!ibv_wr_complete(e.qpx));
	expect(&e, 2, IBV_WC_RDMA_READ);
	CHECK(!memcmp(mem + 128, "cdab", 4));

	start(&e, 3);
	ibv_wr_atomic_cmp_swp(e.qpx, e.k.mr->rkey, base, 5, 9);
	ibv_wr_set_sge(e.qpx, e.k.mr->lkey, base + 128, 8);
	e.qpx->wr_id = 4;
	ibv_wr_atomic_fetch_add(e.qpx, e.k.mr->rkey, base, 3);
	ibv_wr_set_sge(e.qpx, e.k.mr->lkey, base + 136, 8);
	CHECK(!ibv_wr_complete(e.qpx));
	expect(&e, 3, IBV_WC_COMP_SWAP);
	expect(&e, 4, IBV_WC_FETCH_ADD);
	CHECK(*word == 12 && word[16] == 5 && word[17] == 9);
	close_ex(&e);
}

/* As much as the queue pair has room for, and not a byte more. */
static void all_inline(int sock)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_data_buf bufs[2];
	uint8_t data[1024];
	struct ex e;
	size_t most;

	(void)sock;
	open_ex(&e);
	CHECK(!sv_query_qp(e.qp, &attr, IBV_QP_CAP, &init));
	most = init.cap.max_inline_data;
	CHECK(most >= INLINE_BYTES && most < sizeof(data));
	memset(data, 'z', sizeof(data));
	bufs[0] = (struct ibv_data_buf){ data, most - 1 };
	for (size_t last = 1; last <= 2; last++) {
		bufs[1] = (struct ibv_data_buf){ data, last };
		start(&e, last);
		ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem);
		ibv_wr_set_inline_data_list(e.qpx, 2, bufs);
		CHECK(ibv_wr_complete(e.qpx) == (last == 1 ? 0 : EINVAL));
	}
	expect(&e, 1, IBV_WC_RDMA_WRITE);
	CHECK(!memcmp(e.k.mem, data, most) && !e.k.mem[most]);
	close_ex(&e);
}

static void post_receive(struct ex *e, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)e->k.mem + 256, 64, e->k.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(e->qp, &wr, &bad));
}

static void messages(int sock)
{
	struct ex e;

	(void)sock;
	open_ex(&e);
	post_receive(&e, 10);
	post_receive(&e, 11);
	post_receive(&e, 12);
	start(&e, 1);
	ibv_wr_send(e.qpx);
	ibv_wr_set_inline_data(e.qpx, (void *)(uintptr_t)"hello", 6);
	e.qpx->wr_id = 2;
	ibv_wr_send_imm(e.qpx, 77);
	e.qpx->wr_id = 3;
	ibv_wr_rdma_write_imm(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem, 77);
	CHECK(!ibv_wr_complete(e.qpx));
	expect(&e, 1, IBV_WC_SEND);
	expect(&e, 2, IBV_WC_SEND);
	expect(&e, 3, IBV_WC_RDMA_WRITE);
	expect(&e, 10, IBV_WC_RECV);
	CHECK(!strcmp((char *)e.k.mem + 256, "hello"));
	expect(&e, 11, IBV_WC_RECV);
	expect(&e, 12, IBV_WC_RECV_RDMA_WITH_IMM);
	close_ex(&e);
}

/* All of a draft is posted, or nothing. */
static void nothing_of_it(int sock)
{
	struct ibv_poll_cq_attr attr = { 0 };
	uint8_t much[4 * INLINE_BYTES] = { 0 };
	struct ibv_sge sges[64] = { { 0 } };
	struct ex e;

	(void)sock;
	open_ex(&e);
	start(&e, 1);
	for (int i = 0; i < SEND_WR + 1; i++) {
		ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem);
		ibv_wr_set_inline_data(e.qpx, (void *)(uintptr_t)"x", 1);
	}
	CHECK(ibv_wr_complete(e.qpx) == ENOMEM);
	start(&e, 2);
	ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem);
	ibv_wr_set_inline_data(e.qpx, much, sizeof(much));
	CHECK(ibv_wr_complete(e.qpx) == EINVAL);
	start(&e, 3);
	ibv_wr_set_sge(e.qpx, 0, 0, 0); /* of which request? */
	CHECK(ibv_wr_complete(e.qpx) == EINVAL);
	start(&e, 3);
	ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem);
	ibv_wr_set_sge_list(e.qpx, 64, sges);
	CHECK(ibv_wr_complete(e.qpx) == EINVAL);
	start(&e, 4);
	ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem);
	ibv_wr_abort(e.qpx);
	/* The first is right, the second is not: a READ into the request. */
	start(&e, 5);
	ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem);
	ibv_wr_set_inline_data(e.qpx, (void *)(uintptr_t)"x", 1);
	ibv_wr_rdma_read(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem);
	ibv_wr_set_inline_data(e.qpx, (void *)(uintptr_t)"y", 1);
	CHECK(ibv_wr_complete(e.qpx) == EINVAL);
	CHECK(ibv_start_poll(e.cq, &attr) == ENOENT);
	CHECK(e.k.mem[0] == 0);
	close_ex(&e);
}

static int write_bytes(struct ex *e, struct ibv_qp_ex *qpx, uint64_t n)
{
	ibv_wr_start(qpx);
	qpx->wr_flags = 0;
	for (uint64_t i = 0; i < n; i++) {
		qpx->wr_id = i;
		ibv_wr_rdma_write(qpx, e->k.mr->rkey, (uintptr_t)e->k.mem + i);
		ibv_wr_set_inline_data(qpx, (void *)(uintptr_t)"x", 1);
	}
	return ibv_wr_complete(qpx);
}

/* There has to be room for all of a draft, and a queue pair that sends. */
static void no_room(int sock)
{
	struct ibv_sge sges[3] = { { 0 } };
	struct ex e;
	struct ibv_qp *idle;

	(void)sock;
	open_ex(&e);
	CHECK((idle = make_qp(&e, OPS, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) != NULL);
	kit_to_init(&e.k, idle);
	CHECK(write_bytes(&e, sv_qp_to_qp_ex(idle), 2) == EINVAL);
	CHECK(!sv_destroy_qp(idle));
	/* Without a completion that was polled, no slot is free again. */
	start(&e, 1);
	ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem + 8);
	ibv_wr_set_inline_data(e.qpx, (void *)(uintptr_t)"y", 1);
	CHECK(!ibv_wr_complete(e.qpx));
	CHECK(!write_bytes(&e, e.qpx, 2));
	e.k.mem[0] = e.k.mem[1] = 0;
	CHECK(write_bytes(&e, e.qpx, 2) == ENOMEM && !e.k.mem[0] && !e.k.mem[1]);
	CHECK(!write_bytes(&e, e.qpx, 1));
	expect(&e, 1, IBV_WC_RDMA_WRITE);
	CHECK(write_bytes(&e, e.qpx, 2) == ENOMEM); /* one is free, and not two */
	start(&e, 2);
	ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem + 8);
	ibv_wr_set_sge_list(e.qpx, 3, sges); /* one more than it has */
	CHECK(ibv_wr_complete(e.qpx) == EINVAL);
	start(&e, 3);
	ibv_wr_rdma_write(e.qpx, e.k.mr->rkey, (uintptr_t)e.k.mem + 8);
	ibv_wr_set_inline_data(e.qpx, (void *)(uintptr_t)"z", 1);
	CHECK(!ibv_wr_complete(e.qpx));
	expect(&e, 3, IBV_WC_RDMA_WRITE);
	CHECK(e.k.mem[8] == 'z');
	CHECK(!write_bytes(&e, e.qpx, 2) && e.k.mem[0] == 'x' && e.k.mem[1] == 'x');
	close_ex(&e);
}

static void begin_datagram(struct ibv_qp_ex *qpx)
{
	ibv_wr_start(qpx);
	qpx->wr_id = 1;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	ibv_wr_set_inline_data(qpx, (void *)(uintptr_t)"hello", 6);
}

/* A datagram goes where it was addressed to, never where an earlier one went. */
static void datagrams(int sock)
{
	struct ibv_qp_ex *qpx;
	struct ibv_qp *qp;
	struct end e;

	(void)sock;
	open_end(&e);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = e.scq, .recv_cq = e.rcq, .qp_type = IBV_QPT_UD, .pd = e.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = INLINE_BYTES },
	};
	CHECK((qp = ibv_create_qp_ex(e.ctx, &init)) != NULL);
	to_rts(qp);
	qpx = sv_qp_to_qp_ex(qp);
	post_recv(&e, 3, SLOT_BYTES);
	begin_datagram(qpx);
	ibv_wr_set_ud_addr(qpx, e.ah, e.qp->qp_num, QKEY);
	CHECK(!ibv_wr_complete(qpx));
	kit_expect(e.scq, 1, IBV_WC_SUCCESS);
	kit_expect(e.rcq, 3, IBV_WC_SUCCESS);
	CHECK(!strcmp((char *)e.mem + 3 * SLOT_BYTES + GRH, "hello"));
	begin_datagram(qpx);
	CHECK(ibv_wr_complete(qpx) == EINVAL);
	CHECK(!sv_destroy_qp(qp));
	close_end(&e);
}

static void what_there_is_none_of(int sock)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 8, .wc_flags = IBV_WC_EX_WITH_TM_INFO };
	struct ibv_device_attr_ex attr;
	struct ex e;

	(void)sock;
	open_ex(&e);
	CHECK(!make_qp(&e, IBV_QP_EX_WITH_TSO,
		       IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	      errno == EOPNOTSUPP);
	CHECK(!make_qp(&e, 0, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_cq_ex(e.k.ctx, &init) && errno == EOPNOTSUPP);
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	CHECK(ibv_query_device_ex(e.k.ctx, &input, &attr) == EINVAL);
	input.comp_mask = 0;
	CHECK(!ibv_query_device_ex(e.k.ctx, &input, &attr));
	CHECK(!ibv_query_device_ex(e.k.ctx, NULL, &attr));
	CHECK(attr.phys_port_cnt_ex == 1 && attr.completion_timestamp_mask);
	CHECK(!attr.odp_caps.general_caps && !attr.tso_caps.max_tso);
	CHECK(attr.orig_attr.atomic_cap == IBV_ATOMIC_HCA);
	close_ex(&e);
}

/* The context goes with the last object in it. */
static void closed_early(int sock)
{
	struct ibv_context *ctx = kit_open_device();
	struct ibv_pd *pd = sv_alloc_pd(ctx);
	struct ibv_cq *cq = sv_create_cq(ctx, 1, NULL, NULL, 0);

	(void)sock;
	CHECK(pd && cq && !sv_close_device(ctx));
	CHECK(!sv_destroy_cq(cq) && !sv_dealloc_pd(pd));
}

static void run(void (*side)(int sock))
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(KIT_LIMIT_S);
		side(-1);
		_exit(0);
	}
	assert_int_equal(kit_status(pid), 0);
}

static void test_every_opcode(void **state)
{
	(void)state;
	run(every_opcode);
	run(all_inline);
}

static void test_messages(void **state)
{
	(void)state;
	run(messages);
}

static void test_nothing_of_it(void **state)
{
	(void)state;
	run(nothing_of_it);
}

static void test_no_room(void **state)
{
	(void)state;
	run(no_room);
}

static void test_datagrams(void **state)
{
	(void)state;
	run(datagrams);
}

static void test_what_there_is_none_of(void **state)
{
	(void)state;
	run(what_there_is_none_of);
}

static void test_closed_early(void **state)
{
	(void)state;
	run(closed_early);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_opcode),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_nothing_of_it),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_datagrams),
		cmocka_unit_test(test_what_there_is_none_of),
		cmocka_unit_test(test_closed_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
