/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of kvcli: words, options, patterns, JSON, paths, files, lines.  The window: cli_window_test.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/cli/file/files.h"
#include "client/cli/file/value.h"
#include "client/cli/text/args.h"
#include "client/cli/text/glob.h"
#include "client/cli/text/input.h"
#include "client/cli/text/json.h"
#include "client/cli/text/json_write.h"

/* ------------------------------------------------------------------- words */

static bool split(struct cli_words *words, const void *line, size_t bytes)
{
	static char copy[256], error[256];

	assert_true(bytes <= sizeof copy);
	memcpy(copy, line, bytes);
	return cli_word_split(words, copy, bytes, error, sizeof error);
}

static void expect_word(const struct cli_words *words, size_t i, const void *data, size_t bytes)
{
	assert_true(i < words->count);
	assert_int_equal(words->word[i].bytes, bytes);
	assert_memory_equal(words->word[i].data, data, bytes);
}

static void words_are_split(void **state)
{
	static const char line[] = "  put\t\"a b\"'c \\n'd \"\\x41\\n\\0\\\"\\\\\" '' \\n\0 ";
	struct cli_words words = { 0 };

	(void)state;
	assert_true(split(&words, line, sizeof line - 1));
	assert_int_equal(words.count, 5);
	expect_word(&words, 0, "put", 3);
	expect_word(&words, 1, "a bc \\nd", 8);
	expect_word(&words, 2, "A\n\0\"\\", 5);
	expect_word(&words, 3, "", 0);
	expect_word(&words, 4, "\\n\0", 3);
	assert_false(words.word[0].literal);
	assert_true(words.word[1].literal);
	cli_words_free(&words);
}

static void hexadecimal_digits_are_of_either_case(void **state)
{
	static const char line[] = "\"\\xAF\\xfa\\x09\"";
	struct cli_words words = { 0 };

	(void)state;
	assert_true(split(&words, line, sizeof line - 1));
	expect_word(&words, 0, "\xaf\xfa\x09", 3);
	cli_words_free(&words);
}

static void wrong_words_are_refused(void **state)
{
	static const char *const lines[] = { "\"", "a 'b", "\"\\", "\"\\q\"", "\"\\x4\"", "\"\\x4g\"" };
	struct cli_words words = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
		assert_false(split(&words, lines[i], strlen(lines[i])));
	cli_words_free(&words);
}

static void open_quotes_are_seen(void **state)
{
	static const char *const open[] = { "put a \"b", "put a 'b", "'\"", "\"\\\"", "\"\\" };
	static const char *const closed[] = { "", "put a b", "'\"'", "\"'\"", "\"\\\"\"", "\\" };

	(void)state;
	for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
		assert_true(cli_word_is_open(open[i], strlen(open[i])));
	for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
		assert_false(cli_word_is_open(closed[i], strlen(closed[i])));
}

/* What is shown can be read again, whatever the bytes. */
static void quoted_bytes_come_back(void **state)
{
	struct cli_words words = { 0 };
	char shown[1100];
	uint8_t bytes[256];

	(void)state;
	for (unsigned i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 37);
	cli_word_show(bytes, sizeof bytes, shown, sizeof shown);
	assert_true(cli_word_is_text(shown, strlen(shown), false));
	assert_true(cli_word_split(&words, shown, strlen(shown), (char[64]){ 0 }, 64));
	assert_int_equal(words.count, 1);
	expect_word(&words, 0, bytes, sizeof bytes);
	cli_words_free(&words);
}

static void long_words_are_cut(void **state)
{
	char shown[16];

	(void)state;
	assert_string_equal(cli_word_show("abcdefghijklmnop", 16, shown, sizeof shown),
			    "\"abcdefghij\"...");
}

static void control_characters_are_no_text(void **state)
{
	(void)state;
	assert_true(cli_word_is_text("na\xc3\xafve \xf0\x9f\x98\x80", 11, false));
	assert_true(cli_word_is_text("a\tb\n", 4, true));
	assert_false(cli_word_is_text("a\tb\n", 4, false));
	assert_false(cli_word_is_text("\033[31m", 5, true));
	assert_false(cli_word_is_text("\xc2\x9b", 2, true));      /* CSI as one character */
	assert_false(cli_word_is_text("\xc0\xaf", 2, true));      /* overlong */
	assert_false(cli_word_is_text("\xed\xa0\x80", 3, true));  /* surrogate */
	assert_false(cli_word_is_text("\xe2\x82", 2, true));      /* cut short */
}

