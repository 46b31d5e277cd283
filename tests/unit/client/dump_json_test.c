/* SPDX-License-Identifier: BSD-2-Clause */
/* A key with its value as a line of JSON: what others write, what is wrong with a line and where, and
 * each character there and back. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/cli/file/dump_json.h"
#include "client/kvd.h"

static bool no_memory;

void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes)
{
	return no_memory ? NULL : __real_realloc(at, bytes);
}

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
		{ "{\"key\":\"a b\",\"value\":\"\",\"ttl_ms\":3153600000000}", "a b", "", 0, 3153600000000, 0 },
		{ "{\"key\":\"k\",\"value\":\"\",\"ttl_ms\": 0 ,\"stale\" : false}", "k", "", 0, 0, 0 },
		{ "{\"key\":\"k\",\"value\":\"\",\"ttl_ms\":9,\"claimed\": true }", "k", "", 0, 9, KVD_CLAIMED },
		{ "{\"key_base64\":\"YWJjZGVmZ2hp\",\"value_base64\":\"AAECA////g==\"}", "abcdefghi",
		  "\0\1\2\3\xff\xff\xfe", 7, 0, 0 },
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
		"\"a\":\"\\ud800x\"}", "\"a\":\"\\ud800\\u0041\"}", "\"a\":\"\\ud800\\udbff\"}",
		"\"a\":\"\\ud800\\ue000\"}", "\"a\":\"\\udfff\"}", "\"a\":\"\\u00g0\"}", "\"a\":\"\\u00G0\"}",
		"\"a\":\"\\u00/0\"}", "\"a\":\"\\u00:0\"}", "\"a\":\"\\u00@0\"}", "\"a\":\"\\u00`0\"}", "\"a\":\"\\ud800\\", "\"ttl_ms\":x}",
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
		{ "{\"key\":\"abc", "at its character 12" },
		{ "{\"key_base64\":\"/w=\",\"value\":\"v\"}", "it is no object" },
		{ "{\"key_base64\":\"/w=x\",\"value\":\"v\"}", "it is no object" },
		{ "{\"key_base64\":\"/===\",\"value\":\"v\"}", "it is no object" },
		{ "{\"key_base64\":\"/w==/w==\",\"value\":\"v\"}", "it is no object" },
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

/* Each way to write a character; with the longest and shortest form of UTF-8. */
static void characters_come_back(void **state)
{
	static const char *const cases[][2] = {
		{ "\\u007f", "\x7f" }, { "\\u0080", "\xc2\x80" }, { "\\u07ff", "\xdf\xbf" }, { "\\u0800", "\xe0\xa0\x80" },
		{ "\\uaaaa", "\xea\xaa\xaa" }, { "\\uAAAA", "\xea\xaa\xaa" }, { "\\uffff", "\xef\xbf\xbf" },
		{ "\\uFFFF", "\xef\xbf\xbf" }, { "\\ud7ff", "\xed\x9f\xbf" }, { "\\ue000", "\xee\x80\x80" },
		{ "\\u1290", "\xe1\x8a\x90" }, { "\\ud800\\udc00", "\xf0\x90\x80\x80" },
		{ "\\uD801\\uDFFF", "\xf0\x90\x9f\xbf" }, { "\\udbff\\udfff", "\xf4\x8f\xbf\xbf" },
		{ "\\udbC0\\udc00", "\xf4\x80\x80\x80" }, { " !~", " !~" },
	};
	char line[80], why[160];
	struct dump_item item;

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(line, sizeof line, "{\"key\":\"%s\",\"value\":\"\"}", cases[i][0]);
		if (!read_line(line, &item, why))
			fail_msg("%s: %s", line, why);
		assert_int_equal(item.key_bytes, strlen(cases[i][1]));
		assert_memory_equal(item.key, cases[i][1], item.key_bytes);
	}
}

/* A line that ends too early is wrong at its end, whatever stands behind it in memory. */
static void lines_that_are_cut_off(void **state)
{
	static const char line[] = " {\"key\" : \"k\\n\\u0041\\ud800\\udc00\" ,\"flags\":12,\"stale\":true,\"a\":1.5,"
				   "\"value_base64\":\"YQ==\",\"ttl_ms\":345}";
	struct cli_buffer text = { 0 };
	struct dump_item item;
	char why[160];

	(void)state;
	assert_true(dump_json_read(&text, line, sizeof line - 1, &item, why, sizeof why));
	for (size_t n = 0; n < sizeof line - 1; n++) {
		assert_false(dump_json_read(&text, line, n, &item, why, sizeof why));
		const char *at = strstr(why, "JSON, at its character ");
		assert_non_null(at);
		assert_in_range(strtoul(at + 23, NULL, 10), n + 1 - 9 * (n > 9), n + 2);
	}
	cli_buffer_free(&text);
}

