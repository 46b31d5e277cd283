/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.c -- XRC: one connection to all shared receive queues of a domain, also of other processes. */
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED
#define SRQS 2
#define BYTES 65536u

/* A process with the domain's receive queues: the first has the target queue pair as well. */
struct owner {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	struct ibv_comp_channel *chan;
	struct ibv_cq *cq[SRQS];
	struct ibv_srq *srq[SRQS];
	struct ibv_qp *target;
	struct ibv_mr *mr;
	uint8_t *mem;
};

static int file = -1; /* the domain's, before any process is forked */

static struct ibv_xrcd *open_domain(struct ibv_context *ctx, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = fd, .oflags = oflags };

	return ibv_open_xrcd(ctx, &attr);
}

static struct ibv_srq *new_srq(struct owner *o, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 64, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = o->pd,
		.xrcd = o->xrcd, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(o->ctx, &attr);

	CHECK(srq);
	attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
	CHECK(!ibv_create_srq_ex(o->ctx, &attr) && errno == EINVAL);
	return srq;
}

static void open_owner(struct owner *o, int fd)
{
	memset(o, 0, sizeof(*o));
	o->ctx = kit_open_device();
	CHECK((o->pd = sv_alloc_pd(o->ctx)) != NULL);
	CHECK((o->xrcd = open_domain(o->ctx, fd, O_CREAT)) != NULL);
	CHECK((o->chan = sv_create_comp_channel(o->ctx)) != NULL);
	CHECK(!sv_mem_alloc(SRQS * BYTES, 0, (void **)&o->mem));
	CHECK((o->mr = sv_reg_mr(o->pd, o->mem, SRQS * BYTES,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) != NULL);
	for (int i = 0; i < SRQS; i++) {
		CHECK((o->cq[i] = sv_create_cq(o->ctx, 64, NULL, o->chan, 0)) != NULL);
		o->srq[i] = new_srq(o, o->cq[i]);
		CHECK(!ibv_req_notify_cq(o->cq[i], 0));
	}
	CHECK(ibv_close_xrcd(o->xrcd) == EBUSY && sv_destroy_cq(o->cq[0]) == EBUSY);
}

static void post(struct owner *o, int i, uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)o->mem + (size_t)i * BYTES, bytes, o->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_srq_recv(o->srq[i], &wr, &bad));
}

static void connect_target(struct owner *o, uint32_t qpn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	CHECK(!sv_modify_qp(o->target, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						      IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .dest_qp_num = qpn, .min_rnr_timer = 1 };
	CHECK(!sv_modify_qp(o->target, &attr, rtr));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	CHECK(sv_modify_qp(o->target, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN |
						     IBV_QP_RETRY_CNT) == EINVAL);
	CHECK(!sv_modify_qp(o->target, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN));
}

static struct ibv_qp *new_target(struct owner *o)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .xrcd = o->xrcd,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_recv_wr recv = { .num_sge = 0 }, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_qp *qp = ibv_create_qp_ex(o->ctx, &init);

	CHECK(qp);
	CHECK(ibv_post_recv(qp, &recv, &bad_recv) && ibv_post_send(qp, &send, &bad_send));
	init.comp_mask |= IBV_QP_INIT_ATTR_PD;
	CHECK(!ibv_create_qp_ex(o->ctx, &init) && errno == EINVAL);
	return qp;
}

static uint32_t srqn(struct ibv_srq *srq)
{
	uint32_t number;

	CHECK(!ibv_get_srq_num(srq, &number));
	return number;
}

/* What came is the sender's, by way of the target; asleep until then. */
static void take(struct owner *o, int i, uint32_t target_qpn, uint64_t wr_id, const char *text)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	while (ibv_poll_cq(o->cq[i], 1, &wc) == 0) {
		CHECK(!sv_get_cq_event(o->chan, &cq, &context));
		sv_ack_cq_events(cq, 1);
		CHECK(!ibv_req_notify_cq(cq, 0));
	}
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id && wc.qp_num == target_qpn);
	CHECK(!text || !strcmp((char *)o->mem + (size_t)i * BYTES, text));
}

static void close_owner(struct owner *o)
{
	if (o->target)
		CHECK(!sv_destroy_qp(o->target));
	for (int i = 0; i < SRQS; i++)
		CHECK(!sv_destroy_srq(o->srq[i]) && !sv_destroy_cq(o->cq[i]));
	CHECK(!sv_destroy_comp_channel(o->chan));
	CHECK(!ibv_close_xrcd(o->xrcd));
	CHECK(!sv_dereg_mr(o->mr) && !sv_mem_free(o->mem));
	CHECK(!sv_dealloc_pd(o->pd));
	CHECK(!sv_close_device(o->ctx));
}

/* ---- the sender ---- */

