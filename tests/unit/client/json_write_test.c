/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON that kvcli writes: which bytes are text, what is escaped, base64 in pieces, which figures are numbers,
 * and the commas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/cli/file/dump_json.h"
#include "client/cli/text/json_write.h"

static struct cli_json json;
static char *written;
static size_t written_bytes;

static void begin(void)
{
	json = (struct cli_json){ .to = open_memstream(&written, &written_bytes) };
	assert_non_null(json.to);
}

static void ends_as(const char *want)
{
	fclose(json.to);
	assert_int_equal(written_bytes, strlen(written));
	assert_string_equal(written, want);
	free(written);
}

/* By member and into memory the same. */
static void bytes_are(const char *data, size_t bytes, const char *want)
{
	char at[256];

	memset(at, '#', sizeof at);
	begin();
	cli_json_bytes(&json, "n", data, bytes);
	ends_as(want);
	assert_int_equal(cli_json_put(at, "n", data, bytes) - at, strlen(want));
	assert_memory_equal(at, want, strlen(want));
	assert_int_equal(at[strlen(want)], '#');
}

static void texts(void **state)
{
	static const char *const cases[][2] = {
		{ "", "" }, { "a", "a" }, { " ~", " ~" }, { "\"\\\b\f\n\r\t/", "\\\"\\\\\\b\\f\\n\\r\\t/" },
		{ "\x01\x1f\x7f", "\\u0001\\u001f\\u007f" }, { "\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0" },
		{ "\xc3\x80", "\xc3\x80" }, { "\xdf\xbf", "\xdf\xbf" }, { "\xe0\xa0\x80", "\xe0\xa0\x80" },
		{ "\xe1\x80\x80", "\xe1\x80\x80" }, { "\xed\x9f\xbf", "\xed\x9f\xbf" }, { "\xee\x80\x80", "\xee\x80\x80" },
		{ "\xef\xbf\xbf", "\xef\xbf\xbf" }, { "\xf0\x90\x80\x80", "\xf0\x90\x80\x80" },
		{ "\xf1\x80\x80\x80", "\xf1\x80\x80\x80" }, { "\xf4\x8f\xbf\xbf" "a", "\xf4\x8f\xbf\xbf" "a" },
	};
	char want[64];

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(want, sizeof want, "\"n\":\"%s\"", cases[i][1]);
		bytes_are(cases[i][0], strlen(cases[i][0]), want);
	}
	bytes_are("a\0b", 3, "\"n\":\"a\\u0000b\"");
}

static void what_is_no_text(void **state)
{
	static const char *const cases[][2] = {
		{ "\x80", "gA==" }, { "\xbf", "vw==" }, { "\xc2", "wg==" }, { "\xc1\xbf", "wb8=" }, { "\xc2\x7f", "wn8=" },
		{ "\xc2\xc0", "wsA=" }, { "\xe2\x82", "4oI=" }, { "a\xe2\x82", "YeKC" }, { "\xe0\x9f\xbf", "4J+/" },
		{ "\xe1\x80\x7f", "4YB/" }, { "\xe1\x7f\x80", "4X+A" }, { "\xed\xa0\x80", "7aCA" }, { "\xff\xff\xff", "////" },
		{ "\xf0\x8f\xbf\xbf", "8I+/vw==" }, { "\xf4\x90\x80\x80", "9JCAgA==" }, { "\xf5\x80\x80\x80", "9YCAgA==" },
		{ "\xf1\x80\x80\x7f", "8YCAfw==" }, { "\xf1\x80\x80", "8YCA" }, { "\xfe" "abcd", "/mFiY2Q=" },
		{ "\xf8\x88\x80\x80\x80", "+IiAgIA=" },
	};
	char want[64];

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(want, sizeof want, "\"n_base64\":\"%s\"", cases[i][1]);
		bytes_are(cases[i][0], strlen(cases[i][0]), want);
	}
}

/* What stands behind it in memory is no part of it. */
static void others_stand_behind_it(void **state)
{
	(void)state;
	bytes_are("\xc3\xa4", 1, "\"n_base64\":\"ww==\"");
	bytes_are("ab\xff\xff\xff", 2, "\"n\":\"ab\"");
	bytes_are("\xff\xff\xff", 1, "\"n_base64\":\"/w==\"");
	bytes_are("\xff\xff\xff", 2, "\"n_base64\":\"//8=\"");
	bytes_are("\xff\xff\xff\xff\xff", 4, "\"n_base64\":\"/////w==\"");
}

