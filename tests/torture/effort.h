/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * effort.h -- what time a thread had, as against how long it waited for a processor.
 *
 * What took long on a crowded machine says nothing of whom it waited for; what took
 * long of the thread's own time does: it worked, or it slept until somebody woke it.
 */
#ifndef TESTS_TORTURE_EFFORT_H
#define TESTS_TORTURE_EFFORT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/history.h"

/* Of a thread, since it began. */
struct effort {
	uint64_t at_ns; /* the clock */
	bool sleeps;
	bool is_stopped;
	uint64_t ran_ns;
	uint64_t delayed_ns; /* ready, but without a processor; not while it still is */
};

/* The file of a thread as a string; false: it has ended. */
static inline bool effort_file(int pid, int tid, const char *name, char *text, size_t bytes)
{
	char path[80];

	snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, bytes - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* All zeros for a thread that has ended. */
static inline struct effort effort_of(int pid, int tid)
{
	struct effort e = { .at_ns = history_now_ns() };
	char text[512], *end;

	/* In this order: of a thread that slept, all delays before are counted. */
	if (!effort_file(pid, tid, "stat", text, sizeof text) || !(end = strrchr(text, ')')))
		return (struct effort){ 0 };
	if (end[1] == ' ') {
		e.sleeps = end[2] == 'S' || end[2] == 'D';
		e.is_stopped = end[2] == 'T' || end[2] == 't';
	}
	if (!effort_file(pid, tid, "schedstat", text, sizeof text))
		return (struct effort){ 0 };
	e.ran_ns = strtoull(text, &end, 10);
	e.delayed_ns = strtoull(end, NULL, 10);
	return e;
}

/* The time that was the thread's own, at the least. */
static inline uint64_t effort_own_ns(const struct effort *before, const struct effort *after)
{
	uint64_t delayed_ns = after->delayed_ns - before->delayed_ns;

	if (!after->sleeps)
		return after->ran_ns - before->ran_ns;
	return after->at_ns - before->at_ns > delayed_ns ? after->at_ns - before->at_ns - delayed_ns : 0;
}

#endif
