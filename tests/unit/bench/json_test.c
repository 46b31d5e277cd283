/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON: what is written is read back; what is none is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/format/json.h"
#include "bench/format/jsonread.h"

static struct err err;

static void written_is_read_back(void **state)
{
	char *text = NULL;
	size_t bytes = 0;
	struct json j = { .file = open_memstream(&text, &bytes) };
	struct jsonread *json;

	(void)state;
	json_open(&j, NULL, '{');
	json_string(&j, "text", "a \"b\" \\ \n \x01 \xc3\xa4");
	json_open(&j, "inner", '{');
	json_count(&j, "count", UINT64_C(1) << 52);
	json_real(&j, "real", 1.25, 3);
	json_real(&j, "none", NAN, 3);
	json_real(&j, "round", 100, 0);
	json_bool(&j, "bool", true);
	json_literal(&j, "literal", "-1.5e3");
	json_open(&j, "empty", '{');
	json_close(&j, '{');
	json_close(&j, '{');
	json_open_flat(&j, "list", '[');
	for (unsigned i = 0; i < 3; i++) {
		json_open(&j, NULL, '[');
		json_count(&j, NULL, i);
		json_close(&j, '[');
	}
	json_close(&j, '[');
	json_count(&j, "last", 7);
	json_close(&j, '{');
	fclose(j.file);

	json = jsonread_new(text, &err);
	if (json == NULL)
		fail_msg("%s: %s", err.text, text);
	assert_string_equal(jsonread_string(jsonread_path(json, "text"), ""),
			    "a \"b\" \\ \n \x01 \xc3\xa4");
	assert_true(jsonread_number(jsonread_path(json, "inner.count"), 0) == 0x1p52);
	assert_true(jsonread_number(jsonread_path(json, "inner.real"), 0) == 1.25);
	assert_int_equal(jsonread_path(json, "inner.none")->kind, JSONREAD_NULL);
	assert_true(jsonread_number(jsonread_path(json, "inner.round"), 0) == 100);
	assert_int_equal(jsonread_path(json, "inner.bool")->kind, JSONREAD_BOOL);
	assert_true(jsonread_number(jsonread_path(json, "inner.literal"), 0) == -1500);
	assert_true(jsonread_number(jsonread_path(json, "list")->first->next->first, 9) == 1);
	assert_true(jsonread_number(jsonread_path(json, "last"), 0) == 7);
	assert_null(jsonread_path(json, "inner.absent"));
	assert_null(jsonread_path(json, "last.absent"));
	assert_non_null(strstr(text, "\"list\": [[0], [1], [2]],"));
	jsonread_delete(&json);
	free(text);
}

static void bytes_are_written_as_characters(void **state)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	json_write_bytes(file, "a\0\xff\"", 4);
	fclose(file);
	assert_string_equal(text, "\"a\\u0000\\u00ff\\\"\"");
	free(text);
}

static void escapes_are_read(void **state)
{
	struct jsonread *json = jsonread_new("\"\\u0041\\u00e4\\u20ac\\ud83d\\ude00\\ud800\\/\"",
					     &err);

	(void)state;
	assert_non_null(json);
	assert_string_equal(json->text, "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd/");
	jsonread_delete(&json);
}

static void what_is_none_is_refused(void **state)
{
	static const char *const list[] = {
		"", "{", "[", "\"", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1,]", "[1 2]", "nul",
		"1 2", "+1", ".5", "1e", "--1", "\"\\x\"", "\"\\u12\"", "\"a\nb\"", "{a:1}", "\\",
		"\"\\", "\"\\u", "[1}", "1.2.3",
	};
	char deep[201];

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		struct jsonread *json = jsonread_new(list[i], &err);
		if (json != NULL)
			fail_msg("accepted: %s", list[i]);
	}
	memset(deep, '[', 100);
	memset(deep + 100, ']', 100);
	deep[200] = '\0';
	assert_null(jsonread_new(deep, NULL));
	assert_null(jsonread_new_file("/nonexistent", &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_is_read_back),
		cmocka_unit_test(bytes_are_written_as_characters),
		cmocka_unit_test(escapes_are_read),
		cmocka_unit_test(what_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
