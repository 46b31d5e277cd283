/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvd stopped at every single instruction while its index grows: readers find every key
 * that is there, by the index as it is, by a mirror, and by views of it that are old.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/lib/reader.h"
#include "tests/unit/server/stopped_kit.h"
#include "tests/unit/server/stopped_value.h"

#define FILL_MAX 120000u
#define MORE_MAX 500u /* keys, until it has grown */

static bool is_filled[FILL_MAX];

static void fill_one(unsigned i)
{
	uint8_t value[64];
	char key[32];
	size_t key_bytes = stopped_key(1000 + i, key);
	size_t bytes = stopped_make(stopped_id(i, 24 + i % 40), value);

	fixture_put(&stopped_store.worker[0], key, key_bytes, value, bytes, 0, NULL);
	is_filled[i] = true;
}

static unsigned filled;

static void work_on_growth(unsigned n)
{
	for (unsigned i = 0; i < n || (!stopped_shared->enough && i < MORE_MAX); i++) {
		stopped_shared->through = false;
		raise(SIGSTOP);
		fill_one(filled + i);
		stopped_shared->through = true;
		raise(SIGSTOP);
	}
}

/* Fill keys that have a place in the group that is expanded next. */
static unsigned keys_of_group(unsigned *list, unsigned n)
{
	struct layout_view v = layout_view(stopped_store.table->header->buckets);
	unsigned bits = LAYOUT_BASE_BITS + v.level, m = 0;
	char key[32];

	for (unsigned i = 0; i < n; i++) {
		if (i < filled && !is_filled[i])
			continue;
		size_t key_bytes = stopped_key(1000 + i, key);
		struct hash h = hash_key(stopped_store.table->hash_seed, key, key_bytes);
		if (h.a >> (64 - bits) == v.split || h.b >> (64 - bits) == v.split)
			list[m++] = i;
	}
	return m;
}

static void must_find(struct reader *r, unsigned i, const char *who)
{
	char key[32];
	uint8_t value[64];
	size_t key_bytes = stopped_key(1000 + i, key);
	struct reader_result got = reader_get(r, key, key_bytes, value, sizeof value);

	if (got.result != KVD_OK || stopped_id_of(value, got.value_bytes) != stopped_id(i, 24 + i % 40))
		fail_msg("%s: GET of key %u, which is there, ended with %d (%llu buckets)", who, i,
			 got.result, (unsigned long long)stopped_store.table->header->buckets);
}

/* Keys whose places are all in the first two groups: chains stand behind their buckets.
 * From which number on there are none. */
static unsigned fill_chains(void)
{
	unsigned n = 0;
	char key[32];

	for (unsigned found = 0; n < FILL_MAX / 2 && found < 160; n++) {
		struct hash h = hash_key(stopped_store.table->hash_seed, key, stopped_key(1000 + n, key));
		if (h.a >> (65 - LAYOUT_BASE_BITS) || h.b >> (65 - LAYOUT_BASE_BITS))
			continue;
		fill_one(n);
		found++;
	}
	return n;
}

static void watch_growth(unsigned fill, unsigned more)
{
	struct reader *plain = reader_new(stopped_store.table, 0, 1);
	struct reader *mirror = reader_new(stopped_store.table, 1 << 20, 2);
	struct reader *old = reader_new(stopped_store.table, 0, 3);
	unsigned *list = calloc(FILL_MAX, sizeof *list), n = 0;
	uint64_t buckets = 0, steps = 0, before = stopped_store.table->header->buckets;

	filled = fill;
	pid_t child = stopped_start(work_on_growth, more);
	for (unsigned k = 0; stopped_go_on(child, false) && !stopped_shared->end; k++) {
		while (!stopped_shared->through) {
			if (buckets != stopped_store.table->header->buckets) {
				buckets = stopped_store.table->header->buckets;
				n = keys_of_group(list, fill + k);
			}
			if (n)
				must_find(plain, list[stopped_roll(n)], "plain");
			if (n && !stopped_roll(4))
				must_find(mirror, list[stopped_roll(n)], "mirror");
			for (unsigned i = 0; n && i < 4; i++) {
				reader_forget(old, i ? LAYOUT_BUCKETS_MIN
						     : LAYOUT_BUCKETS_MIN +
							       stopped_roll(buckets - LAYOUT_BUCKETS_MIN + 1));
				must_find(old, list[stopped_roll(n)], "with an old view");
			}
			for (unsigned i = 0; i < n && steps % 512 == 0; i++)
				must_find(plain, list[i], "plain, all");
			assert_true(stopped_go_on(child, true));
			steps++;
		}
		stopped_shared->enough = stopped_store.table->header->buckets > before;
		assert_true(stopped_go_on(child, false));
	}
	print_message("%llu instructions, now %llu buckets, %llu overflow nodes\n",
		      (unsigned long long)steps, (unsigned long long)stopped_store.table->header->buckets,
		      (unsigned long long)index_overflow_nodes(stopped_store.store->index));
	stopped_must_reach("growths of the index", stopped_store.table->header->buckets - before, 1);
	free(list);
	reader_delete(plain);
	reader_delete(mirror);
	reader_delete(old);
}

static void grow_from(unsigned fill, unsigned more)
{
	stopped_begin(fill);
	memset(is_filled, 0, sizeof is_filled);
	for (unsigned i = 0; i < fill; i++)
		fill_one(i);
	watch_growth(fill, more);
	stopped_end();
}

static void test_growth_from_two_buckets_to_three(void **state)
{
	(void)state;
	grow_from(1770, stopped_scaled(30));
}

static void test_growth_from_three_buckets_to_four(void **state)
{
	(void)state;
	grow_from(2700, stopped_scaled(30));
}

static void test_growth_of_chains(void **state)
{
	(void)state;
	stopped_begin(1);
	memset(is_filled, 0, sizeof is_filled);
	unsigned n = fill_chains();
	print_message("%llu overflow nodes\n",
		      (unsigned long long)index_overflow_nodes(stopped_store.store->index));
	assert_true(index_overflow_nodes(stopped_store.store->index) > 5);
	while (index_keys(stopped_store.store->index) < 1657)
		fill_one(n++);
	assert_int_equal(index_buckets(stopped_store.store->index), LAYOUT_BUCKETS_MIN);
	watch_growth(n, stopped_scaled(30));
	stopped_end();
}

static void test_growth_of_a_later_level(void **state)
{
	(void)state;
	grow_from(3800, stopped_scaled(30));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_growth_from_two_buckets_to_three),
		cmocka_unit_test(test_growth_from_three_buckets_to_four),
		cmocka_unit_test(test_growth_of_chains),
		cmocka_unit_test(test_growth_of_a_later_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
