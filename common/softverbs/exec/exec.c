/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exec.c -- the send queue: how its requests are executed.
 *
 * verbs/post.c copied them into the queue.  They are executed in order, each as far as it
 * goes: by the thread that posts, by a poll of the send CQ, or by the control
 * thread when a retry time comes or a peer answers.  A request that can't go on
 * blocks those behind it, so a fence has nothing left to do.
 *
 * Failure: the request completes with its error, and the queue pair fails, which
 * flushes the rest (fail.c).
 */
#include <string.h>
#include "common/softverbs/peer/peer.h"
#include "common/softverbs/sv.h"

#define WAIT_PEER_MIN_NS 200000u
#define WAIT_PEER_MAX_NS 20000000u
/* How long a living process may take to answer at least; it may be frozen. */
#define ANSWER_BUDGET_MIN_NS 5000000000u
#define RETRY_TRYLOCK_NS 200000u

/* ---- waiting ---- */

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
	if (step < WAIT_PEER_MIN_NS)
		step = WAIT_PEER_MIN_NS;
	if (step > WAIT_PEER_MAX_NS)
		step = WAIT_PEER_MAX_NS;
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

/* ---- completion ---- */

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
	if (sv_qp_faulty(qp) && sv_fault_roll(&qp->rng, sv_faults.overrun))
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

void sv_flush_sq_locked(struct sv_qp *qp)
{
	qp->slow_serial++;
	while (qp->sq_count) {
		complete(qp, sv_wqe_at(qp, qp->sq_head), IBV_WC_WR_FLUSH_ERR);
		remove_first(qp);
	}
	sv_unblock_locked(qp);
}

/* ---- execution ---- */

/* Injected faults that come before execution.  SV_DONE with a status other than
 * success ends the request, with success it is executed. */
static enum sv_outcome inject(struct sv_qp *qp, uint32_t *status)
{
	*status = IBV_WC_SUCCESS;
	if (!sv_qp_faulty(qp))
		return SV_DONE;
	if (sv_faults.partition)
		return sv_wait_peer(qp, status);
	if (qp->delayed)
		return SV_DONE;
	qp->delayed = true;
	qp->fault_number = sv_fault_request();
	if (qp->fault_number == sv_faults.event_at)
		sv_async_inject(&qp->ib, (enum ibv_event_type)sv_faults.event);
	if (sv_fault_roll(&qp->rng, sv_faults.error)) {
		*status = IBV_WC_GENERAL_ERR;
		return SV_DONE;
	}
	if (sv_faults.delay_us)
		return sv_wait(qp, SV_BLOCK_DELAY, sv_faults.delay_us * 1000ull);
	return SV_DONE;
}

static enum sv_outcome execute(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	if (inject(qp, status) == SV_WAIT)
		return SV_WAIT;
	if (*status)
		return SV_DONE;
	switch (wqe->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return sv_exec_send(qp, wqe, status);
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		if (wqe->stage < SV_STAGE_WRITTEN) {
			if (sv_exec_rdma(qp, wqe, status) == SV_WAIT)
				return SV_WAIT;
			if (*status)
				return SV_DONE;
			wqe->stage = SV_STAGE_WRITTEN;
		}
		return sv_exec_send(qp, wqe, status);
	default:
		return sv_exec_rdma(qp, wqe, status);
	}
}

/* A wait that only time (or the peer's answer) ends. */
static bool must_wait(const struct sv_qp *qp)
{
	if (qp->block != SV_BLOCK_RNR && qp->block != SV_BLOCK_DELAY &&
	    qp->block != SV_BLOCK_REPLY)
		return false;
	return sv_now_ns() < atomic_load_explicit(&qp->deadline_ns, memory_order_relaxed);
}

/* What the sender learns.  Of an unreliable connection that is nothing about the peer:
 * a request that it doesn't take is done when it was sent.  One that it began to take and
 * then has no room for is an error all the same: half of it is there. */
static uint32_t told(const struct sv_qp *qp, const struct sv_wqe *wqe, uint32_t status)
{
	if (!sv_qp_unreliable(qp))
		return status;
	switch (status) {
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return wqe->stage >= SV_STAGE_CLAIMED ? status : IBV_WC_SUCCESS;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return IBV_WC_SUCCESS;
	default:
		return status;
	}
}

