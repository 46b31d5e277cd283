/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/store: changes that come to nothing, as there is no memory for the index's entry, a record's
 * or a commit's, or a lock is in the way.  All keys are as they were, and all can be changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/hash.h"
#include "server/store/apply.h"
#include "server/store/change/rmw.h"
#include "server/store/item/stripe.h"
#include "server/store/txn.h"
#include "tests/lib/fixture.h"

#define TIMES 200 /* more items than there is room for in a page */
#define ADDED "a text that is added"

static struct fixture f;
static struct store_worker *w = &f.worker[0];
static uint64_t used, keys_before, value_bytes, committed;
static unsigned entries_left = ~0u; /* memory for so many */
static bool has_memory = true, forgets = true;

bool __real_index_insert(struct index *index, const struct index_spot *spot, uint64_t unit,
			 unsigned len_code, struct index_entry *entry);
bool __wrap_index_insert(struct index *index, const struct index_spot *spot, uint64_t unit,
			 unsigned len_code, struct index_entry *entry);
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
bool __wrap_durable_forget(struct durable *durable, const void *key, unsigned key_bytes);

bool __wrap_index_insert(struct index *index, const struct index_spot *spot, uint64_t unit,
			 unsigned len_code, struct index_entry *entry)
{
	if (!entries_left)
		return false;
	entries_left--;
	return __real_index_insert(index, spot, unit, len_code, entry);
}

void *__wrap_malloc(size_t bytes)
{
	return has_memory ? __real_malloc(bytes) : NULL;
}

bool __wrap_durable_forget(struct durable *durable, const void *key, unsigned key_bytes)
{
	(void)durable;
	(void)key;
	(void)key_bytes;
	return forgets;
}

/* ------------------------------------------------------------------------- keys */

static struct store_change change_of(const char *key, const char *value)
{
	return (struct store_change){ .hash = hash_key(f.table->hash_seed, key, strlen(key)),
				      .key = key, .key_bytes = (unsigned)strlen(key), .value = value,
				      .value_bytes = value ? strlen(value) : 0 };
}

static struct txn_key key_of(enum wire_txn_kind kind, const char *key)
{
	return (struct txn_key){ .kind = kind, .version = WIRE_TXN_ANY,
				 .change = change_of(key, kind == WIRE_TXN_PUT ? "new" : NULL) };
}

static uint64_t stripe_of(const char *key)
{
	return layout_stripe(change_of(key, NULL).hash.b, f.table->stripes);
}

static uint64_t put(const char *key, const char *value)
{
	struct store_change c = change_of(key, value);
	struct store_result r;

	assert_int_equal(store_put(w, &c, &r), WIRE_OK);
	return r.version;
}

static uint64_t state_of(const char *key)
{
	struct store_change c = change_of(key, NULL);

	return store_apply_find(f.store, c.hash, c.key, c.key_bytes)->state;
}

/* The key's value, live and without a mark; NULL: it has none. */
static void expect_key(const char *key, const char *value)
{
	uint64_t version;
	size_t bytes;
	char got[64];
	int rc = fixture_get(w, key, strlen(key), got, sizeof got, &bytes, &version);

	assert_int_equal(rc, value ? WIRE_OK : WIRE_NOT_FOUND);
	if (!value)
		return;
	assert_int_equal(bytes, strlen(value));
	assert_memory_equal(got, value, bytes);
	assert_int_equal(state_of(key), layout_state(version, LAYOUT_LIVE, 0));
}

static void note(void)
{
	used = table_used_bytes(f.table);
	keys_before = index_keys(f.store->index);
	value_bytes = f.store->value_bytes;
	committed = w->scratch->committed;
}

/* Nor is anything taken that was not before. */
static void expect_as_noted(void)
{
	assert_int_equal(table_used_bytes(f.table), used);
	assert_int_equal(index_keys(f.store->index), keys_before);
	assert_int_equal(f.store->value_bytes, value_bytes);
	assert_int_equal(w->scratch->committed, committed);
	assert_int_equal(w->commits, 0);
}

static void expect_free(const char *key)
{
	assert_true(stripe_mark(f.store, stripe_of(key)));
	stripe_unmark(f.store, stripe_of(key));
}

/* ----------------------------------------------------------------- transactions */

