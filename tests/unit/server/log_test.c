/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/durable/log.h: logs that are whole, torn at any byte, and damaged at any byte, with what it
 * says of the place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/durable/log.h"
#include "tests/lib/group.h"
#include "tests/unit/descriptors.h"

#define BLOCK 32768u
#define HEADER 7u

enum { ZERO, FULL, FIRST, MIDDLE, LAST, RECYCLED };

static char dir[] = "/tmp/log_test.XXXXXX";
static uint8_t data[4 * BLOCK];
static size_t bytes;
static struct log_look look;
static struct err err;

/* ---------------------------------------------------------------------- to write */

static uint32_t crc32c(const uint8_t *at, size_t n)
{
	uint32_t c = ~0u;

	for (; n; n--, at++) {
		c ^= *at;
		for (int bit = 0; bit < 8; bit++)
			c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
	}
	return ~c;
}

/* A record of so much payload; where it begins. */
static size_t add(unsigned type, size_t payload)
{
	uint8_t *to = data + bytes;
	size_t at = bytes;

	assert_true(at + HEADER + payload <= sizeof data);
	to[4] = (uint8_t)payload;
	to[5] = (uint8_t)(payload >> 8);
	to[6] = (uint8_t)type;
	for (size_t i = 0; i < payload; i++)
		to[HEADER + i] = (uint8_t)(0x80 + i % 100); /* no type, nor zero */
	uint32_t c = crc32c(to + 6, payload + 1);
	c = (c >> 15 | c << 17) + 0xa282ead8u;
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(c >> 8 * i);
	bytes += HEADER + payload;
	return at;
}

/* One that ends so many bytes before its block does. */
static size_t add_up_to(unsigned type, size_t before)
{
	return add(type, BLOCK - bytes % BLOCK - HEADER - before);
}

static void add_zeros(size_t n)
{
	memset(data + bytes, 0, n);
	bytes += n;
}

static void write_as(const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, bytes, f), bytes);
	assert_int_equal(fclose(f), 0);
}

/* ----------------------------------------------------------------------- to look */

static int take_look(void)
{
	int before = count_descriptors();
	int rc = log_look(dir, &look, &err);

	assert_int_equal(count_descriptors(), before);
	return rc;
}

static void expect(enum log_state state, const char *name, size_t at)
{
	char where[64] = "";

	assert_int_equal(take_look(), 0);
	if (state != LOG_WHOLE)
		snprintf(where, sizeof where, "%s at byte %zu", name, at);
	assert_string_equal(look.where, where);
	assert_int_equal(look.state, state);
}

/* The data as the only log. */
static void expect_data(enum log_state state, size_t at)
{
	write_as("000007.log");
	expect(state, "000007.log", at);
	assert_int_equal(look.newest, 7);
}

static void test_whole(void **state)
{
	(void)state;
	expect_data(LOG_WHOLE, 0);
	add_zeros(5000);
	expect_data(LOG_WHOLE, 0);
	bytes = 0;
	add(FULL, 0);
	expect_data(LOG_WHOLE, 0);
	add(FULL, 300);
	expect_data(LOG_WHOLE, 0);
	add_up_to(FIRST, 0);
	add_up_to(MIDDLE, 0);
	add(LAST, 10);
	expect_data(LOG_WHOLE, 0);
	add_up_to(FIRST, HEADER);
	add_up_to(MIDDLE, 0); /* a header without a payload */
	add(LAST, 1);
	add(FULL, 1);
	add_zeros(100);
	expect_data(LOG_WHOLE, 0);
}

/* A header has no room at a block's end: zeros are there. */
static void test_end_of_block(void **state)
{
	(void)state;
	for (size_t left = 1; left < HEADER; left++) {
		bytes = 0;
		add_up_to(FULL, left);
		add_zeros(left);
		expect_data(LOG_WHOLE, 0);
		add(FULL, 20);
		expect_data(LOG_WHOLE, 0);
		data[BLOCK - 1] = 1;
		expect_data(LOG_DAMAGED, BLOCK - left);
		bytes = BLOCK;
		expect_data(LOG_TORN, BLOCK - left);
	}
}

/* Cut anywhere, with or without zeros behind it. */
static void test_torn(void **state)
{
	(void)state;
	add(FULL, 5);
	size_t at = add(FULL, 40), end = bytes;
	for (bytes = at + 1; bytes < end; bytes++)
		expect_data(LOG_TORN, at);
	for (size_t cut = at + 1; cut < end; cut += 9) {
		bytes = at;
		add(FULL, 40);
		bytes = cut;
		add_zeros(100);
		expect_data(LOG_TORN, at);
	}
}

/* Each bit counts, and what follows it was acknowledged. */
static void test_damaged(void **state)
{
	(void)state;
	add(FULL, 5);
	size_t at = add(FULL, 12), end = bytes;
	add(FULL, 3);
	for (size_t i = at; i < end; i++) {
		data[i] ^= (uint8_t)(1u << i % 8);
		expect_data(LOG_DAMAGED, at);
		data[i] ^= (uint8_t)(1u << i % 8);
	}
	expect_data(LOG_WHOLE, 0);
}

static void test_pieces(void **state)
{
	(void)state;
	add(FULL, 5);
	size_t at = add_up_to(FIRST, 0);
	expect_data(LOG_TORN, at); /* there is no last one */
	add_zeros(20);
	expect_data(LOG_TORN, at);
	bytes -= 20;
	add_up_to(MIDDLE, 0);
	size_t last = add(LAST, 30);
	expect_data(LOG_WHOLE, 0);
	bytes--;
	expect_data(LOG_TORN, at);
	bytes++;
	data[last - 1] ^= 1;
	expect_data(LOG_TORN, at); /* behind it is its own end */
	data[at + HEADER] ^= 1;
	expect_data(LOG_TORN, at);
	add(FULL, 0);
	expect_data(LOG_DAMAGED, at);
}

