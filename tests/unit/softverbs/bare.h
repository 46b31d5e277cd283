/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bare.h -- a process of the fabric whose control thread the test plays, and what it has left of
 * descriptors and mappings in the end.
 */
#ifndef TESTS_UNIT_SOFTVERBS_BARE_H
#define TESTS_UNIT_SOFTVERBS_BARE_H

#include "kit.h"
#include <sys/epoll.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/proc.h"

#define BARE_SLOT 5u
#define BARE_INCARNATION 0x1234567890abcdefu

static struct sv_proc bare_proc;
static struct sv_ro bare_ro;
static struct sv_rw bare_rw;
static int bare_before; /* bare_open() */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

/* Who takes the process's lock hasn't it yet, who lets go of it has it. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int ret = __real_pthread_mutex_lock(mutex);

	assert_int_equal(ret, 0);
	return ret;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int ret = __real_pthread_mutex_unlock(mutex);

	assert_int_equal(ret, 0);
	return ret;
}

/* How many descriptors are open: as before while none is lost. */
static inline int bare_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* How many bytes of files of that name are mapped. */
static inline size_t bare_mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char line[512];
	size_t bytes = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, name) && sscanf(line, "%lx-%lx", &from, &to) == 2)
			bytes += to - from;
	}
	fclose(maps);
	return bytes;
}

/* Frees what is retired: how many. */
static inline int bare_free(void)
{
	struct sv_watch *watch = atomic_exchange(&bare_proc.retired, NULL), *next;
	int n = 0;

	for (; watch; watch = next, n++) {
		next = watch->next_retired;
		sv_fd_close(watch->fd);
		watch->release(watch);
	}
	return n;
}

/* One turn of the control thread: how many of what it watches had something. */
static inline int bare_turn(void)
{
	struct epoll_event events[16];
	int n = epoll_wait(bare_proc.epoll_fd, events, 16, 0);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		struct sv_watch *watch = events[i].data.ptr;

		watch->ready(watch, events[i].events);
	}
	return n;
}

/* Whether that bell has rung since it was last asked. */
static inline bool bare_rang(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	bool rang = poll(&pfd, 1, 0) == 1;

	sv_bell_drop(fd);
	return rang;
}

static inline int bare_begin(void **state)
{
	pthread_mutexattr_t attr;

	(void)state;
	bare_before = bare_open();
	memset(&bare_proc, 0, sizeof(bare_proc));
	memset(&bare_ro, 0, sizeof(bare_ro));
	memset(&bare_rw, 0, sizeof(bare_rw));
	bare_proc.slot = BARE_SLOT;
	bare_proc.incarnation = BARE_INCARNATION;
	bare_proc.ro = &bare_ro;
	bare_proc.rw = &bare_rw;
	bare_proc.ro_fd = bare_proc.rw_fd = bare_proc.sender_fd = -1;
	bare_proc.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	bare_proc.kick_fd = sv_bell_open();
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&bare_proc.lock, &attr);
	pthread_mutexattr_destroy(&attr);
	snprintf(bare_proc.fabric, sizeof(bare_proc.fabric), "bare-%d", (int)getpid());
	sv_proc = &bare_proc;
	return bare_proc.epoll_fd < 0 || bare_proc.kick_fd < 0;
}

static inline int bare_end(void **state)
{
	(void)state;
	bare_free();
	sv_fd_close(bare_proc.sender_fd);
	sv_fd_close(bare_proc.kick_fd);
	close(bare_proc.epoll_fd);
	assert_int_equal(pthread_mutex_destroy(&bare_proc.lock), 0); /* nobody has it */
	if (!bare_proc.peers && !bare_proc.guests && bare_open() == bare_before &&
	    !bare_mapped("memfd:softverbs"))
		return 0;
	fprintf(stderr, "left: links %d, guests %d, descriptors %d instead of %d, mapped %zu\n",
		!!bare_proc.peers, !!bare_proc.guests, bare_open(), bare_before,
		bare_mapped("memfd:softverbs"));
	return -1;
}

#endif
