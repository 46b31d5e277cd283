/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quiet.c -- how much of two CPUs others take.
 *
 *	quiet CPU CPU
 *
 * Prints the time that others took from a thread that spins on each CPU, in per cent,
 * of the busier CPU.  A figure of the device that is worse than it may be proves
 * something only where this is low.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/conformance/pinned.h"

#define SPIN_NS 60000000u
#define GAP_NS 5000u /* a longer one is somebody else's, or an interrupt's */

/* ---- stolen time ---- */

struct spinner {
	unsigned int cpu;
	double taken; /* per cent */
};

static void *spin(void *arg)
{
	struct spinner *s = arg;
	uint64_t begin, last, now, gaps = 0;

	pin(s->cpu);
	begin = last = now_ns();
	do {
		now = now_ns();
		if (now - last > GAP_NS)
			gaps += now - last;
		last = now;
	} while (now - begin < SPIN_NS);
	s->taken = (double)gaps * 100 / (double)(now - begin);
	return NULL;
}

static double measure_stolen(const unsigned int *cpus)
{
	struct spinner s[2] = { { .cpu = cpus[0] }, { .cpu = cpus[1] } };
	pthread_t thread;

	/* On one CPU they would steal from each other. */
	if (cpus[0] != cpus[1] && pthread_create(&thread, NULL, spin, &s[1]))
		die("pthread_create");
	spin(&s[0]);
	if (cpus[0] != cpus[1])
		pthread_join(thread, NULL);
	return s[0].taken > s[1].taken ? s[0].taken : s[1].taken;
}

int main(int argc, char **argv)
{
	unsigned int cpus[2];

	if (argc != 3) {
		fprintf(stderr, "usage: quiet CPU CPU\n");
		return 2;
	}
	cpus[0] = (unsigned int)atoi(argv[1]);
	cpus[1] = (unsigned int)atoi(argv[2]);
	printf("%.1f\n", measure_stolen(cpus));
	return 0;
}
