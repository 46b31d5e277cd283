/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table.h -- the two memory regions that clients see, and who owns which part.
 *
 * Made once, before any worker runs; the pointers never change afterwards.
 */
#ifndef SERVER_TABLE_TABLE_H
#define SERVER_TABLE_TABLE_H

#include <stdatomic.h>

#include "common/err.h"
#include "common/layout.h"
#include "common/verbs/verbs.h"
#include "common/wire.h"
#include "server/table/region.h"
#include "server/table/slab.h"

struct table {
	const struct verbs *verbs;
	uint8_t *base;
	uint64_t bytes;
	uint64_t unit_mask; /* of words of the index */
	struct layout_header *header;

	/* Lock words: changed through the NIC only; kvd's CPUs only load. */
	_Atomic uint64_t *locks;
	uint64_t stripes;
	uint64_t locks_bytes;

	uint64_t hash_seed; /* of keys; before the first one */

	/* One mark per stripe: changed by workers only, by exchange. */
	_Atomic uint32_t *marks;
	uint64_t marks_offset;

	struct layout_scratch *scratch;
	uint64_t scratch_offset;
	unsigned workers;

	/* Offsets of the index segments; 0 = not allocated. */
	_Atomic uint64_t *dir;
	uint64_t dir_offset;
	uint64_t dir_entries;
	uint64_t segment_bytes;

	uint64_t heap_offset;
	struct region *region;
	struct slabs *slabs; /* of items */

	/* The protection domains it is registered with, one of each device that is served.  The locks
	 * are with the first only. */
	struct ibv_pd *pd[RAILS_MAX];
	unsigned pd_count;
	/* What peers use; replaced by the main thread when a user is revoked (host/revoke.h). */
	struct ibv_mr *mr[RAILS_MAX];
	struct ibv_mr *locks_mr;
	_Atomic uint32_t lkey[RAILS_MAX]; /* of mr, for workers */
	/* kvd's own way to the locks: its rkey is never given out. */
	struct ibv_mr *own_locks_mr;
};

struct table_keys {
	struct ibv_mr *mr[RAILS_MAX], *locks_mr;
};

#define TABLE_BYTES_MIN (16ull << 20)

/* Reserves the memory of a table of `bytes` in all.  0, or -1 after setting err. */
int table_new(const struct verbs *v, uint64_t bytes, unsigned workers, struct table **table,
	      struct err *err);
void table_delete(struct table **table);

/* Registers the table with each domain, and the locks with the first.  0, or -1 after setting
 * err. */
int table_register(struct table *table, struct ibv_pd *const *pd, unsigned pd_count,
		   struct err *err);

/* Other rkeys: _new registers all of it once more, but with the domains whose bit is in `lost`;
 * _swap puts these in the place of the old ones, _delete takes those away.  A peer that still uses
 * them loses its queue pair. */
int table_keys_new(struct table *table, unsigned lost, struct table_keys *keys, struct err *err);
void table_keys_swap(struct table *table, const struct table_keys *keys, struct table_keys *old);
void table_keys_delete(struct table *table, struct table_keys *keys);

/* All that the keys cost: index, marks, locks, items, what the allocator keeps. */
uint64_t table_used_bytes(const struct table *table);

static inline uint64_t table_offset(const struct table *table, const void *ptr)
{
	return (uint64_t)((const uint8_t *)ptr - table->base);
}

#endif
