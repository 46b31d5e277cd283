/* SPDX-License-Identifier: BSD-2-Clause */
/* pinned.h -- what the programs that measure a machine's CPUs share. */
#ifndef TESTS_CONFORMANCE_PINNED_H
#define TESTS_CONFORMANCE_PINNED_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void die(const char *what)
{
	perror(what);
	exit(2);
}

static inline void pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

#endif
