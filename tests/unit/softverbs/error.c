/* SPDX-License-Identifier: BSD-2-Clause */
/* error.c -- what is refused, and what that does to both sides. */
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED
#define READ_ONLY (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

/* ---- remote errors: each on a fresh pair ---- */

enum trick {
	BAD_RKEY, PAST_END, BEFORE_START, NO_REGION_RIGHT, NO_QP_RIGHT, MISALIGNED, NO_RESOURCES,
	FOREIGN_PD, OVERFLOW, TRICKS
};

static enum trick trick;
static int target_flags;

static void victim(int sock)
{
	struct kit_opts opts = kit_defaults;
	enum ibv_event_type type;
	struct ibv_pd *other;
	struct ibv_mr *mr;
	struct kit k;

	opts.mem_flags = target_flags;
	if (trick == NO_REGION_RIGHT)
		opts.mr_access = READ_ONLY;
	if (trick == NO_QP_RIGHT)
		opts.qp_access = IBV_ACCESS_REMOTE_WRITE;
	if (trick == NO_RESOURCES)
		opts.dest_rd_atomic = 0;
	kit_open(&k, &opts, sock);
	for (uint64_t i = 0; i < 4; i++)
		CHECK(!kit_post_recv(&k, 0, 64, i));
	other = sv_alloc_pd(k.ctx);
	mr = sv_reg_mr(other, k.mem, 4096, opts.mr_access);
	CHECK(other && mr);
	kit_connect(&k);
	kit_say(sock, mr->rkey);
	type = kit_async(&k);
	CHECK(type == (trick == MISALIGNED || trick == NO_RESOURCES ? IBV_EVENT_QP_REQ_ERR :
								       IBV_EVENT_QP_ACCESS_ERR));
	CHECK(kit_state(k.qp) == IBV_QPS_ERR);
	for (uint64_t i = 0; i < 4; i++)
		kit_expect(k.rcq, i, IBV_WC_WR_FLUSH_ERR);
	kit_meet(&k);
	CHECK(!sv_dereg_mr(mr));
	CHECK(!sv_dealloc_pd(other));
	kit_close(&k);
}

