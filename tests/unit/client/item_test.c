/* SPDX-License-Identifier: BSD-2-Clause */
/* client/get/item.h and verify.h: what the bytes of an item mean for a GET. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/item.h"
#include "client/get/verify.h"
#include "common/clock.h"
#include "tests/unit/client/one_item.h"

#define UNIT 4000u
#define ITEM_VERSION 7u
#define TORN_MAX 8 /* as item.c has it */
#define LONG_BYTES 40000u

static struct bytes_item item_of(enum layout_kind kind)
{
	return (struct bytes_item){ .unit = UNIT,
				    .key = KEY,
				    .value = "value",
				    .value_bytes = 100,
				    .kind = kind,
				    .version = ITEM_VERSION };
}

static struct layout_item *in_table(void)
{
	return (struct layout_item *)(void *)(b->base + UNIT * LAYOUT_UNIT_BYTES);
}

static struct get *read_kind(enum layout_kind kind)
{
	const struct bytes_item item = item_of(kind);

	return read_item(&item, 100);
}

/* ------------------------------------------------------------------- kinds */

static void test_live(void **state)
{
	struct get *g = read_kind(LAYOUT_LIVE);

	(void)state;
	assert_int_equal(item_got(g), DELIVER);
	assert_memory_equal(verify_value(g), "valuevalue", 10);
}

static void test_kinds(void **state)
{
	static const struct {
		enum layout_kind kind;
		enum step step, from_mirror;
	} rows[] = {
		{ LAYOUT_DEAD, START_OVER, START_OVER },
		{ LAYOUT_LIVE, DELIVER, DELIVER },
		{ LAYOUT_DELETED, ABSENT, START_OVER },
		{ LAYOUT_UPDATING, READ_UPDATING, READ_UPDATING },
		{ LAYOUT_PREPARED, READ_PREPARED, READ_PREPARED },
		{ LAYOUT_OLD, READ_TXN, READ_TXN },
		{ LAYOUT_NEW, READ_TXN, READ_TXN },
		{ LAYOUT_INSERTING, ABSENT, ABSENT },
		{ 99, READ_ITEM, READ_ITEM }, /* no kind at all: torn */
	};

	(void)state;
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct get *g = read_kind(rows[i].kind);
		assert_int_equal(item_got(g), rows[i].step);
		g = read_kind(rows[i].kind);
		g->from_mirror = true;
		assert_int_equal(item_got(g), rows[i].from_mirror);
	}
}

/* ------------------------------------------------------------------- torn */

static void test_torn_then_whole(void **state)
{
	struct get *g = read_kind(LAYOUT_LIVE);

	(void)state;
	b->memory.item[40] ^= 1;
	assert_int_equal(item_got(g), READ_ITEM);
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(g), DELIVER);
	assert_int_equal(b->counters.retries, 1);
}

static void test_torn_for_ever(void **state)
{
	struct get *g = read_kind(LAYOUT_LIVE);

	(void)state;
	b->memory.item[40] ^= 1;
	for (unsigned i = 0; i < TORN_MAX; i++)
		assert_int_equal(item_got(g), READ_ITEM);
	assert_int_equal(item_got(g), START_OVER);
	g->torn = 0;
	g->from_mirror = true; /* perhaps there is no item at all */
	assert_int_equal(item_got(g), READ_ITEM);
	assert_int_equal(item_got(g), START_OVER);
}

/* Kinds that only say where to look are believed at once. */
static void test_torn_but_leads_elsewhere(void **state)
{
	struct get *g = read_kind(LAYOUT_DEAD);

	(void)state;
	b->memory.item[40] ^= 1;
	assert_int_equal(item_got(g), START_OVER);
	g = read_kind(LAYOUT_UPDATING);
	b->memory.item[40] ^= 1;
	assert_int_equal(item_got(g), READ_UPDATING);
	g = read_kind(LAYOUT_PREPARED); /* this one's version has to be right */
	b->memory.item[40] ^= 1;
	assert_int_equal(item_got(g), READ_ITEM);
}

static void test_longer_than_what_was_read(void **state)
{
	struct get *g = read_kind(LAYOUT_LIVE);

	(void)state;
	g->length -= LAYOUT_UNIT_BYTES;
	assert_int_equal(verify_item(g), ITEM_TORN);
	((struct layout_item *)(void *)b->memory.item)->lengths = ~0ull;
	assert_int_equal(verify_item(g), ITEM_TORN);
}

