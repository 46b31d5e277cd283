/* SPDX-License-Identifier: BSD-2-Clause */
/* server/store/rewrite.h: a long value is appended to and touched in bounded steps, and comes
 * to an end whatever others do to its key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/store/rewrite.h"
#include "tests/lib/fixture.h"

#define TABLE_BYTES (64ull << 20)
#define LONG_BYTES (5u << 20)
#define TAIL "the end"
#define TAIL_BYTES (sizeof TAIL - 1)
#define STEPS_MAX 100u

static struct fixture f;
static struct store_worker *w, *other;
static uint8_t *value;
static struct rewrite x;

static int set_up(void **state)
{
	(void)state;
	fixture_new(&f, TABLE_BYTES, 2);
	w = &f.worker[0];
	other = &f.worker[1];
	value = malloc(2 * LONG_BYTES);
	for (size_t i = 0; i < 2 * LONG_BYTES; i++)
		value[i] = (uint8_t)(i * 2654435761u >> 20);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_null(x.made.item);
	assert_null(x.pin.item);
	assert_int_equal(pins_dead_bytes(f.store->pins), 0);
	fixture_delete(&f);
	free(value);
	return 0;
}

static void put(size_t bytes)
{
	assert_int_equal(fixture_put(other, "k", 1, value, bytes, 0, NULL), WIRE_OK);
}

static struct store_change change(const void *tail, size_t bytes)
{
	return (struct store_change){ .hash = hash_key(f.table->hash_seed, "k", 1),
				      .key = "k", .key_bytes = 1,
				      .value = tail, .value_bytes = bytes };
}

static struct layout_item *item_of_key(void)
{
	struct store_change c = change(NULL, 0);
	struct store_result r = { 0 };

	assert_int_equal(store_head(w, &c, &r), WIRE_OK);
	return item_at(f.store, r.word);
}

/* What the key has is whole, and is `bytes` of value and then the tail. */
static void expect(size_t bytes, const void *tail, size_t tail_bytes)
{
	const struct layout_item *item = item_of_key();

	assert_int_equal(layout_value_bytes(item->lengths), bytes + tail_bytes);
	assert_int_equal(item->checksum,
			 item_checksum(f.store, item, layout_state_version(item->state)));
	assert_int_equal(item->state, layout_state(layout_state_version(item->state), LAYOUT_LIVE, 0));
	assert_memory_equal(item->data + 1, value, bytes);
	if (tail_bytes)
		assert_memory_equal(item->data + 1 + bytes, tail, tail_bytes);
}

/* Steps until it has ended; before each of them `between`, unless it is NULL. */
static int run(void (*between)(unsigned step))
{
	struct store_result r;
	int status = STORE_LONG;

	for (unsigned i = 0; status == STORE_LONG && i < STEPS_MAX; i++) {
		uint64_t before = x.done;
		if (between)
			between(i);
		status = rewrite_step(w, &x, &r);
		if (x.begun && x.done > before && x.done - before > REWRITE_STEP_BYTES)
			fail_msg("a step copies %llu bytes", (unsigned long long)(x.done - before));
	}
	return status;
}

static int append(const void *tail, size_t bytes, void (*between)(unsigned))
{
	const struct store_change c = change(tail, bytes);

	rewrite_init(&x, WIRE_APPEND, &c);
	return run(between);
}

static int touch(uint64_t expiry_ms, void (*between)(unsigned))
{
	struct store_change c = change(NULL, 0);

	c.with.expiry_ms = expiry_ms;
	rewrite_init(&x, WIRE_TOUCH, &c);
	return run(between);
}

/* store_put() does short ones only. */
static void test_long_ones_are_refused(void **state)
{
	static struct compute compute;
	struct store_change c = change(TAIL, TAIL_BYTES);
	struct wire_request q = { .op = WIRE_APPEND };
	struct store_result r;

	(void)state;
	compute_init(&compute, &q, NULL);
	c.compute = &compute;
	put(COMPUTE_BYTES_MAX - TAIL_BYTES);
	assert_int_equal(store_put(w, &c, &r), WIRE_OK);
	expect(COMPUTE_BYTES_MAX - TAIL_BYTES, TAIL, TAIL_BYTES);
	if (store_put(w, &c, &r) != STORE_LONG)
		fail_msg("a long value is appended to in one go");
	q.op = WIRE_TOUCH;
	put(COMPUTE_BYTES_MAX + 1);
	compute_init(&compute, &q, NULL);
	if (store_put(w, &c, &r) != STORE_LONG)
		fail_msg("a long value is hashed in one go");
}

