/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kit.h -- what the programs in this folder share: client processes, how they meet,
 * and how they fail.
 *
 * The first process never opens a device: what it forks must not inherit one.
 */
#ifndef TESTS_TORTURE_KIT_H
#define TESTS_TORTURE_KIT_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/kvd.h"

/* How long what should take a moment may take. */
#define PATIENCE_NS 60000000000ull

/* ADDR of kvd; each program has it. */
extern const char *server;

/* Ends this process, and so the test. */
__attribute__((noreturn)) static inline void die(const char *what, const char *why)
{
	fprintf(stderr, "FAILED: %s: %s\n", what, why);
	fflush(NULL);
	_exit(1);
}

static inline void check(bool ok, const char *what)
{
	if (!ok)
		die("check", what);
}

/* What a test needs to have done to prove anything, whatever its size. */
static inline void reached(const char *what, uint64_t n, uint64_t least)
{
	if (n >= least)
		return;
	fprintf(stderr, "FAILED: it proves nothing: %llu %s, and %llu are the least\n",
		(unsigned long long)n, what, (unsigned long long)least);
	fflush(NULL);
	_exit(1);
}

static inline void expect_result(kvd_session *session, int got, int want, const char *what)
{
	char text[1024];

	if (got == want)
		return;
	snprintf(text, sizeof text, "%s where \"%s\" was expected (%s)", kvd_strerror(got),
		 kvd_strerror(want), got < 0 ? kvd_session_error(session) : "");
	die(what, text);
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline void rest_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}

/* For qsort(), of uint64_t: the shortest first. */
static inline int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Zeroed memory that forked processes have in common. */
static inline void *shared_new(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap", strerror(errno));
	return p;
}

/* With a time-out that only a failure reaches, or the one that is given. */
static inline kvd_session *connect_with(kvd_client **client, int timeout_ms, int depth)
{
	struct kvd_options options = { .size = sizeof options, .depth = depth,
				       .timeout_ms = timeout_ms ? timeout_ms : 20000 };
	kvd_session *session;

	if (kvd_client_new(server, &options, client) < 0 || kvd_session_new(*client, &session) < 0)
		die("connect", kvd_client_error(*client));
	return session;
}

static inline kvd_session *connect_to(kvd_client **client)
{
	return connect_with(client, 0, 0);
}

static inline void hang_up(kvd_session **session, kvd_client **client)
{
	kvd_session_delete(session);
	kvd_client_delete(client);
}

/* A process that runs `role` and ends with 0 unless it dies; it ends with this one. */
static inline pid_t start_process(void (*role)(unsigned i), unsigned i)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork", strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		role(i);
		fflush(NULL);
		_exit(0);
	}
	return pid;
}

/* Waits for its end; false if it failed. */
static inline bool ended_well(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && status == 0;
}

static inline void kill_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Whether one of the processes has ended. */
static inline bool one_ended(void)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* For this long, or until one of the processes ends. */
static inline void rest_while_running(unsigned ms)
{
	for (uint64_t end = now_ns() + ms * 1000000ull; now_ns() < end && !one_ended(); rest_ms(10))
		;
}

/* For this long, and until each of the counts is at least that: a machine may be slow, so
 * for up to a minute more.  Or until one of the processes ends. */
static inline void rest_until_done(unsigned ms, const volatile uint64_t *count, unsigned counts,
				   uint64_t least)
{
	uint64_t late_ns = now_ns() + ms * 1000000ull + PATIENCE_NS;

	rest_while_running(ms);
	for (unsigned i = 0; i < counts; i++)
		while (count[i] < least && now_ns() < late_ns && !one_ended())
			rest_ms(10);
}

/* Until *flag is at least `value`. */
static inline void await(const volatile unsigned *flag, unsigned value, const char *what)
{
	for (uint64_t end = now_ns() + PATIENCE_NS; *flag < value; rest_ms(1))
		if (now_ns() > end)
			die("never came", what);
}

#endif
