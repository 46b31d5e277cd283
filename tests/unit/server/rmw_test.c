/* SPDX-License-Identifier: BSD-2-Clause */
/* server/store/change/rmw.h: which texts are numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/store/change/rmw.h"

static bool parse(const char *text, int64_t *number)
{
	return compute_parse((const uint8_t *)text, strlen(text), number);
}

static void test_refused(void **state)
{
	static const char *const texts[] = {
		"", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1a", "a", "0x1", "1.0", "1e3", "--1",
		"9223372036854775808", "-9223372036854775809", "18446744073709551616",
		"18446744073709551615", "92233720368547758070", "-92233720368547758080",
		"100000000000000000000000000000000000000000000000000000000000000000000000000000",
	};

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		int64_t n = 42;
		assert_false(parse(texts[i], &n));
		assert_int_equal(n, 42);
	}
}

static void test_round_trip(void **state)
{
	uint64_t x = 1;
	char text[32];
	int64_t n;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		int64_t want = i == 0 ? INT64_MIN : i == 1 ? INT64_MAX : (int64_t)x >> (x >> 58);
		snprintf(text, sizeof text, "%lld", (long long)want);
		assert_true(parse(text, &n));
		assert_true(n == want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
