/* SPDX-License-Identifier: BSD-2-Clause */
/* server/access/seats.h: how many connections each user has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/access/seats.h"
#include "tests/unit/no_memory.h"

#define NAMES 10000u

static struct seats seats;

static int set_up(void **state)
{
	(void)state;
	seats = (struct seats){ .max = 2 };
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	seats_free(&seats);
	return 0;
}

/* Of at least so many digits. */
static const char *name_of(unsigned n, int digits)
{
	static char name[32];

	snprintf(name, sizeof name, "user-%0*u", digits, n);
	return name;
}

/* Chains that somebody stands in. */
static unsigned used(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SEATS_CHAINS; i++)
		n += seats.chain[i] != NULL;
	return n;
}

/* The one that this name would stand in, of no others. */
static unsigned chain_of(const char *name)
{
	unsigned i = 0;

	assert_int_equal(used(), 0);
	assert_true(seats_take(&seats, name));
	assert_int_equal(used(), 1);
	while (!seats.chain[i])
		i++;
	seats_leave(&seats, name);
	assert_int_equal(used(), 0);
	return i;
}

/* Each has as many as a user may have, and no more, whoever else has some. */
static void test_count_of_each(void **state)
{
	static const char *const names[] = { "anne", "will", "ann", "" };

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 4; i++) {
			assert_true(seats_take(&seats, names[i]));
			assert_true(seats_take(&seats, names[i]));
			assert_false(seats_take(&seats, names[i]));
			assert_false(seats_take(&seats, names[i]));
		}
		/* What was refused does not count: one that leaves makes room for one. */
		seats_leave(&seats, "anne");
		assert_false(seats_take(&seats, "will"));
		assert_true(seats_take(&seats, "anne"));
		assert_false(seats_take(&seats, "anne"));
		for (unsigned i = 0; i < 4; i++) {
			seats_leave(&seats, names[i]);
			seats_leave(&seats, names[i]);
		}
		assert_int_equal(used(), 0); /* memory is for those who have some */
	}
}

/* 0 is any number, of which nothing is remembered. */
static void test_any_number(void **state)
{
	(void)state;
	seats.max = 0;
	for (unsigned i = 0; i < 1000; i++)
		assert_true(seats_take(&seats, "anne"));
	assert_int_equal(used(), 0);
	seats_leave(&seats, "anne");
}

/* Who can't be counted is refused, and may come later; the others are as they were. */
static void test_no_memory(void **state)
{
	(void)state;
	fails_at = 1;
	assert_false(seats_take(&seats, "anne"));
	assert_int_equal(fails_at, 0);
	assert_int_equal(used(), 0);
	assert_true(seats_take(&seats, "anne"));
	fails_at = 1;
	assert_true(seats_take(&seats, "anne")); /* it takes memory once */
	assert_int_equal(fails_at, 1);
	assert_false(seats_take(&seats, "will"));
	assert_int_equal(fails_at, 0);
	seats_leave(&seats, "anne");
	seats_leave(&seats, "anne");
	assert_int_equal(used(), 0);
}

/* Users of one chain are told apart, and leave in any order. */
static void test_one_chain(void **state)
{
	static const unsigned orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	unsigned found = 0, chain = chain_of(name_of(1, 5));
	char names[3][32];

	(void)state;
	for (unsigned n = 1; found < 3 && n <= NAMES; n++)
		if (chain_of(name_of(n, 5)) == chain)
			strcpy(names[found++], name_of(n, 5));
	assert_int_equal(found, 3);
	for (unsigned o = 0; o < 6; o++) {
		for (unsigned i = 0; i < 3; i++) {
			assert_true(seats_take(&seats, names[i]));
			assert_true(seats_take(&seats, names[i]));
		}
		assert_int_equal(used(), 1);
		for (unsigned i = 0; i < 3; i++) {
			seats_leave(&seats, names[orders[o][i]]);
			seats_leave(&seats, names[orders[o][i]]);
			/* Those who are still there have all of theirs. */
			for (unsigned j = i + 1; j < 3; j++)
				assert_false(seats_take(&seats, names[orders[o][j]]));
			assert_int_equal(used(), i < 2);
		}
	}
}

static void count_names(int digits, unsigned count[SEATS_CHAINS])
{
	memset(count, 0, SEATS_CHAINS * sizeof *count);
	for (unsigned n = 1; n <= NAMES; n++)
		count[chain_of(name_of(n, digits))]++;
	for (unsigned i = 0; i < SEATS_CHAINS; i++)
		if (count[i] > 3 * (NAMES / SEATS_CHAINS))
			fail_msg("%u of %u names stand in chain %u", count[i], NAMES, i);
}

/* However alike the names of many users are, a look at one is short. */
static void test_names_are_spread(void **state)
{
	unsigned count[SEATS_CHAINS];

	(void)state;
	count_names(5, count);
	count_names(1, count);
	for (unsigned i = 0; i < SEATS_CHAINS; i++)
		if (!count[i])
			fail_msg("of %u names none stands in chain %u", NAMES, i);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_count_of_each),
		TEST(test_any_number),
		TEST(test_no_memory),
		TEST(test_one_chain),
		TEST(test_names_are_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
