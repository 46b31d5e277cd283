/* SPDX-License-Identifier: BSD-2-Clause */
/* client/api/flushing: when a flush begins again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/api/flushing.h"

static void expect(struct flushing f, int rc, uint64_t reign, bool has_next, bool again)
{
	uint64_t from = f.from;

	assert_int_equal(flushing_begins_again(&f, rc, reign, has_next), again);
	assert_int_equal(f.from, again ? 0 : from);
}

static void test_goes_on(void **state)
{
	(void)state;
	expect((struct flushing){ 7, 3 }, KVD_OK, 3, true, false);
	expect((struct flushing){ 7, 3 }, KVD_OK, 0, true, false); /* not told */
	expect((struct flushing){ 7, 3 }, KVD_ETIMEDOUT, 3, true, false);
}

/* Its page was answered by the next primary, whose buckets are others. */
static void test_another_reign(void **state)
{
	struct flushing f = { 7, 3 };

	(void)state;
	assert_true(flushing_begins_again(&f, KVD_OK, 4, true));
	assert_int_equal(f.from, 0);
	assert_int_equal(f.reign, 4);
	assert_false(flushing_begins_again(&f, KVD_OK, 4, true)); /* once */
}

static void test_a_lost_connection(void **state)
{
	struct flushing f = { 7, 3 };

	(void)state;
	assert_true(flushing_begins_again(&f, KVD_ECONNECT, 0, true));
	assert_int_equal(f.from, 0);
	/* And the one behind it is the next primary's: from the first once more. */
	assert_true(flushing_begins_again(&f, KVD_OK, 4, true));
	expect((struct flushing){ 7, 3 }, KVD_ECONNECT, 3, false, false); /* no time is left */
}

/* The primary is killed in the first page: nothing told whose that was. */
static void test_a_connection_lost_in_the_first_page(void **state)
{
	struct flushing f = { 0, 0 };

	(void)state;
	assert_true(flushing_begins_again(&f, KVD_ECONNECT, 0, true));
	assert_false(flushing_begins_again(&f, KVD_OK, 4, true));
	assert_int_equal(f.reign, 4);
}

static void test_without_a_cluster(void **state)
{
	(void)state;
	expect((struct flushing){ 7, 0 }, KVD_OK, 0, true, false);
	expect((struct flushing){ 7, 0 }, KVD_ECONNECT, 0, false, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_goes_on),
		cmocka_unit_test(test_another_reign),
		cmocka_unit_test(test_a_lost_connection),
		cmocka_unit_test(test_a_connection_lost_in_the_first_page),
		cmocka_unit_test(test_without_a_cluster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