/* ----------------------------------------------------------------- options */

static const struct cli_option options[] = {
	{ "file", 'f', "PATH", "" },
	{ "yes", 'y', NULL, "" },
	{ 0 },
};

static bool parse(struct cli_args *args, const char *line, char error[256])
{
	static struct cli_words words;

	assert_true(split(&words, line, strlen(line)));
	return cli_args_parse(args, options, words.word, words.count, error, 256);
}

static void options_stand_anywhere(void **state)
{
	struct cli_args args;
	char error[256];

	(void)state;
	assert_true(parse(&args, "a --file=x b -y -5 - '--yes' -- --no", error));
	assert_int_equal(args.count, 6);
	assert_true(args.given[0] && args.given[1]);
	assert_memory_equal(args.option[0].data, "x", 1);
	assert_memory_equal(args.operand[2].data, "-5", 2);
	assert_true(cli_word_is(&args.operand[3], "-"));
	assert_memory_equal(args.operand[5].data, "--no", 4);
	assert_true(parse(&args, "-f x", error) && parse(&args, "-fx", error));
	assert_int_equal(args.option[0].bytes, 1);
}

static void wrong_options_are_told(void **state)
{
	struct cli_args args;
	char error[256];

	(void)state;
	assert_false(parse(&args, "--fiel x", error));
	assert_non_null(strstr(error, "--file"));
	assert_false(parse(&args, "--file", error));
	assert_false(parse(&args, "--yes=1", error));
	assert_false(parse(&args, "-z", error));
	assert_false(parse(&args, "-a", error));
	assert_false(parse(&args, "-A", error));
	assert_false(parse(&args, "-Z", error));
}

static void no_letter_no_option(void **state)
{
	struct cli_args args;
	char error[256];

	(void)state;
	assert_true(parse(&args, "-@ -[ -` -{", error));
	assert_int_equal(args.count, 4);
}

static void numbers_are_checked(void **state)
{
	static const char *const wrong[] = { "", "-1", "1x", "0", "11", "18446744073709551617" };
	struct cli_word word = { "7", 1, false };
	uint64_t number = 0;

	(void)state;
	assert_true(cli_args_number(&word, 1, 10, &number));
	assert_int_equal(number, 7);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		word = (struct cli_word){ wrong[i], strlen(wrong[i]), false };
		assert_false(cli_args_number(&word, 1, 10, &number));
	}
}

static struct cli_word word_of(const char *text)
{
	return (struct cli_word){ text, strlen(text), false };
}

static void integers_and_times_are_checked(void **state)
{
	static const char *const no_integers[] = { "", "-", "+1", "1-", "9223372036854775808",
						   "-9223372036854775809" };
	static const struct {
		const char *text;
		uint64_t ms;
	} times[] = { { "30", 30000 }, { "1.5s", 1500 }, { "500ms", 500 }, { "10m", 600000 },
		      { "12h", 43200000 }, { "7d", 604800000 }, { "0.001", 1 } };
	static const char *const no_times[] = { "", "0", "0.4ms", "5x", "-1", "s", "1e3", "101d", "1 s" };
	struct cli_word word = word_of("-9223372036854775808");
	uint64_t ms = 0;
	int64_t n = 0;

	(void)state;
	assert_true(cli_args_integer(&word, &n));
	assert_true(n == INT64_MIN);
	for (size_t i = 0; i < sizeof no_integers / sizeof no_integers[0]; i++) {
		word = word_of(no_integers[i]);
		assert_false(cli_args_integer(&word, &n));
	}
	for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
		word = word_of(times[i].text);
		assert_true(cli_args_ttl(&word, 100ull * 86400000, &ms));
		assert_int_equal(ms, times[i].ms);
	}
	for (size_t i = 0; i < sizeof no_times / sizeof no_times[0]; i++) {
		word = word_of(no_times[i]);
		assert_false(cli_args_ttl(&word, 100ull * 86400000, &ms));
	}
}

