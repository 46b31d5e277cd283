/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * window.c -- memory windows: types, rights, bounds, keys, invalidation, and each refusal by its
 * status.
 *
 * Most of it needs one process: a queue pair that is connected to itself.
 */
#include "tests/unit/softverbs/kit.h"

#define AT 4096u
#define BYTES 4096u
#define READ IBV_ACCESS_REMOTE_READ
#define WRITE IBV_ACCESS_REMOTE_WRITE

static struct kit_opts opts(void)
{
	struct kit_opts o = kit_defaults;

	o.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	return o;
}

static void to_reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void drop_events(struct kit *k)
{
	struct pollfd pfd = { .fd = k->ctx->async_fd, .events = POLLIN };

	while (poll(&pfd, 1, 0) == 1)
		kit_async(k);
}

/* After a failure; and at first. */
static void connect_to_self(struct kit *k)
{
	to_reset(k->qp);
	drop_events(k);
	kit_to_init(k, k->qp);
	kit_to_rts(k, k->qp, k->qp->qp_num);
	k->addr = (uintptr_t)k->mem;
}

static void open_self(struct kit *k)
{
	struct kit_opts o = opts();

	kit_open(k, &o, -1);
	connect_to_self(k);
}

static struct ibv_mw *new_window(struct kit *k, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->pd, type);

	CHECK(mw && mw->rkey && mw->type == type && mw->pd == k->pd);
	return mw;
}

static int post_bind(struct kit *k, struct ibv_mw *mw, uint32_t rkey, size_t at, size_t bytes,
		     unsigned int access)
{
	struct ibv_send_wr wr = { .wr_id = 50, .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ k->mr, (uintptr_t)k->mem + at, bytes, access };
	return ibv_post_send(k->qp, &wr, &bad);
}

/* Of type 2, with the next key. */
static void expect_bind(struct kit *k, struct ibv_mw *mw, unsigned int access)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_wc wc;

	CHECK(!post_bind(k, mw, rkey, AT, BYTES, access));
	wc = kit_wait(k->scq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW && wc.wr_id == 50);
	mw->rkey = rkey;
}

static void refuse_bind(struct kit *k, struct ibv_mw *mw, uint32_t rkey, size_t at, size_t bytes,
			unsigned int access)
{
	CHECK(!post_bind(k, mw, rkey, at, bytes, access));
	kit_expect(k->scq, 50, IBV_WC_MW_BIND_ERR);
	CHECK(kit_state(k->qp) == IBV_QPS_ERR);
	connect_to_self(k);
}

static int post_invalidate(struct kit *k, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 60, .opcode = opcode, .invalidate_rkey = rkey,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	return ibv_post_send(k->qp, &wr, &bad);
}

static void access_by(struct kit *k, enum ibv_wr_opcode opcode, uint32_t rkey, size_t at,
		      uint32_t bytes, enum ibv_wc_status status)
{
	k->rkey = rkey;
	CHECK(!kit_post(k, opcode, 0, bytes, at, 70, IBV_SEND_SIGNALED));
	kit_expect(k->scq, 70, status);
	if (status && k->sock < 0)
		connect_to_self(k);
}

/* ---- one process ---- */

static void test_bounds_and_rights(void **state)
{
	struct ibv_mw *mw;
	struct kit k;

	(void)state;
	open_self(&k);
	mw = new_window(&k, IBV_MW_TYPE_2);
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey, AT, 8, IBV_WC_REM_ACCESS_ERR); /* not bound */
	expect_bind(&k, mw, READ | IBV_ACCESS_LOCAL_WRITE); /* which gives nobody more */
	memset(k.mem + AT, 7, BYTES);
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey, AT, BYTES, IBV_WC_SUCCESS);
	CHECK(k.mem[0] == 7 && k.mem[BYTES - 1] == 7);
	access_by(&k, IBV_WR_RDMA_WRITE, mw->rkey, AT, 8, IBV_WC_REM_ACCESS_ERR);
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey, AT - 1, 8, IBV_WC_REM_ACCESS_ERR);
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey, AT + 1, BYTES, IBV_WC_REM_ACCESS_ERR);
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey + 1, AT, 8, IBV_WC_REM_ACCESS_ERR);
	/* The region itself has no remote rights. */
	access_by(&k, IBV_WR_RDMA_READ, k.mr->rkey, AT, 8, IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dealloc_mw(mw));
	kit_close(&k);
}

static void test_no_lkey(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_mw *mw;
	struct kit k;

	(void)state;
	open_self(&k);
	mw = new_window(&k, IBV_MW_TYPE_2);
	expect_bind(&k, mw, READ | WRITE);
	sge = (struct ibv_sge){ (uintptr_t)k.mem + AT, 8, mw->rkey };
	CHECK(!ibv_post_send(k.qp, &wr, &bad));
	kit_expect(k.scq, 1, IBV_WC_LOC_PROT_ERR);
	CHECK(!ibv_dealloc_mw(mw));
	kit_close(&k);
}

