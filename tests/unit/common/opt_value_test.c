/* SPDX-License-Identifier: BSD-2-Clause */
/* common/opt.h: values at their limits, each kind's sentence, names that are nearly one, files that
 * are none, headings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/opt.h"
#include "tests/unit/no_memory.h"

#define TEN "xxxxxxxxxx"
#define FORTY TEN TEN TEN TEN

static char error[400];

/* --it VALUE (NULL: nothing) with a table of that option alone; the sentence, or "". */
static const char *give(struct opt o, const char *value)
{
	struct opt table[2] = { o, { .name = NULL } };
	char *argv[] = { (char *)(uintptr_t)"prog", (char *)(uintptr_t)"--it", (char *)(uintptr_t)value, NULL };
	int argc = value ? 3 : 2;

	table[0].name = "it";
	error[0] = '\0';
	int rc = opt_parse(table, argc, argv, error, sizeof error);
	assert_int_equal(rc, *error ? -1 : argc);
	return error;
}

static void test_flags(void **state)
{
	static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };
	bool flag;
	struct opt o[] = { { "it", 0, OPT_FLAG, &flag, 0, 0, NULL, NULL, "" }, { .name = NULL } };
	char text[16];
	char *argv[] = { (char *)(uintptr_t)"prog", text, NULL };

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		flag = i % 2 == 0;
		snprintf(text, sizeof text, "--it=%s", words[i]);
		assert_int_equal(opt_parse(o, 2, argv, error, sizeof error), 2);
		assert_int_equal(flag, i % 2 == 1);
	}
	strcpy(text, "--it=2");
	assert_int_equal(opt_parse(o, 2, argv, error, sizeof error), -1);
	assert_string_equal(error, "--it: '2' is not yes or no");
}

static void test_numbers(void **state)
{
	int number = 0;
	struct opt o = { .kind = OPT_INT, .target = &number, .min = -3, .max = 2000000000 };

	(void)state;
	assert_string_equal(give(o, "-3"), "");
	assert_int_equal(number, -3);
	assert_string_equal(give(o, "2000000000"), "");
	assert_int_equal(number, 2000000000);
	assert_string_equal(give(o, "-4"), "--it: '-4' is not a whole number from -3 to 2000000000");
	assert_string_equal(give(o, "2000000001"), "--it: '2000000001' is not a whole number from -3 to 2000000000");
	assert_string_equal(give(o, ""), "--it: '' is not a whole number from -3 to 2000000000");
	assert_string_equal(give(o, "1x"), "--it: '1x' is not a whole number from -3 to 2000000000");
	assert_string_equal(give(o, "010"), "");
	assert_int_equal(number, 10);
	assert_string_equal(give(o, NULL), "--it needs a value (VALUE)");
}

static void test_sizes(void **state)
{
	uint64_t bytes = 0;
	struct opt o = { .kind = OPT_SIZE, .target = &bytes, .min = 1 << 20, .max = 3 << 20 };

	(void)state;
	assert_string_equal(give(o, "1m"), "");
	assert_int_equal(bytes, 1 << 20);
	assert_string_equal(give(o, "3 MiB"), "");
	assert_int_equal(bytes, 3 << 20);
	assert_string_equal(give(o, "1048575"), "--it: '1048575' is not a size from 1 MiB to 3 MiB");
	assert_string_equal(give(o, "3145729"), "--it: '3145729' is not a size from 1 MiB to 3 MiB");
	assert_string_equal(give(o, "x"), "--it: 'x' is not a size such as 512M or 1.5GiB");
	assert_int_equal(bytes, 3 << 20);
}

static void test_size_texts(void **state)
{
	static const struct { const char *text; uint64_t bytes; } good[] = {
		{ "1KIB", 1024 }, { "1kB", 1024 }, { "1Kib", 1024 }, { "1p", 1ull << 50 }, { "1e", 1ull << 60 },
		{ "0.000000001e", 1152921504 }, { "0.0000000019e", 1152921504 }, { "1.25k", 1280 },
		{ "1.k", 1024 }, { "2.  gib", 2ull << 30 }, { "1b", 1 }, { "10", 10 }, { "15e", 15ull << 60 },
		{ "0.12345678987654321k", 126 },
	};
	static const char *const bad[] = { "1ki", "1kix", "1kxb", "1i", "1bb", "1kbb", "1kibb", "1.5b", "1..5k",
					   "k", " 1", "1 k ", "16.5e", "1k1", "1.0",
					   "340282366920938463463374607431768211457" /* 2^128 + 1 */ };
	uint64_t bytes;

	(void)state;
	for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
		bytes = 42;
		if (!opt_parse_size(good[i].text, &bytes) || bytes != good[i].bytes)
			fail_msg("%s: %llu", good[i].text, (unsigned long long)bytes);
	}
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (opt_parse_size(bad[i], &bytes))
			fail_msg("%s is a size", bad[i]);
}

