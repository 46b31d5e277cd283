/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll_chk.h -- poll() by the name that it has where the compiler checks sizes (_FORTIFY_SOURCE).  A test
 * that makes up poll(), or wraps it, includes this in one of its files.
 */
#ifndef UNIT_POLL_CHK_H
#define UNIT_POLL_CHK_H

#include <poll.h>
#include <stddef.h>

/* The header's poll() is a choice between the two names. */
int poll_by_name(struct pollfd *fds, nfds_t count, int ms) __asm__("poll");

int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t room);

int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t room)
{
	assert_in_range(count, 0, room / sizeof *fds);
	return poll_by_name(fds, count, ms);
}

#endif
