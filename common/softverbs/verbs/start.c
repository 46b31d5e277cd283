/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * start.c -- a process's presence in the fabric.
 *
 * Happy path: on first use a process binds the abstract unix address
 * "softverbs/<fabric>/p/<slot>" of a free slot, makes its two memfds (base/shm.h) and
 * starts the control thread.  The fabric is the user id, or SOFTVERBS_FABRIC.
 *
 * Failure: every step is undone and the next call tries again.
 *
 * Teardown: none while the process lives; the kernel removes address, memory
 * and sockets with it, however it ends.  A forked child closes what it inherited
 * and starts afresh, as a process of its own, when it uses the device.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/device.h"
#include "common/softverbs/base/fault.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/mem.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/attend.h"
#include "common/softverbs/exec/serve.h"
#include "common/softverbs/object/channel.h"
#include "common/softverbs/verbs/start.h"
#include "common/softverbs/verbs/xrc.h"

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* In a forked child: the parent's device is not the child's. */
static void abandon(void)
{
	sv_fd_close_all();
	sv_proc = NULL; /* not freed: the child may be of a signal handler or vfork */
	pthread_mutex_init(&start_lock, NULL);
	sv_mem_forget_all();
}

static void install_fork_handler(void)
{
	pthread_atfork(NULL, NULL, abandon);
}

static void name_fabric(struct sv_proc *p)
{
	const char *name = getenv("SOFTVERBS_FABRIC");

	if (name && *name)
		snprintf(p->fabric, sizeof(p->fabric), "%s", name);
	else
		snprintf(p->fabric, sizeof(p->fabric), "%u", (unsigned int)geteuid());
}

/* Binds the first free slot after a random one. */
static int claim_slot(struct sv_proc *p)
{
	struct sockaddr_un sun;
	uint32_t start;
	char name[16];
	int fd, err;

	fd = sv_fd_track(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return errno;
	err = sv_random(&start, sizeof(start));
	for (uint32_t i = 0; !err && i < SV_SLOTS - 2; i++) {
		p->slot = 1 + (start % (SV_SLOTS - 2) + i) % (SV_SLOTS - 2);
		snprintf(name, sizeof(name), "%u", p->slot);
		if (!bind(fd, (struct sockaddr *)&sun, sv_address(&sun, "p", name))) {
			p->listener_fd = fd;
			return 0;
		}
		if (errno != EADDRINUSE)
			err = errno;
	}
	sv_fd_close(fd);
	return err ? err : EUSERS;
}

static void *map_shared(int fd, size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

static int make_tables(struct sv_proc *p)
{
	p->ro_fd = sv_memfd("softverbs-ro", SV_RO_BYTES);
	p->rw_fd = sv_memfd("softverbs-rw", SV_RW_FILE_BYTES);
	if (p->ro_fd < 0 || p->rw_fd < 0)
		return errno;
	p->ro = map_shared(p->ro_fd, SV_RO_BYTES);
	p->rw = map_shared(p->rw_fd, SV_RW_BYTES);
	if (!p->ro || !p->rw)
		return errno;
	/* Before Linux 5.1: peers are trusted not to write there. */
	if (fcntl(p->ro_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) && errno != EINVAL)
		return errno;
	p->ro->abi = SV_ABI_VERSION;
	p->ro->slot = p->slot;
	p->ro->incarnation = p->incarnation;
	return 0;
}

static int make_descriptors(struct sv_proc *p)
{
	p->kick_fd = sv_fd_track(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	p->epoll_fd = sv_fd_track(epoll_create1(EPOLL_CLOEXEC));
	p->timer_fd = sv_fd_track(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	return p->kick_fd < 0 || p->epoll_fd < 0 || p->timer_fd < 0 ? errno : 0;
}

static void undo(struct sv_proc *p)
{
	if (p->ro)
		munmap(p->ro, SV_RO_BYTES);
	if (p->rw)
		munmap(p->rw, SV_RW_BYTES);
	sv_fd_close(p->ro_fd);
	sv_fd_close(p->rw_fd);
	sv_fd_close(p->kick_fd);
	sv_fd_close(p->epoll_fd);
	sv_fd_close(p->timer_fd);
	sv_fd_close(p->listener_fd);
	free(p);
}

static struct sv_proc *new_proc(void)
{
	struct sv_proc *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->pid = getpid();
	p->ro_fd = p->rw_fd = p->kick_fd = p->epoll_fd = p->timer_fd = p->listener_fd = -1;
	p->sender_fd = -1;
	pthread_mutex_init(&p->lock, NULL);
	pthread_mutex_init(&p->grouping, NULL);
	pthread_mutex_init(&p->serving, NULL);
	for (uint32_t i = 0; i < SV_DEVICES; i++)
		pthread_mutex_init(&p->nic_lock[i], NULL);
	name_fabric(p);
	return p;
}

static int start(struct sv_proc *p)
{
	uint32_t first[4];
	int ret;

	ret = sv_random(first, sizeof(first));
	if (!ret)
		ret = sv_random(&p->incarnation, sizeof(p->incarnation));
	if (!ret)
		ret = claim_slot(p);
	if (!ret)
		ret = make_tables(p);
	if (!ret)
		ret = make_descriptors(p);
	if (ret)
		return ret;
	p->next_qp = first[0];
	p->next_pd = first[1];
	atomic_store(&p->next_gen, first[2]);
	p->next_chan = 1;
	atomic_store(&p->wake_at_ns, UINT64_MAX); /* it begins by sleeping */
	/* Only now can others connect: all that they are given is there. */
	if (listen(p->listener_fd, SOMAXCONN))
		return errno;
	sv_attend_start();
	sv_xrc_start();
	ret = sv_serve_start(p->listener_fd);
	return ret ? ret : sv_ctl_start();
}

int sv_start(void)
{
	struct sv_proc *p;
	int ret = 0;

	pthread_once(&fork_once, install_fork_handler);
	pthread_mutex_lock(&start_lock);
	if (!sv_proc) {
		ret = sv_device_env();
		if (!ret)
			ret = sv_fault_env();
		if (!ret)
			ret = sv_chan_env();
		p = sv_proc = ret ? NULL : new_proc();
		if (!ret)
			ret = p ? start(p) : ENOMEM;
		if (ret) {
			if (p)
				undo(p);
			sv_proc = NULL;
		}
	}
	pthread_mutex_unlock(&start_lock);
	if (ret)
		errno = ret;
	return ret ? -1 : 0;
}
