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
 * control thread (sv_qp_peer_gone()).
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
#include "common/softverbs/sv.h"

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
	    comp_vector >= context->num_comp_vectors)
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
	if (channel)
		sv_chan_join(channel, cq);
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

static void wait_for_acks(struct sv_cq *cq)
{
	pthread_mutex_lock(&cq->ib.mutex);
	while (cq->ib.comp_events_completed != atomic_load(&cq->events_got) ||
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
		sv_chan_leave(ibcq->channel, cq);
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

static struct sv_cqe *cqe_at(struct sv_cq *cq, uint32_t n)
{
	return &cq->ring[(n - cq->first) & cq->mask];
}

void sv_cq_overrun_locked(struct sv_cq *cq)
{
	if (!cq->overrun)
		sv_async_raise(cq->ib.context, IBV_EVENT_CQ_ERR, &cq->ib);
	cq->overrun = true;
}

struct ibv_wc *sv_cq_slot_locked(struct sv_cq *cq, struct sv_qp *qp, uint64_t sq_upto)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	struct sv_cqe *cqe = cqe_at(cq, tail);

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

static struct sv_qp *receiver(struct sv_cq *cq, uint32_t index)
{
	struct sv_qp_seat *seat = &sv_proc->seat[index];
	struct sv_qp *qp;

	/* The QP can't go while the lock of its receive CQ is held. */
	sv_spin_lock(&seat->lock);
	qp = seat->qp;
	if (qp && qp->ib.recv_cq != &cq->ib)
		qp = NULL;
	sv_spin_unlock(&seat->lock);
	return qp;
}

static inline uint64_t rotate(uint64_t bits, uint32_t by)
{
	return by ? bits >> by | bits << (64 - by) : bits;
}

/* Takes messages of the QPs of one word; returns completions added.  What it has
 * no room for it puts back, and starts there the next time. */
static int take_word(struct sv_cq *cq, struct sv_set *ready, uint32_t word, int want)
{
	uint32_t first = cq->next_bit;
	uint64_t bits = rotate(atomic_exchange(&ready->word[word], 0), first);
	int added = 0;

	for (; bits && added < want; bits &= bits - 1) {
		uint32_t bit = (first + (uint32_t)__builtin_ctzll(bits)) % 64;
		struct sv_qp *qp = receiver(cq, word * 64 + bit);
		bool again = false;

		if (qp)
			added += sv_wire_drain_locked(qp, want - added, &again);
		if (again)
			sv_set_add(ready, word * 64 + bit);
		cq->next_bit = (bit + 1) % 64;
	}
	if (bits) {
		atomic_fetch_or(&ready->word[word], rotate(bits, (64 - first) % 64));
		atomic_fetch_or(&ready->top, 1ull << word);
	}
	return added;
}

/* Messages to completions, up to want; cq->lock held. */
static void take_ready(struct sv_cq *cq, int want)
{
	struct sv_set *ready = &sv_proc->rw->cq[cq->index].ready;
	uint32_t first = cq->next_word;
	uint64_t top = rotate(atomic_exchange(&ready->top, 0), first);

	for (; top; top &= top - 1) {
		uint32_t word = (first + (uint32_t)__builtin_ctzll(top)) % 64;

		if (want <= 0) {
			atomic_fetch_or(&ready->top, rotate(top, (64 - first) % 64));
			cq->next_word = word;
			return;
		}
		want -= take_word(cq, ready, word, want);
		cq->next_word = word;
	}
}

/* Copies completions out; cq->lock held. */
static int pop(struct sv_cq *cq, int n, struct ibv_wc *wc)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	int i;

	for (i = 0; i < n && head != tail; i++, head++) {
		struct sv_cqe *cqe = cqe_at(cq, head);

		wc[i] = cqe->wc;
		/* release: the slots are free; partner in sv_post_send(). */
		if (cqe->sq_upto)
			atomic_store_explicit(&cqe->qp->polled, cqe->sq_upto,
					      memory_order_release);
	}
	atomic_store_explicit(&cq->head, head, memory_order_relaxed);
	if (head == tail) /* start over: the first lines stay in the cache */
		cq->first = head;
	return i;
}

/* Two processes that poll on one core would each spend whole time slices. */
static int nothing(struct sv_cq *cq)
{
	unsigned int polls = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;

	if (polls >= SV_EMPTY_POLLS_MAX) {
		sched_yield();
		polls = 0;
	}
	atomic_store_explicit(&cq->empty_polls, polls, memory_order_relaxed);
	return 0;
}

int sv_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct sv_cq *cq = sv_cq_of(ibcq);
	struct sv_set *ready = &sv_proc->rw->cq[cq->index].ready;
	uint32_t have;
	bool overrun;
	int got;

	if (n <= 0)
		return n ? -EINVAL : 0;
	if (atomic_load_explicit(&cq->nblocked, memory_order_relaxed))
		sv_progress_blocked(cq, NULL);
	have = atomic_load_explicit(&cq->tail, memory_order_acquire) -
	       atomic_load_explicit(&cq->head, memory_order_relaxed);
	if (!have && !atomic_load(&ready->top) &&
	    !atomic_load_explicit(&cq->overrun, memory_order_relaxed))
		return nothing(cq);
	sv_spin_lock(&cq->lock);
	if (have < (uint32_t)n && atomic_load_explicit(&ready->top, memory_order_acquire))
		take_ready(cq, n - (int)have);
	got = pop(cq, n, wc);
	overrun = cq->overrun;
	sv_spin_unlock(&cq->lock);
	if (got) {
		atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
		return got;
	}
	return overrun ? -EIO : nothing(cq);
}

void sv_cq_clean(struct sv_cq *cq, struct sv_qp *qp)
{
	uint32_t head, tail, to;

	sv_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = to = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	/* From the newest: what stays moves towards the tail. */
	while (tail != head) {
		struct sv_cqe *cqe = cqe_at(cq, --tail);

		if (cqe->qp != qp)
			*cqe_at(cq, --to) = *cqe;
	}
	atomic_store_explicit(&cq->head, to, memory_order_relaxed);
	sv_spin_unlock(&cq->lock);
}
