/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * msg.c -- messages between the control threads of two processes, and the descriptors
 * that come with them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "common/softverbs/base/fd.h"
#include "common/softverbs/peer/msg.h"

union fd_control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(SV_MSG_FDS * sizeof(int))];
};

int sv_msg_send(int fd, const struct sv_msg *msg, const int *fds, int nfds)
{
	union fd_control control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)msg, .iov_len = sizeof(*msg) };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (nfds) {
		hdr.msg_control = control.bytes;
		hdr.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, (size_t)nfds * sizeof(int));
	}
	if (sendmsg(fd, &hdr, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*msg))
		return 0;
	return errno ? errno : EIO;
}

int sv_msg_recv(int fd, struct sv_msg *msg, int *fds, int *nfds)
{
	union fd_control control;
	struct iovec iov = { .iov_base = msg, .iov_len = sizeof(*msg) };
	/* CMSG_SPACE() is rounded up: one descriptor more would be let in. */
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			      .msg_controllen = CMSG_LEN(SV_MSG_FDS * sizeof(int)) };
	ssize_t n = recvmsg(fd, &hdr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg;

	*nfds = 0;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? EAGAIN : EPIPE;
	cmsg = CMSG_FIRSTHDR(&hdr);
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS) {
		*nfds = (int)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(cmsg), (size_t)*nfds * sizeof(int));
		for (int i = 0; i < *nfds; i++)
			sv_fd_track(fds[i]);
	}
	if (n == (ssize_t)sizeof(*msg) && !(hdr.msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
		return 0;
	for (int i = 0; i < *nfds; i++)
		sv_fd_close(fds[i]);
	*nfds = 0;
	return EPIPE;
}

void *sv_map_received(int fd, size_t bytes, bool write)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *mem;

	/* A file that can shrink could kill us with SIGBUS. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || (uint64_t)st.st_size < bytes)
		return NULL;
	mem = mmap(NULL, bytes, write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	return mem == MAP_FAILED ? NULL : mem;
}
