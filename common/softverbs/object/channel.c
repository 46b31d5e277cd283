/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel.c -- completion channels.
 *
 * A channel's descriptor is an eventfd with one count per event; which queue an event
 * is of is in the queues' shared pending words.
 *
 * Spin: who waits for an event looks for it itself for a while before it sleeps in
 * read(), since to be woken takes a kernel several times as long as a message takes to
 * arrive.  It gives the CPU away after some looks, to whom it waits for if they share
 * it, and doesn't begin where the descriptor doesn't block.  A spin in vain is followed
 * by waits without one, twice as many each time: a program whose events are rare, or
 * whose CPU is wanted by others, sleeps.
 *
 * A channel that is destroyed while another thread waits for its next event: as a
 * system call would, that thread goes on waiting, and keeps what it needs.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/channel.h"
#include "common/softverbs/softverbs.h"

#define SPIN_US 50 /* a few wake-ups: whoever we wait for may have to be woken itself */
#define SPIN_US_MAX 10000
#define LOOKS 32 /* then somebody else may want the CPU; a microsecond */
#define SKIPS_MAX 255

/* In sv_chan.readers: destroyed; the rest counts threads. */
#define OVER 0x80000000u

struct sv_chan {
	struct ibv_comp_channel ib;
	uint32_t id;
	struct sv_spin lock; /* cqs, and users of ib.refcnt */
	struct sv_chan_cq *cqs;
	struct sv_chan *next;	    /* sv_proc.chans */
	_Atomic uint32_t readers;   /* threads that wait for an event; and if it is over */
	_Atomic unsigned int skip;  /* waits that are not to begin with a spin */
	_Atomic unsigned int skips; /* as many, after the last spin in vain */
};

static uint64_t spin_ns; /* written before the device is opened */

static struct sv_chan *chan_of(struct ibv_comp_channel *channel)
{
	return SV_CONTAINER(channel, struct sv_chan, ib);
}

int sv_chan_env(void)
{
	const char *text = getenv("SOFTVERBS_SPIN_US");
	unsigned long us = SPIN_US;
	char *end;

	if (text) {
		us = strtoul(text, &end, 10);
		if (*text < '0' || *text > '9' || *end || us > SPIN_US_MAX) {
			fprintf(stderr, "softverbs: SOFTVERBS_SPIN_US=%s: not a number from 0 to "
					"%d, see softverbs(7)\n", text, SPIN_US_MAX);
			return EINVAL;
		}
	}
	spin_ns = us * 1000u;
	return 0;
}

/* ---- create and destroy ---- */

struct ibv_comp_channel *sv_create_comp_channel(struct ibv_context *context)
{
	struct sv_chan *chan = calloc(1, sizeof(*chan));

	if (!chan)
		return NULL;
	chan->ib.context = context;
	chan->ib.fd = sv_bell_open();
	if (chan->ib.fd < 0) {
		free(chan);
		return NULL;
	}
	pthread_mutex_lock(&sv_proc->lock);
	chan->id = sv_proc->next_chan++;
	chan->next = sv_proc->chans;
	sv_proc->chans = chan;
	pthread_mutex_unlock(&sv_proc->lock);
	sv_ctx_get(context);
	return &chan->ib;
}

static void free_channel(struct sv_chan *chan)
{
	sv_ctx_put(chan->ib.context);
	sv_fd_close(chan->ib.fd);
	free(chan);
}

int sv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct sv_chan *chan = chan_of(channel), **at;
	bool busy;

	sv_spin_lock(&chan->lock);
	busy = chan->ib.refcnt != 0;
	sv_spin_unlock(&chan->lock);
	if (busy)
		return EBUSY;
	pthread_mutex_lock(&sv_proc->lock);
	for (at = &sv_proc->chans; *at != chan; at = &(*at)->next)
		;
	*at = chan->next;
	pthread_mutex_unlock(&sv_proc->lock);
	if (!atomic_fetch_or(&chan->readers, OVER))
		free_channel(chan);
	return 0;
}

