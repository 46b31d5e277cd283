/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.h -- what the tests of XRC share: owners of receive queues, and senders. */
#ifndef TESTS_UNIT_SOFTVERBS_XRC_H
#define TESTS_UNIT_SOFTVERBS_XRC_H

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

static inline struct ibv_xrcd *open_domain(struct ibv_context *ctx, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = fd, .oflags = oflags };

	return ibv_open_xrcd(ctx, &attr);
}

static inline struct ibv_srq *new_srq(struct owner *o, struct ibv_cq *cq)
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
	attr.srq_type = IBV_SRQT_TM;
	CHECK(!ibv_create_srq_ex(o->ctx, &attr) && errno == EOPNOTSUPP);
	return srq;
}

static inline void open_owner(struct owner *o, int fd)
{
	memset(o, 0, sizeof(*o));
	o->ctx = kit_open_device();
	CHECK((o->pd = sv_alloc_pd(o->ctx)) != NULL);
	CHECK(!open_domain(o->ctx, 1 << 30, O_CREAT) && errno == EBADF);
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

static inline void post(struct owner *o, int i, uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)o->mem + (size_t)i * BYTES, bytes, o->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_srq_recv(o->srq[i], &wr, &bad));
}

static inline void connect_target(struct owner *o, uint32_t qpn)
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

static inline struct ibv_qp *new_target(struct owner *o)
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

static inline uint32_t srqn(struct ibv_srq *srq)
{
	uint32_t number;

	CHECK(!ibv_get_srq_num(srq, &number));
	return number;
}

/* What came is the sender's, by way of the target; asleep until then. */
static inline void take(struct owner *o, int i, uint32_t target_qpn, uint64_t wr_id, const char *text)
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

static inline void close_owner(struct owner *o)
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

static inline void to_rts(struct kit *k, struct ibv_qp *qp, uint32_t qpn)
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

static inline struct ibv_qp *new_sender(struct kit *k)
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

static inline struct ibv_send_wr request(struct ibv_sge *sge, uint32_t to, enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = 1, .opcode = opcode,
				  .send_flags = S };

	wr.qp_type.xrc.remote_srqn = to;
	return wr;
}

static inline int send_to(struct kit *k, uint32_t to, size_t at, uint32_t bytes, enum ibv_wr_opcode opcode,
		   uint64_t wr_id)
{
	struct ibv_sge sge = kit_sge(k, at, bytes);
	struct ibv_send_wr wr = request(&sge, to, opcode, wr_id), *bad;

	wr.wr.rdma.remote_addr = k->addr;
	wr.wr.rdma.rkey = k->rkey;
	return ibv_post_send(k->qp, &wr, &bad);
}

static inline void open_sender(struct kit *k, int sock)
{
	kit_open(k, &kit_defaults, sock);
	CHECK(!sv_destroy_qp(k->qp));
	k->qp = new_sender(k);
	strcpy((char *)k->mem, "to the first");
	strcpy((char *)k->mem + 64, "to the second");
}

#endif
