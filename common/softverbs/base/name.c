/* SPDX-License-Identifier: BSD-2-Clause */
/* name.c -- abstract unix addresses by which processes of the fabric say what they are. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/name.h"
#include "common/softverbs/base/proc.h"

int sv_name_take(const char *kind, const char *name)
{
	struct sockaddr_un sun;
	int fd = sv_fd_track(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), err;

	if (fd < 0 || !bind(fd, (struct sockaddr *)&sun, sv_address(&sun, kind, name)))
		return fd;
	err = errno;
	sv_fd_close(fd);
	errno = err;
	return -1;
}

int sv_name_each(const char *kind, const char *prefix, void (*seen)(void *arg, const char *rest),
		 void *arg)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[256], start[128];
	int n = snprintf(start, sizeof(start), " @softverbs/%s/%s/%s", sv_proc->fabric, kind, prefix);

	if (!file)
		return errno;
	while (fgets(line, sizeof(line), file)) {
		char *at = strstr(line, start);

		line[strcspn(line, "\n")] = '\0';
		if (at)
			seen(arg, at + n);
	}
	fclose(file);
	return 0;
}
