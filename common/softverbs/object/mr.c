/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mr.c -- protection domains and memory regions.
 *
 * A region is an entry of the table that peers read (sv_ro.mr).  Its key is 32
 * random bits, of which some are its place (sv_key_place()), so that neither can be
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
#include "common/softverbs/object/key.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/peer/guest.h"
#include "common/softverbs/softverbs.h"

#define REMOTE_CHANGES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define KNOWN_ACCESS                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |       \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

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

/* ---- regions ---- */

static void publish(struct sv_mr *mr, const struct sv_mem_view *view)
{
	struct sv_entry entry = { .access = mr->offer.access & KNOWN_ACCESS, .pd = mr->offer.pd,
				  .mem = view->id, .addr = (uintptr_t)mr->ib.addr,
				  .length = mr->ib.length, .mem_offset = view->offset };

	sv_key_publish(mr->ib.rkey, &entry);
	if (!view->id)
		return;
	sv_mem_ref(view->id);
	sv_guest_offer(&mr->offer);
}

static void fill(struct sv_mr *mr, struct ibv_pd *pd, void *addr, size_t length, int access,
		 const struct sv_mem_view *view)
{
	mr->ib.context = pd->context;
	mr->ib.pd = pd;
	mr->ib.addr = addr;
	mr->ib.length = length;
	mr->offer.mem = view->id;
	mr->offer.pd = sv_pd_of(pd)->id;
	mr->offer.access = (uint32_t)access;
	atomic_fetch_add(&sv_pd_of(pd)->users, 1);
}

static uint32_t take_key(void)
{
	uint32_t key;

	pthread_mutex_lock(&sv_proc->lock);
	key = sv_key_take();
	pthread_mutex_unlock(&sv_proc->lock);
	return key;
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
	mr->ib.lkey = mr->ib.rkey = mr->ib.handle = take_key();
	if (!mr->ib.lkey) {
		free(mr);
		errno = ENOMEM;
		return NULL;
	}
	fill(mr, pd, addr, length, access, &view);
	publish(mr, &view);
	return &mr->ib;
}

/* Its memory may be given back: nobody has it (any more). */
static void retire(struct sv_mr *mr)
{
	sv_key_withdraw(mr->ib.rkey);
	if (mr->offer.mem) {
		sv_guest_withdraw(&mr->offer);
		if (sv_mem_unref(mr->offer.mem))
			sv_guest_mem_gone(mr->offer.mem);
	}
	atomic_fetch_sub(&sv_pd_of(mr->ib.pd)->users, 1);
}

int sv_dereg_mr(struct ibv_mr *ibmr)
{
	struct sv_mr *mr = SV_CONTAINER(ibmr, struct sv_mr, ib);

	if (sv_key_has_windows(ibmr->lkey))
		return EBUSY;
	retire(mr);
	pthread_mutex_lock(&sv_proc->lock);
	sv_key_leave(ibmr->rkey);
	pthread_mutex_unlock(&sv_proc->lock);
	free(mr);
	return 0;
}

static int no_rereg(int err)
{
	errno = err;
	return IBV_REREG_MR_ERR_INPUT;
}

/* Both keys stay.  Whoever uses the region meanwhile is refused. */
int sv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		int access)
{
	struct sv_mr *mr = SV_CONTAINER(ibmr, struct sv_mr, ib);
	struct sv_mem_view view;
	int ret;

	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
	    (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length)) ||
	    (flags & IBV_REREG_MR_CHANGE_PD && (!pd || !sv_device_same(pd->context, ibmr->context))) ||
	    (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)))
		return no_rereg(EINVAL);
	if (!(flags & IBV_REREG_MR_CHANGE_PD))
		pd = ibmr->pd;
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = ibmr->addr;
		length = ibmr->length;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = (int)mr->offer.access;
	sv_mem_find(addr, length, &view);
	ret = sv_key_has_windows(ibmr->lkey) ? EBUSY : check_region(addr, length, access, &view);
	if (ret)
		return no_rereg(ret);
	retire(mr);
	fill(mr, pd, addr, length, access, &view);
	publish(mr, &view);
	return 0;
}

/* ---- checks ---- */

int sv_mr_check(const struct sv_ro *ro, uint32_t rkey, uint32_t pd, uint32_t qpn, uint64_t addr,
		uint64_t length, uint32_t access, struct sv_target *target)
{
	const struct sv_ro_mr *entry = &ro->mr[sv_key_place(rkey)];
	uint32_t entry_pd, rights, window;
	uint64_t base, size;

	if (!rkey || atomic_load_explicit(&entry->rkey, memory_order_acquire) != rkey)
		return EACCES;
	base = atomic_load_explicit(&entry->addr, memory_order_acquire);
	size = atomic_load_explicit(&entry->length, memory_order_acquire);
	entry_pd = atomic_load_explicit(&entry->pd, memory_order_acquire);
	rights = atomic_load_explicit(&entry->access, memory_order_acquire);
	window = atomic_load_explicit(&entry->window, memory_order_acquire);
	target->mem = atomic_load_explicit(&entry->mem, memory_order_acquire);
	target->mem_offset = atomic_load_explicit(&entry->mem_offset, memory_order_acquire);
	/* Unchanged: none of the above is of a later region. */
	if (atomic_load_explicit(&entry->rkey, memory_order_relaxed) != rkey)
		return EACCES;
	if (entry_pd != pd || (rights & access) != access)
		return EACCES;
	if (window && (!qpn || (window != SV_WINDOW_ANY && window != qpn)))
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
		if (sge[i].length && sv_mr_check(sv_proc->ro, sge[i].lkey, pd, 0, sge[i].addr,
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
