/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * credit.c -- receive credits that a peer claimed and will not use: it died, left, or gave
 * its claim up.  They are computed from counters in shared memory (wire.c) and given back to
 * the receive queue.
 */
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/credit.h"

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

void sv_seat_reclaim(uint32_t index)
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
