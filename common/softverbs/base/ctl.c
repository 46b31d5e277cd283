/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.c -- the control thread of a process.
 *
 * It sleeps in epoll_wait() until a socket, the process's kick descriptor or a
 * timer wants it: peers that come, ask or die; requests on behalf of queue pairs
 * (sv_rw.attention); send queues whose retry time has come; connection
 * management.  It never waits for another process and never blocks on a socket.
 *
 * It lives as long as the process.  Objects that it watches are retired by any
 * thread and freed here, between two batches of events.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "common/softverbs/cm/cm.h"
#include "common/softverbs/peer/peer.h"
#include "common/softverbs/sv.h"

#define BATCH 64

static _Thread_local bool is_ctl;

int sv_watch_add(struct sv_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	return epoll_ctl(sv_proc->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) ? errno : 0;
}

void sv_watch_retire(struct sv_watch *watch)
{
	struct sv_watch *head = atomic_load(&sv_proc->retired);

	if (watch->fd >= 0)
		epoll_ctl(sv_proc->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	do
		watch->next_retired = head;
	while (!atomic_compare_exchange_weak(&sv_proc->retired, &head, watch));
	sv_ctl_kick();
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

void sv_ctl_kick(void)
{
	sv_bell_ring(sv_proc->kick_fd);
}

/* The caller has stored what is due at at_ns, and where it is found (seq_cst).
 * Either run_timers() finds it in its second look, or the wake_at_ns that it stored
 * is seen here. */
void sv_ctl_wake_at(uint64_t at_ns)
{
	if (at_ns < atomic_load(&sv_proc->wake_at_ns) && !sv_ctl_is_me())
		sv_ctl_kick();
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
	uint64_t queues = sv_progress_blocked(NULL, NULL);
	uint64_t cm = sv_cm_run_timers();

	return queues < cm ? queues : cm;
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

static void run_attention(void)
{
	struct sv_set *set = &sv_proc->rw->attention;
	uint64_t top = atomic_exchange(&set->top, 0);

	for (; top; top &= top - 1) {
		int word = __builtin_ctzll(top);
		uint64_t bits = atomic_exchange(&set->word[word], 0);

		for (; bits; bits &= bits - 1)
			sv_qp_attend((uint32_t)(word * 64 + __builtin_ctzll(bits)));
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

bool sv_ctl_is_me(void)
{
	return is_ctl;
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

	p->kicked = (struct sv_watch){ .fd = p->kick_fd, .ready = on_kick,
				       .release = release_nothing };
	p->timer = (struct sv_watch){ .fd = p->timer_fd, .ready = on_kick,
				      .release = release_nothing };
	ret = sv_watch_add(&p->kicked, EPOLLIN);
	if (!ret)
		ret = sv_watch_add(&p->timer, EPOLLIN);
	if (!ret)
		ret = sv_watch_add(&p->listener, EPOLLIN);
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
