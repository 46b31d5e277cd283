/* SPDX-License-Identifier: BSD-2-Clause */
/* Words, options, numbers, times and patterns of kvcli: where each of them ends, and what is said of
 * those that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/cli/text/args.h"
#include "client/cli/text/glob.h"
#include "client/cli/text/group.h"
#include "client/cli/text/word.h"

/* A copy of its own, so that a byte too much is seen. */
static struct cli_word word_of(const char *text)
{
	size_t bytes = strlen(text);
	char *copy = malloc(bytes + !bytes);

	assert_non_null(copy);
	memcpy(copy, text, bytes);
	return (struct cli_word){ copy, bytes, false };
}

static void word_end(struct cli_word *word)
{
	free((char *)(uintptr_t)word->data);
}

/* ------------------------------------------------------------------ words */

static char said[256];

static bool split(struct cli_words *words, const char *line)
{
	static char copy[256];

	snprintf(copy, sizeof copy, "%s", line);
	return cli_word_split(words, copy, strlen(copy), said, sizeof said);
}

static void words_that_are_wrong_are_told(void **state)
{
#define KNOWN "; there are \\n \\r \\t \\0 \\xNN \\\" \\\\"
	static const char *const lines[][2] = {
		{ "\"\\x4", "\\x wants two hexadecimal digits" },
		{ "\"\\xg4\"", "\\x wants two hexadecimal digits" },
		{ "\"\\x", "\\x wants two hexadecimal digits" },
		{ "\"\\q\"", "unknown escape \\q" KNOWN },
		{ "\"\\!\"", "unknown escape \\!" KNOWN },
		{ "\"\\~\"", "unknown escape \\~" KNOWN },
		{ "\"\\ \"", "unknown escape \\?" KNOWN },
		{ "\"\\\177\"", "unknown escape \\?" KNOWN },
		{ "\"\\", "unknown escape \\?" KNOWN },
		{ "a \"b", "a \" has no closing \"" },
		{ "'b\"", "a ' has no closing '" },
	};
	struct cli_words words = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		assert_false(split(&words, lines[i][0]));
		assert_string_equal(said, lines[i][1]);
	}
	/* The last two digits of a line; that the quote is open is told of behind them. */
	assert_false(split(&words, "\"\\x41"));
	assert_string_equal(said, "a \" has no closing \"");
	cli_words_free(&words);
	assert_null(words.word);
	assert_int_equal(words.count, 0);
	assert_int_equal(words.room, 0);
}

static void many_words(void **state)
{
	struct cli_words words = { 0 };
	char line[256] = "";

	(void)state;
	for (unsigned count = 1; count <= 70; count++) {
		strcat(line, count % 2 ? "a " : "b\t");
		assert_true(split(&words, line));
		assert_int_equal(words.count, count);
		assert_true(words.room >= count);
		for (unsigned i = 0; i < count; i++)
			assert_true(cli_word_is(&words.word[i], i % 2 ? "b" : "a"));
	}
	cli_words_free(&words);
}

static void bytes_are_quoted(void **state)
{
	static const char bytes[] = "a\n\r\t\"\\\0\x1f\xc3\xa4\xff\xf0\x9f\x98\x80";
	char *text, shown[64];
	size_t n;
	FILE *to = open_memstream(&text, &n);

	(void)state;
	assert_non_null(to);
	cli_word_quote(to, bytes, sizeof bytes - 1);
	fclose(to);
	assert_string_equal(text, "\"a\\n\\r\\t\\\"\\\\\\x00\\x1f\xc3\xa4\\xff\xf0\x9f\x98\x80\"");
	assert_string_equal(cli_word_show(bytes, sizeof bytes - 1, shown, sizeof shown), text);
	free(text);
	/* One byte less than what is wanted, and exactly that. */
	assert_string_equal(cli_word_show("abc", 3, shown, 9), "\"abc\"");
	assert_string_equal(cli_word_show("abc", 3, shown, 8), "\"ab\"...");
	assert_string_equal(cli_word_show("", 0, shown, 6), "\"\"");
}

