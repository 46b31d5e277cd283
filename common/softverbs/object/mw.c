/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mw.c -- memory windows: keys for a part of a region, with rights of their own.
 *
 * A window has a place in the table of regions from its allocation on.  Bound, it is an entry
 * there as a region is (sv_ro_mr.window tells them apart), so remote access costs the same.  A
 * window that ends loses its key in the table; whoever looked before may finish the copy that it
 * is at.
 */
#include <errno.h>
#include <stdlib.h>
#include "common/softverbs/base/mem.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/key.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/object/mw.h"
#include "common/softverbs/softverbs.h"

#define CHANGES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define RIGHTS (CHANGES | IBV_ACCESS_REMOTE_READ)

struct sv_mw {
	struct ibv_mw ib;
	struct sv_window window;
};

static struct sv_mw *mw_of(struct ibv_mw *mw)
{
	return SV_CONTAINER(mw, struct sv_mw, ib);
}

static struct sv_ro_mr *entry_of(uint32_t key)
{
	return &sv_proc->ro->mr[sv_key_place(key)];
}

/* ---- windows ---- */

struct ibv_mw *sv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct sv_mw *mw;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = EINVAL;
		return NULL;
	}
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	mw->ib = (struct ibv_mw){ .context = pd->context, .pd = pd, .type = type };
	pthread_mutex_lock(&sv_proc->lock);
	mw->ib.rkey = mw->ib.handle = mw->window.key = sv_key_take();
	if (mw->ib.rkey) {
		mw->window.next = sv_proc->windows;
		sv_proc->windows = &mw->window;
	}
	pthread_mutex_unlock(&sv_proc->lock);
	if (!mw->ib.rkey) {
		free(mw);
		errno = ENOMEM;
		return NULL;
	}
	atomic_fetch_add(&sv_pd_of(pd)->users, 1);
	return &mw->ib;
}

int sv_dealloc_mw(struct ibv_mw *ibmw)
{
	struct sv_mw *mw = mw_of(ibmw);
	struct sv_window **at;

	sv_key_withdraw(ibmw->handle);
	pthread_mutex_lock(&sv_proc->lock);
	for (at = &sv_proc->windows; *at != &mw->window; at = &(*at)->next)
		;
	*at = mw->window.next;
	sv_key_leave(ibmw->handle);
	pthread_mutex_unlock(&sv_proc->lock);
	atomic_fetch_sub(&sv_pd_of(ibmw->pd)->users, 1);
	free(mw);
	return 0;
}

/* ---- binding ---- */

/* The part of the region, if it may be bound with these rights. */
static int find_part(const struct sv_mw_bind *bind, uint32_t pd, struct sv_target *target)
{
	uint32_t needs = IBV_ACCESS_MW_BIND;
	struct sv_mem_view view;

	if (bind->access & CHANGES)
		needs |= IBV_ACCESS_LOCAL_WRITE;
	/* Local writes go by the region's key; to ask for them here means nothing, and is asked for. */
	if (bind->access & ~(uint32_t)(RIGHTS | IBV_ACCESS_LOCAL_WRITE) ||
	    sv_mr_check(sv_proc->ro, bind->lkey, pd, 0, bind->addr, bind->length, needs, target))
		return EINVAL;
	sv_mem_find((void *)(uintptr_t)bind->addr, bind->length, &view);
	return view.id && view.sealed && bind->access & CHANGES ? EINVAL : 0;
}

/* Of type 2 it is bound once, with a key that differs in its low 8 bits only. */
static int check_window(const struct sv_mw_bind *bind, uint32_t pd)
{
	struct ibv_mw *mw = bind->mw;

	if (sv_pd_of(mw->pd)->id != pd || bind->rkey >> 8 != mw->handle >> 8 || !bind->rkey)
		return EINVAL;
	if (mw->type == IBV_MW_TYPE_1)
		return 0;
	return atomic_load(&entry_of(mw->handle)->rkey) || !bind->length ? EINVAL : 0;
}

int sv_mw_bind(const struct sv_mw_bind *bind, uint32_t pd, uint32_t qpn)
{
	struct sv_mw *mw = mw_of(bind->mw);
	struct sv_entry entry = { .access = bind->access & RIGHTS, .pd = pd, .addr = bind->addr,
				  .length = bind->length };
	struct sv_target target;
	int ret = check_window(bind, pd);

	if (!ret && bind->length)
		ret = find_part(bind, pd, &target);
	if (ret)
		return ret;
	sv_key_withdraw(mw->ib.handle);
	if (!bind->length)
		return 0;
	atomic_store(&mw->window.lkey, bind->lkey);
	entry.mem = target.mem;
	entry.mem_offset = target.mem_offset;
	entry.window = mw->ib.type == IBV_MW_TYPE_1 ? SV_WINDOW_ANY : qpn;
	sv_key_publish(bind->rkey, &entry);
	return 0;
}

int sv_mw_invalidate(uint32_t rkey, uint32_t pd, uint32_t qpn)
{
	struct sv_ro_mr *entry = entry_of(rkey);

	if (!rkey || atomic_load(&entry->rkey) != rkey || atomic_load(&entry->window) != qpn ||
	    atomic_load(&entry->pd) != pd)
		return EINVAL;
	return atomic_compare_exchange_strong(&entry->rkey, &rkey, 0) ? 0 : EINVAL;
}
