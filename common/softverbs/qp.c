/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp.c -- queue pairs: their states, their failure, their end.
 *
 * Happy path: RESET, INIT, RTR (here the peer's process is looked for, from the
 * number of its queue pair; nothing waits for it), RTS.
 *
 * Failure: whoever detects one while it has sq_lock calls sv_qp_fail_locked().
 * Others (a poll that finds a bad message, a peer that was refused) store the
 * error state, which stops new work, and leave the flush to the control thread.
 * Messages that had arrived are completed first; then everything waiting is
 * flushed, once.
 *
 * Death of the peer's process: what it had sent is taken, its ring is closed, and
 * the receive credits that it had claimed and not used are given back.  The
 * queue pair itself stays as it is; requests end when their retries are spent.
 *
 * Teardown: the seat is emptied under the receive CQ's lock, so that no poll can
 * find the queue pair any more, and its memory goes when the last reference that
 * was taken from the seat is returned.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "common/softverbs/peer.h"
#include "common/softverbs/sv.h"

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

static void lock_receive(struct sv_qp *qp)
{
	sv_spin_lock(&sv_cq_of(qp->ib.recv_cq)->lock);
}

static void unlock_receive(struct sv_qp *qp)
{
	sv_spin_unlock(&sv_cq_of(qp->ib.recv_cq)->lock);
}

static void set_state(struct sv_qp *qp, enum ibv_qp_state state)
{
	qp->attr.qp_state = qp->ib.state = state;
	/* seq_cst: before credits are counted; partner in claim(), wire.c. */
	atomic_store(&qp->ro->state, state);
}

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

/* Receive CQ's lock held. */
static void reclaim_locked(struct sv_qp *qp)
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
	struct ibv_wc wc = { .wr_id = wr_id, .status = IBV_WC_WR_FLUSH_ERR,
			     .opcode = IBV_WC_RECV, .qp_num = qp->qpn };

	sv_cq_push_locked(sv_cq_of(qp->ib.recv_cq), &wc, qp, 0);
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
	reclaim_locked(qp);
}

void sv_qp_flush_rq(struct sv_qp *qp)
{
	lock_receive(qp);
	if (qp->rx_closed)
		flush_rq_locked(qp);
	unlock_receive(qp);
	sv_cq_notify(sv_cq_of(qp->ib.recv_cq), true);
}

void sv_qp_fail_locked(struct sv_qp *qp)
{
	if (qp->flushed)
		return;
	qp->flushed = true;
	set_state(qp, IBV_QPS_ERR);
	sv_flush_sq_locked(qp);
	lock_receive(qp);
	close_ring_locked(qp);
	flush_rq_locked(qp);
	unlock_receive(qp);
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
		lock_receive(qp);
		if (flags & SV_ATTN_DRAIN)
			sv_wire_drain_locked(qp, SV_DESCS, &again);
		if (qp->rx_closed)
			reclaim_locked(qp);
		unlock_receive(qp);
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
	if (atomic_exchange(&rw->armed, 0) || !atomic_load(&rw->pending))
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
			lock_receive(qp);
			close_ring_locked(qp);
			unlock_receive(qp);
			make_up_for_event(qp);
			sv_progress_locked(qp);
		}
		sv_spin_unlock(&qp->sq_lock);
		sv_qp_put(qp);
	}
}

/* ---- creation ---- */

static int check_init(const struct ibv_qp_init_attr *init)
{
	const struct ibv_qp_cap *cap = &init->cap;

	if (init->qp_type != IBV_QPT_RC)
		return EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return EINVAL;
	if (cap->max_send_wr > SV_MAX_QP_WR || cap->max_send_sge > SV_MAX_SGE ||
	    cap->max_inline_data > SV_MAX_INLINE)
		return EINVAL;
	if (!init->srq && (cap->max_recv_wr > SV_MAX_QP_WR || cap->max_recv_sge > SV_MAX_SGE))
		return EINVAL;
	return 0;
}

