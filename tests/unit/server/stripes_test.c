/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/durable/db.h, of a member: notes of stripes, what was seen, a wipe, and whether a key's time is
 * over on the disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/durable/db.h"
#include "server/durable/rocksdb.h"
#include "tests/unit/made_up.h"

static char dir[40];
static struct db *db;
static struct err err;
static bool iterators_fail, gets_fail, writes_fail;
static char walked[256];
static int walk_rc;

/* -------------------------------------------------------------------- made up */

void __real_rocksdb_iter_get_error(const rocksdb_iterator_t *it, char **why);
char *__real_rocksdb_get(rocksdb_t *of, const rocksdb_readoptions_t *o, const char *key, size_t key_bytes,
			 size_t *bytes, char **why);
char *__real_rocksdb_get_cf(rocksdb_t *of, const rocksdb_readoptions_t *o, rocksdb_column_family_handle_t *family,
			    const char *key, size_t key_bytes, size_t *bytes, char **why);
void __real_rocksdb_write(rocksdb_t *of, const rocksdb_writeoptions_t *o, rocksdb_writebatch_t *b, char **why);

MADE_UP(void, rocksdb_iter_get_error, const rocksdb_iterator_t *it, char **why)
{
	__real_rocksdb_iter_get_error(it, why);
	if (iterators_fail)
		*why = strdup("IO error");
}

MADE_UP(char *, rocksdb_get, rocksdb_t *of, const rocksdb_readoptions_t *o, const char *key, size_t key_bytes,
	size_t *bytes, char **why)
{
	if (!gets_fail)
		return __real_rocksdb_get(of, o, key, key_bytes, bytes, why);
	*why = strdup("IO error");
	return NULL;
}

MADE_UP(char *, rocksdb_get_cf, rocksdb_t *of, const rocksdb_readoptions_t *o,
	rocksdb_column_family_handle_t *family, const char *key, size_t key_bytes, size_t *bytes, char **why)
{
	if (!gets_fail)
		return __real_rocksdb_get_cf(of, o, family, key, key_bytes, bytes, why);
	*why = strdup("IO error");
	return NULL;
}

MADE_UP(void, rocksdb_write, rocksdb_t *of, const rocksdb_writeoptions_t *o, rocksdb_writebatch_t *b, char **why)
{
	if (writes_fail)
		*why = strdup("IO error");
	else
		__real_rocksdb_write(of, o, b, why);
}

/* ------------------------------------------------------------------------- kit */

static void open_again(void)
{
	db_close(&db);
	if (db_open(dir, false, true, &db, &err))
		fail_msg("%s", err.text);
}

static void write_batch(void)
{
	assert_int_equal(db_batch_write(db, true, &err), 0);
}

static void add_note(uint32_t stripe, const char *text)
{
	const struct durable_note note = { .stripe = stripe, .bytes = text, .length = strlen(text) };

	db_batch_note(db, &note);
}

static int each_note(void *arg, const struct durable_note *note)
{
	size_t used = strlen(walked);

	assert_ptr_equal(arg, &walked);
	snprintf(walked + used, sizeof walked - used, "%u:%.*s ", note->stripe, (int)note->length, note->bytes);
	return walk_rc;
}

static int walk(void)
{
	walked[0] = '\0';
	return db_walk_notes(db, each_note, &walked, &err);
}

static void expect_notes(const char *text)
{
	assert_int_equal(walk(), 0);
	assert_string_equal(walked, text);
}

static void expect_seen(uint64_t reign, uint64_t number)
{
	uint64_t seen = 99;

	assert_int_equal(db_seen(db, reign, &seen, &err), 0);
	assert_int_equal(seen, number);
}

static void expect_failed(int rc, const char *text)
{
	char with_dir[128];

	assert_int_equal(rc, -1);
	snprintf(with_dir, sizeof with_dir, "%s %s: IO error", text, dir);
	assert_string_equal(err.text, with_dir);
}

static void add_key(const char *key, uint64_t version, uint64_t expiry_ms, const char *value)
{
	const struct durable_record r = { .key = key, .key_bytes = (unsigned)strlen(key), .value = value,
					  .value_bytes = strlen(value), .version = version,
					  .with = { expiry_ms, 0xffffffff, LAYOUT_SIGNS } };

	db_batch_add(db, &r, 0);
}

static int count_item(void *arg, const struct db_item *item)
{
	(void)item;
	++*(unsigned *)arg;
	return 0;
}

static unsigned count_keys(void)
{
	unsigned n = 0;

	assert_int_equal(db_walk(db, 0, DB_PARTS, count_item, &n, &err), 0);
	return n;
}

static bool is_over(const char *key, unsigned key_bytes, uint64_t wall_ms)
{
	const struct durable_record r = { .key = key, .key_bytes = key_bytes };

	return db_is_over(db, &r, wall_ms);
}