static void strings_of_words(void **state)
{
	struct cli_word word = { "ab", 2, false }, zero = { "a\0", 2, false };
	char *string = cli_word_string(&word);

	(void)state;
	assert_string_equal(string, "ab");
	free(string);
	assert_null(cli_word_string(&zero));
	assert_true(cli_word_is(&word, "ab") && !cli_word_is(&word, "a") && !cli_word_is(&word, "abc"));
	word.literal = true;
	assert_false(cli_word_is(&word, "ab"));
	assert_true(cli_word_is_text("\t\n\n", 3, true) && cli_word_is_text("", 0, false));
	assert_false(cli_word_is_text("\n\033", 2, true));
}

/* ------------------------------------------------------------------ options */

static const struct cli_option options[] = {
	{ "file", 'f', "PATH", "" }, { "fill", 0, "N", "" }, { "yes", 'y', NULL, "" }, { "recursive", 'r', NULL, "" },
	{ 0 },
};

static struct cli_words words;

static bool parse(struct cli_args *args, const char *line)
{
	assert_true(split(&words, line));
	return cli_args_parse(args, options, words.word, words.count, said, sizeof said);
}

static void options_that_are_wrong_are_told(void **state)
{
#define OWN " here; kvcli's own options stand before the command, and -- before words that look like options " \
	    "but are none"
	static const char *const lines[][2] = {
		{ "--filw x", "no option \"--filw\"; is it --file?" },
		{ "--fil=x", "no option \"--fil\"; is it --file?" },
		{ "--filly", "no option \"--filly\"; is it --fill?" },
		{ "--rekusive", "no option \"--rekusive\"; is it --recursive?" },
		{ "--what=1", "no option \"--what\"" OWN },
		{ "-zyx", "no option \"-z\"" OWN },
		{ "--file", "--file wants PATH behind it" },
		{ "a -f", "--file wants PATH behind it" },
		{ "--yes=1", "--yes takes no argument" },
		{ "-yr", "--yes takes no argument" },
	};
	struct cli_args args;

	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		assert_false(parse(&args, lines[i][0]));
		assert_string_equal(said, lines[i][1]);
	}
	assert_true(split(&words, "--file"));
	assert_false(cli_args_parse(&args, NULL, words.word, 1, said, sizeof said));
	assert_string_equal(said, "no option \"--file\"" OWN);
	cli_words_free(&words);
}

/* What stands behind an option or "--" is taken as it is. */
static void what_options_take(void **state)
{
	struct cli_args args;

	(void)state;
	assert_true(parse(&args, "--file --yes a -- - --help"));
	assert_int_equal(args.option[0].bytes, 5);
	assert_memory_equal(args.option[0].data, "--yes", 5);
	assert_true(args.option[0].literal && args.given[0] && !args.given[2] && !args.help);
	assert_int_equal(args.count, 3);
	assert_false(args.operand[0].literal);
	assert_true(args.operand[1].literal && args.operand[2].literal);
	assert_true(parse(&args, "--fill= -f- --help a=b"));
	assert_true(args.given[1] && args.help && args.option[1].literal);
	assert_int_equal(args.option[1].bytes, 0);
	assert_int_equal(args.option[0].bytes, 1);
	assert_int_equal(args.count, 1);
	assert_true(parse(&args, "'--yes'"));
	assert_int_equal(args.count, 1);
	assert_false(args.given[2]);
	cli_words_free(&words);
}

