/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.c -- memory that peers can map.
 *
 * Each sv_mem_alloc() is a sealed memfd.  A peer gets its descriptor from the
 * control thread (exec/serve.c), only if its queue pair has the right to a region in
 * it, and one that can't be mapped writable unless it may write.  Numbers are
 * never used again, so a peer's stale mapping is never taken for another.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/mem.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/softverbs.h"

struct sv_mem {
	struct sv_mem *next;
	uint32_t id;
	bool sealed;
	uint8_t *addr;
	size_t size_bytes;
	int fd;
	int read_fd; /* can't be mapped writable; -1: there is none */
	unsigned int regions;
};

static pthread_mutex_t mem_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sv_mem *mems;
static uint32_t last_id;

/* A peer that may only read gets a descriptor without write permission. */
static void open_read_only(struct sv_mem *mem)
{
	char path[40];

	fchmod(mem->fd, 0400);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", mem->fd);
	mem->read_fd = sv_fd_track(open(path, O_RDONLY | O_CLOEXEC));
}

static void free_mem(struct sv_mem *mem)
{
	if (mem->addr)
		munmap(mem->addr, mem->size_bytes);
	if (mem->read_fd != mem->fd)
		sv_fd_close(mem->read_fd);
	sv_fd_close(mem->fd);
	free(mem);
}

static int make_mem(struct sv_mem *mem, int flags)
{
	void *addr;

	mem->fd = sv_memfd("softverbs-mem", mem->size_bytes);
	if (mem->fd < 0)
		return errno;
	addr = mmap(NULL, mem->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mem->fd, 0);
	if (addr == MAP_FAILED)
		return errno;
	mem->addr = addr;
	if (flags & SV_MEM_SEALED) {
		if (fcntl(mem->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE))
			return errno;
		mem->sealed = true;
		mem->read_fd = mem->fd;
	} else {
		open_read_only(mem);
	}
	return 0;
}

int sv_mem_alloc(size_t size_bytes, int flags, void **addr)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct sv_mem *mem;
	int ret;

	if (!size_bytes || size_bytes > SIZE_MAX / 2 || flags & ~SV_MEM_SEALED)
		return EINVAL;
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return ENOMEM;
	mem->size_bytes = (size_bytes + page - 1) / page * page;
	mem->fd = mem->read_fd = -1;
	ret = make_mem(mem, flags);
	if (ret) {
		free_mem(mem);
		return ret;
	}
	pthread_mutex_lock(&mem_lock);
	mem->id = ++last_id;
	mem->next = mems;
	mems = mem;
	pthread_mutex_unlock(&mem_lock);
	*addr = mem->addr;
	return 0;
}

int sv_mem_free(void *addr)
{
	struct sv_mem **at, *mem;
	int ret = EINVAL;

	pthread_mutex_lock(&mem_lock);
	for (at = &mems; *at && (*at)->addr != addr; at = &(*at)->next)
		;
	mem = *at;
	if (mem && mem->regions) {
		mem = NULL;
		ret = EBUSY;
	}
	if (mem)
		*at = mem->next;
	pthread_mutex_unlock(&mem_lock);
	if (!mem)
		return ret;
	free_mem(mem);
	return 0;
}

/* mem_lock held. */
static struct sv_mem *by_id(uint32_t id)
{
	struct sv_mem *mem = mems;

	while (mem && mem->id != id)
		mem = mem->next;
	return mem;
}

void sv_mem_find(const void *addr, size_t length, struct sv_mem_view *view)
{
	uintptr_t first = (uintptr_t)addr;

	*view = (struct sv_mem_view){ 0 };
	pthread_mutex_lock(&mem_lock);
	for (struct sv_mem *mem = mems; mem; mem = mem->next) {
		uintptr_t base = (uintptr_t)mem->addr;

		if (first < base || first - base >= mem->size_bytes ||
		    length > mem->size_bytes - (first - base))
			continue;
		view->id = mem->id;
		view->offset = first - base;
		view->sealed = mem->sealed;
		break;
	}
	pthread_mutex_unlock(&mem_lock);
}

void sv_mem_ref(uint32_t id)
{
	struct sv_mem *mem;

	pthread_mutex_lock(&mem_lock);
	mem = by_id(id);
	if (mem)
		mem->regions++;
	pthread_mutex_unlock(&mem_lock);
}

bool sv_mem_unref(uint32_t id)
{
	struct sv_mem *mem;
	bool last;

	pthread_mutex_lock(&mem_lock);
	mem = by_id(id);
	last = mem && !--mem->regions;
	pthread_mutex_unlock(&mem_lock);
	return last;
}

int sv_mem_export(uint32_t id, bool write, uint64_t *size_bytes)
{
	struct sv_mem *mem;
	int fd = -1;

	pthread_mutex_lock(&mem_lock);
	mem = by_id(id);
	if (mem) {
		if (!write)
			fd = mem->read_fd;
		else if (!mem->sealed)
			fd = mem->fd;
		*size_bytes = mem->size_bytes;
		/* A copy: another thread may free the memory meanwhile. */
		if (fd >= 0)
			fd = sv_fd_track(fcntl(fd, F_DUPFD_CLOEXEC, 3));
	}
	pthread_mutex_unlock(&mem_lock);
	return fd;
}

void sv_mem_forget_all(void)
{
	pthread_mutex_init(&mem_lock, NULL);
	mems = NULL;
}
