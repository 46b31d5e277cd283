/* SPDX-License-Identifier: BSD-2-Clause */
/* proc.c -- the process: names, memory and rights that its parts share. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/proc.h"

struct sv_proc *sv_proc;

int sv_random(void *buf, size_t bytes)
{
	return getrandom(buf, bytes, 0) == (ssize_t)bytes ? 0 : EIO;
}

socklen_t sv_address(struct sockaddr_un *sun, const char *kind, const char *name)
{
	int n;

	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	n = snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "softverbs/%s/%s/%s",
		     sv_proc->fabric, kind, name);
	if (n > (int)sizeof(sun->sun_path) - 2)
		n = (int)sizeof(sun->sun_path) - 2;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

bool sv_same_user(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return false;
	return cred.uid == geteuid() || cred.uid == 0;
}

int sv_memfd(const char *name, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err;

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)bytes) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	return sv_fd_track(fd);
}

void sv_attention(uint32_t index, uint32_t flags)
{
	atomic_fetch_or(&sv_proc->rw->qp[index].attention, flags);
	sv_set_add(&sv_proc->rw->attention, index);
	sv_bell_ring(sv_proc->kick_fd);
}
