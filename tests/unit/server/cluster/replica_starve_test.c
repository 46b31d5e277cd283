/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica, a backup: records that find no memory and wait, what ends that, copies that are
 * taken, and changes that can't take effect.  Its connections, its memory and the time are made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/cluster/replica/impl.h"
#include "server/store/apply.h"
#include "server/store/item/stripe.h"
#include "server/store/reclaim/compact.h"
#include "server/table/heap.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/server/cluster/wire_kit.h"

#define S 1000000000ull
#define MS 1000000ull
#define HIGH (1ull << 40) /* a version */
#define NO_MEMORY "there is no memory for another member's change: give it as much (--memory) as its primary has"

static uint64_t number, now_ns;
static bool no_items, compaction_helps, no_place;
static unsigned tries, forced, wasted, yields;
static unsigned yields_until_free; /* 0: never */
static uint64_t busy_stripe;

/* -------------------------------------------------------------------- made up */

struct layout_item *__real_store_item_new(struct store_worker *w, const void *key, unsigned key_bytes,
					  uint64_t value_bytes, const struct layout_attributes *with);
int __real_store_apply_put(struct store_worker *w, struct layout_item *item);

MADE_UP(struct layout_item *, store_item_new, struct store_worker *w, const void *key, unsigned key_bytes,
	uint64_t value_bytes, const struct layout_attributes *with)
{
	tries++;
	return no_items ? NULL : __real_store_item_new(w, key, key_bytes, value_bytes, with);
}

MADE_UP(int, store_apply_put, struct store_worker *w, struct layout_item *item)
{
	return no_place ? WIRE_ECROWDED : __real_store_apply_put(w, item);
}

MADE_UP(bool, compact_may_help, struct store_worker *w) { return w && compaction_helps; }
MADE_UP(void, compact_force, struct store_worker *w) { forced += w != NULL; }
MADE_UP(void, heap_allow_waste, struct heap *heap) { wasted += heap == wire_fixture.worker[0].heap; }

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ (time_t)(now_ns / S), (long)(now_ns % S) };
	return 0;
}

MADE_UP(int, sched_yield, void)
{
	now_ns += 10 * MS;
	if (++yields == yields_until_free)
		stripe_unmark(wire_fixture.store, busy_stripe);
	return 0;
}

/* ------------------------------------------------------------------------- kit */

static void be_backup(void)
{
	number = 0;
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_BACKUP, 0);
	wire_up(0, "anna");
}

static void add_record(uint16_t flags, uint64_t number_of, const char *key, const char *value, uint64_t version)
{
	const uint32_t stripe = wire_stripe(key, strlen(key));
	const struct link_item item = { .key_bytes = (uint16_t)strlen(key), .value_bytes = (uint32_t)strlen(value),
					.version = version, .left_ms = 60000 };

	link_begin_record(&wire_message, flags, number_of, version + 1, &stripe, 1);
	link_put_item(&wire_message, &item, key, value);
	wire_end_record();
}

static void hear(const char *key)
{
	number++;
	wire_begin(LINK_RECORDS);
	add_record(0, number, key, "value", 10 * number);
	assert_true(wire_hear(0));
}

