/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rq.c -- receive queues: a queue pair's own, and shared ones.
 *
 * Receives are private memory.  Peers see how many were ever posted and claim
 * credits for them (exec/wire.c); the receives themselves are used in order when
 * messages are taken from rings.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/object/rq.h"
#include "common/softverbs/softverbs.h"

static struct sv_rwqe *slot(struct sv_rq *rq, uint32_t n)
{
	return (struct sv_rwqe *)(void *)(rq->ring + (size_t)(n % rq->depth) * rq->stride_bytes);
}

/* The queue begins where the shared claim word stands, so
 * that nothing of an earlier queue of this index can be claimed from it. */
int sv_rq_init(struct sv_rq *rq, uint32_t index, uint32_t depth, uint32_t max_sge)
{
	struct sv_ro_rq *ro = &sv_proc->ro->rq[index];

	memset(rq, 0, sizeof(*rq));
	rq->index = index;
	rq->depth = depth;
	rq->max_sge = max_sge;
	rq->stride_bytes = (uint32_t)(sizeof(struct sv_rwqe) + max_sge * sizeof(struct ibv_sge));
	rq->ring = malloc((size_t)(depth ? depth : 1) * rq->stride_bytes);
	if (!rq->ring)
		return ENOMEM;
	rq->posted = (uint32_t)(atomic_load(&sv_proc->rw->rq[index].claim) >> 32);
	atomic_store(&ro->posted, rq->posted);
	atomic_store(&ro->min_len, 0);
	return 0;
}

void sv_rq_fini(struct sv_rq *rq)
{
	free(rq->ring);
}

/* rq->lock held. */
static int check(const struct sv_rq *rq, const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return EINVAL;
	return rq->tail - rq->head >= rq->depth ? ENOMEM : 0;
}

static void put(struct sv_rq *rq, const struct ibv_recv_wr *wr)
{
	struct sv_rwqe *rwqe = slot(rq, rq->tail);
	struct sv_ro_rq *ro = &sv_proc->ro->rq[rq->index];
	uint64_t len = sv_sge_bytes(wr->sg_list, wr->num_sge);
	uint32_t shortest = atomic_load_explicit(&ro->min_len, memory_order_relaxed);

	rwqe->wr_id = wr->wr_id;
	rwqe->len = len > UINT32_MAX ? UINT32_MAX : (uint32_t)len;
	rwqe->nsge = (uint32_t)wr->num_sge;
	if (wr->num_sge)
		memcpy(rwqe->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
	if (rq->tail == rq->head || rwqe->len < shortest)
		atomic_store_explicit(&ro->min_len, rwqe->len, memory_order_relaxed);
	rq->tail++;
	rq->posted++;
}

int sv_rq_post(struct sv_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int ret = 0;

	sv_spin_lock(&rq->lock);
	for (; wr; wr = wr->next) {
		ret = check(rq, wr);
		if (ret)
			break;
		put(rq, wr);
	}
	/* release: after min_len; partner in exec/wire.c. */
	atomic_store_explicit(&sv_proc->ro->rq[rq->index].posted, rq->posted,
			      memory_order_release);
	sv_spin_unlock(&rq->lock);
	if (ret)
		*bad = wr;
	return ret;
}

static void limit_reached(struct sv_srq *srq)
{
	sv_async_raise(srq->ib.context, IBV_EVENT_SRQ_LIMIT_REACHED, &srq->ib, &srq->async_got);
}

bool sv_rq_pop(struct sv_rq *rq, struct sv_rwqe *out)
{
	bool limit = false, some;

	sv_spin_lock(&rq->lock);
	some = rq->head != rq->tail;
	if (some) {
		struct sv_rwqe *rwqe = slot(rq, rq->head++);

		memcpy(out, rwqe, sizeof(*rwqe) + rwqe->nsge * sizeof(rwqe->sge[0]));
		limit = rq->tail - rq->head < rq->limit;
		if (limit)
			rq->limit = 0;
	}
	sv_spin_unlock(&rq->lock);
	if (limit)
		limit_reached(rq->srq);
	return some;
}

void sv_rq_give_credits(struct sv_rq *rq, uint32_t n)
{
	sv_spin_lock(&rq->lock);
	rq->posted += n;
	atomic_store_explicit(&sv_proc->ro->rq[rq->index].posted, rq->posted,
			      memory_order_release);
	sv_spin_unlock(&rq->lock);
}

void sv_rq_clear(struct sv_rq *rq)
{
	sv_spin_lock(&rq->lock);
	rq->head = rq->tail;
	rq->posted = (uint32_t)(atomic_load(&sv_proc->rw->rq[rq->index].claim) >> 32);
	atomic_store(&sv_proc->ro->rq[rq->index].posted, rq->posted);
	sv_spin_unlock(&rq->lock);
}

/* ---- shared receive queues ---- */

static int take_index(struct sv_srq *srq)
{
	uint32_t i;

	pthread_mutex_lock(&sv_proc->lock);
	for (i = 0; i < SV_SRQS && sv_proc->srq[i]; i++)
		;
	if (i < SV_SRQS)
		sv_proc->srq[i] = srq;
	pthread_mutex_unlock(&sv_proc->lock);
	srq->ib.handle = i;
	return i < SV_SRQS ? 0 : ENOMEM;
}

static void leave_index(struct sv_srq *srq)
{
	pthread_mutex_lock(&sv_proc->lock);
	sv_proc->srq[srq->ib.handle] = NULL;
	pthread_mutex_unlock(&sv_proc->lock);
}

struct ibv_srq *sv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct sv_srq *srq;
	int ret = EINVAL;

	if (!init->attr.max_wr || init->attr.max_wr > SV_MAX_SRQ_WR ||
	    init->attr.max_sge > SV_MAX_SGE)
		goto err;
	if (!init->attr.max_sge)
		init->attr.max_sge = 1;
	ret = ENOMEM;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		goto err;
	ret = take_index(srq);
	if (ret)
		goto err_srq;
	ret = sv_rq_init(&srq->rq, SV_QPS + srq->ib.handle, init->attr.max_wr,
			 init->attr.max_sge);
	if (ret)
		goto err_index;
	srq->rq.srq = srq;
	srq->ib.context = pd->context;
	srq->ib.srq_context = init->srq_context;
	srq->ib.pd = pd;
	pthread_mutex_init(&srq->ib.mutex, NULL);
	pthread_cond_init(&srq->ib.cond, NULL);
	atomic_fetch_add(&sv_pd_of(pd)->users, 1);
	return &srq->ib;
err_index:
	leave_index(srq);
err_srq:
	free(srq);
err:
	errno = ret;
	return NULL;
}

