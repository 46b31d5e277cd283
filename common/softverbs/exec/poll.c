/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll.c -- polls of completion queues.
 *
 * A poll moves the requests on that wait for their peer, takes the messages of those queue
 * pairs that the queue's ready set names, and copies completions out of the ring.  Queue pairs
 * have turns, in the order of their indices: however much others send, each is reached after
 * SHARE messages of each of them.
 */
#include <errno.h>
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/poll.h"
#include "common/softverbs/exec/wire_recv.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/object/qp.h"

#define EMPTY_POLLS_MAX 64
/* Messages of a queue pair at one turn, where others have some too. */
#define SHARE 4

static inline uint64_t rotate(uint64_t bits, uint32_t by)
{
	return by ? bits >> by | bits << (64 - by) : bits;
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

/* What there is no room for, or no turn yet. */
static void put_back(struct sv_set *ready, uint32_t word, uint64_t bits)
{
	if (!bits)
		return;
	atomic_fetch_or(&ready->word[word], bits);
	atomic_fetch_or(&ready->top, 1ull << word);
}

/* Takes messages of these QPs of a word, from the lowest on, of each up to `share`; returns
 * completions added. */
static int take_bits(struct sv_cq *cq, struct sv_set *ready, uint32_t word, uint64_t bits,
		     int want, int share)
{
	int added = 0;

	for (; bits && added < want; bits &= bits - 1) {
		uint32_t index = word * 64 + (uint32_t)__builtin_ctzll(bits);
		struct sv_qp *qp = receiver(cq, index);
		int left = want - added;
		bool again = false;

		if (qp)
			added += sv_wire_drain_locked(qp, left < share ? left : share, &again);
		if (again)
			sv_set_add(ready, index);
		cq->next = (index + 1) % SV_QPS;
	}
	put_back(ready, word, bits);
	return added;
}

/*
 * Each QP that is ready has its turn: from cq->next on, around to it again.  Returns
 * completions added.
 */
static int take_turns(struct sv_cq *cq, struct sv_set *ready, int want)
{
	uint32_t first = cq->next / 64;
	uint64_t below = (1ull << cq->next % 64) - 1, last = 0;
	uint64_t top = rotate(atomic_exchange(&ready->top, 0), first);
	bool many = top & (top - 1);
	int added = 0, share = want;

	for (; top && added < want; top &= top - 1) {
		uint32_t word = (first + (uint32_t)__builtin_ctzll(top)) % 64;
		uint64_t bits = atomic_exchange(&ready->word[word], 0);

		many |= bits & (bits - 1);
		if (word == first) {
			last = bits & below;
			bits &= ~below;
		}
		share = many ? SHARE : want;
		added += take_bits(cq, ready, word, bits, want - added, share);
	}
	if (top)
		atomic_fetch_or(&ready->top, rotate(top, (64 - first) % 64));
	return added + take_bits(cq, ready, first, last, want - added, share);
}

/* Messages to completions, up to want; cq->lock held. */
static void take_ready(struct sv_cq *cq, int want)
{
	struct sv_set *ready = &sv_proc->rw->cq[cq->index].ready;
	int added;

	/* A peer that says it is ready, and is not, ends it. */
	do {
		added = take_turns(cq, ready, want);
		want -= added;
	} while (added && want > 0 && atomic_load_explicit(&ready->top, memory_order_relaxed));
}

/* Copies completions out; cq->lock held. */
static int pop(struct sv_cq *cq, int n, struct ibv_wc *wc)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	int i;

	for (i = 0; i < n && head != tail; i++, head++) {
		struct sv_cqe *cqe = sv_cqe_at(cq, head);

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

/*
 * Two processes that poll on one core would each spend whole time slices.  Who has a channel
 * sleeps where it is time to: to yield costs them more.  Linux from 6.18 on takes the rest of
 * the slice that the thread is entitled to away, and its next wake-up comes behind the others.
 *
 * Whoever ran meanwhile may have sent its last message and disconnected. So there is another look
 * before the caller is told that nothing is there: libfabric's rxm reads the connection's events
 * next, and what it has not polled by then it never does.
 */
static int nothing(struct sv_cq *cq, int n, struct ibv_wc *wc)
{
	unsigned int polls = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;
	bool yields = polls >= EMPTY_POLLS_MAX && !cq->ib.channel;

	atomic_store_explicit(&cq->empty_polls, yields ? 0 : polls, memory_order_relaxed);
	if (!yields)
		return 0;
	sched_yield();
	return sv_poll_cq(&cq->ib, n, wc);
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
		return nothing(cq, n, wc);
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
	return overrun ? -EIO : nothing(cq, n, wc);
}
