/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/durable/db.h on a disk: which versions count as given out and when the disk is waited for, what
 * is written once more after a failure, records as they come back, and walks of parts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/durable/db.h"
#include "server/durable/rocksdb.h"
#include "tests/unit/made_up.h"

#define BLOCK (1ull << 22) /* of versions */
#define UNSYNCED_MAX (64ull << 20)

static char root[32], dir[64];
static struct db *db;
static struct err err;
static struct made_up {
	unsigned writes, synced_writes, syncs, puts; /* so many there were */
	bool writes_fail, writes_lost, syncs_fail, puts_fail, gets_fail, iterators_fail, no_memory;
	uint64_t more_unsynced;
	const char *late; /* written while the disk is synced */
} m;

/* -------------------------------------------------------------------- made up */

void __real_rocksdb_write(rocksdb_t *of, const rocksdb_writeoptions_t *o, rocksdb_writebatch_t *b, char **why);
void __real_rocksdb_flush_wal(rocksdb_t *of, unsigned char sync, char **why);
void __real_rocksdb_put(rocksdb_t *of, const rocksdb_writeoptions_t *o, const char *key, size_t key_bytes,
			const char *value, size_t bytes, char **why);
char *__real_rocksdb_get(rocksdb_t *of, const rocksdb_readoptions_t *o, const char *key, size_t key_bytes,
			 size_t *bytes, char **why);
void __real_rocksdb_iter_get_error(const rocksdb_iterator_t *it, char **why);
uint64_t __real_unsynced_bytes(struct unsynced *u);
bool __real_unsynced_add(struct unsynced *u, rocksdb_writebatch_t *batch);

static void write_async(const char *key, uint64_t version);

MADE_UP(void, rocksdb_write, rocksdb_t *of, const rocksdb_writeoptions_t *o, rocksdb_writebatch_t *b, char **why)
{
	m.writes++;
	m.synced_writes += rocksdb_writeoptions_get_sync((rocksdb_writeoptions_t *)o);
	if (m.writes_fail)
		*why = strdup("IO error: No space left on device");
	else if (!m.writes_lost)
		__real_rocksdb_write(of, o, b, why);
}

MADE_UP(void, rocksdb_flush_wal, rocksdb_t *of, unsigned char sync, char **why)
{
	const char *late = m.late;

	m.syncs += sync == 1;
	m.late = NULL;
	if (m.syncs_fail)
		*why = strdup("IO error");
	else
		__real_rocksdb_flush_wal(of, sync, why);
	if (late)
		write_async(late, 1);
}

MADE_UP(void, rocksdb_put, rocksdb_t *of, const rocksdb_writeoptions_t *o, const char *key, size_t key_bytes,
	const char *value, size_t bytes, char **why)
{
	m.puts++;
	if (m.puts_fail)
		*why = strdup("Corruption: of a kind");
	else
		__real_rocksdb_put(of, o, key, key_bytes, value, bytes, why);
}

MADE_UP(char *, rocksdb_get, rocksdb_t *of, const rocksdb_readoptions_t *o, const char *key, size_t key_bytes,
	size_t *bytes, char **why)
{
	if (!m.gets_fail)
		return __real_rocksdb_get(of, o, key, key_bytes, bytes, why);
	*why = strdup("IO error: No such file");
	return NULL;
}

MADE_UP(void, rocksdb_iter_get_error, const rocksdb_iterator_t *it, char **why)
{
	__real_rocksdb_iter_get_error(it, why);
	if (m.iterators_fail)
		*why = strdup("IO error");
}

MADE_UP(uint64_t, unsynced_bytes, struct unsynced *u) { return __real_unsynced_bytes(u) + m.more_unsynced; }
MADE_UP(bool, unsynced_add, struct unsynced *u, rocksdb_writebatch_t *batch)
{
	return !m.no_memory && __real_unsynced_add(u, batch);
}

/* ---------------------------------------------------------------------- to write */

static void open_db(void)
{
	if (db_open(dir, false, false, &db, &err))
		fail_msg("%s", err.text);
}

static void open_again(void)
{
	db_close(&db);
	assert_null(db);
	open_db();
}

