/* SPDX-License-Identifier: BSD-2-Clause */
/* The index while it grows: every key is found, once, and every walk tells it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/lib/fixture.h"

static struct fixture f;
static uint64_t random_state = 1;

static uint64_t roll(uint64_t n)
{
	return fixture_random(&random_state) % n;
}

static size_t make_key(uint64_t i, char *key)
{
	return (size_t)sprintf(key, "%llu", (unsigned long long)i);
}

static int put(uint64_t i)
{
	char key[32];

	return fixture_put(&f.worker[0], key, make_key(i, key), &i, sizeof i, 0, NULL);
}

static bool find(uint64_t i, struct index_entry *e)
{
	struct index_spot spot;
	char key[32];
	size_t bytes = make_key(i, key);

	index_lock(f.store->index, hash_key(f.table->hash_seed, key, bytes), &spot);
	bool found = index_find(f.store->index, &spot, key, (unsigned)bytes, e);
	index_unlock(f.store->index, &spot);
	return found;
}

static void must_find_all(uint64_t n)
{
	struct index_entry e;

	for (uint64_t i = 0; i < n; i++)
		if (!find(i, &e))
			fail_msg("key %d of %d is lost with %d buckets", (int)i, (int)n,
				 (int)index_buckets(f.store->index));
}

/* ------------------------------------------------------------------------ walks */

struct seen {
	uint8_t *times;
	uint64_t n;
	unsigned left; /* keys until the walk is interrupted */
	unsigned others;
};

static bool see(void *arg, const struct layout_item *item)
{
	struct seen *s = arg;
	char text[32] = "";

	if (!s->left)
		return false;
	s->left--;
	memcpy(text, item->data, layout_key_bytes(item->lengths));
	uint64_t i = strtoull(text, NULL, 10);
	if (i < s->n)
		s->times[i]++;
	else
		s->others++;
	return true;
}

static void walk_all(struct seen *s)
{
	memset(s->times, 0, s->n);
	s->others = 0;
	s->left = UINT32_MAX;
	for (uint64_t b = 0; b < index_buckets(f.store->index); b++) {
		unsigned epoch = 0;
		index_walk(f.store->index, b, 0, &epoch, see, s);
	}
}

static void must_see_each_once(struct seen *s)
{
	walk_all(s);
	for (uint64_t i = 0; i < s->n; i++)
		assert_int_equal(s->times[i], 1);
	assert_int_equal(s->others, 0);
}

/* ------------------------------------------------------------------------ tests */

static void test_every_key_after_every_expansion(void **state)
{
	uint64_t buckets = 0, n = 5000;
	struct seen s = { .times = calloc(1, n) };

	(void)state;
	fixture_new(&f, 32 << 20, 1);
	for (uint64_t i = 0; i < n; i++) {
		assert_int_equal(put(i), WIRE_OK);
		if (buckets == index_buckets(f.store->index))
			continue;
		buckets = index_buckets(f.store->index);
		must_find_all(i + 1);
		s.n = i + 1;
		must_see_each_once(&s);
	}
	assert_true(buckets > 2 * LAYOUT_BUCKETS_MIN);
	assert_int_equal(index_keys(f.store->index), n);
	free(s.times);
	fixture_delete(&f);
}

static void test_load(void **state)
{
	uint64_t n = 300000;
	struct seen s = { .times = calloc(1, n), .n = n };
	double least = 1, sum = 0;

	(void)state;
	fixture_new(&f, 128 << 20, 1);
	for (uint64_t i = 0; i < n; i++) {
		assert_int_equal(put(i), WIRE_OK);
		double b = (double)index_buckets(f.store->index) * LAYOUT_BUCKET_WORDS;
		double all = b + (double)index_overflow_nodes(f.store->index) * LAYOUT_NODE_WORDS;
		sum += (double)i / all;
		if (i > 100000 && (double)i < least * all)
			least = (double)i / all;
		assert_true(i < 3000 || (double)i > 0.8 * b);
	}
	print_message("load with overflow nodes %.3f on average, at least %.3f above 100,000 keys\n",
		      sum / (double)n, least);
	assert_true(least > 0.80);
	must_find_all(n);
	must_see_each_once(&s);
	for (uint64_t i = 0; i < n; i += 2) {
		char key[32];
		assert_int_equal(fixture_remove(&f.worker[0], key, make_key(i, key)), WIRE_OK);
	}
	for (uint64_t i = 0; i < n; i++) {
		struct index_entry e;
		assert_int_equal(find(i, &e), i % 2);
	}
	free(s.times);
	fixture_delete(&f);
}

/* Keys that all have both places in the first two groups: they need long chains. */
static void test_chains(void **state)
{
	uint64_t *keys = calloc(300, sizeof *keys), n = 0, i = 0;
	struct index_entry e;
	char key[32];

	(void)state;
	fixture_new(&f, 32 << 20, 1);
	for (; n < 300; i++) {
		struct hash h = hash_key(f.table->hash_seed, key, make_key(i, key));
		if (h.a >> (65 - LAYOUT_BASE_BITS) || h.b >> (65 - LAYOUT_BASE_BITS))
			continue;
		assert_int_equal(put(i), WIRE_OK);
		keys[n++] = i;
	}
	assert_true(index_overflow_nodes(f.store->index) > 10);
	/* And with the others they are expanded. */
	for (uint64_t k = 0; index_buckets(f.store->index) < 300; k++) {
		uint64_t buckets = index_buckets(f.store->index);
		assert_int_equal(put(i + k), WIRE_OK);
		for (uint64_t j = 0; j < n && buckets != index_buckets(f.store->index); j++)
			assert_true(find(keys[j], &e));
	}
	for (uint64_t j = 0; j < n; j++)
		assert_int_equal(fixture_remove(&f.worker[0], key, make_key(keys[j], key)), WIRE_OK);
	for (uint64_t j = 0; j < n; j++)
		assert_false(find(keys[j], &e));
	free(keys);
	fixture_delete(&f);
}

