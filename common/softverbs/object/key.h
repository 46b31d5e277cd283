/* SPDX-License-Identifier: BSD-2-Clause */
/* key.h -- keys of regions and windows, and their entries in the table that peers read. */
#ifndef COMMON_SOFTVERBS_OBJECT_KEY_H
#define COMMON_SOFTVERBS_OBJECT_KEY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "common/softverbs/base/shm.h"

/* A memory window, as regions have to know it. */
struct sv_window {
	struct sv_window *next; /* sv_proc.windows */
	uint32_t key;		/* as it was at first: its place */
	_Atomic uint32_t lkey;	/* of the region that it was last bound to */
};

/* A key whose place is taken from now on; 0: there is none.  sv_proc.lock held for both. */
uint32_t sv_key_take(void);
void sv_key_leave(uint32_t key);
/* Fills its entry, which holds from then on.  Nobody may use it meanwhile (its rkey is 0). */
struct sv_entry {
	uint32_t access, pd, mem, window;
	uint64_t addr, length, mem_offset;
};
void sv_key_publish(uint32_t key, const struct sv_entry *entry);
/* Takes a key away.  The control thread is done with its memory then. */
void sv_key_withdraw(uint32_t key);
/* Whether a window is bound to the region.  No lock held. */
bool sv_key_has_windows(uint32_t lkey);

#endif
