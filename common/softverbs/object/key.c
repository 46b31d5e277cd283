/* SPDX-License-Identifier: BSD-2-Clause */
/* key.c -- keys of regions and windows, and their entries in the table that peers read. */
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/key.h"

/* Drawn as a whole; where that is taken, the next one that is free. */
uint32_t sv_key_take(void)
{
	uint32_t key, place;

	if (sv_random(&key, sizeof(key)))
		return 0;
	for (unsigned i = 0; i < SV_MRS; i++, key += 1u << 8) {
		place = sv_key_place(key);
		if (!(key >> 8) || sv_proc->keys[place / 64] >> place % 64 & 1)
			continue;
		sv_proc->keys[place / 64] |= 1ull << place % 64;
		return key;
	}
	return 0;
}

void sv_key_leave(uint32_t key)
{
	uint32_t place = sv_key_place(key);

	sv_proc->keys[place / 64] &= ~(1ull << place % 64);
}

void sv_key_publish(uint32_t key, const struct sv_entry *from)
{
	struct sv_ro_mr *entry = &sv_proc->ro->mr[sv_key_place(key)];

	atomic_store(&entry->access, from->access);
	atomic_store(&entry->pd, from->pd);
	atomic_store(&entry->mem, from->mem);
	atomic_store(&entry->window, from->window);
	atomic_store(&entry->addr, from->addr);
	atomic_store(&entry->length, from->length);
	atomic_store(&entry->mem_offset, from->mem_offset);
	/* release: with it the entry is valid; partner in sv_mr_check(). */
	atomic_store(&entry->rkey, key);
}

void sv_key_withdraw(uint32_t key)
{
	atomic_store(&sv_proc->ro->mr[sv_key_place(key)].rkey, 0);
	/* The program may free the memory: the control thread is done with it. */
	pthread_mutex_lock(&sv_proc->serving);
	pthread_mutex_unlock(&sv_proc->serving);
}

bool sv_key_has_windows(uint32_t lkey)
{
	bool found = false;

	pthread_mutex_lock(&sv_proc->lock);
	for (struct sv_window *w = sv_proc->windows; w && !found; w = w->next)
		found = atomic_load(&w->lkey) == lkey &&
			atomic_load(&sv_proc->ro->mr[sv_key_place(w->key)].rkey);
	pthread_mutex_unlock(&sv_proc->lock);
	return found;
}
