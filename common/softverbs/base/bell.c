/* SPDX-License-Identifier: BSD-2-Clause */
/* bell.c -- eventfds with one count for each queued event. */
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/fd.h"

int sv_bell_open(void)
{
	return sv_fd_track(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
}

void sv_bell_ring(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));

	(void)n; /* fails only at 2^64 - 1 events */
}

void sv_bell_drop(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	uint64_t count;

	if (poll(&pfd, 1, 0) == 1) {
		ssize_t n = read(fd, &count, sizeof(count));

		(void)n;
	}
}
