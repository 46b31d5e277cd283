/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/store/reclaim/clear.h: what is there at a time goes, by requests and by walks, and what is stored
 * later stays.  The test makes up the time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "common/hash.h"
#include "server/store/item/clock.h"
#include "server/store/reclaim/clear.h"
#include "tests/lib/fixture.h"

#define MS 1000000ull
#define S (1000 * MS)
#define TABLE_BYTES (32ull << 20)
#define KEYS 3000u
#define LONG_KEYS 2500u
#define STEPS_MAX 20000u

static struct fixture f;
static struct store_worker *w = &f.worker[0];
static uint64_t now_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ .tv_sec = (time_t)(now_ns / S), .tv_nsec = (long)(now_ns % S) };
	return 0;
}

/* ------------------------------------------------------------------------- keys */

static unsigned key_bytes_min;

/* Of key_bytes_min bytes at the least. */
static const char *name_of(unsigned i)
{
	static char name[LAYOUT_KEY_BYTES_MAX + 1];
	int n = snprintf(name, sizeof name, "%u", i);

	if ((unsigned)n < key_bytes_min) {
		memset(name + n, 'x', key_bytes_min - (unsigned)n);
		name[key_bytes_min] = '\0';
	}
	return name;
}

static struct store_change change_of(const char *key)
{
	return (struct store_change){ .hash = hash_key(f.table->hash_seed, key, strlen(key)),
				      .key = key, .key_bytes = (unsigned)strlen(key) };
}

static void put(unsigned i)
{
	const char *key = name_of(i);

	assert_int_equal(fixture_put(w, key, strlen(key), "value", 5, 0, NULL), WIRE_OK);
}

static void put_all(unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		put(i);
}

static bool has(unsigned i)
{
	const char *key = name_of(i);
	size_t bytes;
	char value[8];

	return fixture_get(w, key, strlen(key), value, sizeof value, &bytes, NULL) == WIRE_OK;
}

static unsigned keys_there(void)
{
	return (unsigned)index_keys(f.store->index);
}

static bool take(unsigned i)
{
	struct store_change c = change_of(name_of(i));

	return clear_key(w, &c);
}

static void lock(unsigned i, uint64_t token)
{
	atomic_store(&f.table->locks[layout_stripe(change_of(name_of(i)).hash.b, f.table->stripes)], token);
}

/* What is there now is to go. */
static void set_now(void)
{
	clear_set(f.store, store_clock_ms(f.store));
}

/* Steps until all is gone that is to go, or a pause; how many. */
static unsigned walk(void)
{
	unsigned steps = 0;

	while (clear_is_ready(f.store, now_ns)) {
		clear_step(w, now_ns);
		steps++;
		assert_true(steps < STEPS_MAX);
	}
	return steps;
}

/* ------------------------------------------------------------------------ tests */

static void test_due(void **state)
{
	const uint64_t at_ms = store_clock_ms(f.store) + 1000;

	(void)state;
	assert_false(clear_is_due(f.store));
	clear_set(f.store, at_ms);
	put(1);
	now_ns += 1000 * MS - 1;
	assert_false(clear_is_due(f.store));
	assert_false(clear_is_ready(f.store, now_ns));
	clear_step(w, now_ns);
	assert_true(has(1));
	now_ns++;
	assert_true(clear_is_due(f.store));
	assert_true(clear_is_ready(f.store, 0));
	clear_set(f.store, 0); /* nobody came by: it counts no more */
	assert_false(clear_is_due(f.store));
	clear_set(f.store, at_ms - 500);
	assert_true(take(1));
	assert_false(has(1));
	clear_set(f.store, 0); /* too late */
	assert_true(clear_is_due(f.store));
	put(1);
	walk();
	assert_false(clear_is_due(f.store));
	assert_true(has(1));
}

/* A request takes away what it is for, and what was there then. */
static void test_by_request(void **state)
{
	(void)state;
	put_all(0, 4);
	set_now();
	lock(1, 5);
	w->blocked = STORE_NOT_BLOCKED;
	assert_true(take(0));
	assert_false(take(1));
	assert_int_equal(w->blocked, layout_stripe(change_of("1").hash.b, f.table->stripes));
	assert_true(take(9)); /* which there is not */
	assert_int_equal(keys_there(), 3);
	put(0);
	put(2); /* it is another value now */
	for (unsigned i = 0; i < 2; i++) {
		assert_true(take(0));
		assert_true(take(2));
		assert_true(has(0));
		assert_true(has(2));
		assert_true(clear_is_due(f.store));
	}
	lock(1, 0);
	assert_true(take(1));
	assert_false(has(1));
	assert_true(has(3));
	/* Another time, before the first is done with. */
	set_now();
	assert_true(take(0));
	assert_false(has(0));
	walk();
	assert_int_equal(keys_there(), 0);
}

