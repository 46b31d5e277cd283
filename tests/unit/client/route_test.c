/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session/route: where a session connects next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "client/session/route.h"

static struct route r;

static struct addr at(const char *text)
{
	struct addr addr;
	struct err err;

	assert_int_equal(addr_parse(&addr, text, &err), 0);
	return addr;
}

static void add(const char *text)
{
	const struct addr addr = at(text);

	assert_true(route_add(&r, &addr));
}

static void expect_present(const char *text)
{
	struct addr addr;

	route_present(&r, &addr);
	assert_string_equal(addr.text, text);
}

static void gone(const char *text)
{
	struct addr addr = { .text = "" };

	strcpy(addr.text, text);
	route_failed(&r, &addr);
}

static bool learn(uint64_t epoch, const char *lines, struct addr *primary)
{
	char text[256];

	snprintf(text, sizeof text, "%s", lines);
	return route_learn(&r, epoch, text, true, primary);
}

static int begin(void **state)
{
	(void)state;
	memset(&r, 0, sizeof r);
	route_init(&r);
	add("127.0.0.1:1");
	add("127.0.0.1:2");
	return 0;
}

static int finish(void **state)
{
	(void)state;
	route_fini(&r);
	return 0;
}

/* Of a name with several addresses the first that answers is kept. */
static void test_name(void **state)
{
	const struct addr second = at("127.0.0.1:2");

	(void)state;
	expect_present("127.0.0.1:1");
	gone("127.0.0.1:1");
	expect_present("127.0.0.1:2");
	route_settled(&r, &second);
	assert_int_equal(route_count(&r), 1);
	gone("127.0.0.1:2");
	expect_present("127.0.0.1:2");
}

/* Of a list all are kept; who failed while another thread moved on moves nothing. */
static void test_list(void **state)
{
	const struct addr first = at("127.0.0.1:1");

	(void)state;
	r.is_list = true;
	route_settled(&r, &first);
	assert_int_equal(route_count(&r), 2);
	gone("127.0.0.1:2");
	expect_present("127.0.0.1:1");
	gone("127.0.0.1:1");
	gone("127.0.0.1:1");
	expect_present("127.0.0.1:2");
	add("127.0.0.1:2");
	assert_int_equal(route_count(&r), 2);
}

static void test_learn(void **state)
{
	struct addr primary;

	(void)state;
	strcpy(r.suffix, "/photos");
	assert_true(learn(3, "127.0.0.1:7\n127.0.0.1:1\n-\n", &primary));
	assert_string_equal(primary.text, "127.0.0.1:7/photos");
	expect_present("127.0.0.1:7/photos");
	assert_int_equal(route_count(&r), 4); /* with another namespace it is another one */
	/* An older configuration, one without its primary's address, none. */
	assert_false(learn(2, "127.0.0.1:8\n", &primary));
	assert_false(learn(4, "-\n127.0.0.1:7\n", &primary));
	assert_false(learn(0, "", &primary));
	expect_present("127.0.0.1:7/photos");
}

/* Who knows of no later epoch names a primary that is dead: it is not gone to again and again. */
static void test_gone(void **state)
{
	struct addr primary;

	(void)state;
	assert_true(learn(3, "127.0.0.1:1\n127.0.0.1:2\n127.0.0.1:3\n", &primary));
	assert_false(route_is_gone(&r));
	gone("127.0.0.1:1");
	assert_true(route_is_gone(&r));
	assert_true(learn(3, "127.0.0.1:1\n127.0.0.1:2\n127.0.0.1:3\n", &primary));
	assert_string_equal(primary.text, "127.0.0.1:1");
	expect_present("127.0.0.1:2");
	/* A later epoch, with the same primary; it is gone once more. */
	assert_true(learn(4, "127.0.0.1:1\n127.0.0.1:2\n", &primary));
	assert_false(route_is_gone(&r));
	expect_present("127.0.0.1:1");
	gone("127.0.0.1:1");
	assert_true(route_is_gone(&r));
	/* It was heard of. */
	route_found(&r);
	assert_false(route_is_gone(&r));
	expect_present("127.0.0.1:1");
	gone("127.0.0.1:1");
	/* The other one does not answer either, or it was there after all. */
	gone("127.0.0.1:2");
	assert_false(route_is_gone(&r));
	gone("127.0.0.1:1");
	assert_true(route_is_gone(&r));
	route_settled(&r, &primary);
	assert_false(route_is_gone(&r));
	/* Another primary. */
	gone("127.0.0.1:1");
	assert_true(learn(4, "127.0.0.1:2\n127.0.0.1:1\n", &primary));
	assert_false(route_is_gone(&r));
	expect_present("127.0.0.1:2");
}

/* What comes off the wire is bounded. */
static void test_many(void **state)
{
	struct addr primary;
	char line[32];

	(void)state;
	for (unsigned i = 0; i < 2 * ROUTE_MAX; i++) {
		snprintf(line, sizeof line, "127.0.0.1:%u\nnonsense\n", 100 + i);
		learn(i + 1, line, &primary);
	}
	assert_int_equal(route_count(&r), ROUTE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_name, begin, finish),
		cmocka_unit_test_setup_teardown(test_list, begin, finish),
		cmocka_unit_test_setup_teardown(test_learn, begin, finish),
		cmocka_unit_test_setup_teardown(test_gone, begin, finish),
		cmocka_unit_test_setup_teardown(test_many, begin, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
