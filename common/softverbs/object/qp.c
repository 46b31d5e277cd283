/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.c -- queue pairs: their seats in the process's table, and what peers see there. */
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/qp.h"

/* ---- references ---- */

struct sv_qp *sv_qp_get(uint32_t index)
{
	struct sv_qp_seat *seat = &sv_proc->seat[index];
	struct sv_qp *qp;

	sv_spin_lock(&seat->lock);
	qp = seat->qp;
	if (qp)
		atomic_fetch_add_explicit(&qp->refs, 1, memory_order_relaxed);
	sv_spin_unlock(&seat->lock);
	return qp;
}

void sv_qp_put(struct sv_qp *qp)
{
	/* release: partner is the wait in sv_destroy_qp(). */
	atomic_fetch_sub_explicit(&qp->refs, 1, memory_order_release);
}

/* ---- what peers see ---- */

void sv_qp_renew(struct sv_qp *qp)
{
	uint32_t gen;

	do
		gen = atomic_fetch_add(&sv_proc->next_gen, 1);
	while (!gen);
	atomic_store(&sv_proc->ro->qp[qp->index].gen, gen);
}

void sv_qp_reset_shared(struct sv_qp *qp)
{
	struct sv_qp_seat *seat = &sv_proc->seat[qp->index];

	atomic_store(&qp->rw->tail, 0);
	atomic_store(&qp->rw->head, 0);
	atomic_store(&qp->rw->tx_wait, 0);
	atomic_store(&qp->rw->fault, 0);
	atomic_store(&qp->ro->nak, SV_NAK_NONE);
	seat->rq = qp->rq->index;
	seat->reclaimed = atomic_load(&qp->rw->claimed) - seat->received;
	qp->rx_head = 0;
	qp->rx_closed = qp->rx_partial = false;
}

void sv_qp_fail_later(struct sv_qp *qp, enum sv_fault_code code)
{
	uint32_t none = SV_FAULT_NONE;

	atomic_store(&qp->ro->state, IBV_QPS_ERR);
	atomic_compare_exchange_strong(&qp->rw->fault, &none, code);
	sv_attention(qp->index, SV_ATTN_FAULT);
}