/* -------------------------------------------------------------------------- tests */

/* By their numbers, whatever was seen between them. */
static void test_notes(void **state)
{
	(void)state;
	expect_notes("");
	add_note(0x73000000, "s");
	add_note(256, "b");
	add_note(7, "a");
	db_batch_seen(db, 1, 2);
	add_note(0xffffffff, "");
	write_batch();
	expect_notes("7:a 256:b 1929379840:s 4294967295: ");
	add_note(7, "other");
	write_batch();
	open_again();
	expect_notes("7:other 256:b 1929379840:s 4294967295: ");
	assert_int_equal(count_keys(), 0);
	walk_rc = 5;
	assert_int_equal(walk(), 5);
	assert_string_equal(walked, "7:other ");
	walk_rc = 0;
	iterators_fail = true;
	expect_failed(walk(), "can't read");
}

static void test_seen(void **state)
{
	uint64_t seen = 9;

	(void)state;
	expect_seen(1, 0);
	db_batch_seen(db, 1, 10);
	db_batch_seen(db, 0x1122334455667788, 0x8877665544332211);
	db_batch_seen(db, UINT64_MAX, 3);
	add_note(0x72ffffff, "r");
	add_note(0x73000000, "s");
	add_note(0x74000000, "t");
	write_batch();
	open_again();
	expect_seen(1, 10);
	expect_seen(0x1122334455667788, 0x8877665544332211);
	expect_seen(UINT64_MAX, 3);
	expect_seen(2, 0);
	gets_fail = true;
	expect_failed(db_seen(db, 1, &seen, &err), "can't read");
	gets_fail = false;
	db_batch_unsee(db);
	db_batch_seen(db, 5, 6);
	write_batch();
	expect_seen(1, 0);
	expect_seen(UINT64_MAX, 0);
	expect_seen(5, 6);
	open_again();
	expect_seen(0x1122334455667788, 0);
}

/* Versions go on above all that were given out. */
static void test_wipe(void **state)
{
	static char long_key[LAYOUT_KEY_BYTES_MAX + 1];
	uint64_t given;

	(void)state;
	memset(long_key, 0xff, sizeof long_key - 1);
	assert_int_equal(db_sync(db, &err), 0);
	add_key("a", 5000000, 0, "v");
	add_key(long_key, 1, 0, "v");
	add_note(0, "first");
	add_note(0xffffffff, "last");
	db_batch_seen(db, UINT64_MAX, 1);
	write_batch();
	assert_int_equal(count_keys(), 2);
	given = db_version(db);
	add_key("forgotten", 1, 0, "v");
	writes_fail = true;
	expect_failed(db_wipe(db, &err), "can't write to");
	writes_fail = false;
	assert_int_equal(count_keys(), 2);
	add_key("never", 1, 0, "v");
	assert_int_equal(db_wipe(db, &err), 0);
	assert_int_equal(count_keys(), 0);
	expect_notes("");
	expect_seen(UINT64_MAX, 0);
	uint64_t version = 0, mark = 0;
	assert_int_equal(db_read_number(db, NULL, KEY_VERSION, 1, &version, &err), 0);
	assert_int_equal(db_read_number(db, NULL, KEY_MARK, 1, &mark, &err), 0);
	assert_int_equal(version, 5000000);
	assert_true(mark > given);
	open_again();
	assert_int_equal(db_version(db), mark);
	add_key("new", 2, 0, "v");
	write_batch();
	assert_int_equal(count_keys(), 1);
}

static void test_is_over(void **state)
{
	static char long_key[LAYOUT_KEY_BYTES_MAX + 1];

	(void)state;
	memset(long_key, 'k', sizeof long_key - 1);
	add_key("timed", 1, 1000, "value");
	add_key("empty", 1, 1000, "");
	add_key("ever", 1, 0, "value");
	add_key(long_key, 1, 1000, "value");
	write_batch();
	assert_false(is_over("timed", 5, 999));
	assert_true(is_over("timed", 5, 1000));
	assert_true(is_over("timed", 5, 1001));
	assert_true(is_over("empty", 5, 1000));
	assert_false(is_over("ever", 4, UINT64_MAX));
	assert_false(is_over("none", 4, UINT64_MAX));
	assert_true(is_over(long_key, LAYOUT_KEY_BYTES_MAX, 1000));
	assert_false(is_over(long_key, LAYOUT_KEY_BYTES_MAX - 1, 1000));
	gets_fail = true;
	assert_false(is_over("timed", 5, 1000)); /* it stays */
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/kvd-stripes-test.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	iterators_fail = gets_fail = writes_fail = false;
	walk_rc = 0;
	open_again();
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	db_close(&db);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_notes), TEST(test_seen), TEST(test_wipe), TEST(test_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
