/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quiet.c -- how much of two CPUs others take, and what a wake-up costs there.
 *
 *	quiet CPU CPU
 *
 * Prints two numbers: the time that others took from a thread that spins on each CPU,
 * in per cent, of the busier CPU; and half the round trip of two threads that wake each
 * other by bare eventfds, the median in microseconds.  A figure of the device that is
 * worse than it may be proves something only where these are low: no device can wake
 * faster than the kernel does.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 60000000u
#define GAP_NS 5000u /* a longer one is somebody else's, or an interrupt's */
#define ROUNDS 400

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

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

/* ---- wake-ups ---- */

struct waker {
	unsigned int cpu;
	int in, out;
};

static void pass_on(const struct waker *w)
{
	uint64_t one;

	if (read(w->in, &one, sizeof(one)) != sizeof(one) ||
	    write(w->out, &one, sizeof(one)) != sizeof(one))
		die("eventfd");
}

static void *answer(void *arg)
{
	const struct waker *w = arg;

	pin(w->cpu);
	for (int i = 0; i < ROUNDS; i++)
		pass_on(w);
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double measure_wake_us(const unsigned int *cpus)
{
	int there = eventfd(0, EFD_CLOEXEC), back = eventfd(0, EFD_CLOEXEC);
	struct waker w = { .cpu = cpus[1], .in = there, .out = back };
	static uint64_t took_ns[ROUNDS];
	uint64_t one = 1;
	pthread_t thread;

	pin(cpus[0]);
	if (there < 0 || back < 0 || pthread_create(&thread, NULL, answer, &w))
		die("two threads with eventfds");
	for (int i = 0; i < ROUNDS; i++) {
		took_ns[i] = now_ns();
		if (write(there, &one, sizeof(one)) != sizeof(one) ||
		    read(back, &one, sizeof(one)) != sizeof(one))
			die("eventfd");
		took_ns[i] = now_ns() - took_ns[i];
	}
	pthread_join(thread, NULL);
	qsort(took_ns, ROUNDS, sizeof(took_ns[0]), by_size);
	return (double)took_ns[ROUNDS / 2] / 2000;
}

int main(int argc, char **argv)
{
	unsigned int cpus[2];
	double stolen;

	if (argc != 3) {
		fprintf(stderr, "usage: quiet CPU CPU\n");
		return 2;
	}
	cpus[0] = (unsigned int)atoi(argv[1]);
	cpus[1] = (unsigned int)atoi(argv[2]);
	stolen = measure_stolen(cpus);
	printf("%.1f %.2f\n", stolen, measure_wake_us(cpus));
	return 0;
}