static void test_bind_refused(void **state)
{
	struct ibv_mr *all, *poor;
	struct ibv_mw *mw, *other;
	struct ibv_pd *pd;
	uint32_t next;
	struct kit k;

	(void)state;
	open_self(&k);
	mw = new_window(&k, IBV_MW_TYPE_2);
	next = ibv_inc_rkey(mw->rkey);
	refuse_bind(&k, mw, next, k.opts.mem_bytes - 8, 16, READ); /* beyond the region */
	refuse_bind(&k, mw, next + 0x100, AT, BYTES, READ);	   /* another window's key */
	refuse_bind(&k, mw, next, AT, BYTES, READ | IBV_ACCESS_ZERO_BASED);
	refuse_bind(&k, mw, next, AT, 0, READ); /* type 2 ends by invalidation */
	all = k.mr;
	CHECK((poor = sv_reg_mr(k.pd, k.mem, 8192, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	k.mr = poor;
	refuse_bind(&k, mw, next, AT, BYTES, READ); /* the region is for no windows */
	CHECK(!sv_dereg_mr(poor));
	CHECK((poor = sv_reg_mr(k.pd, k.mem, 8192, IBV_ACCESS_MW_BIND)) != NULL);
	k.mr = poor;
	refuse_bind(&k, mw, next, AT, BYTES, WRITE); /* nor to be written */
	CHECK(!sv_dereg_mr(poor));
	k.mr = all;
	CHECK((pd = sv_alloc_pd(k.ctx)) != NULL);
	CHECK((other = ibv_alloc_mw(pd, IBV_MW_TYPE_2)) != NULL && sv_dealloc_pd(pd) == EBUSY);
	refuse_bind(&k, other, ibv_inc_rkey(other->rkey), AT, BYTES, READ); /* another domain */
	CHECK(!ibv_dealloc_mw(other) && !sv_dealloc_pd(pd));
	expect_bind(&k, mw, READ);
	refuse_bind(&k, mw, ibv_inc_rkey(mw->rkey), AT, BYTES, READ); /* is bound already */
	CHECK(sv_dereg_mr(k.mr) == EBUSY);
	CHECK(sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CHECK(!ibv_dealloc_mw(mw));
	CHECK(!ibv_alloc_mw(k.pd, (enum ibv_mw_type)3) && errno == EINVAL);
	kit_close(&k);
}

/* Memory that peers can't write to may be read through a window. */
static void test_sealed(void **state)
{
	struct kit_opts o = opts();
	struct ibv_mw *mw;
	struct kit k;

	(void)state;
	o.mem_flags = SV_MEM_SEALED;
	kit_open(&k, &o, -1);
	connect_to_self(&k);
	mw = new_window(&k, IBV_MW_TYPE_2);
	refuse_bind(&k, mw, ibv_inc_rkey(mw->rkey), AT, BYTES, WRITE);
	refuse_bind(&k, mw, ibv_inc_rkey(mw->rkey), AT, BYTES, READ | IBV_ACCESS_REMOTE_ATOMIC);
	expect_bind(&k, mw, READ);
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey, AT, 8, IBV_WC_SUCCESS);
	CHECK(!ibv_dealloc_mw(mw));
	kit_close(&k);
}

/* What is no request for a window is not taken. */
static void test_malformed(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr right = { .opcode = IBV_WR_BIND_MW }, wr, *bad = NULL;
	struct kit k;

	(void)state;
	open_self(&k);
	sge = kit_sge(&k, 0, 8);
	right.bind_mw.mw = new_window(&k, IBV_MW_TYPE_2);
	right.bind_mw.rkey = ibv_inc_rkey(right.bind_mw.mw->rkey);
	right.bind_mw.bind_info = (struct ibv_mw_bind_info){ k.mr, (uintptr_t)k.mem, 64, READ };
	wr = right;
	wr.bind_mw.bind_info.mr = NULL; /* of which region? */
	CHECK(ibv_post_send(k.qp, &wr, &bad) == EINVAL && bad == &wr);
	wr = right;
	wr.bind_mw.mw = NULL;
	CHECK(ibv_post_send(k.qp, &wr, &bad) == EINVAL);
	wr = right;
	wr.send_flags = IBV_SEND_INLINE;
	CHECK(ibv_post_send(k.qp, &wr, &bad) == EINVAL);
	wr = right;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	CHECK(ibv_post_send(k.qp, &wr, &bad) == EINVAL);
	wr.opcode = IBV_WR_LOCAL_INV;
	CHECK(ibv_post_send(k.qp, &wr, &bad) == EINVAL && kit_state(k.qp) == IBV_QPS_RTS);
	CHECK(!ibv_dealloc_mw(right.bind_mw.mw));
	kit_close(&k);
}

static void test_local_invalidate(void **state)
{
	struct ibv_mw *mw;
	struct ibv_wc wc;
	struct kit k;

	(void)state;
	open_self(&k);
	mw = new_window(&k, IBV_MW_TYPE_2);
	for (int i = 0; i < 300; i++) { /* all of the 256 keys that it may have */
		expect_bind(&k, mw, READ | WRITE);
		access_by(&k, IBV_WR_RDMA_WRITE, mw->rkey, AT, 8, IBV_WC_SUCCESS);
		CHECK(!post_invalidate(&k, IBV_WR_LOCAL_INV, mw->rkey));
		wc = kit_wait(k.scq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_LOCAL_INV);
	}
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey, AT, 8, IBV_WC_REM_ACCESS_ERR);
	CHECK(!post_invalidate(&k, IBV_WR_LOCAL_INV, mw->rkey)); /* it has ended */
	kit_expect(k.scq, 60, IBV_WC_MW_BIND_ERR);
	connect_to_self(&k);
	CHECK(!post_invalidate(&k, IBV_WR_LOCAL_INV, k.mr->lkey)); /* it is no window */
	kit_expect(k.scq, 60, IBV_WC_MW_BIND_ERR);
	CHECK(!ibv_dealloc_mw(mw));
	kit_close(&k);
}

static void bind_type_1(struct kit *k, struct ibv_mw *mw, size_t bytes)
{
	struct ibv_mw_bind bind = { .wr_id = 40, .send_flags = IBV_SEND_SIGNALED };

	bind.bind_info = (struct ibv_mw_bind_info){ k->mr, (uintptr_t)k->mem + AT, bytes, READ };
	CHECK(!ibv_bind_mw(k->qp, mw, &bind));
	kit_expect(k->scq, 40, IBV_WC_SUCCESS);
}

static void test_type_1(void **state)
{
	struct ibv_mw *mw;
	uint32_t before;
	struct kit k;

	(void)state;
	open_self(&k);
	mw = new_window(&k, IBV_MW_TYPE_1);
	bind_type_1(&k, mw, BYTES);
	before = mw->rkey;
	access_by(&k, IBV_WR_RDMA_READ, before, AT, BYTES, IBV_WC_SUCCESS);
	bind_type_1(&k, mw, 8); /* over what it was */
	CHECK(mw->rkey != before);
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey, AT, 8, IBV_WC_SUCCESS);
	access_by(&k, IBV_WR_RDMA_READ, before, AT, 8, IBV_WC_REM_ACCESS_ERR);
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey, AT, 9, IBV_WC_REM_ACCESS_ERR);
	CHECK(!post_invalidate(&k, IBV_WR_LOCAL_INV, mw->rkey)); /* that is for type 2 */
	kit_expect(k.scq, 60, IBV_WC_MW_BIND_ERR);
	connect_to_self(&k);
	bind_type_1(&k, mw, 0);
	access_by(&k, IBV_WR_RDMA_READ, mw->rkey, AT, 8, IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dealloc_mw(mw));
	kit_close(&k);
}

