/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/welcome.c: what kvd says of its memory is believed up to each limit, and not beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/cache/welcome.h"
#include "common/layout.h"

#define ALL (1ull << 30)
#define SEGMENT 4096u

static struct wire_welcome w;

/* A table each of whose parts could be larger. */
static int set_up(void **state)
{
	(void)state;
	w = (struct wire_welcome){ .table_addr = 1ull << 40,
				   .table_bytes = ALL,
				   .stripes = 1024,
				   .marks_offset = 4096,
				   .scratch_offset = 65536,
				   .dir_offset = 1u << 20,
				   .dir_entries = 8,
				   .segment_bytes = SEGMENT,
				   .workers = 4,
				   .credits = 1 };
	assert_true(welcome_is_sane(&w));
	return 0;
}

/* The greatest that is believed, or the least: the neighbour isn't. */
#define BELIEVED(member, last, beyond) \
	do { \
		set_up(NULL); \
		w.member = (last); \
		assert_true(welcome_is_sane(&w)); \
		w.member = (beyond); \
		assert_false(welcome_is_sane(&w)); \
	} while (0)

static void test_table(void **state)
{
	(void)state;
	BELIEVED(table_bytes, LAYOUT_TABLE_BYTES_MAX, LAYOUT_TABLE_BYTES_MAX + 1);
	BELIEVED(table_addr, 0 - ALL - 1, 0 - ALL);
	BELIEVED(table_addr, 1, UINT64_MAX);
	/* The smallest has a page, and room for little. */
	w = (struct wire_welcome){ .table_addr = 4096, .table_bytes = 4096, .stripes = 1,
				   .segment_bytes = LAYOUT_BUCKET_BYTES, .workers = 1, .credits = 1 };
	w.scratch_offset = 0;
	assert_false(welcome_is_sane(&w)); /* a scratch is larger */
	set_up(state);
	w.table_bytes = sizeof(struct layout_scratch);
	w.scratch_offset = w.marks_offset = w.dir_offset = w.dir_entries = 0;
	w.workers = w.stripes = 1;
	assert_true(welcome_is_sane(&w));
	w.table_bytes--;
	assert_false(welcome_is_sane(&w));
}

static void test_powers_of_two(void **state)
{
	static const uint64_t no[] = { 0, 3, 5, 6, 7, 96, 1023, 1025, 1536 };

	(void)state;
	for (unsigned i = 0; i < sizeof no / sizeof no[0]; i++) {
		set_up(NULL);
		w.stripes = no[i];
		assert_false(welcome_is_sane(&w));
		set_up(NULL);
		w.segment_bytes = no[i] * LAYOUT_BUCKET_BYTES;
		assert_false(welcome_is_sane(&w));
	}
	for (unsigned bit = 0; bit < 20; bit++) {
		set_up(NULL);
		w.stripes = 1u << bit;
		assert_true(welcome_is_sane(&w));
		w.segment_bytes = (uint64_t)LAYOUT_BUCKET_BYTES << bit;
		assert_true(welcome_is_sane(&w));
	}
	BELIEVED(segment_bytes, LAYOUT_BUCKET_BYTES, LAYOUT_BUCKET_BYTES / 2);
	BELIEVED(segment_bytes, ALL / 8, ALL / 4); /* there are eight */
}

/* More stripes than the table has bytes; the marks alone would take four times as much. */
static void test_stripes(void **state)
{
	(void)state;
	set_up(NULL);
	w.marks_offset = 0;
	w.stripes = ALL / sizeof(uint32_t);
	assert_true(welcome_is_sane(&w));
	w.stripes *= 2;
	assert_false(welcome_is_sane(&w));
	w.stripes = 1ull << 62; /* times four it is nothing */
	assert_false(welcome_is_sane(&w));
}

static void test_parts_lie_within(void **state)
{
	const uint64_t dir = 8 * sizeof(uint64_t), scratches = 4 * sizeof(struct layout_scratch),
		       marks = 1024 * sizeof(uint32_t);

	(void)state;
	BELIEVED(dir_offset, ALL - dir, ALL - dir + 1);
	BELIEVED(scratch_offset, ALL - scratches, ALL - scratches + 1);
	BELIEVED(marks_offset, ALL - marks, ALL - marks + 1);
	BELIEVED(dir_offset, 0, ALL + 1);
	BELIEVED(scratch_offset, 0, UINT64_MAX);
	BELIEVED(marks_offset, 0, UINT64_MAX);
	/* What has no bytes may begin where the table ends. */
	w.dir_entries = 0;
	w.marks_offset = 0;
	w.dir_offset = ALL;
	assert_true(welcome_is_sane(&w));
	w.dir_offset = ALL + 1;
	assert_false(welcome_is_sane(&w));
}

static void test_counts(void **state)
{
	(void)state;
	BELIEVED(workers, LAYOUT_WORKERS_MAX, LAYOUT_WORKERS_MAX + 1);
	BELIEVED(workers, 1, 0);
	BELIEVED(credits, 1, 0);
	BELIEVED(hint_shift, 63, 64);
	BELIEVED(dir_entries, ALL / SEGMENT, ALL / SEGMENT + 1);
	/* Of a table that has room for more. */
	w.table_bytes = LAYOUT_TABLE_BYTES_MAX;
	w.dir_entries = WELCOME_DIR_ENTRIES_MAX;
	assert_true(welcome_is_sane(&w));
	w.dir_entries++;
	assert_false(welcome_is_sane(&w));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_table, set_up),
		cmocka_unit_test_setup(test_powers_of_two, set_up),
		cmocka_unit_test_setup(test_stripes, set_up),
		cmocka_unit_test_setup(test_parts_lie_within, set_up),
		cmocka_unit_test_setup(test_counts, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
