/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/table.h and directory.h: what sessions learn of where buckets lie, and who gives the
 * directory back. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/cache/table.h"

#define SEGMENT (8u * LAYOUT_BUCKET_BYTES)
#define ALL (64u * SEGMENT)

static _Atomic uint64_t buckets;
static struct remote_table t;

static int set_up(void **state)
{
	(void)state;
	buckets = 0;
	t = (struct remote_table){ .buckets = &buckets };
	t.welcome.segment_bytes = SEGMENT;
	t.welcome.table_bytes = ALL;
	t.directory = directory_new(5, 4);
	return t.directory ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	directory_leave(&t.directory);
	return t.directory ? -1 : 0;
}

/* Who knows an older number does not take the newer one from the others. */
static void test_buckets_become_more(void **state)
{
	(void)state;
	table_learn_buckets(&t, 16);
	assert_int_equal(buckets, 16);
	table_learn_buckets(&t, 64);
	table_learn_buckets(&t, 32);
	assert_int_equal(buckets, 64);
	table_learn_buckets(&t, 65);
	assert_int_equal(buckets, 65);
}

/* A segment may end where the table does.  What can't be one leaves what is known. */
static void test_segments(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(table_bucket_offset(&t, i), 0);
	table_learn_segment(&t, 1, ALL - SEGMENT);
	table_learn_segment(&t, 3, 2 * SEGMENT);
	assert_int_equal(table_bucket_offset(&t, 7), 0);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(table_bucket_offset(&t, 8 + i), ALL - SEGMENT + i * LAYOUT_BUCKET_BYTES);
		assert_int_equal(table_bucket_offset(&t, 16 + i), 0);
		assert_int_equal(table_bucket_offset(&t, 24 + i), 2 * SEGMENT + i * LAYOUT_BUCKET_BYTES);
	}
	table_learn_segment(&t, 3, ALL - SEGMENT + 1);
	table_learn_segment(&t, 3, 0);
	assert_int_equal(table_bucket_offset(&t, 24), 2 * SEGMENT);
}

/* It is there for as long as one has it, and no longer. */
static void test_a_directory_is_shared(void **state)
{
	struct directory *mine, *others, *nobodys = NULL;
	size_t used = 0;

	(void)state;
	for (unsigned i = 0; i < 60; i++) {
		if (i == 30)
			used = mallinfo2().uordblks;
		mine = directory_new(7, 1000);
		assert_non_null(mine);
		assert_int_equal(mine->instance, 7);
		assert_int_equal(mine->entries, 1000);
		assert_int_equal(mine->offset[999], 0);
		others = directory_share(mine);
		assert_ptr_equal(others, mine);
		assert_int_equal(others->owners, 2);
		directory_leave(&mine);
		assert_null(mine);
		assert_int_equal(others->owners, 1);
		others->offset[999] = i + 1;
		directory_leave(&others);
		assert_null(others);
	}
	assert_int_equal(mallinfo2().uordblks, used);
	directory_leave(&nobodys);
	assert_null(nobodys);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_buckets_become_more),
		TEST(test_segments),
		TEST(test_a_directory_is_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
