/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RocksDB, through its C API.
 *
 * It is tuned for what kvd does with it: write in batches, one writer, and read all of
 * it once, at start.  So no block cache, no filters, blocks of 32 KiB.
 *
 * A damaged log is found by log.h, before RocksDB reads it, and a folder that is
 * not kvd's, or not complete, by folder.h.
 */
#include "server/durable/db.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <dirent.h>
#include <stdatomic.h>

#include "common/hash.h"
#include "common/log.h"
#include "server/durable/folder.h"
#include "server/durable/log.h"
#include "server/durable/rocksdb.h"

/*
 * Versions above the mark are not given out before a higher one is on disk.  It is raised
 * by a block when half of one is left: at ten million changes a second, every 200 ms.
 */
#define VERSIONS_BLOCK (1ull << 22)
#define BUFFER_BYTES_MAX (64ull << 20)
#define BUFFER_BYTES_MIN (1ull << 20)
#define UNSYNCED_BYTES_MAX (64ull << 20) /* then a write waits for a sync */
#define BLOCK_BYTES (32u << 10)
#define READAHEAD_BYTES (2u << 20)

enum { RECOVER_TAIL = 0, RECOVER_POINT = 2 }; /* WALRecoveryMode */

int db_fail(struct err *err, char *why, const char *dir, const char *what)
{
	const char *hint = "";

	if (strstr(why, "No space left"))
		hint = ": make room on that disk";
	else if (strstr(why, "Corruption") || strstr(why, "No such file"))
		hint = ": the disk or the files are damaged; restore a backup";
	else if (strstr(why, "/LOCK"))
		hint = ": another kvd uses it";
	err_set(err, -1, "%s %s: %.250s%s", what, dir, why, hint);
	rocksdb_free(why);
	return -1;
}

/* ------------------------------------------------------------------------ open */

static uint64_t pick_buffer(const char *dir)
{
	struct statvfs fs;
	uint64_t bytes;

	if (statvfs(dir, &fs))
		return BUFFER_BYTES_MAX;
	bytes = (uint64_t)fs.f_blocks * fs.f_frsize / 64;
	return bytes > BUFFER_BYTES_MAX ? BUFFER_BYTES_MAX
	     : bytes < BUFFER_BYTES_MIN ? BUFFER_BYTES_MIN : bytes;
}

static rocksdb_options_t *new_options(uint64_t buffer_bytes, bool create)
{
	rocksdb_options_t *plain = rocksdb_options_create(), *o = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	char *why = NULL;

	/* A log that RocksDB knows of and does not find is an error. */
	rocksdb_get_options_from_string(plain, "track_and_verify_wals_in_manifest=true", o, &why);
	rocksdb_options_destroy(plain);
	free(why);
	rocksdb_options_set_create_if_missing(o, create);
	rocksdb_options_set_paranoid_checks(o, 1);
	rocksdb_options_set_write_buffer_size(o, buffer_bytes);
	rocksdb_options_set_max_write_buffer_number(o, 3);
	rocksdb_options_set_max_background_jobs(o, 2);
	rocksdb_options_set_max_open_files(o, -1);
	rocksdb_options_set_bytes_per_sync(o, 1 << 20);
	rocksdb_options_set_compression(o, rocksdb_lz4_compression);
	rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
	/* Nothing in its text log: where the disk is full the writer of that fails an assertion,
	 * which Debian's build has on; what matters is in kvd's log. */
	rocksdb_options_set_info_log_level(o, 5);
	rocksdb_options_set_keep_log_file_num(o, 3);
	rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
	rocksdb_block_based_options_set_no_block_cache(table, 1);
	rocksdb_options_set_block_based_table_factory(o, table);
	rocksdb_block_based_options_destroy(table);
	return o;
}

