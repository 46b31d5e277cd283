/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/store/reclaim/evict.h: keys that are locked stay, and nobody is said to wait for them; a
 * long slab is emptied in steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/evict.h"
#include "tests/lib/fixture.h"

#define TABLE_BYTES (16ull << 20)
#define VALUE_BYTES 8000u
#define KEYS 4000u /* twice as many as have room */
#define TOKEN 77u
/* Of a class with long slabs: of so many slots, in 229 pages. */
#define LONG_SLOTS 57u
#define LONG_TABLE_BYTES (64ull << 20)
#define LONG_VALUE_BYTES 16384u
#define LONG_KEYS 8000u
#define STEP_SLOTS ((128u << 10) / (LONG_VALUE_BYTES + 48))
#define ANY_SIZE 4u /* that go before a slab does */
#define SMALL 1000000u
#define FILL 3000000u
#define SMALL_BYTES 100u

static struct fixture f;

static int put_bytes(unsigned i, size_t bytes)
{
	static const uint8_t value[LONG_VALUE_BYTES];
	char key[32];
	unsigned key_bytes = (unsigned)sprintf(key, "key%013u", i);
	struct store_change c = { .hash = hash_key(f.table->hash_seed, key, key_bytes),
				  .key = key,
				  .key_bytes = key_bytes,
				  .value = value,
				  .value_bytes = bytes };
	struct store_result r;

	f.worker[0].blocked = STORE_NOT_BLOCKED;
	return store_put(&f.worker[0], &c, &r);
}

static int put(unsigned i)
{
	int status = put_bytes(i, VALUE_BYTES);

	evict_round(&f.worker[0]);
	return status;
}

static void lock_all(uint64_t token)
{
	for (uint64_t i = 0; i < f.table->stripes; i++)
		atomic_store(&f.table->locks[i], token);
}

