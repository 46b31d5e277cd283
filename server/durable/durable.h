/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * durable.h -- what is changed in the table, on disk too: in a RocksDB database.
 *
 * Workers hand in records; one commit thread writes what has gathered in one batch,
 * with one sync of the disk if `sync`, and gives each back to where it came from.
 * The table is what is served; the database is only read to fill it again.
 *
 * Who hands in a record keeps its stripe marked until it is given back, so of one
 * key at most one record is under way, and the database has them in the table's
 * order.  Without RocksDB in the build durable_open fails and says so.
 */
#ifndef SERVER_DURABLE_DURABLE_H
#define SERVER_DURABLE_DURABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash.h"

struct durable;
struct store;
struct store_worker;

enum durability { DURABILITY_ASYNC, DURABILITY_SYNC };

struct durable_options {
	const char *dir;
	int durability;  /* enum durability */
	int lag_ms;      /* DURABILITY_ASYNC: the disk is synced so often */
};

struct durable_record {
	const void *key;
	unsigned key_bytes;
	const void *value;
	uint64_t value_bytes;
	uint64_t version; /* 0: the key is gone */
	uint64_t expiry_ms; /* kvd's clock; 0: never */
};

enum durable_result {
	DURABLE_WRITTEN, /* and synced if DURABILITY_SYNC */
	DURABLE_REFUSED, /* nothing was written: the disk is full or broken */
	DURABLE_UNKNOWN, /* writing failed: it may be found after a restart, or not */
};

/* Where a worker's records come back to. */
struct durable_port {
	pthread_mutex_t lock;
	struct durable_op *done, **done_end;
	void (*wake)(void *arg); /* any thread */
	void *arg;
};

/* Records that are written all or none. */
struct durable_op {
	struct durable_op *next;
	struct durable_port *port; /* NULL: nobody waits, and it is freed */
	struct durable_record *records; /* keys and values stay until it is given back */
	unsigned count;
	/* It undoes one whose result was DURABLE_UNKNOWN: it is tried until it is written,
	 * ahead of everything else. */
	bool is_undo;
	enum durable_result result;
};

void durable_port_init(struct durable_port *port, void (*wake)(void *arg), void *arg);
/* What has come back, in the order of commits; NULL: nothing. */
struct durable_op *durable_port_take(struct durable_port *port);

/*
 * Opens or makes the database and starts no thread yet.  0, or -1 after setting err.
 */
int durable_open(const struct durable_options *options, struct durable **durable,
		 struct err *err);

/*
 * Fills the store, with `threads` threads that use the workers' heaps; says how far it
 * is and how long it will take.  Before any worker runs.  `stop` is asked a few times
 * a second.  0, or -1 after setting err.
 */
int durable_load(struct durable *durable, struct store *store, struct store_worker *const *workers,
		 unsigned worker_count, bool (*stop)(void *arg), void *arg, struct err *err);

/* Starts the commit thread.  0, or -1 after setting err. */
int durable_start(struct durable *durable, struct store *store, struct err *err);

/* Writes what was handed in, and closes.  After the last worker ended. */
void durable_close(struct durable **durable);

/* Any thread; doesn't wait. */
void durable_submit(struct durable *durable, struct durable_op *op);

/*
 * The key is gone, and nobody waits for that to be on disk: a time that is over, a key
 * that was evicted.  False: not now.  Caller: has the key's stripe marked.
 */
bool durable_forget(struct durable *durable, const void *key, unsigned key_bytes);

/*
 * A copy of the database at `path`, which must not exist, on the server.  The first
 * call begins it, others of the same path tell how it goes; *text is for people.
 */
enum durable_backup { BACKUP_RUNNING, BACKUP_DONE, BACKUP_FAILED };
enum durable_backup durable_backup(struct durable *durable, const char *path, char *text,
				   size_t text_bytes);

struct durable_stats {
	bool sync;
	bool is_failing;         /* changes are refused */
	uint64_t commits;        /* batches written */
	uint64_t changes;        /* in them */
	uint64_t refused, unknown;
	uint64_t pending;        /* handed in, not given back */
	uint64_t lag_ns;         /* the oldest acknowledged change that isn't synced */
	uint64_t commit_ns;      /* time that all the commits took */
	uint64_t disk_free_bytes;
	uint64_t loaded_keys;
	uint64_t load_ns;
};
void durable_stats(struct durable *durable, struct durable_stats *stats);

#endif
