/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/durable/db.h: folders that are opened and those that are not, logs that are torn and damaged, what
 * RocksDB is told, and a copy.
 */
#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/durable/db.h"
#include "server/durable/folder.h"
#include "server/durable/rocksdb.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#define MIB (1ull << 20)

static char root[40], dir[64], copy[64];
static struct db *db;
static struct err err;
static bool no_list, no_marker, no_size;
static uint64_t disk_bytes;
static unsigned flushes, flush_that_fails; /* from 1 */

/* -------------------------------------------------------------------- made up */

char **__real_rocksdb_list_column_families(const rocksdb_options_t *o, const char *name, size_t *n, char **why);
void __real_rocksdb_flush(rocksdb_t *of, const rocksdb_flushoptions_t *o, char **why);
void __real_rocksdb_flush_cf(rocksdb_t *of, const rocksdb_flushoptions_t *o, rocksdb_column_family_handle_t *family,
			     char **why);
int __real_folder_complete(const char *of, uint64_t newest, struct err *e);

MADE_UP(char **, rocksdb_list_column_families, const rocksdb_options_t *o, const char *name, size_t *n, char **why)
{
	if (!no_list)
		return __real_rocksdb_list_column_families(o, name, n, why);
	*why = strdup("IO error: No families");
	return NULL;
}

static bool flush_fails(char **why)
{
	if (++flushes == flush_that_fails)
		*why = strdup("IO error");
	return *why;
}

MADE_UP(void, rocksdb_flush, rocksdb_t *of, const rocksdb_flushoptions_t *o, char **why)
{
	if (!flush_fails(why))
		__real_rocksdb_flush(of, o, why);
}

MADE_UP(void, rocksdb_flush_cf, rocksdb_t *of, const rocksdb_flushoptions_t *o,
	rocksdb_column_family_handle_t *family, char **why)
{
	if (!flush_fails(why))
		__real_rocksdb_flush_cf(of, o, family, why);
}

MADE_UP(int, folder_complete, const char *of, uint64_t newest, struct err *e)
{
	return no_marker ? err_set(e, -1, "no marker") : __real_folder_complete(of, newest, e);
}

static int size_of(const char *path, struct statvfs *fs)
{
	*fs = (struct statvfs){ .f_frsize = 4096, .f_bsize = 1, .f_blocks = disk_bytes / 4096 };
	return no_size || strcmp(path, dir) ? -1 : 0;
}

MADE_UP(int, statvfs, const char *path, struct statvfs *fs) { return size_of(path, fs); }
MADE_UP(int, statvfs64, const char *path, struct statvfs *fs) { return size_of(path, fs); }

/* ---------------------------------------------------------------------- to open */

static void open_as(bool may_lose, bool is_members)
{
	if (db_open(dir, may_lose, is_members, &db, &err))
		fail_msg("%s", err.text);
}

/* The sentence, in which %s is the folder. */
static void expect_said(const char *text)
{
	char with_dir[512];

	snprintf(with_dir, sizeof with_dir, text, dir);
	if (strncmp(err.text, with_dir, strlen(with_dir)))
		assert_string_equal(err.text, with_dir);
}

static void expect_refused(bool may_lose, bool is_members, const char *text)
{
	struct db *none = NULL;

	assert_int_equal(db_open(dir, may_lose, is_members, &none, &err), -1);
	assert_null(none);
	expect_said(text);
}

static void put(const char *key, bool sync)
{
	const struct durable_record r = { .key = key, .key_bytes = (unsigned)strlen(key), .value = "value",
					  .value_bytes = 5, .version = 1 };

	db_batch_add(db, &r, 0);
	assert_int_equal(db_batch_write(db, sync, &err), 0);
}

static int count_item(void *arg, const struct db_item *item)
{
	(void)item;
	++*(unsigned *)arg;
	return 0;
}

static unsigned count(void)
{
	unsigned n = 0;

	assert_int_equal(db_walk(db, 0, DB_PARTS, count_item, &n, &err), 0);
	return n;
}

/* The newest file of that name that has something in it; NULL: none. */
static const char *newest(const char *pattern)
{
	static char path[128];
	char all[128];
	struct stat st;
	glob_t g;

	snprintf(all, sizeof all, "%s/%s", dir, pattern);
	path[0] = '\0';
	if (!glob(all, 0, NULL, &g))
		for (size_t i = 0; i < g.gl_pathc; i++)
			if (!stat(g.gl_pathv[i], &st) && st.st_size)
				snprintf(path, sizeof path, "%s", g.gl_pathv[i]);
	globfree(&g);
	return path[0] ? path : NULL;
}

