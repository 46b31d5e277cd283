/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp.c -- queue pairs: how they are made and taken apart.
 *
 * Happy path: sv_create_qp() takes a seat, whose number is part of the queue pair's,
 * maps the ring of its peer-to-be, and publishes it.  States: qp_state.c; errors and the
 * peer's death: exec/fail.c.
 *
 * Failure: creation undoes its steps.
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
#include <time.h>
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/credit.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/object/qp.h"
#include "common/softverbs/peer/peer.h"
#include "common/softverbs/softverbs.h"
#include "common/softverbs/verbs/qp_state.h"

#define LINGER_STEP_NS 200000u
#define LINGER_NS 1000000000u

/* ---- creation ---- */

static int check_init(const struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
	const struct ibv_qp_cap *cap = &init->cap;

	if (!init->send_cq || !init->recv_cq)
		return EINVAL;
	if (!sv_device_same(pd->context, init->send_cq->context) ||
	    !sv_device_same(pd->context, init->recv_cq->context) ||
	    (init->srq && !sv_device_same(pd->context, init->srq->context)))
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
	if (init->srq || init->qp_type >= IBV_QPT_XRC_SEND)
		qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
	/* The room of the elements holds as much data, which some programs count on. */
	qp->cap.max_inline_data = bigger((qp->cap.max_inline_data + 15) / 16 * 16,
					 qp->cap.max_send_sge * (uint32_t)sizeof(struct ibv_sge));
	qp->wqe_bytes = (uint32_t)offsetof(struct sv_wqe, sge) +
			bigger(qp->cap.max_inline_data, sizeof(struct sv_mw_bind));
	/* Not cleared: pages that no request ever used cost nothing. */
	qp->sq = malloc((size_t)qp->cap.max_send_wr * qp->wqe_bytes);
	if (!qp->sq)
		return ENOMEM;
	sges = init->srq ? sv_srq_of(init->srq)->rq.max_sge : qp->cap.max_recv_sge;
	qp->rx_wqe = calloc(1, sizeof(*qp->rx_wqe) + sges * sizeof(struct ibv_sge));
	return qp->rx_wqe ? 0 : ENOMEM;
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

static void publish(struct sv_qp *qp)
{
	struct sv_ro_qp *ro = qp->ro;
	struct sv_qp_seat *seat = &sv_proc->seat[qp->index];

	atomic_store(&ro->state, IBV_QPS_RESET);
	atomic_store(&ro->dest_qpn, 0);
	atomic_store(&ro->access, 0);
	atomic_store(&ro->type, qp->ib.qp_type);
	atomic_store(&ro->qkey, 0);
	atomic_store(&ro->domain, 0);
	atomic_store(&qp->rw->dropped, 0);
	atomic_store(&ro->pd, sv_pd_of(qp->ib.pd)->id);
	atomic_store(&ro->rq, qp->rq->index);
	atomic_store(&ro->cq, sv_cq_of(qp->ib.recv_cq)->index);
	sv_qp_renew(qp);
	sv_spin_lock(&seat->lock);
	seat->qp = qp;
	sv_spin_unlock(&seat->lock);
}

static void count_users(struct sv_qp *qp, int n)
{
	atomic_fetch_add(&sv_cq_of(qp->ib.send_cq)->users, (unsigned int)n);
	atomic_fetch_add(&sv_cq_of(qp->ib.recv_cq)->users, (unsigned int)n);
	atomic_fetch_add(&sv_pd_of(qp->ib.pd)->users, (unsigned int)n);
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
	qp->rx_pd = sv_pd_of(init->srq ? init->srq->pd : pd)->id;
	pthread_mutex_init(&qp->ib.mutex, NULL);
	pthread_cond_init(&qp->ib.cond, NULL);
}

struct ibv_qp *sv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr sender;
	struct ibv_qp *qp;

	if (init->qp_type == IBV_QPT_XRC_SEND) {
		sender = *init;
		sender.recv_cq = init->send_cq; /* for a lock; it receives nothing */
		sender.srq = NULL;
		sender.cap.max_recv_wr = sender.cap.max_recv_sge = 0;
		qp = sv_qp_new(pd, &sender);
		init->cap = sender.cap;
		return qp;
	}
	if (init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UC && init->qp_type != IBV_QPT_UD) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (init->srq && sv_srq_of(init->srq)->xrcd) {
		errno = EINVAL;
		return NULL;
	}
	return sv_qp_new(pd, init);
}