int sv_chan_dup(uint32_t id)
{
	struct sv_chan *chan;
	int fd = -1;

	pthread_mutex_lock(&sv_proc->lock);
	for (chan = sv_proc->chans; chan && chan->id != id; chan = chan->next)
		;
	if (chan)
		fd = sv_fd_track(fcntl(chan->ib.fd, F_DUPFD_CLOEXEC, 3));
	pthread_mutex_unlock(&sv_proc->lock);
	return fd;
}

/* ---- its queues ---- */

/* Takes one pending event of a CQ. */
static bool take_pending(struct sv_chan_cq *cq)
{
	_Atomic uint32_t *pending = &sv_proc->rw->cq[cq->index].pending;
	uint32_t n = atomic_load(pending);

	while (n && !atomic_compare_exchange_weak(pending, &n, n - 1))
		;
	return n != 0;
}

void sv_chan_join(struct ibv_comp_channel *channel, struct sv_chan_cq *cq)
{
	struct sv_chan *chan = chan_of(channel);

	sv_spin_lock(&chan->lock);
	cq->next = chan->cqs;
	chan->cqs = cq;
	chan->ib.refcnt++;
	sv_spin_unlock(&chan->lock);
	atomic_store(&sv_proc->ro->cq[cq->index].channel, chan->id);
}

void sv_chan_leave(struct ibv_comp_channel *channel, struct sv_chan_cq *cq)
{
	struct sv_chan *chan = chan_of(channel);
	struct sv_chan_cq **at;

	sv_spin_lock(&chan->lock);
	for (at = &chan->cqs; *at != cq; at = &(*at)->next)
		;
	*at = cq->next;
	sv_spin_unlock(&chan->lock);
	while (take_pending(cq))
		sv_bell_drop(chan->ib.fd);
}

void sv_chan_put(struct ibv_comp_channel *channel)
{
	struct sv_chan *chan = chan_of(channel);

	sv_spin_lock(&chan->lock);
	chan->ib.refcnt--;
	sv_spin_unlock(&chan->lock);
}

/* ---- waiting ---- */

static _Atomic uint32_t *rung_of(const struct sv_chan_cq *cq)
{
	return &sv_proc->rw->cq[cq->index].rung;
}

/* An event has been written to the descriptor: to read it will not take a sleep.  (That
 * it is pending would not do: who counted it so may be about to write it.) */
static bool is_rung(struct sv_chan *chan)
{
	struct sv_chan_cq *cq;

	sv_spin_lock(&chan->lock);
	for (cq = chan->cqs; cq && atomic_load(rung_of(cq)) == cq->rung_seen; cq = cq->next)
		;
	sv_spin_unlock(&chan->lock);
	return cq;
}

/* Counts down the waits that are to be without one. */
static bool may_spin(struct sv_chan *chan)
{
	unsigned int left = atomic_load_explicit(&chan->skip, memory_order_relaxed);

	if (left)
		atomic_store_explicit(&chan->skip, left - 1, memory_order_relaxed);
	return !left && spin_ns && !(fcntl(chan->ib.fd, F_GETFL) & O_NONBLOCK);
}

/* How the spin ended: what is due to the next waits.  relaxed: a hint. */
static void learn(struct sv_chan *chan, bool in_vain)
{
	unsigned int skips = atomic_load_explicit(&chan->skips, memory_order_relaxed);

	skips = in_vain ? skips * 2 + 1 : skips / 2;
	if (skips > SKIPS_MAX)
		skips = SKIPS_MAX;
	atomic_store_explicit(&chan->skips, skips, memory_order_relaxed);
	if (in_vain)
		atomic_store_explicit(&chan->skip, skips, memory_order_relaxed);
}

