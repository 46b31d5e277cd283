/* SPDX-License-Identifier: BSD-2-Clause */
/* ud.h -- a queue pair of datagrams: what the examples on them have in common. */
#ifndef DOC_EXAMPLES_UD_H
#define DOC_EXAMPLES_UD_H

#include "doc/examples/example.h"

#define QKEY 0x1234u
/* In front of each datagram that is received: from where to where it went. */
#define GRH_BYTES ((uint32_t)sizeof(struct ibv_grh))

/* It is connected to nobody; whoever knows its number and its Q_Key may send to it. */
static inline void open_ud(struct end *end, struct ibv_context *context)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	open_end(end, context, NULL, NULL);
	NEED_0(ibv_destroy_qp(end->qp));
	init.send_cq = init.recv_cq = end->cq;
	end->qp = ibv_create_qp(end->pd, &init);
	NEED(end->qp);
	NEED_0(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	NEED_0(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	NEED_0(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

/* From behind the place that a GRH would have. */
static inline void send_datagram(struct end *from, struct ibv_ah *ah, uint32_t qpn, const char *text)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from->mem + GRH_BYTES, .length = 32,
			       .lkey = from->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	snprintf(from->mem + GRH_BYTES, 32, "%s", text);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	NEED_0(ibv_post_send(from->qp, &wr, &bad));
}

#endif