static void add(const char *key, uint64_t version)
{
	const struct durable_record r = { .key = key, .key_bytes = (unsigned)strlen(key), .value = "v",
					  .value_bytes = 1, .version = version };

	db_batch_add(db, &r, 0);
}

static int try_write(const char *key, uint64_t version, bool sync)
{
	add(key, version);
	return db_batch_write(db, sync, &err);
}

static void write_async(const char *key, uint64_t version)
{
	assert_int_equal(try_write(key, version, false), 0);
}

static void expect_failed(int rc, const char *text)
{
	char with_dir[256];

	assert_int_equal(rc, -1);
	snprintf(with_dir, sizeof with_dir, text, dir);
	assert_string_equal(err.text, with_dir);
}

static size_t raw_key(char *raw, const char *key)
{
	const struct durable_record r = { .key = key, .key_bytes = (unsigned)strlen(key) };
	uint16_t prefix = db_prefix(&r);

	memcpy(raw, &prefix, PREFIX_BYTES);
	memcpy(raw + PREFIX_BYTES, key, r.key_bytes);
	return PREFIX_BYTES + r.key_bytes;
}

static bool has(const char *key)
{
	rocksdb_readoptions_t *o = rocksdb_readoptions_create();
	char raw[64], *why = NULL;
	size_t bytes, raw_bytes = raw_key(raw, key);
	char *value = __real_rocksdb_get(db->db, o, raw, raw_bytes, &bytes, &why);

	rocksdb_readoptions_destroy(o);
	assert_null(why);
	free(value);
	return value;
}

/* As a disk that forgets it. */
static void lose(const char *key)
{
	char raw[64], *why = NULL;
	size_t bytes = raw_key(raw, key);

	rocksdb_delete(db->db, db->write, raw, bytes, &why);
	assert_null(why);
}

static void put_raw(const char *key, size_t key_bytes, const void *value, size_t bytes)
{
	char *why = NULL;

	__real_rocksdb_put(db->db, db->write, key, key_bytes, value, bytes, &why);
	assert_null(why);
}

static uint64_t mark_on_disk(void)
{
	uint64_t mark;

	assert_int_equal(db_read_number(db, NULL, KEY_MARK, 1, &mark, &err), 0);
	return mark;
}

/* ------------------------------------------------------------------------ versions */

static void expect_given(uint64_t version, uint64_t mark, uint64_t given)
{
	version = htole64(version);
	mark = htole64(mark);
	put_raw(KEY_VERSION, 1, &version, sizeof version);
	put_raw(KEY_MARK, 1, &mark, sizeof mark);
	open_again();
	assert_int_equal(db_version(db), given);
}

static void test_given(void **state)
{
	(void)state;
	open_db();
	assert_int_equal(db_version(db), BLOCK); /* as a kvd without marks may have gone on */
	open_again();
	assert_int_equal(db_version(db), BLOCK);
	expect_given(1000, 0, 1000 + BLOCK);
	expect_given(1000, 2000, 2000);
	expect_given(3000, 2000, 3000);
	write_async("a", 5000);
	write_async("b", 4000);
	assert_int_equal(db_version(db), 5000);
	uint64_t highest = 0;
	assert_int_equal(db_read_number(db, NULL, KEY_VERSION, 1, &highest, &err), 0);
	assert_int_equal(highest, 5000);
	put_raw(KEY_MARK, 1, "\1\0\0\0", 4); /* no number */
	put_raw(KEY_VERSION, 1, "\1\0\0\0\0\0\0\0\0", 9);
	open_again();
	assert_int_equal(db_version(db), BLOCK);
	m.gets_fail = true;
	assert_int_equal(db_reopen(db, false, &err), -1);
	assert_non_null(strstr(err.text, "can't read"));
	assert_non_null(strstr(err.text, "restore a backup"));
}

