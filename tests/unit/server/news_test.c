/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/news.h: what others' changes made, once, the latest first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "server/worker/news.h"

#define ME 1u
#define OTHER 2u
#define MOST 12u
#define RING 1024u

static struct news *news;

static int begin(void **state)
{
	(void)state;
	news = news_new();
	return !news;
}

static int end(void **state)
{
	(void)state;
	news_delete(&news);
	return news != NULL;
}

/* Where a connection that has seen all there is goes on. */
static uint64_t latest(void)
{
	uint64_t seen = 0;

	news_take(news, 0, &seen, NULL, 0);
	return seen;
}

static void put(uint64_t who, uint64_t i)
{
	news_put(news, who, i, (unsigned)(i % 6 + 1), 1000 + i);
}

static void expect(const struct wire_news *got, uint64_t i)
{
	assert_int_equal(got->place, i << 8 | (i % 6 + 1));
	assert_int_equal(got->word, 1000 + i);
}

static void test_once(void **state)
{
	struct wire_news out[MOST];
	uint64_t seen = latest();

	(void)state;
	assert_int_equal(news_take(news, ME, &seen, out, MOST), 0);
	put(OTHER, 5);
	put(OTHER, 6);
	assert_int_equal(news_take(news, ME, &seen, out, MOST), 2);
	expect(&out[0], 6);
	expect(&out[1], 5);
	assert_int_equal(news_take(news, ME, &seen, out, MOST), 0);
	put(OTHER, 7);
	assert_int_equal(news_take(news, ME, &seen, out, MOST), 1);
	expect(&out[0], 7);
}

/* Who made them knows. */
static void test_not_own(void **state)
{
	struct wire_news out[MOST];
	uint64_t seen = latest(), others = seen;

	(void)state;
	put(ME, 1);
	put(OTHER, 2);
	put(ME, 3);
	assert_int_equal(news_take(news, ME, &seen, out, MOST), 1);
	expect(&out[0], 2);
	assert_int_equal(news_take(news, OTHER, &others, out, MOST), 2);
	expect(&out[0], 3);
	expect(&out[1], 1);
}

/* What was made before a connection is none of its news. */
static void test_begin(void **state)
{
	struct wire_news out[MOST];

	(void)state;
	put(OTHER, 1);
	uint64_t seen = latest();
	assert_int_equal(seen, 1);
	assert_int_equal(news_take(news, ME, &seen, out, MOST), 0);
}

/* More than fit: the latest; the others are given up. */
static void test_most(void **state)
{
	struct wire_news out[MOST];
	uint64_t seen = 0;

	(void)state;
	for (uint64_t i = 0; i < 3 * MOST; i++)
		put(OTHER, i);
	assert_int_equal(news_take(news, ME, &seen, out, MOST), MOST);
	for (uint64_t i = 0; i < MOST; i++)
		expect(&out[i], 3 * MOST - 1 - i);
	assert_int_equal(news_take(news, ME, &seen, out, MOST), 0);
}

/* The search among own ones is bounded. */
static void test_own_between(void **state)
{
	struct wire_news out[MOST];
	uint64_t seen = 0;

	(void)state;
	put(OTHER, 1);
	put(OTHER, 2);
	for (uint64_t i = 0; i < 2 * MOST - 1; i++)
		put(ME, i);
	assert_int_equal(news_take(news, ME, &seen, out, MOST), 1);
	expect(&out[0], 2);
}

/* Places are used again. */
static void test_around(void **state)
{
	struct wire_news out[MOST];
	uint64_t seen = 0;

	(void)state;
	for (uint64_t i = 0; i < RING + 3; i++)
		put(OTHER, i);
	assert_int_equal(news_take(news, ME, &seen, out, MOST), MOST);
	for (uint64_t i = 0; i < MOST; i++)
		expect(&out[i], RING + 2 - i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_once, begin, end),
		cmocka_unit_test_setup_teardown(test_not_own, begin, end),
		cmocka_unit_test_setup_teardown(test_begin, begin, end),
		cmocka_unit_test_setup_teardown(test_most, begin, end),
		cmocka_unit_test_setup_teardown(test_own_between, begin, end),
		cmocka_unit_test_setup_teardown(test_around, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
