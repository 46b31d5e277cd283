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
		cmocka_unit_test(test_err),
		cmocka_unit_test(test_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
