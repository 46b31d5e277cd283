/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post.c -- work requests from the program to the queues.
 *
 * A slot of the send queue is free again when the completion of its request, or of a
 * later one of the same queue, was polled, as with a NIC: a program that posts
 * unsignalled requests only gets ENOMEM after max_send_wr of them.
 */
#include <errno.h>
#include <string.h>
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/device.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/fail.h"
#include "common/softverbs/exec/sq.h"
#include "common/softverbs/object/ah.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/object/qp.h"
#include "common/softverbs/softverbs.h"
#include "common/softverbs/verbs/post.h"

static bool has_room(const struct sv_qp *qp, uint32_t n)
{
	/* acquire: partner pop() in exec/poll.c. */
	return qp->posted - atomic_load_explicit(&qp->polled, memory_order_acquire) + n <=
	       qp->cap.max_send_wr;
}

static int find_dest(struct sv_qp *qp, const struct ibv_send_wr *wr, struct sv_dest **dest)
{
	const uint8_t *gid = sv_ah_of(wr->wr.ud.ah)->attr.grh.dgid.raw;

	if (wr->wr.ud.remote_qpn == SV_QPN_GROUP && sv_gid_is_group(gid))
		return sv_dest_find_group(qp, gid, dest);
	return sv_dest_find(qp, wr->wr.ud.remote_qpn, dest);
}

/* What a datagram has besides: where it goes to, of which *dest is the place. */
static int check_dgram(struct sv_qp *qp, const struct ibv_send_wr *wr, struct sv_dest **dest)
{
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
		return EINVAL;
	if (!wr->wr.ud.ah || wr->wr.ud.ah->pd != qp->ib.pd)
		return EINVAL;
	return find_dest(qp, wr, dest);
}

/* Where a request goes that says so itself: of XRC the place is a branch. */
static int check_addressed(struct sv_qp *qp, const struct ibv_send_wr *wr, struct sv_dest **dest)
{
	struct sv_branch *branch;
	int ret;

	if (sv_qp_datagram(qp))
		return check_dgram(qp, wr, dest);
	if (!sv_qp_xrc_sender(qp) || wr->opcode == IBV_WR_SEND_WITH_INV)
		return EINVAL;
	ret = sv_branch_find(qp, wr->qp_type.xrc.remote_srqn, &branch);
	if (!ret)
		*dest = (struct sv_dest *)(void *)branch;
	return ret;
}

static int check_inline(const struct sv_qp *qp, const struct ibv_send_wr *wr)
{
	return wr->send_flags & IBV_SEND_INLINE &&
			       sv_sge_bytes(wr->sg_list, wr->num_sge) > qp->cap.max_inline_data ?
		       EINVAL :
		       0;
}

/* Of a window: nothing is sent. */
static int check_window(const struct sv_qp *qp, const struct ibv_send_wr *wr)
{
	if (sv_qp_datagram(qp) || wr->num_sge || wr->send_flags & IBV_SEND_INLINE)
		return EINVAL;
	if (wr->opcode == IBV_WR_LOCAL_INV)
		return 0;
	return wr->bind_mw.mw && (wr->bind_mw.bind_info.mr || !wr->bind_mw.bind_info.length) ? 0 : EINVAL;
}

static int check_wr(const struct sv_qp *qp, const struct ibv_send_wr *wr)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;

	if (wr->num_sge < 0 || (!is_inline && (uint32_t)wr->num_sge > qp->cap.max_send_sge))
		return EINVAL;
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		break;
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		if (is_inline || sv_qp_unreliable(qp))
			return EINVAL;
		break;
	case IBV_WR_SEND_WITH_INV:
		return sv_qp_unreliable(qp) ? EINVAL : check_inline(qp, wr);
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
		return check_window(qp, wr);
	default:
		return EOPNOTSUPP;
	}
	return check_inline(qp, wr);
}

static void copy_payload(struct sv_wqe *wqe, const struct ibv_send_wr *wr)
{
	if (wr->send_flags & IBV_SEND_INLINE) {
		sv_gather(wr->sg_list, wr->num_sge, 0, wqe->data, (size_t)wqe->len,
			  sv_copy_plain);
		wqe->nsge = 0;
	} else {
		for (int i = 0; i < wr->num_sge; i++)
			wqe->sge[i] = wr->sg_list[i];
		wqe->nsge = (uint16_t)wr->num_sge;
	}
}

static void fill_dgram(struct sv_wqe *wqe, const struct ibv_send_wr *wr, struct sv_dest *dest)
{
	const struct ibv_global_route *grh = &sv_ah_of(wr->wr.ud.ah)->attr.grh;
	const union ibv_gid *dgid = &grh->dgid;

	if (grh->sgid_index)
		wqe->flags |= SV_SEND_GID1;
	wqe->remote_addr = (uintptr_t)dest;
	wqe->rkey = wr->wr.ud.remote_qkey;
	memcpy(&wqe->compare_add, dgid->raw, sizeof(wqe->compare_add));
	memcpy(&wqe->swap, dgid->raw + sizeof(wqe->compare_add), sizeof(wqe->swap));
}

static void fill_bind(struct sv_wqe *wqe, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	wqe->nsge = 0;
	wqe->bind = (struct sv_mw_bind){ .mw = wr->bind_mw.mw, .rkey = wr->bind_mw.rkey,
					 .lkey = info->mr ? info->mr->lkey : 0,
					 .access = info->mw_access_flags, .addr = info->addr,
					 .length = info->length };
}

