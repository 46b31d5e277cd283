/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fail.c -- queue pairs: their failure.
 *
 * Whoever detects a failure while it has sq_lock calls sv_qp_fail_locked().
 * Others (a poll that finds a bad message, a peer that was refused) store the
 * error state, which stops new work, and leave the flush to the control thread
 * (sv_qp_fail_later(), attend.c).  Messages that had arrived are completed first;
 * then everything waiting is flushed, once.
 */
#include "common/softverbs/exec/credit.h"
#include "common/softverbs/exec/fail.h"
#include "common/softverbs/exec/sq.h"
#include "common/softverbs/exec/wire_recv.h"
#include "common/softverbs/object/async.h"

static void flush_receive(struct sv_qp *qp, uint64_t wr_id)
{
	struct sv_cq *cq = sv_cq_of(qp->ib.recv_cq);
	struct ibv_wc *wc = sv_cq_slot_locked(cq, qp, 0);

	if (!wc)
		return;
	wc->wr_id = wr_id;
	wc->status = IBV_WC_WR_FLUSH_ERR;
	wc->opcode = IBV_WC_RECV;
	wc->qp_num = qp->ib.qp_num;
	sv_cq_push_locked(cq);
}

/* Receive CQ's lock held. */
static void flush_rq_locked(struct sv_qp *qp)
{
	if (qp->rx_partial)
		flush_receive(qp, qp->rx_wqe->wr_id);
	qp->rx_partial = false;
	if (qp->ib.srq)
		return;
	while (sv_rq_pop(qp->rq, qp->rx_wqe))
		flush_receive(qp, qp->rx_wqe->wr_id);
}

void sv_qp_close_ring_locked(struct sv_qp *qp)
{
	bool again = true;

	while (again && !qp->rx_closed)
		sv_wire_drain_locked(qp, SV_DESCS, &again);
	qp->rx_closed = true;
	sv_qp_reclaim_locked(qp);
}

void sv_qp_flush_rq(struct sv_qp *qp)
{
	sv_qp_lock_receive(qp);
	if (qp->rx_closed)
		flush_rq_locked(qp);
	sv_qp_unlock_receive(qp);
	sv_cq_notify(sv_cq_of(qp->ib.recv_cq), true);
}

void sv_qp_fail_locked(struct sv_qp *qp)
{
	if (qp->flushed)
		return;
	qp->flushed = true;
	sv_qp_set_state(qp, IBV_QPS_ERR);
	sv_sq_flush(qp);
	sv_qp_lock_receive(qp);
	sv_qp_close_ring_locked(qp);
	flush_rq_locked(qp);
	sv_qp_unlock_receive(qp);
	sv_cq_notify(sv_cq_of(qp->ib.recv_cq), true);
	if (qp->ib.srq && !qp->hidden)
		sv_async_raise(qp->ib.context, IBV_EVENT_QP_LAST_WQE_REACHED, &qp->ib,
			       &qp->async_got);
}
