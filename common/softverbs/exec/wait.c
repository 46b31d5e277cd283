/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.c -- requests that can't go on: until when, and for whom.
 *
 * A queue pair that waits is in sv_proc.blocked and counted in its send CQ, so that polls
 * and the control thread's timer find it.
 */
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/peer/peer.h"

/* How long a living process may take to answer at least; it may be frozen. */
#define ANSWER_BUDGET_MIN_NS 5000000000u

static void count_blocked(struct sv_qp *qp)
{
	if (qp->counted)
		return;
	qp->counted = true;
	atomic_fetch_add(&sv_cq_of(qp->ib.send_cq)->nblocked, 1);
	atomic_fetch_or(&sv_proc->blocked[qp->index / 64], 1ull << qp->index % 64);
}

void sv_unblock_locked(struct sv_qp *qp)
{
	qp->block = SV_BLOCK_NONE;
	qp->first_ns = 0;
	if (!qp->counted)
		return;
	qp->counted = false;
	atomic_fetch_and(&sv_proc->blocked[qp->index / 64], ~(1ull << qp->index % 64));
	atomic_fetch_sub(&sv_cq_of(qp->ib.send_cq)->nblocked, 1);
}

enum sv_outcome sv_wait(struct sv_qp *qp, enum sv_block why, uint64_t for_ns)
{
	uint64_t at = sv_now_ns() + for_ns;

	qp->block = why;
	atomic_store(&qp->deadline_ns, at);
	count_blocked(qp);
	sv_ctl_wake_at(at);
	return SV_WAIT;
}

static enum sv_outcome wait_within(struct sv_qp *qp, uint64_t budget, uint32_t *status)
{
	uint64_t now = sv_now_ns();
	uint64_t waited, step;

	if (!qp->first_ns)
		qp->first_ns = now;
	waited = now - qp->first_ns;
	if (waited >= budget) {
		*status = IBV_WC_RETRY_EXC_ERR;
		return SV_DONE;
	}
	step = waited / 4;
	if (step < SV_WAIT_PEER_MIN_NS)
		step = SV_WAIT_PEER_MIN_NS;
	if (step > SV_WAIT_PEER_MAX_NS)
		step = SV_WAIT_PEER_MAX_NS;
	if (step > budget - waited)
		step = budget - waited;
	return sv_wait(qp, SV_BLOCK_LINK, step);
}

enum sv_outcome sv_wait_answer(struct sv_qp *qp, uint32_t *status)
{
	return wait_within(qp, qp->budget_ns < ANSWER_BUDGET_MIN_NS ? ANSWER_BUDGET_MIN_NS :
								      qp->budget_ns,
			   status);
}

enum sv_outcome sv_wait_peer(struct sv_qp *qp, uint32_t *status)
{
	if (qp->awaits_link)
		return sv_wait_answer(qp, status);
	return wait_within(qp, qp->budget_ns, status);
}

/* First sight of the peer's queue pair, or a look at whether it is still it. */
static bool same_peer(struct sv_qp *qp, uint32_t gen)
{
	const struct sv_rw_qp *rw;

	if (qp->peer_gen)
		return qp->peer_gen == gen;
	if (!gen)
		return false;
	rw = &qp->peer->rw->qp[sv_qpn_index(qp->peer_qpn)];
	qp->tx_tail = atomic_load(&rw->tail);
	qp->tx_head = qp->tx_tail;
	qp->pay_tail = qp->pay_head = 0;
	qp->peer_gen = gen;
	return true;
}

bool sv_peer_ready(struct sv_qp *qp)
{
	const struct sv_ro_qp *ro;
	uint32_t state = atomic_load_explicit(&qp->peer->state, memory_order_acquire);

	if (state != SV_PEER_UP) {
		/* Remembered, since it may be there before the caller looks again. */
		qp->awaits_link = state != SV_PEER_GONE;
		sv_peer_poke(qp->peer);
		return false;
	}
	if (qp->awaits_link)
		qp->first_ns = 0;
	qp->awaits_link = false;
	ro = &qp->peer->ro->qp[sv_qpn_index(qp->peer_qpn)];
	/* seq_cst: after a claim this look tells if the credit counts. */
	state = atomic_load(&ro->state);
	if (state < IBV_QPS_RTR || state > IBV_QPS_SQE || atomic_load(&ro->dest_qpn) != qp->qpn)
		return false;
	if (!same_peer(qp, atomic_load_explicit(&ro->gen, memory_order_acquire)))
		return false;
	if (qp->block == SV_BLOCK_LINK) { /* it answers again */
		qp->block = SV_BLOCK_NONE;
		qp->first_ns = 0;
	}
	return true;
}
