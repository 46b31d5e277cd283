/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * records.h -- who has which change of a shard (doc/cluster.md, 1 to 6): at a primary the
 * changes under way, at a backup the latest record of each stripe, which is open.
 *
 * They are the same thing.  A primary that is deposed has as open what it had under way; a
 * backup that takes over has as under way what it had open.  What is open takes effect by the
 * hook `apply`, or never, by `drop`.  After either hook the record is the caller's again.
 *
 * A record's number grows with each of the reign, and is drawn under the marks of its stripes:
 * so numbers of a stripe come in order, and one that comes again is known by it.
 *
 * No I/O, no allocation, no thread of its own: the caller lets one thread in at a time.
 */
#ifndef SERVER_CLUSTER_RECORD_RECORDS_H
#define SERVER_CLUSTER_RECORD_RECORDS_H

#include "server/cluster/record/record.h"

void records_init(struct records *rs, struct record_slot *slots, uint32_t stripes,
		  const struct records_hooks *hooks);

/* A later epoch, and what this one is in it.  What is open stays so. */
void records_epoch(struct records *rs, uint64_t epoch, uint64_t reign, enum records_role role,
		   uint32_t awaited);
/* It takes nothing, and acknowledges nothing, until a later epoch. */
void records_seal(struct records *rs);
/*
 * All that is open is dropped, and nothing is known of what was applied.  It takes nothing until
 * records_epoch().
 */
void records_empty(struct records *rs);
/* At a start: it is on the disk, as open; was applied last in its stripe. */
void records_restore(struct records *rs, struct record *r);
void records_restore_applied(struct records *rs, uint32_t stripe, uint64_t version);

enum records_fate { RECORDS_UNKNOWN, RECORDS_OPEN, RECORDS_APPLIED };
/* What a primary says of a record that a member has open. */
enum records_fate records_fate(const struct records *rs, uint32_t stripe, uint64_t version,
			       uint64_t reign);
/* What the member does then. */
void records_resolve(struct records *rs, uint32_t stripe, uint64_t version,
		     enum records_fate fate);
/* All of the beginning is done. */
void records_ready(struct records *rs);

#endif