/* How the log is to be read; or -1. */
static int pick_recovery(const char *dir, bool may_lose, uint64_t newest, struct err *err)
{
	struct log_look look;

	if (log_look(dir, &look, err))
		return -1;
	if (look.newest < newest)
		return err_set(err, -1, "the log %06" PRIu64 ".log is missing in %.300s: restore a backup",
			       newest, dir);
	if (look.state == LOG_WHOLE)
		return RECOVER_TAIL;
	if (look.state == LOG_DAMAGED && !may_lose)
		return err_set(err, -1, "the log is damaged, and not at its end: %s in %.300s; the disk lost "
			       "or changed what was written; restore a backup, or start with --durability "
			       "async to go on without all that follows", look.where, dir);
	log_warn("the log is torn at %s in %s, as a crash of the machine leaves it: %s", look.where, dir,
		 look.state == LOG_TORN ? "what was not acknowledged is dropped"
					: "all changes from there on are lost");
	return RECOVER_POINT;
}

int db_read_number(const struct db *db, rocksdb_column_family_handle_t *family, const void *key,
		   size_t key_bytes, uint64_t *number, struct err *err)
{
	rocksdb_readoptions_t *o = rocksdb_readoptions_create();
	char *why = NULL, *value;
	size_t bytes = 0;

	value = family ? rocksdb_get_cf(db->db, o, family, key, key_bytes, &bytes, &why)
		       : rocksdb_get(db->db, o, key, key_bytes, &bytes, &why);
	rocksdb_readoptions_destroy(o);
	if (why)
		return db_fail(err, why, db->dir, "can't read");
	*number = 0;
	if (value && bytes == sizeof *number)
		memcpy(number, value, bytes);
	*number = le64toh(*number);
	rocksdb_free(value);
	return 0;
}

/* A database without a mark is new, or of a kvd that went on 2^20 above what it found. */
static int read_versions(struct db *db, struct err *err)
{
	uint64_t mark;

	if (db_read_number(db, NULL, KEY_VERSION, 1, &db->version, err) ||
	    db_read_number(db, NULL, KEY_MARK, 1, &mark, err))
		return -1;
	uint64_t above = mark ? mark : db->version + VERSIONS_BLOCK;
	atomic_store(&db->mark, mark);
	atomic_store(&db->given, db->version > above ? db->version : above);
	return 0;
}

/* The folder is complete, with a log that is there from now on. */
static int mark(const char *dir, struct err *err)
{
	struct log_look look;

	return log_look(dir, &look, err) || folder_complete(dir, look.newest, err);
}

/* A member's data has notes of its stripes, and nobody else's has. */
static int check_family(const struct db *db, struct err *err)
{
	bool has = false;
	char *why = NULL;
	size_t n = 0;
	char **names = rocksdb_list_column_families(db->options, db->dir, &n, &why);

	for (size_t i = 0; !why && i < n; i++)
		has = has || !strcmp(names[i], STRIPES_NAME);
	if (names) /* also an empty list, where it failed */
		rocksdb_list_column_families_destroy(names, n);
	if (why)
		return db_fail(err, why, db->dir, "can't open the data in");
	if (has && !db->is_members)
		return err_set(err, -1, "%s has the data of a member of a cluster: start kvd with --cluster",
			       db->dir);
	if (!has && db->is_members)
		return err_set(err, -1, "%s has the data of a kvd that is in no cluster: start it without "
			       "--cluster, write its keys to a file (kvcli export), and import them into the "
			       "cluster, whose members have folders of their own", db->dir);
	return 0;
}

/* True: it failed, as *why says. */
static bool open_rocksdb(struct db *db, char **why)
{
	const char *names[] = { "default", STRIPES_NAME };
	const rocksdb_options_t *options[] = { db->options, db->options };

	if (db->is_members) {
		rocksdb_options_set_create_missing_column_families(db->options, 1);
		db->db = rocksdb_open_column_families(db->options, db->dir, 2, names, options,
						      db->families, why);
	} else {
		db->db = rocksdb_open(db->options, db->dir, why);
	}
	return *why;
}