static void test_every_flipped_bit(void **state)
{
	const struct bytes_item item = item_of(LAYOUT_LIVE);
	struct get *g = read_item(&item, 100);
	uint64_t bytes = layout_item_bytes(strlen(KEY), item.value_bytes);

	(void)state;
	for (uint64_t bit = 0; bit < 8 * bytes; bit++) {
		if (bit >= 8 && bit < 16)
			continue; /* PENDING and the worker: in no checksum, and of no matter */
		b->memory.item[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(verify_item(g), ITEM_LIVE);
		b->memory.item[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(verify_item(g), ITEM_LIVE);
}

/* -------------------------------------------------------------- another key */

/* An item of another key, whose fingerprint is KEY's, or is not. */
static struct get *read_other(bool collides)
{
	uint64_t fp = get_fp(bytes_get(b, KEY, 100));
	struct bytes_item item = item_of(LAYOUT_LIVE);
	static char other[BYTES_KEY];

	fp ^= collides ? 0 : 1ull << LAYOUT_FP_SHIFT;
	bytes_find_key(other, "k", bytes_has_fp, &fp);
	item.key = other;
	return read_item(&item, 100);
}

static void test_collision(void **state)
{
	struct get *g = read_other(true);

	(void)state;
	assert_int_equal(item_got(g), NEXT_ENTRY);
	assert_int_equal(g->tried[0], get_entry(g->word));
	assert_true(g->doubt); /* it may have come after the entry was READ */
	g->doubt = false;
	g->tried_count = 0;
	assert_int_equal(item_got(g), NEXT_ENTRY);
	assert_false(g->doubt); /* it had been there before */
	g->tried_count = 0;
	assert_int_equal(item_got_other(g, ITEM_VERSION + 1), NEXT_ENTRY);
	assert_true(g->doubt); /* another version had not */
}

static void test_no_collision(void **state)
{
	(void)state;
	assert_int_equal(item_got(read_other(false)), START_OVER);
	struct get *g = read_other(true);
	g->from_mirror = true;
	assert_int_equal(item_got(g), START_OVER);
	g = read_other(true);
	g->tried_count = TRIED_MAX;
	assert_int_equal(item_got(g), START_OVER);
}

static void test_more_collisions_than_are_kept(void **state)
{
	struct get *g = read_other(true);

	(void)state;
	for (unsigned i = 0; i < 3 * TRIED_MAX; i++) {
		g->tried_count = 0;
		g->doubt = false;
		g->word = (g->word & ~LAYOUT_LOC_MASK) | (UNIT + i);
		assert_int_equal(item_got_other(g, ITEM_VERSION), NEXT_ENTRY);
		assert_true(g->doubt);
	}
	assert_int_equal(g->other_count, TRIED_MAX);
}

/* -------------------------------------------------------------- under a lock */

static void test_holder_waits_for_what_is_under_way(void **state)
{
	static const enum layout_kind kinds[] = { LAYOUT_UPDATING, LAYOUT_PREPARED,
						  LAYOUT_INSERTING, LAYOUT_OLD, LAYOUT_NEW };

	(void)state;
	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct get *g = read_kind(kinds[i]);
		g->locked = true;
		assert_int_equal(item_got(g), READ_ITEM);
	}
	struct get *g = read_kind(LAYOUT_LIVE);
	g->locked = true;
	b->memory.item[1] ^= LAYOUT_PENDING >> 8;
	assert_int_equal(item_got(g), READ_ITEM);
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(g), DELIVER);
	g->locked = false;
	b->memory.item[1] ^= LAYOUT_PENDING >> 8; /* others don't look at it */
	assert_int_equal(item_got(g), DELIVER);
}

/* ---------------------------------------------------------- pinned, prepared */

static struct get *read_pinned(enum layout_kind kind)
{
	struct get *g = read_kind(kind);

	g->step = READ_PINNED;
	g->held_version = ITEM_VERSION;
	return g;
}

/* What kvd pinned is the value, replaced or deleted as it may be since. */
static void test_pinned(void **state)
{
	static const enum layout_kind kinds[] = { LAYOUT_LIVE, LAYOUT_DEAD, LAYOUT_DELETED,
						  LAYOUT_OLD, LAYOUT_UPDATING };

	(void)state;
	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		assert_int_equal(item_got_pinned(read_pinned(kinds[i])), DELIVER);
	struct get *g = read_pinned(LAYOUT_DEAD);
	g->locked = true; /* no matter: kvd has looked */
	b->memory.item[1] ^= LAYOUT_PENDING >> 8;
	assert_int_equal(item_got_pinned(g), DELIVER);
	b->memory.item[40] ^= 1;
	for (unsigned i = 0; i < TORN_MAX; i++)
		assert_int_equal(item_got_pinned(g), READ_PINNED);
	assert_int_equal(item_got_pinned(g), ASK);
}

/* Its memory has been used again: nothing of it counts but what the key has there now. */
static void test_pinned_that_is_gone(void **state)
{
	static const enum layout_kind kinds[] = { LAYOUT_DEAD, LAYOUT_DELETED, LAYOUT_PREPARED,
						  LAYOUT_NEW, LAYOUT_OLD, LAYOUT_INSERTING };
	struct get *g;

	(void)state;
	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		g = read_pinned(kinds[i]);
		g->held_version--;
		if (item_got_pinned(g) != ASK)
			fail_msg("another version of kind %d is taken for what kvd pinned",
				 (int)kinds[i]);
	}
	g = read_pinned(LAYOUT_LIVE); /* with a new header, or written there since */
	g->held_version--;
	assert_int_equal(item_got_pinned(g), DELIVER);
	g = read_pinned(LAYOUT_UPDATING); /* the next header is on its way */
	g->held_version--;
	assert_int_equal(item_got_pinned(g), READ_PINNED);
	g = read_other(false);
	g->step = READ_PINNED;
	g->held_version = ITEM_VERSION;
	assert_int_equal(item_got_pinned(g), READ_PINNED);
	g = read_other(true); /* the same version is of no use with another key */
	g->step = READ_PINNED;
	g->held_version = ITEM_VERSION;
	assert_int_equal(item_got_pinned(g), READ_PINNED);
}