static uint32_t bigger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static int make_queues(struct sv_qp *qp, const struct ibv_qp_init_attr *init)
{
	uint32_t sges;

	qp->cap = init->cap;
	qp->cap.max_send_wr = bigger(qp->cap.max_send_wr, 1);
	qp->cap.max_send_sge = bigger(qp->cap.max_send_sge, 1);
	qp->cap.max_recv_sge = bigger(qp->cap.max_recv_sge, 1);
	if (init->srq)
		qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
	/* The room of the elements holds as much data, which some programs count on. */
	qp->cap.max_inline_data = bigger((qp->cap.max_inline_data + 15) / 16 * 16,
					 qp->cap.max_send_sge * (uint32_t)sizeof(struct ibv_sge));
	qp->wqe_bytes = (uint32_t)offsetof(struct sv_wqe, sge) + qp->cap.max_inline_data;
	/* Not cleared: pages that no request ever used cost nothing. */
	qp->sq = malloc((size_t)qp->cap.max_send_wr * qp->wqe_bytes);
	if (!qp->sq)
		return ENOMEM;
	sges = init->srq ? sv_srq_of(init->srq)->rq.max_sge : qp->cap.max_recv_sge;
	qp->rx_wqe = calloc(1, sizeof(*qp->rx_wqe) + sges * sizeof(struct ibv_sge));
	return qp->rx_wqe ? 0 : ENOMEM;
}

/* Whoever was connected to an earlier life of the QP, or of its index, sees that
 * this is another. */
static void renew(struct sv_qp *qp)
{
	uint32_t gen;

	do
		gen = atomic_fetch_add(&sv_proc->next_gen, 1);
	while (!gen);
	atomic_store(&sv_proc->ro->qp[qp->index].gen, gen);
}

static int take_seat(struct sv_qp *qp)
{
	struct sv_proc *p = sv_proc;
	uint32_t tries;

	pthread_mutex_lock(&p->lock);
	for (tries = 0; tries < SV_QPS; tries++) {
		uint32_t index = p->next_qp++ % SV_QPS;

		if (index && !sv_seat_taken(p, index)) {
			qp->index = index;
			break;
		}
	}
	if (qp->index) {
		p->seats[qp->index / 64] |= 1ull << qp->index % 64;
		qp->serial = (uint32_t)++p->qps_made;
		qp->rng = sv_faults.seed + p->qps_made;
	}
	pthread_mutex_unlock(&p->lock);
	return qp->index ? 0 : ENOMEM;
}

static void leave_seat(struct sv_qp *qp)
{
	pthread_mutex_lock(&sv_proc->lock);
	sv_proc->seats[qp->index / 64] &= ~(1ull << qp->index % 64);
	pthread_mutex_unlock(&sv_proc->lock);
}

static off_t wire_offset(uint32_t index)
{
	return (off_t)(SV_RW_BYTES + (size_t)index * SV_WIRE_BYTES);
}

static int make_ring(struct sv_qp *qp)
{
	void *wire = mmap(NULL, SV_WIRE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			  sv_proc->rw_fd, wire_offset(qp->index));

	if (wire == MAP_FAILED)
		return errno;
	qp->rx = wire;
	return 0;
}

static void drop_ring(struct sv_qp *qp)
{
	munmap(qp->rx, SV_WIRE_BYTES);
	fallocate(sv_proc->rw_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  wire_offset(qp->index), SV_WIRE_BYTES);
}

static void reset_shared(struct sv_qp *qp)
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

static void publish(struct sv_qp *qp)
{
	struct sv_ro_qp *ro = qp->ro;
	struct sv_qp_seat *seat = &sv_proc->seat[qp->index];

	atomic_store(&ro->state, IBV_QPS_RESET);
	atomic_store(&ro->dest_qpn, 0);
	atomic_store(&ro->access, 0);
	atomic_store(&ro->pd, SV_CONTAINER(qp->ib.pd, struct sv_pd, ib)->id);
	atomic_store(&ro->rq, qp->rq->index);
	atomic_store(&ro->cq, sv_cq_of(qp->ib.recv_cq)->index);
	renew(qp);
	sv_spin_lock(&seat->lock);
	seat->qp = qp;
	sv_spin_unlock(&seat->lock);
}

static void count_users(struct sv_qp *qp, int n)
{
	atomic_fetch_add(&sv_cq_of(qp->ib.send_cq)->users, (unsigned int)n);
	atomic_fetch_add(&sv_cq_of(qp->ib.recv_cq)->users, (unsigned int)n);
	atomic_fetch_add(&SV_CONTAINER(qp->ib.pd, struct sv_pd, ib)->users, (unsigned int)n);
	if (qp->ib.srq)
		atomic_fetch_add(&sv_srq_of(qp->ib.srq)->users, (unsigned int)n);
}