static int open_files(struct db *db, bool may_lose, struct err *err)
{
	uint64_t newest = 0;
	char *why = NULL;
	int kind, recovery;

	if (mkdir(db->dir, 0700) && errno != EEXIST)
		return err_set_errno(err, -1, errno, "can't make the folder %s", db->dir);
	kind = folder_look(db->dir, &newest, err);
	if (kind < 0)
		return -1;
	if (!kind && folder_begin(db->dir, err))
		return -1;
	recovery = pick_recovery(db->dir, may_lose, newest, err);
	if (recovery < 0)
		return -1;
	db->buffer_bytes = pick_buffer(db->dir);
	db->options = new_options(db->buffer_bytes, kind == 0);
	rocksdb_options_set_wal_recovery_mode(db->options, recovery);
	if (kind && check_family(db, err))
		return -1;
	if (open_rocksdb(db, &why))
		return db_fail(err, why, db->dir, "can't open the data in");
	if (mark(db->dir, err))
		return -1;
	return read_versions(db, err);
}

static void close_files(struct db *db)
{
	for (unsigned i = 0; i < 2 && db->db && db->is_members; i++)
		rocksdb_column_family_handle_destroy(db->families[i]);
	if (db->db)
		rocksdb_close(db->db);
	if (db->options)
		rocksdb_options_destroy(db->options);
	db->db = NULL;
	db->options = NULL;
}

int db_open(const char *dir, bool may_lose, bool is_members, struct db **out, struct err *err)
{
	struct db *db = calloc(1, sizeof *db);

	if (!db || !(db->dir = strdup(dir))) {
		free(db);
		return err_set(err, -1, "out of memory");
	}
	db->is_members = is_members;
	pthread_mutex_init(&db->mark_lock, NULL);
	unsynced_init(&db->unsynced);
	if (open_files(db, may_lose, err)) {
		db_close(&db);
		return -1;
	}
	db->write = rocksdb_writeoptions_create();
	db->write_sync = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(db->write_sync, 1);
	db->batch = rocksdb_writebatch_create();
	*out = db;
	return 0;
}

int db_reopen(struct db *db, bool may_lose, struct err *err)
{
	char *why = NULL;
	int rc;

	close_files(db);
	rocksdb_writebatch_clear(db->batch);
	rc = open_files(db, may_lose, err);
	if (!rc)
		unsynced_write(&db->unsynced, db->db, db->write, &why);
	if (why)
		rc = db_fail(err, why, db->dir, "can't write to");
	if (!rc)
		rc = db_sync(db, err);
	if (rc)
		close_files(db);
	return rc;
}

void db_close(struct db **out)
{
	struct db *db = *out;

	*out = NULL;
	if (!db)
		return;
	if (db->batch)
		rocksdb_writebatch_destroy(db->batch);
	if (db->write)
		rocksdb_writeoptions_destroy(db->write);
	if (db->write_sync)
		rocksdb_writeoptions_destroy(db->write_sync);
	close_files(db);
	unsynced_fini(&db->unsynced);
	pthread_mutex_destroy(&db->mark_lock);
	free(db->dir);
	free(db);
}

uint64_t db_version(const struct db *db)
{
	return atomic_load(&db->given);
}

/* The buffers that are to be written, and as much again for merging files. */
uint64_t db_reserve_bytes(const struct db *db)
{
	return (db->is_members ? 8 : 4) * db->buffer_bytes;
}

/* ---------------------------------------------------------------------- write */

