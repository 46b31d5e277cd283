/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bad_disk -- to be preloaded into kvd: while the file $BAD_DISK is there, syncing a
 * log of its database fails with EIO, as on a disk that breaks.  What was written is in
 * the kernel all the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(int fd)
{
	const char *file = getenv("BAD_DISK");
	char link[64], path[512];

	if (!file || access(file, F_OK))
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n < 4)
		return 0;
	path[n] = '\0';
	return !strcmp(path + n - 4, ".log");
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int fdatasync(int fd)
{
	if (fails(fd)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

EXPORT int fsync(int fd)
{
	if (fails(fd)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}
