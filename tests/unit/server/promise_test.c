/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A change that waits for others has its place in the index before they are told: with many
 * under way as the memory comes to its end, none that others have can fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/hash.h"
#include "server/store/change/commit.h"
#include "server/store/item/item.h"
#include "server/store/put.h"
#include "server/store/txn.h"
#include "server/table/region.h"
#include "tests/lib/fixture.h"

#define UNDER_WAY 1500u
#define ITEMS 100000u

static struct fixture f;
static struct durable_op *under_way[UNDER_WAY];
static unsigned count;

/* The others, who have all of it when the test says so. */
static void submit(void *arg, struct durable_op *op)
{
	(void)arg;
	assert_true(count < UNDER_WAY);
	under_way[count++] = op;
}

static const struct store_others others = { .submit = submit };

static void all_have_it(void)
{
	struct store_result r;

	for (unsigned i = 0; i < count; i++) {
		under_way[i]->result = DURABLE_WRITTEN;
		assert_int_equal(commit_end(&f.worker[0], (struct commit *)under_way[i], &r), WIRE_OK);
	}
	count = 0;
}

static int setup(void **state)
{
	(void)state;
	fixture_new(&f, TABLE_BYTES_MIN, 1);
	f.worker[0].others = &others;
	f.store->waits = true;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixture_delete(&f);
	return 0;
}

static struct store_change change_of(uint64_t i, char *key)
{
	unsigned bytes = (unsigned)sprintf(key, "k%lu", (unsigned long)i);

	return (struct store_change){ .hash = hash_key(f.table->hash_seed, key, bytes), .key = key,
				      .key_bytes = bytes, .value = "v", .value_bytes = 1 };
}

static int put(uint64_t i)
{
	char key[32];
	struct store_change c = change_of(i, key);
	struct store_result r;

	return store_put(&f.worker[0], &c, &r);
}

static int put_two(uint64_t i)
{
	char key[2][32];
	struct txn_key k[2];
	uint64_t version;
	unsigned failed;

	for (unsigned j = 0; j < 2; j++)
		k[j] = (struct txn_key){ .kind = WIRE_TXN_PUT, .version = WIRE_TXN_ANY,
					 .change = change_of(2 * i + j, key[j]) };
	return txn_run(&f.worker[0], k, 2, 0, &version, &failed);
}

static void must_have(uint64_t n)
{
	char key[32], value[2];
	uint64_t version;
	size_t bytes;

	for (uint64_t i = 0; i < n; i++) {
		struct store_change c = change_of(i, key);
		assert_int_equal(fixture_get(&f.worker[0], key, c.key_bytes, value, sizeof value, &bytes,
					     &version), WIRE_OK);
	}
}

/* Puts until there is no memory, `at_once` under way; how many that were. */
static uint64_t fill(int (*put_next)(uint64_t), unsigned at_once)
{
	uint64_t n = 0;
	int status;

	for (;; n++) {
		status = put_next(n);
		if (status == STORE_ASIDE) { /* two keys of a stripe */
			all_have_it();
			status = put_next(n);
		}
		if (status != STORE_COMMIT)
			break;
		if (count == at_once)
			all_have_it();
	}
	assert_int_equal(status, WIRE_EMEMORY);
	all_have_it();
	assert_int_equal(f.worker[0].commits, 0);
	return n;
}

/*
 * Memory for items alone, as many as are made here and let go.  The index grows no further, and
 * the nodes behind its buckets come to their end.
 */
static void leave_items_only(void)
{
	static struct layout_item *item[ITEMS];
	const struct layout_attributes with = { 0 };
	size_t bytes = 4 << 20;

	for (unsigned i = 0; i < ITEMS; i++)
		assert_non_null(item[i] = store_item_new(&f.worker[0], "k", 1, 8, &with));
	for (; bytes >= REGION_PAGE_BYTES; bytes /= 2)
		while (region_alloc(f.table->region, bytes, REGION_PAGE_BYTES))
			;
	for (unsigned i = 0; i < ITEMS; i++) /* those that stay keep their slabs */
		if (i % 32)
			store_item_delete(&f.worker[0], item[i]);
}

/* It was of the index that memory came to its end, not of items. */
static void test_filled(int (*put_next)(uint64_t), unsigned at_once, unsigned keys_each)
{
	/* A few nodes, and then no memory for more. */
	assert_int_equal(put(~0ull), STORE_COMMIT);
	all_have_it();
	leave_items_only();
	uint64_t n = keys_each * fill(put_next, at_once);
	assert_true(index_overflow_nodes(f.store->index) > 300);
	assert_true(n > 5000);
	must_have(n);
	/* What finds a free word still has its place. */
	unsigned more = 0;
	for (uint64_t i = n + keys_each; i < n + 5000; i++) {
		more += put(i) == STORE_COMMIT;
		all_have_it();
	}
	print_message("%u keys, %u more of 5000, %u nodes\n", (unsigned)n, more,
		      (unsigned)index_overflow_nodes(f.store->index));
	assert_true(more > 100);
}

static void test_keys(void **state)
{
	(void)state;
	test_filled(put, UNDER_WAY, 1);
}

static void test_transactions(void **state)
{
	(void)state;
	test_filled(put_two, UNDER_WAY / 2, 2);
}

/* What is refused gives its place back. */
static void test_refused(void **state)
{
	struct store_result r;

	(void)state;
	for (uint64_t i = 0; i < 100000; i++) {
		assert_int_equal(put(i), STORE_COMMIT);
		under_way[0]->result = DURABLE_REFUSED;
		assert_int_equal(commit_end(&f.worker[0], (struct commit *)under_way[0], &r), WIRE_EDISK);
		count = 0;
	}
	assert_true(fill(put, UNDER_WAY) > 50000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_transactions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
