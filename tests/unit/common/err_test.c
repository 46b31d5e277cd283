/* SPDX-License-Identifier: BSD-2-Clause */
/* common/err.h: the sentence of an error, at any length, and with what errno says behind it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/err.h"

/* An error with memory around it that is not its own. */
static struct {
	char before[ERR_BYTES];
	struct err err;
	char behind[ERR_BYTES];
} place;

static void begin(void)
{
	memset(&place, '#', sizeof place);
}

/* The text's length; nothing was written beside it. */
static size_t length(void)
{
	size_t bytes = strnlen(place.err.text, ERR_BYTES);

	assert_true(bytes < ERR_BYTES);
	for (size_t i = 0; i < ERR_BYTES; i++)
		assert_true(place.before[i] == '#' && place.behind[i] == '#');
	return bytes;
}

static const char *xs(size_t bytes)
{
	static char text[2 * ERR_BYTES];

	memset(text, 'x', bytes);
	text[bytes] = '\0';
	return text;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void test_code(void **state)
{
	(void)state;
	begin();
	assert_int_equal(err_set(&place.err, -7, "%s %d", "of", 3), -7);
	assert_string_equal(place.err.text, "of 3");
	errno = EXDEV;
	assert_int_equal(err_set_errno(&place.err, -9, ENOENT, "no '%s'", "file"), -9);
	assert_string_equal(place.err.text, "no 'file': No such file or directory");
	assert_int_equal(errno, EXDEV);
	assert_int_equal(err_set_errno(&place.err, 1, EPERM, "%s", ""), 1);
	assert_string_equal(place.err.text, ": Operation not permitted");
}

/* What has no room is left out, from the end on. */
static void test_lengths(void **state)
{
	static const char reason[] = ": Operation not permitted";

	(void)state;
	for (size_t n = 0; n < 2 * ERR_BYTES; n++) {
		begin();
		err_set(&place.err, -1, "%s", xs(n));
		assert_int_equal(length(), least(n, ERR_BYTES - 1));
		assert_int_equal(strspn(place.err.text, "x"), length());

		begin();
		err_set_errno(&place.err, -1, EPERM, "%s", xs(n));
		assert_int_equal(length(), least(n + strlen(reason), ERR_BYTES - 1));
		size_t own = strspn(place.err.text, "x");
		assert_int_equal(own, least(n, ERR_BYTES - 1));
		assert_memory_equal(place.err.text + own, reason, length() - own);
	}
}

/* A sentence that can't be made is none; the reason is left. */
static void test_wrong_format(void **state)
{
	const wchar_t none[] = { 0x7fffffff, 0 };

	(void)state;
	begin();
	assert_int_equal(err_set(&place.err, -1, "so far %ls", none), -1);
	assert_string_equal(place.err.text, "");
	begin();
	assert_int_equal(err_set_errno(&place.err, -1, EPERM, "so far %ls", none), -1);
	assert_string_equal(place.err.text, ": Operation not permitted");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_wrong_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
