/* SPDX-License-Identifier: BSD-2-Clause */
/* impl.h -- an open database, for the files of this folder. */
#ifndef SERVER_DURABLE_IMPL_H
#define SERVER_DURABLE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/err.h"
#include "server/durable/options.h"

#include "common/clock.h"

struct db;
struct durable_op;

struct backup {
	pthread_mutex_t lock; /* guards all of it */
	pthread_t thread;
	bool has_thread;
	bool is_running;
	bool is_failed;
	char path[1024]; /* of the last one */
	char text[ERR_BYTES + 1024];
	uint64_t begun_ns;
};

struct durable {
	struct durable_options options;
	struct durable_clock clock;
	pthread_rwlock_t db_lock;
	struct db *db;
	uint64_t reserve_bytes;
	_Atomic uint64_t incarnation; /* of a member's table */

	pthread_mutex_t lock;
	pthread_cond_t work, stop;
	struct durable_op *queue, **queue_end;
	unsigned queued;
	unsigned awaited;   /* wake the commit thread when so many are queued */
	struct durable_op *undos, **undos_end;
	bool stopping;
	uint64_t seen_reign, seen_number; /* of a member: all up to it is visible */
	bool is_seen_new;                 /* and not written */

	pthread_t commit_thread, sync_thread;
	bool has_commit_thread, has_sync_thread;

	/* Commit thread only. */
	bool is_full;   /* below the reserve */
	uint64_t reopen_ns;
	unsigned expected;    /* records of the next batch, if all who were answered come again */
	uint64_t linger_ns;   /* how long to wait for them */
	unsigned linger_rest; /* batches before that is tried again, as it was in vain */

	_Atomic bool is_failing;
	_Atomic bool is_broken; /* writing failed, and it was not opened again since */
	_Atomic bool sync_failed;
	_Atomic uint64_t unsynced_ns; /* since when something is not synced; 0: all is */
	_Atomic uint64_t syncing_ns;  /* of the sync under way: unsynced_ns before it */
	_Atomic uint64_t commits, changes, refused, unknown, pending, commit_ns;
	_Atomic unsigned forgotten;
	uint64_t loaded_keys, load_ns;
	struct backup backup;
};

/* For pthread_cond_timedwait(). */
static inline struct timespec durable_in_ns(uint64_t ns)
{
	uint64_t at = clock_ns() + ns;

	return (struct timespec){ .tv_sec = (time_t)(at / 1000000000ull),
				  .tv_nsec = (long)(at % 1000000000ull) };
}

#endif
