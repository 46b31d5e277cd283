/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h -- queue pairs: what qp.c, qp_state.c and fail.c share. */
#ifndef COMMON_SOFTVERBS_OBJECT_QP_H
#define COMMON_SOFTVERBS_OBJECT_QP_H

#include "common/softverbs/peer/peer.h"
#include "common/softverbs/sv.h"

/* The receive side's lock is that of its CQ. */
static inline void sv_qp_lock_receive(struct sv_qp *qp)
{
	sv_spin_lock(&sv_cq_of(qp->ib.recv_cq)->lock);
}

static inline void sv_qp_unlock_receive(struct sv_qp *qp)
{
	sv_spin_unlock(&sv_cq_of(qp->ib.recv_cq)->lock);
}

/* sq_lock held. */
static inline void sv_qp_set_state(struct sv_qp *qp, enum ibv_qp_state state)
{
	qp->attr.qp_state = qp->ib.state = state;
	/* seq_cst: before credits are counted; partner in claim(), exec/wire.c. */
	atomic_store(&qp->ro->state, state);
}

/* ---- qp.c ---- */
/* Whoever was connected to an earlier life of the QP, or of its index, sees that
 * this is another. */
void sv_qp_renew(struct sv_qp *qp);
/* The ring and what is counted of it, as new; receive CQ's lock held. */
void sv_qp_reset_shared(struct sv_qp *qp);

/* ---- qp_state.c ---- */
/* Leaves the peer, which is the caller's to put; sq_lock held. */
struct sv_peer *sv_qp_detach(struct sv_qp *qp);

/* ---- fail.c ---- */
/* Gives back the credits that its peer claimed and will not use; receive CQ's lock held. */
void sv_qp_reclaim_locked(struct sv_qp *qp);

#endif