static void test_prepared_that_counts(void **state)
{
	struct get *g = read_kind(LAYOUT_PREPARED);

	(void)state;
	g->held_version = ITEM_VERSION;
	assert_int_equal(item_got(g), READ_PREPARED); /* not known yet */
	g->accept_prepared = true;
	assert_int_equal(item_got(g), DELIVER);
	g->held_version = ITEM_VERSION + 1; /* it was another */
	assert_int_equal(item_got(g), READ_PREPARED);
}

/* ------------------------------------------------------------------- expiry */

static void test_expiry(void **state)
{
	const uint64_t now_ms = clock_ns() / 1000000;
	struct bytes_item item = item_of(LAYOUT_LIVE);
	struct get *g;

	(void)state;
	item.expiry_ms = now_ms + 100000;
	g = read_item(&item, 100);
	g->begun_ns = clock_ns();
	assert_int_equal(item_got(g), ASK); /* nothing is known of kvd's clock */
	clock_learn(&b->table.clock, now_ms, clock_ns(), clock_ns()); /* it is as ours */
	assert_int_equal(item_got(g), DELIVER);
	item.expiry_ms = now_ms - 100000;
	g = read_item(&item, 100);
	g->begun_ns = clock_ns();
	assert_int_equal(item_got(g), ABSENT);
	b->memory.item[1] ^= LAYOUT_PENDING >> 8; /* for whoever changes it the key is there, perhaps */
	assert_int_equal(item_got(g), ASK);
	b->memory.item[1] ^= LAYOUT_PENDING >> 8;
	g->step = READ_OLD; /* it is being replaced */
	assert_int_equal(item_got_live(g), ASK);
	g->step = READ_ITEM;
	assert_int_equal(item_got(g), ABSENT);
	g->begun_ns = 0; /* it may have lived when the call began */
	assert_int_equal(item_got(g), ASK);
	g->step = READ_PINNED; /* of which kvd has looked */
	g->held_version = ITEM_VERSION;
	assert_int_equal(item_got_pinned(g), DELIVER);
}

