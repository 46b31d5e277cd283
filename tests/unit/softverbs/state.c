/* SPDX-License-Identifier: BSD-2-Clause */
/* state.c -- a send queue that is drained (SQD), a queue pair that is reset, a region registered anew. */
#include "tests/unit/softverbs/kit.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/qp.h"

/* ---- draining ---- */

static void modify_to(struct ibv_qp *qp, enum ibv_qp_state state, bool notify)
{
	struct ibv_qp_attr attr = { .qp_state = state, .en_sqd_async_notify = notify };

	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE | (notify ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0)));
}

static bool is_draining(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!sv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	CHECK(attr.qp_state == IBV_QPS_SQD);
	return attr.sq_draining;
}

static bool has_event(struct kit *k)
{
	struct pollfd pfd = { .fd = k->ctx->async_fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

/* Of three requests the first has begun: it ends, the others wait for RTS. */
static void drains(int sock)
{
	struct ibv_wc wc;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	for (uint64_t i = 0; i < 2; i++)
		CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, i, IBV_SEND_SIGNALED));
	modify_to(k.qp, IBV_QPS_SQD, true);
	CHECK(is_draining(k.qp) && !has_event(&k)); /* there is no receive for it */
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED));
	kit_meet(&k);
	kit_expect(k.scq, 0, IBV_WC_SUCCESS);
	CHECK(kit_async(&k) == IBV_EVENT_SQ_DRAINED);
	CHECK(!is_draining(k.qp));
	kit_meet(&k);
	CHECK(!ibv_poll_cq(k.scq, 1, &wc));
	modify_to(k.qp, IBV_QPS_RTS, false);
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	/* With nothing to do it is drained at once; without the flag nobody is told. */
	modify_to(k.qp, IBV_QPS_SQD, true);
	CHECK(!is_draining(k.qp) && kit_async(&k) == IBV_EVENT_SQ_DRAINED);
	modify_to(k.qp, IBV_QPS_RTS, false);
	modify_to(k.qp, IBV_QPS_SQD, false);
	CHECK(!is_draining(k.qp) && !has_event(&k));
	kit_meet(&k);
	kit_close(&k);
}

static void receives(int sock)
{
	struct ibv_wc wc;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_meet(&k);
	for (uint64_t i = 0; i < 3; i++)
		CHECK(!kit_post_recv(&k, 0, 64, i));
	kit_expect(k.rcq, 0, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_expect(k.rcq, 1, IBV_WC_SUCCESS);
	kit_expect(k.rcq, 2, IBV_WC_SUCCESS);
	kit_meet(&k);
	CHECK(!ibv_poll_cq(k.rcq, 1, &wc));
	kit_close(&k);
}

/* What is changed meanwhile doesn't end it; one that fails drains no more. */
static void fails_draining(int sock)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct kit k;

	(void)sock;
	kit_open_self(&k, &kit_defaults);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 1, IBV_SEND_SIGNALED));
	modify_to(k.qp, IBV_QPS_SQD, false);
	CHECK(is_draining(k.qp));
	modify_to(k.qp, IBV_QPS_SQD, false);
	CHECK(is_draining(k.qp));
	modify_to(k.qp, IBV_QPS_ERR, false);
	CHECK(!sv_query_qp(k.qp, &attr, IBV_QP_STATE, &init));
	CHECK(attr.qp_state == IBV_QPS_ERR && !attr.sq_draining);
	kit_expect(k.scq, 1, IBV_WC_WR_FLUSH_ERR);
	kit_close(&k);
}

static void test_drain(void **state)
{
	(void)state;
	kit_run(drains, receives);
	kit_run(fails_draining, kit_nothing);
}

/* ---- regions registered anew ---- */

#define HALF ((size_t)1 << 19)

static void registers(int sock)
{
	struct ibv_pd *pd;
	struct kit k;
	int remote;

	kit_open(&k, &kit_defaults, sock);
	remote = k.opts.mr_access;
	k.mem[0] = 1;
	k.mem[HALF] = 2;
	kit_connect(&k);
	kit_meet(&k); /* the first READ is done */
	CHECK(!sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, k.mem + HALF, HALF, 0));
	CHECK(k.mr->addr == k.mem + HALF && k.mr->length == HALF && k.mr->rkey == k.mr->lkey);
	kit_meet(&k);
	kit_meet(&k); /* the second one as well */
	CHECK((pd = sv_alloc_pd(k.ctx)) != NULL);
	CHECK(!sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0));
	CHECK(k.mr->pd == pd && sv_dealloc_pd(pd) == EBUSY);
	CHECK(!sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_PD, k.pd, NULL, 0, 0));
	CHECK(!sv_dealloc_pd(pd));
	CHECK(!sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
	kit_meet(&k);
	CHECK(kit_async(&k) == IBV_EVENT_QP_ACCESS_ERR);
	CHECK(!sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, remote));
	kit_close(&k);
}

static void reads(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 1, 0, 1, IBV_SEND_SIGNALED));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	CHECK(k.mem[0] == 1);
	kit_meet(&k);
	kit_meet(&k);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 1, HALF, 2, IBV_SEND_SIGNALED));
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	CHECK(k.mem[0] == 2);
	kit_meet(&k);
	kit_meet(&k);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 1, HALF, 3, IBV_SEND_SIGNALED));
	kit_expect(k.scq, 3, IBV_WC_REM_ACCESS_ERR);
	kit_close(&k);
}

