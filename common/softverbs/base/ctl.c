/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.c -- the control thread of a process.
 *
 * It sleeps in epoll_wait() until a socket, the process's kick descriptor or a
 * timer wants it: peers that come, ask or die; requests on behalf of queue pairs
 * (sv_rw.attention); send queues whose retry time has come; connection
 * management.  What it does then is whom it calls: ctl.h.  It never waits for another
 * process and never blocks on a socket.
 *
 * It lives as long as the process.  Objects that it watches are retired by any
 * thread and freed here, between two batches of events.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/proc.h"

#define BATCH 64
#define TIMERS_MAX 2 /* send queues, connection management */

static _Thread_local bool is_ctl;
static void (*attend)(uint32_t index);
static uint64_t (*_Atomic timers[TIMERS_MAX])(void);
static struct sv_watch kicked, timer;

/* ---- who is called ---- */

void sv_ctl_on_attention(void (*to)(uint32_t index))
{
	attend = to;
}

void sv_ctl_on_timer(uint64_t (*run)(void))
{
	for (int i = 0; i < TIMERS_MAX; i++) {
		uint64_t (*there)(void) = NULL;

		if (atomic_compare_exchange_strong(&timers[i], &there, run) || there == run)
			return;
	}
}

/* ---- what is watched ---- */

int sv_watch_add(struct sv_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	return epoll_ctl(sv_proc->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) ? errno : 0;
}

void sv_watch_stop(struct sv_watch *watch)
{
	epoll_ctl(sv_proc->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
}

static void kick(void)
{
	sv_bell_ring(sv_proc->kick_fd);
}

void sv_watch_retire(struct sv_watch *watch)
{
	struct sv_watch *head = atomic_load(&sv_proc->retired);

	if (watch->fd >= 0)
		sv_watch_stop(watch);
	do
		watch->next_retired = head;
	while (!atomic_compare_exchange_weak(&sv_proc->retired, &head, watch));
	kick();
}

static void free_retired(void)
{
	struct sv_watch *watch = atomic_exchange(&sv_proc->retired, NULL);

	while (watch) {
		struct sv_watch *next = watch->next_retired;

		/* Not before: ready() may have been at it. */
		sv_fd_close(watch->fd);
		watch->release(watch);
		watch = next;
	}
}

/* ---- time ---- */

/* The caller has stored what is due at at_ns, and where it is found (seq_cst).
 * Either run_timers() finds it in its second look, or the wake_at_ns that it stored
 * is seen here. */
void sv_ctl_wake_at(uint64_t at_ns)
{
	if (at_ns < atomic_load(&sv_proc->wake_at_ns) && !is_ctl)
		kick();
}

static void set_timer(uint64_t at_ns)
{
	struct itimerspec spec = { 0 };

	if (at_ns != UINT64_MAX) {
		spec.it_value.tv_sec = (time_t)(at_ns / 1000000000u);
		spec.it_value.tv_nsec = (long)(at_ns % 1000000000u);
		if (!at_ns)
			spec.it_value.tv_nsec = 1;
	}
	timerfd_settime(sv_proc->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static uint64_t run_due(void)
{
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < TIMERS_MAX; i++) {
		uint64_t (*run)(void) = atomic_load(&timers[i]);
		uint64_t due = run ? run() : UINT64_MAX;

		next = due < next ? due : next;
	}
	return next;
}

static void run_timers(void)
{
	uint64_t next = run_due();

	for (;;) {
		uint64_t again;

		/* seq_cst: partner of sv_ctl_wake_at(). */
		atomic_store(&sv_proc->wake_at_ns, next);
		again = run_due();
		if (again >= next)
			break;
		next = again;
	}
	set_timer(next);
}

/* ---- the thread ---- */

static void run_attention(void)
{
	struct sv_set *set = &sv_proc->rw->attention;
	uint64_t top = atomic_exchange(&set->top, 0);

	for (; top; top &= top - 1) {
		int word = __builtin_ctzll(top);
		uint64_t bits = atomic_exchange(&set->word[word], 0);

		for (; bits; bits &= bits - 1)
			attend((uint32_t)(word * 64 + __builtin_ctzll(bits)));
	}
}

static void on_kick(struct sv_watch *watch, uint32_t events)
{
	uint64_t count;
	ssize_t n = read(watch->fd, &count, sizeof(count));

	(void)events;
	(void)n;
}

static void *ctl_main(void *arg)
{
	struct epoll_event events[BATCH];

	(void)arg;
	is_ctl = true;
	pthread_setname_np(pthread_self(), "softverbs");
	for (;;) {
		int n = epoll_wait(sv_proc->epoll_fd, events, BATCH, -1);

		for (int i = 0; i < n; i++) {
			struct sv_watch *watch = events[i].data.ptr;

			watch->ready(watch, events[i].events);
		}
		run_attention();
		run_timers();
		free_retired();
	}
	return NULL;
}

static void release_nothing(struct sv_watch *watch)
{
	(void)watch;
}

/* Wants every descriptor and mapping of sv_proc to be there. */
int sv_ctl_start(void)
{
	struct sv_proc *p = sv_proc;
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int ret;

	kicked = (struct sv_watch){ .fd = p->kick_fd, .ready = on_kick,
				    .release = release_nothing };
	timer = (struct sv_watch){ .fd = p->timer_fd, .ready = on_kick,
				   .release = release_nothing };
	ret = sv_watch_add(&kicked, EPOLLIN);
	if (!ret)
		ret = sv_watch_add(&timer, EPOLLIN);
	if (ret)
		return ret;
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&thread, &attr, ctl_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return ret;
}