static void test_append(void **state)
{
	static const size_t bytes[] = { 0, 1, 3000, 5000, LONG_BYTES };

	(void)state;
	for (unsigned i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
		put(bytes[i]);
		assert_int_equal(append(TAIL, TAIL_BYTES, NULL), WIRE_OK);
		expect(bytes[i], TAIL, TAIL_BYTES);
		put(bytes[i]);
		assert_int_equal(append(value + bytes[i], LONG_BYTES, NULL), WIRE_OK);
		expect(bytes[i] + LONG_BYTES, NULL, 0);
	}
	fixture_remove(w, "k", 1);
	assert_int_equal(append(value, LONG_BYTES, NULL), WIRE_OK); /* a new key */
	expect(LONG_BYTES, NULL, 0);
}

static void test_append_keeps_the_expiry(void **state)
{
	(void)state;
	put(LONG_BYTES);
	uint64_t expiry = store_clock_ms(f.store) + 1000000;
	assert_int_equal(touch(expiry, NULL), WIRE_OK);
	assert_int_equal(item_of_key()->expiry, expiry);
	assert_int_equal(append(TAIL, TAIL_BYTES, NULL), WIRE_OK);
	assert_int_equal(item_of_key()->expiry, expiry);
	expect(LONG_BYTES, TAIL, TAIL_BYTES);
}

static void test_touch(void **state)
{
	(void)state;
	assert_int_equal(touch(0, NULL), WIRE_NOT_FOUND);
	put(LONG_BYTES);
	const struct layout_item *before = item_of_key();
	uint64_t version = layout_state_version(before->state);
	assert_int_equal(touch(store_clock_ms(f.store) + 1000000, NULL), WIRE_OK);
	assert_ptr_equal(item_of_key(), before); /* where it was, with a new header */
	assert_true(layout_state_version(before->state) > version);
	expect(LONG_BYTES, NULL, 0);
}

static void test_refused(void **state)
{
	struct store_change c = change(TAIL, TAIL_BYTES);

	(void)state;
	put(LONG_BYTES);
	c.flags = WIRE_IF_VERSION;
	c.version = 1ull << 40;
	rewrite_init(&x, WIRE_APPEND, &c);
	assert_int_equal(run(NULL), WIRE_CONDITION);
	assert_int_equal(append(value, LAYOUT_VALUE_BYTES_MAX, NULL), WIRE_ETOOBIG);
	assert_int_equal(append(value, TABLE_BYTES - LONG_BYTES, NULL), WIRE_EMEMORY);
	expect(LONG_BYTES, NULL, 0);
}

/* -------------------------------------------------------------- with others */

static void delete_once(unsigned step)
{
	if (step == 3)
		assert_int_equal(fixture_remove(other, "k", 1), WIRE_OK);
}

static void put_once(unsigned step)
{
	if (step == 3)
		put(LONG_BYTES / 2);
}

static void put_short_once(unsigned step)
{
	if (step == 3)
		put(100);
}

static void put_always(unsigned step)
{
	if (step % 3 == 2)
		put(LONG_BYTES);
}

/* Its key is others' to change while it is under way, and what they did counts. */
static void test_another_change_is_faster(void **state)
{
	(void)state;
	put(LONG_BYTES);
	assert_int_equal(append(TAIL, TAIL_BYTES, delete_once), WIRE_OK);
	expect(0, TAIL, TAIL_BYTES);
	put(LONG_BYTES);
	assert_int_equal(append(TAIL, TAIL_BYTES, put_once), WIRE_OK);
	expect(LONG_BYTES / 2, TAIL, TAIL_BYTES);
	put(50); /* a short one is overwritten where it is */
	assert_int_equal(append(value + 100, LONG_BYTES, put_short_once), WIRE_OK);
	expect(100 + LONG_BYTES, NULL, 0);
	put(LONG_BYTES);
	assert_int_equal(touch(0, delete_once), WIRE_NOT_FOUND);
	fixture_remove(w, "k", 1);
	assert_int_equal(append(value + 100, LONG_BYTES, put_short_once), WIRE_OK);
	expect(100 + LONG_BYTES, NULL, 0);
}

