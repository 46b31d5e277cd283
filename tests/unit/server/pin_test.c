/* SPDX-License-Identifier: BSD-2-Clause */
/* server/store/item/pin.h and server/worker/request/pinned.h: what is READ stays, within
 * limits of memory and time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/table/heap.h"
#include "server/worker/request/pinned.h"
#include "tests/lib/fixture.h"

#define TABLE_BYTES (64ull << 20)
#define LONG_BYTES (1u << 20)

static struct fixture f;
static struct store_worker *w;
static struct pinned_list list;
static uint8_t *value;

static int set_up(void **state)
{
	(void)state;
	fixture_new(&f, TABLE_BYTES, 2);
	w = &f.worker[0];
	pinned_init(&list);
	value = malloc(LAYOUT_VALUE_BYTES_MAX >> 4);
	memset(value, 'v', LAYOUT_VALUE_BYTES_MAX >> 4);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fixture_delete(&f);
	free(value);
	return 0;
}

static void put(const char *key, size_t bytes)
{
	assert_int_equal(fixture_put(w, key, strlen(key), value, bytes, 0, NULL), WIRE_OK);
}

static void remove_key(struct store_worker *by, const char *key)
{
	assert_int_equal(fixture_remove(by, key, strlen(key)), WIRE_OK);
}

static struct store_change key_of(const char *key)
{
	return (struct store_change){
		.hash = hash_key(f.table->hash_seed, key, strlen(key)),
		.key = key,
		.key_bytes = (unsigned)strlen(key),
	};
}

static struct layout_item *read_key(struct pinned *p, const char *key, uint64_t now_ns)
{
	struct store_change c = key_of(key);
	struct store_result r = { 0 };

	assert_int_equal(pinned_take(&list, w, p, &c, &r, now_ns), WIRE_OK);
	assert_int_equal(p->version, r.version);
	return item_at(f.store, r.word);
}

static uint64_t dead_bytes(void)
{
	return pins_dead_bytes(f.store->pins);
}

static void expect_whole(const struct layout_item *item, uint64_t version)
{
	if (layout_state_version(item->state) != version ||
	    item->checksum != item_checksum(f.store, item, version))
		fail_msg("an item was freed while it was pinned");
}

static void test_life(void **state)
{
	struct pinned p = { 0 };

	(void)state;
	put("k", LONG_BYTES);
	const struct layout_item *item = read_key(&p, "k", 1);
	uint64_t version = p.version;
	expect_whole(item, version);
	put("k", LONG_BYTES); /* elsewhere: the former stays */
	expect_whole(item, version);
	assert_int_equal(dead_bytes(), item_bytes(item));
	pinned_end(&list, w, &p);
	assert_int_equal(dead_bytes(), 0);
	assert_int_equal(item->state, 0);
	pinned_end(&list, w, &p); /* once is enough */
	item = read_key(&p, "k", 1);
	pinned_end(&list, w, &p);
	expect_whole(item, layout_state_version(item->state)); /* it is the key's */
	assert_null(list.first);
}

static void test_two_readers(void **state)
{
	struct pinned a = { 0 }, b = { 0 };

	(void)state;
	put("k", LONG_BYTES);
	const struct layout_item *item = read_key(&a, "k", 1);
	read_key(&b, "k", 1);
	remove_key(&f.worker[1], "k");
	pinned_end(&list, w, &a);
	expect_whole(item, b.version);
	assert_int_equal(dead_bytes(), item_bytes(item));
	pinned_end(&list, w, &b);
	assert_int_equal(dead_bytes(), 0);
}

/* One a connection: the next takes the former's place. */
static void test_next(void **state)
{
	struct pinned p = { 0 };
	struct store_change none = key_of("none");
	struct store_result r;

	(void)state;
	put("a", LONG_BYTES);
	put("b", LONG_BYTES);
	read_key(&p, "a", 1);
	remove_key(w, "a");
	read_key(&p, "b", 1);
	assert_int_equal(dead_bytes(), 0);
	remove_key(w, "b");
	assert_true(dead_bytes() > LONG_BYTES);
	assert_int_equal(pinned_take(&list, w, &p, &none, &r, 1), WIRE_NOT_FOUND);
	assert_int_equal(dead_bytes(), 0);
	put("short", 100); /* it became short, between a look and the next */
	none = key_of("short");
	assert_int_equal(pinned_take(&list, w, &p, &none, &r, 1), STORE_ASIDE);
	assert_null(list.first);
}

