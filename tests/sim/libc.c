/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program asks of the C library that blocks, tells time or is random, for
 * threads of a world; to all others it is what it was.
 *
 * Descriptors are real.  What may block on one is asked without blocking, and asked
 * again after somebody did what may have changed the answer (sim_io()).  A mutex is
 * real, but a thread that does not get it sleeps in the scheduler; a condition variable
 * is only the address that threads wait for.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/sim.h"

#define CALL_NS 100u
#define YIELD_NS 500u
#define TIMERS_MAX 8

#define PUBLIC __attribute__((visibility("default")))
/* The next function of this name: the library's own. */
#define REAL(name)                                                            \
	({                                                                    \
		static __typeof__(&name) real_##name;                         \
		if (!real_##name)                                             \
			*(void **)&real_##name = dlsym(RTLD_NEXT, #name);     \
		real_##name;                                                  \
	})

static void call(void)
{
	sim_access(CALL_NS);
}

/* --------------------------------------------------------------------- time */

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000ull + (uint64_t)t->tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

static uint64_t after_ms(int ms)
{
	return ms < 0 ? SIM_FOREVER : sim->now_ns + (uint64_t)ms * 1000000u;
}

PUBLIC int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (sim_me < 0)
		return REAL(clock_gettime)(clock, t);
	sim_access(30);
	*t = timespec_of(sim->now_ns + (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE
						? SIM_REALTIME_NS : 0));
	return 0;
}

PUBLIC time_t time(time_t *t)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}

PUBLIC int nanosleep(const struct timespec *t, struct timespec *left)
{
	if (sim_me < 0)
		return REAL(nanosleep)(t, left);
	sim_wait("nanosleep", NULL, false, sim->now_ns + ns_of(t));
	return 0;
}

PUBLIC int sched_yield(void)
{
	if (sim_me < 0)
		return REAL(sched_yield)();
	sim->now_ns += YIELD_NS;
	sim_yield_to_others();
	return 0;
}

/* -------------------------------------------------------------- randomness */

PUBLIC ssize_t getrandom(void *buf, size_t bytes, unsigned flags)
{
	uint8_t *to = buf;

	if (sim_me < 0)
		return REAL(getrandom)(buf, bytes, flags);
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = sim_random();
		memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
	return (ssize_t)bytes;
}

/* ------------------------------------------------------------------ threads */

PUBLIC int pthread_mutex_lock(pthread_mutex_t *m)
{
	int rc;

	if (sim_me < 0)
		return REAL(pthread_mutex_lock)(m);
	call();
	while ((rc = pthread_mutex_trylock(m)) == EBUSY)
		sim_wait("pthread_mutex_lock", m, false, SIM_FOREVER);
	return rc;
}

PUBLIC int pthread_mutex_unlock(pthread_mutex_t *m)
{
	int rc = REAL(pthread_mutex_unlock)(m);

	if (sim_me >= 0)
		sim_wake(m, true);
	return rc;
}

static int wait_cond(pthread_cond_t *c, pthread_mutex_t *m, uint64_t deadline_ns)
{
	pthread_mutex_unlock(m);
	bool woken = sim_wait("pthread_cond_wait", c, false, deadline_ns);
	pthread_mutex_lock(m);
	return woken ? 0 : ETIMEDOUT;
}

PUBLIC int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	if (sim_me < 0)
		return REAL(pthread_cond_wait)(c, m);
	return wait_cond(c, m, SIM_FOREVER);
}

/* The clock shows in the time: the two are decades apart. */
PUBLIC int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
	uint64_t at = ns_of(t);

	if (sim_me < 0)
		return REAL(pthread_cond_timedwait)(c, m, t);
	return wait_cond(c, m, at >= SIM_REALTIME_NS ? at - SIM_REALTIME_NS : at);
}

PUBLIC int pthread_cond_signal(pthread_cond_t *c)
{
	if (sim_me < 0)
		return REAL(pthread_cond_signal)(c);
	sim_wake(c, false);
	return 0;
}

