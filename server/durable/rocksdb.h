/* SPDX-License-Identifier: BSD-2-Clause */
/* rocksdb.h -- an open RocksDB database, for db.c and stripes.c. */
#ifndef SERVER_DURABLE_ROCKSDB_H
#define SERVER_DURABLE_ROCKSDB_H

#include <pthread.h>
#include <rocksdb/c.h>

#include "common/err.h"
#include "server/durable/unsynced.h"

#define PREFIX_BYTES 2u
#define KEY_VERSION "v"
#define KEY_MARK "m"
/* The column family of what a member keeps of each stripe. */
#define STRIPES_NAME "stripes"

struct db {
	char *dir;
	rocksdb_t *db;
	bool is_members;
	rocksdb_column_family_handle_t *families[2]; /* of a member: keys, stripes */
	rocksdb_options_t *options;
	rocksdb_writeoptions_t *write, *write_sync;
	rocksdb_writebatch_t *batch;
	uint64_t version;       /* the highest that was ever written */
	uint64_t batch_version; /* the highest in the batch */
	_Atomic uint64_t given; /* the highest that may have been given out */
	_Atomic uint64_t mark;  /* on disk, synced */
	pthread_mutex_t mark_lock; /* of who raises it */
	struct unsynced unsynced;
	uint64_t buffer_bytes;
};

/* Sets err to what failed and RocksDB's own words, which it frees; -1. */
int db_fail(struct err *err, char *why, const char *dir, const char *what);

#endif
