/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session/prefill.c: the mirror has each bucket that there is room for, for as few READs as can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/session/prefill.h"
#include "tests/lib/end.h"

#define DIR_AT 4096u
#define SEGMENTS_AT 65536u
#define PART_BUCKETS (OP_ITEM_BYTES / LAYOUT_BUCKET_BYTES)
#define PART_SEGMENTS (OP_ITEM_BYTES / 8u)

static struct end *end;
static struct engine *e;
static int (*post_send)(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static unsigned fails_at; /* this READ does; 0: none */

/* The connection breaks under a READ. */
static int post_until(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (end->reads + 1 == fails_at)
		end->status = IBV_WC_RETRY_EXC_ERR;
	return post_send(to, wr, bad);
}

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	post_send = e->qp->context->ops.post_send;
	e->qp->context->ops.post_send = post_until;
	fails_at = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	return 0;
}

static uint64_t entry_of(uint64_t bucket)
{
	return layout_word(bucket + 1, 1, layout_fp(bucket + 1, e->table.unit_mask));
}

/* Segments of so many buckets, each of which has an entry of its own in its last word. */
static void lay_out(unsigned segments, unsigned per)
{
	struct wire_welcome *w = &e->table.welcome;
	uint64_t *at = (uint64_t *)(void *)(end->bytes->base + DIR_AT);
	uint64_t *words = (uint64_t *)(void *)(end->bytes->base + SEGMENTS_AT);

	assert_true(SEGMENTS_AT + (size_t)segments * per * LAYOUT_BUCKET_BYTES <= BYTES_ALL);
	w->dir_offset = DIR_AT;
	w->dir_entries = segments;
	w->segment_bytes = (uint64_t)per * LAYOUT_BUCKET_BYTES;
	for (unsigned i = 0; i < segments; i++)
		at[i] = SEGMENTS_AT + i * w->segment_bytes;
	for (unsigned i = 0; i < segments * per; i++)
		words[(i + 1) * LAYOUT_BUCKET_WORDS - 1] = entry_of(i);
	directory_leave(&end->bytes->table.directory);
	e->table.directory = end->bytes->table.directory = directory_new(1, segments);
	assert_non_null(e->table.directory);
}

static bool is_in_mirror(uint64_t bucket)
{
	const uint64_t both[2] = { bucket, bucket };
	uint64_t word = entry_of(bucket), mask = e->table.unit_mask;

	return mirror_find(e->table.mirror, both, mask, layout_word_fp(word, mask)) == word;
}

/* All up to `buckets`, and none from there on; for so many READs, in so many bytes. */
static void must_fill(uint64_t buckets, unsigned reads, uint64_t bytes)
{
	end->reads = 0;
	e->counters.read_bytes = 0;
	assert_int_equal(prefill_mirror(&end->session), 0);
	for (uint64_t i = 0; i < buckets; i++)
		if (!is_in_mirror(i))
			fail_msg("bucket %llu is not there", (unsigned long long)i);
	assert_false(is_in_mirror(buckets));
	assert_int_equal(end->reads, reads);
	assert_int_equal(e->counters.read_bytes, bytes);
	assert_int_equal(e->in_flight, 0);
}

static void test_segments_of_several_reads(void **state)
{
	const unsigned per = 2 * PART_BUCKETS;

	(void)state;
	lay_out(3, per);
	end->bytes->buckets = 2 * per + PART_BUCKETS + 7;
	must_fill(end->bytes->buckets, 1 + 6, 3 * 8 + end->bytes->buckets * LAYOUT_BUCKET_BYTES);
	assert_int_equal(e->table.directory->offset[2], SEGMENTS_AT + 2 * per * LAYOUT_BUCKET_BYTES);
	/* As many as fill two of them need two. */
	mirror_clear(e->table.mirror);
	end->bytes->buckets = 2 * per;
	must_fill(2 * per, 1 + 4, 2 * 8 + 2 * per * LAYOUT_BUCKET_BYTES);
	/* The last one is of a third. */
	mirror_clear(e->table.mirror);
	end->bytes->buckets = 2 * per + 1;
	must_fill(2 * per + 1, 1 + 5, 3 * 8 + (2 * per + 1) * LAYOUT_BUCKET_BYTES);
}

static void test_a_directory_of_several_reads(void **state)
{
	const unsigned segments = PART_SEGMENTS + 9;

	(void)state;
	lay_out(segments, 1);
	end->bytes->buckets = segments;
	must_fill(segments, 2 + segments, segments * (8 + LAYOUT_BUCKET_BYTES));
	mirror_clear(e->table.mirror);
	end->bytes->buckets = PART_SEGMENTS;
	must_fill(PART_SEGMENTS, 1 + PART_SEGMENTS, PART_SEGMENTS * (8 + LAYOUT_BUCKET_BYTES));
}

/* What the mirror has no room for is not READ. */
static void test_more_than_the_mirror_takes(void **state)
{
	uint64_t max;

	(void)state;
	lay_out(8, PART_BUCKETS);
	mirror_delete(e->table.mirror);
	e->table.mirror = end->bytes->table.mirror = mirror_new(100000);
	max = mirror_buckets_max(e->table.mirror);
	assert_in_range(max, PART_BUCKETS + 2, 8 * PART_BUCKETS - 1);
	end->bytes->buckets = 8 * PART_BUCKETS;
	unsigned segments = (unsigned)((max + PART_BUCKETS - 1) / PART_BUCKETS);
	must_fill(max, 1 + segments, 8 * segments + max * LAYOUT_BUCKET_BYTES);
}

/* More buckets than the directory has room for are nonsense, which nobody READs. */
static void test_more_than_the_directory_has(void **state)
{
	(void)state;
	lay_out(2, 64);
	end->bytes->buckets = 129;
	must_fill(0, 0, 0);
	end->bytes->buckets = 128;
	must_fill(128, 1 + 2, 2 * 8 + 128 * LAYOUT_BUCKET_BYTES);
}

/* A segment that can't be where the directory says is left out. */
static void test_segment_that_is_nowhere(void **state)
{
	(void)state;
	lay_out(3, 8);
	((uint64_t *)(void *)(end->bytes->base + DIR_AT))[1] = 0;
	end->bytes->buckets = 24;
	assert_int_equal(prefill_mirror(&end->session), 0);
	for (unsigned i = 0; i < 24; i++)
		assert_int_equal(is_in_mirror(i), i / 8 != 1);
	assert_int_equal(end->reads, 1 + 2);
}

/* It ends with the connection, and what was not READ is not believed. */
static void test_broken_connection(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 3; n++) {
		fails_at = n;
		lay_out(3, 8);
		end->bytes->buckets = 24;
		assert_int_equal(prefill_mirror(&end->session), KVD_ECONNECT);
		assert_int_equal(end->reads, n);
		for (unsigned i = 0; i < 24; i++)
			assert_int_equal(is_in_mirror(i), i / 8 + 2 < n);
		tear_down(state);
		set_up(state);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_segments_of_several_reads),
		TEST(test_a_directory_of_several_reads),
		TEST(test_more_than_the_mirror_takes),
		TEST(test_more_than_the_directory_has),
		TEST(test_segment_that_is_nowhere),
		TEST(test_broken_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
