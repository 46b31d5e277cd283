/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unsynced.h -- batches that were written to the database's log and are not synced yet.
 *
 * Where a sync fails the kernel may have dropped what it could not write, and the next sync
 * says nothing of it.  So they are kept until one succeeds, and written once more, in their
 * order, to the database when it was opened again.
 *
 * Any thread: a mutex guards all of it, and nothing is taken inside.
 */
#ifndef SERVER_DURABLE_UNSYNCED_H
#define SERVER_DURABLE_UNSYNCED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct rocksdb_t;
struct rocksdb_writebatch_t;
struct rocksdb_writeoptions_t;
struct unsynced_batch;

struct unsynced {
	pthread_mutex_t lock;
	struct unsynced_batch *first, **end;
	uint64_t count; /* ever added */
	uint64_t bytes; /* of those that are kept */
};

void unsynced_init(struct unsynced *unsynced);
void unsynced_fini(struct unsynced *unsynced);

/* Takes over a batch that was written.  False: no memory, and it is still the caller's. */
bool unsynced_add(struct unsynced *unsynced, struct rocksdb_writebatch_t *batch);

/* How many were added ever: who syncs asks before, and tells _synced() after. */
uint64_t unsynced_count(struct unsynced *unsynced);
/* The first `count` of all that were added are on disk. */
void unsynced_synced(struct unsynced *unsynced, uint64_t count);

uint64_t unsynced_bytes(struct unsynced *unsynced);

/* Writes all that are kept once more; *why as RocksDB sets it.  Nobody adds meanwhile. */
void unsynced_write(struct unsynced *unsynced, struct rocksdb_t *db,
		    const struct rocksdb_writeoptions_t *options, char **why);

#endif