static void test_rereg(void **state)
{
	(void)state;
	kit_run(registers, reads);
}

/* What is wrong changes nothing. */
static void test_rereg_refused(void **state)
{
	const int all = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS;
	struct kit k;

	(void)state;
	kit_open(&k, &kit_defaults, -1);
	CHECK(sv_rereg_mr(k.mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
	CHECK(sv_rereg_mr(k.mr, 8, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CHECK(sv_rereg_mr(k.mr, all, NULL, NULL, 8, 0) == IBV_REREG_MR_ERR_INPUT);
	CHECK(sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CHECK(sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_PD, k.pd, NULL, 0, 1) == IBV_REREG_MR_ERR_INPUT);
	CHECK(sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			  IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_INPUT);
	CHECK(sv_rereg_mr(k.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 4096, 0) ==
	      IBV_REREG_MR_ERR_INPUT && errno == EFAULT);
	CHECK(k.mr->addr == k.mem && k.mr->length == k.opts.mem_bytes && k.mr->pd == k.pd);
	kit_close(&k);
}

/* ---- reset ---- */

static void fill_up(struct kit *k, unsigned int flags)
{
	for (uint64_t i = 0; i < k->opts.send_wr; i++)
		CHECK(!kit_post(k, IBV_WR_RDMA_WRITE, 0, 8, 64, i, flags));
	CHECK(kit_post(k, IBV_WR_RDMA_WRITE, 0, 8, 64, 99, flags) == ENOMEM);
}

/* It begins anew: its send queue is empty, whom it was connected to is forgotten, and where that one's memory
 * was; an answer that comes late is of no request of now. */
static void begins_anew(int sock)
{
	static const struct sv_map_hint none[SV_MAP_HINTS];
	struct kit_opts opts = kit_defaults;
	struct sv_qp *qp;
	uint32_t serial;
	struct kit k;

	(void)sock;
	opts.send_wr = 4;
	kit_open_self(&k, &opts);
	qp = sv_qp_of(k.qp);
	for (int through_error = 0; through_error < 2; through_error++) {
		fill_up(&k, 0);
		CHECK(qp->peer_gen);
		qp->hint[SV_MAP_HINTS - 1] = (struct sv_map_hint){ .mem = 1, .base = k.mem, .size_bytes = 8 };
		serial = qp->slow_serial;
		if (through_error)
			modify_to(k.qp, IBV_QPS_ERR, false);
		modify_to(k.qp, IBV_QPS_RESET, false);
		CHECK(!memcmp(qp->hint, none, sizeof(none)));
		CHECK(qp->slow_serial != serial);
		kit_to_init(&k, k.qp);
		kit_to_rts(&k, k.qp, k.qp->qp_num);
		fill_up(&k, IBV_SEND_SIGNALED);
		for (uint64_t i = 0; i < opts.send_wr; i++)
			kit_expect(k.scq, i, IBV_WC_SUCCESS);
	}
	kit_close(&k);
}

/* One that is new has nothing of who had its place before: not its rights, its domain, nor what it lost. */
static void has_nothing(int sock)
{
	struct ibv_qp *qp;
	struct sv_ro_qp *ro;
	uint32_t index;
	struct kit k;

	(void)sock;
	kit_open(&k, &kit_defaults, -1);
	qp = kit_new_qp(&k);
	index = sv_qp_of(qp)->index;
	CHECK(!sv_destroy_qp(qp));
	ro = &sv_proc->ro->qp[index];
	atomic_store(&ro->access, IBV_ACCESS_REMOTE_WRITE);
	atomic_store(&ro->domain, 1ull << 63);
	atomic_store(&ro->dest_qpn, 7);
	atomic_store(&ro->qkey, 8);
	atomic_store(&sv_proc->rw->qp[index].dropped, 9);
	sv_proc->next_qp = index;
	qp = kit_new_qp(&k);
	CHECK(sv_qp_of(qp)->index == index && sv_qp_of(qp)->ro == ro);
	CHECK(!sv_dropped(qp) && !ro->access && !ro->domain && !ro->dest_qpn && !ro->qkey);
	CHECK(ro->gen && ro->type == IBV_QPT_RC && ro->state == IBV_QPS_RESET);
	CHECK(!sv_destroy_qp(qp) && !ro->gen);
	kit_close(&k);
}

static void test_reset(void **state)
{
	(void)state;
	kit_run(begins_anew, has_nothing);
}

/* ---- numbers ---- */

#define QPS 4096u /* numbers of a process, 0 of nobody; they are given in turn */

/* A queue pair's number is nobody else's while it lives, however many come and go. */
static void test_numbers(void **state)
{
	struct ibv_qp *qp;
	unsigned turns = 0;
	uint32_t last = 0;
	struct kit k;

	(void)state;
	kit_open(&k, &kit_defaults, -1);
	for (unsigned i = 0; i < 2 * QPS + QPS / 2; i++) {
		CHECK((qp = kit_new_qp(&k)) != NULL);
		CHECK(qp->qp_num != k.qp->qp_num && qp->qp_num % QPS);
		turns += qp->qp_num < last;
		last = qp->qp_num;
		CHECK(!sv_destroy_qp(qp));
	}
	CHECK(turns >= 2);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_reset), /* forks: ahead of what opens the device here */
		cmocka_unit_test(test_rereg),
		cmocka_unit_test(test_rereg_refused),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