static void test_shown_sizes(void **state)
{
	static const struct { uint64_t bytes; const char *text; } cases[] = {
		{ 1, "1 B" }, { 1023, "1023 B" }, { 1025, "1.0 KiB" }, { 1536, "1.5 KiB" }, { 1 << 20, "1 MiB" },
		{ (1 << 20) - 1, "1024.0 KiB" }, { 1ull << 40, "1 TiB" }, { 1ull << 50, "1 PiB" },
		{ 1ull << 60, "1 EiB" }, { 3ull << 59, "1.5 EiB" },
	};
	char buf[32];

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_string_equal(opt_format_size(cases[i].bytes, buf, sizeof buf), cases[i].text);
}

static void test_times(void **state)
{
	double seconds = 0;
	struct opt o = { .kind = OPT_TIME, .target = &seconds, .max = 60 };

	(void)state;
	assert_string_equal(give(o, "60"), "");
	assert_true(seconds > 59.9 && seconds < 60.1);
	assert_string_equal(give(o, "1m"), "");
	assert_string_equal(give(o, "60.5"), "--it: '60.5' is more than 60 seconds");
	assert_string_equal(give(o, "0"), "--it: '0' is not a time such as 60, 1.5s, 500ms or 2m");
	assert_string_equal(give(o, "5e-324ms"), "--it: '5e-324ms' is not a time such as 60, 1.5s, 500ms or 2m");
	assert_string_equal(give(o, "1d"), "--it: '1d' is not a time such as 60, 1.5s, 500ms or 2m");
	o.max = 0;
	assert_string_equal(give(o, "1000h"), "");
	assert_true(seconds > 3599999 && seconds < 3600001);
	o.max = 1;
	assert_string_equal(give(o, "2"), "--it: '2' is more than 1 seconds");
}

static void test_choices(void **state)
{
	static const char *const few[] = { "a", "b", NULL };
	static const char *const many[] = { FORTY, FORTY, FORTY, FORTY, FORTY, "last", NULL };
	int chosen = 7;
	struct opt o = { .kind = OPT_CHOICE, .target = &chosen, .choices = few };

	(void)state;
	assert_string_equal(give(o, "a"), "");
	assert_int_equal(chosen, 0);
	assert_string_equal(give(o, "c"), "--it: 'c' is none of a, b");
	assert_string_equal(give(o, "b"), "");
	assert_int_equal(chosen, 1);
	o.choices = many;
	assert_string_equal(give(o, "last"), "");
	assert_int_equal(chosen, 5);
	assert_string_equal(give(o, "c"), "--it: 'c' is none of " FORTY ", " FORTY ", " FORTY ", x");
}

static void test_lists(void **state)
{
	struct opt_list list = { .count = 0 };
	struct opt o = { .kind = OPT_LIST, .target = &list };
	char text[16];

	(void)state;
	for (unsigned i = 0; i < OPT_LIST_MAX; i++) {
		snprintf(text, sizeof text, "n%u", i);
		assert_string_equal(give(o, text), "");
		assert_int_equal(list.count, i + 1);
	}
	assert_string_equal(give(o, "more"), "--it: more than 64 of them");
	assert_int_equal(list.count, OPT_LIST_MAX);
	for (unsigned i = 0; i < OPT_LIST_MAX; i++)
		assert_int_equal(atoi(list.text[i] + 1), i);
	opt_forget_strings();
	o.kind = (enum opt_kind)99;
	assert_string_equal(give(o, "x"), "--it: the option table is wrong");
}

/* What there is no memory for is not taken; it is said, and what was there before stays. */
static void test_without_memory(void **state)
{
	const char *text = "before";
	struct opt_list list = { .count = 0 };
	struct opt o = { .kind = OPT_STRING, .target = &text };

	(void)state;
	fails_at = 1;
	assert_string_equal(give(o, "behind"), "--it: out of memory");
	assert_true(has_failed);
	assert_string_equal(text, "before");
	o = (struct opt){ .kind = OPT_LIST, .target = &list };
	assert_string_equal(give(o, "first"), "");
	fails_at = 1;
	assert_string_equal(give(o, "none"), "--it: out of memory");
	assert_int_equal(list.count, 1);
	assert_string_equal(give(o, "second"), "");
	assert_int_equal(list.count, 2);
	assert_string_equal(list.text[0], "first");
	assert_string_equal(list.text[1], "second");
	opt_forget_strings();
}

/* ------------------------------------------------------------------- names */

static bool on;
static const char *word;
static const struct opt names[] = {
	{ .name = "", .letter = 'h', .help = "Heading:" },
	{ "alpha-beta", 'a', OPT_FLAG, &on, 0, 0, NULL, NULL, "one" },
	{ "gamma", 0, OPT_STRING, &word, 0, 0, NULL, "A_WORD_AS_LONG_AS_THIS", "two" },
	{ .name = "", .help = "More:" },
	{ FORTY, 'x', OPT_STRING, &word, 0, 0, NULL, NULL, "three" },
	{ .name = NULL },
};

