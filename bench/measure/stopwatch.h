/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stopwatch.h -- nanoseconds of CLOCK_MONOTONIC, read as cheaply as the machine lets.
 *
 * Where the kernel itself keeps time by the processor's time stamp counter, it is
 * read directly: a third of the cost of clock_gettime(), which would be half of
 * what kvbench costs.  The counter is not waited for: it may be read a few
 * nanoseconds before the instructions in front of it are through.
 */
#ifndef BENCH_MEASURE_STOPWATCH_H
#define BENCH_MEASURE_STOPWATCH_H

#include <stdbool.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "common/clock.h"

/* Written by stopwatch_init() alone, before threads read it. */
struct stopwatch {
	bool counter;       /* by the time stamp counter */
	uint64_t counter_0; /* the counter at ns_0 */
	uint64_t ns_0;
	uint64_t scale;     /* nanoseconds per count, times 2^32 */
};

extern struct stopwatch stopwatch_state;

/* Takes 10 ms.  Call once, before any thread is there. */
void stopwatch_init(void);

/* Right to 10^-6 of the time since stopwatch_init(); any thread. */
static inline uint64_t stopwatch_ns(void)
{
#if defined(__x86_64__)
	if (stopwatch_state.counter) {
		uint64_t counts = __rdtsc() - stopwatch_state.counter_0;
		return stopwatch_state.ns_0 +
		       (uint64_t)((unsigned __int128)counts * stopwatch_state.scale >> 32);
	}
#endif
	return clock_ns();
}

#endif