static void fill(struct sv_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
	qp->ib.context = pd->context;
	qp->ib.qp_context = init->qp_context;
	qp->ib.pd = pd;
	qp->ib.send_cq = init->send_cq;
	qp->ib.recv_cq = init->recv_cq;
	qp->ib.srq = init->srq;
	qp->ib.qp_type = init->qp_type;
	qp->ib.handle = qp->index;
	qp->ib.qp_num = qp->qpn = sv_qpn(sv_proc->slot, qp->index);
	qp->ib.state = IBV_QPS_RESET;
	qp->sq_sig_all = init->sq_sig_all;
	qp->ro = &sv_proc->ro->qp[qp->index];
	qp->rw = &sv_proc->rw->qp[qp->index];
	qp->rq = init->srq ? &sv_srq_of(init->srq)->rq : &qp->own_rq;
	qp->rx_pd = SV_CONTAINER(init->srq ? init->srq->pd : pd, struct sv_pd, ib)->id;
	pthread_mutex_init(&qp->ib.mutex, NULL);
	pthread_cond_init(&qp->ib.cond, NULL);
}

struct ibv_qp *sv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct sv_qp *qp;
	int ret;

	ret = check_init(init);
	if (ret)
		goto err;
	ret = ENOMEM;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		goto err;
	ret = make_queues(qp, init);
	if (ret)
		goto err_queues;
	ret = take_seat(qp);
	if (ret)
		goto err_queues;
	ret = make_ring(qp);
	if (ret)
		goto err_seat;
	if (!init->srq)
		ret = sv_rq_init(&qp->own_rq, qp->index, bigger(qp->cap.max_recv_wr, 1),
				 qp->cap.max_recv_sge);
	if (ret)
		goto err_ring;
	fill(qp, pd, init);
	reset_shared(qp);
	publish(qp);
	count_users(qp, 1);
	init->cap = qp->cap;
	return &qp->ib;
err_ring:
	drop_ring(qp);
err_seat:
	leave_seat(qp);
err_queues:
	free(qp->rx_wqe);
	free(qp->sq);
	free(qp);
err:
	errno = ret;
	return NULL;
}

/* ---- states ---- */

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

static int check_mask(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask ? EINVAL : 0;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if (t->from != from || t->to != to)
			continue;
		if ((mask & t->required) != t->required ||
		    mask & ~(t->required | t->optional))
			return EINVAL;
		return 0;
	}
	return EINVAL;
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
	qp->budget_ns = answer_budget_ns(own);
}

/* sq_lock held. */
static void set_peer(struct sv_qp *qp, struct sv_peer *peer, uint32_t qpn)
{
	lock_receive(qp);
	qp->peer = peer;
	qp->peer_qpn = qpn;
	unlock_receive(qp);
	qp->peer_gen = 0;
	qp->awaits_link = false;
	memset(qp->hint, 0, sizeof(qp->hint));
}

/* Leaves the peer; sq_lock held. */
static struct sv_peer *detach(struct sv_qp *qp)
{
	struct sv_peer *peer = qp->peer;

	atomic_store(&qp->ro->dest_qpn, 0);
	sv_unblock_locked(qp);
	sv_wire_detach(qp);
	set_peer(qp, NULL, 0);
	return peer;
}

static struct sv_peer *to_reset(struct sv_qp *qp)
{
	struct sv_peer *peer;

	set_state(qp, IBV_QPS_RESET);
	peer = detach(qp);
	qp->sq_head = qp->sq_count = 0;
	qp->slow_serial++;
	atomic_store(&qp->polled, qp->posted);
	renew(qp);
	lock_receive(qp);
	reclaim_locked(qp);
	if (!qp->ib.srq)
		sv_rq_clear(qp->rq);
	reset_shared(qp);
	unlock_receive(qp);
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
	if (to == IBV_QPS_RESET) {
		*peer = to_reset(qp);
		return;
	}
	if (to == IBV_QPS_ERR) {
		sv_qp_fail_locked(qp);
		return;
	}
	if (to == IBV_QPS_RTR) {
		set_peer(qp, *peer, attr->dest_qp_num);
		*peer = NULL;
		atomic_store(&qp->ro->dest_qpn, attr->dest_qp_num);
	}
	take_values(qp, attr, mask);
	if (to != qp->attr.qp_state)
		set_state(qp, to);
	if (to == IBV_QPS_RTS)
		sv_progress_locked(qp);
}

