/* SPDX-License-Identifier: BSD-2-Clause */
/* common/text.h: what others say moves no terminal, in an error or in a line of the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/err.h"
#include "common/log.h"
#include "common/text.h"

/* ESC, a second line, DEL, CSI as one character (C1) and as one byte, half a character. */
#define WILD "a\033[31m\nb\177c\302\233d\233e\303"
#define TAME "a?[31m b?c??d?e?"

static void test_tame(void **state)
{
	char wild[] = WILD, good[] = "Gr\303\274\303\237e, \342\202\254 5, \360\237\230\200\302\240";

	(void)state;
	text_tame(wild);
	assert_string_equal(wild, TAME);
	char before[sizeof good];
	memcpy(before, good, sizeof good);
	text_tame(good);
	assert_string_equal(good, before);
	text_tame((char[]){ "" });
}

/* Where characters begin and end to be ones that may be shown. */
static void test_limits(void **state)
{
	static const struct {
		const char *text;
		size_t length;
	} cases[] = {
		{ "\037", 0 }, { " ", 1 }, { "~", 1 }, { "\177", 0 }, { "\200", 0 }, { "\277", 0 }, { "\377", 0 },
		/* U+007F and U+07FF in more bytes than they need, U+009F, U+00A0, U+07FF. */
		{ "\301\277", 0 }, { "\340\237\277", 0 }, { "\302\237", 0 }, { "\302\240", 2 }, { "\337\277", 2 },
		/* U+0800, U+D7FF, the surrogates, U+E000, U+FFFF. */
		{ "\340\240\200", 3 }, { "\355\237\277", 3 }, { "\355\240\200", 0 }, { "\355\277\277", 0 },
		{ "\356\200\200", 3 }, { "\357\277\277", 3 },
		/* U+FFFF in four bytes, U+10000, U+1B000, U+10FFFF, the one behind it, five bytes. */
		{ "\360\217\277\277", 0 }, { "\360\220\200\200", 4 }, { "\360\233\200\200", 4 },
		{ "\364\217\277\277", 4 }, { "\364\220\200\200", 0 }, { "\370\210\200\200\200", 0 },
		/* What comes behind is no continuation. */
		{ "\303x", 0 }, { "\342x\254", 0 }, { "\342\202x", 0 }, { "\360\237\230\300", 0 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const uint8_t *at = (const uint8_t *)cases[i].text;
		size_t bytes = strlen(cases[i].text);
		assert_int_equal(text_length(at, bytes), cases[i].length);
		assert_int_equal(text_length(at, bytes + 1), cases[i].length);
		for (size_t left = 1; left < bytes; left++)
			assert_int_equal(text_length(at, left), 0);
	}
}

static void test_err(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(err_set(&err, -1, "kvd says: %s", WILD), -1);
	assert_string_equal(err.text, "kvd says: " TAME);
}

static void test_log(void **state)
{
	int kept = dup(STDERR_FILENO), ends[2];
	char line[256] = "";

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
	log_error("backup in %s", WILD);
	assert_true(dup2(kept, STDERR_FILENO) >= 0);
	assert_true(read(ends[0], line, sizeof line - 1) > 0);
	if (strchr(line, '\033'))
		print_error("an escape of somebody else's in the log\n");
	assert_string_equal(line, "kvd: error: backup in " TAME "\n");
	close(ends[0]);
	close(ends[1]);
	close(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tame),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_err),
		cmocka_unit_test(test_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
