/* SPDX-License-Identifier: BSD-2-Clause */
/* server/store/reclaim/evict.h: keys that are locked stay, and nobody is said to wait for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/store/reclaim/evict.h"
#include "tests/lib/fixture.h"

#define TABLE_BYTES (16ull << 20)
#define VALUE_BYTES 8000u
#define KEYS 4000u /* twice as many as have room */
#define TOKEN 77u

static struct fixture f;

static int put(unsigned i)
{
	static const uint8_t value[VALUE_BYTES];
	char key[32];
	unsigned bytes = (unsigned)sprintf(key, "key%u", i);
	struct store_change c = { .hash = hash_key(f.table->hash_seed, key, bytes),
				  .key = key,
				  .key_bytes = bytes,
				  .value = value,
				  .value_bytes = sizeof value };
	struct store_result r;

	f.worker[0].blocked = STORE_NOT_BLOCKED;
	return store_put(&f.worker[0], &c, &r);
}

static void lock_all(uint64_t token)
{
	for (uint64_t i = 0; i < f.table->stripes; i++)
		atomic_store(&f.table->locks[i], token);
}

static uint64_t stripe_of(unsigned i)
{
	char key[32];
	unsigned bytes = (unsigned)sprintf(key, "key%u", i);

	return layout_stripe(hash_key(f.table->hash_seed, key, bytes).b, f.table->stripes);
}

/* Who holds a victim's lock would be looked at, and fenced when its lease is over. */
static void test_change_does_not_wait_for_a_victims_lock(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(put(i), WIRE_OK);
	assert_true(evict_count(f.store->evict) > 0);
	lock_all(TOKEN);
	atomic_store(&f.table->locks[stripe_of(KEYS)], 0);
	uint64_t before = evict_count(f.store->evict);
	int status = WIRE_OK;
	for (unsigned n = 0; n < 100 && status == WIRE_OK; n++)
		status = put(KEYS); /* its own stripe's keys may go */
	if (status == WIRE_OK)
		fail_msg("%lu keys went though they are locked",
			 (unsigned long)(evict_count(f.store->evict) - before));
	assert_int_equal(status, STORE_ASIDE);
	if (f.worker[0].blocked != STORE_NOT_BLOCKED)
		fail_msg("it is said to wait for the lock of a victim");

	/* The key's own lock it waits for. */
	atomic_store(&f.table->locks[stripe_of(KEYS)], TOKEN);
	assert_int_equal(put(KEYS), STORE_ASIDE);
	assert_int_equal(f.worker[0].blocked, stripe_of(KEYS));
	lock_all(0);
	assert_int_equal(put(KEYS), WIRE_OK);
}

static int setup(void **state)
{
	(void)state;
	fixture_new(&f, TABLE_BYTES, 1);
	return evict_new(f.store);
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
		cmocka_unit_test_setup_teardown(test_change_does_not_wait_for_a_victims_lock, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
