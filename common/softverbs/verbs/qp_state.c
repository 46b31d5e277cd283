/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp_state.c -- queue pairs: their states and attributes.
 *
 * Happy path: RESET, INIT, RTR (here the peer's process is looked for, from the
 * number of its queue pair; nothing waits for it), RTS.  A transition is checked as a
 * whole before anything is changed.
 *
 * Failure: EINVAL, and all is as before.
 */
#include <errno.h>
#include <string.h>
#include "common/softverbs/base/limits.h"
#include "common/softverbs/exec/credit.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/fail.h"
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/exec/wire.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/object/qp.h"
#include "common/softverbs/peer/guest.h"
#include "common/softverbs/peer/peer.h"
#include "common/softverbs/softverbs.h"
#include "common/softverbs/verbs/qp_state.h"

/* ---- checks ---- */

#define PATH_ATTRS (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

static const struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
} transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | PATH_ATTRS },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | PATH_ATTRS },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | PATH_ATTRS },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | PATH_ATTRS },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
		  IBV_QP_AV | IBV_QP_PKEY_INDEX | PATH_ATTRS },
};

/* Of datagrams: nobody is connected to anybody. */
static const struct transition dgram_transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
	{ IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_QKEY },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_QKEY },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
};

/* What only a reliable connection has. */
#define RELIABLE_ATTRS                                                                        \
	(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |         \
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)

/* What the two of XRC don't have: a sender serves nobody, a target asks for nothing. */
#define SENDERS_LACK (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TARGETS_LACK (IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

static int lacks(const struct sv_qp *qp)
{
	switch (qp->ib.qp_type) {
	case IBV_QPT_UC:
		return RELIABLE_ATTRS;
	case IBV_QPT_XRC_SEND:
		return SENDERS_LACK;
	case IBV_QPT_XRC_RECV:
		return TARGETS_LACK;
	default:
		return 0;
	}
}

/* absent: attributes that this type of queue pair doesn't have. */
static int check_mask(const struct transition *table, size_t n, enum ibv_qp_state from,
		      enum ibv_qp_state to, int mask, int absent)
{
	mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask ? EINVAL : 0;
	for (size_t i = 0; i < n; i++) {
		const struct transition *t = &table[i];

		if (t->from != from || t->to != to)
			continue;
		if ((mask & t->required) != (t->required & ~absent) ||
		    mask & ~(t->required | (t->optional & ~absent)))
			return EINVAL;
		return 0;
	}
	return EINVAL;
}

#define ENTRIES(table) (sizeof(table) / sizeof((table)[0]))

static int check_transition(const struct sv_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
			    int mask)
{
	if (sv_qp_datagram(qp))
		return check_mask(dgram_transitions, ENTRIES(dgram_transitions), from, to, mask, 0);
	return check_mask(transitions, ENTRIES(transitions), from, to, mask, lacks(qp));
}

static int check_values(const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_PORT && attr->port_num != 1)
		return EINVAL;
	if (mask & IBV_QP_PKEY_INDEX && attr->pkey_index)
		return EINVAL;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > SV_MAX_RD_ATOMIC)
		return EINVAL;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > SV_MAX_RD_ATOMIC)
		return EINVAL;
	if (mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31)
		return EINVAL;
	if (mask & IBV_QP_TIMEOUT && attr->timeout > 31)
		return EINVAL;
	if (mask & IBV_QP_RETRY_CNT && attr->retry_cnt > 7)
		return EINVAL;
	if (mask & IBV_QP_RNR_RETRY && attr->rnr_retry > 7)
		return EINVAL;
	return 0;
}

/* 4.096 us * 2^timeout for each try, at most a minute in all; 0 means for ever,
 * which here is that minute. */
static uint64_t answer_budget_ns(const struct ibv_qp_attr *attr)
{
	const uint64_t most = 60ull * 1000000000;
	uint64_t ns = (4096ull << attr->timeout) * (attr->retry_cnt + 1u);

	return !attr->timeout || ns > most ? most : ns;
}

static void take_values(struct sv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *own = &qp->attr;

	if (mask & IBV_QP_ACCESS_FLAGS) {
		own->qp_access_flags = attr->qp_access_flags;
		atomic_store(&qp->ro->access, attr->qp_access_flags);
	}
	if (mask & IBV_QP_MIN_RNR_TIMER) {
		own->min_rnr_timer = attr->min_rnr_timer;
		atomic_store(&qp->ro->rnr_timer, attr->min_rnr_timer);
	}
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) {
		own->max_dest_rd_atomic = attr->max_dest_rd_atomic;
		atomic_store(&qp->ro->rd_atomic, attr->max_dest_rd_atomic);
	}
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		own->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IBV_QP_TIMEOUT)
		own->timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		own->retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		own->rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_PORT)
		own->port_num = attr->port_num;
	if (mask & IBV_QP_QKEY) {
		own->qkey = attr->qkey;
		atomic_store(&qp->ro->qkey, attr->qkey);
	}
	if (mask & IBV_QP_AV)
		own->ah_attr = attr->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		own->path_mtu = attr->path_mtu;
	if (mask & IBV_QP_RQ_PSN)
		own->rq_psn = attr->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		own->sq_psn = attr->sq_psn;
	if (mask & IBV_QP_DEST_QPN)
		own->dest_qp_num = attr->dest_qp_num;
	qp->budget_ns = sv_qp_unreliable(qp) ? 0 : answer_budget_ns(own);
}