/* A value comes back, of whatever length and kind. */
static void must_come_back(const uint8_t *value, size_t bytes)
{
	struct cli_buffer text = { 0 };
	struct dump_item item;
	char why[160];

	begin();
	cli_json_open(&json, NULL, '{');
	cli_json_text(&json, "key", "k");
	cli_json_bytes(&json, "value", value, bytes);
	cli_json_end(&json);
	fclose(json.to);
	if (!dump_json_read(&text, written, written_bytes, &item, why, sizeof why))
		fail_msg("%zu bytes: %s", bytes, why);
	assert_int_equal(item.value_bytes, bytes);
	assert_memory_equal(item.value, value, bytes);
	for (size_t i = 0; i + 1 < written_bytes; i++)
		if ((uint8_t)written[i] < ' ' || ((uint8_t)written[i] == 0xc2 && (uint8_t)written[i + 1] < 0xa0))
			fail_msg("%zu bytes: a control character at %zu", bytes, i);
	cli_buffer_free(&text);
	free(written);
}

static void long_values(void **state)
{
	static const size_t lengths[] = { 2998, 2999, 3000, 3001, 3002, 5999, 6000, 6001, 9001 };
	static uint8_t value[9001];

	(void)state;
	for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		/* Nothing but controls of two bytes, from an even and an odd place; nothing but escapes; no text. */
		for (unsigned first = 0; first < 2; first++) {
			for (size_t n = 0; n < lengths[i]; n++)
				value[n] = n < first ? 'a' : (n - first) % 2 ? 0x85 : 0xc2;
			if ((lengths[i] - first) % 2)
				value[lengths[i] - 1] = 'z';
			must_come_back(value, lengths[i]);
		}
		memset(value, 1, sizeof value);
		must_come_back(value, lengths[i]);
		for (size_t n = 0; n < sizeof value; n++)
			value[n] = (uint8_t)(0xff - n * 7);
		must_come_back(value, lengths[i]);
	}
}

static void figures(void **state)
{
	static const char *const numbers[] = { "0", "3", "10", "-2.5", "0.5", "-0", "1234567890", "9.09" };
	static const char *const texts_of[] = {
		"", "-", "01", "00", "-01", "1.", ".5", "1e5", "1.2.3", "1.5x", "--1", "+1", "1 ", " 1", "1,0", "a", "1.-5",
	};
	char want[64];

	(void)state;
	for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		begin();
		cli_json_figure(&json, "n", numbers[i]);
		snprintf(want, sizeof want, "\"n\":%s", numbers[i]);
		ends_as(want);
	}
	for (unsigned i = 0; i < sizeof texts_of / sizeof texts_of[0]; i++) {
		begin();
		cli_json_figure(&json, "n", texts_of[i]);
		snprintf(want, sizeof want, "\"n\":\"%s\"", texts_of[i]);
		ends_as(want);
	}
}

static void commas_and_brackets(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 2; i++) {
		cli_json_open(&json, NULL, '{');
		cli_json_open(&json, "a", '[');
		cli_json_close(&json, ']');
		cli_json_open(&json, "b", '[');
		cli_json_open(&json, NULL, '{');
		cli_json_close(&json, '}');
		cli_json_open(&json, NULL, '{');
		cli_json_null(&json, "c");
		cli_json_bool(&json, "d", true);
		cli_json_close(&json, '}');
		cli_json_number(&json, NULL, UINT64_MAX);
		cli_json_figure(&json, NULL, "1.5");
		cli_json_text(&json, NULL, "x");
		cli_json_close(&json, ']');
		cli_json_bool(&json, "e", false);
		cli_json_bytes(&json, "f", "\xff", 1);
		cli_json_number(&json, "g", 0);
		cli_json_end(&json);
	}
#define LINE "{\"a\":[],\"b\":[{},{\"c\":null,\"d\":true},18446744073709551615,1.5,\"x\"],\"e\":false," \
	     "\"f_base64\":\"/w==\",\"g\":0}\n"
	ends_as(LINE LINE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(what_is_no_text),
		cmocka_unit_test(others_stand_behind_it),
		cmocka_unit_test(long_values),
		cmocka_unit_test(figures),
		cmocka_unit_test(commas_and_brackets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
