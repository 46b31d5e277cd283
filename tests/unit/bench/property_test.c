/* SPDX-License-Identifier: BSD-2-Clause */
/* Property files: Java's rules, overriding, refusal of wrong values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "bench/workload/property.h"

static struct err err;

static void add_text(struct properties *p, const char *text)
{
	char path[] = "/tmp/bench_property_XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	if (properties_read(p, path, &err) < 0)
		fail_msg("%s", err.text);
	unlink(path);
}

static struct properties *read_text(const char *text)
{
	struct properties *p = properties_new();

	assert_non_null(p);
	add_text(p, text);
	return p;
}

static void assert_value(struct properties *p, const char *key, const char *value)
{
	const char *got = properties_get(p, key);

	if (value == NULL) {
		assert_null(got);
		return;
	}
	assert_non_null(got);
	assert_string_equal(got, value);
}

static void java_rules(void **state)
{
	struct properties *p = read_text("# a comment = no\n"
					 "! another\n"
					 "\n"
					 "plain=1\r\n"
					 "  spaced  =  two words  \n"
					 "colon: 3\n"
					 "bare 4\n"
					 "tab\t5\n"
					 "empty=\n"
					 "alone\n"
					 "long=one,\\\n"
					 "     two\n"
					 "escaped\\ key=a\\tb\\u0041\\\\\n"
					 "hash=a#b=c\n"
					 "slashes=end\\\\\n"
					 "#comment\\\n"
					 "after=6\n"
					 "twice=1\n"
					 "twice=2\n"
					 "last=7");

	(void)state;
	assert_value(p, "plain", "1");
	assert_value(p, "spaced", "two words");
	assert_value(p, "colon", "3");
	assert_value(p, "bare", "4");
	assert_value(p, "tab", "5");
	assert_value(p, "empty", "");
	assert_value(p, "alone", "");
	assert_value(p, "long", "one,two");
	assert_value(p, "escaped key", "a\tbA\\");
	assert_value(p, "hash", "a#b=c");
	assert_value(p, "slashes", "end\\");
	assert_value(p, "after", "6");
	assert_value(p, "twice", "2");
	assert_value(p, "last", "7");
	assert_value(p, "# a comment", NULL);
	properties_delete(&p);
	assert_null(p);
}

static void command_line_wins(void **state)
{
	struct properties *p = read_text("a=1\nb=1\n");

	(void)state;
	assert_int_equal(properties_set(p, "a=2", &err), 0);
	assert_int_equal(properties_set(p, "a=3", &err), 0);
	assert_int_equal(properties_set(p, "no equals sign", &err), -1);
	assert_int_equal(properties_set(p, "=1", &err), -1);
	add_text(p, "a=4\nb=4\n"); /* whichever comes first */
	assert_value(p, "a", "3");
	assert_value(p, "b", "4");
	properties_delete(&p);
}

static void unreadable_files_are_named(void **state)
{
	struct properties *p = properties_new();

	(void)state;
	assert_int_equal(properties_read(p, "/nonexistent/file", &err), -1);
	assert_non_null(strstr(err.text, "/nonexistent/file"));
	assert_int_equal(properties_read(p, "/tmp", &err), -1);
	properties_delete(&p);
}

static void wrong_values_are_refused(void **state)
{
	static const char *const wrong_numbers[] = { "", "x", "1x", "-1", "1.5", "11", "+5", " 5",
						     "99999999999999999999999" };
	static const char *const names[] = { "one", "two", NULL };
	struct properties *p = properties_new();
	uint64_t number = 77;
	double real = 0.5;
	bool flag = true;
	int choice = 9;
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof wrong_numbers / sizeof *wrong_numbers; i++) {
		if (*wrong_numbers[i] == ' ')
			continue; /* blanks before a value are no part of it */
		snprintf(text, sizeof text, "n=%s", wrong_numbers[i]);
		assert_int_equal(properties_set(p, text, &err), 0);
		assert_int_equal(properties_get_number(p, "n", 0, 10, &number, &err), -1);
		assert_non_null(strstr(err.text, "property n"));
	}
	assert_int_equal(number, 77);
	properties_set(p, "n=10", &err);
	assert_int_equal(properties_get_number(p, "n", 0, 10, &number, &err), 0);
	assert_int_equal(number, 10);

	properties_set(p, "r=2", &err);
	assert_int_equal(properties_get_real(p, "r", 0, 1, &real, &err), -1);
	properties_set(p, "r=nan", &err);
	assert_int_equal(properties_get_real(p, "r", 0, 1, &real, &err), -1);
	properties_set(p, "r=.25", &err);
	assert_int_equal(properties_get_real(p, "r", 0, 1, &real, &err), 0);
	assert_true(real == 0.25);

	properties_set(p, "b=yes", &err);
	assert_int_equal(properties_get_bool(p, "b", &flag, &err), -1);
	properties_set(p, "b=False", &err);
	assert_int_equal(properties_get_bool(p, "b", &flag, &err), 0);
	assert_false(flag);

	properties_set(p, "c=three", &err);
	assert_int_equal(properties_get_choice(p, "c", names, &choice, &err), -1);
	assert_non_null(strstr(err.text, "one, two"));
	properties_set(p, "c=two", &err);
	assert_int_equal(properties_get_choice(p, "c", names, &choice, &err), 0);
	assert_int_equal(choice, 1);

	assert_int_equal(properties_get_number(p, "absent", 0, 10, &number, &err), 0);
	assert_int_equal(number, 10);
	properties_delete(&p);
}

static void collect(void *arg, const char *key, const char *value, bool known)
{
	char *out = arg;

	sprintf(out + strlen(out), "%s=%s%s ", key, value, known ? "" : "?");
}

static void unknown_ones_are_told(void **state)
{
	struct properties *p = read_text("a=1\nb=2\nc=3\n");
	char seen[64] = "";

	(void)state;
	properties_get(p, "b");
	properties_each(p, collect, seen);
	assert_string_equal(seen, "a=1? b=2 c=3? ");
	properties_delete(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(java_rules),
		cmocka_unit_test(command_line_wins),
		cmocka_unit_test(unreadable_files_are_named),
		cmocka_unit_test(wrong_values_are_refused),
		cmocka_unit_test(unknown_ones_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
