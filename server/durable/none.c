/* SPDX-License-Identifier: BSD-2-Clause */
/* The database of a kvd that was built without one. */
#include "server/durable/db.h"

int db_open(const char *dir, bool may_lose, bool is_members, struct db **db, struct err *err)
{
	(void)may_lose, (void)is_members, (void)db;
	return err_set(err, -1, "--data-dir %s: this kvd was built without RocksDB; configure it "
		       "--with-rocksdb=yes", dir);
}

/* None of these is reached without a database. */
void db_close(struct db **db)
{
	*db = NULL;
}

int db_reopen(struct db *db, bool may_lose, struct err *err)
{
	(void)db, (void)may_lose;
	return err_set(err, -1, "no RocksDB");
}

uint64_t db_version(const struct db *db)
{
	(void)db;
	return 0;
}

uint64_t db_reserve_bytes(const struct db *db)
{
	(void)db;
	return 0;
}

void db_batch_add(struct db *db, const struct durable_record *record, uint64_t wall_offset_ms)
{
	(void)db, (void)record, (void)wall_offset_ms;
}

int db_batch_write(struct db *db, bool sync, struct err *err)
{
	(void)db, (void)sync;
	return err_set(err, -1, "no RocksDB");
}

int db_sync(struct db *db, struct err *err)
{
	return db_batch_write(db, true, err);
}

int db_flush(struct db *db, struct err *err)
{
	return db_batch_write(db, true, err);
}

int db_checkpoint(struct db *db, const char *path, struct err *err)
{
	(void)path;
	return db_batch_write(db, true, err);
}

int db_walk(struct db *db, uint32_t from, uint32_t to,
	    int (*each)(void *arg, const struct db_item *item), void *arg, struct err *err)
{
	(void)from, (void)to, (void)each, (void)arg;
	return db_batch_write(db, true, err);
}

void db_batch_note(struct db *db, const struct durable_note *note)
{
	(void)db, (void)note;
}

void db_batch_seen(struct db *db, uint64_t reign, uint64_t number)
{
	(void)db, (void)reign, (void)number;
}

void db_batch_unsee(struct db *db)
{
	(void)db;
}

int db_seen(const struct db *db, uint64_t reign, uint64_t *number, struct err *err)
{
	(void)db, (void)reign, (void)number;
	return err_set(err, -1, "no RocksDB");
}

int db_walk_notes(struct db *db, int (*each)(void *arg, const struct durable_note *note), void *arg,
		  struct err *err)
{
	(void)each, (void)arg;
	return db_batch_write(db, true, err);
}

int db_wipe(struct db *db, struct err *err)
{
	return db_batch_write(db, true, err);
}

bool db_is_over(const struct db *db, const struct durable_record *key, uint64_t wall_ms)
{
	(void)db, (void)key, (void)wall_ms;
	return false;
}