/* -------------------------------------------------------------------- plans */

static void test_entries_that_name_no_item(void **state)
{
	struct get *g = bytes_get(b, KEY, 100);

	(void)state;
	b->table.welcome.table_bytes = BYTES_ALL;
	g->word = layout_word(BYTES_ALL / LAYOUT_UNIT_BYTES, 4, 0);
	assert_false(item_plan(g)); /* outside */
	g->word = layout_word(UNIT, 0, 0);
	assert_false(item_plan(g)); /* shorter than a header */
	g->word = layout_word(UNIT, (1u << LAYOUT_LEN_BITS) - 1, 0);
	assert_false(item_plan(g)); /* longer than any */
	g->word = layout_word(BYTES_ALL / LAYOUT_UNIT_BYTES - 2, 4, 0);
	assert_true(item_plan(g)); /* to the table's end */
	assert_int_equal(g->length, 2 * LAYOUT_UNIT_BYTES);
}

static void test_plan_of_a_value_for_the_caller(void **state)
{
	static const struct {
		size_t room;
		bool whole;
	} rows[] = { { BYTES_ROOM, true }, { LONG_BYTES, false }, { 1000, false } };
	struct bytes_item item = item_of(LAYOUT_LIVE);
	struct get *g;

	(void)state;
	item.value_bytes = LONG_BYTES;
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		g = bytes_get(b, KEY, rows[i].room);
		g->word = bytes_item(b, &item);
		assert_true(item_plan(g));
		uint64_t all = g->length;
		item_plan_direct(g);
		assert_true(g->direct);
		/* 1,000 bytes are surely no room for it: it is READ without its value. */
		assert_int_equal(g->length, rows[i].whole ? all
					    : rows[i].room == 1000
						    ? get_head_bytes(g)
						    : get_head_bytes(g) + LONG_BYTES);
	}
}

/* ------------------------------------------------------------- long values */

static struct get *read_long(enum layout_kind kind, size_t room)
{
	struct bytes_item item = item_of(kind);

	item.value_bytes = LONG_BYTES;
	return read_item(&item, room);
}

static void test_long_value_goes_to_the_caller(void **state)
{
	struct get *g = read_long(LAYOUT_LIVE, LONG_BYTES);

	(void)state;
	assert_true(g->direct);
	assert_int_equal(item_got(g), DELIVER);
	assert_null(verify_value(g));
	assert_memory_equal(b->room, "valuevalue", 10);
	b->room[LONG_BYTES - 1] ^= 1;
	assert_int_equal(item_got(g), READ_ITEM);
}

/* Each part is hashed when it has arrived, and not again. */
static void test_long_value_in_parts(void **state)
{
	enum { BEFORE = 1, AFTER };
	const uint32_t first = LONG_BYTES / 2;

	(void)state;
	for (int changed = 0; changed <= AFTER; changed++) {
		struct get *g = read_long(LAYOUT_LIVE, LONG_BYTES);
		item_plan_direct(g);
		item_part_posted(g, first);
		item_part_posted(g, (uint32_t)g->length - first);
		assert_int_equal(item_next_part(g), 0);
		item_part_arrived(g);
		b->room[LONG_BYTES - 1] ^= changed == BEFORE;
		item_part_arrived(g);
		b->room[LONG_BYTES - 1] ^= changed == AFTER;
		assert_true(g->summed);
		assert_int_equal(item_got(g), changed == BEFORE ? READ_ITEM : DELIVER);
	}
}

static void test_parts_in_flight(void **state)
{
	struct get *g = read_long(LAYOUT_LIVE, LONG_BYTES);

	(void)state;
	item_plan_direct(g);
	g->length = 10 * PART_BYTES + 1;
	for (unsigned i = 0; i < PARTS_MAX; i++) {
		assert_int_equal(item_next_part(g), PART_BYTES);
		item_part_posted(g, PART_BYTES);
	}
	assert_int_equal(item_next_part(g), 0);
	g->posted = g->length - 1;
	g->parts_arrived = 1;
	assert_int_equal(item_next_part(g), 1);
}