/* With this flush, of the latest records of that many. */
static void expect_acks(uint64_t first, unsigned n)
{
	unsigned before = wires[0].sent_count;

	replica_flush(wire_worker);
	assert_int_equal(wires[0].sent_count, before + (n > 0));
	if (!n)
		return;
	struct link_reader r = wire_sent(0, before, LINK_ACKS);
	assert_int_equal(r.header->count, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(*link_next_number(&r), first + i);
}

static void expect_parked(bool is)
{
	assert_int_equal(replica_has_parked(wire_worker), is);
}

/* --------------------------------------------------------------- without memory */

/* What comes behind it waits too; all in their order. */
static void test_parked(void **state)
{
	struct store_result r;
	char value[8];

	(void)state;
	be_backup();
	hear("before");
	expect_acks(1, 1);
	no_items = true;
	hear("k");
	expect_parked(true);
	uint64_t came_ms = store_clock_ms(wire_fixture.store);
	no_items = false;
	wire_begin(LINK_RECORDS);
	add_record(0, ++number, "k", "new", 70);
	add_record(0, ++number, "j", "value", 80);
	assert_true(wire_hear(0));
	tries = 0;
	now_ns += 400 * MS;
	expect_acks(2, 3);
	assert_int_equal(tries, 3);
	expect_parked(false);
	assert_null(atomic_load(&wire_replica->starving));
	wire_see(4);
	wire_expect("k", "new");
	/* Its time to live began as it came. */
	assert_int_equal(wire_get("k", value, sizeof value, &r), WIRE_OK);
	assert_int_equal(r.with.expiry_ms, came_ms + 60000);
	hear("i");
	expect_acks(5, 1);
	wire_see(5);
	assert_int_equal(wire_get("i", value, sizeof value, &r), WIRE_OK);
	assert_int_equal(r.with.expiry_ms, store_clock_ms(wire_fixture.store) + 60000);
}

/* Of the record itself. */
static void test_no_memory_for_a_record(void **state)
{
	(void)state;
	be_backup();
	fails_at = 1;
	hear("k");
	expect_parked(true);
	expect_acks(1, 1);
	expect_parked(false);
	no_items = true;
	fails_at = 2; /* nor to keep it */
	hear("j");
	assert_string_equal(wires[0].closed, "it sent more than there is memory to keep");
	expect_parked(false);
}

static void test_starving(void **state)
{
	(void)state;
	be_backup();
	no_items = true;
	hear("k");
	now_ns += 10 * S; /* that it was not tried counts for nothing */
	compaction_helps = true;
	expect_acks(0, 0);
	assert_int_equal(wasted, 0);
	now_ns += 400 * MS;
	expect_acks(0, 0);
	assert_int_equal(wasted + forced, 0);
	assert_ptr_equal(atomic_load(&wire_replica->starving), wire_worker);
	no_items = false;
	expect_acks(1, 1);
	no_items = true;
	compaction_helps = false;
	hear("j");
	expect_acks(0, 0);
	now_ns += 100 * MS - 1;
	expect_acks(0, 0);
	assert_int_equal(wasted, 2);
	assert_int_equal(forced, 0);
	now_ns++;
	expect_acks(0, 0);
	assert_int_equal(forced, 1);
	now_ns += 400 * MS - 1;
	expect_acks(0, 0);
	assert_int_equal(forced, 2);
	assert_string_equal(wire_unfit, "");
	now_ns++;
	expect_acks(0, 0);
	assert_string_equal(wire_unfit, NO_MEMORY);
	no_items = false; /* too late: another one's turn is not this one's */
	expect_acks(0, 0);
	hear("i");
	expect_acks(0, 0);
	assert_string_equal(wires[0].closed, "");
}

/* One that was sent to the epoch, or the table, before is not wanted. */
static void test_not_wanted(void **state)
{
	(void)state;
	be_backup();
	no_items = true;
	hear("k");
	wire_begin(LINK_RECORDS);
	wire_message.header->epoch = WIRE_EPOCH + 1;
	add_record(0, 9, "j", "value", 90);
	assert_true(wire_hear(0));
	wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN, RECORDS_BACKUP, 0);
	no_items = false;
	tries = 0;
	replica_flush(wire_worker);
	assert_int_equal(tries, 1);
	struct link_reader r = wire_sent(0, 0, LINK_ACKS);
	assert_int_equal(r.header->count, 1);
	assert_int_equal(*link_next_number(&r), 9);
	expect_parked(false);
	no_items = true;
	wire_begin(LINK_RECORDS);
	wire_message.header->epoch = WIRE_EPOCH + 1;
	add_record(0, 10, "i", "value", 100);
	assert_true(wire_hear(0));
	expect_parked(true);
	wire_order((struct replica_order){ .kind = REPLICA_EMPTY });
	no_items = false;
	tries = 0;
	expect_acks(0, 0);
	assert_int_equal(tries, 0);
	expect_parked(false);
}

static void test_the_end_of_a_connection(void **state)
{
	(void)state;
	be_backup();
	no_items = true;
	hear("k");
	hear("j");
	expect_acks(0, 0);
	replica_down(wire_worker, wire_link(0));
	expect_parked(false);
	assert_null(atomic_load(&wire_replica->starving));
	no_items = false;
	number = 0;
	wire_up(0, "anna");
	hear("k");
	expect_acks(1, 1);
}