/* ------------------------------------------------------------------ made keys */

#define MADE_BITS 7u /* of each hash, that all made keys share */

static bool share_place(struct hash h)
{
	return h.a >> (64 - MADE_BITS) == 5 && h.b >> (64 - MADE_BITS) == 5;
}

/*
 * Keys that somebody who knows the seed made to stand in one bucket, between keys of
 * others: those go on to find place, the index grows, and the load stays where it was.
 */
static void test_made_keys_do_not_stop_growth(void **state)
{
	static uint64_t made[2000];
	uint64_t n = 0, refused = 0, others = 1000000000, i = 0;
	struct index_entry e;
	char key[32];

	(void)state;
	fixture_new(&f, 64 << 20, 1);
	for (; n < 2000 && refused < 100; i++) {
		if (!share_place(hash_key(f.table->hash_seed, key, make_key(i, key))))
			continue;
		int status = put(i);
		if (status == WIRE_OK)
			made[n++] = i;
		else
			assert_int_equal(status, WIRE_ECROWDED);
		refused += status != WIRE_OK;
		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(put(others++), WIRE_OK);
	}
	assert_true(n > 200 && refused == 100);
	assert_int_equal(index_crowded(f.store->index), refused);
	while (others < 1000000000 + 200000)
		assert_int_equal(put(others++), WIRE_OK);
	assert_true(index_keys(f.store->index) * 100 >
		    LAYOUT_BUCKET_WORDS * index_buckets(f.store->index) * 78);
	for (uint64_t k = 0; k < n; k++)
		assert_true(find(made[k], &e));
	for (uint64_t k = 1000000000; k < others; k++)
		assert_true(find(k, &e));
	for (uint64_t k = 0; k < n; k++)
		assert_int_equal(fixture_remove(&f.worker[0], key, make_key(made[k], key)), WIRE_OK);
	fixture_delete(&f);
}

/* And without the seed nobody can make them: another one scatters them. */
static void test_a_seed_scatters_made_keys(void **state)
{
	unsigned made = 0, still = 0;
	char key[32];

	(void)state;
	for (uint64_t i = 0; made < 100; i++) {
		size_t bytes = make_key(i, key);
		if (!share_place(hash_key(1, key, bytes)))
			continue;
		made++;
		still += share_place(hash_key(2, key, bytes));
	}
	assert_true(still < 3);
}

/* A walk in pieces of some keys, as kvd answers it, while keys come and go. */
static void walk_in_pieces(struct seen *s, uint64_t *next)
{
	for (uint64_t b = 0; b < index_buckets(f.store->index); b++) {
		unsigned epoch = 0, skip = 0;
		do {
			s->left = 1 + (unsigned)roll(5);
			skip = index_walk(f.store->index, b, skip, &epoch, see, s);
			for (unsigned k = 0; k < 2; k++) {
				char key[32];
				put((*next)++);
				fixture_remove(&f.worker[0], key,
					       make_key(*next - 1 - roll(*next - s->n), key));
			}
		} while (!s->left);
	}
}

static void test_walks_miss_no_key(void **state)
{
	uint64_t n = 3000, next = n;
	struct seen s = { .times = calloc(1, n), .n = n };

	(void)state;
	fixture_new(&f, 64 << 20, 1);
	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(put(i), WIRE_OK);
	for (unsigned round = 0; round < 2; round++) {
		memset(s.times, 0, n);
		walk_in_pieces(&s, &next);
		for (uint64_t i = 0; i < n; i++)
			if (!s.times[i])
				fail_msg("a walk missed key %d, which was there all the while", (int)i);
	}
	assert_true(index_buckets(f.store->index) > 3 * LAYOUT_BUCKETS_MIN);
	free(s.times);
	fixture_delete(&f);
}

/* Without memory for the index to grow it goes on with chains; then it is full. */
static void test_no_memory(void **state)
{
	uint64_t n = 0;
	int status;

	(void)state;
	fixture_new(&f, TABLE_BYTES_MIN, 1);
	while ((status = put(n)) == WIRE_OK)
		n++;
	assert_int_equal(status, WIRE_EMEMORY);
	assert_true(n > 50000);
	must_find_all(n);
	for (uint64_t i = 0; i < 1000; i++) {
		char key[32];
		assert_int_equal(fixture_remove(&f.worker[0], key, make_key(i, key)), WIRE_OK);
	}
	for (uint64_t i = 0; i < 900; i++)
		assert_int_equal(put(i), WIRE_OK);
	fixture_delete(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_key_after_every_expansion),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_chains),
		cmocka_unit_test(test_made_keys_do_not_stop_growth),
		cmocka_unit_test(test_a_seed_scatters_made_keys),
		cmocka_unit_test(test_walks_miss_no_key),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