PUBLIC int pthread_cond_broadcast(pthread_cond_t *c)
{
	if (sim_me < 0)
		return REAL(pthread_cond_broadcast)(c);
	sim_wake(c, true);
	return 0;
}

/* Whoever else calls it meanwhile would sleep in the library. */
PUBLIC int pthread_once(pthread_once_t *once, void (*run)(void))
{
	if (sim_me < 0)
		return REAL(pthread_once)(once, run);
	sim_hold();
	int rc = REAL(pthread_once)(once, run);
	sim_release();
	return rc;
}

struct start {
	void *(*run)(void *);
	void *arg;
	int thread;
};

static pthread_key_t leaving;
static pthread_once_t leaving_once = PTHREAD_ONCE_INIT;

/* The last destructor of a thread's data: those of others run under the baton. */
static void leave(void *round)
{
	if ((uintptr_t)round < 3)
		pthread_setspecific(leaving, (void *)((uintptr_t)round + 1));
	else
		sim_leave();
}

static void make_key(void)
{
	pthread_key_create(&leaving, leave);
}

static void *begin(void *arg)
{
	struct start s = *(struct start *)arg;

	sim_arrive(s.thread);
	free(arg);
	pthread_setspecific(leaving, (void *)1);
	return s.run(s.arg);
}

PUBLIC int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	if (sim_me < 0)
		return REAL(pthread_create)(id, attr, run, arg);
	struct start *s = malloc(sizeof *s);
	if (!s)
		return EAGAIN;
	sim_hold();
	REAL(pthread_once)(&leaving_once, make_key);
	*s = (struct start){ run, arg, sim_thread_new(sim->thread[sim_me].process) };
	int rc = REAL(pthread_create)(id, attr, begin, s);
	if (rc)
		sim_judge(SIM_WRONG, "pthread_create: %s", strerror(rc));
	else
		sim->thread[s->thread].pthread = (uint64_t)*id;
	sim_release();
	call();
	return rc;
}

PUBLIC int pthread_join(pthread_t id, void **result)
{
	if (sim_me < 0)
		return REAL(pthread_join)(id, result);
	for (unsigned i = 0; i < SIM_THREADS_MAX; i++) {
		const struct sim_thread *t = &sim->thread[i];
		while (t->state != SIM_FREE && t->process == sim->thread[sim_me].process &&
		       t->pthread == (uint64_t)id)
			sim_wait("pthread_join", t, false, SIM_FOREVER);
	}
	return REAL(pthread_join)(id, result);
}

/* All of a world is on one core. */
PUBLIC int pthread_setaffinity_np(pthread_t id, size_t bytes, const cpu_set_t *set)
{
	return sim_me < 0 ? REAL(pthread_setaffinity_np)(id, bytes, set) : 0;
}

/* -------------------------------------------------------------- descriptors */

PUBLIC int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	if (sim_me < 0)
		return REAL(poll)(fds, n, timeout_ms);
	call();
	for (uint64_t end = after_ms(timeout_ms);;) {
		int got = n ? REAL(poll)(fds, n, 0) : 0;
		if (got || !timeout_ms)
			return got;
		if (!sim_wait("poll", NULL, n > 0, end) && sim->now_ns >= end)
			timeout_ms = 0; /* one last look */
	}
}

/* Timers: an event descriptor, that is written by whoever waits for it. */
static struct timer {
	int fd;
	uint64_t at_ns; /* 0: off */
} timers[TIMERS_MAX];
static unsigned timer_count;

PUBLIC int timerfd_create(int clock, int flags)
{
	if (sim_me < 0)
		return REAL(timerfd_create)(clock, flags);
	int fd = eventfd(0, EFD_NONBLOCK | (flags & TFD_CLOEXEC ? EFD_CLOEXEC : 0));
	if (fd < 0 || timer_count == TIMERS_MAX) {
		sim_judge(SIM_WRONG, "no more timers for the simulation");
		return -1;
	}
	timers[timer_count++] = (struct timer){ .fd = fd };
	return fd;
}

