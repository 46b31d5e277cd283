/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fail.c -- queue pairs: their failure, and the death of their peers.
 *
 * Whoever detects a failure while it has sq_lock calls sv_qp_fail_locked().
 * Others (a poll that finds a bad message, a peer that was refused) store the
 * error state, which stops new work, and leave the flush to the control thread.
 * Messages that had arrived are completed first; then everything waiting is
 * flushed, once.
 *
 * Death of the peer's process: what it had sent is taken, its ring is closed, and
 * the receive credits that it had claimed and not used are given back.  The
 * queue pair itself stays as it is; requests end when their retries are spent.
 */
#include "common/softverbs/object/qp.h"

/* ---- credits ---- */

/* The word of the receive queue names the last claim, which its claimant may not
 * have counted yet. */
static void count_last_claim(uint32_t rq, uint32_t seat)
{
	uint64_t word = atomic_load(&sv_proc->rw->rq[rq].claim);
	uint32_t claimant = (uint32_t)(word >> 20) & 0xfff;
	uint32_t number = (uint32_t)word & 0xfffff;
	_Atomic uint32_t *claimed = &sv_proc->rw->qp[seat].claimed;
	uint32_t n = atomic_load(claimed);

	if (claimant == seat && ((n + 1) & 0xfffff) == number)
		atomic_compare_exchange_strong(claimed, &n, n + 1);
}

/* How many credits the peer of a seat claimed and will not use.  It must be
 * visible that the peer may send no more, and its messages be taken. */
static uint32_t lost_credits(uint32_t index)
{
	struct sv_qp_seat *seat = &sv_proc->seat[index];
	int32_t lost;

	count_last_claim(seat->rq, index);
	lost = (int32_t)(atomic_load(&sv_proc->rw->qp[index].claimed) - seat->received -
			 seat->reclaimed);
	if (lost <= 0 || lost > SV_MAX_SRQ_WR)
		return 0;
	seat->reclaimed += (uint32_t)lost;
	return (uint32_t)lost;
}

void sv_qp_reclaim_locked(struct sv_qp *qp)
{
	uint32_t lost = lost_credits(qp->index);

	if (lost)
		sv_rq_give_credits(qp->rq, lost);
}

/* A peer gave up a claim when it saw that this seat was left. */
static void reclaim_empty(uint32_t index)
{
	struct sv_qp_seat *seat = &sv_proc->seat[index];

	pthread_mutex_lock(&sv_proc->lock);
	if (!sv_seat_taken(sv_proc, index) && seat->rq >= SV_QPS && sv_proc->srq[seat->rq - SV_QPS]) {
		uint32_t lost = lost_credits(index);

		if (lost)
			sv_rq_give_credits(&sv_proc->srq[seat->rq - SV_QPS]->rq, lost);
	}
	pthread_mutex_unlock(&sv_proc->lock);
}

/* ---- failure ---- */

static void flush_receive(struct sv_qp *qp, uint64_t wr_id)
{
	struct sv_cq *cq = sv_cq_of(qp->ib.recv_cq);
	struct ibv_wc *wc = sv_cq_slot_locked(cq, qp, 0);

	if (!wc)
		return;
	wc->wr_id = wr_id;
	wc->status = IBV_WC_WR_FLUSH_ERR;
	wc->opcode = IBV_WC_RECV;
	wc->qp_num = qp->qpn;
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

/* Takes what has arrived, then nothing more; receive CQ's lock held. */
static void close_ring_locked(struct sv_qp *qp)
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
	sv_flush_sq_locked(qp);
	sv_qp_lock_receive(qp);
	close_ring_locked(qp);
	flush_rq_locked(qp);
	sv_qp_unlock_receive(qp);
	sv_cq_notify(sv_cq_of(qp->ib.recv_cq), true);
	if (qp->ib.srq)
		sv_async_raise(qp->ib.context, IBV_EVENT_QP_LAST_WQE_REACHED, &qp->ib);
}

void sv_qp_fail_later(struct sv_qp *qp, enum sv_fault_code code)
{
	uint32_t none = SV_FAULT_NONE;

	atomic_store(&qp->ro->state, IBV_QPS_ERR);
	atomic_compare_exchange_strong(&qp->rw->fault, &none, code);
	sv_attention(qp->index, SV_ATTN_FAULT);
}

static void attend_fault(struct sv_qp *qp)
{
	uint32_t code = atomic_exchange(&qp->rw->fault, SV_FAULT_NONE);
	enum ibv_event_type type = IBV_EVENT_QP_FATAL;
	bool failed;

	if (!code)
		return;
	sv_spin_lock(&qp->sq_lock);
	failed = !qp->flushed && qp->attr.qp_state >= IBV_QPS_RTR;
	if (failed)
		sv_qp_fail_locked(qp);
	sv_spin_unlock(&qp->sq_lock);
	if (!failed || code == SV_FAULT_QUIET)
		return;
	if (code == SV_FAULT_ACCESS)
		type = IBV_EVENT_QP_ACCESS_ERR;
	else if (code == SV_FAULT_REQUEST)
		type = IBV_EVENT_QP_REQ_ERR;
	sv_async_raise(qp->ib.context, type, &qp->ib);
}

void sv_qp_attend(uint32_t index)
{
	struct sv_qp *qp = sv_qp_get(index);
	uint32_t flags = atomic_exchange(&sv_proc->rw->qp[index].attention, 0);
	bool again;

	if (!qp) {
		if (flags & SV_ATTN_RECONCILE)
			reclaim_empty(index);
		return;
	}
	if (flags & SV_ATTN_FAULT)
		attend_fault(qp);
	if (flags & (SV_ATTN_DRAIN | SV_ATTN_RECONCILE)) {
		sv_qp_lock_receive(qp);
		if (flags & SV_ATTN_DRAIN)
			sv_wire_drain_locked(qp, SV_DESCS, &again);
		if (qp->rx_closed)
			sv_qp_reclaim_locked(qp);
		sv_qp_unlock_receive(qp);
	}
	if (flags & SV_ATTN_NOTIFY)
		sv_cq_ring_channel(sv_cq_of(qp->ib.recv_cq));
	if (flags & SV_ATTN_PROGRESS)
		sv_progress(qp);
	sv_qp_put(qp);
}

/* The dead peer may have taken the armed word and not rung; an event too many
 * harms nobody. */
static void make_up_for_event(struct sv_qp *qp)
{
	struct sv_cq *cq = sv_cq_of(qp->ib.recv_cq);
	struct sv_rw_cq *rw = &sv_proc->rw->cq[cq->index];

	if (!cq->ib.channel)
		return;
	/* An event may be counted and not rung, or its armed word be taken only. */
	if ((atomic_exchange(&rw->armed, 0) & SV_ARMED_MASK) || !atomic_load(&rw->pending))
		atomic_fetch_add(&rw->pending, 1);
	sv_cq_ring_channel(cq);
}

void sv_qp_peer_gone(struct sv_peer *peer)
{
	for (uint32_t i = 1; i < SV_QPS; i++) {
		struct sv_qp *qp = sv_qp_get(i);

		if (!qp)
			continue;
		sv_spin_lock(&qp->sq_lock);
		if (qp->peer == peer) {
			/* seq_cst: deaf before credits are counted. */
			atomic_store(&qp->ro->dest_qpn, 0);
			sv_qp_lock_receive(qp);
			close_ring_locked(qp);
			sv_qp_unlock_receive(qp);
			make_up_for_event(qp);
			sv_progress_locked(qp);
		}
		sv_spin_unlock(&qp->sq_lock);
		sv_qp_put(qp);
	}
}