/* A window of type 2 is its queue pair's alone, one of type 1 the domain's. */
static void test_other_queue_pair(void **state)
{
	struct ibv_mw *one, *two;
	struct ibv_qp *first;
	struct kit k;

	(void)state;
	open_self(&k);
	one = new_window(&k, IBV_MW_TYPE_1);
	two = new_window(&k, IBV_MW_TYPE_2);
	bind_type_1(&k, one, BYTES);
	expect_bind(&k, two, READ);
	first = k.qp;
	k.qp = kit_new_qp(&k);
	connect_to_self(&k);
	access_by(&k, IBV_WR_RDMA_READ, one->rkey, AT, 8, IBV_WC_SUCCESS);
	access_by(&k, IBV_WR_RDMA_READ, two->rkey, AT, 8, IBV_WC_REM_ACCESS_ERR);
	CHECK(!post_invalidate(&k, IBV_WR_LOCAL_INV, two->rkey));
	kit_expect(k.scq, 60, IBV_WC_MW_BIND_ERR);
	CHECK(!sv_destroy_qp(k.qp));
	k.qp = first;
	CHECK(!ibv_dealloc_mw(one) && !ibv_dealloc_mw(two));
	kit_close(&k);
}

/* The same by calls that build requests, and a completion read field by field. */
static void test_extended(void **state)
{
	struct ibv_cq_init_attr_ex cq_init = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
				  IBV_QP_EX_WITH_SEND_WITH_INV };
	struct ibv_poll_cq_attr poll_attr = { 0 };
	struct ibv_mw_bind_info info;
	struct ibv_qp_ex *qpx;
	struct ibv_cq_ex *cqx;
	struct ibv_mw *mw;
	uint32_t key;
	struct kit k;

	(void)state;
	open_self(&k);
	CHECK(!sv_destroy_qp(k.qp));
	CHECK((cqx = sv_create_cq_ex(k.ctx, &cq_init)) != NULL);
	init.pd = k.pd;
	init.send_cq = k.scq;
	init.recv_cq = ibv_cq_ex_to_cq(cqx);
	CHECK((k.qp = sv_create_qp_ex(k.ctx, &init)) != NULL);
	CHECK((qpx = sv_qp_to_qp_ex(k.qp)) != NULL);
	connect_to_self(&k);
	CHECK(!kit_post_recv(&k, 0, 64, 5));
	mw = new_window(&k, IBV_MW_TYPE_2);
	key = ibv_inc_rkey(mw->rkey);
	info = (struct ibv_mw_bind_info){ k.mr, (uintptr_t)k.mem + AT, BYTES, READ };
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qpx);
	ibv_wr_bind_mw(qpx, mw, key, &info);
	ibv_wr_local_inv(qpx, key);
	ibv_wr_bind_mw(qpx, mw, ibv_inc_rkey(key), &info);
	ibv_wr_send_inv(qpx, ibv_inc_rkey(key));
	ibv_wr_set_sge(qpx, k.mr->lkey, (uintptr_t)k.mem, 8);
	CHECK(!ibv_wr_complete(qpx));
	for (int i = 0; i < 4; i++)
		CHECK(kit_wait(k.scq).status == IBV_WC_SUCCESS);
	CHECK(!ibv_start_poll(cqx, &poll_attr) && cqx->wr_id == 5);
	CHECK(ibv_wc_read_wc_flags(cqx) == IBV_WC_WITH_INV);
	CHECK(ibv_wc_read_invalidated_rkey(cqx) == ibv_inc_rkey(key));
	ibv_end_poll(cqx);
	CHECK(!ibv_dealloc_mw(mw) && !sv_destroy_qp(k.qp));
	CHECK(!sv_destroy_cq(ibv_cq_ex_to_cq(cqx)));
	k.qp = kit_new_qp(&k);
	kit_close(&k);
}

