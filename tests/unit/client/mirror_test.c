/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/mirror.h: what is found again of what was stored, in a mirror of any size, and what is not
 * taken for it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "client/cache/mirror.h"
#include "common/layout.h"

#define LINE_BYTES 328u /* 8 words of fingerprints, 32 of the bucket, a tag */
#define TABLE_BYTES (1ull << 30)
#define LAST (LAYOUT_BUCKET_WORDS - 1)

static uint64_t mask; /* of the table's locations */
static bool no_memory;
static size_t mapped;

void *__real_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t from);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t from);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t from);
int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);

void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t from)
{
	if (no_memory) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	mapped += bytes;
	return __real_mmap64(at, bytes, protection, flags, fd, from);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t from)
{
	return __wrap_mmap64(at, bytes, protection, flags, fd, from);
}

int __wrap_munmap(void *at, size_t bytes)
{
	mapped -= bytes;
	return __real_munmap(at, bytes);
}

/* Of a number a fingerprint, and an entry that has it. */
static uint64_t fp_of(uint64_t n)
{
	return layout_fp(n * 0x9e3779b97f4a7c15ull, mask);
}

static uint64_t entry_of(uint64_t n)
{
	return layout_word(n + 1, 1, fp_of(n));
}

static uint64_t find(const struct mirror *m, uint64_t bucket, uint64_t n)
{
	const uint64_t both[2] = { bucket, bucket };

	return mirror_find(m, both, mask, fp_of(n));
}

/* A bucket with one entry, in its n-th word. */
static void store(struct mirror *m, uint64_t bucket, uint64_t n)
{
	uint64_t words[LAYOUT_BUCKET_WORDS] = { 0 };

	words[n % LAYOUT_BUCKET_WORDS] = entry_of(n);
	mirror_store(m, bucket, words);
}

static int set_up(void **state)
{
	(void)state;
	mask = layout_unit_mask(TABLE_BYTES);
	return 0;
}

static void test_how_many_there_is_room_for(void **state)
{
	struct mirror *m;

	(void)state;
	assert_null(mirror_new(0));
	assert_null(mirror_new(LINE_BYTES - 1));
	for (unsigned lines = 1; lines < 40; lines++) {
		m = mirror_new(lines * LINE_BYTES + (lines % 2 ? 0 : LINE_BYTES - 1));
		assert_non_null(m);
		assert_int_equal(mirror_buckets_max(m), lines);
		for (unsigned i = 0; i < lines; i++)
			store(m, i, i);
		for (unsigned i = 0; i < lines; i++)
			assert_int_equal(find(m, i, i), entry_of(i));
		store(m, lines, lines); /* there is no other place than the first one's */
		assert_int_equal(find(m, lines, lines), entry_of(lines));
		assert_int_equal(find(m, 0, 0), 0);
		store(m, 0, 0);
		mirror_clear(m);
		for (unsigned i = 0; i <= lines; i++)
			assert_int_equal(find(m, i, i), 0);
		mirror_delete(m);
		assert_int_equal(mapped, 0);
	}
	no_memory = true;
	assert_null(mirror_new(LINE_BYTES));
	no_memory = false;
	assert_int_equal(mirror_buckets_max(NULL), 0);
	mirror_clear(NULL);
	mirror_delete(NULL);
}

/* Numbers of any length have their place, and its neighbours are others'. */
static void test_large_numbers(void **state)
{
	static const uint64_t of[] = { UINT32_MAX - 1, UINT32_MAX, 1ull << 32, (1ull << 32) + 1,
				       (7ull << 32) - 1, 1ull << 40, 0x123456789abull };
	struct mirror *m = mirror_new(1000 * LINE_BYTES);

	(void)state;
	for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
		mirror_clear(m);
		for (unsigned k = 0; k < 1000; k++)
			store(m, of[i] + k, k);
		for (unsigned k = 0; k < 1000; k++)
			assert_int_equal(find(m, of[i] + k, k), entry_of(k));
		assert_int_equal(find(m, of[i] + 1000, 0), 0);
	}
	mirror_delete(m);
}

/* ------------------------------------------------------------------ words */

/* A bucket is begun where nobody else's is. */
static void test_words(void **state)
{
	struct mirror *m = mirror_new(10 * LINE_BYTES);

	(void)state;
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
		mirror_store_word(m, 3, i, entry_of(i));
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
		assert_int_equal(find(m, 3, i), entry_of(i));
	mirror_store_word(m, 3, LAYOUT_BUCKET_WORDS, entry_of(100));
	mirror_store_word(m, 4, LAYOUT_BUCKET_WORDS, entry_of(100));
	assert_int_equal(find(m, 4, 100), 0);
	mirror_store_word(m, 13, 5, entry_of(100)); /* of the same place */
	assert_int_equal(find(m, 13, 100), 0);
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
		assert_int_equal(find(m, 3, i), entry_of(i));
	/* The others of its group of four stay. */
	mirror_store_word(m, 3, 5, entry_of(200));
	mirror_store_word(m, 3, 6, 0);
	assert_int_equal(find(m, 3, 4), entry_of(4));
	assert_int_equal(find(m, 3, 5), 0);
	assert_int_equal(find(m, 3, 200), entry_of(200));
	assert_int_equal(find(m, 3, 6), 0);
	assert_int_equal(find(m, 3, 7), entry_of(7));
	mirror_store_word(NULL, 3, 5, entry_of(200));
	mirror_prefetch_word(NULL, 3, 5);
	mirror_prefetch_word(m, 3, 5);
	mirror_delete(m);
}

/* Either bucket, the first one first.  Of two fingerprints that differ only where the location has no
 * bits each is its own. */
