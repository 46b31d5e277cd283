/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uc [DEVICE] -- an unreliable connection: it writes and sends, and nobody acknowledges.
 *
 * A message that finds no receive is lost, and its sender's completion says success all the
 * same: it says that the message was sent.  There are no READs and atomics, as they are answers.
 */
#include "doc/examples/example.h"

static struct ibv_qp *new_uc(struct end *end)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UC, .sq_sig_all = 1, .send_cq = end->cq, .recv_cq = end->cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(end->pd, &init);

	NEED(qp);
	return qp;
}

/* As connect_qp() of example.h, without all that has to do with acknowledgements and READs. */
static void connect_uc(struct end *end, uint32_t peer_qpn, const union ibv_gid *gid, uint16_t lid)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	NEED_0(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						     IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = peer_qpn };
	fill_address(&attr.ah_attr, end->context, gid, lid);
	NEED_0(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
	attr.qp_state = IBV_QPS_RTS;
	NEED_0(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void open_uc(struct end *end, struct ibv_context *context)
{
	open_end(end, context, NULL, NULL);
	NEED_0(ibv_destroy_qp(end->qp));
	end->qp = new_uc(end);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_port_attr port;
	struct end a, b;
	union ibv_gid gid;

	open_uc(&a, context);
	open_uc(&b, context);
	NEED_0(ibv_query_port(context, 1, &port));
	NEED_0(ibv_query_gid(context, 1, gid_index(context), &gid));
	connect_uc(&a, b.qp->qp_num, &gid, port.lid);
	connect_uc(&b, a.qp->qp_num, &gid, port.lid);

	strcpy(a.mem, "lost");
	post(&a, &b, IBV_WR_SEND, 16);
	next_completion(a.cq);
	printf("sent, with no receive posted: success\n");
	post_receive(&b, 1);
	strcpy(a.mem, "it arrives");
	post(&a, &b, IBV_WR_SEND, 16);
	next_completion(a.cq);
	next_completion(b.cq);
	printf("received: %s\n", b.mem);
	if (strcmp(b.mem, "it arrives"))
		return 1;
	close_end(&a);
	close_end(&b);
	NEED_0(ibv_close_device(context));
	return 0;
}