/* Small ones would take what another worker's long one waits for. */
static void test_anothers_turn(void **state)
{
	struct replica_worker other;

	(void)state;
	be_backup();
	atomic_store(&wire_replica->starving, &other);
	tries = 0;
	hear("k");
	expect_parked(true);
	expect_acks(0, 0);
	assert_int_equal(tries, 0);
	atomic_store(&wire_replica->starving, NULL);
	expect_acks(1, 1);
	assert_int_equal(tries, 1);
}

static void test_too_many(void **state)
{
	(void)state;
	be_backup();
	no_items = true;
	for (unsigned n = 0; n < ACKS_MAX;) {
		wire_begin(LINK_RECORDS);
		for (unsigned i = 0; i < 128; i++, n++)
			add_record(0, ++number, "k", "value", 10);
		assert_true(wire_hear(0));
	}
	assert_string_equal(wires[0].closed, "");
	hear("j");
	assert_string_equal(wires[0].closed, "it sent more than there is memory to keep");
	expect_parked(false);
}

/* ------------------------------------------------------------------------ copies */

/* They take effect at once, behind what is open; the same one is known. */
static void test_copies(void **state)
{
	const uint32_t stripe = wire_stripe("k", 1);

	(void)state;
	be_backup();
	hear("k");
	wire_begin(LINK_RECORDS);
	add_record(LINK_COPY, ++number, "k", "copied", 30);
	assert_true(wire_hear(0));
	wire_expect("k", "copied");
	expect_acks(1, 2);
	assert_int_equal(wire_replica->records.slots[stripe].applied, 31);
	wire_begin(LINK_RECORDS);
	add_record(LINK_COPY, number, "k", "again", 30);
	assert_true(wire_hear(0));
	wire_expect("k", "copied");
	expect_acks(2, 1);
	wire_begin(LINK_RECORDS);
	wire_message.header->epoch--;
	add_record(LINK_COPY, ++number, "k", "earlier", 40);
	assert_true(wire_hear(0));
	wire_expect("k", "copied");
	expect_acks(0, 0);
	wire_begin(LINK_RECORDS); /* of a stripe without keys */
	link_begin_record(&wire_message, LINK_COPY, ++number, 77, &stripe, 1);
	wire_end_record();
	assert_true(wire_hear(0));
	wire_expect("k", "copied");
	expect_acks(number, 1);
	assert_int_equal(wire_replica->records.slots[stripe].applied, 77);
	assert_string_equal(wire_unfit, "");
}

/* What was known or refused leaves nothing. */
static void test_not_taken_leaves_nothing(void **state)
{
	static char value[8001];

	(void)state;
	memset(value, 'v', sizeof value - 1);
	be_backup();
	hear("k");
	for (unsigned i = 0; i < 6 * WIRE_TABLE_BYTES / sizeof value; i++) {
		wire_begin(LINK_RECORDS);
		wire_message.header->epoch -= i % 3 == 2;
		add_record(i % 3 == 1 ? LINK_COPY : 0, 1, "k", value, 10);
		assert_true(wire_hear(0));
		replica_flush(wire_worker);
	}
	expect_parked(false);
	assert_string_equal(wires[0].closed, "");
}

/* Those that are given out here, once this is the primary, are above. */
static void test_versions(void **state)
{
	const uint32_t stripes[] = { wire_stripe("a", 1), wire_stripe("b", 1) };
	struct link_item item = { .key_bytes = 1, .value_bytes = 1 };

	(void)state;
	be_backup();
	for (unsigned highest = 0; highest < 3; highest++) {
		uint64_t version = HIGH + 1000 * highest;
		wire_begin(LINK_RECORDS);
		link_begin_record(&wire_message, 0, ++number, version + 10 * (highest == 0), stripes, 2);
		item.version = version + 10 * (highest == 1);
		link_put_item(&wire_message, &item, "a", "v");
		item.version = version + 10 * (highest == 2);
		link_put_item(&wire_message, &item, "b", "v");
		wire_end_record();
		assert_true(wire_hear(0));
		assert_true(atomic_load(&wire_fixture.store->version) >= version + 10);
	}
}

