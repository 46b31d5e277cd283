/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fd.c -- descriptors that a forked child must not keep.
 *
 * Peers learn of a process's death from its sockets.  A child that inherits them
 * would keep its dead parent alive, so every descriptor of the device is noted
 * here and closed in the child (verbs/start.c).  exec closes them anyway.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
#include "common/softverbs/base/fd.h"

#define TRACKED_MAX 65536

/* relaxed: only the single thread of a forked child reads all of it. */
static _Atomic uint64_t tracked[TRACKED_MAX / 64];

int sv_fd_track(int fd)
{
	if (fd >= 0 && fd < TRACKED_MAX)
		atomic_fetch_or_explicit(&tracked[fd / 64], 1ull << fd % 64,
					 memory_order_relaxed);
	return fd;
}

void sv_fd_close(int fd)
{
	if (fd < 0)
		return;
	if (fd < TRACKED_MAX)
		atomic_fetch_and_explicit(&tracked[fd / 64], ~(1ull << fd % 64),
					  memory_order_relaxed);
	close(fd);
}

/* A listener with somebody waiting stays readable: when descriptors are out, the
 * control thread would find it so for ever.  It keeps one in reserve, to take the
 * caller and hang up. */
int sv_accept_bounded(int listener)
{
	static int reserve = -1;
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (reserve < 0)
		reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || reserve < 0)
		return sv_fd_track(fd);
	close(reserve);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		close(fd);
	reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	errno = EMFILE;
	return -1;
}

void sv_fd_close_all(void)
{
	for (int i = 0; i < TRACKED_MAX / 64; i++) {
		uint64_t bits = atomic_exchange_explicit(&tracked[i], 0, memory_order_relaxed);

		for (; bits; bits &= bits - 1)
			close(i * 64 + __builtin_ctzll(bits));
	}
}
