/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cli/text/json.h: what kvd answers with is read up to each limit, refused beyond, and shown as
 * plain text, whoever wrote it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/cli/text/json.h"

static char read_so_far[2048];

static void note(void *arg, const char *path, const char *value)
{
	size_t used = strlen(read_so_far);

	assert_ptr_equal(arg, read_so_far);
	snprintf(read_so_far + used, sizeof read_so_far - used, "%s=%s;", path, value);
}

static bool read_json(const char *json)
{
	read_so_far[0] = '\0';
	return cli_json_each(json, note, read_so_far);
}

static void reads(const char *json, const char *want)
{
	assert_true(read_json(json));
	assert_string_equal(read_so_far, want);
}

/* 16 deep, and no deeper; what is closed counts no more. */
static void test_depth(void **state)
{
	char text[128] = "";

	(void)state;
	reads("[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]", "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0=1;");
	assert_false(read_json("[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]"));
	assert_false(read_json("[[[[[[[[[[[[[[[[{}]]]]]]]]]]]]]]]]"));
	for (unsigned i = 0; i < 20; i++)
		strcat(text, i ? ",{}" : "[{}");
	strcat(text, ",7]");
	reads(text, "20=7;");
}

static void test_numbers_and_words(void **state)
{
	static const char *const none[] = { "x", "+1", ".5", "Infinity", "'1'", "=", "]", "}", ",", "[1 2]", "1 2" };

	(void)state;
	reads("[0,1,2,3,4,5,6,7,8,9]", "0=0;1=1;2=2;3=3;4=4;5=5;6=6;7=7;8=8;9=9;");
	reads("[0.5,-1,true,false,null]", "0=0.5;1=-1;2=true;3=false;4=null;");
	reads("5", "=5;");
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		assert_false(read_json(none[i]));
}

/* Each kind stands before and behind everything. */
static void test_blanks(void **state)
{
	static const char blanks[] = " \t\r\n";
	char text[64];

	(void)state;
	for (const char *b = blanks; *b; b++) {
		snprintf(text, sizeof text, "%c{%c\"a\"%c:%c1%c,%c\"b\":[%c2%c]%c}%c", *b, *b, *b, *b, *b, *b, *b, *b,
			 *b, *b);
		reads(text, "a=1;b.0=2;");
	}
	assert_false(read_json("\v1"));
}

/* A quote, a backslash and a slash are what they are; other escapes, and controls, are a question mark. */
static void test_strings(void **state)
{
	(void)state;
	reads("\"a\\\"b\\\\c\\/d\"", "=a\"b\\c/d;");
	reads("\"a\\nb\\u001bc\\uABcdd\\uaBC!\"", "=a?b?c?d?aBC!;");
	reads("\"a\033[2J\037 \177\xc3\xa4~\"", "=a?[2J? ?\xc3\xa4~;");
	reads("{\"a\\n\033\":1}", "a?" "?=1;");
	/* An empty one is not what the one before was. */
	reads("{\"a\":\"x\",\"b\":\"\",\"\":\"\"}", "a=x;b=;=;");
	assert_false(read_json("{\"a\":\"\\"));
	assert_false(read_json("\"a\\u00"));
}

/* Of a text there are 255 bytes at the most, of a number too. */
static void test_long_texts(void **state)
{
	char json[300], want[300];

	(void)state;
	for (size_t bytes = 253; bytes <= 257; bytes++) {
		size_t kept = bytes < 255 ? bytes : 255;
		snprintf(json, sizeof json, "\"%0*d\"", (int)bytes, 7);
		snprintf(want, sizeof want, "=%.*s;", (int)kept, json + 1);
		reads(json, want);
		json[bytes + 1] = '\0';
		reads(json + 1, want);
	}
}

/* A path has 255 bytes at the most.  What has a longer one is refused, and not told under a wrong name. */
static void test_long_paths(void **state)
{
	char json[400], want[400];

	(void)state;
	snprintf(json, sizeof json, "{\"%0200d\":{\"%054d\":1},\"b\":2}", 1, 2);
	snprintf(want, sizeof want, "%0200d.%054d=1;b=2;", 1, 2);
	reads(json, want);
	snprintf(json, sizeof json, "{\"%0200d\":{\"%055d\":1},\"b\":2}", 1, 2);
	assert_false(read_json(json));
	assert_string_equal(read_so_far, "");
	snprintf(json, sizeof json, "{\"%0255d\":1,\"b\":2}", 1);
	snprintf(want, sizeof want, "%0255d=1;b=2;", 1);
	reads(json, want);
	snprintf(json, sizeof json, "{\"%0254d\":[1]}", 1);
	assert_false(read_json(json));
	assert_string_equal(read_so_far, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_numbers_and_words),
		cmocka_unit_test(test_blanks),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_long_texts),
		cmocka_unit_test(test_long_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
