/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli's exports: what is written comes back, and no byte that was cut off, changed or made up is
 * told as a key.  Files below a folder: no link leads out of it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/cli/file/dump.h"
#include "client/cli/file/dump_json.h"
#include "client/cli/file/inside.h"
#include "client/kvd.h"
#include "common/hash.h"

#define HEAD_BYTES sizeof(struct dump_head)
#define ITEMS 4u

static const struct dump_item items[ITEMS] = {
	{ .key = "one", .key_bytes = 3, .value = "a\0b", .value_bytes = 3 },
	{ .key = "\xff\0", .key_bytes = 2, .value = "\xc3\x28", .value_bytes = 2, .ttl_ms = 5 },
	{ .key = "t\xc3\xbcr\"\n", .key_bytes = 6, .value = "", .flags = UINT32_MAX },
	{ .key = "signs", .key_bytes = 5, .value = "v", .value_bytes = 1,
	  .ttl_ms = KVD_TTL_MS_MAX, .flags = 7, .signs = KVD_STALE | KVD_CLAIMED },
};

static struct dump_reader reader;
static int file;

static int set_up(void **state)
{
	(void)state;
	file = memfd_create("dump", MFD_CLOEXEC);
	return file < 0;
}

static int tear_down(void **state)
{
	(void)state;
	dump_close(&reader);
	memset(&reader, 0, sizeof reader);
	return close(file);
}

static void rewrite(const void *data, size_t bytes)
{
	assert_int_equal(ftruncate(file, 0), 0);
	assert_int_equal(pwrite(file, data, bytes, 0), bytes);
	lseek(file, 0, SEEK_SET);
}

/* The items, and one with a long value, which ends its block. */
static uint64_t write_items(bool json, size_t long_bytes)
{
	struct dump_writer w;
	uint8_t *value = calloc(1, long_bytes + 1);
	struct dump_item item = { .key = "long", .key_bytes = 4, .value = value, .value_bytes = long_bytes };

	assert_int_equal(dump_begin(&w, file, json), 0);
	if (long_bytes)
		assert_int_equal(dump_add(&w, &item), 0);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(dump_add(&w, &items[i]), 0);
	assert_int_equal(dump_end(&w), 0);
	assert_int_equal(w.bytes, lseek(file, 0, SEEK_CUR));
	dump_free(&w);
	free(value);
	lseek(file, 0, SEEK_SET);
	return w.bytes;
}

static bool is_same(const struct dump_item *a, const struct dump_item *b)
{
	return a->key_bytes == b->key_bytes && !memcmp(a->key, b->key, a->key_bytes) &&
	       a->value_bytes == b->value_bytes && !memcmp(a->value, b->value, a->value_bytes) &&
	       a->ttl_ms == b->ttl_ms && a->flags == b->flags && a->signs == b->signs;
}

/* Reads to the end, or to what is wrong: *told are the items, of which each is one that was written. */
static enum dump_got read_items(uint64_t from, unsigned *told)
{
	struct dump_item item;
	enum dump_got got = dump_open(&reader, file, from, NULL);

	*told = 0;
	while (got == DUMP_RECORD && (got = dump_next(&reader, &item)) == DUMP_RECORD) {
		assert_true(*told < ITEMS);
		assert_true(is_same(&item, &items[(*told)++]));
	}
	return got;
}

static void must_come_back(bool json)
{
	struct dump_item item;
	unsigned told;
	uint64_t second;

	write_items(json, DUMP_BLOCK_BYTES);
	assert_int_equal(dump_open(&reader, file, 0, NULL), DUMP_RECORD);
	assert_int_equal(reader.json, json);
	assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
	assert_int_equal(item.value_bytes, DUMP_BLOCK_BYTES);
	assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
	assert_true(is_same(&item, &items[0]));
	second = reader.begin;
	dump_close(&reader);
	/* Where a block or a line begins, it goes on. */
	lseek(file, 0, SEEK_SET);
	assert_int_equal(read_items(second, &told), DUMP_END);
	assert_int_equal(told, ITEMS);
}

static void records_come_back(void **state)
{
	(void)state;
	must_come_back(false);
}

static void lines_come_back(void **state)
{
	(void)state;
	must_come_back(true);
}

