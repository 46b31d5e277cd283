/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp.c -- queue pairs of connection management.
 *
 * sv_init_qp_attr() says what a queue pair needs for its next state.  Attributes
 * are those of the kernel's: access to everything (READ and atomics only with
 * responder resources), which a caller that trusts nobody has to take away before
 * sv_modify_qp().  A queue pair made by sv_rdma_create_qp() gets them as they are.
 */
#include <errno.h>
#include <string.h>
#include "common/softverbs/base/limits.h"
#include "common/softverbs/cm/id.h"
#include "common/softverbs/cm/qp.h"
#include "common/softverbs/softverbs.h"

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

static int ud_attr(const struct sv_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE;
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
		attr->port_num = 1;
		attr->qkey = RDMA_UDP_QKEY;
		return id->id.verbs ? 0 : EINVAL;
	case IBV_QPS_RTR:
		return 0;
	case IBV_QPS_RTS:
		*mask |= IBV_QP_SQ_PSN;
		return 0;
	default:
		return EINVAL;
	}
}

static int fill_attr(const struct sv_id *id, struct ibv_qp_attr *attr, int *mask)
{
	enum ibv_qp_state state = attr->qp_state;
	bool known = id->state >= SV_CM_RESPONDED && id->state <= SV_CM_CONNECTED;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	if (sv_id_datagram(id))
		return ud_attr(id, attr, mask);
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

/* One for datagrams has nobody to wait for. */
static int to_first_state(struct sv_id *id)
{
	int ret = step(id, IBV_QPS_INIT);

	if (!ret && sv_id_datagram(id))
		ret = step(id, IBV_QPS_RTR);
	if (!ret && sv_id_datagram(id))
		ret = step(id, IBV_QPS_RTS);
	return ret;
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

/* ---- the queues of an id that its owner didn't give ---- */

static int make_cq(struct rdma_cm_id *id, uint32_t cqe, struct ibv_cq **cq,
		   struct ibv_comp_channel **channel)
{
	*channel = sv_create_comp_channel(id->verbs);
	if (!*channel)
		return errno;
	*cq = sv_create_cq(id->verbs, cqe ? (int)cqe : 1, id, *channel, 0);
	if (*cq)
		return 0;
	int ret = errno;
	sv_destroy_comp_channel(*channel);
	*channel = NULL;
	return ret;
}

static void drop_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		sv_destroy_cq(*cq);
	if (*channel)
		sv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static void drop_queues(struct rdma_cm_id *id)
{
	drop_cq(&id->send_cq, &id->send_cq_channel);
	drop_cq(&id->recv_cq, &id->recv_cq_channel);
}

static int make_queues(struct rdma_cm_id *id, struct ibv_qp_init_attr *attr)
{
	int ret = 0;

	if (!attr->srq)
		attr->srq = id->srq;
	if (!attr->send_cq)
		ret = make_cq(id, attr->cap.max_send_wr, &id->send_cq, &id->send_cq_channel);
	if (!ret && !attr->recv_cq)
		ret = make_cq(id, attr->srq ? SV_MAX_QP_WR : attr->cap.max_recv_wr, &id->recv_cq,
			      &id->recv_cq_channel);
	if (ret) {
		drop_queues(id);
		return ret;
	}
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	return 0;
}

static int check_id(const struct rdma_cm_id *id, const struct ibv_pd *pd)
{
	return id->qp || !id->verbs || !pd || pd->context != id->verbs ? EINVAL : 0;
}

/* Makes it with what make() is given, in state INIT, or RTS if it is for datagrams; 0, or an errno value. */
static int make_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		   struct ibv_qp *(*make)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr))
{
	int ret = attr->qp_type == id->qp_type ? make_queues(id, attr) : EINVAL;

	if (ret)
		return ret;
	id->qp = make(pd, attr);
	if (!id->qp) {
		ret = errno;
	} else {
		ret = to_first_state(sv_id_of(id));
		if (ret)
			sv_destroy_qp(id->qp);
	}
	if (ret) {
		id->qp = NULL;
		drop_queues(id);
		return ret;
	}
	id->pd = pd;
	return 0;
}

int sv_rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int ret;

	if (!pd)
		pd = id->pd;
	ret = check_id(id, pd);
	if (!ret)
		ret = make_qp(id, pd, attr, sv_create_qp);
	if (!ret)
		return 0;
	errno = ret;
	return -1;
}

static struct ibv_qp *make_ex(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return sv_create_qp_ex(pd->context, (struct ibv_qp_init_attr_ex *)(void *)attr);
}

int sv_rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int ret;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	ret = check_id(id, attr->pd);
	/* It begins with the members of struct ibv_qp_init_attr. */
	if (!ret)
		ret = make_qp(id, attr->pd, (struct ibv_qp_init_attr *)(void *)attr, make_ex);
	if (!ret)
		return 0;
	errno = ret;
	return -1;
}

void sv_rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (!id->qp)
		return;
	sv_destroy_qp(id->qp);
	id->qp = NULL;
	drop_queues(id);
}
