/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * db.h -- the database on disk: RocksDB, or none.
 *
 * A record's key is the lower 16 bits of the key's second hash, which the index does not
 * use, big-endian, and the key.  So parts of the database of equal size can be read in
 * parallel, and how far a walk is can be told.  Its value is struct db_head and the value.  Keys of one byte
 * are the database's own.
 */
#ifndef SERVER_DURABLE_DB_H
#define SERVER_DURABLE_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "server/durable/queue.h"

#define DB_PARTS 65536u /* values of the prefix */

/* What stands before a value on the disk; version and expiry have the flags beside them as
 * in a struct layout_item. */
struct db_head {
	uint64_t version; /* bit 0..47; 48..63 high half of the flags */
	uint64_t expiry;  /* as of a struct layout_item, but of CLOCK_REALTIME */
};

struct db;

/*
 * Opens what is in the folder, or makes it.  A log whose end was torn by a crash is
 * taken up to there; one that is damaged before its end is refused, unless `may_lose`:
 * then it is told.  `is_members`: of a member of a cluster; one kind is not opened as the other.
 * 0, or -1 after setting err.
 */
int db_open(const char *dir, bool may_lose, bool is_members, struct db **db, struct err *err);
void db_close(struct db **db);

/*
 * After a failure: closes it and opens it again, and writes what was written and not synced
 * once more.  0: that is synced.  -1 after setting err: it is closed, and only this, db_close()
 * and db_checkpoint() may be called.  Nobody else uses it meanwhile.
 */
int db_reopen(struct db *db, bool may_lose, struct err *err);

/*
 * Versions up to here may have been given out: what comes is to be above.  A synced mark on
 * disk is always higher than all that anybody was told; db_sync() and db_batch_write() raise
 * it ahead of need.  Before the first version is given out, db_sync() has to.
 */
uint64_t db_version(const struct db *db);
/* Disk space that it needs to go on for a while. */
uint64_t db_reserve_bytes(const struct db *db);

/* Changes that are written together.  One at a time. */
void db_batch_add(struct db *db, const struct durable_record *record, uint64_t wall_offset_ms);
/* 0, or -1 after setting err: then nobody knows what is on disk.  Empties the batch.  Without
 * `sync` too it waits for the disk if a version in it is above the mark, or if too much is not
 * synced. */
int db_batch_write(struct db *db, bool sync, struct err *err);
/* What was written before is on disk when this returns.  Any thread. */
int db_sync(struct db *db, struct err *err);
/* Puts what is in memory into files, so that it is there faster the next time. */
int db_flush(struct db *db, struct err *err);

/* A copy of it all as of now; the folder must not exist. */
int db_checkpoint(struct db *db, const char *path, struct err *err);

/*
 * Calls `each` for all of the parts [from, to).  0, -1 after setting err, or what
 * `each` returned if that was not 0.
 */
struct db_item {
	const void *key;
	size_t key_bytes;
	const void *value;
	size_t value_bytes;
	uint64_t version;
	struct layout_attributes with; /* expiry_ms: CLOCK_REALTIME */
	uint32_t part;
};
int db_walk(struct db *db, uint32_t from, uint32_t to,
	    int (*each)(void *arg, const struct db_item *item), void *arg, struct err *err);

/* -------------------------------------------------------------------- of a member: stripes.c */
/* Into the batch. */
void db_batch_note(struct db *db, const struct durable_note *note);
void db_batch_seen(struct db *db, uint64_t reign, uint64_t number);
void db_batch_unsee(struct db *db);
/* What was seen of that reign; 0: nothing.  0, or -1 after setting err. */
int db_seen(const struct db *db, uint64_t reign, uint64_t *number, struct err *err);
/* As db_walk(). */
int db_walk_notes(struct db *db, int (*each)(void *arg, const struct durable_note *note), void *arg,
		  struct err *err);
/* All keys and notes go, at once.  As db_batch_write(). */
int db_wipe(struct db *db, struct err *err);
/* Whether the key is there, and its time is over. */
bool db_is_over(const struct db *db, const struct durable_record *key, uint64_t wall_ms);

#endif