static void write_file(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* ------------------------------------------------------------------------ folders */

static void test_new(void **state)
{
	struct stat st;
	uint64_t log = 0;

	(void)state;
	open_as(false, false);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(folder_look(dir, &log, &err), 1);
	assert_true(log > 0);
	assert_int_equal(count(), 0);
	expect_refused(false, false, "can't open the data in %s: ");
	assert_non_null(strstr(err.text, ": another kvd uses it"));
	put("a", false);
	db_close(&db);
	/* One that a crash left while it was made. */
	assert_int_equal(folder_begin(dir, &err), 0);
	open_as(false, false);
	assert_int_equal(folder_look(dir, &log, &err), 1);
	assert_int_equal(count(), 1);
}

static void test_not_kvds(void **state)
{
	char path[80];

	(void)state;
	assert_int_equal(mkdir(dir, 0700), 0);
	write_file("photo", "x");
	expect_refused(true, false, "%s has files in it that are not kvd's (no KVD-DATA)");
	snprintf(path, sizeof path, "%s/photo", dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0); /* nothing was put there */
	snprintf(dir, sizeof dir, "%s/none/data", root);
	expect_refused(false, false, "can't make the folder %s: No such file or directory");
}

/* What is marked as complete is never made anew. */
static void test_missing(void **state)
{
	(void)state;
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(folder_complete(dir, 0, &err), 0);
	expect_refused(false, false, "can't open the data in %s: ");
	assert_null(newest("MANIFEST*"));
	assert_int_equal(folder_complete(dir, 42, &err), 0);
	expect_refused(true, false, "the log 000042.log is missing in %s: restore a backup");
	assert_int_equal(folder_begin(dir, &err), 0);
	no_marker = true;
	expect_refused(false, false, "no marker");
	no_marker = false;
	open_as(false, false);
	put("a", true);
	db_close(&db);
	assert_int_equal(unlink(newest("CURRENT")), 0);
	expect_refused(false, false, "can't open the data in %s: ");
	assert_non_null(strstr(err.text, ": the disk or the files are damaged; restore a backup"));
}

static void test_kinds(void **state)
{
	(void)state;
	open_as(false, false);
	db_close(&db);
	expect_refused(false, true, "%s has the data of a kvd that is in no cluster: start it without --cluster");
	no_list = true;
	expect_refused(false, false, "can't open the data in %s: IO error: No families");
	snprintf(dir, sizeof dir, "%s/members", root);
	open_as(false, true); /* a new one is not asked for its kind */
	no_list = false;
	db_close(&db);
	expect_refused(false, false, "%s has the data of a member of a cluster: start kvd with --cluster");
	open_as(false, true);
	put("a", false);
	assert_int_equal(count(), 1);
}

/* --------------------------------------------------------------------------- logs */

static void fill(void)
{
	char key[8];

	open_as(false, false);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(key, sizeof key, "key%u", i);
		put(key, true);
	}
	db_close(&db);
}

static size_t log_bytes(void)
{
	struct stat st;

	assert_int_equal(stat(newest("*.log"), &st), 0);
	return (size_t)st.st_size;
}

static void flip(size_t at)
{
	FILE *f = fopen(newest("*.log"), "r+");

	assert_non_null(f);
	assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
	int byte = fgetc(f);
	assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
	fputc(byte ^ 4, f);
	assert_int_equal(fclose(f), 0);
}

static void expect_warned(const char *text, unsigned lines)
{
	said_end();
	assert_int_equal(said_lines(text), lines);
	assert_int_equal(said_lines("the log is torn at "), lines);
}

static void test_torn(void **state)
{
	(void)state;
	fill();
	said_begin();
	open_as(false, false);
	expect_warned("", 0);
	put("more", true);
	put("last", true);
	db_close(&db);
	flip(log_bytes() - 1);
	said_begin();
	open_as(false, false);
	expect_warned(": what was not acknowledged is dropped", 1);
	assert_int_equal(count(), 21);
}

static void test_damaged(void **state)
{
	(void)state;
	fill();
	flip(log_bytes() / 2);
	expect_refused(false, false, "the log is damaged, and not at its end: 0");
	assert_non_null(strstr(err.text, "restore a backup, or start with --durability async"));
	said_begin();
	open_as(true, false);
	expect_warned(": all changes from there on are lost", 1);
	assert_in_range(count(), 5, 15);
}

/* ------------------------------------------------------------------------ settings */

