/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_qp.c -- queue pairs of connection management.
 *
 * sv_init_qp_attr() says what a queue pair needs for its next state.  Attributes
 * are those of the kernel's: access to everything (READ and atomics only with
 * responder resources), which a caller that trusts nobody has to take away before
 * sv_modify_qp().  A queue pair made by sv_rdma_create_qp() gets them as they are.
 */
#include <errno.h>
#include <string.h>
#include "common/softverbs/cm.h"

static void init_attr(const struct sv_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	attr->port_num = 1;
	if (id->state < SV_CM_CONNECTING)
		return;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void rtr_attr(const struct sv_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	attr->path_mtu = IBV_MTU_4096;
	attr->dest_qp_num = id->remote_qpn;
	attr->rq_psn = id->remote_psn;
	attr->max_dest_rd_atomic = id->responder_resources;
	attr->min_rnr_timer = 0;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.grh.hop_limit = 64;
	attr->ah_attr.grh.traffic_class = id->tos;
	attr->ah_attr.port_num = 1;
	attr->ah_attr.grh.dgid.raw[15] = 1;
}

static void rts_attr(const struct sv_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	attr->timeout = id->ack_timeout;
	attr->retry_cnt = id->retry_count;
	attr->rnr_retry = id->rnr_retry_count;
	attr->sq_psn = id->psn;
	attr->max_rd_atomic = id->initiator_depth;
}

static int fill_attr(const struct sv_id *id, struct ibv_qp_attr *attr, int *mask)
{
	enum ibv_qp_state state = attr->qp_state;
	bool known = id->state >= SV_CM_RESPONDED && id->state <= SV_CM_CONNECTED;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	switch (state) {
	case IBV_QPS_INIT:
		init_attr(id, attr, mask);
		return id->id.verbs ? 0 : EINVAL;
	case IBV_QPS_RTR:
		rtr_attr(id, attr, mask);
		return known ? 0 : EINVAL;
	case IBV_QPS_RTS:
		rts_attr(id, attr, mask);
		return known ? 0 : EINVAL;
	default:
		return EINVAL;
	}
}

int sv_init_qp_attr(struct rdma_cm_id *cm_id, struct ibv_qp_attr *attr, int *mask)
{
	int ret;

	pthread_mutex_lock(&sv_cm.lock);
	ret = fill_attr(sv_id_of(cm_id), attr, mask);
	pthread_mutex_unlock(&sv_cm.lock);
	if (!ret)
		return 0;
	errno = ret;
	return -1;
}

static int step(struct sv_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	if (sv_init_qp_attr(&id->id, &attr, &mask))
		return errno;
	return sv_modify_qp(id->id.qp, &attr, mask);
}

int sv_cm_qp_to_init(struct sv_id *id)
{
	return step(id, IBV_QPS_INIT);
}

int sv_cm_qp_to_rts(struct sv_id *id)
{
	/* INIT again: now it is known what the peer may do. */
	int ret = step(id, IBV_QPS_INIT);

	if (!ret)
		ret = step(id, IBV_QPS_RTR);
	if (!ret)
		ret = step(id, IBV_QPS_RTS);
	return ret;
}

int sv_cm_qp_to_error(struct sv_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return sv_modify_qp(id->id.qp, &attr, IBV_QP_STATE);
}

int sv_rdma_create_qp(struct rdma_cm_id *cm_id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp;
	int ret;

	if (!pd)
		pd = cm_id->pd;
	if (cm_id->qp || !cm_id->verbs || !pd || pd->context != cm_id->verbs) {
		errno = EINVAL;
		return -1;
	}
	qp = sv_create_qp(pd, attr);
	if (!qp)
		return -1;
	cm_id->qp = qp;
	ret = sv_cm_qp_to_init(sv_id_of(cm_id));
	if (ret) {
		cm_id->qp = NULL;
		sv_destroy_qp(qp);
		errno = ret;
		return -1;
	}
	cm_id->pd = pd;
	cm_id->send_cq = attr->send_cq;
	cm_id->recv_cq = attr->recv_cq;
	cm_id->srq = attr->srq;
	return 0;
}

void sv_rdma_destroy_qp(struct rdma_cm_id *cm_id)
{
	if (cm_id->qp)
		sv_destroy_qp(cm_id->qp);
	cm_id->qp = NULL;
}
