/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.c -- completion queues.
 *
 * A completion queue is a ring in private memory plus a set in shared memory of
 * queue pairs that have messages in their rings.  Send completions are put into
 * the ring where the request is executed.  Messages stay where the sender put
 * them until a poll (or the control thread, if the sender wants room) takes them:
 * only then is a receive used and its completion put into the ring.
 *
 * Events: a completion is made visible, then the armed word is taken; the owner
 * arms, then looks.  One of the two sees the other (seq_cst).  Whoever takes the
 * armed word counts an event in the shared pending word, writes the channel's
 * eventfd, which has one count per event, and only then clears the word.  Who
 * finds it taken does the same: the other may have been stopped in between, and
 * an event too many harms nobody.  A sender that dies there is made up for by the
 * control thread (exec/attend.c).
 *
 * Overrun: the completion that finds the ring full is lost, IBV_EVENT_CQ_ERR is
 * raised once, the queue pair fails, and polls fail after the last good entry.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/softverbs.h"

#define ARMED_TRIES_MAX 16

void sv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* ---- create and destroy ---- */

static uint32_t ring_size(int cqe)
{
	uint32_t size = 16;

	while (size < (uint32_t)cqe)
		size *= 2;
	return size;
}

static int take_index(struct sv_cq *cq)
{
	uint32_t i;

	pthread_mutex_lock(&sv_proc->lock);
	for (i = 0; i < SV_CQS && sv_proc->cq[i]; i++)
		;
	if (i < SV_CQS)
		sv_proc->cq[i] = cq;
	pthread_mutex_unlock(&sv_proc->lock);
	cq->index = cq->ib.handle = i;
	return i < SV_CQS ? 0 : ENOMEM;
}

static void reset_shared(struct sv_cq *cq)
{
	struct sv_rw_cq *rw = &sv_proc->rw->cq[cq->index];

	atomic_store(&sv_proc->ro->cq[cq->index].channel, 0);
	atomic_store(&rw->armed, 0);
	atomic_store(&rw->pending, 0);
	atomic_store(&rw->rung, 0);
	atomic_store(&rw->ready.top, 0);
	for (int i = 0; i < 64; i++)
		atomic_store(&rw->ready.word[i], 0);
}

struct ibv_cq *sv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector)
{
	struct sv_cq *cq;
	int ret = EINVAL;

	if (cqe < 1 || cqe > SV_MAX_CQE || comp_vector < 0 ||
	    comp_vector >= context->num_comp_vectors ||
	    (channel && !sv_device_same(context, channel->context)))
		goto err;
	ret = ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto err;
	cq->mask = ring_size(cqe) - 1;
	cq->ring = calloc((size_t)cq->mask + 1, sizeof(*cq->ring));
	if (!cq->ring)
		goto err_cq;
	ret = take_index(cq);
	if (ret)
		goto err_ring;
	cq->ib.context = context;
	cq->ib.channel = channel;
	cq->ib.cq_context = cq_context;
	cq->ib.cqe = (int)cq->mask + 1;
	pthread_mutex_init(&cq->ib.mutex, NULL);
	pthread_cond_init(&cq->ib.cond, NULL);
	reset_shared(cq);
	cq->events.cq = &cq->ib;
	cq->events.index = cq->index;
	if (channel)
		sv_chan_join(channel, &cq->events);
	sv_ctx_get(context);
	return &cq->ib;
err_ring:
	free(cq->ring);
err_cq:
	free(cq);
err:
	errno = ret;
	return NULL;
}

/* Into a ring of so many; false: it holds fewer than there are.  cq->lock held. */
static bool move_to(struct sv_cq *cq, struct sv_cqe *ring, uint32_t size)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint32_t n = atomic_load_explicit(&cq->tail, memory_order_relaxed) - head;

	if (n > size)
		return false;
	for (uint32_t i = 0; i < n; i++)
		ring[i] = *sv_cqe_at(cq, head + i);
	cq->ring = ring;
	cq->mask = size - 1;
	cq->first = head;
	cq->ib.cqe = (int)size;
	return true;
}

int sv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct sv_cq *cq = sv_cq_of(ibcq);
	struct sv_cqe *ring, *old;
	bool done;

	if (cqe < 1 || cqe > SV_MAX_CQE)
		return EINVAL;
	ring = calloc(ring_size(cqe), sizeof(*ring));
	if (!ring)
		return ENOMEM;
	sv_spin_lock(&cq->lock);
	old = cq->ring;
	done = move_to(cq, ring, ring_size(cqe));
	sv_spin_unlock(&cq->lock);
	free(done ? old : ring);
	return done ? 0 : EINVAL;
}

static void wait_for_acks(struct sv_cq *cq)
{
	pthread_mutex_lock(&cq->ib.mutex);
	while (cq->ib.comp_events_completed != atomic_load(&cq->events.events_got) ||
	       cq->ib.async_events_completed != atomic_load(&cq->async_got))
		pthread_cond_wait(&cq->ib.cond, &cq->ib.mutex);
	pthread_mutex_unlock(&cq->ib.mutex);
}