static const char *ask(const char *argument)
{
	char *argv[] = { (char *)(uintptr_t)"prog", (char *)(uintptr_t)argument, NULL };

	error[0] = '\0';
	int rc = opt_parse(names, 2, argv, error, sizeof error);
	assert_int_equal(rc, *error ? -1 : 2);
	return error;
}

static void test_near_names(void **state)
{
	(void)state;
	/* A letter too much, one that is missing, another one; half of them may be wrong. */
	assert_string_equal(ask("--gammma"), "unknown option --gammma; did you mean --gamma?");
	assert_string_equal(ask("--gama"), "unknown option --gama; did you mean --gamma?");
	assert_string_equal(ask("--gumma"), "unknown option --gumma; did you mean --gamma?");
	assert_string_equal(ask("--gaxxa"), "unknown option --gaxxa; did you mean --gamma?");
	assert_string_equal(ask("--gxxxa"), "unknown option --gxxxa; --help lists them");
	assert_string_equal(ask("--al"), "unknown option --al; did you mean --alpha-beta?");
	assert_string_equal(ask("--alpha-beta-gam"), "unknown option --alpha-beta-gam; did you mean --alpha-beta?");
	assert_string_equal(ask("--a"), "unknown option --a; --help lists them");
	assert_string_equal(ask("--" FORTY "y"), "unknown option --" FORTY "y; --help lists them");
	assert_string_equal(ask("--" TEN TEN TEN "xxxxxxxxxy"),
			    "unknown option --" TEN TEN TEN "xxxxxxxxxy; did you mean --" FORTY "?");
}

static void test_letters(void **state)
{
	(void)state;
	/* A heading has no letter. */
	assert_string_equal(ask("-h"), "unknown option -h; --help lists them");
	assert_string_equal(ask("-hello"), "unknown option -h; --help lists them");
	on = false;
	assert_string_equal(ask("-axvalue"), "");
	assert_true(on);
	assert_string_equal(word, "value");
	assert_string_equal(ask("-xv"), "");
	assert_string_equal(word, "v");
	assert_string_equal(ask("-ax"), "--" FORTY " needs a value (VALUE)");
	assert_string_equal(ask("--gamma"), "--gamma needs a value (A_WORD_AS_LONG_AS_THIS)");
}

/* ------------------------------------------------------------------- files */

static char path[] = "/tmp/opt_value_test.XXXXXX";

static const char *read_bytes(const char *text, size_t bytes)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, bytes, f), bytes);
	assert_int_equal(fclose(f), 0);
	strcpy(error, path);
	int rc = opt_read_file(names, path, error, sizeof error);
	assert_int_equal(rc, error[strlen(path)] ? -1 : 0);
	assert_memory_equal(error, path, strlen(path));
	return error + strlen(path);
}

static void test_files(void **state)
{
	static const char zero[] = "gamma = a\n\0alpha-beta = yes\n", zero_inside[] = "gamma = a\0b\n";

	(void)state;
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	on = false;
	assert_string_equal(read_bytes("alpha-beta=on\n\t gamma\t=\tb = d \r\n #gamma = e", 42), "");
	assert_true(on);
	assert_string_equal(word, "b = d");
	assert_string_equal(read_bytes("gamma =\n", 8), "");
	assert_string_equal(word, "");
	assert_string_equal(read_bytes(zero, sizeof zero - 1), ":2: the line has a zero byte: this is no text");
	assert_string_equal(read_bytes(zero_inside, sizeof zero_inside - 1),
			    ":1: the line has a zero byte: this is no text");
	assert_string_equal(read_bytes("\n\n  gamma  \n", 12), ":3: 'gamma' is not of the form NAME = VALUE");
	/* Nothing behind a wrong line is taken. */
	assert_string_equal(word, "a");
	assert_string_equal(read_bytes("zzz = 1\ngamma = c\n", 18), ":1: unknown option 'zzz'");
	assert_string_equal(word, "a");
	unlink(path);
	opt_forget_strings();
	/* No file stays open. */
	int again = dup(0);
	close(again);
	assert_int_equal(again, fd);
	assert_int_equal(opt_read_file(names, "/tmp", error, sizeof error), -1);
	assert_string_equal(error, "can't read /tmp: Is a directory");
}

static void test_headings(void **state)
{
	FILE *file = tmpfile();
	char text[512];
	int kept = dup(STDOUT_FILENO);

	(void)state;
	assert_non_null(file);
	fflush(stdout);
	assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
	opt_print_help(names);
	fflush(stdout);
	assert_true(dup2(kept, STDOUT_FILENO) >= 0);
	close(kept);
	rewind(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(text, "Heading:\n"
			    "  -a, --alpha-beta  one\n"
			    "      --gamma A_WORD_AS_LONG_AS_THIS\n"
			    "                    two\n"
			    "\nMore:\n"
			    "  -x, --" FORTY "\n"
			    "                    three\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_size_texts),
		cmocka_unit_test(test_shown_sizes),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_without_memory),
		cmocka_unit_test(test_near_names),
		cmocka_unit_test(test_letters),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_headings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