static int run(struct txn_key *keys, unsigned count, uint64_t token)
{
	uint64_t version;
	unsigned failed;

	return txn_run(w, keys, count, token, &version, &failed);
}

static void expect_before_txn(void)
{
	expect_key("a", "old");
	expect_key("b", NULL);
	expect_key("c", "old");
	expect_key("d", "old");
	expect_key("e", NULL);
	expect_key("f", "old, and longer");
}

static void test_txn(void **state)
{
	struct txn_key keys[6] = { key_of(WIRE_TXN_PUT, "a"), key_of(WIRE_TXN_PUT, "b"),
				   key_of(WIRE_TXN_CHECK, "c"), key_of(WIRE_TXN_DELETE, "d"),
				   key_of(WIRE_TXN_PUT, "f"), key_of(WIRE_TXN_PUT, "e") };

	(void)state;
	put("a", "old");
	put("c", "old");
	put("d", "old");
	put("f", "old, and longer");
	for (unsigned n = 0; n < 2; n++) {
		note();
		entries_left = n;
		assert_int_equal(run(keys, 6, 0), WIRE_EMEMORY);
		entries_left = ~0u;
		expect_as_noted();
		expect_before_txn();
	}
	assert_int_equal(run(keys, 6, 0), WIRE_OK);
	assert_true(w->scratch->committed > committed);
	expect_key("a", "new");
	expect_key("b", "new");
	expect_key("c", "old");
	expect_key("d", NULL);
	expect_key("e", "new");
	expect_key("f", "new");
	for (unsigned i = 0; i < 6; i++)
		expect_free(keys[i].change.key);
	note();
}

/* One that changes nothing, whatever stands behind its keys. */
static void test_txn_checks(void **state)
{
	struct txn_key keys[3] = { key_of(WIRE_TXN_CHECK, "a"), key_of(WIRE_TXN_DELETE, "none"),
				   key_of(WIRE_TXN_PUT, "b") };

	(void)state;
	put("a", "old");
	note();
	assert_int_equal(run(keys, 2, 0), WIRE_OK);
	expect_as_noted();
	expect_key("a", "old");
	expect_key("b", NULL);
}

static void lock(const char *key, uint64_t token)
{
	atomic_store(&f.table->locks[stripe_of(key)], token);
}

/* A lock of another one on any of its stripes; without any of its own its token is lost. */
static void test_txn_locked(void **state)
{
	static const char *const names[] = { "a", "b", "c" };
	struct txn_key keys[3];
	uint64_t token = 5, other = 6;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		keys[i] = key_of(WIRE_TXN_PUT, names[i]);
		put(names[i], "old");
	}
	note();
	for (unsigned i = 0; i < 3; i++) {
		lock(names[i], other);
		w->blocked = ~0ull;
		assert_int_equal(run(keys, 3, 0), STORE_ASIDE);
		assert_int_equal(w->blocked, stripe_of(names[i]));
		lock(names[(i + 1) % 3], token);
		assert_int_equal(run(keys, 3, token), STORE_ASIDE);
		lock(names[(i + 1) % 3], 0);
		lock(names[i], 0);
		expect_as_noted();
		for (unsigned k = 0; k < 3; k++) {
			expect_key(names[k], "old");
			expect_free(names[k]);
		}
	}
	assert_int_equal(run(keys, 3, token), STORE_ASIDE);
	expect_as_noted();
	for (unsigned i = 0; i < 3; i++) {
		lock(names[i], token);
		assert_int_equal(run(keys, 3, token), WIRE_OK);
		lock(names[i], 0);
	}
	expect_key("c", "new");
}

/* ------------------------------------------------------------------ single keys */

static void test_put(void **state)
{
	struct store_change c = change_of("k", "value");
	struct store_result r;

	(void)state;
	note();
	for (unsigned i = 0; i < TIMES; i++) {
		entries_left = 0;
		w->missing_bytes = 0;
		assert_int_equal(store_put(w, &c, &r), WIRE_EMEMORY);
		assert_int_equal(w->missing_bytes, LAYOUT_NODE_BYTES);
		entries_left = ~0u;
		expect_as_noted();
		expect_key("k", NULL);
		expect_free("k");
	}
	put("k", "value");
	expect_key("k", "value");
}

