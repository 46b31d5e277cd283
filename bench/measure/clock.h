/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.h -- nanoseconds of CLOCK_MONOTONIC, read as cheaply as the machine lets.
 *
 * Where the kernel itself keeps time by the processor's time stamp counter, it is
 * read directly: a third of the cost of clock_gettime(), which would be half of
 * what kvbench costs.  The counter is not waited for: it may be read a few
 * nanoseconds before the instructions in front of it are through.
 */
#ifndef BENCH_MEASURE_CLOCK_H
#define BENCH_MEASURE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Written by clock_init() alone, before threads read it. */
struct clock {
	bool counter;       /* by the time stamp counter */
	uint64_t counter_0; /* the counter at ns_0 */
	uint64_t ns_0;
	uint64_t scale;     /* nanoseconds per count, times 2^32 */
};

extern struct clock clock_state;

/* Takes 10 ms.  Call once, before any thread is there. */
void clock_init(void);

/* By clock_gettime(). */
uint64_t clock_system_ns(void);

/* Right to 10^-6 of the time since clock_init(); any thread. */
static inline uint64_t clock_ns(void)
{
#if defined(__x86_64__)
	if (clock_state.counter) {
		uint64_t counts = __rdtsc() - clock_state.counter_0;
		return clock_state.ns_0 +
		       (uint64_t)((unsigned __int128)counts * clock_state.scale >> 32);
	}
#endif
	return clock_system_ns();
}

#endif