void db_batch_add(struct db *db, const struct durable_record *r, uint64_t wall_offset_ms)
{
	uint16_t prefix = db_prefix(r);
	struct layout_attributes with = r->with;
	if (with.expiry_ms)
		with.expiry_ms += wall_offset_ms;
	struct db_head head = {
		.version = htole64(r->version | layout_flags_high(with.flags)),
		.expiry = htole64(layout_expiry(&with)),
	};
	const char *key[2] = { (const char *)&prefix, r->key };
	const size_t key_bytes[2] = { PREFIX_BYTES, r->key_bytes };
	const char *value[2] = { (const char *)&head, r->value };
	const size_t value_bytes[2] = { sizeof head, r->value_bytes };

	if (r->version > db->batch_version)
		db->batch_version = r->version;
	if (r->version)
		rocksdb_writebatch_putv(db->batch, 2, key, key_bytes, 2, value, value_bytes);
	else
		rocksdb_writebatch_deletev(db->batch, 2, key, key_bytes);
}

static int write_synced(struct db *db, struct err *err)
{
	char *why = NULL;

	rocksdb_write(db->db, db->write_sync, db->batch, &why);
	rocksdb_writebatch_clear(db->batch);
	if (why)
		return db_fail(err, why, db->dir, "can't write to");
	unsynced_synced(&db->unsynced, UINT64_MAX); /* with all that was written before */
	return 0;
}

static int write_unsynced(struct db *db, struct err *err)
{
	char *why = NULL;
	int rc = 0;

	if (unsynced_bytes(&db->unsynced) > UNSYNCED_BYTES_MAX)
		rc = db_sync(db, err);
	if (!rc)
		rocksdb_write(db->db, db->write, db->batch, &why);
	if (why)
		rc = db_fail(err, why, db->dir, "can't write to");
	if (!rc && unsynced_add(&db->unsynced, db->batch)) {
		db->batch = rocksdb_writebatch_create();
		return 0;
	}
	rocksdb_writebatch_clear(db->batch);
	return rc ? rc : db_sync(db, err);
}

/* The same with a higher mark, of which nobody is told before it is on disk. */
static int write_marked(struct db *db, uint64_t version, struct err *err)
{
	uint64_t mark = version + VERSIONS_BLOCK, le = htole64(mark);

	pthread_mutex_lock(&db->mark_lock);
	bool higher = mark > atomic_load(&db->mark);
	if (higher)
		rocksdb_writebatch_put(db->batch, KEY_MARK, 1, (const char *)&le, sizeof le);
	int rc = write_synced(db, err);
	if (!rc && higher)
		atomic_store(&db->mark, mark);
	pthread_mutex_unlock(&db->mark_lock);
	return rc;
}

int db_batch_write(struct db *db, bool sync, struct err *err)
{
	uint64_t version = db->batch_version, le = htole64(version);
	uint64_t ahead = sync ? VERSIONS_BLOCK / 2 : 0; /* it costs nothing then */

	db->batch_version = 0;
	if (version > db->version) {
		db->version = version;
		rocksdb_writebatch_put(db->batch, KEY_VERSION, 1, (const char *)&le, sizeof le);
	}
	if (version > atomic_load(&db->given))
		atomic_store(&db->given, version);
	if (version + ahead > atomic_load(&db->mark))
		return write_marked(db, version, err);
	return sync ? write_synced(db, err) : write_unsynced(db, err);
}

int db_sync(struct db *db, struct err *err)
{
	uint64_t given = atomic_load(&db->given), mark = given + VERSIONS_BLOCK, le = htole64(mark);
	uint64_t count = unsynced_count(&db->unsynced);
	char *why = NULL;

	pthread_mutex_lock(&db->mark_lock);
	bool higher = given + VERSIONS_BLOCK / 2 > atomic_load(&db->mark);
	if (higher)
		rocksdb_put(db->db, db->write, KEY_MARK, 1, (const char *)&le, sizeof le, &why);
	if (!why)
		rocksdb_flush_wal(db->db, 1, &why);
	if (!why && higher)
		atomic_store(&db->mark, mark);
	pthread_mutex_unlock(&db->mark_lock);
	if (why)
		return db_fail(err, why, db->dir, "can't sync");
	unsynced_synced(&db->unsynced, count);
	return 0;
}