/* The caller's item stays the caller's, and is good for another try. */
static void test_put_item(void **state)
{
	struct store_change c = change_of("k", "value");
	struct store_result r;

	(void)state;
	c.item = store_item_new(w, "k", 1, 5, &(struct layout_attributes){ 0 });
	assert_non_null(c.item);
	memcpy(c.item->data, "kvalue", 6);
	note();
	entries_left = 0;
	assert_int_equal(store_put(w, &c, &r), WIRE_EMEMORY);
	entries_left = ~0u;
	expect_as_noted();
	uint64_t version = put("other", "x");
	assert_int_equal(store_put(w, &c, &r), WIRE_OK);
	assert_true(r.version > version);
	expect_key("k", "value");
	assert_int_equal(item_checksum(f.store, c.item, r.version), c.item->checksum);
}

static void test_computed(void **state)
{
	struct store_change c = change_of("k", NULL);
	struct wire_request q = { .op = WIRE_APPEND };
	static struct compute x;
	struct store_result r;

	(void)state;
	c.value = ADDED;
	c.value_bytes = strlen(c.value);
	assert_true(compute_init(&x, &q, c.value));
	c.compute = &x;
	note();
	for (unsigned i = 0; i < TIMES; i++) {
		entries_left = 0;
		assert_int_equal(store_put(w, &c, &r), WIRE_EMEMORY);
		entries_left = ~0u;
		expect_as_noted();
		expect_free("k");
	}
	assert_int_equal(store_put(w, &c, &r), WIRE_OK);
	expect_key("k", ADDED);
}

static void test_applied(void **state)
{
	struct durable_record record = { .key = "k", .key_bytes = 1, .value = "value",
					 .value_bytes = 5, .version = 77 };
	struct layout_item *item = store_apply_item(w, &record);

	(void)state;
	assert_non_null(item);
	note();
	entries_left = 0;
	assert_int_equal(store_apply_put(w, item), WIRE_EMEMORY);
	entries_left = ~0u;
	expect_as_noted();
	expect_free("k");
	store_item_delete(w, item);
	item = store_apply_item(w, &record);
	assert_int_equal(store_apply_put(w, item), WIRE_OK);
	expect_key("k", "value");
	assert_int_equal(layout_state_version(state_of("k")), 77);
}

static void expect_kept(int status, int expected)
{
	assert_int_equal(status, expected);
	expect_as_noted();
	expect_free("k");
	expect_key("k", "value");
}

static void test_removed(void **state)
{
	struct store_change c = change_of("k", NULL), none = change_of("none", NULL);
	struct store_result r;
	uint64_t version = put("k", "value");

	(void)state;
	note();
	expect_kept(store_expire(w, &c), WIRE_NOT_FOUND); /* its time is not over */
	expect_kept(store_expire(w, &none), WIRE_NOT_FOUND);
	expect_kept(store_clear(w, &c, version - 1), WIRE_NOT_FOUND);
	expect_free("none");
	f.store->durable = (struct durable *)&f;
	forgets = false;
	expect_kept(store_clear(w, &c, version), STORE_ASIDE);
	forgets = true;
	f.store->durable = NULL;
	f.store->waits = true;
	has_memory = false;
	int status = store_remove(w, &c, &r);
	has_memory = true;
	expect_kept(status, WIRE_EMEMORY);
	f.store->waits = false;
	assert_int_equal(store_clear(w, &c, version), WIRE_OK);
	expect_key("k", NULL);
}

/* With other members: a key that is gone before it is evicted. */
static void test_evicted(void **state)
{
	struct store_change none = change_of("none", NULL);

	(void)state;
	w->others = (void *)&f; /* nobody is asked */
	put("k", "value");
	note();
	expect_kept(store_evict(w, &none), WIRE_NOT_FOUND);
	expect_free("none");
	w->others = NULL;
}

/* ------------------------------------------------------------------------ group */

static int setup(void **state)
{
	(void)state;
	fixture_new(&f, 16 << 20, 1);
	put("short", "value"); /* so that what was taken for items of that size stays */
	put("long", ADDED);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixture_delete(&f);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		CASE(test_txn),
		CASE(test_txn_checks),
		CASE(test_txn_locked),
		CASE(test_put),
		CASE(test_put_item),
		CASE(test_computed),
		CASE(test_applied),
		CASE(test_removed),
		CASE(test_evicted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