static void test_time(void **state)
{
	struct pinned p[3] = { 0 };

	(void)state;
	put("k", LONG_BYTES);
	for (unsigned i = 0; i < 3; i++)
		read_key(&p[i], "k", 1 + i);
	remove_key(w, "k");
	pinned_end(&list, w, &p[1]);
	pinned_lapse(&list, w, PINNED_NS + 1);
	if (list.first != &p[2])
		fail_msg("an item is pinned for longer than its time");
	assert_true(dead_bytes() > LONG_BYTES);
	pinned_lapse(&list, w, PINNED_NS + 3);
	if (list.first || dead_bytes())
		fail_msg("an item is pinned for longer than its time");
	read_key(&p[0], (put("k", LONG_BYTES), "k"), 1); /* the list is whole */
	assert_ptr_equal(list.first, &p[0]);
	pinned_end(&list, w, &p[0]);
}

/* Over a sixteenth the memory is free at once, and readers are told by what they READ. */
static void test_limit(void **state)
{
	uint64_t limit = (f.table->bytes - f.table->heap_offset) / PIN_DEAD_PART;
	struct pinned p[16] = { 0 };
	char key[2] = "a";

	(void)state;
	for (unsigned i = 0; i < 16; i++, key[0]++) {
		put(key, LONG_BYTES);
		read_key(&p[i], key, 1);
	}
	for (key[0] = 'a'; key[0] < 'a' + 16; key[0]++)
		remove_key(w, key);
	assert_true(dead_bytes() > limit / 2);
	if (dead_bytes() > limit)
		fail_msg("readers pin more than a sixteenth of the memory");
	for (unsigned i = 0; i < 16; i++)
		pinned_end(&list, w, &p[i]);
	assert_int_equal(dead_bytes(), 0);
	/* One that is larger than all of that. */
	put("k", limit + 1);
	const struct layout_item *item = read_key(&p[0], "k", 1);
	remove_key(w, "k");
	assert_int_equal(dead_bytes(), 0);
	assert_int_equal(item->state, 0);
	pinned_end(&list, w, &p[0]);
}

/* Idle readers of a long value, and a cache that is full: the memory is the cache's. */
static void test_readers_cost_no_memory(void **state)
{
	struct pinned p[100] = { 0 };

	(void)state;
	put("k", 30u << 20);
	uint64_t used = table_used_bytes(f.table);
	for (unsigned i = 0; i < 100; i++)
		read_key(&p[i], "k", 1);
	if (table_used_bytes(f.table) != used)
		fail_msg("GETs by message take the table's memory");
	put("other", 20u << 20); /* there is room */
	for (unsigned i = 0; i < 100; i++)
		pinned_end(&list, w, &p[i]);
}

/* The key is free while it is READ, to all. */
static void test_no_mark(void **state)
{
	struct pinned p = { 0 };
	struct store_change c = key_of("k");
	struct store_result r;

	(void)state;
	put("k", LONG_BYTES);
	read_key(&p, "k", 1);
	if (store_remove(&f.worker[1], &c, &r) != WIRE_OK)
		fail_msg("a key can't be deleted while it is READ");
	pinned_end(&list, w, &p);
}

static void test_writer(void **state)
{
	struct pinned p = { 0 };
	struct pin a = { 0 }, b = { 0 };

	(void)state;
	put("k", 30u << 20);
	struct layout_item *item = read_key(&p, "k", 1);
	uint64_t version = p.version;
	assert_true(pin_take(f.store->pins, &a, item, PIN_WRITER));
	assert_false(pin_take(f.store->pins, &b, item, PIN_WRITER)); /* one at a time */
	assert_false(pin_is_lost(f.store->pins, &a));
	remove_key(w, "k");
	assert_true(pin_is_lost(f.store->pins, &a));
	expect_whole(item, version); /* over the limit, but a writer reads it */
	store_item_unpin(w, &a);
	assert_int_equal(item->state, 0); /* for readers alone it is too long */
	assert_int_equal(dead_bytes(), 0);
	assert_true(pin_is_lost(f.store->pins, &p.pin));
	pinned_end(&list, w, &p);
}

/* Compaction leaves it where it is. */
static void test_move(void **state)
{
	struct pinned p = { 0 };

	(void)state;
	put("k", 9000);
	const struct layout_item *item = read_key(&p, "k", 1);
	for (unsigned i = 0; i < 10; i++)
		assert_int_not_equal(fixture_move(w, "k", 1), STORE_MOVED);
	expect_whole(item, p.version);
	pinned_end(&list, w, &p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_life),  TEST(test_two_readers), TEST(test_next),
		TEST(test_time),  TEST(test_limit),	  TEST(test_readers_cost_no_memory),
		TEST(test_no_mark), TEST(test_writer),	  TEST(test_move),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
