/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attend.c -- what the control thread does for queue pairs: it looks at those whose
 * attention word was set, by this process or a peer, moves on those whose time has come,
 * and tells them what becomes of the link to their peer.
 *
 * Death of the peer's process: what it had sent is taken, its ring is closed, and
 * the receive credits that it had claimed and not used are given back.  The
 * queue pair itself stays as it is; requests end when their retries are spent.
 */
#include <string.h>
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/attend.h"
#include "common/softverbs/exec/credit.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/fail.h"
#include "common/softverbs/exec/serve.h"
#include "common/softverbs/exec/wire_recv.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/object/qp.h"
#include "common/softverbs/peer/peer.h"

/* ---- attention words ---- */

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
	if (!failed || code == SV_FAULT_QUIET || qp->hidden)
		return;
	if (code == SV_FAULT_ACCESS)
		type = IBV_EVENT_QP_ACCESS_ERR;
	else if (code == SV_FAULT_REQUEST)
		type = IBV_EVENT_QP_REQ_ERR;
	sv_async_raise(qp->ib.context, type, &qp->ib, &qp->async_got);
}

static void attend(uint32_t index)
{
	struct sv_qp *qp = sv_qp_get(index);
	uint32_t flags = atomic_exchange(&sv_proc->rw->qp[index].attention, 0);
	bool again;

	if (!qp) {
		if (flags & SV_ATTN_RECONCILE)
			sv_seat_reclaim(index);
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
	if (flags & SV_ATTN_JOIN)
		sv_serve_join_own(qp);
	if (flags & SV_ATTN_PROGRESS)
		sv_progress(qp);
	sv_qp_put(qp);
}

/* ---- links ---- */

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

static void gone(struct sv_peer *peer)
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
			sv_qp_close_ring_locked(qp);
			sv_qp_unlock_receive(qp);
			make_up_for_event(qp);
			sv_progress_locked(qp);
		}
		sv_spin_unlock(&qp->sq_lock);
		sv_qp_put(qp);
	}
}

/* No QP may use its mapping any more; each is used under the QP's sq_lock only. */
static void unmapped(struct sv_peer *peer, uint32_t mem)
{
	for (uint32_t i = 1; i < SV_QPS; i++) {
		struct sv_qp *qp = sv_qp_get(i);

		if (!qp)
			continue;
		sv_spin_lock(&qp->sq_lock);
		for (int h = 0; qp->peer == peer && h < SV_MAP_HINTS; h++) {
			if (qp->hint[h].mem == mem)
				qp->hint[h] = (struct sv_map_hint){ 0 };
		}
		sv_spin_unlock(&qp->sq_lock);
		sv_qp_put(qp);
	}
}

static void progress(struct sv_peer *peer)
{
	sv_progress_blocked(NULL, peer);
}

static void answered(const struct sv_msg *msg, void *data)
{
	sv_slow_answer(sv_qpn_index(msg->src_qpn), msg->serial, msg->status, msg->offset,
		       msg->swap, data, msg->bytes);
}

/* ---- time ---- */

static uint64_t run_due(void)
{
	return sv_progress_blocked(NULL, NULL);
}

void sv_attend_start(void)
{
	static const struct sv_peer_hooks hooks = { .progress = progress, .answered = answered,
						    .joined = sv_branch_answered,
						    .unmapped = unmapped, .gone = gone };

	sv_peer_on_event(&hooks);
	sv_ctl_on_attention(attend);
	sv_ctl_on_timer(run_due);
}