/* What can't be sought is read over. */
static void a_pipe_is_read_over(void **state)
{
	unsigned told;
	uint8_t data[4096];
	int pipes[2];
	uint64_t bytes = write_items(true, 0);

	(void)state;
	assert_true(bytes < sizeof data);
	assert_int_equal(pread(file, data, bytes, 0), bytes);
	const uint8_t *line = memchr(data, '\n', bytes);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(write(pipes[1], data, bytes), bytes);
	close(pipes[1]);
	dup2(pipes[0], file);
	close(pipes[0]);
	struct dump_item item;
	assert_int_equal(dump_open(&reader, file, (uint64_t)(line + 1 - data), NULL), DUMP_RECORD);
	for (told = 1; told < ITEMS; told++) {
		assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
		assert_true(is_same(&item, &items[told]));
	}
	assert_int_equal(dump_next(&reader, &item), DUMP_END);
}

static void what_is_cut_off_is_told(void **state)
{
	uint64_t bytes = write_items(false, 0);
	unsigned told;

	(void)state;
	for (uint64_t n = bytes - 1; n; n--) {
		assert_int_equal(ftruncate(file, (off_t)n), 0);
		lseek(file, 0, SEEK_SET);
		assert_int_equal(read_items(0, &told), DUMP_CUT);
		dump_close(&reader);
	}
	assert_int_equal(ftruncate(file, 0), 0);
	lseek(file, 0, SEEK_SET);
	assert_int_equal(read_items(0, &told), DUMP_FOREIGN);
	assert_string_equal(reader.why, "it is empty");
}

/* But the time in its head, which says nothing of keys. */
static void each_changed_byte_is_seen(void **state)
{
	uint8_t data[4096];
	uint64_t bytes = write_items(false, 0);
	unsigned told;

	(void)state;
	assert_true(bytes < sizeof data);
	assert_int_equal(pread(file, data, bytes, 0), bytes);
	for (uint64_t i = 0; i < bytes; i++) {
		if (i >= offsetof(struct dump_head, created_ms) && i < HEAD_BYTES)
			continue;
		data[i] ^= 0x10;
		rewrite(data, bytes);
		enum dump_got got = read_items(0, &told);
		if (got != DUMP_DAMAGED && got != DUMP_CUT && (got != DUMP_FOREIGN || i >= HEAD_BYTES))
			fail_msg("byte %u of %u: %d", (unsigned)i, (unsigned)bytes, got);
		assert_true(*reader.why || got == DUMP_CUT);
		assert_true(told == 0 || told == ITEMS);
		dump_close(&reader);
		data[i] ^= 0x10;
	}
}

/* A block of one record, whose checksum is right, by somebody who lies. */
static enum dump_got read_made_up(struct dump_block block, struct dump_record record, unsigned tail)
{
	uint8_t data[4096] = DUMP_MAGIC;
	struct hash_stream stream;
	struct dump_item item;

	if (block.bytes == 0)
		block.bytes = sizeof record + tail;
	memcpy(data + HEAD_BYTES + sizeof block, &record, sizeof record);
	hash_bytes_begin(&stream);
	hash_add(&stream, &block, offsetof(struct dump_block, checksum));
	if (block.bytes <= sizeof record + tail)
		hash_add(&stream, data + HEAD_BYTES + sizeof block, block.bytes);
	block.checksum = hash_bytes_end(&stream);
	memcpy(data + HEAD_BYTES, &block, sizeof block);
	rewrite(data, HEAD_BYTES + sizeof block + sizeof record + tail);
	assert_int_equal(dump_open(&reader, file, 0, NULL), DUMP_RECORD);
	enum dump_got got = dump_next(&reader, &item);
	dump_close(&reader);
	return got;
}

