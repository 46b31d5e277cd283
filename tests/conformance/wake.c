/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wake.c -- what it costs to wake another process, without any device.
 *
 *	wake [--awake] CPU CPU [WAY...]
 *
 * Two processes, one on each CPU, wake each other by turns; WAY is eventfd, futex,
 * socketpair or line (all of them), which is a word that is spun on: what a line of the
 * cache takes from one CPU to another, and not told of a single CPU.  Prints "WAY US" for
 * each: half the round trip, the median in microseconds.  With --awake, threads of the lowest class keep the CPUs from idling:
 * what is left is the cost of the kernel's scheduler, and the rest was that of waking
 * a CPU.  No device that sleeps in the kernel is faster than the best of them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/conformance/pinned.h"

#define WARM_UP 50
#define ROUNDS 400

/* Of each side, 0 and 1: where it is woken. */
static int fd[2];
static _Atomic uint32_t *word;

/* ---- ways ---- */

static void open_eventfd(void)
{
	for (int i = 0; i < 2; i++) {
		fd[i] = eventfd(0, EFD_CLOEXEC);
		if (fd[i] < 0)
			die("eventfd");
	}
}

static void open_socketpair(void)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		die("socketpair");
}

static void wait_fd(int side)
{
	uint64_t got;

	if (read(fd[side], &got, sizeof(got)) != sizeof(got))
		die("read");
}

static void wake_fd(int side)
{
	uint64_t one = 1;

	if (write(fd[side], &one, sizeof(one)) != sizeof(one))
		die("write");
}

/* What is written to one end of a pair is read at the other. */
static void wake_socket(int side)
{
	wake_fd(!side);
}

static void close_fds(void)
{
	close(fd[0]);
	close(fd[1]);
}

static void open_word(void)
{
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (word == MAP_FAILED)
		die("mmap");
}

static void wait_futex(int side)
{
	while (!atomic_exchange(&word[side * 16], 0)) {
		if (syscall(SYS_futex, &word[side * 16], FUTEX_WAIT, 0, NULL, NULL, 0) &&
		    errno != EAGAIN && errno != EINTR)
			die("futex");
	}
}

static void wake_futex(int side)
{
	atomic_store(&word[side * 16], 1);
	syscall(SYS_futex, &word[side * 16], FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void close_word(void)
{
	munmap((void *)(uintptr_t)word, 4096);
}

/* A process of a real-time class, too, lets the other one come to its own CPU first. */
static void wait_line(int side)
{
	for (unsigned int spins = 1; !atomic_load_explicit(&word[side * 16], memory_order_acquire); spins++)
		if (spins % 4096 == 0)
			sched_yield();
	atomic_store_explicit(&word[side * 16], 0, memory_order_relaxed);
}

static void wake_line(int side)
{
	atomic_store_explicit(&word[side * 16], 1, memory_order_release);
}

static const struct way {
	const char *name;
	void (*open)(void);
	void (*wait)(int side); /* until this side is woken */
	void (*wake)(int side);
	void (*close)(void);
} ways[] = {
	{ "eventfd", open_eventfd, wait_fd, wake_fd, close_fds },
	{ "futex", open_word, wait_futex, wake_futex, close_word },
	{ "socketpair", open_socketpair, wait_fd, wake_socket, close_fds },
	{ "line", open_word, wait_line, wake_line, close_word },
};

/* ---- two processes ---- */

/* A child that ends with its parent, on that CPU. */
static pid_t start_child(unsigned int cpu)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	pin(cpu);
	return 0;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static pid_t keep_awake(unsigned int cpu)
{
	pid_t pid = start_child(cpu);

	if (pid)
		return pid;
	if (sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 }))
		_exit(2);
	for (;;)
		;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double measure_us(const struct way *way, unsigned int cpu)
{
	static uint64_t took_ns[ROUNDS];
	pid_t pid;

	way->open();
	pid = start_child(cpu);
	while (!pid) {
		way->wait(1);
		way->wake(0);
	}
	for (int i = -WARM_UP; i < ROUNDS; i++) {
		uint64_t begin = now_ns();

		way->wake(1);
		way->wait(0);
		if (i >= 0)
			took_ns[i] = now_ns() - begin;
	}
	end_child(pid);
	way->close();
	qsort(took_ns, ROUNDS, sizeof(took_ns[0]), by_size);
	return (double)took_ns[ROUNDS / 2] / 2000;
}

static bool is_asked(const char *name, char **asked)
{
	bool all = !*asked;

	while (*asked && strcmp(*asked, name) != 0)
		asked++;
	return all || *asked;
}

int main(int argc, char **argv)
{
	bool awake = argc > 1 && !strcmp(argv[1], "--awake");
	pid_t spinner[2] = { 0 };
	unsigned int cpu[2];

	argv += 1 + awake;
	if (argc < 3 + awake) {
		fprintf(stderr, "usage: wake [--awake] CPU CPU [eventfd|futex|socketpair|line...]\n");
		return 2;
	}
	for (int i = 0; i < 2; i++) {
		cpu[i] = (unsigned int)atoi(argv[i]);
		if (awake)
			spinner[i] = keep_awake(cpu[i]);
	}
	pin(cpu[0]);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (is_asked(ways[i].name, argv + 2) && (ways[i].wait != wait_line || cpu[0] != cpu[1]))
			printf("%s %.2f\n", ways[i].name, measure_us(&ways[i], cpu[1]));
	}
	for (int i = 0; awake && i < 2; i++)
		end_child(spinner[i]);
	return 0;
}