static void points_in_time(void **state)
{
	static const struct {
		const char *text;
		uint64_t unix_ms;
	} right[] = { { "1", 1000 },
		      { "1790000000", 1790000000000 },
		      { "1790000000.5", 1790000000500 },
		      { "2026-12-31T23:59:59Z", 1798761599000 },
		      { "2028-02-29T00:00:00Z", 1835395200000 } };
	static const char *const wrong[] = { "", "0", "-1", "never", "5s", "2026-12-31", "2026-12-31T23:59:59",
					     "2026-12-31T23:59:59Zulu", "2026-02-29T00:00:00Z",
					     "2026-13-01T00:00:00Z", "1960-01-01T00:00:00Z",
					     "2040-01-01T00:00:00Z", "2000000001" };
	uint64_t ms = 0;

	(void)state;
	for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
		struct cli_word word = word_of(right[i].text);
		assert_true(cli_args_unix_time(&word, 2000000000000, &ms));
		assert_true(ms == right[i].unix_ms);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct cli_word word = word_of(wrong[i]);
		assert_false(cli_args_unix_time(&word, 2000000000000, &ms));
	}
}

static void neighbours_are_near(void **state)
{
	static const char *const near[][2] = { { "pt", "put" },	    { "gte", "get" },
					       { "kesy", "keys" },  { "expotr", "export" },
					       { "udpate", "update" }, { "put_tree", "put-tree" } };
	static const char *const far[][2] = { { "foo", "top" },	{ "tl", "del" },   { "list", "lock" },
					      { "sleep", "help" }, { "frobnicate", "update" } };

	(void)state;
	assert_int_equal(cli_args_distance("ab", 2, "ba"), 1);
	assert_int_equal(cli_args_distance("", 0, "abc"), 3);
	assert_int_equal(cli_args_distance("kitten", 6, "sitting"), 3);
	for (size_t i = 0; i < sizeof near / sizeof near[0]; i++)
		assert_true(cli_args_near(near[i][0], strlen(near[i][0]), near[i][1]));
	for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
		assert_false(cli_args_near(far[i][0], strlen(far[i][0]), far[i][1]));
}

/* ---------------------------------------------------------------- patterns */

static bool matches(const char *pattern, const char *text)
{
	assert_null(cli_glob_check(pattern, strlen(pattern)));
	return cli_glob_match(pattern, strlen(pattern), text, strlen(text));
}

