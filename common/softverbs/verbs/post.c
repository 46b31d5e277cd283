/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post.c -- work requests from the program to the queues.
 *
 * A slot of the send queue is free again when the completion of its request, or of a
 * later one of the same queue, was polled, as with a NIC: a program that posts
 * unsignalled requests only gets ENOMEM after max_send_wr of them.
 */
#include <errno.h>
#include "common/softverbs/base/copy.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/fail.h"
#include "common/softverbs/exec/sq.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/object/qp.h"
#include "common/softverbs/verbs/post.h"

static bool has_room(const struct sv_qp *qp, uint32_t n)
{
	/* acquire: partner pop() in exec/poll.c. */
	return qp->posted - atomic_load_explicit(&qp->polled, memory_order_acquire) + n <=
	       qp->cap.max_send_wr;
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
	default:
		return EOPNOTSUPP;
	}
	if (is_inline && sv_sge_bytes(wr->sg_list, wr->num_sge) > qp->cap.max_inline_data)
		return EINVAL;
	return 0;
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

static void enqueue(struct sv_qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t at = qp->sq_head + qp->sq_count++;
	struct sv_wqe *wqe = sv_wqe_at(qp, at >= qp->cap.max_send_wr ? at - qp->cap.max_send_wr : at);

	wqe->wr_id = wr->wr_id;
	wqe->number = ++qp->posted;
	wqe->opcode = (uint16_t)wr->opcode;
	wqe->flags = (uint16_t)(wr->send_flags & ~(unsigned int)SV_SEND_ACKED);
	wqe->stage = SV_STAGE_START;
	wqe->rnr_tries = 0;
	wqe->done = 0;
	wqe->imm = wr->imm_data;
	wqe->len = sv_sge_bytes(wr->sg_list, wr->num_sge);
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
	copy_payload(wqe, wr);
}

static void go_on(struct sv_qp *qp)
{
	if (qp->flushed)
		sv_sq_flush(qp);
	else
		sv_progress_locked(qp);
}

int sv_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sv_qp *qp = sv_qp_of(ibqp);
	int ret = 0;

	sv_spin_lock(&qp->sq_lock);
	if (sv_qp_state(qp) < IBV_QPS_RTS)
		ret = EINVAL;
	for (; !ret && wr; wr = wr->next) {
		ret = has_room(qp, 1) ? check_wr(qp, wr) : ENOMEM;
		if (ret)
			break;
		enqueue(qp, wr);
	}
	go_on(qp);
	sv_spin_unlock(&qp->sq_lock);
	if (ret)
		*bad = wr;
	return ret;
}

int sv_post_all(struct sv_qp *qp, struct ibv_send_wr *wr, uint32_t n)
{
	int ret = 0;

	sv_spin_lock(&qp->sq_lock);
	if (sv_qp_state(qp) < IBV_QPS_RTS)
		ret = EINVAL;
	else if (!has_room(qp, n))
		ret = ENOMEM;
	for (uint32_t i = 0; !ret && i < n; i++)
		ret = check_wr(qp, &wr[i]);
	for (uint32_t i = 0; !ret && i < n; i++)
		enqueue(qp, &wr[i]);
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
