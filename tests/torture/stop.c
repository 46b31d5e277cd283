/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/torture/stop.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define STOPPED_MS 300
#define ASLEEP_MS 20000 /* until then all of kvd's threads sleep, also on a busy machine */
/* More than any GET needs, of a reader's own time. */
#define READER_MS 1000
/* After this clients give their connections up. */
#define NO_TIME_MS 4000

/* Half of a stop: a GET that takes as long of its reader's own time waits for kvd. */
#define BLOCKED_NS 150000000ull

/* A reader that was connected when kvd stopped. */
struct reader {
	struct reading *reading;
	pid_t pid;
	int tid;
	struct effort before;
};

/* The signal needs a moment to reach all threads; on a crowded machine a long one. */
static bool all_stopped(pid_t pid)
{
	char path[80];
	bool all = true;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	if (!dir)
		return true;
	for (struct dirent *e; all && (e = readdir(dir));) {
		if (e->d_name[0] == '.')
			continue;
		struct effort of = effort_of(pid, atoi(e->d_name));
		all = of.is_stopped || !of.at_ns;
	}
	closedir(dir);
	return all;
}

static bool rest_until_stopped(pid_t pid)
{
	uint64_t end = history_now_ns() + ASLEEP_MS * 1000000ull;
	bool stopped;

	do
		poll(NULL, 0, 5);
	while (!(stopped = all_stopped(pid)) && history_now_ns() < end);
	return stopped;
}

static unsigned find_readers(struct board *b, int readers, const pid_t *pid, struct reader *found)
{
	unsigned n = 0;

	for (int i = 0; i < readers; i++) {
		for (int k = 0; k < THREADS_MAX; k++) {
			struct reading *r = &b->reading[i][k];
			int tid = atomic_load(&r->tid);
			if (pid[i] <= 0 || !tid)
				continue;
			found[n++] = (struct reader){ .reading = r, .pid = pid[i], .tid = tid,
				.before = effort_of(pid[i], tid) };
		}
	}
	return n;
}

/* Whether one of them could have done something since. */
static bool had_time(const struct reader *reader, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct effort now = effort_of(reader[i].pid, reader[i].tid);
		if (now.at_ns && effort_own_ns(&reader[i].before, &now) > READER_MS * 1000000ull)
			return true;
	}
	return false;
}

/* It is in a GET, and has had time for it since kvd stopped. */
static bool is_blocked(const struct reader *reader)
{
	struct reading *r = reader->reading;
	uint64_t get = atomic_load(&r->get);
	struct effort began = r->began, now = effort_of(reader->pid, reader->tid);

	if (!began.at_ns)
		began = reader->before;
	return get && now.at_ns && effort_own_ns(&began, &now) > BLOCKED_NS &&
	       atomic_load(&r->get) == get;
}

static void blame(struct board *b, const struct reader *reader, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!is_blocked(&reader[i]))
			continue;
		atomic_fetch_add(&b->blocked, 1);
		atomic_store(&reader[i].reading->is_blamed, true);
	}
}

int stop_once(struct stops *stops, struct board *b, int readers, const pid_t *pid, pid_t kvd)
{
	struct reader reader[CLIENTS_MAX * THREADS_MAX];
	uint64_t before;

	if (kill(kvd, SIGSTOP))
		return errno;
	if (!rest_until_stopped(kvd)) {
		kill(kvd, SIGCONT);
		return ETIMEDOUT;
	}
	unsigned n = find_readers(b, readers, pid, reader);
	before = atomic_load(&b->gets_while_stopped);
	uint64_t began = history_now_ns(), end = began + NO_TIME_MS * 1000000ull;
	atomic_store(&b->stop_began_ns, began);
	poll(NULL, 0, STOPPED_MS);
	while (atomic_load(&b->gets_while_stopped) == before && !had_time(reader, n) &&
	       history_now_ns() < end)
		poll(NULL, 0, 5);
	if (atomic_load(&b->gets_while_stopped) == before) {
		bool silent = had_time(reader, n);
		stops->silent += silent;
		stops->no_time += !silent;
	}
	blame(b, reader, n);
	atomic_store(&b->stop_began_ns, 0);
	kill(kvd, SIGCONT);
	stops->count++;
	return 0;
}