/* Of what ends in the middle of something that could go on: just there. */
static void where_they_are_cut_off(void **state)
{
	static const char *const lines[][2] = {
		{ "", "{" }, { "{\"a\"", ":1}" }, { "{\"a\":", "1}" }, { "{\"a\":1", "}" }, { "{\"a\":1", " }" }, { "{\"a\":1", "2}" },
		{ "{\"ttl_ms\":1", "2}" }, { "{\"ttl_ms\":", "2}" }, { "{\"stale\":true", ",\"a\":1}" },
		{ "{\"a\":1,", "\"b\":2}" }, { "{\"a\":1,\"b\"", ":2}" }, { "{\"a\":\"b\"", "}" }, { "{", "}" },
	};
	struct cli_buffer text = { 0 };
	struct dump_item item;
	char line[80], why[160], want[160];

	(void)state;
	for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		size_t bytes = strlen(lines[i][0]);
		snprintf(line, sizeof line, "%s%s", lines[i][0], lines[i][1]);
		snprintf(want, sizeof want, "it is no object with key and value in JSON, at its character %zu", bytes + 1);
		assert_false(dump_json_read(&text, line, bytes, &item, why, sizeof why));
		assert_string_equal(why, want);
	}
	cli_buffer_free(&text);
}

/* The line of a key of so many bytes, and no value. */
static bool read_key(size_t key_bytes, struct dump_item *item, char why[160])
{
	char *line = calloc(1, key_bytes + 40);
	bool is_read;

	assert_non_null(line);
	strcpy(line, "{\"value\":\"\",\"key\":\"");
	memset(line + strlen(line), 'k', key_bytes);
	strcat(line, "\"}");
	is_read = read_line(line, item, why);
	free(line);
	return is_read;
}

static void the_longest_key(void **state)
{
	struct dump_item item;
	char why[160];

	(void)state;
	assert_true(read_key(KVD_KEY_BYTES_MAX, &item, why));
	assert_int_equal(item.key_bytes, KVD_KEY_BYTES_MAX);
	assert_false(read_key(KVD_KEY_BYTES_MAX + 1, &item, why));
	assert_string_equal(why, "its key or value is over the limit, or the key is empty");
}

/* Six characters for each byte are the most. */
static void lines_are_written(void **state)
{
	static char value[100000];
	struct dump_item item = { .key = "\1\2", .key_bytes = 2, .value = value, .value_bytes = sizeof value }, back;
	struct cli_buffer buffer = { 0 }, text = { 0 };
	char why[160];

	(void)state;
	memset(value, 1, sizeof value);
	for (unsigned i = 0; i < 3; i++) {
		size_t begin = buffer.used;
		assert_true(dump_json_write(&buffer, &item));
		assert_int_equal(buffer.used - begin, 34 + 6 * sizeof value);
		assert_true(buffer.used <= buffer.room);
		assert_memory_equal(buffer.data + begin, "{\"key\":\"\\u0001\\u0002\",\"value\":\"\\u0001", 37);
		assert_memory_equal(buffer.data + buffer.used - 9, "\\u0001\"}\n", 9);
		assert_true(dump_json_read(&text, (char *)buffer.data + begin, buffer.used - begin, &back, why, sizeof why));
		assert_int_equal(back.value_bytes, sizeof value);
		assert_memory_equal(back.value, value, sizeof value);
	}
	cli_buffer_free(&buffer);
	cli_buffer_free(&text);
	assert_null(buffer.data);
	assert_int_equal(buffer.used + buffer.room, 0);
}

/* What is there stays. */
static void there_is_no_memory(void **state)
{
	struct dump_item item = { .key = "k", .key_bytes = 1, .value = "", .value_bytes = 0 };
	struct cli_buffer buffer = { 0 }, text = { 0 };
	static char large[5000];
	char why[160];

	(void)state;
	assert_true(dump_json_write(&buffer, &item));
	size_t used = buffer.used, room = buffer.room;
	item.value = large;
	item.value_bytes = sizeof large;
	no_memory = true;
	assert_false(dump_json_write(&buffer, &item));
	assert_false(dump_json_read(&text, "{}", 2, &item, why, sizeof why));
	no_memory = false;
	assert_string_equal(why, "Cannot allocate memory");
	assert_int_equal(buffer.used, used);
	assert_int_equal(buffer.room, room);
	assert_memory_equal(buffer.data, "{\"key\":\"k\",\"value\":\"\"}\n", used);
	cli_buffer_free(&buffer);
	cli_buffer_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_that_others_write),
		cmocka_unit_test(members_that_are_wrong),
		cmocka_unit_test(lines_that_are_wrong),
		cmocka_unit_test(characters_come_back),
		cmocka_unit_test(lines_that_are_cut_off),
		cmocka_unit_test(where_they_are_cut_off),
		cmocka_unit_test(the_longest_key),
		cmocka_unit_test(lines_are_written),
		cmocka_unit_test(there_is_no_memory),
	};

	mallopt(M_PERTURB, 1); /* what nobody wrote is no text */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