static void test_others_are_always_faster(void **state)
{
	(void)state;
	put(LONG_BYTES);
	if (append(TAIL, TAIL_BYTES, put_always) != WIRE_EBUSY)
		fail_msg("an append is begun again for ever");
	expect(LONG_BYTES, NULL, 0);
}

static void touch_once(unsigned step)
{
	static struct compute compute;
	struct store_change c = change(NULL, 0);
	struct rewritten made = { .from = item_of_key() };
	struct wire_request q = { .op = WIRE_TOUCH };
	struct store_result r;

	if (step != 3)
		return;
	compute_init(&compute, &q, NULL);
	compute.made = &made; /* its hash is of no matter here */
	c.compute = &compute;
	c.with.expiry_ms = store_clock_ms(f.store) + 7000000;
	made.with = c.with;
	assert_int_equal(store_put(other, &c, &r), WIRE_OK);
}

static void test_a_touch_is_faster(void **state)
{
	(void)state;
	put(LONG_BYTES);
	assert_int_equal(append(TAIL, TAIL_BYTES, touch_once), WIRE_OK);
	expect(LONG_BYTES, TAIL, TAIL_BYTES);
	assert_true(item_of_key()->expiry > store_clock_ms(f.store) + 6000000);
}

/* Two of one item would only make each other begin again. */
static void test_one_at_a_time(void **state)
{
	static struct rewrite second;
	const struct store_change c = change(TAIL, TAIL_BYTES);
	struct store_result r;

	(void)state;
	put(LONG_BYTES);
	rewrite_init(&x, WIRE_APPEND, &c);
	rewrite_init(&second, WIRE_APPEND, &c);
	assert_int_equal(rewrite_step(w, &x, &r), STORE_LONG);
	assert_int_equal(rewrite_step(other, &second, &r), STORE_ASIDE);
	assert_int_equal(run(NULL), WIRE_OK);
	assert_int_equal(rewrite_step(other, &second, &r), STORE_LONG);
	rewrite_drop(other, &second);
	expect(LONG_BYTES, TAIL, TAIL_BYTES);
}

static void test_drop(void **state)
{
	struct store_change c = change(TAIL, TAIL_BYTES);
	struct store_result r;

	(void)state;
	put(LONG_BYTES);
	for (unsigned i = 0; i < 50; i++) { /* more than would fit */
		rewrite_init(&x, WIRE_APPEND, &c);
		assert_int_equal(rewrite_step(w, &x, &r), STORE_LONG);
		assert_int_equal(rewrite_step(w, &x, &r), STORE_LONG);
		rewrite_drop(w, &x);
	}
	expect(LONG_BYTES, NULL, 0);
}

/* Under a lock: with its token only, at its begin and at its end. */
static void test_lock(void **state)
{
	struct store_change c = change(TAIL, TAIL_BYTES);
	uint64_t stripe = layout_stripe(c.hash.b, f.table->stripes);
	struct store_result r;

	(void)state;
	put(LONG_BYTES);
	c.token = 77;
	atomic_store(&f.table->locks[stripe], 77);
	rewrite_init(&x, WIRE_APPEND, &c);
	for (unsigned i = 0; i < 1 + LONG_BYTES / REWRITE_STEP_BYTES + 1; i++)
		assert_int_equal(rewrite_step(w, &x, &r), STORE_LONG);
	atomic_store(&f.table->locks[stripe], 78);
	assert_int_equal(rewrite_step(w, &x, &r), STORE_ASIDE);
	expect(LONG_BYTES, NULL, 0);
	atomic_store(&f.table->locks[stripe], 77);
	assert_int_equal(rewrite_step(w, &x, &r), WIRE_OK);
	atomic_store(&f.table->locks[stripe], 0);
	expect(LONG_BYTES, TAIL, TAIL_BYTES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_long_ones_are_refused),
		TEST(test_append),
		TEST(test_append_keeps_the_expiry),
		TEST(test_touch),
		TEST(test_refused),
		TEST(test_another_change_is_faster),
		TEST(test_others_are_always_faster),
		TEST(test_a_touch_is_faster),
		TEST(test_one_at_a_time),
		TEST(test_drop),
		TEST(test_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
