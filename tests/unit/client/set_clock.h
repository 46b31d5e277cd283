/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * set_clock.h -- a time that passes only as a program of one thread waits, and looks at the clock; for one
 * that is linked with --wrap=clock_gettime,--wrap=poll,--wrap=nanosleep.
 */
#ifndef TESTS_UNIT_CLIENT_SET_CLOCK_H
#define TESTS_UNIT_CLIENT_SET_CLOCK_H

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/poll_chk.h"

#define SET_MS 1000000ull
#define SET_BEGIN_NS 1000000000000ull
#define SET_LOOK_NS 100u

static uint64_t set_ns, set_end_ns; /* what the clocks say; who looks at that, waits without end */
static uint64_t set_look_ns;        /* what a look takes */
static int set_slept[8192];         /* waits for nothing, in turn, in milliseconds */
static unsigned set_sleeps;
static int set_waited;              /* how long a wait for descriptors may take, the last time */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *left);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	set_ns += set_look_ns;
	if (set_ns > set_end_ns)
		fail_msg("it takes too long");
	*ts = (struct timespec){ .tv_sec = (time_t)(set_ns / 1000000000),
				 .tv_nsec = (long)(set_ns % 1000000000) };
	return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	int ready = n ? __real_poll(fds, n, 0) : 0;

	set_waited = n ? ms : set_waited;
	if (!ready && ms > 0)
		set_ns += (uint64_t)ms * SET_MS;
	if (!n) {
		assert_true(set_sleeps < sizeof set_slept / sizeof set_slept[0]);
		set_slept[set_sleeps++] = ms;
	}
	return ready;
}

int __wrap_nanosleep(const struct timespec *ts, struct timespec *left)
{
	uint64_t ns = (uint64_t)ts->tv_sec * 1000000000 + (uint64_t)ts->tv_nsec;

	(void)left;
	set_ns += ns;
	assert_true(set_sleeps < sizeof set_slept / sizeof set_slept[0]);
	set_slept[set_sleeps++] = (int)(ns / SET_MS);
	return 0;
}

static inline void set_clock(void)
{
	set_ns = SET_BEGIN_NS;
	set_end_ns = set_ns + 600000 * SET_MS;
	set_look_ns = SET_LOOK_NS;
	set_sleeps = 0;
}

#endif