int sv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct sv_qp *qp = sv_qp_of(ibqp);
	struct sv_peer *peer = NULL;
	enum ibv_qp_state from, to;
	int ret;

	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR) {
		peer = sv_peer_get(sv_qpn_slot(attr->dest_qp_num));
		if (!peer)
			return errno;
	}
	sv_spin_lock(&qp->sq_lock);
	from = (enum ibv_qp_state)sv_qp_state(qp);
	to = mask & IBV_QP_STATE ? attr->qp_state : from;
	ret = mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from ? EINVAL : 0;
	if (!ret)
		ret = check_mask(from, to, mask);
	if (!ret)
		ret = check_values(attr, mask);
	if (!ret)
		change_state(qp, attr, mask, to, &peer);
	sv_spin_unlock(&qp->sq_lock);
	if (peer)
		sv_peer_put(peer);
	if (!ret && to >= IBV_QPS_RTR && to <= IBV_QPS_SQE &&
	    mask & (IBV_QP_ACCESS_FLAGS | IBV_QP_DEST_QPN))
		sv_serve_push(qp->index, 0);
	if (!ret && from == IBV_QPS_RTS && to == IBV_QPS_SQD && mask & IBV_QP_EN_SQD_ASYNC_NOTIFY &&
	    attr->en_sqd_async_notify)
		sv_async_raise(ibqp->context, IBV_EVENT_SQ_DRAINED, ibqp);
	return ret;
}

int sv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init)
{
	struct sv_qp *qp = sv_qp_of(ibqp);

	(void)mask;
	sv_spin_lock(&qp->sq_lock);
	*attr = qp->attr;
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

/* ---- end ---- */

/* Out of everybody's sight; references may still be held. */
static struct sv_peer *hide(struct sv_qp *qp)
{
	struct sv_qp_seat *seat = &sv_proc->seat[qp->index];
	struct sv_peer *peer;

	sv_spin_lock(&qp->sq_lock);
	qp->flushed = true;
	set_state(qp, IBV_QPS_RESET);
	atomic_store(&qp->ro->gen, 0);
	peer = detach(qp);
	qp->sq_head = qp->sq_count = 0;
	qp->slow_serial++;
	lock_receive(qp);
	sv_spin_lock(&seat->lock);
	seat->qp = NULL;
	sv_spin_unlock(&seat->lock);
	qp->rx_closed = true;
	reclaim_locked(qp);
	unlock_receive(qp);
	sv_spin_unlock(&qp->sq_lock);
	return peer;
}

int sv_destroy_qp(struct ibv_qp *ibqp)
{
	struct sv_qp *qp = sv_qp_of(ibqp);
	struct sv_peer *peer = hide(qp);

	/* acquire: partner sv_qp_put().  Holders are threads of this process in
	 * the middle of a poll or of the control thread; none waits. */
	while (atomic_load_explicit(&qp->refs, memory_order_acquire))
		sched_yield();
	sv_cq_clean(sv_cq_of(ibqp->send_cq), qp);
	sv_cq_clean(sv_cq_of(ibqp->recv_cq), qp);
	sv_async_drop(ibqp->context, ibqp);
	pthread_mutex_lock(&ibqp->mutex);
	while (ibqp->events_completed != atomic_load(&qp->async_got))
		pthread_cond_wait(&ibqp->cond, &ibqp->mutex);
	pthread_mutex_unlock(&ibqp->mutex);
	if (peer)
		sv_peer_put(peer);
	drop_ring(qp);
	leave_seat(qp);
	count_users(qp, -1);
	if (!ibqp->srq)
		sv_rq_fini(&qp->own_rq);
	pthread_mutex_destroy(&ibqp->mutex);
	pthread_cond_destroy(&ibqp->cond);
	sv_draft_free(qp->draft);
	free(qp->rx_wqe);
	free(qp->sq);
	free(qp);
	return 0;
}