static void trickster(int sock)
{
	enum ibv_wc_status want = IBV_WC_REM_ACCESS_ERR;
	struct kit_opts opts = kit_defaults;
	uint32_t foreign;
	struct kit k;

	kit_open(&k, &opts, sock);
	kit_connect(&k);
	foreign = (uint32_t)kit_hear(sock);
	memset(k.mem, 0xaa, 64);
	switch (trick) {
	case BAD_RKEY:
		k.rkey ^= 0x100000;
		/* fall through */
	case NO_QP_RIGHT:
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, 0));
		break;
	case FOREIGN_PD:
		k.rkey = foreign;
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, 0));
		break;
	case PAST_END:
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, opts.mem_bytes - 7, 1, 0));
		break;
	case BEFORE_START:
		CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 0, 8, (size_t)-1, 1, 0));
		break;
	case OVERFLOW:
		k.addr = UINT64_MAX - 3;
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, 0));
		break;
	case NO_REGION_RIGHT:
		CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0));
		break;
	case MISALIGNED:
		want = IBV_WC_REM_INV_REQ_ERR;
		CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 4, 1, 0, 1));
		break;
	default:
		want = IBV_WC_REM_INV_REQ_ERR;
		CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 1, 0, 1));
	}
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 2, S));
	kit_expect(k.scq, 1, want);
	kit_expect(k.scq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK(k.mem[0] == 0xaa && kit_state(k.qp) == IBV_QPS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void test_remote_errors(void **state)
{
	(void)state;
	for (int flags = 0; flags >= -1; flags--) {
		target_flags = flags;
		for (trick = 0; trick < TRICKS; trick++)
			kit_run(trickster, victim);
	}
}

/* ---- rights that change while connected ---- */

static void set_access(struct kit *k, unsigned int access)
{
	struct ibv_qp_attr attr = { .qp_access_flags = access };

	CHECK(!sv_modify_qp(k->qp, &attr, IBV_QP_ACCESS_FLAGS));
}

static void moody(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct kit k;

	opts.qp_access = IBV_ACCESS_REMOTE_READ;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	kit_meet(&k);
	kit_meet(&k);
	set_access(&k, 0);
	kit_meet(&k);
	CHECK(kit_async(&k) == IBV_EVENT_QP_ACCESS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void subject(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_meet(&k);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_meet(&k);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 2, S));
	kit_expect(k.scq, 2, IBV_WC_REM_ACCESS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void test_changed_rights(void **state)
{
	(void)state;
	kit_run(subject, moody);
}

/* ---- deregistered, sealed ---- */

static void forgetful(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_mr *mr;
	void *sealed;
	struct kit k;

	kit_open(&k, &opts, sock);
	kit_connect(&k);
	CHECK(!sv_mem_alloc(5000, SV_MEM_SEALED, &sealed));
	strcpy(sealed, "sealed");
	errno = 0;
	CHECK(!sv_reg_mr(k.pd, sealed, 64, READ_ONLY | IBV_ACCESS_REMOTE_ATOMIC) && errno == EPERM);
	CHECK(!sv_reg_mr(k.pd, sealed, 64, READ_ONLY | IBV_ACCESS_REMOTE_WRITE) && errno == EPERM);
	CHECK((mr = sv_reg_mr(k.pd, sealed, 5000, READ_ONLY)) != NULL);
	CHECK(sv_mem_free(sealed) == EBUSY);
	kit_say(sock, mr->rkey);
	kit_say(sock, (uintptr_t)sealed);
	kit_meet(&k);
	CHECK(!sv_dereg_mr(mr));
	CHECK(!sv_mem_free(sealed));
	kit_meet(&k);
	CHECK(kit_async(&k) == IBV_EVENT_QP_ACCESS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void reader(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	k.rkey = (uint32_t)kit_hear(sock);
	k.addr = kit_hear(sock);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 7, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	CHECK(!strcmp((char *)k.mem, "sealed"));
	kit_meet(&k);
	kit_meet(&k);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 7, 0, 2, S));
	kit_expect(k.scq, 2, IBV_WC_REM_ACCESS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void test_deregistered(void **state)
{
	(void)state;
	kit_run(reader, forgetful);
}

/* ---- local errors and queues, in one process: a QP connected to itself ---- */

static void alone(kit_side *side)
{
	pid_t pid;

	fflush(NULL);
	pid = kit_fork(side, -1, -1);
	assert_int_equal(kit_status(pid), 0);
}

static void self(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_wc wc;
	struct kit k;

	(void)sock;
	opts.mem_flags = -1;
	kit_open_self(&k, &opts);
	k.mem[100] = 77;
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 1, 100, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	CHECK(k.mem[0] == 77);
	CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 16, 5, 0, 2));
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	CHECK(*(uint64_t *)(void *)(k.mem + 16) == 5);
	CHECK(!kit_post_recv(&k, 200, 64, 3));
	CHECK(!kit_post(&k, IBV_WR_SEND, 100, 1, 0, 4, S));
	kit_expect(k.rcq, 3, IBV_WC_SUCCESS);
	kit_expect(k.scq, 4, IBV_WC_SUCCESS);
	CHECK(k.mem[200] == 77);
	/* Slots are free when a completion at or behind them was polled. */
	for (uint32_t i = 0; i < opts.send_wr; i++)
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, i, i + 1 < opts.send_wr ? 0 : S));
	CHECK(kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 99, S) == ENOMEM);
	CHECK(ibv_poll_cq(k.scq, 1, &wc) == 1 && wc.wr_id == opts.send_wr - 1);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 99, S));
	kit_expect(k.scq, 99, IBV_WC_SUCCESS);
	/* Limits. */
	CHECK(!ibv_poll_cq(k.scq, 0, &wc) && ibv_poll_cq(k.scq, -1, &wc) < 0);
	CHECK(kit_post(&k, IBV_WR_SEND, 0, opts.inline_bytes + 1, 0, 5, S | IBV_SEND_INLINE) ==
	      EINVAL);
	for (uint32_t i = 0; i < opts.recv_wr; i++)
		CHECK(!kit_post_recv(&k, 0, 8, i));
	CHECK(kit_post_recv(&k, 0, 8, 0) == ENOMEM);
	/* A bad lkey. */
	k.mr->lkey++;
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 6, 0));
	k.mr->lkey--;
	kit_expect(k.scq, 6, IBV_WC_LOC_PROT_ERR);
	for (uint32_t i = 0; i < opts.recv_wr; i++)
		kit_expect(k.rcq, i, IBV_WC_WR_FLUSH_ERR);
	kit_close(&k);
}

static void test_self(void **state)
{
	(void)state;
	alone(self);
}

