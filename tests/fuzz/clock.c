/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.c -- the time of a harness that waits: nobody sleeps, each look at the clock is a
 * step, and an input takes the same course each time.  Linked with FUZZ_CLOCK, which puts
 * these in the place of the C library's; outside of an input they are the C library's.
 */
#include <poll.h>
#include <time.h>

#include "tests/fuzz/clock.h"

#define LOOK_NS 50000u

static _Thread_local uint64_t now_ns; /* 0: the real time */

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __real_nanosleep(const struct timespec *want, struct timespec *rest);
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_nanosleep(const struct timespec *want, struct timespec *rest);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t fds_bytes);

void fuzz_clock_begin(void)
{
	now_ns = 1000000000ull;
}

uint64_t fuzz_clock_end(void)
{
	uint64_t passed = now_ns - 1000000000ull;

	now_ns = 0;
	return passed;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	if (!now_ns)
		return __real_clock_gettime(id, t);
	now_ns += LOOK_NS;
	*t = (struct timespec){ (time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000) };
	return 0;
}

int __wrap_nanosleep(const struct timespec *want, struct timespec *rest)
{
	if (!now_ns)
		return __real_nanosleep(want, rest);
	now_ns += (uint64_t)want->tv_sec * 1000000000ull + (uint64_t)want->tv_nsec;
	return 0;
}

/* What is ready is ready at once: nobody else is there to make it so. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	if (!now_ns)
		return __real_poll(fds, n, ms);
	int ready = n ? __real_poll(fds, n, 0) : 0;
	if (ready == 0 && ms < 0) {
		fprintf(stderr, "clock.c: not so: nobody waits without an end\n");
		abort();
	}
	if (ready == 0)
		now_ns += (uint64_t)ms * 1000000ull;
	return ready;
}

/* What poll() is with -D_FORTIFY_SOURCE. */
int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t fds_bytes)
{
	if (n > fds_bytes / sizeof *fds)
		abort();
	return __wrap_poll(fds, n, ms);
}