static void lengths_that_lie_are_refused(void **state)
{
	static const struct {
		struct dump_block block;
		struct dump_record record;
		unsigned tail;
		const char *why; /* NULL: it is right */
	} cases[] = {
		{ { DUMP_BLOCK_MAGIC, 1, 0, 0, 0 }, { 3, 0, 0, 4, 0 }, 7, NULL },
		{ { DUMP_BLOCK_MAGIC + 1, 1, 0, 0, 0 }, { 3, 0, 0, 4, 0 }, 7, "no block begins there" },
		{ { DUMP_BLOCK_MAGIC, 1, 9, 0, 0 }, { 3, 0, 0, 4, 0 }, 7, "a part of the file is missing before it" },
		{ { DUMP_BLOCK_MAGIC, 1, 0, UINT64_MAX, 0 }, { 3, 0, 0, 4, 0 }, 7, "its lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 2, 0, 0, 0 }, { 3, 0, 0, 4, 0 }, 7, "its lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 1, 0, 0, 0 }, { 0, 0, 0, 4, 0 }, 7, "a record's lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 1, 0, 0, 0 }, { 3, 0, 0, 5, 0 }, 7, "a record's lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 1, 0, 0, 0 }, { 3, 0, 0, UINT64_MAX, 0 }, 7, "a record's lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 1, 0, 0, 0 }, { KVD_KEY_BYTES_MAX + 1, 0, 0, 0, 0 }, 1100,
		  "a record's lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 1, 0, 0, 0 }, { 3, 0, 0, 4, KVD_TTL_MS_MAX + 1 }, 7,
		  "a record's lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 1, 0, 0, 0 }, { 3, 4, 0, 4, 0 }, 7, "a record has signs that nobody knows" },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		enum dump_got got = read_made_up(cases[i].block, cases[i].record, cases[i].tail);

		assert_int_equal(got, cases[i].why ? DUMP_DAMAGED : DUMP_RECORD);
		assert_string_equal(reader.why, cases[i].why ? cases[i].why : "");
	}
}

/* Two records are said to be there; of the second there are a few bytes. */
static void a_record_that_is_cut_off(void **state)
{
	struct dump_block block = { DUMP_BLOCK_MAGIC, 2, 0, 2 * sizeof(struct dump_record), 0 };
	uint8_t data[200] = DUMP_MAGIC, *records = data + HEAD_BYTES + sizeof block;
	struct dump_record record = { .key_bytes = 1 };
	struct hash_stream stream;
	struct dump_item item;

	(void)state;
	memcpy(records, &record, sizeof record);
	hash_bytes_begin(&stream);
	hash_add(&stream, &block, offsetof(struct dump_block, checksum));
	hash_add(&stream, records, block.bytes);
	block.checksum = hash_bytes_end(&stream);
	memcpy(data + HEAD_BYTES, &block, sizeof block);
	rewrite(data, HEAD_BYTES + sizeof block + block.bytes);
	assert_int_equal(dump_open(&reader, file, 0, NULL), DUMP_RECORD);
	assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
	assert_int_equal(dump_next(&reader, &item), DUMP_DAMAGED);
	assert_string_equal(reader.why, "a record is cut off");
}

static void what_is_no_export(void **state)
{
	unsigned told;

	(void)state;
	rewrite("kvddump2 and more", 17);
	assert_int_equal(read_items(0, &told), DUMP_FOREIGN);
	assert_string_equal(reader.why, "it is neither a file of kvcli's nor lines of JSON");
	dump_close(&reader);
	close(file);
	file = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(read_items(0, &told), DUMP_FAILED);
	assert_int_equal(reader.error, EBADF);
}

static void who_is_stopped(void **state)
{
	static volatile int stop;
	struct dump_item item;

	(void)state;
	write_items(false, 0);
	stop = 0;
	assert_int_equal(dump_open(&reader, file, 0, &stop), DUMP_RECORD);
	stop = 1;
	assert_int_equal(dump_next(&reader, &item), DUMP_STOPPED);
	dump_close(&reader);
	assert_int_equal(dump_open(&reader, file, 0, &stop), DUMP_STOPPED);
}

static void a_file_that_takes_nothing(void **state)
{
	struct dump_writer w;
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(dump_begin(&w, full, false), ENOSPC);
	assert_int_equal(dump_begin(&w, full, true), 0);
	assert_int_equal(dump_add(&w, &items[0]), 0);
	assert_int_equal(dump_end(&w), ENOSPC);
	assert_int_equal(w.bytes, 0);
	dump_free(&w);
	close(full);
}

/* ------------------------------------------------------------------- lines */