static void patterns_match(void **state)
{
	(void)state;
	assert_true(matches("", "") && matches("*", "") && matches("*", "any"));
	assert_true(matches("a*b*c", "a1b2bc") && !matches("a*b*c", "a1b2b"));
	assert_true(matches("user:?", "user:1") && !matches("user:?", "user:12"));
	assert_true(matches("a?c", "a\xc3\xa4" "c") && matches("a?c", "a\xff" "c"));
	assert_true(matches("[a-c]x", "bx") && !matches("[a-c]x", "dx") && !matches("[a-c]x", "x"));
	assert_true(matches("[!a-c]x", "dx") && !matches("[!a-c]x", "ax"));
	assert_true(matches("[]a]", "]") && matches("[a-]", "-") && matches("[\\]]", "]"));
	assert_true(matches("a?c", "a\xe2\x82\xac" "c") && matches("a?c", "a\xf0\x9f\x98\x80" "c"));
	assert_true(matches("[A-\\]]", "]") && matches("[A-\\]]", "B") && !matches("[A-\\]]", "^"));
	assert_true(matches("[\xc3\xa0-\xc3\xa9]", "\xc3\xa4"));
	assert_true(matches("\\*", "*") && !matches("\\*", "x") && matches("\\[a", "[a"));
	assert_true(matches("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
	assert_false(matches("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
	assert_true(cli_glob_match("a?b", 3, "a\0b", 3));
}

static void patterns_have_a_prefix(void **state)
{
	char prefix[32];

	(void)state;
	assert_int_equal(cli_glob_prefix("us\\*er:[0-9]*", 13, prefix), 6);
	assert_memory_equal(prefix, "us*er:", 6);
	assert_non_null(cli_glob_check("a[b", 3));
	assert_non_null(cli_glob_check("a[]", 3));
	assert_non_null(cli_glob_check("a[\\]", 4));
	assert_non_null(cli_glob_check("\\\\[", 3));
	assert_non_null(cli_glob_check("a\\", 2));
	assert_null(cli_glob_check("\\[a", 3));
}

/* -------------------------------------------------------------------- JSON */

/* Whatever the bytes, and where a piece of a long string ends. */
static void json_is_written(void **state)
{
	struct cli_json json = { 0 };
	size_t bytes, long_bytes = 3001;
	char *text, *value = malloc(long_bytes);

	(void)state;
	assert_non_null(value);
	memset(value, 'x', long_bytes);
	memcpy(value + 2999, "\xc2\x9b", 2);
	json.to = open_memstream(&text, &bytes);
	assert_non_null(json.to);
	cli_json_open(&json, NULL, '{');
	cli_json_text(&json, "a", "q\"\\\n\x7f\xc2\x9b\xc3\xa4");
	cli_json_bytes(&json, "b", "\xff\0", 2);
	cli_json_open(&json, "c", '[');
	cli_json_number(&json, NULL, 18446744073709551615ull);
	cli_json_bool(&json, NULL, true);
	cli_json_figure(&json, NULL, "-2.5");
	cli_json_figure(&json, NULL, "1.");
	cli_json_figure(&json, NULL, "01");
	cli_json_close(&json, ']');
	cli_json_null(&json, "d");
	cli_json_end(&json);
	cli_json_open(&json, NULL, '{');
	cli_json_bytes(&json, "long", value, long_bytes);
	cli_json_end(&json);
	fclose(json.to);
	assert_string_equal(strstr(text, "x\\u009b\"}"), "x\\u009b\"}\n");
	*strchr(text, '\n') = '\0';
	assert_string_equal(text, "{\"a\":\"q\\\"\\\\\\n\\u007f\\u009b\xc3\xa4\",\"b_base64\":\"/wA=\","
				  "\"c\":[18446744073709551615,true,-2.5,\"1.\",\"01\"],\"d\":null}");
	free(text);
	free(value);
}

static bool is_written_as_text(const char *value)
{
	char room[128], *end = cli_json_put(room, "n", value, strlen(value));

	*end = '\0';
	return !strstr(room, "n_base64");
}

/* The first and the last characters of each length, and their neighbours that are none. */
static void json_knows_utf8(void **state)
{
	static const char *const good[] = {
		"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xe1\x80\x80", "\xed\x9f\xbf",
		"\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf1\x80\x80\x80", "\xf4\x8f\xbf\xbf",
	};
	static const char *const bad[] = {
		"\x80", "\xbf", "\xc1\xbf", "\xc2", "\xc2" "a", "\xe0\x9f\xbf", "\xed\xa0\x80",
		"\xed\xbf\x80", "\xe2\x82", "\xe2\x82" "a", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80", "\xf0\x90\x80", "\xff",
	};

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_true(is_written_as_text(good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(is_written_as_text(bad[i]));
}

static void append_figure(void *arg, const char *path, const char *value)
{
	char *text = arg;

	snprintf(text + strlen(text), 512 - strlen(text), "%s=%s;", path, value);
}

static void json_is_read(void **state)
{
	char text[512] = "";

	(void)state;
	assert_true(cli_json_each(" {\"a\": {\"b\": [1, -2.5e3, {\"c\": true}]}, \"d\": "
				  "\"x\\\"\\u000ay\", \"e\": {}, \"f\": [] } ", append_figure, text));
	assert_string_equal(text, "a.b.0=1;a.b.1=-2.5e3;a.b.2.c=true;d=x\"?y;");
}

static void wrong_json_is_refused(void **state)
{
	static const char *const wrong[] = { "", "{", "{\"a\"}", "{\"a\":}", "[1,]", "[1] 2", "\"a",
					     "\"\\", "{a:1}", "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]" };
	char text[512] = "";

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		assert_false(cli_json_each(wrong[i], append_figure, text));
}

/* ---------------------------------------------------------- files and lines */

static void paths_stay_inside(void **state)
{
	static const char *const inside[] = { "a", "a/b", "..a", ".../b", ".git" };
	static const char *const outside[] = { "..", ".", "../a", "a/..", "a/../b", "/a", "a//b",
					       "a/", "", "a/./b" };

	(void)state;
	for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
		assert_true(cli_files_stays_inside(inside[i], strlen(inside[i])));
	for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
		assert_false(cli_files_stays_inside(outside[i], strlen(outside[i])));
	assert_false(cli_files_stays_inside("a\0b", 3));
}

static void files_are_sorted_once_each(void **state)
{
	struct cli_files files = { 0 };

	(void)state;
	cli_files_add(&files, "b", 1, 2);
	cli_files_add(&files, "a", 1, 1);
	cli_files_add(&files, "b", 1, 2);
	cli_files_sort(&files);
	assert_int_equal(files.count, 2);
	assert_int_equal(files.bytes, 3);
	assert_string_equal(files.file[0].path, "a");
	cli_files_free(&files);
}

/* A failed save leaves what was there, and nothing beside it. */
static void values_are_saved_whole(void **state)
{
	char folder[] = "/tmp/cli_test.XXXXXX", path[64], beside[64];
	struct cli_value value;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/value", folder);
	snprintf(beside, sizeof beside, "%s/none/value", folder);
	assert_int_equal(cli_value_save("one", 3, path), 0);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(cli_value_save("two\0", 4, path), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(cli_value_load(&value, path), 0);
	assert_int_equal(value.bytes, 4);
	cli_value_free(&value);
	assert_int_equal(cli_value_save("x", 1, beside), ENOENT);
	assert_int_equal(cli_value_save("x", 1, "/dev/full"), ENOSPC);
	assert_int_equal(cli_value_load(&value, folder), EISDIR);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0); /* empty */
}

static bool count_idle(void *arg)
{
	++*(int *)arg;
	return true;
}

static void lines_come_as_they_are(void **state)
{
	static const char text[] = "one\n\nt\0o\nlast";
	struct cli_input input = { 0 };
	int pipe_fds[2], idle = 0;
	size_t bytes;
	char *line;

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(write(pipe_fds[1], text, sizeof text - 1), sizeof text - 1);
	close(pipe_fds[1]);
	input.fd = pipe_fds[0];
	assert_int_equal(cli_input_line(&input, count_idle, &idle, &line, &bytes), 1);
	assert_int_equal(bytes, 3);
	assert_int_equal(cli_input_line(&input, count_idle, &idle, &line, &bytes), 1);
	assert_int_equal(bytes, 0);
	assert_int_equal(cli_input_line(&input, count_idle, &idle, &line, &bytes), 1);
	assert_memory_equal(line, "t\0o", 3);
	assert_int_equal(cli_input_line(&input, count_idle, &idle, &line, &bytes), 1);
	assert_memory_equal(line, "last", 4);
	assert_int_equal(cli_input_line(&input, count_idle, &idle, &line, &bytes), 0);
	assert_int_equal(idle, 0);
	close(pipe_fds[0]);
	cli_input_free(&input);
}

static bool give_up(void *arg)
{
	++*(int *)arg;
	return false;
}

/* What began of a line is not one. */
static void who_gives_up_gets_no_more_lines(void **state)
{
	struct cli_input input = { 0 };
	int pipe_fds[2], idle = 0;
	size_t bytes;
	char *line;

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(write(pipe_fds[1], "one\nhalf", 8), 8);
	input.fd = pipe_fds[0];
	assert_int_equal(cli_input_line(&input, give_up, &idle, &line, &bytes), 1);
	assert_int_equal(bytes, 3);
	assert_int_equal(cli_input_line(&input, give_up, &idle, &line, &bytes), 0);
	assert_int_equal(cli_input_line(&input, give_up, &idle, &line, &bytes), 0);
	assert_int_equal(idle, 1);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	cli_input_free(&input);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_split),
		cmocka_unit_test(hexadecimal_digits_are_of_either_case),
		cmocka_unit_test(wrong_words_are_refused),
		cmocka_unit_test(open_quotes_are_seen),
		cmocka_unit_test(quoted_bytes_come_back),
		cmocka_unit_test(long_words_are_cut),
		cmocka_unit_test(control_characters_are_no_text),
		cmocka_unit_test(options_stand_anywhere),
		cmocka_unit_test(wrong_options_are_told),
		cmocka_unit_test(no_letter_no_option),
		cmocka_unit_test(numbers_are_checked),
		cmocka_unit_test(integers_and_times_are_checked),
		cmocka_unit_test(points_in_time),
		cmocka_unit_test(neighbours_are_near),
		cmocka_unit_test(patterns_match),
		cmocka_unit_test(patterns_have_a_prefix),
		cmocka_unit_test(json_is_written),
		cmocka_unit_test(json_knows_utf8),
		cmocka_unit_test(json_is_read),
		cmocka_unit_test(wrong_json_is_refused),
		cmocka_unit_test(paths_stay_inside),
		cmocka_unit_test(files_are_sorted_once_each),
		cmocka_unit_test(values_are_saved_whole),
		cmocka_unit_test(lines_come_as_they_are),
		cmocka_unit_test(who_gives_up_gets_no_more_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