/* Into a ring of so many; false: it holds fewer than are posted.  rq->lock held. */
static bool move_to(struct sv_rq *rq, uint8_t *ring, uint32_t depth)
{
	if (rq->tail - rq->head > depth)
		return false;
	for (uint32_t n = rq->head; n != rq->tail; n++)
		memcpy(ring + (size_t)(n % depth) * rq->stride_bytes, slot(rq, n), rq->stride_bytes);
	rq->ring = ring;
	rq->depth = depth;
	return true;
}

static int resize(struct sv_rq *rq, uint32_t depth)
{
	uint8_t *ring, *old;
	bool done;

	if (!depth || depth > SV_MAX_SRQ_WR)
		return EINVAL;
	ring = malloc((size_t)depth * rq->stride_bytes);
	if (!ring)
		return ENOMEM;
	sv_spin_lock(&rq->lock);
	old = rq->ring;
	done = move_to(rq, ring, depth);
	sv_spin_unlock(&rq->lock);
	free(done ? old : ring);
	return done ? 0 : EINVAL;
}

int sv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct sv_rq *rq = &sv_srq_of(ibsrq)->rq;
	uint32_t depth = mask & IBV_SRQ_MAX_WR ? attr->max_wr : rq->depth;
	bool below = false;
	int ret = 0;

	/* Both or neither. */
	if (mask & IBV_SRQ_LIMIT && attr->srq_limit > depth)
		return EINVAL;
	if (mask & IBV_SRQ_MAX_WR)
		ret = resize(rq, depth);
	if (ret || !(mask & IBV_SRQ_LIMIT))
		return ret;
	sv_spin_lock(&rq->lock);
	rq->limit = attr->srq_limit;
	if (rq->tail - rq->head < rq->limit) {
		rq->limit = 0;
		below = true;
	}
	sv_spin_unlock(&rq->lock);
	if (below)
		limit_reached(sv_srq_of(ibsrq));
	return 0;
}

int sv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct sv_rq *rq = &sv_srq_of(ibsrq)->rq;

	sv_spin_lock(&rq->lock);
	attr->max_wr = rq->depth;
	attr->max_sge = rq->max_sge;
	attr->srq_limit = rq->limit;
	sv_spin_unlock(&rq->lock);
	return 0;
}

int sv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct sv_srq *srq = sv_srq_of(ibsrq);

	if (srq->ended)
		srq->ended(srq);
	if (atomic_load(&srq->users))
		return EBUSY;
	sv_async_drop(ibsrq->context, ibsrq);
	pthread_mutex_lock(&ibsrq->mutex);
	while (ibsrq->events_completed != atomic_load(&srq->async_got))
		pthread_cond_wait(&ibsrq->cond, &ibsrq->mutex);
	pthread_mutex_unlock(&ibsrq->mutex);
	leave_index(srq);
	atomic_fetch_sub(&sv_pd_of(ibsrq->pd)->users, 1);
	pthread_mutex_destroy(&ibsrq->mutex);
	pthread_cond_destroy(&ibsrq->cond);
	sv_rq_fini(&srq->rq);
	free(srq);
	return 0;
}

int sv_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return sv_rq_post(&sv_srq_of(ibsrq)->rq, wr, bad);
}