static bool read_line(const char *line, struct dump_item *item, char why[160])
{
	static struct cli_buffer text;

	cli_buffer_free(&text);
	memset(&text, 0, sizeof text);
	return dump_json_read(&text, line, strlen(line), item, why, 160);
}

static void lines_that_others_write(void **state)
{
	static const struct {
		const char *line, *key, *value;
		size_t value_bytes;
		uint64_t ttl_ms;
		int signs;
	} cases[] = {
		{ " { \"value\" : \"v\" , \"key\" : \"k\" } \r", "k", "v", 1, 0, 0 },
		{ "{\"key\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"value\":\"\"}", "\"\\/\b\f\n\r\t", "", 0, 0, 0 },
		{ "{\"key\":\"\\u00e9\\u20AC\",\"value\":\"\\ud83d\\ude00\"}", "\xc3\xa9\xe2\x82\xac",
		  "\xf0\x9f\x98\x80", 4, 0, 0 },
		{ "{\"key\":\"k\",\"value_base64\":\"/wA=\",\"ttl_ms\":12}", "k", "\xff", 2, 12, 0 },
		{ "{\"key\":\"k\",\"value_base64\":\"/w==\",\"stale\":true,\"claimed\":false}", "k", "\xff", 1, 0,
		  KVD_STALE },
		{ "{\"key\":\"k\",\"age\":1.5e3,\"name\":\"x\",\"none\":null,\"value\":\"v\"}", "k", "v", 1, 0, 0 },
	};
	struct dump_item item;
	char why[160];

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_true(read_line(cases[i].line, &item, why));
		assert_int_equal(item.key_bytes, strlen(cases[i].key));
		assert_memory_equal(item.key, cases[i].key, item.key_bytes);
		assert_int_equal(item.value_bytes, cases[i].value_bytes);
		assert_memory_equal(item.value, cases[i].value, item.value_bytes);
		assert_int_equal(item.ttl_ms, cases[i].ttl_ms);
		assert_int_equal(item.signs, cases[i].signs);
	}
}

/* Behind `{"key":"k","value":"v",`. */
static void members_that_are_wrong(void **state)
{
	static const char *const members[] = {
		"", "}x", "\"a\":}", "\"a\" 1}", "\"a\":1", "\"a\":{}}", "\"a\":[]}", "a:1}", "\"a\":\"b}", "\"a\":\"\\",
		"\"a\":\"\\q\"}", "\"a\":\"\x01\"}", "\"a\":\"\\u12\"}", "\"a\":\"\\u12g4\"}", "\"a\":\"\\udc00\"}",
		"\"a\":\"\\ud800x\"}", "\"a\":\"\\ud800\\u0041\"}", "\"a\":\"\\ud800\\", "\"ttl_ms\":x}",
		"\"ttl_ms\":-1}", "\"ttl_ms\":}", "\"ttl_ms\":3153600000001}", "\"ttl_ms\":99999999999999999999}",
		"\"flags\":4294967296}", "\"flags\":\"1\"}", "\"stale\":1}", "\"stale\":\"true\"}", "\"claimed\":}",
		"\"key\":\"k\"}", "\"value_base64\":\"/w==\"}",
	};
	char line[160], why[160];
	struct dump_item item;

	(void)state;
	for (unsigned i = 0; i < sizeof members / sizeof members[0]; i++) {
		snprintf(line, sizeof line, "{\"key\":\"k\",\"value\":\"v\",%s", members[i]);
		if (read_line(line, &item, why))
			fail_msg("taken: %s", line);
		assert_non_null(strstr(why, "it is no object with key and value in JSON, at its character "));
	}
}

