/* SPDX-License-Identifier: BSD-2-Clause */
/* server/access/rate_limit.h: so many a second from an address, and failures count more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <cmocka.h>

#include "common/auth/auth.h"
#include "server/access/rate_limit.h"

#define S 1000000000ull
#define START (100 * S)
#define RATE 10
#define BURST (RATE * KNOCK_BURST_S)

static struct knock *knock;

static int begin(void **state)
{
	(void)state;
	knock = auth_init() ? NULL : knock_new(RATE);
	return !knock;
}

static int end(void **state)
{
	(void)state;
	knock_delete(&knock);
	knock_delete(&knock); /* takes NULL */
	return 0;
}

static struct addr peer(const char *text)
{
	struct addr a;
	struct err err;

	assert_int_equal(addr_parse(&a, text, &err), 0);
	return a;
}

/* How many of `tries` may begin. */
static unsigned take(const struct addr *who, unsigned tries, uint64_t now_ns)
{
	unsigned n = 0;

	for (unsigned i = 0; i < tries; i++)
		n += knock_may(knock, who, now_ns);
	return n;
}

static void test_burst_and_rate(void **state)
{
	struct addr a = peer("10.0.0.1:5000");

	(void)state;
	assert_int_equal(take(&a, 1000, START), BURST);
	assert_int_equal(take(&a, 1000, START + S / 2), RATE / 2);
	assert_int_equal(take(&a, 1000, START + S / 2), 0);
	assert_int_equal(take(&a, 1000, START + 2 * S), RATE * 3 / 2);
	/* However long none came, no more than the burst. */
	assert_int_equal(take(&a, 1000, START + 1000000 * S), BURST);
	/* A thread whose clock is behind gains nothing. */
	assert_int_equal(take(&a, 1000, START), 0);
	assert_int_equal(take(&a, 1000, START + 1000000 * S), 0);
}

/* Nobody pays for others; but for another port of their own. */
static void test_addresses(void **state)
{
	struct addr a = peer("10.0.0.1:5000"), port = peer("10.0.0.1:5001");
	unsigned free = 0;
	char text[32];

	(void)state;
	assert_int_equal(take(&a, 1000, START), BURST);
	assert_int_equal(take(&port, 1000, START), 0);
	/* Of as many as these, some fall into the bucket of another: a few. */
	for (int i = 2; i < 102; i++) {
		snprintf(text, sizeof text, "10.0.0.%d:5000", i);
		struct addr other = peer(text);
		free += take(&other, 1, START);
	}
	assert_in_range(free, 90, 100);
}

/* Who has one address of IPv6 has 2^64 of them. */
static void test_prefix(void **state)
{
	struct addr a = peer("[2001:db8:1:2::1]:5000"), same = peer("[2001:db8:1:2:9:9:9:9]:5000");

	(void)state;
	assert_int_equal(take(&a, 1000, START), BURST);
	assert_int_equal(take(&same, 1000, START), 0);
	unsigned others = 0;
	for (int i = 3; i < 13; i++) {
		char text[64];
		snprintf(text, sizeof text, "[2001:db8:1:%d::1]:5000", i);
		struct addr other = peer(text);
		others += take(&other, 1, START);
	}
	assert_in_range(others, 8, 10);
}

static void test_failures(void **state)
{
	struct addr a = peer("10.0.0.1:5000");

	(void)state;
	for (int i = 0; i < KNOCK_FAILURES_PER_S; i++)
		knock_failed(knock, &a, START);
	assert_int_equal(take(&a, 1000, START), BURST - RATE);
	/* It goes below nothing, and takes its time to come back. */
	for (int i = 0; i < KNOCK_FAILURES_PER_S; i++)
		knock_failed(knock, &a, START);
	assert_int_equal(take(&a, 1000, START + S), 0);
	assert_int_equal(take(&a, 1000, START + 2 * S), RATE);
	knock_failed(NULL, &a, START);
}

/* Many connections that are open already can fail at once, for all who share the address. */
static void test_debt(void **state)
{
	struct addr a = peer("[2001:db8:1:2::1]:5000"), same = peer("[2001:db8:1:2:9:9:9:9]:5000");

	(void)state;
	for (int i = 0; i < 600; i++)
		knock_failed(knock, &a, START);
	assert_int_equal(take(&same, 1, START + KNOCK_BURST_S * S), 0);
	unsigned after = take(&same, 1, START + (KNOCK_BURST_S + 1) * S);
	if (!after)
		print_error("locked out for longer than a burst\n");
	assert_int_equal(after, 1);
}

static void test_no_limit(void **state)
{
	struct addr a = peer("10.0.0.1:5000");
	struct knock *none = knock_new(0);

	(void)state;
	assert_non_null(none);
	for (int i = 0; i < 1000; i++) {
		knock_failed(none, &a, START);
		assert_true(knock_may(none, &a, START));
	}
	knock_delete(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_burst_and_rate, begin, end),
		cmocka_unit_test_setup_teardown(test_addresses, begin, end),
		cmocka_unit_test_setup_teardown(test_prefix, begin, end),
		cmocka_unit_test_setup_teardown(test_failures, begin, end),
		cmocka_unit_test_setup_teardown(test_debt, begin, end),
		cmocka_unit_test_setup_teardown(test_no_limit, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
