/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli's exports: what is written comes back; nothing cut off, changed or made up is told as a key. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/cli/file/dump.h"
#include "client/kvd.h"
#include "common/hash.h"
#include "tests/unit/read_chk.h"

#define HEAD_BYTES sizeof(struct dump_head)
#define ITEMS 4u
#define BLOCK_BYTES_MAX (DUMP_BLOCK_BYTES + sizeof(struct dump_record) + KVD_KEY_BYTES_MAX + KVD_VALUE_BYTES_MAX)

static const struct dump_item items[ITEMS] = {
	{ .key = "one", .key_bytes = 3, .value = "a\0b", .value_bytes = 3 },
	{ .key = "\xff\0", .key_bytes = 2, .value = "\xc3\x28", .value_bytes = 2, .ttl_ms = 5 },
	{ .key = "t\xc3\xbcr\"\n", .key_bytes = 6, .value = "", .flags = UINT32_MAX },
	{ .key = "signs", .key_bytes = 5, .value = "v", .value_bytes = 1,
	  .ttl_ms = KVD_TTL_MS_MAX, .flags = 7, .signs = KVD_STALE | KVD_CLAIMED },
};

static struct dump_reader reader;
static int file;
static bool no_memory;
static volatile int stop;
static unsigned stops_in; /* that read; 0: none */

void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
ssize_t __real_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

void *__wrap_realloc(void *at, size_t bytes)
{
	return no_memory ? NULL : __real_realloc(at, bytes);
}

ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
	if (stops_in && --stops_in == 0)
		stop = 1;
	return __real_read(fd, to, bytes);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	assert_int_equal(id, CLOCK_REALTIME);
	*t = (struct timespec){ 1234567, 890000000 };
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	no_memory = false;
	stops_in = 0;
	stop = 0;
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
	if (got == DUMP_RECORD)
		assert_int_equal(reader.begin, from ? from : reader.json ? 0 : HEAD_BYTES);
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
	assert_int_equal(reader.record, 2);
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

/* The file is a pipe that holds this much of it. */
static void make_pipe(uint64_t bytes)
{
	uint8_t data[4096];
	int pipes[2];

	assert_true(bytes <= sizeof data);
	assert_int_equal(pread(file, data, bytes, 0), bytes);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(write(pipes[1], data, bytes), bytes);
	close(pipes[1]);
	dup2(pipes[0], file);
	close(pipes[0]);
}

/* What can't be sought is read over. */
static void a_pipe_is_read_over(void **state)
{
	uint64_t second, bytes = write_items(true, 0);
	struct dump_item item;

	(void)state;
	assert_int_equal(dump_open(&reader, file, 0, NULL), DUMP_RECORD);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
	second = reader.begin;
	dump_close(&reader);
	make_pipe(bytes);
	assert_int_equal(dump_open(&reader, file, second, NULL), DUMP_RECORD);
	assert_int_equal(reader.begin, second);
	for (unsigned told = 1; told < ITEMS; told++) {
		assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
		assert_true(is_same(&item, &items[told]));
	}
	assert_int_equal(dump_next(&reader, &item), DUMP_END);
}

static void a_pipe_ends_before_it(void **state)
{
	(void)state;
	make_pipe(write_items(false, 0));
	assert_int_equal(dump_open(&reader, file, 60000, NULL), DUMP_CUT);
}

/* The first item alone is a block: no block is missing behind where it goes on either. */
static void blocks_are_counted(void **state)
{
	struct dump_writer w;
	static uint8_t value[DUMP_BLOCK_BYTES - sizeof(struct dump_record) - 1];
	struct dump_item item = { .key = "k", .key_bytes = 1, .value = value, .value_bytes = sizeof value };
	const uint64_t block = sizeof(struct dump_block) + DUMP_BLOCK_BYTES;
	struct dump_block last;

	(void)state;
	assert_int_equal(dump_begin(&w, file, false), 0);
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(dump_add(&w, &item), 0);
		assert_int_equal(w.bytes, HEAD_BYTES + i * block);
	}
	assert_int_equal(dump_end(&w), 0);
	assert_int_equal(w.bytes, HEAD_BYTES + 3 * block + sizeof(struct dump_block));
	dump_free(&w);
	/* The third one's place is taken by the last. */
	assert_int_equal(pread(file, &last, sizeof last, (off_t)(HEAD_BYTES + 3 * block)), sizeof last);
	assert_int_equal(pwrite(file, &last, sizeof last, (off_t)(HEAD_BYTES + 2 * block)), sizeof last);
	lseek(file, 0, SEEK_SET);
	assert_int_equal(dump_open(&reader, file, HEAD_BYTES + block, NULL), DUMP_RECORD);
	assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
	assert_int_equal(reader.record, 2);
	assert_int_equal(dump_next(&reader, &item), DUMP_DAMAGED);
	assert_string_equal(reader.why, "a part of the file is missing before it");
	assert_int_equal(reader.begin, HEAD_BYTES + 2 * block);
}