static void lines_that_are_wrong(void **state)
{
	static const char *const wrong[][2] = {
		{ "{}", "it has no key" },
		{ "{\"key\":\"k\"}", "it has no value" },
		{ "{\"value\":\"v\"}", "it has no key" },
		{ "{\"key\":\"\",\"value\":\"v\"}", "the key is empty" },
		{ "[]", "at its character 1" },
		{ "{\"key\":1,\"value\":\"v\"}", "at its character 8" },
		{ "{\"key_base64\":\"/w=\",\"value\":\"v\"}", "it is no object" },
		{ "{\"key_base64\":\"/w=x\",\"value\":\"v\"}", "it is no object" },
		{ "{\"key_base64\":\"====\",\"value\":\"v\"}", "it is no object" },
		{ "{\"key_base64\":\"/-==\",\"value\":\"v\"}", "it is no object" },
	};
	char why[160];
	struct dump_item item;

	(void)state;
	for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		if (read_line(wrong[i][0], &item, why))
			fail_msg("taken: %s", wrong[i][0]);
		assert_non_null(strstr(why, wrong[i][1]));
	}
}

/* A line that is wrong names itself; one without its end is whole. */
static void files_of_lines(void **state)
{
	static const char text[] = "{\"key\":\"one\",\"value_base64\":\"YQBi\"}\n\n{\"key\":\"two\"}\n";
	static const char last[] = "{\"key\":\"one\",\"value_base64\":\"YQBi\"}";
	struct dump_item item;
	unsigned told;

	(void)state;
	rewrite(text, sizeof text - 1);
	assert_int_equal(dump_open(&reader, file, 0, NULL), DUMP_RECORD);
	assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
	assert_true(is_same(&item, &items[0]));
	assert_int_equal(dump_next(&reader, &item), DUMP_DAMAGED);
	assert_int_equal(reader.begin, strstr(text, "{\"key\":\"two") - text);
	assert_string_equal(reader.why, "it has no value");
	dump_close(&reader);
	rewrite(last, sizeof last - 1);
	assert_int_equal(read_items(0, &told), DUMP_END);
	assert_int_equal(told, 1);
}

/* ------------------------------------------------------------------- folders */

static char folder[] = "/tmp/dump_test.XXXXXX";

static void saved(int root, const char *path, const char *want)
{
	char text[16];
	int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text);

	close(fd);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(text, want, (size_t)n);
}

static void no_link_leads_out(void **state)
{
	char longer[300];
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(folder));
	int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(cli_inside_save(root, "a/b/c", "one", 3), 0);
	saved(root, "a/b/c", "one");
	assert_int_equal(fchmodat(root, "a/b/c", 0640, 0), 0);
	assert_int_equal(cli_inside_save(root, "a/b/c", "three", 5), 0);
	saved(root, "a/b/c", "three");
	assert_int_equal(fstatat(root, "a/b/c", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0640);

	assert_int_equal(symlinkat("a/b", root, "way"), 0);
	assert_int_equal(symlinkat("a/b/c", root, "file"), 0);
	assert_int_equal(cli_inside_save(root, "way/c", "no", 2), ELOOP);
	assert_int_equal(cli_inside_save(root, "file", "no", 2), ELOOP);
	assert_int_equal(cli_inside_save(root, "a/b", "no", 2), EEXIST);
	assert_int_equal(cli_inside_save(root, "a/b/c/d", "no", 2), ENOTDIR);
	memset(longer, 'n', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	assert_int_equal(cli_inside_save(root, longer, "no", 2), ENAMETOOLONG);
	memcpy(longer, "a/", 2);
	assert_int_equal(cli_inside_save(root, longer, "no", 2), ENAMETOOLONG);
	saved(root, "a/b/c", "three");

	static const char *const left[] = { "a/b/c", "way", "file" };
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(unlinkat(root, left[i], 0), 0);
	/* Nothing else is there, not even beside. */
	assert_int_equal(unlinkat(root, "a/b", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(root, "a", AT_REMOVEDIR), 0);
	close(root);
	assert_int_equal(rmdir(folder), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_come_back),
		TEST(lines_come_back),
		TEST(a_pipe_is_read_over),
		TEST(what_is_cut_off_is_told),
		TEST(each_changed_byte_is_seen),
		TEST(lengths_that_lie_are_refused),
		TEST(a_record_that_is_cut_off),
		TEST(what_is_no_export),
		TEST(who_is_stopped),
		TEST(a_file_that_takes_nothing),
		TEST(files_of_lines),
		cmocka_unit_test(lines_that_others_write),
		cmocka_unit_test(members_that_are_wrong),
		cmocka_unit_test(lines_that_are_wrong),
		cmocka_unit_test(no_link_leads_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
