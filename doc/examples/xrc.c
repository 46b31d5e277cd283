/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrc [DEVICE] -- XRC: one connection to all shared receive queues of a domain.
 *
 * A sender is connected to a target, and names a receive queue in each request.  With RC, each
 * process of one machine needs a connection to each process of another; with XRC each needs
 * one to the other machine.  Processes share a domain by a file (here there is one, without).
 */
#include <fcntl.h>
#include "doc/examples/example.h"

#define QUEUES 2

static struct ibv_qp *new_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex init)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);

	NEED(qp);
	NEED_0(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS));
	return qp;
}

/* A target has what serves requests, a sender what asks: each has half of the attributes. */
static void connect_half(struct ibv_context *context, struct ibv_qp *qp, uint32_t peer_qpn, int more_rtr,
			 int more_rts)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer_qpn,
				    .min_rnr_timer = 12 };
	struct ibv_port_attr port;
	union ibv_gid gid;

	NEED_0(ibv_query_port(context, 1, &port));
	NEED_0(ibv_query_gid(context, 1, gid_index(context), &gid));
	fill_address(&attr.ah_attr, context, &gid, port.lid);
	NEED_0(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
						IBV_QP_RQ_PSN | more_rtr));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 };
	NEED_0(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN | more_rts));
}

static void send_to(struct end *from, struct ibv_srq *srq)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from->mem, .length = 32, .lkey = from->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	NEED_0(ibv_get_srq_num(srq, &wr.qp_type.xrc.remote_srqn));
	NEED_0(ibv_post_send(from->qp, &wr, &bad));
	next_completion(from->cq);
}

/* A shared receive queue, whose completions come to that end's queue, with one receive. */
static struct ibv_srq *new_srq(struct end *end, struct ibv_xrcd *domain)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 4, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC,
		.pd = end->pd, .xrcd = domain, .cq = end->cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_sge sge = { .addr = (uintptr_t)end->mem, .length = MEM_BYTES, .lkey = end->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_srq *srq = ibv_create_srq_ex(end->context, &init);

	NEED(srq);
	NEED_0(ibv_post_srq_recv(srq, &wr, &bad));
	return srq;
}

static struct ibv_xrcd *open_domain(struct ibv_context *context)
{
	struct ibv_xrcd_init_attr init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *domain = ibv_open_xrcd(context, &init);

	NEED(domain);
	return domain;
}

/* Its own queue pair, of RC, makes place for the sender. */
static void become_sender(struct end *end)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_SEND, .send_cq = end->cq, .pd = end->pd,
					    .cap = { .max_send_wr = 4, .max_send_sge = 1 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD };

	NEED_0(ibv_destroy_qp(end->qp));
	end->qp = new_qp(end->context, init);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_xrcd *domain = open_domain(context);
	struct ibv_qp *target = new_qp(context, (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_XRC_RECV, .xrcd = domain, .comp_mask = IBV_QP_INIT_ATTR_XRCD });
	struct end sender, to[QUEUES];
	struct ibv_srq *srq[QUEUES];

	open_end(&sender, context, NULL, NULL);
	become_sender(&sender);
	connect_half(context, target, sender.qp->qp_num, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, 0);
	connect_half(context, sender.qp, target->qp_num, 0,
		     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	for (int i = 0; i < QUEUES; i++) {
		struct ibv_wc wc;

		open_end(&to[i], context, NULL, NULL);
		srq[i] = new_srq(&to[i], domain);
		snprintf(sender.mem, 32, "to queue %d", i);
		send_to(&sender, srq[i]);
		wc = next_completion(to[i].cq);
		printf("%s, by the %s\n", to[i].mem, wc.qp_num == target->qp_num ? "one target" : "wrong way");
	}
	close_end(&sender);
	NEED_0(ibv_destroy_qp(target));
	for (int i = 0; i < QUEUES; i++) {
		NEED_0(ibv_destroy_srq(srq[i]));
		close_end(&to[i]);
	}
	NEED_0(ibv_close_xrcd(domain));
	NEED_0(ibv_close_device(context));
	return 0;
}