/* False: besides, it has all that others have. */
static bool fill_addressed(const struct sv_qp *qp, struct sv_wqe *wqe, const struct ibv_send_wr *wr,
			   struct sv_dest *dest)
{
	if (sv_qp_datagram(qp)) {
		fill_dgram(wqe, wr, dest);
		return true;
	}
	wqe->flags |= (uint16_t)(sv_branch_number((struct sv_branch *)(void *)dest) << SV_SEND_BRANCH_SHIFT);
	return false;
}

/* dest: of a request that says itself where it goes. */
static void enqueue(struct sv_qp *qp, const struct ibv_send_wr *wr, struct sv_dest *dest)
{
	uint32_t at = qp->sq_head + qp->sq_count++;
	struct sv_wqe *wqe = sv_wqe_at(qp, at >= qp->cap.max_send_wr ? at - qp->cap.max_send_wr : at);

	wqe->wr_id = wr->wr_id;
	wqe->number = ++qp->posted;
	wqe->opcode = (uint16_t)wr->opcode;
	wqe->flags = (uint16_t)(wr->send_flags & SV_SEND_FLAGS);
	wqe->stage = SV_STAGE_START;
	wqe->rnr_tries = 0;
	wqe->done = 0;
	wqe->imm = wr->imm_data;
	wqe->len = sv_sge_bytes(wr->sg_list, wr->num_sge);
	if (dest && fill_addressed(qp, wqe, wr, dest)) {
		; /* it has no remote memory */
	} else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
	if (wr->opcode == IBV_WR_BIND_MW)
		fill_bind(wqe, wr);
	else
		copy_payload(wqe, wr);
}

static void go_on(struct sv_qp *qp)
{
	if (qp->flushed)
		sv_sq_flush(qp);
	else
		sv_progress_locked(qp);
}

/* Looks whether a request may be queued; the place first of one that says itself where it goes, for which the lock may be
 * given up. */
static inline int prepare(struct sv_qp *qp, const struct ibv_send_wr *wr, struct sv_dest **dest)
{
	int ret = sv_qp_addressed(qp) ? check_addressed(qp, wr, dest) : 0;

	if (ret)
		return ret;
	if (sv_qp_addressed(qp) && sv_qp_state(qp) < IBV_QPS_RTS)
		return EINVAL;
	return has_room(qp, 1) ? check_wr(qp, wr) : ENOMEM;
}

int sv_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sv_qp *qp = sv_qp_of(ibqp);
	struct sv_dest *dest = NULL;
	int ret = 0;

	sv_spin_lock(&qp->sq_lock);
	if (sv_qp_state(qp) < IBV_QPS_RTS)
		ret = EINVAL;
	for (; !ret && wr; wr = wr->next) {
		ret = prepare(qp, wr, &dest);
		if (ret)
			break;
		enqueue(qp, wr, dest);
	}
	go_on(qp);
	sv_spin_unlock(&qp->sq_lock);
	if (ret)
		*bad = wr;
	return ret;
}

/* Type 1 gets its key here, another each time. */
int sv_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = { .wr_id = bind->wr_id, .send_flags = bind->send_flags,
				  .opcode = IBV_WR_BIND_MW }, *bad;
	int ret;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	ret = sv_post_send(ibqp, &wr, &bad);
	if (!ret)
		mw->rkey = wr.bind_mw.rkey;
	return ret;
}

/* All or none: places of all before the first is queued. */
static int check_all(struct sv_qp *qp, struct ibv_send_wr *wr, uint32_t n)
{
	struct sv_dest *dest;
	int ret = 0;

	for (uint32_t i = 0; !ret && i < n; i++)
		ret = check_wr(qp, &wr[i]);
	for (uint32_t i = 0; !ret && i < n && sv_qp_addressed(qp); i++)
		ret = check_addressed(qp, &wr[i], &dest);
	return ret;
}

int sv_post_all(struct sv_qp *qp, struct ibv_send_wr *wr, uint32_t n)
{
	struct sv_dest *dest = NULL;
	int ret;

	sv_spin_lock(&qp->sq_lock);
	ret = check_all(qp, wr, n);
	if (!ret && sv_qp_state(qp) < IBV_QPS_RTS)
		ret = EINVAL;
	else if (!ret && !has_room(qp, n))
		ret = ENOMEM;
	for (uint32_t i = 0; !ret && i < n; i++) {
		if (sv_qp_addressed(qp))
			ret = check_addressed(qp, &wr[i], &dest);
		if (!ret)
			enqueue(qp, &wr[i], dest);
	}
	go_on(qp);
	sv_spin_unlock(&qp->sq_lock);
	return ret;
}

int sv_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sv_qp *qp = sv_qp_of(ibqp);
	int ret;

	if (ibqp->srq || sv_qp_state(qp) == IBV_QPS_RESET) {
		*bad = wr;
		return EINVAL;
	}
	ret = sv_rq_post(qp->rq, wr, bad);
	/* Posted before this look, or flushed by whoever set the state. */
	if (atomic_load(&qp->ro->state) == IBV_QPS_ERR)
		sv_qp_flush_rq(qp);
	return ret;
}