int sv_destroy_cq(struct ibv_cq *ibcq)
{
	struct sv_cq *cq = sv_cq_of(ibcq);

	if (atomic_load(&cq->users))
		return EBUSY;
	if (ibcq->channel)
		sv_chan_leave(ibcq->channel, &cq->events);
	sv_async_drop(ibcq->context, ibcq);
	wait_for_acks(cq);
	if (ibcq->channel)
		sv_chan_put(ibcq->channel);
	reset_shared(cq);
	pthread_mutex_lock(&sv_proc->lock);
	sv_proc->cq[cq->index] = NULL;
	pthread_mutex_unlock(&sv_proc->lock);
	sv_ctx_put(ibcq->context);
	pthread_mutex_destroy(&ibcq->mutex);
	pthread_cond_destroy(&ibcq->cond);
	free(cq->ring);
	free(cq);
	return 0;
}

/* ---- completions ---- */

void sv_cq_overrun_locked(struct sv_cq *cq)
{
	if (!cq->overrun)
		sv_async_raise(cq->ib.context, IBV_EVENT_CQ_ERR, &cq->ib, &cq->async_got);
	cq->overrun = true;
}

struct ibv_wc *sv_cq_slot_locked(struct sv_cq *cq, struct sv_qp *qp, uint64_t sq_upto)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	struct sv_cqe *cqe = sv_cqe_at(cq, tail);

	if (tail - atomic_load_explicit(&cq->head, memory_order_relaxed) > cq->mask ||
	    cq->overrun) {
		sv_cq_overrun_locked(cq);
		return NULL;
	}
	cqe->qp = qp;
	cqe->sq_upto = sq_upto;
	memset(&cqe->wc, 0, sizeof(cqe->wc));
	return &cqe->wc;
}

void sv_cq_push_locked(struct sv_cq *cq)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	/* release: partner is the unlocked look in sv_poll_cq(). */
	atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
}

void sv_cq_ring_channel(struct sv_cq *cq)
{
	if (!cq->ib.channel)
		return;
	sv_bell_ring(cq->ib.channel->fd);
	atomic_fetch_add(&sv_proc->rw->cq[cq->index].rung, 1);
}

bool sv_armed_take(struct sv_rw_cq *rw, uint32_t armed, bool solicited, uint32_t *taken)
{
	int tries = 0;

	/* Each failure is somebody's success, or a peer that plays with its word. */
	do {
		uint32_t state = armed & SV_ARMED_MASK;

		if (state == SV_ARMED_NOT || (state == SV_ARMED_SOLICITED && !solicited))
			return false;
		*taken = armed | SV_ARMED_TAKEN;
	} while (!atomic_compare_exchange_strong(&rw->armed, &armed, *taken) &&
		 ++tries < ARMED_TRIES_MAX);
	atomic_fetch_add(&rw->pending, 1);
	return true;
}

void sv_armed_done(struct sv_rw_cq *rw, uint32_t taken)
{
	/* Unless the owner has armed it once more, or another was faster. */
	atomic_compare_exchange_strong(&rw->armed, &taken, taken & ~(uint32_t)SV_ARMED_MASK);
}

void sv_cq_notify(struct sv_cq *cq, bool solicited)
{
	struct sv_rw_cq *rw = &sv_proc->rw->cq[cq->index];
	uint32_t taken;

	/* Both this and sv_req_notify_cq() change the word: the later of the two sees
	 * what the earlier did before, a completion or that the queue is armed. */
	if (!cq->ib.channel ||
	    !sv_armed_take(rw, atomic_fetch_or(&rw->armed, 0), solicited, &taken))
		return;
	sv_cq_ring_channel(cq);
	sv_armed_done(rw, taken);
}

int sv_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct sv_cq *cq = sv_cq_of(ibcq);
	_Atomic uint32_t *armed = &sv_proc->rw->cq[cq->index].armed;
	uint32_t number = atomic_fetch_add(&cq->armings, SV_ARMED_MASK + 1), now;

	/* seq_cst: arms before the caller's last poll; partners sv_cq_notify(), and
	 * sv_wake_receiver() in exec/wire.c. */
	if (!solicited_only) {
		atomic_exchange(armed, number | SV_ARMED_ANY);
		return 0;
	}
	now = atomic_load(armed);
	for (int i = 0; i < ARMED_TRIES_MAX; i++) {
		uint32_t state = now & SV_ARMED_MASK;

		if (state == SV_ARMED_SOLICITED || state == SV_ARMED_ANY ||
		    atomic_compare_exchange_strong(armed, &now, number | SV_ARMED_SOLICITED))
			return 0;
	}
	atomic_exchange(armed, number | SV_ARMED_ANY);
	return 0;
}

void sv_cq_clean(struct sv_cq *cq, struct sv_qp *qp)
{
	uint32_t head, tail, to;

	sv_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = to = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	/* From the newest: what stays moves towards the tail. */
	while (tail != head) {
		struct sv_cqe *cqe = sv_cqe_at(cq, --tail);

		if (cqe->qp != qp)
			*sv_cqe_at(cq, --to) = *cqe;
	}
	atomic_store_explicit(&cq->head, to, memory_order_relaxed);
	sv_spin_unlock(&cq->lock);
}

bool sv_cq_holds_locked(struct sv_cq *cq, const struct sv_qp *qp)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	while (head != tail && sv_cqe_at(cq, head)->qp != qp)
		head++;
	return head != tail;
}
