/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvd --wipe: of what was deleted, expired, evicted, overwritten or moved no byte is left in
 * the table, which peers can READ.  And without it there is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/store/change/rmw.h"
#include "server/store/reclaim/evict.h"
#include "server/store/txn.h"
#include "server/table/heap.h"
#include "tests/lib/fixture.h"

#define TABLE_BYTES (16ull << 20)
#define SECRET 0xd7 /* each byte of a value that is to go */
#define OTHER 0x3c
#define BYTES_MAX 100000u

static struct fixture f;

/* The longest run of a secret's bytes in the table. */
static unsigned found(void)
{
	unsigned run = 0, longest = 0;

	for (uint64_t i = 0; i < f.table->bytes; i++) {
		run = f.table->base[i] == SECRET ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

static struct store_change change_of(const char *key)
{
	return (struct store_change){ .hash = hash_key(f.table->hash_seed, key, strlen(key)),
				      .key = key, .key_bytes = (unsigned)strlen(key) };
}

static void put(const char *key, uint8_t byte, unsigned bytes)
{
	static uint8_t value[BYTES_MAX];

	memset(value, byte, bytes);
	assert_int_equal(fixture_put(&f.worker[0], key, strlen(key), value, bytes, 0, NULL), WIRE_OK);
	assert_true(byte != SECRET || found() >= 20);
}

static void put_ttl(const char *key)
{
	uint8_t value[1000];
	struct store_change c = change_of(key);
	struct store_result r;

	memset(value, SECRET, sizeof value);
	c.value = value;
	c.value_bytes = sizeof value;
	c.with.expiry_ms = 1; /* over at once */
	assert_int_equal(store_put(&f.worker[0], &c, &r), WIRE_OK);
}

static void txn(enum wire_txn_kind kind, const char *key, uint8_t byte, unsigned bytes)
{
	uint8_t value[2000];
	struct txn_key k = { .kind = kind, .version = WIRE_TXN_ANY, .change = change_of(key) };
	uint64_t version;
	unsigned failed;

	memset(value, byte, sizeof value);
	k.change.value = value;
	k.change.value_bytes = bytes;
	assert_int_equal(txn_run(&f.worker[0], &k, 1, 0, &version, &failed), WIRE_OK);
}

static void delete(const char *key)
{
	assert_int_equal(fixture_remove(&f.worker[0], key, strlen(key)), WIRE_OK);
}

/* What each kind of change leaves, in turn. */
static void deleted(void)
{
	put("deleted", SECRET, 500);
	put("long", SECRET, BYTES_MAX);
	delete("deleted");
	delete("long");
}

static void overwritten(void)
{
	put("in place", SECRET, 100);
	put("in place", OTHER, 90); /* the same units: the rest, and the copy in the scratch */
	put("elsewhere", SECRET, 300);
	put("elsewhere", OTHER, 3000);
}

/* Only the head changes; its old one was copied with the value behind it. */
static void touched(void)
{
	static const char *const keys[] = { "touched", "touched long" };
	const struct wire_request q = { .op = WIRE_TOUCH };

	for (unsigned i = 0; i < 2; i++) {
		struct compute compute;
		struct store_change c = change_of(keys[i]);
		struct store_result r;

		put(keys[i], SECRET, i ? 10000 : 100);
		assert_true(compute_init(&compute, &q, NULL));
		c.compute = &compute;
		assert_int_equal(store_put(&f.worker[0], &c, &r), WIRE_OK);
		delete(keys[i]);
	}
}

static void expired(void)
{
	struct store_change c = change_of("expired");

	put_ttl("expired");
	assert_int_equal(store_expire(&f.worker[0], &c), WIRE_OK);
}

static void evicted(void)
{
	struct store_change c = change_of("evicted");

	put("evicted", SECRET, 2000);
	assert_int_equal(store_evict(&f.worker[0], &c), WIRE_OK);
}

static void moved(void)
{
	char key[32];

	for (unsigned i = 0; i < 4000; i++) {
		sprintf(key, "%u", i);
		put(key, OTHER, 200);
	}
	put("moved", SECRET, 200);
	for (unsigned i = 0; i < 1000; i++) { /* there is a place for it */
		sprintf(key, "%u", i);
		delete(key);
	}
	heap_trim(f.worker[0].heap);
	assert_int_equal(fixture_move(&f.worker[0], "moved", 5), STORE_MOVED);
	delete("moved");
}

static void of_transactions(void)
{
	txn(WIRE_TXN_PUT, "txn", SECRET, 900);
	txn(WIRE_TXN_PUT, "txn", OTHER, 1900);
	txn(WIRE_TXN_PUT, "gone", SECRET, 900);
	txn(WIRE_TXN_DELETE, "gone", OTHER, 0);
}

static void pinned(void)
{
	struct store_change c = change_of("pinned");
	struct store_result r;
	struct pin pin = { 0 };

	put("pinned", SECRET, 3 * PIN_ITEM_BYTES_MIN);
	assert_int_equal(store_pin(&f.worker[0], &c, &r, &pin), WIRE_OK);
	delete("pinned");
	store_item_unpin(&f.worker[0], &pin);
}

static void (*const kinds[])(void) = { deleted, overwritten, touched, expired, evicted, moved,
				       of_transactions, pinned };
static const char *const names[] = { "deleted", "overwritten", "touched", "expired", "evicted",
				     "moved", "of transactions", "pinned" };

static void test_nothing_is_left(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		fixture_new_wiping(&f, TABLE_BYTES, 1);
		kinds[i]();
		if (found() > 2)
			fail_msg("%u bytes of a value are left: %s", found(), names[i]);
		fixture_delete(&f);
	}
}

/* That this finds something: without it all of it is there. */
static void test_all_is_left_without(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		fixture_new(&f, TABLE_BYTES, 1);
		kinds[i]();
		if (found() < 20)
			fail_msg("nothing is found: %s", names[i]);
		fixture_delete(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_left),
		cmocka_unit_test(test_all_is_left_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