static void to_rts(struct kit *k, struct ibv_qp *qp, uint32_t qpn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .dest_qp_num = qpn };
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	CHECK(sv_modify_qp(qp, &attr, rtr | IBV_QP_MIN_RNR_TIMER) == EINVAL);
	CHECK(!sv_modify_qp(qp, &attr, rtr));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 3, .rnr_retry = 7 };
	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	(void)k;
}

static struct ibv_qp *new_sender(struct kit *k)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND, .send_cq = k->scq, .pd = k->pd,
		.cap = { .max_send_wr = 64, .max_send_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(k->ctx, &init);

	CHECK(qp && sv_qp_to_qp_ex(qp)->wr_set_xrc_srqn);
	kit_to_init(k, qp);
	return qp;
}

static struct ibv_send_wr request(struct ibv_sge *sge, uint32_t to, enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = 1, .opcode = opcode,
				  .send_flags = S };

	wr.qp_type.xrc.remote_srqn = to;
	return wr;
}

static int send_to(struct kit *k, uint32_t to, size_t at, uint32_t bytes, enum ibv_wr_opcode opcode,
		   uint64_t wr_id)
{
	struct ibv_sge sge = kit_sge(k, at, bytes);
	struct ibv_send_wr wr = request(&sge, to, opcode, wr_id), *bad;

	wr.wr.rdma.remote_addr = k->addr;
	wr.wr.rdma.rkey = k->rkey;
	return ibv_post_send(k->qp, &wr, &bad);
}

/* Both at one doorbell: the receivers sleep, and each is woken. */
static void send_both(struct kit *k, const uint32_t to[2])
{
	struct ibv_sge sge[2] = { kit_sge(k, 0, 16), kit_sge(k, 64, 16) };
	struct ibv_send_wr wr[2], *bad;

	for (int i = 0; i < 2; i++)
		wr[i] = request(&sge[i], to[i], IBV_WR_SEND, 10 + (uint64_t)i);
	wr[0].next = &wr[1];
	CHECK(!ibv_post_send(k->qp, wr, &bad));
	kit_expect(k->scq, 10, IBV_WC_SUCCESS);
	kit_expect(k->scq, 11, IBV_WC_SUCCESS);
}

static void send_ex(struct kit *k, uint32_t to)
{
	struct ibv_qp_ex *ex = sv_qp_to_qp_ex(k->qp);

	ibv_wr_start(ex);
	ex->wr_id = 20;
	ex->wr_flags = S;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, to);
	ibv_wr_set_sge(ex, k->mr->lkey, (uintptr_t)k->mem, 16);
	CHECK(!ibv_wr_complete(ex));
	kit_expect(k->scq, 20, IBV_WC_SUCCESS);
}

static void open_sender(struct kit *k, int sock)
{
	kit_open(k, &kit_defaults, sock);
	CHECK(!sv_destroy_qp(k->qp));
	k->qp = new_sender(k);
	strcpy((char *)k->mem, "to the first");
	strcpy((char *)k->mem + 64, "to the second");
}

/* ---- two processes share a domain; a third one sends to both over one connection ---- */

static int mates[2]; /* between the two owners */