struct ibv_qp *sv_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct sv_qp *qp;
	int ret;

	ret = check_init(pd, init);
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
		ret = sv_rq_init(&qp->own_rq, qp->index,
				 init->qp_type >= IBV_QPT_XRC_SEND ? 0 : bigger(qp->cap.max_recv_wr, 1),
				 qp->cap.max_recv_sge);
	if (ret)
		goto err_ring;
	fill(qp, pd, init);
	sv_qp_reset_shared(qp);
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

/* ---- end ---- */

/* Out of everybody's sight; references may still be held. */
static struct sv_peer *hide(struct sv_qp *qp)
{
	struct sv_qp_seat *seat = &sv_proc->seat[qp->index];
	struct sv_peer *peer;

	sv_spin_lock(&qp->sq_lock);
	qp->flushed = true;
	sv_qp_set_state(qp, IBV_QPS_RESET);
	atomic_store(&qp->ro->gen, 0);
	peer = sv_qp_detach(qp);
	qp->sq_head = qp->sq_count = 0;
	qp->slow_serial++;
	sv_qp_lock_receive(qp);
	sv_spin_lock(&seat->lock);
	seat->qp = NULL;
	sv_spin_unlock(&seat->lock);
	qp->rx_closed = true;
	sv_qp_reclaim_locked(qp);
	sv_qp_unlock_receive(qp);
	sv_spin_unlock(&qp->sq_lock);
	return peer;
}

/* How many wait for a link or for room. */
static uint32_t waiting(struct sv_qp *qp)
{
	uint32_t n = 0;

	sv_spin_lock(&qp->sq_lock);
	sv_progress_locked(qp);
	if (sv_qp_state(qp) == IBV_QPS_RTS && (qp->block == SV_BLOCK_LINK || qp->block == SV_BLOCK_ROOM))
		n = qp->sq_count;
	sv_spin_unlock(&qp->sq_lock);
	return n;
}

/* What waits of datagrams is sent, or given up after a second in which nothing was.  On a wire it
 * would have left long ago; programs (mckey) rely on that.  No lock held. */
static void linger(struct sv_qp *qp)
{
	const struct timespec step = { .tv_nsec = LINGER_STEP_NS };
	uint64_t until = sv_now_ns() + LINGER_NS;
	uint32_t left = waiting(qp), n;

	for (; left && sv_now_ns() < until; left = n) {
		nanosleep(&step, NULL);
		n = waiting(qp);
		if (n < left)
			until = sv_now_ns() + LINGER_NS;
	}
}

int sv_destroy_qp(struct ibv_qp *ibqp)
{
	struct sv_qp *qp = sv_qp_of(ibqp);
	struct sv_peer *peer;

	if (qp->groups)
		return EBUSY;
	if (sv_qp_datagram(qp))
		linger(qp);
	peer = hide(qp);
	sv_branch_forget(qp);
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
	sv_dest_forget(qp);
	drop_ring(qp);
	leave_seat(qp);
	count_users(qp, -1);
	if (qp->domain_users)
		atomic_fetch_sub(qp->domain_users, 1);
	if (!ibqp->srq)
		sv_rq_fini(&qp->own_rq);
	pthread_mutex_destroy(&ibqp->mutex);
	pthread_cond_destroy(&ibqp->cond);
	free(qp->draft);
	free(qp->rx_wqe);
	free(qp->sq);
	free(qp);
	return 0;
}

uint32_t sv_dropped(struct ibv_qp *ibqp)
{
	return atomic_load(&sv_qp_of(ibqp)->rw->dropped);
}