/* Until there is an event, or it is time to sleep. */
static void spin(struct sv_chan *chan)
{
	uint64_t begin;

	if (is_rung(chan) || !may_spin(chan))
		return;
	begin = sv_now_ns();
	do {
		for (int i = 0; i < LOOKS; i++) {
			if (is_rung(chan)) {
				learn(chan, false);
				return;
			}
			sv_cpu_relax();
		}
		sched_yield();
	} while (sv_now_ns() - begin < spin_ns);
	/* Also if there is an event now: the CPU was given to others for that long. */
	learn(chan, true);
}

/* One event of the queue was taken.  With the last, whatever a dead or late writer left
 * in the count is made up for. */
static void see_one(struct sv_chan_cq *cq)
{
	uint32_t rung = atomic_load(rung_of(cq));

	if (!atomic_load(&sv_proc->rw->cq[cq->index].pending))
		cq->rung_seen = rung;
	else if (cq->rung_seen != rung)
		cq->rung_seen++;
}

static bool is_pending(const struct sv_chan_cq *cq)
{
	return atomic_load(&sv_proc->rw->cq[cq->index].pending);
}

/* The events of queues that have none pending are all over, however often they were
 * written. */
static void see_surplus(struct sv_chan *chan)
{
	for (struct sv_chan_cq *cq = chan->cqs; cq; cq = cq->next)
		if (!is_pending(cq))
			cq->rung_seen = atomic_load(rung_of(cq));
}

/*
 * Whose event it was that was read.  NULL: nobody's, as none has one pending.  Then it was
 * written twice, by its late writer and by who made up for that; it is passed over.  Programs
 * count on an event for each time that they asked for one: perftest has one channel for both
 * its queues, and waits for an answer that it has already, after one too many.
 * more: another CQ has one, which may be yet to be written.
 */
static struct sv_chan_cq *next_event(struct sv_chan *chan, bool *more)
{
	struct sv_chan_cq *cq, **at;

	*more = false;
	sv_spin_lock(&chan->lock);
	for (at = &chan->cqs; *at && !take_pending(*at); at = &(*at)->next)
		;
	cq = *at;
	if (cq) {
		/* To the end of the list: no CQ starves another. */
		*at = cq->next;
		cq->next = NULL;
		for (at = &chan->cqs; *at; at = &(*at)->next)
			*more |= is_pending(*at);
		*at = cq;
		atomic_fetch_add(&cq->events_got, 1);
		see_one(cq);
	} else {
		see_surplus(chan);
	}
	sv_spin_unlock(&chan->lock);
	return cq;
}

/* Also run when the reader is cancelled. */
static void leave(void *arg)
{
	struct sv_chan *chan = arg;

	if (atomic_fetch_sub(&chan->readers, 1) == (OVER | 1))
		free_channel(chan);
}

/* Blocks, or EAGAIN, as the descriptor's flags say.  0, or -1 and errno. */
static int wait_event(struct sv_chan *chan, struct sv_chan_cq **found)
{
	struct pollfd pfd = { .fd = chan->ib.fd, .events = POLLIN };
	uint64_t count;
	bool more;

	do {
		spin(chan);
		if (read(chan->ib.fd, &count, sizeof(count)) != sizeof(count))
			return -1;
		*found = next_event(chan, &more);
	} while (!*found);
	/* Its writer may be stopped, and what was just read have been written for it. */
	if (more && poll(&pfd, 1, 0) == 0)
		sv_bell_ring(chan->ib.fd);
	return 0;
}

int sv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct sv_chan *chan = chan_of(channel);
	struct sv_chan_cq *found = NULL;
	int ret;

	atomic_fetch_add(&chan->readers, 1);
	pthread_cleanup_push(leave, chan);
	ret = wait_event(chan, &found);
	pthread_cleanup_pop(1);
	if (ret)
		return -1;
	*cq = found->cq;
	*cq_context = found->cq->cq_context;
	return 0;
}