/* In steps: what comes meanwhile stays. */
static void test_by_steps(void **state)
{
	unsigned steps = 0, before;

	(void)state;
	put_all(0, KEYS);
	set_now();
	while (clear_is_ready(f.store, now_ns)) {
		before = keys_there();
		clear_step(w, now_ns);
		assert_true(before - keys_there() < KEYS / 10);
		put(KEYS + steps++ % 100);
		assert_true(steps < STEPS_MAX);
	}
	assert_false(clear_is_due(f.store));
	assert_true(steps > 10);
	assert_true(steps < 2 * index_buckets(f.store->index));
	assert_int_equal(keys_there(), steps < 100 ? steps : 100);
	for (unsigned i = 0; i < KEYS; i++)
		assert_false(has(i));
	walk();
	assert_true(has(KEYS));
}

/* Another time comes while a walk is under way: what it has passed is walked once more. */
static void test_again(void **state)
{
	(void)state;
	for (unsigned part = 2; part < 8; part++) {
		put_all(0, KEYS);
		set_now();
		unsigned whole = walk();
		put_all(0, KEYS);
		set_now();
		for (unsigned i = 0; i < whole - whole / part; i++)
			clear_step(w, now_ns);
		assert_true(keys_there() > 0);
		put_all(0, KEYS);
		set_now();
		walk();
		assert_false(clear_is_due(f.store));
		assert_int_equal(keys_there(), 0);
	}
}

/* What is locked goes when it is not: the walk has a rest behind each step that left something, and a
 * longer one before it begins again. */
static void test_locked(void **state)
{
	unsigned pauses = 0;

	(void)state;
	put_all(0, KEYS);
	for (unsigned i = 0; i < 3; i++)
		lock(i, 5);
	set_now();
	while (walk() && keys_there() > 3) {
		assert_true(clear_is_due(f.store));
		assert_false(clear_is_ready(f.store, now_ns));
		now_ns += 10 * MS;
		assert_true(clear_is_ready(f.store, now_ns) || keys_there() == 3);
		assert_true(++pauses <= 3);
	}
	assert_true(pauses > 0);
	assert_int_equal(keys_there(), 3);
	for (unsigned i = 0; clear_is_ready(f.store, now_ns + 10 * MS); i++) {
		now_ns += 10 * MS;
		walk();
		assert_true(i < 3);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_true(has(i));
		lock(i, 0);
	}
	assert_true(clear_is_due(f.store));
	now_ns += S;
	assert_true(walk() > 10);
	assert_int_equal(keys_there(), 0);
	assert_false(clear_is_due(f.store));
}

/* What a walk left is forgotten by that for another time. */
static void test_left_before(void **state)
{
	(void)state;
	put_all(0, KEYS);
	lock(1, 5);
	set_now();
	for (unsigned i = 0; i < STEPS_MAX && clear_is_ready(f.store, now_ns); i++)
		clear_step(w, now_ns);
	assert_true(has(1));
	lock(1, 0);
	put_all(0, KEYS);
	set_now();
	now_ns += S;
	walk();
	assert_false(clear_is_due(f.store));
	assert_int_equal(keys_there(), 0);
}

/* More keys in a bucket than a step takes, and all of them locked. */
static void test_long_keys(void **state)
{
	unsigned walks = 0;

	(void)state;
	key_bytes_min = 1000;
	put_all(0, LONG_KEYS);
	set_now();
	walk();
	assert_false(clear_is_due(f.store));
	assert_int_equal(keys_there(), 0);

	put_all(0, LONG_KEYS);
	for (unsigned i = 0; i < LONG_KEYS; i++)
		lock(i, 5);
	set_now();
	for (;; walks++) { /* it comes to the end all the same */
		walk();
		if (!clear_is_ready(f.store, now_ns + 10 * MS))
			break;
		now_ns += 10 * MS;
		assert_true(walks < STEPS_MAX);
	}
	assert_int_equal(keys_there(), LONG_KEYS);
	for (unsigned i = 0; i < LONG_KEYS; i++)
		lock(i, 0);
	now_ns += S;
	walk();
	assert_false(clear_is_due(f.store));
	assert_int_equal(keys_there(), 0);
}

static void test_delete(void **state)
{
	struct clear *clear;

	(void)state;
	assert_int_equal(clear_new(&clear), 0);
	clear_delete(&clear);
	assert_null(clear);
}

static int make(void **state)
{
	(void)state;
	now_ns = 1000 * S;
	key_bytes_min = 0;
	fixture_new(&f, TABLE_BYTES, 1);
	return 0;
}

static int unmake(void **state)
{
	(void)state;
	fixture_delete(&f);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make, unmake)
		CASE(test_due),
		CASE(test_by_request),
		CASE(test_by_steps),
		CASE(test_again),
		CASE(test_locked),
		CASE(test_left_before),
		CASE(test_long_keys),
		cmocka_unit_test(test_delete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
