/* SPDX-License-Identifier: BSD-2-Clause */
/* sq.c -- the send queue: how its requests end. */
#include "common/softverbs/base/fault.h"
#include "common/softverbs/exec/sq.h"
#include "common/softverbs/exec/wait.h"

static enum ibv_wc_opcode wc_opcode(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

static void complete(struct sv_qp *qp, const struct sv_wqe *wqe, uint32_t status)
{
	struct sv_cq *cq = sv_cq_of(qp->ib.send_cq);
	struct ibv_wc *wc;

	if (!status && !(wqe->flags & IBV_SEND_SIGNALED) && !qp->sq_sig_all)
		return;
	sv_spin_lock(&cq->lock);
	if (sv_qp_faulty(qp) && sv_fault_roll(&qp->rng, sv_faults.overrun, "overrun"))
		sv_cq_overrun_locked(cq);
	wc = sv_cq_slot_locked(cq, qp, wqe->number);
	if (wc) {
		wc->wr_id = wqe->wr_id;
		wc->status = (enum ibv_wc_status)status;
		wc->opcode = wc_opcode(wqe->opcode);
		wc->byte_len = (uint32_t)wqe->len;
		wc->qp_num = qp->qpn;
		sv_cq_push_locked(cq);
	}
	sv_spin_unlock(&cq->lock);
	sv_cq_notify(cq, status != IBV_WC_SUCCESS);
	if (!wc && sv_qp_state(qp) != IBV_QPS_ERR)
		sv_qp_fail_later(qp, SV_FAULT_FATAL);
}

static void remove_first(struct sv_qp *qp)
{
	qp->delayed = false;
	if (!--qp->sq_count)
		qp->sq_head = 0;
	else if (++qp->sq_head == qp->cap.max_send_wr)
		qp->sq_head = 0;
	sv_unblock_locked(qp);
}

void sv_sq_finish(struct sv_qp *qp, uint32_t status)
{
	complete(qp, sv_wqe_at(qp, qp->sq_head), status);
	remove_first(qp);
}

void sv_sq_flush(struct sv_qp *qp)
{
	qp->slow_serial++;
	while (qp->sq_count)
		sv_sq_finish(qp, IBV_WC_WR_FLUSH_ERR);
	sv_unblock_locked(qp);
}