/* sq_lock held. */
static void set_peer(struct sv_qp *qp, struct sv_peer *peer, uint32_t qpn)
{
	sv_qp_lock_receive(qp);
	qp->peer = peer;
	qp->peer_qpn = qpn;
	sv_qp_unlock_receive(qp);
	qp->peer_gen = 0;
	qp->awaits_link = false;
	memset(qp->hint, 0, sizeof(qp->hint));
}

struct sv_peer *sv_qp_detach(struct sv_qp *qp)
{
	struct sv_peer *peer;

	atomic_store(&qp->ro->dest_qpn, 0);
	sv_unblock_locked(qp);
	sv_branch_leave(qp);
	peer = qp->peer;
	sv_wire_detach(qp);
	set_peer(qp, NULL, 0);
	return peer;
}

static struct sv_peer *to_reset(struct sv_qp *qp)
{
	struct sv_peer *peer;

	sv_qp_set_state(qp, IBV_QPS_RESET);
	peer = sv_qp_detach(qp);
	qp->sq_head = qp->sq_count = 0;
	qp->slow_serial++;
	atomic_store(&qp->polled, qp->posted);
	sv_qp_renew(qp);
	sv_qp_lock_receive(qp);
	sv_qp_reclaim_locked(qp);
	if (!qp->ib.srq)
		sv_rq_clear(qp->rq);
	sv_qp_reset_shared(qp);
	sv_qp_unlock_receive(qp);
	sv_cq_clean(sv_cq_of(qp->ib.send_cq), qp);
	sv_cq_clean(sv_cq_of(qp->ib.recv_cq), qp);
	qp->flushed = false;
	memset(&qp->attr, 0, sizeof(qp->attr));
	return peer;
}

/* *peer: on entry one to connect to, on return one that is not needed. */
static void change_state(struct sv_qp *qp, const struct ibv_qp_attr *attr, int mask,
			 enum ibv_qp_state to, struct sv_peer **peer)
{
	enum ibv_qp_state from;

	if (to == IBV_QPS_RESET) {
		*peer = to_reset(qp);
		return;
	}
	if (to == IBV_QPS_ERR) {
		sv_qp_fail_locked(qp);
		return;
	}
	if (to == IBV_QPS_RTR && !sv_qp_datagram(qp)) {
		set_peer(qp, *peer, attr->dest_qp_num);
		*peer = NULL;
		atomic_store(&qp->ro->dest_qpn, attr->dest_qp_num);
	}
	from = qp->attr.qp_state;
	take_values(qp, attr, mask);
	if (to != from)
		sv_qp_set_state(qp, to);
	qp->draining = to == IBV_QPS_SQD && (qp->draining || from == IBV_QPS_RTS);
	if (from == IBV_QPS_RTS && to == IBV_QPS_SQD)
		qp->tell_drained = mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify;
	if (to == IBV_QPS_RTS || to == IBV_QPS_SQD)
		sv_progress_locked(qp);
}

int sv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct sv_qp *qp = sv_qp_of(ibqp);
	struct sv_peer *peer = NULL;
	enum ibv_qp_state from, to;
	int ret;

	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR && !sv_qp_datagram(qp)) {
		peer = sv_peer_get(sv_qpn_slot(attr->dest_qp_num));
		if (!peer)
			return errno;
	}
	sv_spin_lock(&qp->sq_lock);
	from = (enum ibv_qp_state)sv_qp_state(qp);
	to = mask & IBV_QP_STATE ? attr->qp_state : from;
	ret = mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from ? EINVAL : 0;
	if (!ret)
		ret = check_transition(qp, from, to, mask);
	if (!ret)
		ret = check_values(attr, mask);
	if (!ret)
		change_state(qp, attr, mask, to, &peer);
	sv_spin_unlock(&qp->sq_lock);
	if (peer)
		sv_peer_put(peer);
	if (!ret && to == IBV_QPS_RESET)
		sv_branch_forget(qp);
	if (!ret && to >= IBV_QPS_RTR && to <= IBV_QPS_SQE &&
	    mask & (IBV_QP_ACCESS_FLAGS | IBV_QP_DEST_QPN))
		sv_guest_push(qp->index);
	return ret;
}

int sv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init)
{
	struct sv_qp *qp = sv_qp_of(ibqp);

	(void)mask;
	sv_spin_lock(&qp->sq_lock);
	*attr = qp->attr;
	attr->sq_draining = qp->draining && sv_qp_state(qp) == IBV_QPS_SQD;
	sv_spin_unlock(&qp->sq_lock);
	attr->qp_state = attr->cur_qp_state = (enum ibv_qp_state)sv_qp_state(qp);
	attr->cap = qp->cap;
	memset(init, 0, sizeof(*init));
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->cap;
	init->qp_type = ibqp->qp_type;
	init->sq_sig_all = qp->sq_sig_all;
	return 0;
}