static void finish(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t status)
{
	status = told(qp, wqe, status);
	complete(qp, wqe, status);
	remove_first(qp);
	if (status)
		sv_qp_fail_locked(qp);
}

void sv_progress_locked(struct sv_qp *qp)
{
	while (qp->sq_count && sv_qp_state(qp) == IBV_QPS_RTS && !must_wait(qp)) {
		struct sv_wqe *wqe = sv_wqe_at(qp, qp->sq_head);
		uint32_t status;

		if (execute(qp, wqe, &status) == SV_WAIT)
			break;
		if (qp->delayed)
			sv_fault_executed(qp->fault_number);
		finish(qp, wqe, status);
	}
	if (qp->to_wake)
		sv_wake_receiver(qp);
}

void sv_progress(struct sv_qp *qp)
{
	sv_spin_lock(&qp->sq_lock);
	sv_progress_locked(qp);
	sv_spin_unlock(&qp->sq_lock);
}

/* One waiting QP; returns when it is to be looked at again. */
static uint64_t progress_one(struct sv_qp *qp, bool now_anyway, uint64_t now)
{
	uint64_t due = atomic_load(&qp->deadline_ns);

	if (!now_anyway && now < due)
		return due;
	if (!sv_spin_trylock(&qp->sq_lock))
		return now + RETRY_TRYLOCK_NS;
	sv_progress_locked(qp);
	due = qp->counted ? atomic_load(&qp->deadline_ns) : UINT64_MAX;
	/* Stuck until its state changes: failing, or the send queue is drained. */
	if (due <= now)
		due = now + WAIT_PEER_MAX_NS;
	sv_spin_unlock(&qp->sq_lock);
	return due;
}

uint64_t sv_progress_blocked(struct sv_cq *cq, struct sv_peer *peer)
{
	uint64_t earliest = UINT64_MAX;
	uint64_t now = sv_now_ns();

	for (uint32_t i = 0; i < SV_QPS / 64; i++) {
		uint64_t bits = atomic_load(&sv_proc->blocked[i]);

		for (; bits; bits &= bits - 1) {
			struct sv_qp *qp = sv_qp_get(i * 64 + (uint32_t)__builtin_ctzll(bits));
			uint64_t due = UINT64_MAX;

			if (!qp)
				continue;
			if (cq && qp->ib.send_cq == &cq->ib)
				due = progress_one(qp, true, now);
			else if (!cq)
				due = progress_one(qp, peer != NULL, now);
			sv_qp_put(qp);
			if (due < earliest)
				earliest = due;
		}
	}
	return earliest;
}

void sv_slow_answer(uint32_t index, uint32_t serial, uint32_t status, uint64_t offset,
		    uint64_t result, void *data, uint32_t bytes)
{
	struct sv_qp *qp = sv_qp_get(index);
	struct sv_wqe *wqe;

	if (!qp)
		return;
	sv_spin_lock(&qp->sq_lock);
	wqe = sv_wqe_at(qp, qp->sq_head);
	if (!qp->sq_count || qp->slow_serial != serial || wqe->stage != SV_STAGE_ASKED)
		goto out;
	qp->slow_open--;
	if (!status && (bytes > wqe->len || offset > wqe->len - bytes))
		status = IBV_WC_BAD_RESP_ERR;
	if (status) {
		finish(qp, wqe, status);
		goto out;
	}
	if (wqe->opcode == IBV_WR_RDMA_READ)
		sv_scatter(wqe->sge, wqe->nsge, offset, data, bytes, sv_copy_plain);
	else if (wqe->opcode >= IBV_WR_ATOMIC_CMP_AND_SWP)
		sv_scatter(wqe->sge, wqe->nsge, 0, &result, sizeof(result), sv_copy_plain);
	wqe->done += bytes;
	qp->block = SV_BLOCK_ROOM; /* look at once */
	sv_progress_locked(qp);
out:
	sv_spin_unlock(&qp->sq_lock);
	sv_qp_put(qp);
}
