/* SPDX-License-Identifier: BSD-2-Clause */
/* rocksdb.h -- an open RocksDB database, for db.c and stripes.c. */
#ifndef SERVER_DURABLE_ROCKSDB_H
#define SERVER_DURABLE_ROCKSDB_H

#include <endian.h>
#include <pthread.h>
#include <rocksdb/c.h>

#include "common/err.h"
#include "common/hash.h"
#include "server/durable/queue.h"
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

/* The seed of the table's hash is another after a restart; the key on disk is not. */
static inline uint16_t db_prefix(const struct durable_record *key)
{
	return htobe16((uint16_t)hash_key(0, key->key, key->key_bytes).b);
}

/* A number of the database's own; 0 if it has none.  family: NULL: of the keys. */
int db_read_number(const struct db *db, rocksdb_column_family_handle_t *family, const void *key,
		   size_t key_bytes, uint64_t *number, struct err *err);
/* Sets err to what failed and RocksDB's own words, which it frees; -1. */
int db_fail(struct err *err, char *why, const char *dir, const char *what);

#endif
