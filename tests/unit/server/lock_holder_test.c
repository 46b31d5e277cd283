/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/holder.h: no two that may stand in a lock word have its bits in common. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/lock/holder.h"

#define BITS 3u
#define LOWS ((1u << BITS) - 2) /* without 0 and all ones */

static struct holders holders;
static struct holder h[LOWS + 1];

static int begin(void **state)
{
	(void)state;
	memset(&holders, 0, sizeof holders);
	memset(h, 0, sizeof h);
	holders_init(&holders, BITS, 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	holders_fini(&holders);
	return 0;
}

static uint64_t low(const struct holder *holder)
{
	return holder->id & ((1u << BITS) - 1);
}

static void test_each_once(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LOWS; i++) {
		assert_true(holders_add(&holders, &h[i]));
		assert_int_not_equal(low(&h[i]), 0);
		assert_int_not_equal(low(&h[i]), (1u << BITS) - 1);
		for (unsigned j = 0; j < i; j++) {
			assert_int_not_equal(low(&h[i]), low(&h[j]));
			assert_true(h[i].id > h[j].id);
		}
		assert_ptr_equal(holders_find(&holders, low(&h[i])), &h[i]);
	}
	/* There are no more; and it says so after one round. */
	assert_false(holders_add(&holders, &h[LOWS]));
	assert_int_equal(h[LOWS].id, 0);
	assert_null(holders_find(&holders, 0));
	assert_null(holders_find(&holders, (1u << BITS) - 1));
}

/* Members of a cluster begin each where it wants: ids of one are none of another's. */
static void test_begins(void **state)
{
	const uint64_t last = 0x12345678abcdefull;

	(void)state;
	holders_fini(&holders);
	holders_init(&holders, BITS, last);
	for (unsigned i = 0; i < LOWS; i++) {
		assert_true(holders_add(&holders, &h[i]));
		assert_in_range(h[i].id, last + 1, last + LOWS + 2);
		assert_ptr_equal(holders_find(&holders, low(&h[i])), &h[i]);
	}
}

/* One that lives keeps its bits while the others' come again and again. */
static void test_wraps(void **state)
{
	uint64_t last = 0;

	(void)state;
	assert_true(holders_add(&holders, &h[0]));
	for (unsigned i = 0; i < 100; i++) {
		assert_true(holders_add(&holders, &h[1]));
		assert_int_not_equal(low(&h[1]), low(&h[0]));
		assert_true(h[1].id > last); /* all of it never comes again */
		last = h[1].id;
		holders_end(&h[1]);
		holders_remove(&holders, &h[1]);
	}
	assert_true(last > 1u << BITS);
	assert_ptr_equal(holders_find(&holders, low(&h[0])), &h[0]);
}

/* Gone, but not yet looked for in the words: as good as alive. */
static void test_ended(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LOWS; i++)
		assert_true(holders_add(&holders, &h[i]));
	holders_end(&h[2]);
	assert_false(holders_add(&holders, &h[LOWS]));
	assert_ptr_equal(holders_find(&holders, low(&h[2])), &h[2]);
	holders_remove(&holders, &h[2]);
	assert_null(holders_find(&holders, low(&h[2])));
	assert_true(holders_add(&holders, &h[LOWS]));
	assert_int_equal(low(&h[LOWS]), low(&h[2]));
	assert_int_not_equal(h[LOWS].id, h[2].id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_once, begin, end),
		cmocka_unit_test_setup_teardown(test_begins, begin, end),
		cmocka_unit_test_setup_teardown(test_wraps, begin, end),
		cmocka_unit_test_setup_teardown(test_ended, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