int db_flush(struct db *db, struct err *err)
{
	rocksdb_flushoptions_t *o = rocksdb_flushoptions_create();
	char *why = NULL;

	if (db->is_members)
		rocksdb_flush_cf(db->db, o, db->families[1], &why);
	if (!why)
		rocksdb_flush(db->db, o, &why);
	rocksdb_flushoptions_destroy(o);
	return why ? db_fail(err, why, db->dir, "can't write to") : 0;
}

int db_checkpoint(struct db *db, const char *path, struct err *err)
{
	char *why = NULL;
	if (!db->db)
		return err_set(err, -1, "the database can't be used now; see kvd's log");
	rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(db->db, &why);

	if (c)
		rocksdb_checkpoint_create(c, path, 0, &why);
	if (c)
		rocksdb_checkpoint_object_destroy(c);
	if (why)
		return db_fail(err, why, path, "can't make the backup");
	return folder_complete(path, 0, err);
}

/* ----------------------------------------------------------------------- walk */

static rocksdb_readoptions_t *read_options(const uint8_t *end)
{
	rocksdb_readoptions_t *o = rocksdb_readoptions_create();

	rocksdb_readoptions_set_verify_checksums(o, 1);
	rocksdb_readoptions_set_fill_cache(o, 0);
	rocksdb_readoptions_set_readahead_size(o, READAHEAD_BYTES);
	if (end)
		rocksdb_readoptions_set_iterate_upper_bound(o, (const char *)end, PREFIX_BYTES);
	return o;
}

/* False if it is not a record of kvd's. */
static bool read_item(const rocksdb_iterator_t *it, struct db_item *item)
{
	size_t key_bytes, value_bytes;
	struct db_head head;
	const uint8_t *key = (const uint8_t *)rocksdb_iter_key(it, &key_bytes);
	const uint8_t *value = (const uint8_t *)rocksdb_iter_value(it, &value_bytes);

	if (key_bytes <= PREFIX_BYTES || value_bytes < sizeof head)
		return false;
	memcpy(&head, value, sizeof head);
	item->version = le64toh(head.version) & LAYOUT_VERSION_MAX;
	item->with = layout_attributes(le64toh(head.version), le64toh(head.expiry));
	item->part = (uint32_t)key[0] << 8 | key[1];
	item->key = key + PREFIX_BYTES;
	item->key_bytes = key_bytes - PREFIX_BYTES;
	item->value = value + sizeof head;
	item->value_bytes = value_bytes - sizeof head;
	return true;
}

int db_walk(struct db *db, uint32_t from, uint32_t to,
	    int (*each)(void *arg, const struct db_item *item), void *arg, struct err *err)
{
	const uint8_t begin[PREFIX_BYTES] = { (uint8_t)(from >> 8), (uint8_t)from };
	const uint8_t end[PREFIX_BYTES] = { (uint8_t)(to >> 8), (uint8_t)to };
	rocksdb_readoptions_t *o = read_options(to < DB_PARTS ? end : NULL);
	rocksdb_iterator_t *it = rocksdb_create_iterator(db->db, o);
	struct db_item item;
	char *why = NULL;
	int rc = 0;

	for (rocksdb_iter_seek(it, (const char *)begin, PREFIX_BYTES); !rc && rocksdb_iter_valid(it);
	     rocksdb_iter_next(it)) {
		size_t key_bytes;
		rocksdb_iter_key(it, &key_bytes);
		if (key_bytes == 1)
			continue;
		rc = read_item(it, &item)
			     ? each(arg, &item)
			     : err_set(err, -1, "%s has a record that is not kvd's", db->dir);
	}
	rocksdb_iter_get_error(it, &why);
	rocksdb_iter_destroy(it);
	rocksdb_readoptions_destroy(o);
	return why ? db_fail(err, why, db->dir, "can't read") : rc;
}