/* Each version is told when a synced mark is above it; and it is raised long before, where that is free. */
static void test_marks(void **state)
{
	uint64_t mark = 2 * BLOCK;

	(void)state;
	open_db();
	assert_int_equal(db_sync(db, &err), 0);
	assert_int_equal(m.syncs, 1);
	assert_int_equal(mark_on_disk(), mark);
	assert_int_equal(db_sync(db, &err), 0);
	assert_int_equal(m.puts, 1);
	write_async("a", mark);
	assert_int_equal(m.synced_writes, 0);
	assert_int_equal(mark_on_disk(), mark);
	write_async("a", ++mark);
	assert_int_equal(m.synced_writes, 1);
	mark += BLOCK;
	assert_int_equal(mark_on_disk(), mark);
	write_async("b", mark - BLOCK / 2);
	assert_int_equal(db_sync(db, &err), 0);
	assert_int_equal(mark_on_disk(), mark);
	write_async("b", mark - BLOCK / 2 + 1);
	assert_int_equal(db_sync(db, &err), 0);
	assert_int_equal(m.puts, 2);
	mark += BLOCK / 2 + 1;
	assert_int_equal(mark_on_disk(), mark);
	assert_int_equal(try_write("c", mark - BLOCK / 2, true), 0);
	assert_int_equal(mark_on_disk(), mark);
	assert_int_equal(try_write("c", mark - BLOCK / 2 + 1, true), 0);
	assert_int_equal(m.synced_writes, 3);
	assert_int_equal(mark_on_disk(), mark + BLOCK / 2 + 1);
	assert_int_equal(m.puts, 2); /* with the batch, the others */
	open_again();
	assert_int_equal(db_version(db), mark + BLOCK / 2 + 1);
}

/* A mark that did not get to the disk counts for nothing. */
static void test_marks_that_fail(void **state)
{
	(void)state;
	open_db();
	m.syncs_fail = true;
	expect_failed(db_sync(db, &err), "can't sync %s: IO error");
	m.syncs_fail = false;
	m.puts_fail = true;
	expect_failed(db_sync(db, &err),
		      "can't sync %s: Corruption: of a kind: the disk or the files are damaged; restore a backup");
	assert_int_equal(m.syncs, 1);
	m.puts_fail = false;
	assert_int_equal(db_sync(db, &err), 0);
	assert_int_equal(m.puts, 3);
	m.writes_fail = true;
	expect_failed(try_write("a", 9 * BLOCK, false),
		      "can't write to %s: IO error: No space left on device: make room on that disk");
	m.writes_fail = false;
	write_async("b", 1);
	assert_int_equal(m.synced_writes, 1); /* that of the batch that failed */
	write_async("b", 9 * BLOCK);
	assert_int_equal(m.synced_writes, 2);
	write_async("b", 9 * BLOCK);
	assert_int_equal(m.synced_writes, 2);
	assert_true(has("b"));
	assert_false(has("a")); /* a batch that failed is no part of the next */
	m.writes_fail = true;
	assert_int_equal(try_write("a", 1, false), -1);
	assert_int_equal(try_write("a", 1, true), -1);
	m.writes_fail = false;
	assert_int_equal(try_write("c", 1, true), 0);
	assert_false(has("a"));
	assert_true(has("c"));
}

/* ------------------------------------------------------------------- not synced yet */

static void test_too_much_unsynced(void **state)
{
	(void)state;
	open_db();
	assert_int_equal(db_sync(db, &err), 0);
	m.more_unsynced = UNSYNCED_MAX;
	write_async("a", 1);
	assert_int_equal(m.syncs, 1);
	write_async("b", 1); /* with the first */
	assert_int_equal(m.syncs, 2);
	m.syncs_fail = true;
	m.more_unsynced++;
	expect_failed(try_write("c", 1, false), "can't sync %s: IO error");
	assert_int_equal(m.writes, 2);
	m.syncs_fail = false;
	m.more_unsynced = 0;
	write_async("d", 1);
	assert_false(has("c"));
	/* No memory to keep it: the disk is waited for. */
	m.syncs = 0;
	m.no_memory = true;
	write_async("e", 1);
	assert_int_equal(m.syncs, 1);
	m.syncs_fail = true;
	expect_failed(try_write("f", 1, false), "can't sync %s: IO error");
	m.syncs_fail = m.no_memory = false;
	lose("f");
	write_async("g", 1); /* and only that */
	assert_false(has("f"));
	assert_true(has("g"));
}

