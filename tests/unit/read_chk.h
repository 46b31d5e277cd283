/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * read_chk.h -- read() by the name that it has where the compiler checks sizes (_FORTIFY_SOURCE).  A test
 * that makes up read(), or wraps it, includes this in one of its files.
 */
#ifndef UNIT_READ_CHK_H
#define UNIT_READ_CHK_H

#include <stddef.h>
#include <stdlib.h>
#include <sys/types.h>

/* The header's read() is a choice between the two names. */
ssize_t read_by_name(int fd, void *to, size_t bytes) __asm__("read");
ssize_t __read_chk(int fd, void *to, size_t bytes, size_t room);

ssize_t __read_chk(int fd, void *to, size_t bytes, size_t room)
{
	if (bytes > room)
		abort();
	return read_by_name(fd, to, bytes);
}

#endif
