/* SPDX-License-Identifier: BSD-2-Clause */
/* server/store/txn.h: what a transaction leaves in the worker's scratch for its readers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/hash.h"
#include "server/store/txn.h"
#include "tests/lib/fixture.h"

static struct fixture f;

static int setup(void **state)
{
	(void)state;
	fixture_new(&f, 16 << 20, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixture_delete(&f);
	return 0;
}

static struct txn_key key_of(enum wire_txn_kind kind, const char *key, uint64_t version)
{
	return (struct txn_key){
		.kind = kind,
		.version = version,
		.change = { .hash = hash_key(f.table->hash_seed, key, strlen(key)),
			    .key = (const uint8_t *)key,
			    .key_bytes = (uint32_t)strlen(key),
			    .value = (const uint8_t *)"new",
			    .value_bytes = kind == WIRE_TXN_PUT ? 3 : 0 },
	};
}

static uint64_t put(const char *key)
{
	uint64_t version = 0;

	assert_int_equal(fixture_put(&f.worker[0], key, strlen(key), "old", 3, 0, &version), WIRE_OK);
	return version;
}

static int run(struct txn_key *keys, unsigned count)
{
	uint64_t version;
	unsigned failed;

	return txn_run(&f.worker[0], keys, count, 0, &version, &failed);
}

/* The entries that a reader would believe. */
static unsigned entries(void)
{
	const struct layout_txn *e = f.worker[0].scratch->txn;
	unsigned n = 0;

	for (unsigned i = 0; i < LAYOUT_TXN_KEYS_MAX; i++)
		n += e[i].commit && e[i].seal == hash_txn(&e[i]);
	return n;
}

/* A reader would take a key with an old item and no new one for deleted. */
static void test_a_checked_key_has_no_entry(void **state)
{
	struct txn_key keys[3];

	(void)state;
	keys[0] = key_of(WIRE_TXN_CHECK, "checked", put("checked"));
	keys[1] = key_of(WIRE_TXN_PUT, "put", put("put"));
	keys[2] = key_of(WIRE_TXN_DELETE, "absent", WIRE_TXN_ANY);
	assert_int_equal(run(keys, 3), WIRE_OK);
	assert_int_equal(entries(), 1);
	assert_int_equal(f.worker[0].scratch->txn[1].old_version, keys[1].version);

	keys[0] = key_of(WIRE_TXN_DELETE, "put", WIRE_TXN_ANY);
	keys[1] = key_of(WIRE_TXN_CHECK, "checked", WIRE_TXN_ANY);
	assert_int_equal(run(keys, 2), WIRE_OK);
	assert_int_equal(entries(), 1);
	assert_int_equal(f.worker[0].scratch->txn[0].new_unit, 0);
}

/* It is over at once, also while others of the worker wait for the disk. */
static void test_one_that_only_checks_is_not_published(void **state)
{
	uint64_t version = put("a"), before;
	struct txn_key keys[2] = { key_of(WIRE_TXN_PUT, "b", WIRE_TXN_ANY) };

	(void)state;
	assert_int_equal(run(keys, 1), WIRE_OK);
	before = f.worker[0].scratch->committed;
	assert_true(before > version);

	keys[0] = key_of(WIRE_TXN_CHECK, "a", version);
	keys[1] = key_of(WIRE_TXN_DELETE, "nothing", WIRE_TXN_ABSENT);
	assert_int_equal(run(keys, 2), WIRE_OK);
	assert_int_equal(f.worker[0].scratch->committed, before);
	assert_int_equal(entries(), 1); /* of the one before */

	/* Its marks are gone, and what it showed in the items. */
	assert_true(put("a") > before);
	keys[0] = key_of(WIRE_TXN_CHECK, "a", version);
	assert_int_equal(run(keys, 1), WIRE_CONDITION);
}

/* The version that the index leads to. */
static uint64_t version_of(const char *key)
{
	struct store_change c = key_of(WIRE_TXN_CHECK, key, 0).change;
	struct store_result r = { 0 };

	assert_int_equal(store_head(&f.worker[0], &c, &r), WIRE_OK);
	return r.version;
}

/* Place and version name one item: a sibling may move to where another one stood. */
static void test_each_key_has_a_version_of_its_own(void **state)
{
	const struct layout_txn *e = f.worker[0].scratch->txn;
	struct txn_key keys[4];
	uint64_t version, next;
	unsigned failed;

	(void)state;
	put("b");
	put("gone");
	keys[0] = key_of(WIRE_TXN_PUT, "a", WIRE_TXN_ABSENT);
	keys[1] = key_of(WIRE_TXN_DELETE, "gone", WIRE_TXN_ANY);
	keys[2] = key_of(WIRE_TXN_PUT, "b", WIRE_TXN_ANY);
	keys[3] = key_of(WIRE_TXN_PUT, "c", WIRE_TXN_ANY);
	assert_int_equal(txn_run(&f.worker[0], keys, 4, 0, &version, &failed), WIRE_OK);
	assert_int_equal(version_of("a"), version);
	assert_int_equal(version_of("b"), version + 1);
	assert_int_equal(version_of("c"), version + 2);
	assert_int_equal(f.worker[0].scratch->committed, version);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(e[i].commit, version);
	assert_int_equal(e[0].version, version);
	assert_int_equal(e[1].version, 0);
	assert_int_equal(e[3].version, version + 2);
	next = put("d");
	assert_true(next > version + 2);
}

/* What fails leaves no mark on a key, which would keep readers waiting, and no memory taken. */
static void test_one_that_fails_leaves_nothing(void **state)
{
	uint64_t version = put("one"), used;
	struct txn_key keys[2];

	(void)state;
	put("two");
	used = table_used_bytes(f.table);
	for (unsigned i = 0; i < 100; i++) {
		keys[0] = key_of(WIRE_TXN_PUT, "one", WIRE_TXN_ANY);
		keys[1] = key_of(WIRE_TXN_PUT, "two", WIRE_TXN_ABSENT);
		assert_int_equal(run(keys, 2), WIRE_CONDITION);
		assert_non_null(keys[0].old);
		assert_false(keys[0].old->state & LAYOUT_PENDING);
		/* There is no place for an item that no table could have. */
		keys[1] = key_of(WIRE_TXN_PUT, "two", WIRE_TXN_ANY);
		keys[1].change.value_bytes = 64u << 20;
		assert_int_equal(run(keys, 2), WIRE_EMEMORY);
		assert_false(keys[0].old->state & LAYOUT_PENDING);
		assert_int_equal(layout_state_version(keys[0].old->state), version);
	}
	assert_int_equal(table_used_bytes(f.table), used);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_checked_key_has_no_entry, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_that_only_checks_is_not_published, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_each_key_has_a_version_of_its_own, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_one_that_fails_leaves_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