static void slips_are_counted(void **state)
{
	static const char longest[] = "0123456789012345678901234567890";
	char twice[64];

	(void)state;
	assert_int_equal(cli_args_distance("abc", 3, ""), 3);
	assert_int_equal(cli_args_distance("xabc", 4, "abc"), 1);
	assert_int_equal(cli_args_distance("bacd", 4, "abdc"), 2);
	assert_int_equal(cli_args_distance("aabb", 4, "abab"), 1);
	/* Names of up to 31 bytes, and words of twice that, are compared. */
	assert_int_equal(cli_args_distance(longest, 30, longest), 1);
	memset(twice, 'x', sizeof twice);
	memcpy(twice, longest, 31);
	assert_int_equal(cli_args_distance(twice, 62, longest), 31);
	assert_int_equal(cli_args_distance(twice, 63, longest), 63 + 31);
	assert_int_equal(cli_args_distance("a", 1, "01234567890123456789012345678901"), 33);
	/* One slip in four letters, two in five, never three. */
	assert_false(cli_args_near("abxy", 4, "abcd"));
	assert_true(cli_args_near("abcx", 4, "abcd"));
	assert_true(cli_args_near("abcxy", 5, "abcde"));
	assert_false(cli_args_near("abxyz", 5, "abcde"));
}

/* ------------------------------------------------------------------ numbers */

static void numbers_have_limits(void **state)
{
	static const struct {
		const char *text;
		uint64_t min, max, is;
		bool right;
	} cases[] = {
		{ "18446744073709551615", 0, UINT64_MAX, UINT64_MAX, true },
		{ "18446744073709551616", 0, UINT64_MAX, 0, false },
		{ "18446744073709551620", 0, UINT64_MAX, 0, false },
		{ "1844674407370955161", 0, UINT64_MAX, 1844674407370955161, true },
		{ "3", 3, 5, 3, true }, { "5", 3, 5, 5, true }, { "2", 3, 5, 0, false }, { "6", 3, 5, 0, false },
		{ "1:", 0, 99, 0, false }, { "1/", 0, 99, 0, false }, { "9", 0, 9, 9, true }, { "007", 0, 9, 7, true },
	};
	static const struct {
		const char *text;
		int64_t is;
	} integers[] = { { "0", 0 }, { "-0", 0 }, { "5", 5 }, { "-5", -5 }, { "9223372036854775807", INT64_MAX },
			 { "-9223372036854775807", -INT64_MAX } };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cli_word word = word_of(cases[i].text);
		uint64_t n = 77;
		assert_int_equal(cli_args_number(&word, cases[i].min, cases[i].max, &n), cases[i].right);
		assert_true(n == (cases[i].right ? cases[i].is : 77));
		word_end(&word);
	}
	for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
		struct cli_word word = word_of(integers[i].text);
		int64_t n = 77;
		assert_true(cli_args_integer(&word, &n));
		assert_true(n == integers[i].is);
		word_end(&word);
	}
}

static void times_have_limits(void **state)
{
	static const struct {
		const char *text;
		int ms_min, is; /* -1: it is none */
	} cases[] = {
		{ "5", 10, 5000 }, { "5s", 10, 5000 }, { "1.5s", 10, 1500 }, { "500ms", 10, 500 }, { "10ms", 10, 10 },
		{ "9ms", 10, -1 }, { "86400", 1, 86400000 }, { "86400001ms", 1, -1 }, { "5m", 1, -1 }, { "", 0, -1 },
		{ "s", 0, -1 }, { "1.2.3", 0, -1 }, { "0", 0, 0 }, { "0", 1, -1 }, { "-1", 0, -1 }, { "5 s", 0, -1 },
		{ "0000000000000000000000000000005", 1, 5000 }, { "00000000000000000000000000000005", 1, -1 },
	};
	static const struct {
		const char *text;
		uint64_t max, is; /* 0: it is none */
	} ttls[] = { { "1ms", 10, 1 }, { "10ms", 10, 10 }, { "11ms", 10, 0 }, { "0.9ms", 10, 0 }, { "2.5ms", 10, 3 } };
	static const struct {
		const char *text;
		uint64_t max, is;
	} points[] = { { "0.001", 10, 1 }, { "0.0009", 10, 0 }, { "0.01", 10, 10 }, { "0.011", 10, 0 },
		       { "1970-01-01T00:00:00Z", 10000, 0 }, { "1970-01-01T00:00:01Z", 10000, 1000 } };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cli_word word = word_of(cases[i].text);
		int ms = -1;
		assert_int_equal(cli_args_time(&word, cases[i].ms_min, &ms), cases[i].is >= 0);
		assert_int_equal(ms, cases[i].is);
		word_end(&word);
	}
	for (size_t i = 0; i < sizeof ttls / sizeof *ttls; i++) {
		struct cli_word word = word_of(ttls[i].text);
		uint64_t ms = 0;
		assert_int_equal(cli_args_ttl(&word, ttls[i].max, &ms), ttls[i].is > 0);
		assert_int_equal(ms, ttls[i].is);
		word_end(&word);
	}
	for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
		struct cli_word word = word_of(points[i].text);
		uint64_t ms = 0;
		assert_int_equal(cli_args_unix_time(&word, points[i].max, &ms), points[i].is > 0);
		assert_int_equal(ms, points[i].is);
		word_end(&word);
	}
}