static void test_which_entry(void **state)
{
	const uint64_t both[2] = { 1, 2 }, high = layout_fp_mask(mask) & LAYOUT_LOC_MASK;
	uint64_t fp = fp_of(5), other = fp ^ (high & -high), first = layout_word(7, 1, fp),
		 second = layout_word(8, 1, fp), near = layout_word(9, 1, other);
	struct mirror *m = mirror_new(10 * LINE_BYTES);

	(void)state;
	assert_true(high != 0);
	mirror_store_word(m, 2, 0, second);
	assert_int_equal(mirror_find(m, both, mask, fp), second);
	mirror_store_word(m, 1, 1, near);
	assert_int_equal(mirror_find(m, both, mask, fp), second);
	mirror_store_word(m, 1, 2, first);
	assert_int_equal(mirror_find(m, both, mask, fp), first);
	assert_int_equal(mirror_find(m, both, mask, other), near);
	assert_int_equal(mirror_find(NULL, both, mask, fp), 0);
	mirror_delete(m);
}

/* ------------------------------------------------------------------ nodes */

/* A link to a node, of such a generation, behind which these two may be. */
static uint64_t link_of(uint64_t unit, unsigned generation, uint64_t a, uint64_t b)
{
	return layout_link(unit, generation) | layout_filter(fp_of(a), mask) | layout_filter(fp_of(b), mask);
}

static void store_node(struct mirror *m, uint64_t link, unsigned slot, uint64_t word, uint64_t next)
{
	uint64_t words[LAYOUT_NODE_WORDS] = { 0 };

	words[slot] = word;
	words[LAYOUT_NODE_WORDS - 1] = next ? next : words[LAYOUT_NODE_WORDS - 1];
	mirror_store_node(m, mask, link, words);
}

/* Whatever its filter and its place's epoch are by now, a node is the same; of another generation it is
 * another. */
static void test_a_node_has_a_name(void **state)
{
	struct mirror *m = mirror_new(100 * LINE_BYTES);
	uint64_t link = link_of(777, 3, 1, 1), full = link_of(777, 3, 1, 2) | 5ull << LAYOUT_EPOCH_SHIFT;

	(void)state;
	store_node(m, link, 3, entry_of(1), 0);
	mirror_store_word(m, 0, LAST, full);
	assert_int_equal(find(m, 0, 1), entry_of(1));
	mirror_store_word(m, 0, LAST, link_of(777, 4, 1, 2));
	assert_int_equal(find(m, 0, 1), 0);
	mirror_store_word(m, 0, LAST, link_of(778, 3, 1, 2));
	assert_int_equal(find(m, 0, 1), 0);
	/* The filter says that it is not there. */
	mirror_store_word(m, 0, LAST, layout_link(777, 3));
	assert_int_equal(find(m, 0, 1), 0);
	mirror_delete(m);
}

/* Three nodes are gone through, not four; where one is missing nothing is found behind it. */
static void test_a_chain(void **state)
{
	struct mirror *m = mirror_new(1000 * LINE_BYTES);
	uint64_t link[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		link[i] = link_of(500 + i, i, 3, 4);
	mirror_store_word(m, 0, LAST, link[0]);
	store_node(m, link[2], 0, entry_of(3), link[3]);
	store_node(m, link[3], 0, entry_of(4), 0);
	store_node(m, link[1], 0, entry_of(8), link[2]);
	assert_int_equal(find(m, 0, 3), 0);
	store_node(m, link[0], 0, entry_of(9), link[1]);
	assert_int_equal(find(m, 0, 3), entry_of(3));
	assert_int_equal(find(m, 0, 4), 0);
	mirror_delete(m);
}

/* Nodes are kept in mirrors of any size, within them. */
static void test_nodes_of_small_mirrors(void **state)
{
	(void)state;
	for (unsigned lines = 1; lines < 40; lines++) {
		struct mirror *m = mirror_new(lines * LINE_BYTES);
		unsigned part = lines / 8 + 1;

		for (unsigned unit = part; unit < 2 * part; unit++)
			store_node(m, link_of(unit, 0, unit, unit), 2, entry_of(unit), 0);
		for (unsigned unit = part; unit < 2 * part && lines > 1; unit++) {
			mirror_store_word(m, 0, LAST, link_of(unit, 0, unit, unit));
			assert_int_equal(find(m, 0, unit), entry_of(unit));
		}
		/* Buckets before the last part keep their places. */
		for (unsigned i = 0; i < lines - part; i++)
			store(m, i, i);
		for (unsigned unit = part; unit < 2 * part; unit++)
			store_node(m, link_of(unit, 1, unit, unit), 2, entry_of(unit), 0);
		for (unsigned i = 0; i < lines - part; i++)
			assert_int_equal(find(m, i, i), entry_of(i));
		mirror_delete(m);
	}
	assert_int_equal(mapped, 0);
}

/* Neither an empty word nor a link is an entry, whatever its fingerprint. */
static void test_what_is_no_entry(void **state)
{
	struct mirror *m = mirror_new(LINE_BYTES);
	uint64_t words[LAYOUT_BUCKET_WORDS] = { 0 }, fp = fp_of(6);
	const uint64_t both[2] = { 0, 0 };

	(void)state;
	words[0] = fp & ~LAYOUT_LOC_MASK;  /* empty */
	words[1] = layout_word(99, 0, fp); /* a link */
	mirror_store(m, 0, words);
	assert_int_equal(mirror_find(m, both, mask, fp), 0);
	mirror_delete(m);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_how_many_there_is_room_for),
		TEST(test_large_numbers),
		TEST(test_words),
		TEST(test_which_entry),
		TEST(test_a_node_has_a_name),
		TEST(test_a_chain),
		TEST(test_nodes_of_small_mirrors),
		TEST(test_what_is_no_entry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
