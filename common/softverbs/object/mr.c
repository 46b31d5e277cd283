/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mr.c -- protection domains and memory regions.
 *
 * A region is an entry of the table that peers read (sv_ro.mr).  Its key is 32
 * random bits, of which the low ones are its place, so that neither can be
 * guessed.  The same key is its lkey.
 *
 * Deregistration takes the key away first; whoever looked before may finish the
 * copy that it is at.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "common/softverbs/base/mem.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/peer/guest.h"
#include "common/softverbs/softverbs.h"

#define REMOTE_CHANGES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define KNOWN_ACCESS                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |       \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define KEY_TRIES 64

struct sv_mr {
	struct ibv_mr ib;
	struct sv_offer offer; /* mem 0: it is none */
};

struct ibv_pd *sv_alloc_pd(struct ibv_context *context)
{
	struct sv_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->ib.context = context;
	pthread_mutex_lock(&sv_proc->lock);
	pd->id = pd->ib.handle = ++sv_proc->next_pd;
	pthread_mutex_unlock(&sv_proc->lock);
	sv_ctx_get(context);
	return &pd->ib;
}

int sv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct sv_pd *pd = sv_pd_of(ibpd);

	if (atomic_load(&pd->users))
		return EBUSY;
	sv_ctx_put(ibpd->context);
	free(pd);
	return 0;
}

/* As a NIC's driver: what is not mapped can't be registered. */
static bool is_mapped(const void *addr, size_t length)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)addr & ~(page - 1);
	uintptr_t end = (uintptr_t)addr + length;
	unsigned char resident[4096];

	while (first < end) {
		size_t chunk = end - first;

		if (chunk > sizeof(resident) * page)
			chunk = sizeof(resident) * page;
		if (mincore((void *)first, chunk, resident) && errno == ENOMEM)
			return false;
		first += chunk;
	}
	return true;
}

static int check_region(const void *addr, size_t length, int access,
			const struct sv_mem_view *view)
{
	if (!length || (uintptr_t)addr + length < (uintptr_t)addr)
		return EINVAL;
	if (access & ~(KNOWN_ACCESS | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE))
		return EOPNOTSUPP;
	if (access & REMOTE_CHANGES && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (access & REMOTE_CHANGES && view->sealed)
		return EPERM;
	if (!view->id && !is_mapped(addr, length))
		return EFAULT;
	return 0;
}

/* Finds a free place for a random key; sv_proc.lock held. */
static struct sv_ro_mr *pick_key(uint32_t *key)
{
	for (int i = 0; i < KEY_TRIES; i++) {
		struct sv_ro_mr *entry;

		if (sv_random(key, sizeof(*key)))
			return NULL;
		entry = &sv_proc->ro->mr[*key % SV_MRS];
		if (*key && !atomic_load_explicit(&entry->rkey, memory_order_relaxed))
			return entry;
	}
	return NULL;
}

static int publish(struct sv_mr *mr, int access, const struct sv_mem_view *view)
{
	struct sv_pd *pd = sv_pd_of(mr->ib.pd);
	struct sv_ro_mr *entry;
	uint32_t key;

	pthread_mutex_lock(&sv_proc->lock);
	entry = pick_key(&key);
	if (entry) {
		atomic_store(&entry->access, (uint32_t)(access & KNOWN_ACCESS));
		atomic_store(&entry->pd, pd->id);
		atomic_store(&entry->mem, view->id);
		atomic_store(&entry->addr, (uintptr_t)mr->ib.addr);
		atomic_store(&entry->length, mr->ib.length);
		atomic_store(&entry->mem_offset, view->offset);
		/* release: with it the entry is valid; partner in sv_mr_check(). */
		atomic_store(&entry->rkey, key);
	}
	pthread_mutex_unlock(&sv_proc->lock);
	mr->ib.lkey = mr->ib.rkey = mr->ib.handle = key;
	return entry ? 0 : ENOMEM;
}

struct ibv_mr *sv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct sv_mem_view view;
	struct sv_mr *mr;
	int ret;

	sv_mem_find(addr, length, &view);
	ret = check_region(addr, length, access, &view);
	if (ret) {
		errno = ret;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	mr->ib.context = pd->context;
	mr->ib.pd = pd;
	mr->ib.addr = addr;
	mr->ib.length = length;
	mr->offer.mem = view.id;
	mr->offer.pd = sv_pd_of(pd)->id;
	mr->offer.access = (uint32_t)access;
	ret = publish(mr, access, &view);
	if (ret) {
		free(mr);
		errno = ret;
		return NULL;
	}
	atomic_fetch_add(&sv_pd_of(pd)->users, 1);
	if (view.id) {
		sv_mem_ref(view.id);
		sv_guest_offer(&mr->offer);
	}
	return &mr->ib;
}

int sv_dereg_mr(struct ibv_mr *ibmr)
{
	struct sv_mr *mr = SV_CONTAINER(ibmr, struct sv_mr, ib);

	atomic_store(&sv_proc->ro->mr[ibmr->rkey % SV_MRS].rkey, 0);
	/* The program may free the memory: the control thread is done with it. */
	pthread_mutex_lock(&sv_proc->serving);
	pthread_mutex_unlock(&sv_proc->serving);
	if (mr->offer.mem) {
		sv_guest_withdraw(&mr->offer);
		if (sv_mem_unref(mr->offer.mem))
			sv_guest_mem_gone(mr->offer.mem);
	}
	atomic_fetch_sub(&sv_pd_of(ibmr->pd)->users, 1);
	free(mr);
	return 0;
}

int sv_mr_check(const struct sv_ro *ro, uint32_t rkey, uint32_t pd, uint64_t addr,
		uint64_t length, uint32_t access, struct sv_target *target)
{
	const struct sv_ro_mr *entry = &ro->mr[rkey % SV_MRS];
	uint64_t base, size;
	uint32_t entry_pd, rights;

	if (!rkey || atomic_load_explicit(&entry->rkey, memory_order_acquire) != rkey)
		return EACCES;
	base = atomic_load_explicit(&entry->addr, memory_order_acquire);
	size = atomic_load_explicit(&entry->length, memory_order_acquire);
	entry_pd = atomic_load_explicit(&entry->pd, memory_order_acquire);
	rights = atomic_load_explicit(&entry->access, memory_order_acquire);
	target->mem = atomic_load_explicit(&entry->mem, memory_order_acquire);
	target->mem_offset = atomic_load_explicit(&entry->mem_offset, memory_order_acquire);
	/* Unchanged: none of the above is of a later region. */
	if (atomic_load_explicit(&entry->rkey, memory_order_relaxed) != rkey)
		return EACCES;
	if (entry_pd != pd || (rights & access) != access)
		return EACCES;
	if (addr < base || addr - base > size || length > size - (addr - base))
		return EACCES;
	target->mem_offset += addr - base;
	return 0;
}

bool sv_sge_check(uint32_t pd, const struct ibv_sge *sge, int nsge, uint32_t access)
{
	struct sv_target unused;

	for (int i = 0; i < nsge; i++) {
		if (sge[i].length && sv_mr_check(sv_proc->ro, sge[i].lkey, pd, sge[i].addr,
						 sge[i].length, access, &unused))
			return false;
	}
	return true;
}

uint64_t sv_sge_bytes(const struct ibv_sge *sge, int nsge)
{
	uint64_t bytes = 0;

	for (int i = 0; i < nsge; i++)
		bytes += sge[i].length;
	return bytes;
}
