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
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/fail.h"
#include "common/softverbs/exec/remote.h"
#include "common/softverbs/exec/sq.h"
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/exec/wire.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/peer/peer.h"

#define RETRY_TRYLOCK_NS 200000u

/* ---- injected faults ---- */

/* An event of the QP, its send CQ, its SRQ, the port or the device. */
static void raise_event(struct sv_qp *qp, enum ibv_event_type type)
{
	struct sv_cq *cq = sv_cq_of(qp->ib.send_cq);
	struct ibv_srq *srq = qp->ib.srq;

	if (sv_async_is_of_device(type))
		sv_async_raise_device(qp->ib.context, type);
	else if (type == IBV_EVENT_CQ_ERR)
		sv_async_raise(qp->ib.context, type, &cq->ib, &cq->async_got);
	else if (type != IBV_EVENT_SRQ_ERR && type != IBV_EVENT_SRQ_LIMIT_REACHED)
		sv_async_raise(qp->ib.context, type, &qp->ib, &qp->async_got);
	else if (srq)
		sv_async_raise(qp->ib.context, type, srq, &sv_srq_of(srq)->async_got);
}

/* To this process itself a device needs no port. */
static bool is_cut(const struct sv_qp *qp)
{
	return sv_device_is_cut(sv_device_index(qp->ib.context->device)) &&
	       !(qp->peer && qp->peer->self);
}

/* Injected faults that come before execution.  SV_DONE with a status other than
 * success ends the request, with success it is executed. */
static enum sv_outcome inject(struct sv_qp *qp, uint32_t *status)
{
	*status = IBV_WC_SUCCESS;
	if (!atomic_load_explicit(&sv_faults_on, memory_order_acquire))
		return SV_DONE;
	if (is_cut(qp))
		return sv_wait_peer(qp, status);
	if (!sv_qp_faulty(qp))
		return SV_DONE;
	if (sv_faults.partition)
		return sv_wait_peer(qp, status);
	if (qp->delayed)
		return SV_DONE;
	qp->delayed = true;
	qp->fault_number = sv_fault_request();
	if (qp->fault_number == sv_faults.event_at)
		raise_event(qp, (enum ibv_event_type)sv_faults.event);
	if (sv_fault_roll(&qp->rng, sv_faults.error, "error")) {
		*status = IBV_WC_GENERAL_ERR;
		return SV_DONE;
	}
	if (sv_faults.delay_us)
		return sv_wait(qp, SV_BLOCK_DELAY, sv_faults.delay_us * 1000ull);
	return SV_DONE;
}

/* ---- execution ---- */

/* Nothing is sent. */
static bool is_local(const struct sv_wqe *wqe)
{
	return wqe->opcode == IBV_WR_BIND_MW || wqe->opcode == IBV_WR_LOCAL_INV;
}

static uint32_t exec_window(struct sv_qp *qp, const struct sv_wqe *wqe)
{
	uint32_t pd = sv_pd_of(qp->ib.pd)->id;
	int ret = wqe->opcode == IBV_WR_BIND_MW ? sv_mw_bind(&wqe->bind, pd, qp->qpn) :
						  sv_mw_invalidate(wqe->imm, pd, qp->qpn);

	return ret ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS;
}

static inline enum sv_outcome execute(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	if (inject(qp, status) == SV_WAIT)
		return SV_WAIT;
	if (*status)
		return SV_DONE;
	switch (wqe->opcode) {
	case IBV_WR_BIND_MW:
	case IBV_WR_LOCAL_INV:
		*status = exec_window(qp, wqe);
		return SV_DONE;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return sv_qp_datagram(qp) ? sv_exec_dgram(qp, wqe, status) :
					    sv_exec_send(qp, wqe, status);
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
	if (!status || !sv_qp_unreliable(qp))
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

/* Of XRC the target fails with the queue pair that was made for its branch. */
static void failed(struct sv_qp *qp, uint32_t status)
{
	if (sv_qp_xrc_sender(qp) && (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
				     status == IBV_WC_REM_OP_ERR))
		sv_branch_accuse(qp, status);
	sv_qp_fail_locked(qp);
}

static inline void finish(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t status)
{
	status = told(qp, wqe, status);
	sv_sq_finish(qp, status);
	if (status)
		failed(qp, status);
}

/* Whether the first request may go on: in state SQD only one that has begun. */
static bool may_execute(const struct sv_qp *qp)
{
	uint32_t state = sv_qp_state(qp);

	return state == IBV_QPS_RTS ||
	       (state == IBV_QPS_SQD && qp->draining && qp->block != SV_BLOCK_NONE);
}

/* In state SQD: what had begun has ended. */
static void look_drained(struct sv_qp *qp)
{
	if (sv_qp_state(qp) != IBV_QPS_SQD || (qp->sq_count && qp->block != SV_BLOCK_NONE))
		return;
	qp->draining = false;
	if (qp->tell_drained)
		sv_async_raise(qp->ib.context, IBV_EVENT_SQ_DRAINED, &qp->ib, &qp->async_got);
	qp->tell_drained = false;
}

/* XRC: the queue pair is to be where its request goes.  SV_DONE: it is, or *status says why not. */
static enum sv_outcome go_to_branch(struct sv_qp *qp, const struct sv_wqe *wqe, uint32_t *status)
{
	if (qp->to_wake) /* who got the last one is behind another branch */
		sv_wake_receiver(qp);
	switch (sv_branch_select(qp, (uint32_t)wqe->flags >> SV_SEND_BRANCH_SHIFT & (SV_BRANCHES - 1))) {
	case SV_WAY_OPEN:
		return SV_DONE;
	case SV_WAY_ASKED:
		return sv_wait_answer(qp, status);
	case SV_WAY_DOWN:
		return sv_wait_peer(qp, status);
	default:
		*status = IBV_WC_REM_INV_REQ_ERR;
		return SV_DONE;
	}
}

/* A request that says itself where it goes: SV_DONE with success, it may be executed.  *dest:
 * where its datagram lies then, if it is one. */
static enum sv_outcome address(struct sv_qp *qp, const struct sv_wqe *wqe, uint32_t *status,
			       struct sv_dest **dest)
{
	if (sv_qp_datagram(qp))
		*dest = (struct sv_dest *)(uintptr_t)wqe->remote_addr;
	else if (!is_local(wqe))
		return go_to_branch(qp, wqe, status);
	return SV_DONE;
}

void sv_progress_locked(struct sv_qp *qp)
{
	while (qp->sq_count && may_execute(qp) && !must_wait(qp)) {
		struct sv_wqe *wqe = sv_wqe_at(qp, qp->sq_head);
		struct sv_dest *dest = NULL;
		uint32_t status = IBV_WC_SUCCESS;

		if (sv_qp_addressed(qp) && address(qp, wqe, &status, &dest) == SV_WAIT)
			break;
		if (!status && execute(qp, wqe, &status) == SV_WAIT)
			break;
		if (qp->delayed)
			sv_fault_executed(qp->fault_number);
		finish(qp, wqe, status);
		if (dest)
			sv_dgram_show(dest);
	}
	if (qp->to_wake)
		sv_wake_receiver(qp);
	if (qp->draining)
		look_drained(qp);
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
		due = now + SV_WAIT_PEER_MAX_NS;
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
