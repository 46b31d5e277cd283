/* SPDX-License-Identifier: BSD-2-Clause */
/* uc.c -- unreliable connections: what arrives, and what is lost in silence. */
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED

static int target_flags; /* of sv_mem_alloc(), or -1: malloc */
static unsigned int target_access;

static struct ibv_qp *new_uc(struct kit *k)
{
	struct ibv_qp_init_attr init = {
		.send_cq = k->scq, .recv_cq = k->rcq, .qp_type = IBV_QPT_UC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = 64 },
	};
	struct ibv_qp *qp = sv_create_qp(k->pd, &init);

	CHECK(qp);
	return qp;
}

static void open_uc(struct kit *k, int sock)
{
	struct kit_opts opts = kit_defaults;

	opts.mem_flags = target_flags;
	opts.qp_access = target_access;
	kit_open(k, &opts, sock);
	CHECK(!sv_destroy_qp(k->qp));
	k->qp = new_uc(k);
	kit_to_init(k, k->qp);
}

static void to_rts(struct kit *k)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096,
				    .dest_qp_num = k->qpn };
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	/* It has no attributes of reliability. */
	CHECK(sv_modify_qp(k->qp, &attr, mask | IBV_QP_MAX_DEST_RD_ATOMIC |
						 IBV_QP_MIN_RNR_TIMER) == EINVAL);
	CHECK(!sv_modify_qp(k->qp, &attr, mask));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!sv_modify_qp(k->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void connect_uc(struct kit *k)
{
	kit_exchange(k);
	to_rts(k);
	kit_meet(k);
}

/* ---- what is refused is lost, and harms nobody ---- */

static void loser(int sock)
{
	struct kit k;

	target_flags = 0;
	open_uc(&k, sock);
	connect_uc(&k);
	CHECK(kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, S) == EINVAL);
	CHECK(kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 1, 0, 1) == EINVAL);
	/* No receive; a key that is none; then what has all it needs. */
	strcpy((char *)k.mem, "lost");
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	k.rkey ^= 0x100000;
	CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 0, 8, 0, 2, S));
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	k.rkey ^= 0x100000;
	kit_meet(&k);
	kit_meet(&k);
	strcpy((char *)k.mem, "written");
	CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 0, 8, 64, 3, 0));
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 4, S));
	kit_expect(k.scq, 4, IBV_WC_SUCCESS);
	CHECK(kit_state(k.qp) == IBV_QPS_RTS);
	kit_meet(&k);
	kit_close(&k);
}

static void finder(int sock)
{
	struct ibv_wc wc;
	struct kit k;

	open_uc(&k, sock);
	connect_uc(&k);
	kit_meet(&k);
	CHECK(!kit_post_recv(&k, 128, 64, 9));
	CHECK(!ibv_poll_cq(k.rcq, 1, &wc));
	CHECK(k.mem[0] == 0 && kit_state(k.qp) == IBV_QPS_RTS);
	kit_meet(&k);
	kit_expect(k.rcq, 9, IBV_WC_SUCCESS);
	CHECK(!strcmp((char *)k.mem + 128, "written"));
	CHECK(!strcmp((char *)k.mem + 64, target_access ? "written" : ""));
	CHECK(kit_state(k.qp) == IBV_QPS_RTS);
	kit_meet(&k);
	kit_close(&k);
}

static void test_lost(void **state)
{
	(void)state;
	for (int flags = 0; flags >= -1; flags--) {
		for (int right = 0; right < 2; right++) {
			target_flags = flags;
			target_access = right ? IBV_ACCESS_REMOTE_WRITE : 0;
			kit_run(loser, finder);
		}
	}
}

/* ---- nobody is there: sending goes on ---- */

static void mourner(int sock)
{
	struct kit k;

	open_uc(&k, sock);
	connect_uc(&k);
	kill(k.pid, SIGKILL);
	for (uint64_t i = 0; i < 100; i++) {
		CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, i, S));
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
	}
	CHECK(kit_state(k.qp) == IBV_QPS_RTS);
	kit_close(&k);
}

static void victim(int sock)
{
	struct kit k;

	open_uc(&k, sock);
	connect_uc(&k);
	for (;;)
		pause();
}

static void test_alone(void **state)
{
	(void)state;
	target_flags = 0;
	kit_run_two(mourner, victim, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lost),
					    cmocka_unit_test(test_alone) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
