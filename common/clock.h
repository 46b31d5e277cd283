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

#endif