static void an_empty_export(void **state)
{
	struct dump_writer w;
	struct dump_head head;
	unsigned told;

	(void)state;
	assert_int_equal(dump_begin(&w, file, true) + dump_end(&w), 0);
	assert_int_equal(w.bytes, 0);
	assert_int_equal(dump_begin(&w, file, false), 0);
	assert_int_equal(dump_end(&w), 0);
	assert_int_equal(w.bytes, HEAD_BYTES + sizeof(struct dump_block));
	dump_free(&w);
	assert_int_equal(pread(file, &head, sizeof head, 0), sizeof head);
	assert_int_equal(head.created_ms, 1234567890);
	lseek(file, 0, SEEK_SET);
	assert_int_equal(read_items(0, &told), DUMP_END);
	assert_int_equal(told + reader.record, 0);
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
		{ { DUMP_BLOCK_MAGIC, 1, 0, BLOCK_BYTES_MAX + 1, 0 }, { 3, 0, 0, 4, 0 }, 7, "its lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 2, 0, 0, 0 }, { 3, 0, 0, 4, 0 }, 7, "its lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 1, 0, 0, 0 }, { 1, 0, 0, 0, 0 }, 0, "a record's lengths make no sense" },
		{ { DUMP_BLOCK_MAGIC, 1, 0, 0, 0 }, { KVD_KEY_BYTES_MAX, 0, 0, 1, 0 }, KVD_KEY_BYTES_MAX + 1, NULL },
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
	/* One that may be so long is cut off. */
	assert_int_equal(read_made_up((struct dump_block){ DUMP_BLOCK_MAGIC, 1, 0, BLOCK_BYTES_MAX, 0 },
				      (struct dump_record){ 3, 0, 0, 4, 0 }, 7), DUMP_CUT);
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
	struct dump_item item;

	(void)state;
	write_items(false, 0);
	assert_int_equal(dump_open(&reader, file, 0, &stop), DUMP_RECORD);
	stops_in = 2; /* as the last of a block comes, which is told */
	assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
	assert_true(is_same(&item, &items[0]));
	assert_int_equal(dump_next(&reader, &item), DUMP_STOPPED);
	dump_close(&reader);
	assert_int_equal(dump_open(&reader, file, 0, &stop), DUMP_STOPPED);
}

/* At an end it makes a difference: who wrote it may have been stopped, too. */
static void who_is_stopped_at_an_end(void **state)
{
	uint64_t bytes = write_items(false, 0) - sizeof(struct dump_block);
	struct dump_item item;

	(void)state;
	assert_int_equal(ftruncate(file, (off_t)bytes), 0);
	for (unsigned i = 0; i < 2; i++) {
		lseek(file, 0, SEEK_SET);
		assert_int_equal(dump_open(&reader, file, 0, &stop), DUMP_RECORD);
		for (unsigned n = 0; n < ITEMS; n++)
			assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
		stops_in = i;
		assert_int_equal(dump_next(&reader, &item), i ? DUMP_STOPPED : DUMP_CUT);
		dump_close(&reader);
	}
}

static void there_is_no_memory(void **state)
{
	struct dump_writer w;

	(void)state;
	write_items(false, 0);
	assert_int_equal(dump_begin(&w, file, false), 0);
	no_memory = true;
	assert_int_equal(dump_add(&w, &items[0]), ENOMEM);
	w.json = true;
	assert_int_equal(dump_add(&w, &items[0]), ENOMEM);
	assert_int_equal(w.records, 0);
	assert_int_equal(dump_open(&reader, file, 0, NULL), DUMP_FAILED);
	assert_int_equal(reader.error, ENOMEM);
}