static void sender(int sock)
{
	uint32_t to[2], other;
	struct kit k;

	open_sender(&k, sock);
	kit_say(sock, k.qp->qp_num);
	to_rts(&k, k.qp, (uint32_t)kit_hear(sock));
	to[0] = (uint32_t)kit_hear(sock);
	other = (uint32_t)kit_hear(sock);
	to[1] = (uint32_t)kit_hear(sock);
	k.addr = kit_hear(sock);
	k.rkey = (uint32_t)kit_hear(sock);
	kit_meet(&k);
	send_both(&k, to);
	kit_meet(&k);
	send_both(&k, to); /* both are known now: nothing is waited for in between */
	kit_meet(&k);
	send_ex(&k, other);
	/* Long, and nobody posted yet; then a WRITE by the receive queue's domain. */
	memset(k.mem, 'x', BYTES);
	CHECK(!send_to(&k, to[1], 0, BYTES, IBV_WR_SEND, 30));
	kit_expect(k.scq, 30, IBV_WC_SUCCESS);
	strcpy((char *)k.mem, "written");
	CHECK(!send_to(&k, to[0], 0, 16, IBV_WR_RDMA_WRITE, 31));
	kit_expect(k.scq, 31, IBV_WC_SUCCESS);
	kit_meet(&k);
	/* Not of this domain: the request fails, and the target too. */
	CHECK(!send_to(&k, to[0] + 200, 0, 16, IBV_WR_SEND, 32));
	kit_expect(k.scq, 32, IBV_WC_REM_INV_REQ_ERR);
	CHECK(kit_state(k.qp) == IBV_QPS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void first_owner(int sock)
{
	struct owner o;
	struct kit link = { .sock = sock };

	open_owner(&o, file);
	CHECK(!open_domain(o.ctx, file, O_CREAT | O_EXCL) && errno == EEXIST);
	CHECK(!open_domain(o.ctx, -1, 0) && errno == EINVAL);
	o.target = new_target(&o);
	kit_say(sock, o.target->qp_num);
	connect_target(&o, (uint32_t)kit_hear(sock));
	kit_say(mates[0], o.target->qp_num);
	post(&o, 0, 64, 1);
	post(&o, 0, 64, 3);
	post(&o, 1, 64, 2);
	kit_say(sock, srqn(o.srq[0]));
	kit_say(sock, srqn(o.srq[1]));
	kit_say(sock, kit_hear(mates[0]));
	kit_say(sock, (uintptr_t)o.mem);
	kit_say(sock, o.mr->rkey);
	kit_meet(&link);
	take(&o, 0, o.target->qp_num, 1, "to the first");
	CHECK(kit_hear(mates[0]) == 1);
	kit_meet(&link);
	take(&o, 0, o.target->qp_num, 3, "to the first");
	CHECK(kit_hear(mates[0]) == 2);
	kit_meet(&link);
	take(&o, 1, o.target->qp_num, 2, "to the first");
	kit_meet(&link);
	CHECK(!strcmp((char *)o.mem, "written"));
	kit_meet(&link);
	kit_wait_state(o.target, IBV_QPS_ERR);
	kit_say(mates[0], 1);
	close_owner(&o);
}

static void second_owner(void)
{
	uint32_t target;
	struct owner o;

	open_owner(&o, file);
	target = (uint32_t)kit_hear(mates[1]);
	post(&o, 0, 64, 5);
	post(&o, 0, 64, 7);
	kit_say(mates[1], srqn(o.srq[0]));
	take(&o, 0, target, 5, "to the second");
	kit_say(mates[1], 1);
	take(&o, 0, target, 7, "to the second");
	kit_say(mates[1], 2);
	post(&o, 0, BYTES, 6);
	take(&o, 0, target, 6, NULL);
	for (uint32_t i = 0; i < BYTES; i++)
		CHECK(o.mem[i] == 'x');
	CHECK(kit_hear(mates[1]) == 1);
	close_owner(&o);
	exit(0);
}

static void test_shared(void **state)
{
	FILE *domain = tmpfile();
	pid_t pid;

	(void)state;
	assert_non_null(domain);
	file = fileno(domain);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, mates), 0);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(KIT_LIMIT_S * 2);
		second_owner();
	}
	kit_run(sender, first_owner);
	assert_int_equal(kit_status(pid), 0);
	fclose(domain);
	close(mates[0]);
	close(mates[1]);
}

/* ---- all in one process; a sender that leaves before its message was polled ---- */

static void alone(int sock)
{
	struct owner o;
	struct kit k;

	open_owner(&o, -1);
	open_sender(&k, sock);
	o.target = new_target(&o);
	connect_target(&o, k.qp->qp_num);
	to_rts(&k, k.qp, o.target->qp_num);
	for (uint64_t i = 0; i < 3; i++) {
		post(&o, 0, 64, i);
		CHECK(!send_to(&k, srqn(o.srq[0]), 0, 16, IBV_WR_SEND, i));
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
	}
	take(&o, 0, o.target->qp_num, 0, "to the first");
	kit_close(&k);
	take(&o, 0, o.target->qp_num, 1, "to the first");
	take(&o, 0, o.target->qp_num, 2, "to the first");
	close_owner(&o);
	(void)sock;
}

static void test_alone(void **state)
{
	(void)state;
	kit_run(alone, kit_nothing);
}

/* ---- the target's process dies ---- */

static void orphan(int sock)
{
	struct kit k;
	uint32_t to;

	open_sender(&k, sock);
	kit_say(sock, k.qp->qp_num);
	to_rts(&k, k.qp, (uint32_t)kit_hear(sock));
	to = (uint32_t)kit_hear(sock);
	CHECK(!send_to(&k, to, 0, 16, IBV_WR_SEND, 1));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_say(sock, 1);
	CHECK(read(sock, &to, 1) == 0); /* it is dead */
	CHECK(!send_to(&k, to, 0, 16, IBV_WR_SEND, 2));
	kit_expect(k.scq, 2, IBV_WC_RETRY_EXC_ERR);
	kit_close(&k);
}

static void mortal(int sock)
{
	struct owner o;

	open_owner(&o, -1);
	o.target = new_target(&o);
	kit_say(sock, o.target->qp_num);
	connect_target(&o, (uint32_t)kit_hear(sock));
	post(&o, 0, 64, 1);
	kit_say(sock, srqn(o.srq[0]));
	take(&o, 0, o.target->qp_num, 1, "to the first");
	CHECK(kit_hear(sock) == 1);
	kill(getpid(), SIGKILL);
}

static void test_death(void **state)
{
	(void)state;
	kit_run_two(orphan, mortal, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_death),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