/* Digits that are too many for the room are cut, whoever sent them. */
static void digits_are_grouped(void **state)
{
	static const struct {
		const char *digits, *groups;
		size_t room;
	} cases[] = {
		{ "", "", 1 }, { "7", "7", 3 }, { "123", "123", 5 }, { "1234", "1,234", 7 }, { "1234567", "1,234,567", 11 },
		{ "1234567", "1,234,567", 32 }, { "123", "1", 3 }, { "1234", "1,23", 6 }, { "1234", "1,2", 5 },
		{ "1234", "1,2", 4 }, { "1234", "1", 3 }, { "1234", "", 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char room[40];
		memset(room, '#', sizeof room);
		assert_ptr_equal(cli_group(cases[i].digits, room, cases[i].room), room);
		assert_string_equal(room, cases[i].groups);
		for (size_t j = cases[i].room; j < sizeof room; j++)
			assert_int_equal(room[j], '#');
	}
}

/* ------------------------------------------------------------------ patterns */

/* Both in memory of their own. */
static bool matches(const char *pattern, const char *text)
{
	struct cli_word p = word_of(pattern), t = word_of(text);
	bool is = cli_glob_match(p.data, p.bytes, t.data, t.bytes);

	word_end(&p);
	word_end(&t);
	return is;
}

/* "?" is one character: the first and the last of each length; a byte that is of none is one, too. */
static void characters_of_patterns(void **state)
{
	static const char *const one[] = { "\x7f", "\x80", "\xbf", "\xc1", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80",
					   "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\xf5", "\xff" };
	static const char *const more[] = { "\x80\x80", "\xc1\xbf", "\xc2" "a", "\xdf\xc0", "\xe0\xa0" "a", "\xe0\xa0",
					    "\xef\xbf", "\xf0\x90\x80", "\xf0\x90\x80" "a", "\xf5\x80\x80\x80",
					    "\xf5\x80", "\xe0" "a\x80" };

	(void)state;
	for (size_t i = 0; i < sizeof one / sizeof *one; i++)
		if (!matches("?", one[i]) || matches("??", one[i]) || !matches(one[i], one[i]))
			fail_msg("one, the %zu", i);
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		if (matches("?", more[i]) || !matches("??*", more[i]))
			fail_msg("more, the %zu", i);
	assert_true(matches("[\xc3\xa4]", "\xc3\xa4") && !matches("[\xc3\xa4]", "\xc3\xa5"));
	assert_false(matches("[\xc3\xa4]", "\xc4\xa4"));
	assert_false(matches("[\xe2\x82\xac]", "\xe2\x83\xac"));
	assert_true(matches("[\xff]", "\xff") && !matches("[\xff]", "\xfe") && !matches("[\xff]", "\xc3\xbf"));
	assert_true(matches("[\xe2\x82\xac-\xf0\x9f\x98\x80]", "\xe3\x80\x80"));
	assert_false(matches("[\xe2\x82\xac-\xf0\x9f\x98\x80]", "\xe2\x82\xab"));
}

static void sets_of_patterns(void **state)
{
	(void)state;
	assert_true(matches("[!a]b", "xb") && !matches("[!a]b", "ab") && matches("[!a]b", "!b"));
	assert_true(matches("[!!]", "a") && !matches("[!!]", "!") && matches("[a!]", "!"));
	assert_true(matches("[!]]", "a") && !matches("[!]]", "]"));
	assert_true(matches("[a\\-c]", "-") && !matches("[a\\-c]", "b"));
	assert_true(matches("[\\\\]", "\\") && !matches("[\\\\]", "]"));
	assert_true(matches("[b-b]", "b") && !matches("[b-b]", "a") && !matches("[b-b]", "c") && !matches("[c-a]", "b"));
	assert_true(matches("[-a]", "-") && matches("[a-]", "a") && !matches("[a-]", "b"));
	assert_false(matches("[abc]", "") || matches("a", "") || matches("", "a"));
	assert_true(matches("*[ab]", "xxb") && !matches("*[ab]", "xxc") && matches("[ab]*[cd]x", "azzdx"));
	/* What isn't checked runs to its end, and no further. */
	assert_true(matches("[a", "a") && !matches("[a", "b"));
	assert_true(matches("[a-", "-") && matches("[\\", "\\") && matches("\\", "\\"));
	assert_true(matches("[A-\\", "\\"));
}

static void patterns_that_are_wrong(void **state)
{
	static const char *const right[] = { "", "[!a]", "[!]]", "[]]", "[a]", "[!!]", "a[b]c[d]", "[\\]]", "[a!]", "]" };
	static const char *const open[] = { "[", "[!", "[!]", "[]", "a[b]c[d", "[\\]", "[a\\", "[!a", "[a!" };

	(void)state;
	for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
		struct cli_word p = word_of(right[i]);
		assert_null(cli_glob_check(p.data, p.bytes));
		word_end(&p);
	}
	for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
		struct cli_word p = word_of(open[i]);
		assert_string_equal(cli_glob_check(p.data, p.bytes), "it has a [ without its ]");
		word_end(&p);
	}
	assert_string_equal(cli_glob_check("a\\", 2), "it ends in a \\ with nothing behind it");
}