PUBLIC int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	eventfd_t count;

	if (sim_me < 0)
		return REAL(timerfd_settime)(fd, flags, new, old);
	for (unsigned i = 0; i < timer_count; i++) {
		if (timers[i].fd != fd)
			continue;
		eventfd_read(fd, &count);
		timers[i].at_ns = ns_of(&new->it_value);
		if (timers[i].at_ns && !(flags & TFD_TIMER_ABSTIME))
			timers[i].at_ns += sim->now_ns;
		return 0;
	}
	errno = EBADF;
	return -1;
}

/* Those that are due; when the next one is. */
static uint64_t run_timers(void)
{
	uint64_t next = SIM_FOREVER;

	for (unsigned i = 0; i < timer_count; i++) {
		struct timer *t = &timers[i];
		if (t->at_ns && t->at_ns <= sim->now_ns) {
			t->at_ns = 0;
			eventfd_write(t->fd, 1);
		}
		if (t->at_ns && t->at_ns < next)
			next = t->at_ns;
	}
	return next;
}

PUBLIC int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	if (sim_me < 0)
		return REAL(epoll_wait)(fd, events, max, timeout_ms);
	call();
	for (uint64_t end = after_ms(timeout_ms);;) {
		uint64_t timer = run_timers();
		int got = REAL(epoll_wait)(fd, events, max, 0);
		if (got || sim->now_ns >= end)
			return got;
		sim_wait("epoll_wait", NULL, true, timer < end ? timer : end);
	}
}

static void await_input(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (flags >= 0 && !(flags & O_NONBLOCK))
		while (REAL(poll)(&p, 1, 0) == 0)
			sim_wait("read", NULL, true, SIM_FOREVER);
}

PUBLIC ssize_t read(int fd, void *buf, size_t bytes)
{
	if (sim_me >= 0) {
		call();
		await_input(fd);
		sim_io();
	}
	return REAL(read)(fd, buf, bytes);
}

PUBLIC ssize_t recv(int fd, void *buf, size_t bytes, int flags)
{
	if (sim_me >= 0) {
		call();
		if (!(flags & MSG_DONTWAIT))
			await_input(fd);
		sim_io();
	}
	return REAL(recv)(fd, buf, bytes, flags);
}

/* What these are in the parts of kvd that are built as anybody builds them, where the compiler checks sizes. */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room);
ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t bytes, size_t room, int flags);

PUBLIC int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room)
{
	if (room / sizeof *fds < n)
		abort();
	return poll(fds, n, timeout_ms);
}

PUBLIC ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t room)
{
	if (room < bytes)
		abort();
	return read(fd, buf, bytes);
}

PUBLIC ssize_t __recv_chk(int fd, void *buf, size_t bytes, size_t room, int flags)
{
	if (room < bytes)
		abort();
	return recv(fd, buf, bytes, flags);
}

PUBLIC ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (sim_me >= 0) {
		call();
		if (!(flags & MSG_DONTWAIT))
			await_input(fd);
		sim_io();
	}
	return REAL(recvmsg)(fd, msg, flags);
}

/* What others may wait for: they are to look again. */
#define TELLING(type, name, parameters, arguments)                            \
	PUBLIC type name parameters                                           \
	{                                                                     \
		if (sim_me >= 0) {                                            \
			call();                                               \
			sim_io();                                             \
		}                                                             \
		return REAL(name) arguments;                                  \
	}

TELLING(ssize_t, write, (int fd, const void *buf, size_t bytes), (fd, buf, bytes))
TELLING(ssize_t, send, (int fd, const void *buf, size_t bytes, int flags), (fd, buf, bytes, flags))
TELLING(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
TELLING(int, eventfd_write, (int fd, eventfd_t value), (fd, value))
TELLING(int, close, (int fd), (fd))
TELLING(int, shutdown, (int fd, int how), (fd, how))
TELLING(int, listen, (int fd, int backlog), (fd, backlog))
TELLING(int, connect, (int fd, const struct sockaddr *addr, socklen_t bytes), (fd, addr, bytes))
TELLING(int, accept4, (int fd, struct sockaddr *addr, socklen_t *bytes, int flags),
	(fd, addr, bytes, flags))
TELLING(int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event),
	(epoll, op, fd, event))
