/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h -- the time, in nanoseconds.  Any thread; neither call blocks. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Of durations and deadlines: CLOCK_MONOTONIC, which nobody sets. */
static inline uint64_t clock_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/*
 * How long this machine has been suspended since its start, by which CLOCK_MONOTONIC is
 * behind: as of CLOCK_BOOTTIME read before now_ns, never too long, and too short by what
 * lies between the two.
 */
static inline uint64_t clock_slept_ns(uint64_t boot_ns, uint64_t now_ns)
{
	return boot_ns > now_ns ? boot_ns - now_ns : 0;
}

#endif