/* A value that was READ is whole for who reads it from afar. */
static void test_sealed(void **state)
{
	const struct link_place place = { .address = 1, .bytes = 9000 };
	const struct link_item item = { .value_bytes = sizeof place, .key_bytes = 1, .version = 50, .flags = LINK_PLACE };
	const uint32_t stripe = wire_stripe("k", 1);
	static char value[9000];
	struct store_result r;

	(void)state;
	be_backup();
	wire_begin(LINK_RECORDS);
	link_begin_record(&wire_message, 0, ++number, 50, &stripe, 1);
	link_put_item(&wire_message, &item, "k", &place);
	wire_end_record();
	assert_true(wire_hear(0));
	memset((void *)(uintptr_t)wires[0].reads[0].to, 'r', 9000);
	replica_read(wire_worker, wires[0].reads[0].cookie, true);
	wire_see(1);
	assert_int_equal(wire_get("k", value, sizeof value, &r), WIRE_OK);
	assert_int_equal(r.version, 50);
	const struct table *t = wire_fixture.table;
	const struct layout_item *there = (const struct layout_item *)(t->base + layout_word_offset(r.word, t->unit_mask));
	assert_int_equal(there->checksum, item_checksum(wire_fixture.store, there, 50));
}

/* ---------------------------------------------------------------- without effect */

static void hear_with_fate(void)
{
	const uint64_t connection = 77;
	const struct link_fate fate = { .secret = 88 };
	const struct link_item item = { .value_bytes = 1, .key_bytes = 1, .version = 10 };
	const struct link_item of_fate = { .value_bytes = sizeof fate, .key_bytes = 8, .flags = LINK_FATE };
	const uint32_t stripe = wire_stripe("k", 1);

	wire_begin(LINK_RECORDS);
	link_begin_record(&wire_message, 0, ++number, 10, &stripe, 1);
	link_put_item(&wire_message, &item, "k", "v");
	link_put_item(&wire_message, &of_fate, &connection, &fate);
	wire_end_record();
	assert_true(wire_hear(0));
	expect_acks(number, 1);
	busy_stripe = stripe;
}

/* Another worker that moves an item has its stripe for a few steps. */
static void test_a_busy_stripe(void **state)
{
	(void)state;
	be_backup();
	hear_with_fate();
	assert_true(stripe_mark(wire_fixture.store, busy_stripe));
	yields_until_free = 9;
	wire_see(1);
	assert_int_equal(yields, 9);
	wire_expect("k", "v");
	assert_int_equal(wire_completed, 1);
	assert_string_equal(wire_unfit, "");
}

static void expect_unfit(const char *why)
{
	wire_see(1);
	assert_string_equal(wire_unfit, why);
	assert_int_equal(wire_completed, 0);
	wire_expect("k", NULL);
	hear("j");
	expect_acks(0, 0);
}

static void test_a_stripe_that_stays_busy(void **state)
{
	(void)state;
	be_backup();
	hear_with_fate();
	assert_true(stripe_mark(wire_fixture.store, busy_stripe));
	wire_see(1);
	assert_int_equal(yields, 10);
	assert_string_equal(wire_unfit, "a stripe is marked or locked, which nobody may do at a backup");
	assert_int_equal(wire_completed, 0);
	stripe_unmark(wire_fixture.store, busy_stripe);
	expect_unfit("a stripe is marked or locked, which nobody may do at a backup");
}

static void test_no_place(void **state)
{
	(void)state;
	be_backup();
	hear_with_fate();
	no_place = true;
	expect_unfit("there is no place in the index for another member's change");
	assert_int_equal(yields, 0);
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	no_items = compaction_helps = no_place = false;
	tries = forced = wasted = yields = yields_until_free = 0;
	now_ns = 1000 * S;
	return wire_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, wire_teardown)
		TEST(test_parked), TEST(test_no_memory_for_a_record), TEST(test_starving), TEST(test_not_wanted),
		TEST(test_the_end_of_a_connection), TEST(test_anothers_turn), TEST(test_too_many),
		TEST(test_copies), TEST(test_not_taken_leaves_nothing), TEST(test_versions), TEST(test_sealed),
		TEST(test_a_busy_stripe), TEST(test_a_stripe_that_stays_busy), TEST(test_no_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
