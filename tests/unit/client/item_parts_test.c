/* SPDX-License-Identifier: BSD-2-Clause */
/* client/get/item.h: how much of an item is READ, and which bytes of its value are hashed as its parts arrive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/item.h"
#include "tests/unit/client/one_item.h"

#define LONG_BYTES 40000u
#define VERSION 7u

static uint64_t announced, hashed; /* bytes of a value */
static unsigned begins, ends;

void __wrap_value_hash_begin(struct value_hash *v, struct hasher *h, const struct pieces *pieces, uint64_t bytes);
void __wrap_value_hash_add(struct value_hash *v, uint64_t bytes);
void __wrap_value_hash_end(struct value_hash *v);

void __wrap_value_hash_begin(struct value_hash *v, struct hasher *h, const struct pieces *pieces, uint64_t bytes)
{
	(void)h;
	assert_ptr_equal(pieces, b->get.value);
	v->aside = 0;
	announced = bytes;
	hashed = 0;
	begins++;
}

void __wrap_value_hash_add(struct value_hash *v, uint64_t bytes)
{
	(void)v;
	hashed += bytes;
}

/* So much of it was done by the second thread. */
void __wrap_value_hash_end(struct value_hash *v)
{
	ends++;
	v->aside = 1000;
}

static int begin(void **state)
{
	announced = hashed = 0;
	begins = ends = 0;
	return set_up(state);
}

static struct get *plan(size_t room)
{
	const struct bytes_item item = { .unit = 4000, .key = KEY, .value = "value", .value_bytes = LONG_BYTES,
					 .kind = LAYOUT_LIVE, .version = VERSION };
	struct get *g = read_item(&item, room);

	assert_true(item_plan(g));
	assert_false(g->direct);
	item_plan_direct(g);
	return g;
}

/* Parts of these lengths, and one of the rest. */
static void post(struct get *g, const uint32_t *bytes, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		item_part_posted(g, bytes[i]);
	item_part_posted(g, (uint32_t)(g->length - g->posted));
	assert_int_equal(g->parts_posted, count + 1);
}

static void arrives(struct get *g, uint64_t so_far, unsigned ended)
{
	item_part_arrived(g);
	assert_true(g->summed);
	assert_int_equal(hashed, so_far);
	assert_int_equal(ends, ended);
}

/* The head is not of the value, nor is what fills the last unit. */
static void test_bytes_of_the_value_are_hashed(void **state)
{
	struct get *g = plan(BYTES_ROOM);
	const uint64_t head = get_head_bytes(g), aside = g->counters->hashed_aside_bytes;

	(void)state;
	assert_true(g->length > head + LONG_BYTES);
	post(g, (const uint32_t[]){ 20000, 10000 }, 2);
	arrives(g, 20000 - head, 0);
	assert_int_equal(announced, LONG_BYTES);
	arrives(g, 30000 - head, 0);
	arrives(g, LONG_BYTES, 1);
	assert_int_equal(begins, 1);
	assert_int_equal(g->counters->hashed_aside_bytes, aside + 1000);
	/* All of it, and then nothing of it. */
	item_plan_direct(g);
	assert_false(g->summed);
	assert_int_equal(g->posted + g->arrived + g->parts_posted + g->parts_arrived, 0);
	post(g, (const uint32_t[]){ (uint32_t)head + LONG_BYTES }, 1);
	arrives(g, LONG_BYTES, 1);
	arrives(g, LONG_BYTES, 2);
	assert_int_equal(g->counters->hashed_aside_bytes, aside + 2000);
	/* Of the head alone nothing. */
	item_plan_direct(g);
	post(g, (const uint32_t[]){ (uint32_t)head }, 1);
	arrives(g, 0, 2);
	arrives(g, LONG_BYTES, 3);
}

static void test_one_part_is_hashed_later(void **state)
{
	struct get *g = plan(BYTES_ROOM);

	(void)state;
	post(g, NULL, 0);
	item_part_arrived(g);
	assert_false(g->summed);
	assert_int_equal(begins + ends, 0);
	assert_int_equal(g->arrived, g->length);
}

/* There is room for all but a byte. */
static void test_what_has_room_is_hashed(void **state)
{
	struct get *g = plan(LONG_BYTES - 1);
	const uint64_t head = get_head_bytes(g);

	(void)state;
	assert_int_equal(g->length, head + LONG_BYTES - 1);
	post(g, (const uint32_t[]){ 20000 }, 1);
	arrives(g, 20000 - head, 0);
	assert_int_equal(announced, LONG_BYTES - 1);
	arrives(g, LONG_BYTES - 1, 1);
}

/* An entry tells an item's length so far: it is longer than what the next lower code tells. */
static void test_what_surely_has_no_room(void **state)
{
	struct get *g = plan(LONG_BYTES);
	const uint64_t head = get_head_bytes(g);
	const uint64_t least = layout_len_decode(layout_word_len_code(g->word) - 1);

	(void)state;
	g = plan(least - head);
	assert_int_equal(g->length, head);
	g = plan(least - head + 1);
	assert_int_equal(g->length, least + 1);
}

static void test_lengths_that_an_item_has(void **state)
{
	const unsigned longest = layout_len_encode(layout_item_bytes(LAYOUT_KEY_BYTES_MAX, LAYOUT_VALUE_BYTES_MAX));
	const unsigned shortest = layout_len_encode(sizeof(struct layout_item));
	struct get *g = bytes_get(b, KEY, 100);

	(void)state;
	g->direct = true;
	g->word = layout_word(4000, shortest, 0);
	assert_true(item_plan(g));
	assert_int_equal(g->length, layout_len_decode(shortest));
	assert_false(g->direct);
	g->word = layout_word(4000, longest, 0);
	assert_true(item_plan(g));
	assert_int_equal(g->length, layout_len_decode(longest));
	g->word = layout_word(4000, longest + 1, 0);
	assert_false(item_plan(g));
	g->word = layout_word(4000, 0, 0);
	assert_false(item_plan(g));
}

/* Who holds the lock takes a prepared item of the version it knows, and no torn one. */
static void test_torn_for_who_accepts_prepared(void **state)
{
	const struct bytes_item item = { .unit = 4000, .key = KEY, .value = "value", .value_bytes = 100,
					 .kind = LAYOUT_LIVE, .version = VERSION };
	struct get *g = read_item(&item, 100);
	const uint64_t retries = g->counters->retries;

	(void)state;
	g->accept_prepared = true;
	g->held_version = VERSION;
	b->memory.item[sizeof(struct layout_item) + sizeof KEY + 3] ^= 1;
	assert_int_equal(item_got(g), READ_ITEM);
	assert_int_equal(g->counters->retries, retries + 1);
	assert_int_equal(item_got_pinned(g), READ_PINNED);
	assert_int_equal(g->counters->retries, retries + 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_bytes_of_the_value_are_hashed),
		TEST(test_one_part_is_hashed_later),
		TEST(test_what_has_room_is_hashed),
		TEST(test_what_surely_has_no_room),
		TEST(test_lengths_that_an_item_has),
		TEST(test_torn_for_who_accepts_prepared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