static void recv_error(int sock)
{
	struct kit k;

	(void)sock;
	kit_open_self(&k, &kit_defaults);
	k.mr->lkey++;
	CHECK(!kit_post_recv(&k, 0, 64, 1));
	k.mr->lkey--;
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 2, S));
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	kit_expect(k.rcq, 1, IBV_WC_LOC_PROT_ERR);
	kit_wait_state(k.qp, IBV_QPS_ERR);
	kit_close(&k);
}

static void test_receive_error(void **state)
{
	(void)state;
	alone(recv_error);
}

static void overrun(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_wc wc;
	struct kit k;
	int n, got = 0;

	(void)sock;
	opts.cqe = 16;
	kit_open_self(&k, &opts);
	for (int i = 0; i < 20; i++) {
		if (kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, (uint64_t)i, S))
			break;
	}
	CHECK(kit_async(&k) == IBV_EVENT_CQ_ERR);
	CHECK(kit_async(&k) == IBV_EVENT_QP_FATAL);
	while ((n = ibv_poll_cq(k.scq, 1, &wc)) == 1)
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)got++);
	CHECK(n < 0 && got == 16);
	kit_close(&k);
}

static void test_overrun(void **state)
{
	(void)state;
	alone(overrun);
}

static void srq_limit(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct pollfd pfd = { .events = POLLIN };
	struct kit k;

	(void)sock;
	opts.srq = true;
	kit_open_self(&k, &opts);
	pfd.fd = k.ctx->async_fd;
	for (uint64_t i = 0; i < 5; i++)
		CHECK(!kit_post_recv(&k, i * 8, 8, i));
	CHECK(!sv_modify_srq(k.srq, &attr, IBV_SRQ_LIMIT));
	CHECK(!sv_query_srq(k.srq, &attr) && attr.srq_limit == 3 && attr.max_wr == 64);
	for (uint64_t i = 0; i < 5; i++) {
		CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, i, S));
		kit_expect(k.rcq, i, IBV_WC_SUCCESS);
		CHECK(poll(&pfd, 1, 0) == (i >= 2));
	}
	CHECK(kit_async(&k) == IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(poll(&pfd, 1, 0) == 0); /* once */
	for (uint64_t i = 0; i < 5; i++)
		CHECK(!kit_post_recv(&k, i * 8, 8, i));
	attr.srq_limit = 5;
	CHECK(!sv_modify_srq(k.srq, &attr, IBV_SRQ_LIMIT));
	CHECK(poll(&pfd, 1, 0) == 0);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 9, S));
	kit_expect(k.rcq, 0, IBV_WC_SUCCESS);
	CHECK(kit_async(&k) == IBV_EVENT_SRQ_LIMIT_REACHED);
	/* Error: the receives stay, an event tells that none is in use. */
	{
		struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };

		CHECK(!sv_modify_qp(k.qp, &err, IBV_QP_STATE));
	}
	CHECK(kit_async(&k) == IBV_EVENT_QP_LAST_WQE_REACHED);
	kit_close(&k);
}

static void test_srq_limit(void **state)
{
	(void)state;
	alone(srq_limit);
}

static void transitions(int sock)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RAW_PACKET };
	struct kit k;
	struct ibv_qp *qp;

	(void)sock;
	kit_open(&k, &kit_defaults, -1);
	init.send_cq = init.recv_cq = k.scq;
	errno = 0;
	CHECK(!sv_create_qp(k.pd, &init) && errno == EOPNOTSUPP);
	qp = kit_new_qp(&k);
	CHECK(sv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 2;
	CHECK(sv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	CHECK(sv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
					      IBV_QP_ACCESS_FLAGS) == EINVAL);
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
	kit_to_init(&k, qp);
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL);
	kit_to_rts(&k, qp, k.qp->qp_num);
	attr = (struct ibv_qp_attr){ .min_rnr_timer = 12 };
	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET };
	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE));
	kit_to_init(&k, qp);
	kit_to_rts(&k, qp, qp->qp_num);
	CHECK(sv_dealloc_pd(k.pd) == EBUSY);
	CHECK(sv_destroy_cq(k.scq) == EBUSY);
	CHECK(!sv_destroy_qp(qp));
	kit_close(&k);
}

static void test_transitions(void **state)
{
	(void)state;
	alone(transitions);
}

/* ---- queues of another size ---- */