static void test_head_of_one_that_has_no_room(void **state)
{
	struct get *g = read_long(LAYOUT_LIVE, 1000);

	(void)state;
	assert_int_equal(item_got(g), READ_ITEM); /* believed if it is the same again */
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(g), DELIVER);
	g = read_long(LAYOUT_LIVE, 1000);
	assert_int_equal(item_got(g), READ_ITEM);
	in_table()->checksum ^= 1;
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(g), READ_ITEM); /* was another */
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(g), DELIVER);
}

/* A holder is told the length of a value when no change of it is under way. */
static void test_holder_without_room_waits(void **state)
{
	static const enum layout_kind kinds[] = { LAYOUT_LIVE, LAYOUT_PREPARED, LAYOUT_OLD,
						  LAYOUT_NEW };

	(void)state;
	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct get *g = read_long(kinds[i], 1000);
		g->locked = true;
		for (unsigned n = 0; n < TORN_MAX; n++) {
			in_table()->state |= LAYOUT_PENDING;
			bytes_read(b, READ_ITEM);
			if (item_got(g) != READ_ITEM)
				fail_msg("kind %d: a locked GET with a short buffer ignores PENDING",
					 (int)kinds[i]);
		}
		assert_int_equal(item_got(g), START_OVER);
	}
	struct get *g = read_long(LAYOUT_LIVE, 1000);
	g->locked = true;
	in_table()->state |= LAYOUT_PENDING;
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(g), READ_ITEM);
	in_table()->state &= ~LAYOUT_PENDING; /* that change came to nothing */
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(g), READ_ITEM);
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(g), DELIVER);
}

static void test_head_of_a_deleted_one(void **state)
{
	(void)state;
	for (unsigned mirror = 0; mirror < 2; mirror++) {
		struct get *g = read_long(LAYOUT_DELETED, 1000);
		g->from_mirror = mirror;
		assert_int_equal(item_got(g), READ_ITEM);
		bytes_read(b, READ_ITEM);
		assert_int_equal(item_got(g), mirror ? START_OVER : ABSENT);
	}
}

static void test_head_that_leads_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(item_got(read_long(LAYOUT_DEAD, 1000)), START_OVER);
	assert_int_equal(item_got(read_long(LAYOUT_PREPARED, 1000)), READ_PREPARED);
	assert_int_equal(item_got(read_long(LAYOUT_OLD, 1000)), READ_TXN);
	struct get *g = read_long(LAYOUT_PREPARED, 1000);
	g->accept_prepared = true;
	g->held_version = ITEM_VERSION;
	assert_int_equal(item_got(g), READ_ITEM); /* its head counts, if it is the same again */
}

/* Its header says another length of the key: the value was READ to the wrong place. */
static void test_head_of_another_key(void **state)
{
	(void)state;
	struct bytes_item item = item_of(LAYOUT_LIVE);
	item.key = "another key";
	item.value_bytes = LONG_BYTES;
	struct get *g = read_item(&item, LONG_BYTES + 1000);
	assert_int_equal(item_got(g), NEXT_ENTRY);
	assert_true(g->untold);
	assert_int_equal(g->tried_count, 1);
	g->from_mirror = true;
	assert_int_equal(item_got(g), START_OVER);
	g->from_mirror = false;
	g->tried_count = TRIED_MAX;
	assert_int_equal(item_got(g), START_OVER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_live),
		TEST(test_kinds),
		TEST(test_torn_then_whole),
		TEST(test_torn_for_ever),
		TEST(test_torn_but_leads_elsewhere),
		TEST(test_longer_than_what_was_read),
		TEST(test_every_flipped_bit),
		TEST(test_collision),
		TEST(test_no_collision),
		TEST(test_more_collisions_than_are_kept),
		TEST(test_holder_waits_for_what_is_under_way),
		TEST(test_pinned),
		TEST(test_pinned_that_is_gone),
		TEST(test_prepared_that_counts),
		TEST(test_expiry),
		TEST(test_entries_that_name_no_item),
		TEST(test_plan_of_a_value_for_the_caller),
		TEST(test_long_value_goes_to_the_caller),
		TEST(test_long_value_in_parts),
		TEST(test_parts_in_flight),
		TEST(test_head_of_one_that_has_no_room),
		TEST(test_holder_without_room_waits),
		TEST(test_head_of_a_deleted_one),
		TEST(test_head_that_leads_elsewhere),
		TEST(test_head_of_another_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