/* ---- two processes ---- */

static void owns(int sock)
{
	struct kit_opts o = opts();
	struct ibv_mw *mw;
	struct ibv_wc wc;
	struct kit k;

	kit_open(&k, &o, sock);
	kit_connect(&k);
	mw = new_window(&k, IBV_MW_TYPE_2);
	expect_bind(&k, mw, READ | WRITE);
	memset(k.mem + AT, 9, 8);
	CHECK(!kit_post_recv(&k, 0, 64, 1) && !kit_post_recv(&k, 0, 64, 2));
	kit_say(sock, mw->rkey);
	wc = kit_wait(k.rcq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wc_flags == IBV_WC_WITH_INV);
	CHECK(wc.invalidated_rkey == mw->rkey && k.mem[AT + 8] == 9);
	kit_meet(&k);
	CHECK(kit_async(&k) == IBV_EVENT_QP_ACCESS_ERR);
	/* Nothing is bound to it any more. */
	CHECK(!ibv_dealloc_mw(mw));
	kit_close(&k);
}

static void uses(int sock)
{
	struct kit k;
	uint32_t rkey;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	rkey = (uint32_t)kit_hear(sock);
	access_by(&k, IBV_WR_RDMA_READ, rkey, AT, 8, IBV_WC_SUCCESS);
	CHECK(k.mem[0] == 9 && k.mem[7] == 9);
	access_by(&k, IBV_WR_RDMA_WRITE, rkey, AT + 8, 8, IBV_WC_SUCCESS);
	CHECK(!post_invalidate(&k, IBV_WR_SEND_WITH_INV, rkey));
	kit_expect(k.scq, 60, IBV_WC_SUCCESS);
	kit_meet(&k);
	CHECK(!post_invalidate(&k, IBV_WR_SEND_WITH_INV, rkey)); /* once more */
	kit_expect(k.scq, 60, IBV_WC_REM_ACCESS_ERR);
	kit_close(&k);
}

static void test_send_with_invalidate(void **state)
{
	(void)state;
	kit_run(owns, uses);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_send_with_invalidate),
		cmocka_unit_test(test_bounds_and_rights),
		cmocka_unit_test(test_no_lkey),
		cmocka_unit_test(test_bind_refused),
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_local_invalidate),
		cmocka_unit_test(test_type_1),
		cmocka_unit_test(test_other_queue_pair),
		cmocka_unit_test(test_extended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