/* What the disk has not said to have is written once more, in its order. */
static void test_reopen(void **state)
{
	(void)state;
	open_db();
	write_async("old", 1);
	assert_int_equal(db_sync(db, &err), 0);
	lose("old");
	m.writes_lost = true;
	write_async("a", 2);
	write_async("b", 2);
	write_async("b", 0);
	m.writes_lost = false;
	m.late = "late";
	m.syncs_fail = true;
	assert_int_equal(db_sync(db, &err), -1);
	m.syncs_fail = false;
	lose("late");
	add("never", 3);
	m.syncs = 0;
	assert_int_equal(db_reopen(db, false, &err), 0);
	assert_int_equal(m.syncs, 1);
	assert_true(has("a") && has("late"));
	assert_false(has("b") || has("old"));
	assert_int_equal(try_write("new", 4, true), 0);
	assert_false(has("never"));
	lose("a");
	assert_int_equal(db_reopen(db, false, &err), 0);
	assert_false(has("a"));
	/* What is written while the disk is synced may have missed that. */
	write_async("x", 5);
	m.late = "y";
	assert_int_equal(db_sync(db, &err), 0);
	lose("x");
	lose("y");
	assert_int_equal(db_reopen(db, false, &err), 0);
	assert_false(has("x"));
	assert_true(has("y"));
	/* A synced write has all before it. */
	write_async("z", 6);
	assert_int_equal(try_write("w", 6, true), 0);
	lose("z");
	assert_int_equal(db_reopen(db, false, &err), 0);
	assert_false(has("z"));
}

static void expect_closed(const char *why)
{
	char path[96];

	assert_non_null(strstr(err.text, why));
	snprintf(path, sizeof path, "%s/copy", root);
	assert_int_equal(db_checkpoint(db, path, &err), -1);
	assert_string_equal(err.text, "the database can't be used now; see kvd's log");
	assert_int_equal(access(path, F_OK), -1);
}

static void test_reopen_that_fails(void **state)
{
	char path[96], aside[96];

	(void)state;
	snprintf(path, sizeof path, "%s/KVD-DATA", dir);
	snprintf(aside, sizeof aside, "%s/aside", root);
	open_db();
	assert_int_equal(db_sync(db, &err), 0);
	write_async("a", 1);
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(db_reopen(db, false, &err), -1);
	expect_closed("has files in it that are not kvd's");
	assert_int_equal(rename(aside, path), 0);
	m.writes_fail = true;
	assert_int_equal(db_reopen(db, false, &err), -1);
	expect_closed("can't write to");
	m.writes_fail = false;
	m.syncs_fail = true;
	assert_int_equal(db_reopen(db, false, &err), -1);
	expect_closed("can't sync");
	m.syncs_fail = false;
	m.writes = 0;
	assert_int_equal(db_reopen(db, false, &err), 0);
	assert_int_equal(m.writes, 1);
	assert_true(has("a"));
	db_close(&db);
	db_close(&db); /* nothing */
}

/* -------------------------------------------------------------------- records, walks */

static struct {
	struct db_item item;
	char key[LAYOUT_KEY_BYTES_MAX], value[64];
	unsigned count;
	int rc;
} walked;

static int note_item(void *arg, const struct db_item *item)
{
	assert_ptr_equal(arg, &walked);
	assert_true(item->key_bytes <= sizeof walked.key && item->value_bytes <= sizeof walked.value);
	walked.item = *item;
	memcpy(walked.key, item->key, item->key_bytes);
	memcpy(walked.value, item->value, item->value_bytes);
	walked.count++;
	return walked.rc;
}

static int walk(uint32_t from, uint32_t to)
{
	walked.count = 0;
	return db_walk(db, from, to, note_item, &walked, &err);
}

static void expect_record(const struct durable_record *r, uint64_t offset_ms)
{
	db_batch_add(db, r, offset_ms);
	assert_int_equal(db_batch_write(db, false, &err), 0);
	assert_int_equal(walk(0, DB_PARTS), 0);
	assert_int_equal(walked.count, 1);
	assert_int_equal(walked.item.key_bytes, r->key_bytes);
	assert_memory_equal(walked.key, r->key, r->key_bytes);
	assert_int_equal(walked.item.value_bytes, r->value_bytes);
	assert_memory_equal(walked.value, r->value, r->value_bytes);
	assert_int_equal(walked.item.version, r->version);
	assert_int_equal(walked.item.with.flags, r->with.flags);
	assert_int_equal(walked.item.with.signs, r->with.signs);
	assert_int_equal(walked.item.with.expiry_ms, r->with.expiry_ms ? r->with.expiry_ms + offset_ms : 0);
	assert_int_equal(walked.item.part, hash_key(0, r->key, r->key_bytes).b & 0xffff);
	struct durable_record gone = *r;
	gone.version = 0;
	db_batch_add(db, &gone, offset_ms);
	assert_int_equal(db_batch_write(db, false, &err), 0);
	assert_int_equal(walk(0, DB_PARTS), 0);
	assert_int_equal(walked.count, 0);
}

