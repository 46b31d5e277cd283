/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * node.c -- the device's node, for programs that look whether they may open it.
 *
 * libibverbs opens a device by its node /dev/infiniband/NAME, where NAME is dev_name of
 * struct ibv_device.  UCX looks there, by stat() and access(), before it uses a device.  The
 * software device has no node, and everybody may open it: the answer is that of /dev/null.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* stat() and stat64() are two names here, as in the C library. */
#undef _FILE_OFFSET_BITS
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "common/softverbs/preload/preload.h"

static const char *node(const char *path)
{
	size_t bytes = sizeof("/dev/infiniband/" SV_DEVICE_NAME) - 2; /* all but its number */

	if (!path || strncmp(path, "/dev/infiniband/" SV_DEVICE_NAME, bytes))
		return path;
	return path[bytes] >= '0' && path[bytes] <= '3' && !path[bytes + 1] ? "/dev/null" : path;
}

EXPORT int stat(const char *path, struct stat *st)
{
	return SYSTEM(stat)(node(path), st);
}

#ifndef stat64 /* in musl they are one */
EXPORT int stat64(const char *path, struct stat64 *st)
{
	return SYSTEM(stat64)(node(path), st);
}
#endif

EXPORT int access(const char *path, int mode)
{
	return SYSTEM(access)(node(path), mode);
}