static void prefixes_of_patterns(void **state)
{
	static const char *const prefixes[][2] = { { "", "" },	     { "abc", "abc" },	   { "a*", "a" },   { "?a", "" },
						   { "ab[c]", "ab" }, { "\\*\\?", "*?" }, { "a\\", "a\\" }, { "a\\b", "ab" } };
	char prefix[8];

	(void)state;
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		struct cli_word p = word_of(prefixes[i][0]);
		assert_int_equal(cli_glob_prefix(p.data, p.bytes, prefix), strlen(prefixes[i][1]));
		assert_memory_equal(prefix, prefixes[i][1], strlen(prefixes[i][1]));
		word_end(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_that_are_wrong_are_told),
		cmocka_unit_test(many_words),
		cmocka_unit_test(bytes_are_quoted),
		cmocka_unit_test(strings_of_words),
		cmocka_unit_test(options_that_are_wrong_are_told),
		cmocka_unit_test(what_options_take),
		cmocka_unit_test(slips_are_counted),
		cmocka_unit_test(numbers_have_limits),
		cmocka_unit_test(times_have_limits),
		cmocka_unit_test(digits_are_grouped),
		cmocka_unit_test(characters_of_patterns),
		cmocka_unit_test(sets_of_patterns),
		cmocka_unit_test(patterns_that_are_wrong),
		cmocka_unit_test(prefixes_of_patterns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