static void no_memory_is_kept(void **state)
{
	size_t used = 0;
	unsigned told;

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		if (i == 2)
			used = mallinfo2().uordblks;
		write_items(i % 2, 0);
		assert_int_equal(read_items(0, &told), DUMP_END);
		dump_close(&reader);
		assert_null(reader.buf.data);
		lseek(file, 0, SEEK_SET);
	}
	assert_int_equal(mallinfo2().uordblks, used);
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
	dump_close(&reader);
}

/* Shorter ones than a head, too; it goes on behind one. */
static void short_lines(void **state)
{
	static const char text[] = "{\"a\":1}\n{}";
	struct dump_item item;

	(void)state;
	rewrite(text, sizeof text - 1);
	assert_int_equal(dump_open(&reader, file, 0, NULL), DUMP_RECORD);
	assert_int_equal(dump_next(&reader, &item), DUMP_DAMAGED);
	assert_int_equal(reader.begin, 0);
	assert_int_equal(dump_next(&reader, &item), DUMP_DAMAGED);
	assert_int_equal(reader.begin, 8);
	assert_int_equal(reader.record, 2);
	assert_int_equal(dump_next(&reader, &item), DUMP_END);
	dump_close(&reader);
	lseek(file, 0, SEEK_SET);
	assert_int_equal(dump_open(&reader, file, 8, NULL), DUMP_RECORD);
	assert_int_equal(reader.begin, 8);
	assert_int_equal(dump_next(&reader, &item), DUMP_DAMAGED);
	assert_string_equal(reader.why, "it has no key");
	assert_int_equal(dump_next(&reader, &item), DUMP_END);
	dump_close(&reader);
	rewrite("{", 1);
	assert_int_equal(dump_open(&reader, file, 0, NULL), DUMP_RECORD);
	assert_int_equal(dump_next(&reader, &item), DUMP_DAMAGED);
}

static const struct dump_item *make_item(unsigned n)
{
	static char value[24];
	static struct dump_item item = { .key = "key", .key_bytes = 3, .value = value };

	item.value_bytes = (size_t)snprintf(value, sizeof value, "value %u", n);
	return &item;
}

/* More than are read at once: what is told makes room for what comes. */
static void many_lines(void **state)
{
	struct dump_writer w;
	struct dump_item item;

	(void)state;
	assert_int_equal(dump_begin(&w, file, true), 0);
	for (unsigned n = 0; n < 20000; n++)
		assert_int_equal(dump_add(&w, make_item(n)), 0);
	assert_int_equal(dump_end(&w), 0);
	dump_free(&w);
	lseek(file, 0, SEEK_SET);
	assert_int_equal(dump_open(&reader, file, 0, NULL), DUMP_RECORD);
	for (unsigned n = 0; n < 20000; n++) {
		assert_int_equal(dump_next(&reader, &item), DUMP_RECORD);
		assert_true(is_same(&item, make_item(n)));
	}
	assert_int_equal(dump_next(&reader, &item), DUMP_END);
	assert_int_equal(reader.record, 20000);
	assert_true(reader.buf.room < 400000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_come_back),
		TEST(lines_come_back),
		TEST(a_pipe_is_read_over),
		TEST(a_pipe_ends_before_it),
		TEST(blocks_are_counted),
		TEST(an_empty_export),
		TEST(what_is_cut_off_is_told),
		TEST(each_changed_byte_is_seen),
		TEST(lengths_that_lie_are_refused),
		TEST(a_record_that_is_cut_off),
		TEST(what_is_no_export),
		TEST(who_is_stopped),
		TEST(who_is_stopped_at_an_end),
		TEST(there_is_no_memory),
		TEST(no_memory_is_kept),
		TEST(a_file_that_takes_nothing),
		TEST(files_of_lines),
		TEST(short_lines),
		TEST(many_lines),
	};

	mallopt(M_PERTURB, 1); /* what nobody read is no magic */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