static void test_records(void **state)
{
	static char key[LAYOUT_KEY_BYTES_MAX];
	struct durable_record r = { .key = "key", .key_bytes = 3, .value = "value", .value_bytes = 5,
				    .version = LAYOUT_VERSION_MAX,
				    .with = { .expiry_ms = 5000, .flags = 0xdeadbeef, .signs = LAYOUT_STALE } };

	(void)state;
	memset(key, 'k', sizeof key);
	open_db();
	expect_record(&r, 700);
	r.with = (struct layout_attributes){ .expiry_ms = 0, .flags = 1, .signs = LAYOUT_CLAIMED };
	r.version = 1;
	expect_record(&r, 700);
	r.value_bytes = 0;
	r.key = key;
	r.key_bytes = sizeof key;
	expect_record(&r, 0);
}

/* The key of that part. */
static const char *key_of_part(uint32_t part)
{
	static char key[16];
	struct durable_record r = { .key = key };

	for (unsigned i = 0; i < 100 * DB_PARTS; i++) {
		r.key_bytes = (unsigned)snprintf(key, sizeof key, "%u", i);
		if (be16toh(db_prefix(&r)) == part)
			return key;
	}
	fail();
	return NULL;
}

static void test_parts(void **state)
{
	static const uint32_t parts[] = { 0, 0xff, 0x12ff, 0x1300, DB_PARTS - 1 };

	(void)state;
	open_db();
	for (unsigned i = 0; i < 5; i++)
		write_async(key_of_part(parts[i]), 1);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(walk(parts[i], parts[i] + 1), 0);
		assert_int_equal(walked.count, 1);
		assert_int_equal(walked.item.part, parts[i]);
		assert_int_equal(walk(0, parts[i]), 0);
		assert_int_equal(walked.count, i);
		assert_int_equal(walk(parts[i] + 1, DB_PARTS), 0);
		assert_int_equal(walked.count, parts[i] + 1 == DB_PARTS ? 5 : 4 - i);
	}
	walked.rc = 7;
	assert_int_equal(walk(0, DB_PARTS), 7);
	assert_int_equal(walked.count, 1);
	walked.rc = 0;
	m.iterators_fail = true;
	expect_failed(walk(0, DB_PARTS), "can't read %s: IO error");
}

static void test_foreign_records(void **state)
{
	static const char head[17];
	static const struct { const char *key; size_t key_bytes, value_bytes; bool is_ours; } records[] = {
		{ "q", 1, 1, true }, { "abc", 3, 16, true }, { "ab", 2, 16, false }, { "abc", 3, 15, false },
	};

	(void)state;
	open_db();
	for (unsigned i = 0; i < 4; i++) {
		put_raw(records[i].key, records[i].key_bytes, head, records[i].value_bytes);
		if (records[i].is_ours)
			assert_int_equal(walk(0, DB_PARTS), 0);
		else
			expect_failed(walk(0, DB_PARTS), "%s has a record that is not kvd's");
		assert_int_equal(walked.count, i == 1 || i == 3 ? i == 1 : 0);
		char *why = NULL;
		rocksdb_delete(db->db, db->write, records[i].key, records[i].key_bytes, &why);
		assert_null(why);
	}
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	strcpy(root, "/tmp/kvd-db-test.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(dir, sizeof dir, "%s/data", root);
	m = (struct made_up){ .writes = 0 };
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	m = (struct made_up){ .writes = 0 };
	db_close(&db);
	snprintf(command, sizeof command, "rm -rf %s", root);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_given), TEST(test_marks), TEST(test_marks_that_fail), TEST(test_too_much_unsynced),
		TEST(test_reopen), TEST(test_reopen_that_fails), TEST(test_records), TEST(test_parts),
		TEST(test_foreign_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
