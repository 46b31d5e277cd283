/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h -- memory that peers can map: what softverbs.h gives to programs, as regions and
 * links use it.  Any thread.
 */
#ifndef COMMON_SOFTVERBS_BASE_MEM_H
#define COMMON_SOFTVERBS_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sv_mem_view {
	uint32_t id; /* 0: not in such memory */
	uint64_t offset;
	bool sealed;
};
void sv_mem_find(const void *addr, size_t length, struct sv_mem_view *view);
void sv_mem_ref(uint32_t id);
/* True if that was the last region in it. */
bool sv_mem_unref(uint32_t id);
/* A descriptor to hand to a peer, the caller's to close; -1 if the right asked for
 * can't be given by one. */
int sv_mem_export(uint32_t id, bool write, uint64_t *size_bytes);
/* In a forked child, whose copies of the descriptors are closed. */
void sv_mem_forget_all(void);

#endif
