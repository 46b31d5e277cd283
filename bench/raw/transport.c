/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/raw/transport.h"

#include <errno.h>
#include <string.h>

#define QKEY 0x4b4257u /* of datagrams between two kvbench */

const char *const rawtransport_names[RAWTRANSPORTS] = { "RC", "UC", "UD" };

enum ibv_qp_type rawtransport_qp_type(enum rawtransport t)
{
	static const enum ibv_qp_type types[RAWTRANSPORTS] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	return types[t];
}

bool rawtransport_has(enum rawtransport t, enum ibv_wr_opcode opcode)
{
	if (t == RAWTRANSPORT_RC || opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM)
		return true;
	return t == RAWTRANSPORT_UC &&
	       (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
}

/* What rdma_cm says of a connection (of RC, as it thinks) is for a UC or a UD queue pair, too: less
 * of it. */
static int attributes(const struct verbs *v, struct rdma_cm_id *id, enum ibv_qp_state state,
		      struct ibv_qp_attr *attr, struct err *err)
{
	int mask;

	memset(attr, 0, sizeof *attr);
	attr->qp_state = state;
	if (v->init_qp_attr(id, attr, &mask) != 0)
		return err_set_errno(err, -1, errno, "rdma_init_qp_attr failed");
	return 0;
}

static int modify(const struct verbs *v, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  const char *name, struct err *err)
{
	int rc = v->modify_qp(qp, attr, IBV_QP_STATE | mask);

	return rc == 0 ? 0 : err_set_errno(err, -1, rc, "can't bring the queue pair to %s", name);
}

int rawtransport_init(enum rawtransport t, const struct verbs *v, struct rdma_cm_id *id,
		      struct ibv_qp *qp, int access, struct err *err)
{
	int of_type = t == RAWTRANSPORT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	struct ibv_qp_attr attr;

	if (attributes(v, id, IBV_QPS_INIT, &attr, err) < 0)
		return -1;
	attr.qkey = QKEY;
	/* Of a connection that nobody acknowledges there are no other rights. */
	attr.qp_access_flags = (unsigned)access & IBV_ACCESS_REMOTE_WRITE;
	return modify(v, qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | of_type, "INIT", err);
}

static int learn_peer(const struct verbs *v, struct ibv_qp *qp, struct ibv_qp_attr *attr,
		      struct rawtransport_peer *peer, struct err *err)
{
	peer->ah = v->create_ah(qp->pd, &attr->ah_attr);
	if (peer->ah == NULL)
		return err_set_errno(err, -1, errno, "can't create an address handle");
	peer->qpn = attr->dest_qp_num;
	peer->message_bytes_max = 128ull << attr->path_mtu;
	return 0;
}

int rawtransport_ready(enum rawtransport t, const struct verbs *v, struct rdma_cm_id *id,
		       struct ibv_qp *qp, struct rawtransport_peer *peer, struct err *err)
{
	int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr attr;

	if (attributes(v, id, IBV_QPS_RTR, &attr, err) < 0)
		return -1;
	if (t == RAWTRANSPORT_UD && learn_peer(v, qp, &attr, peer, err) < 0)
		return -1;
	if (modify(v, qp, &attr, t == RAWTRANSPORT_UD ? 0 : connected, "RTR", err) < 0 ||
	    attributes(v, id, IBV_QPS_RTS, &attr, err) < 0)
		return -1;
	return modify(v, qp, &attr, IBV_QP_SQ_PSN, "RTS", err);
}

void rawtransport_forget(const struct verbs *v, struct rawtransport_peer *peer)
{
	if (peer->ah != NULL)
		v->destroy_ah(peer->ah);
	memset(peer, 0, sizeof *peer);
}

void rawtransport_address(const struct rawtransport_peer *peer, struct ibv_send_wr *wr)
{
	if (peer->ah == NULL)
		return;
	wr->wr.ud.ah = peer->ah;
	wr->wr.ud.remote_qpn = peer->qpn;
	wr->wr.ud.remote_qkey = QKEY;
}