/* As long as a beginning of each kind stands there, not of its own batch. */
static void test_beginnings(void **state)
{
	static const unsigned types[] = { FULL, FIRST, MIDDLE, LAST, RECYCLED, ZERO };

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		for (unsigned blocks = 1; blocks < 4; blocks++) {
			bytes = 0;
			size_t bad = add(FULL, 9);
			data[bad + HEADER] ^= 1;
			add_zeros(blocks * BLOCK - bytes - (blocks == 1 ? 500 : 0));
			add(types[i], 30);
			expect_data(i < 2 ? LOG_DAMAGED : LOG_TORN, bad);
			bytes--;
			expect_data(LOG_TORN, bad); /* nor is that one whole */
		}
	bytes = 0;
	data[add(FULL, 9) + HEADER] ^= 1;
	add(FULL, 0); /* all header, at the very end */
	expect_data(LOG_DAMAGED, 0);
}

/* In a block behind the bad one's, records stand one behind the other. */
static void test_chain(void **state)
{
	(void)state;
	size_t bad = add_up_to(FULL, 0);
	data[bad] ^= 1;
	add(LAST, 100);
	expect_data(LOG_TORN, bad);
	add(FIRST, 0);
	expect_data(LOG_DAMAGED, bad);
	bytes = BLOCK;
	add_up_to(MIDDLE, 3);
	add_zeros(3);
	add(LAST, 0);
	expect_data(LOG_TORN, bad);
	add(FULL, 0);
	expect_data(LOG_DAMAGED, bad);
}

static void test_order(void **state)
{
	static const unsigned alone[] = { MIDDLE, LAST };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		bytes = 0;
		add(FULL, 3);
		size_t at = add(alone[i], 3);
		expect_data(LOG_TORN, at);
	}
	/* A batch that has no end, and another one behind it, were it the last. */
	for (unsigned i = 0; i < 2; i++) {
		bytes = 0;
		add(FULL, 3);
		size_t at = add(FIRST, 3);
		add(i ? FULL : FIRST, 3);
		expect_data(LOG_DAMAGED, at);
	}
	bytes = 0;
	add(FULL, 3);
	size_t at = add(RECYCLED, 3);
	expect_data(LOG_TORN, at);
}

static void test_several(void **state)
{
	(void)state;
	add(FULL, 30);
	write_as("000005.log");
	write_as("999999.log");
	write_as("1000000.log");
	expect(LOG_WHOLE, "", 0);
	assert_int_equal(look.newest, 1000000);
	bytes--;
	write_as("1000000.log");
	write_as("000006.log.bak");
	write_as("x000006.log");
	write_as("000006.sst");
	write_as("000000.log");
	expect(LOG_TORN, "1000000.log", 0);
	write_as("999999.log");
	expect(LOG_TORN, "999999.log", 0); /* the first bad one is named */
	bytes++;
	write_as("1000000.log");
	expect(LOG_DAMAGED, "999999.log", 0);
	assert_int_equal(look.newest, 1000000);
	bytes = 0;
	write_as("1000000.log");
	expect(LOG_TORN, "999999.log", 0);
	add_zeros(10);
	write_as("1000000.log");
	expect(LOG_TORN, "999999.log", 0);
}

#define LOGS_MAX 1024u

static void make_logs(bool are_to_be)
{
	char path[128];

	for (unsigned i = 1; i <= LOGS_MAX; i++) {
		snprintf(path, sizeof path, "%s/%06u.log", dir, i);
		assert_int_equal(are_to_be ? mknod(path, S_IFREG | 0600, 0) : unlink(path), 0);
	}
}

/* More than it looks at it does not pass over. */
static void test_too_many(void **state)
{
	(void)state;
	make_logs(true);
	assert_int_equal(take_look(), -1);
	assert_non_null(strstr(err.text, "1024 logs or more"));
	make_logs(false);
}

static void expect_no_look(const char *path)
{
	char text[128];

	snprintf(text, sizeof text, "can't read %s%s: ", dir, path);
	assert_int_equal(take_look(), -1);
	if (strncmp(err.text, text, strlen(text)))
		fail_msg("%s", err.text);
}

static void test_unreadable(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof path, "%s/000008.log", dir);
	assert_int_equal(symlink("/nowhere", path), 0);
	expect_no_look("/000008.log");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	if (st.st_size) /* a folder has a size here, but there is nothing to map */
		expect_no_look("/000008.log");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(dir), 0);
	expect_no_look("");
	assert_int_equal(mkdir(dir, 0700), 0);
	expect(LOG_WHOLE, "", 0);
	assert_int_equal(look.newest, 0);
}

static int clear(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s/*", dir);
	bytes = 0;
	memset(&look, 0xff, sizeof look);
	return system(command);
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state)
{
	return clear(state) | rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_whole, clear),
		cmocka_unit_test_setup(test_end_of_block, clear),
		cmocka_unit_test_setup(test_torn, clear),
		cmocka_unit_test_setup(test_damaged, clear),
		cmocka_unit_test_setup(test_pieces, clear),
		cmocka_unit_test_setup(test_beginnings, clear),
		cmocka_unit_test_setup(test_chain, clear),
		cmocka_unit_test_setup(test_order, clear),
		cmocka_unit_test_setup(test_several, clear),
		cmocka_unit_test_setup(test_too_many, clear),
		cmocka_unit_test_setup(test_unreadable, clear),
	};

	return GROUP_RUN(tests, begin, end);
}