static uint64_t stripe_of(unsigned i)
{
	char key[32];
	unsigned bytes = (unsigned)sprintf(key, "key%013u", i);

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

/* -------------------------------------------------------------- long slabs */

static uint64_t gone(void)
{
	return evict_count(f.store->evict);
}

static size_t page_of_slab(void)
{
	return (size_t)(f.worker[0].emptying.slab.addr - (uint8_t *)region_page(f.table->region, 0)) /
	       REGION_PAGE_BYTES;
}

/* Until no page is left for short values. */
static void fill_up(void)
{
	uint64_t before = gone();

	for (unsigned i = 0; gone() == before; i++) {
		put_bytes(FILL + i, SMALL_BYTES / 2);
		evict_round(&f.worker[0]);
		assert_true(i < 100000);
	}
}

/*
 * A cache full of values in long slabs, where a short one finds no room and none of about its own
 * length that could go: one of them is being emptied.  The length of that value.
 */
static size_t begin_to_empty(void)
{
	struct store_worker *w = &f.worker[0];

	for (unsigned i = 0; i < LONG_KEYS; i++) {
		assert_int_equal(put_bytes(i, LONG_VALUE_BYTES), WIRE_OK);
		evict_round(w);
	}
	assert_true(gone() > LONG_KEYS / 4);
	for (size_t bytes = SMALL_BYTES; bytes < LONG_VALUE_BYTES / 4; bytes += bytes / 2) {
		fill_up();
		uint64_t before = gone();
		int status = put_bytes(SMALL, bytes);
		if (gone() - before > ANY_SIZE + STEP_SLOTS)
			fail_msg("a PUT removed %u items in one go", (unsigned)(gone() - before));
		if (evict_is_emptying(w) && w->emptying.slab.slots == LONG_SLOTS) {
			assert_int_equal(status, STORE_ASIDE);
			return bytes;
		}
		evict_round(w); /* it was one of the short slabs that the class began with */
	}
	fail_msg("no long slab was drawn");
	return 0;
}

/* Rounds until the slab is let go of. */
static unsigned go_on(void)
{
	unsigned rounds = 0;

	while (evict_is_emptying(&f.worker[0])) {
		uint64_t before = gone();
		assert_true(evict_is_due(&f.worker[0]));
		evict_round(&f.worker[0]);
		if (gone() - before > STEP_SLOTS)
			fail_msg("a round removed %u items", (unsigned)(gone() - before));
		assert_true(++rounds < 100);
	}
	return rounds;
}

static void test_a_long_slab_goes_in_steps(void **state)
{
	struct slab_held slab;

	(void)state;
	size_t bytes = begin_to_empty();
	size_t page = page_of_slab();
	/* No more in this round, however many there are that want it. */
	uint64_t before = gone();
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(put_bytes(SMALL + i, bytes), STORE_ASIDE);
	assert_int_equal(gone(), before);
	assert_in_range(go_on(), LONG_SLOTS / STEP_SLOTS - 1, LONG_SLOTS / STEP_SLOTS + 1);
	assert_false(slabs_look(f.table->slabs, page, &slab));
	print_message("the longest step %u us\n",
		      (unsigned)(compact_stats(f.store->compact).longest_ns / 1000));
	before = gone();
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(put_bytes(SMALL + i, bytes), WIRE_OK);
	assert_int_equal(gone(), before);
}

/* Nothing of it is taken again by its own class, of which keys come meanwhile. */
static void test_its_class_goes_on(void **state)
{
	struct slab_held slab;

	(void)state;
	size_t bytes = begin_to_empty();
	size_t page = page_of_slab();
	for (unsigned i = 0; evict_is_emptying(&f.worker[0]); i++) {
		put_bytes(LONG_KEYS + i, LONG_VALUE_BYTES);
		evict_round(&f.worker[0]);
		assert_true(i < 100);
	}
	assert_false(slabs_look(f.table->slabs, page, &slab));
	assert_int_equal(put_bytes(SMALL, bytes), WIRE_OK);
}

/* What can't go keeps its slab, which is its class' again. */
static void test_locked_items_keep_their_slab(void **state)
{
	struct slab_held slab;

	(void)state;
	size_t bytes = begin_to_empty();
	size_t page = page_of_slab();
	lock_all(TOKEN);
	uint64_t before = gone();
	go_on();
	assert_int_equal(gone(), before);
	assert_true(slabs_hold(f.table->slabs, page, &slab));
	assert_in_range(slab.taken, 1, slab.slots - 1);
	assert_false(slabs_release(f.table->slabs, &slab));
	lock_all(0);
	for (unsigned i = 0; put_bytes(SMALL, bytes) == STORE_ASIDE; i++) {
		evict_round(&f.worker[0]);
		assert_true(i < 100);
	}
}

/* A worker that ends leaves none behind that nobody could empty. */
static void test_a_worker_leaves(void **state)
{
	struct slab_held slab;

	(void)state;
	begin_to_empty();
	size_t page = page_of_slab();
	assert_false(slabs_hold(f.table->slabs, page, &slab));
	evict_leave(&f.worker[0]);
	assert_false(evict_is_emptying(&f.worker[0]));
	assert_true(slabs_hold(f.table->slabs, page, &slab));
	slabs_release(f.table->slabs, &slab);
}

/* ------------------------------------------------------------------ crowded buckets */

#define MADE_MAX 2000u

/* The next number whose key stands in the same two buckets as the others. */
static uint64_t next_made(uint64_t i)
{
	char key[32];

	for (;; i++) {
		size_t bytes = (size_t)sprintf(key, "%llu", (unsigned long long)i);
		struct hash h = hash_key(f.table->hash_seed, key, bytes);
		if (h.a >> 58 == 5 && h.b >> 58 == 5)
			return i;
	}
}

static int put_made(uint64_t i, uint64_t *stripe)
{
	char key[32];
	struct store_change c = { .key = key, .value = "v", .value_bytes = 1 };
	struct store_result r;

	c.key_bytes = (unsigned)sprintf(key, "%llu", (unsigned long long)i);
	c.hash = hash_key(f.table->hash_seed, key, c.key_bytes);
	*stripe = layout_stripe(c.hash.b, f.table->stripes);
	return store_put(&f.worker[0], &c, &r);
}

/* Keys of these buckets go, one for each that comes, and only once there is no other place. */
static void test_crowded_buckets(void **state)
{
	uint64_t i = next_made(0), n = 0, keys, stripe, gone;

	(void)state;
	assert_int_equal(fixture_put(&f.worker[0], "other", 5, "v", 1, 0, NULL), WIRE_OK);
	for (; !index_crowded(f.store->index) && n < MADE_MAX; i = next_made(i + 1), n++) {
		assert_int_equal(evict_count(f.store->evict), 0);
		assert_int_equal(put_made(i, &stripe), WIRE_OK);
	}
	assert_true(n > 50 && n < MADE_MAX);
	keys = index_keys(f.store->index);
	gone = evict_count(f.store->evict);
	assert_true(gone > 0);
	assert_int_equal(keys, 1 + n - gone);
	for (n = 0; n < 20; i = next_made(i + 1), n++)
		assert_int_equal(put_made(i, &stripe), WIRE_OK);
	assert_int_equal(index_keys(f.store->index), keys + 20 - (evict_count(f.store->evict) - gone));
	assert_true(evict_count(f.store->evict) > gone);

	/* While none may go, or one is on its way, it waits. */
	gone = evict_count(f.store->evict);
	f.worker[0].evictions = 1;
	while (put_made(i, &stripe) == WIRE_OK)
		i = next_made(i + 1);
	assert_int_equal(put_made(i, &stripe), STORE_ASIDE);
	f.worker[0].evictions = 0;
	lock_all(7);
	atomic_store(&f.table->locks[stripe], 0);
	assert_int_equal(put_made(i, &stripe), STORE_ASIDE);
	assert_int_equal(evict_count(f.store->evict), gone);
	lock_all(0);
	assert_int_equal(put_made(i, &stripe), WIRE_OK);
	assert_int_equal(evict_count(f.store->evict), gone + 1);
}

static int setup(void **state)
{
	(void)state;
	fixture_new(&f, TABLE_BYTES, 1);
	return evict_new(f.store);
}

static int setup_long(void **state)
{
	(void)state;
	fixture_new(&f, LONG_TABLE_BYTES, 1);
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
		cmocka_unit_test_setup_teardown(test_crowded_buckets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_long_slab_goes_in_steps, setup_long, teardown),
		cmocka_unit_test_setup_teardown(test_its_class_goes_on, setup_long, teardown),
		cmocka_unit_test_setup_teardown(test_locked_items_keep_their_slab, setup_long, teardown),
		cmocka_unit_test_setup_teardown(test_a_worker_leaves, setup_long, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
