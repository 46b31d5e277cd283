/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of deleted items serves other sizes again, and no other item is lost by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/clock.h"
#include "server/store/reclaim/compact.h"
#include "server/table/heap.h"
#include "tests/lib/fixture.h"

#define LONG_MAX 400000u

static struct fixture f;

static size_t make_key(uint64_t i, char *key)
{
	return (size_t)sprintf(key, "%llu", (unsigned long long)i);
}

static int put(uint64_t i, size_t bytes)
{
	static char value[LONG_MAX];
	char key[32];

	memset(value, (int)(i % 251), bytes);
	return fixture_put(&f.worker[i % f.workers], key, make_key(i, key), value, bytes, 0, NULL);
}

static void must_hold(uint64_t i, size_t want)
{
	static uint8_t value[LONG_MAX];
	char key[32];
	size_t bytes;

	assert_int_equal(fixture_get(&f.worker[0], key, make_key(i, key), value, sizeof value,
				     &bytes, NULL), WIRE_OK);
	assert_int_equal(bytes, want);
	for (size_t k = 0; k < bytes; k++)
		assert_int_equal(value[k], i % 251);
}

static uint64_t fill(uint64_t from, size_t bytes)
{
	uint64_t i = from;

	while (put(i, bytes) == WIRE_OK)
		i++;
	return i;
}

/* What a kvd's workers do: all steps of a round. */
static void run_round(void)
{
	unsigned steps = 0;
	bool due = true;

	while (due) {
		due = false;
		for (unsigned i = 0; i < f.workers; i++)
			if (compact_is_due(&f.worker[i])) {
				compact_step(&f.worker[i], clock_ns() + steps * 1000000ull);
				due = true;
			}
		assert_true(++steps < 1000000);
	}
}

static void test_refill(void **state)
{
	unsigned workers = *(const unsigned *)*state;
	uint64_t random = 5, n, deleted = 0, longer;
	char key[32];

	fixture_new(&f, 32 << 20, workers);
	n = fill(0, 100);
	uint8_t *gone = calloc(1, n);
	for (uint64_t i = 0; i < n; i++) {
		gone[i] = fixture_random(&random) & 1;
		if (gone[i])
			fixture_remove(&f.worker[0], key, make_key(i, key));
		deleted += gone[i];
	}
	for (unsigned i = 0; i < workers; i++)
		compact_join(&f.worker[i]);
	assert_true(compact_may_help(&f.worker[0]));
	run_round();
	struct compact_stats stats = compact_stats(f.store->compact);
	assert_true(stats.items > deleted / 4 && stats.freed_bytes > deleted * 100);
	for (unsigned i = 0; i < workers; i++)
		compact_leave(&f.worker[i]);
	longer = fill(1000000, 1000) - 1000000;
	print_message("%d of 100 bytes deleted, %d of 1,000 bytes stored\n", (int)deleted,
		      (int)longer);
	assert_true((double)longer * 1040 > 0.8 * (double)deleted * 140);
	for (uint64_t i = 0; i < n; i++)
		if (!gone[i])
			must_hold(i, 100);
	for (uint64_t i = 0; i < longer; i++)
		must_hold(1000000 + i, 1000);
	free(gone);
	fixture_delete(&f);
}

/* Where nothing was deleted nobody waits in vain. */
static void test_full_at_once(void **state)
{
	(void)state;
	fixture_new(&f, 32 << 20, 1);
	compact_join(&f.worker[0]);
	assert_true(fill(0, 100) > 1000);
	assert_false(compact_may_help(&f.worker[0]));
	assert_false(compact_is_due(&f.worker[0]));
	compact_leave(&f.worker[0]);
	fixture_delete(&f);
}

/* A locked key's item stays; all others go. */
static void test_locked(void **state)
{
	char key[32];
	uint64_t i;

	(void)state;
	fixture_new(&f, 32 << 20, 1);
	for (i = 0; i < 305; i++) /* some places are left in the last slab */
		assert_int_equal(put(i, 100), WIRE_OK);
	heap_trim(f.worker[0].heap); /* or it has all places */
	for (i = 0; i < 300; i++) {
		size_t bytes = make_key(i, key);
		uint64_t stripe = layout_stripe(hash_key(f.table->hash_seed, key, bytes).b, f.table->stripes);
		assert_int_equal(fixture_move(&f.worker[0], key, bytes), STORE_MOVED);
		atomic_store(&f.table->locks[stripe], 77);
		assert_int_equal(fixture_move(&f.worker[0], key, bytes), STORE_MOVED_NOT);
		atomic_store(&f.table->locks[stripe], 0);
		must_hold(i, 100);
	}
	fixture_delete(&f);
}

/* Items of whole pages: what they leave is in pieces, of which a longer one is made. */
static void test_long_items(void **state)
{
	unsigned workers = *(const unsigned *)*state;
	uint64_t n;
	char key[32];

	fixture_new(&f, 32 << 20, workers);
	n = fill(0, 60000);
	assert_true(n > 400);
	for (uint64_t i = 0; i < n; i += 3)
		fixture_remove(&f.worker[0], key, make_key(i, key));
	assert_int_equal(put(n, LONG_MAX), WIRE_EMEMORY); /* a piece has 60,000 */
	for (unsigned i = 0; i < workers; i++)
		compact_join(&f.worker[i]);
	assert_true(compact_may_help(&f.worker[0]));
	run_round();
	for (unsigned i = 0; i < 10; i++) /* an eighth of the table */
		assert_int_equal(put(n + i, LONG_MAX), WIRE_OK);
	for (unsigned i = 0; i < workers; i++)
		compact_leave(&f.worker[i]);
	for (uint64_t i = 0; i < n; i++)
		if (i % 3)
			must_hold(i, 60000);
	for (unsigned i = 0; i < 10; i++)
		must_hold(n + i, LONG_MAX);
	fixture_delete(&f);
}

int main(void)
{
	static unsigned one = 1, three = 3;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(test_refill, &one),
		cmocka_unit_test_prestate(test_refill, &three),
		cmocka_unit_test_prestate(test_long_items, &one),
		cmocka_unit_test_prestate(test_long_items, &three),
		cmocka_unit_test(test_full_at_once),
		cmocka_unit_test(test_locked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
