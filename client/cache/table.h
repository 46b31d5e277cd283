/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table.h -- what a session knows of the table of the kvd that it is connected to.
 *
 * The session's thread has it; `directory`, `mirror` and `buckets` are shared with other
 * sessions of the client, as hints that items confirm or refute.
 */
#ifndef CLIENT_CACHE_TABLE_H
#define CLIENT_CACHE_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "client/cache/clock.h"
#include "client/cache/directory.h"
#include "client/cache/grant.h"
#include "client/cache/mirror.h"
#include "common/layout.h"
#include "common/wire.h"

struct remote_table {
	struct wire_welcome welcome; /* where it lies, and its parts */
	uint64_t unit_mask;          /* of words of its index */
	struct directory *directory; /* of this kvd, or of the last one */
	struct mirror *mirror;       /* NULL: there is none */
	_Atomic uint64_t *buckets;   /* the highest number that any session learnt */
	struct clock clock;
	struct grant grant; /* whether what is READ counts */
};

/* There are, or were, so many buckets. */
void table_learn_buckets(const struct remote_table *table, uint64_t buckets);

/* A segment of the index begins at `offset`, as kvd's directory says; left out of account
 * if that can't be. */
void table_learn_segment(const struct remote_table *table, uint64_t segment, uint64_t offset);

static inline uint64_t table_buckets_per_segment(const struct remote_table *t)
{
	return t->welcome.segment_bytes / LAYOUT_BUCKET_BYTES;
}

/* A bucket's offset in the table; 0: its segment's is not known. */
uint64_t table_bucket_offset(const struct remote_table *table, uint64_t bucket);

#endif