/* Twenty messages wait in the queue that is made larger, and smaller, under them. */
static void resized_receiver(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_srq_attr attr = { .max_wr = 24 };
	struct ibv_wc wc[16];
	struct kit k;

	opts.srq = true;
	opts.cqe = 16;
	opts.recv_wr = 20;
	kit_open(&k, &opts, sock);
	for (uint32_t i = 0; i < 20; i++)
		CHECK(!kit_post_recv(&k, i * 64, 64, i));
	CHECK(kit_post_recv(&k, 0, 64, 20) == ENOMEM);
	CHECK(!sv_modify_srq(k.srq, &attr, IBV_SRQ_MAX_WR));
	for (uint32_t i = 20; i < 24; i++)
		CHECK(!kit_post_recv(&k, i * 64, 64, i));
	CHECK(kit_post_recv(&k, 0, 64, 24) == ENOMEM);
	attr.max_wr = 23;
	CHECK(sv_modify_srq(k.srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	attr.max_wr = 1u << 30;
	CHECK(sv_modify_srq(k.srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	attr = (struct ibv_srq_attr){ .max_wr = 30, .srq_limit = 31 };
	CHECK(sv_modify_srq(k.srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL);
	CHECK(!sv_query_srq(k.srq, &attr) && attr.max_wr == 24 && !attr.srq_limit);
	CHECK(!sv_resize_cq(k.rcq, 20) && k.rcq->cqe == 32);
	CHECK(sv_resize_cq(k.rcq, 0) == EINVAL);
	kit_connect(&k);
	kit_hear(sock);
	for (uint32_t got = 0; got < 16;)
		got += (uint32_t)ibv_poll_cq(k.rcq, 1, &wc[got]);
	for (uint32_t i = 0; i < 16; i++)
		CHECK(wc[i].wr_id == i && wc[i].status == IBV_WC_SUCCESS);
	CHECK(!sv_resize_cq(k.rcq, 4) && k.rcq->cqe == 16);
	for (uint32_t i = 16; i < 24; i++)
		kit_expect(k.rcq, i, IBV_WC_SUCCESS);
	kit_close(&k);
}

static void resized_sender(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct kit k;

	opts.cqe = 16;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	CHECK(!sv_resize_cq(k.scq, 64));
	/* From its completion on what is posted is done at once. */
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 99, IBV_SEND_SIGNALED));
	kit_expect(k.scq, 99, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 24; i++)
		CHECK(!kit_post(&k, IBV_WR_SEND, 0, 64, 0, i, IBV_SEND_SIGNALED));
	/* All are there, and a smaller queue holds no less. */
	CHECK(sv_resize_cq(k.scq, 16) == EINVAL);
	for (uint32_t i = 0; i < 12; i++)
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
	CHECK(!sv_resize_cq(k.scq, 16));
	for (uint32_t i = 12; i < 24; i++)
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
	kit_say(sock, 1);
	kit_close(&k);
}

static void test_resized(void **state)
{
	(void)state;
	kit_run(resized_receiver, resized_sender);
}

/* ---- options of ids ---- */

static void check_option(struct rdma_cm_id *id, int level, int name, uint32_t value, size_t bytes, int error)
{
	errno = 0;
	CHECK(sv_set_option(id, level, name, &value, bytes) == (error ? -1 : 0));
	CHECK(errno == error);
}

/* Each has its length, and its values; others there are not. */
static void chooser(int sock)
{
	static const struct {
		int level, name;
		uint32_t value;
		size_t bytes;
		int error;
	} cases[] = {
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 0x20, 1, 0 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 0x20, 2, EINVAL },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 0x20, 4, EINVAL },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 31, 1, 0 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 32, 1, EINVAL },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 14, 4, EINVAL },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1, 4, 0 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1, 1, EINVAL },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1, 4, 0 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1, 8, EINVAL },
		{ RDMA_OPTION_ID, 99, 1, 4, ENOSYS },
		{ RDMA_OPTION_IB, RDMA_OPTION_ID_TOS, 0x20, 1, ENOSYS },
	};
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_option(id, cases[i].level, cases[i].name, cases[i].value, cases[i].bytes, cases[i].error);
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
	(void)sock;
}

static void test_options(void **state)
{
	(void)state;
	kit_run(chooser, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remote_errors), cmocka_unit_test(test_changed_rights),
		cmocka_unit_test(test_deregistered),  cmocka_unit_test(test_self),
		cmocka_unit_test(test_receive_error), cmocka_unit_test(test_overrun),
		cmocka_unit_test(test_srq_limit),     cmocka_unit_test(test_resized), cmocka_unit_test(test_transitions),
		cmocka_unit_test(test_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