static void test_buffers(void **state)
{
	static const struct { uint64_t disk_bytes, buffer_bytes; } sizes[] = {
		{ 1 << 20, MIB }, { 64 * MIB, MIB }, { 640 * MIB, 10 * MIB }, { 4096 * MIB, 64 * MIB },
		{ 4160 * MIB, 64 * MIB }, { 4032 * MIB, 63 * MIB }, { 128 * MIB, 2 * MIB },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		disk_bytes = sizes[i].disk_bytes;
		open_as(false, false);
		assert_int_equal(db_reserve_bytes(db), 4 * sizes[i].buffer_bytes);
		db_close(&db);
	}
	no_size = true;
	open_as(false, false);
	assert_int_equal(db_reserve_bytes(db), 256 * MIB);
	no_size = false;
	disk_bytes = 640 * MIB;
	db_close(&db);
	snprintf(dir, sizeof dir, "%s/members", root);
	open_as(false, true);
	assert_int_equal(db_reserve_bytes(db), 80 * MIB);
}

/* As RocksDB itself says, in its file of options. */
static void test_options(void **state)
{
	static const char *const lines[] = {
		"write_buffer_size=10485760", "max_write_buffer_number=3", "compression=kLZ4Compression",
		"level_compaction_dynamic_level_bytes=true", "paranoid_checks=true", "max_background_jobs=2",
		"max_open_files=-1", "bytes_per_sync=1048576", "keep_log_file_num=3", "block_size=32768",
		"no_block_cache=true", "filter_policy=nullptr", "track_and_verify_wals_in_manifest=true",
		"wal_recovery_mode=kTolerateCorruptedTailRecords", "info_log_level=HEADER_LEVEL",
		"create_if_missing=true",
	};
	static char text[32768];
	char line[80];

	(void)state;
	disk_bytes = 640 * MIB;
	open_as(false, false);
	FILE *f = fopen(newest("OPTIONS-*"), "r");
	assert_non_null(f);
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	fclose(f);
	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
		snprintf(line, sizeof line, "  %s\n", lines[i]);
		if (!strstr(text, line))
			fail_msg("no '%s'", lines[i]);
	}
}

/* --------------------------------------------------------------------- flush, copy */

static void test_flush(void **state)
{
	(void)state;
	open_as(false, true);
	put("a", false);
	const struct durable_note note = { .stripe = 3, .bytes = "note", .length = 4 };
	db_batch_note(db, &note);
	assert_int_equal(db_batch_write(db, false, &err), 0);
	flush_that_fails = 1;
	assert_int_equal(db_flush(db, &err), -1);
	expect_said("can't write to %s: IO error");
	assert_int_equal(flushes, 1);
	flush_that_fails = 3;
	assert_int_equal(db_flush(db, &err), -1);
	assert_int_equal(flushes, 3);
	flush_that_fails = 0;
	put("b", false);
	assert_int_equal(db_flush(db, &err), 0);
	assert_non_null(newest("*.sst"));
	db_close(&db);
	/* All of it is in files: nothing is in a log. */
	assert_int_equal(folder_complete(dir, 0, &err), 0);
	open_as(false, true);
	assert_int_equal(count(), 2);
	db_close(&db);
	snprintf(dir, sizeof dir, "%s/alone", root);
	open_as(false, false);
	put("a", false);
	flushes = 0;
	assert_int_equal(db_flush(db, &err), 0);
	assert_int_equal(flushes, 1);
	assert_non_null(newest("*.sst"));
}

static void test_copy(void **state)
{
	uint64_t log = 0;

	(void)state;
	open_as(false, false);
	put("a", false);
	put("b", false);
	assert_int_equal(db_checkpoint(db, copy, &err), 0);
	put("c", false);
	assert_int_equal(folder_look(copy, &log, &err), 1);
	assert_int_equal(log, 0);
	assert_int_equal(db_checkpoint(db, copy, &err), -1);
	assert_non_null(strstr(err.text, "can't make the backup "));
	assert_non_null(strstr(err.text, copy));
	no_marker = true;
	strcat(copy, "2");
	assert_int_equal(db_checkpoint(db, copy, &err), -1);
	no_marker = false;
	assert_int_equal(count(), 3);
	db_close(&db);
	snprintf(dir, sizeof dir, "%s/copy", root);
	open_as(false, false);
	assert_int_equal(count(), 2);
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	strcpy(root, "/tmp/kvd-db-open-test.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(dir, sizeof dir, "%s/data", root);
	snprintf(copy, sizeof copy, "%s/copy", root);
	disk_bytes = 64 * MIB;
	no_list = no_marker = no_size = false;
	flushes = flush_that_fails = 0;
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	db_close(&db);
	snprintf(command, sizeof command, "rm -rf %s", root);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_new), TEST(test_not_kvds), TEST(test_missing),
		TEST(test_kinds), TEST(test_torn), TEST(test_damaged), TEST(test_buffers), TEST(test_options),
		TEST(test_flush), TEST(test_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
