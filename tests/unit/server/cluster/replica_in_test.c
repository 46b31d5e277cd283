/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica, a backup: records as they come off the wire, what can't be, what is READ, and
 * what is acknowledged when.  Its connections are made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "server/cluster/replica/impl.h"
#include "server/store/item/clock.h"
#include "tests/unit/server/cluster/wire_kit.h"

#define NO_RECORD "it sent a record that can't be: do both have the same table's seed and stripes?"
#define LONG 100000u

static uint64_t number;

/* ------------------------------------------------------------------------- kit */

static void be_backup(void)
{
	number = 0;
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_BACKUP, 0);
	wire_up(0, "anna");
}

static void add_item(const char *key, const char *value, uint64_t version)
{
	const struct link_item item = { .key_bytes = (uint16_t)strlen(key), .version = version,
					.value_bytes = value ? (uint32_t)strlen(value) : 0,
					.flags = value ? 0 : LINK_DELETED };

	link_put_item(&wire_message, &item, key, value);
}

/* A record of one key, with the next number. */
static void add_record(const char *key, const char *value, uint64_t version)
{
	const uint32_t stripe = wire_stripe(key, strlen(key));

	link_begin_record(&wire_message, 0, ++number, version, &stripe, 1);
	add_item(key, value, value ? version : 0);
	wire_end_record();
}

static void hear_record(const char *key, const char *value, uint64_t version)
{
	wire_begin(LINK_RECORDS);
	add_record(key, value, version);
	assert_true(wire_hear(0));
}

/* All that it acknowledges with this flush: so many, from that one on. */
static void expect_acks(unsigned i, uint64_t first, unsigned n)
{
	unsigned sent = wires[i].sent_count;
	replica_flush(wire_worker);
	assert_int_equal(wires[i].sent_count, sent + (n > 0));
	if (!n)
		return;
	struct link_reader r = wire_sent(i, sent, LINK_ACKS);
	assert_int_equal(r.header->epoch, WIRE_EPOCH);
	assert_true(r.header->from == WIRE_ME && r.header->to == WIRE_ANNA && !r.header->number);
	assert_int_equal(r.header->count, n);
	for (unsigned k = 0; k < n; k++)
		assert_int_equal(*link_next_number(&r), first + k);
}

/* ----------------------------------------------------------------------- records */

static void test_taken(void **state)
{
	const uint32_t stripe = wire_stripe("k", 1);
	const struct link_item item = { .value_bytes = 3, .key_bytes = 1, .version = 900, .left_ms = 50000,
					.client_flags = 0xdeadbeef, .signs = LAYOUT_CLAIMED };
	struct store_result r;
	char value[8];

	(void)state;
	be_backup();
	wire_begin(LINK_RECORDS);
	link_begin_record(&wire_message, 0, ++number, 900, &stripe, 1);
	link_put_item(&wire_message, &item, "k", "one");
	wire_end_record();
	uint64_t before_ms = store_clock_ms(wire_fixture.store);
	assert_true(wire_hear(0));
	uint64_t after_ms = store_clock_ms(wire_fixture.store);
	assert_int_equal(wires[0].sent_count, 0); /* at the end of the poll */
	expect_acks(0, 1, 1);
	expect_acks(0, 0, 0);
	wire_expect("k", NULL);
	wire_see(1);
	assert_int_equal(wire_get("k", value, sizeof value, &r), WIRE_OK);
	assert_memory_equal(value, "one", 3);
	assert_int_equal(r.value_bytes, 3);
	assert_int_equal(r.version, 900);
	assert_int_equal(r.with.flags, 0xdeadbeef);
	assert_int_equal(r.with.signs, LAYOUT_CLAIMED);
	assert_in_range(r.with.expiry_ms, before_ms + 50000, after_ms + 50000);
	assert_true(atomic_load(&wire_fixture.store->version) >= 900);
	hear_record("k", NULL, 901);
	hear_record("k", "new", 902); /* proves the one before */
	wire_expect("k", NULL);
	expect_acks(0, 2, 2);
	wire_see(3);
	wire_expect("k", "new");
	assert_int_equal(wire_get("k", value, sizeof value, &r), WIRE_OK);
	assert_int_equal(r.with.expiry_ms, 0);
	assert_int_equal(wire_completed, 0);
	assert_string_equal(wire_unfit, "");
	assert_string_equal(wires[0].closed, "");
}

/* Its keys that go stand behind its items. */
static void test_a_transaction(void **state)
{
	static const char *const keys[] = { "first", "a longer key", "k", "never there", "last" };
	uint32_t stripes[5];

	(void)state;
	be_backup();
	wire_begin(LINK_RECORDS);
	for (unsigned i = 0; i < 3; i++)
		add_record(keys[i], "old", 10 + i);
	for (unsigned i = 0; i < 5; i++)
		stripes[i] = wire_stripe(keys[i], strlen(keys[i]));
	link_begin_record(&wire_message, 0, ++number, 20, stripes, 5);
	for (unsigned i = 0; i < 5; i++)
		add_item(keys[i], i % 2 || !i ? NULL : keys[i], i % 2 || !i ? 0 : 20 + i);
	wire_end_record();
	assert_true(wire_hear(0));
	expect_acks(0, 1, 4);
	for (unsigned i = 0; i < 3; i++)
		wire_expect(keys[i], "old");
	wire_see(4);
	for (unsigned i = 0; i < 5; i++)
		wire_expect(keys[i], i % 2 || !i ? NULL : keys[i]);
	assert_true(atomic_load(&wire_fixture.store->version) >= 24);
	assert_string_equal(wire_unfit, "");
}

/* By whichever connection it comes, and however often, it takes effect once. */
static void test_known(void **state)
{
	(void)state;
	be_backup();
	wire_up(1, "anna");
	hear_record("k", "one", 10);
	expect_acks(0, 1, 1);
	number = 0;
	wire_begin(LINK_RECORDS);
	add_record("k", "two", 10);
	assert_true(wire_hear(1));
	expect_acks(1, 1, 1);
	wire_see(1);
	wire_expect("k", "one");
	assert_int_equal(wires[0].sent_count, 1);
}

static void test_a_completion_record(void **state)
{
	const uint32_t stripe = wire_stripe("k", 1);
	const uint64_t connection = 77;
	const struct link_fate fate = { .secret = 88, .version = 10, .value_bytes = 3, .request = 99, .kept = 4 };
	const struct link_item item = { .value_bytes = sizeof fate, .key_bytes = 8, .flags = LINK_FATE };

	(void)state;
	be_backup();
	for (unsigned i = 1; i <= 2; i++) {
		wire_begin(LINK_RECORDS);
		link_begin_record(&wire_message, 0, ++number, 10 * i, &stripe, 1);
		if (i == 1)
			link_put_item(&wire_message, &item, &connection, &fate);
		add_item("k", "one", 10 * i);
		if (i == 2)
			link_put_item(&wire_message, &item, &connection, &fate);
		wire_end_record();
		assert_true(wire_hear(0));
		assert_int_equal(wire_completed, i - 1);
		wire_see(i);
		assert_int_equal(wire_completed, i);
	}
	assert_int_equal(wire_fate.connection, 77);
	assert_int_equal(wire_fate.secret, 88);
	assert_int_equal(wire_fate.request, 99);
	assert_int_equal(wire_fate.kept, 4);
	assert_int_equal(wire_fate.version, 10);
	assert_int_equal(wire_fate.value_bytes, 3);
	assert_int_equal(wire_fate_reign, WIRE_REIGN);
	wire_expect("k", "one");
}

/* ----------------------------------------------------------------- what can't be */

#define NONE 99u /* where 0 is: as usual */

static const struct odd {
	const char *what;
	bool is_ours;
	uint16_t flags;         /* of the record */
	uint64_t record_version;
	unsigned stripes;
	uint32_t stripe;        /* another than the key's: from the end of the table; NONE: that end */
	unsigned items, fates;
	uint16_t item_flags;
	uint64_t version;
	unsigned key_bytes, signs;
	uint16_t fate_key_bytes, fate_bytes;
} odds[] = {
#define IS(...) { .what = #__VA_ARGS__, .is_ours = true, __VA_ARGS__ }
#define NO(...) { .what = #__VA_ARGS__, __VA_ARGS__ }
	IS(.flags = 0), IS(.record_version = LAYOUT_VERSION_MAX), NO(.record_version = LAYOUT_VERSION_MAX + 1),
	IS(.version = LAYOUT_VERSION_MAX), NO(.version = LAYOUT_VERSION_MAX + 1), NO(.version = NONE),
	IS(.version = NONE, .item_flags = LINK_DELETED), NO(.item_flags = LINK_DELETED),
	IS(.flags = LINK_COPY), NO(.flags = LINK_COPY, .items = 2), NO(.flags = LINK_COPY, .stripes = 2),
	IS(.flags = LINK_COPY, .items = NONE), NO(.flags = LINK_COPY, .version = NONE, .item_flags = LINK_DELETED),
	NO(.flags = 2), NO(.flags = LINK_COPY | 2), NO(.items = NONE), IS(.items = LAYOUT_TXN_KEYS_MAX),
	NO(.items = LAYOUT_TXN_KEYS_MAX + 1), IS(.items = LAYOUT_TXN_KEYS_MAX, .fates = 1),
	NO(.items = LAYOUT_TXN_KEYS_MAX, .fates = 2), IS(.stripes = LAYOUT_TXN_KEYS_MAX),
	NO(.stripes = LAYOUT_TXN_KEYS_MAX + 1), NO(.stripe = 1), IS(.stripes = 2, .stripe = 1),
	NO(.stripes = 2, .stripe = NONE), IS(.key_bytes = LAYOUT_KEY_BYTES_MAX),
	NO(.key_bytes = LAYOUT_KEY_BYTES_MAX + 1), NO(.key_bytes = NONE), IS(.signs = LAYOUT_SIGNS),
	NO(.signs = LAYOUT_SIGNS + 1), NO(.fates = 1, .fate_key_bytes = 7), NO(.fates = 1, .fate_key_bytes = 9),
	NO(.fates = 1, .fate_bytes = 31), NO(.fates = 1, .fate_bytes = 33), IS(.fates = 1),
};

/* What it says, or else that. */
static uint64_t pick(uint64_t is, uint64_t usual)
{
	return is == NONE ? 0 : is ? is : usual;
}

static void add_odd(const struct odd *o)
{
	static const char key[LAYOUT_KEY_BYTES_MAX + 1] = "key", zeros[64];
	const struct link_item item = { .value_bytes = !(o->item_flags & LINK_DELETED),
					.key_bytes = (uint16_t)pick(o->key_bytes, 3),
					.version = pick(o->version, 1), .signs = o->signs, .flags = o->item_flags };
	const struct link_item fate = { .value_bytes = (uint32_t)pick(o->fate_bytes, sizeof(struct link_fate)),
					.key_bytes = (uint16_t)pick(o->fate_key_bytes, 8), .flags = LINK_FATE };
	uint32_t stripes[LAYOUT_TXN_KEYS_MAX + 1], end = (uint32_t)wire_fixture.table->stripes;
	unsigned n = (unsigned)pick(o->stripes, 1);

	for (unsigned i = 0; i < n; i++)
		stripes[i] = (wire_stripe(key, item.key_bytes) + n - 1 - i) % end;
	if (o->stripe)
		stripes[0] = n == 1 ? stripes[0] ^ 1 : end - (uint32_t)pick(o->stripe, 0);
	link_begin_record(&wire_message, o->flags, ++number, pick(o->record_version, 1), stripes, (uint16_t)n);
	for (unsigned i = 0; i < pick(o->items, 1); i++)
		link_put_item(&wire_message, &item, key, "v");
	for (unsigned i = 0; i < o->fates; i++)
		link_put_item(&wire_message, &fate, zeros, zeros);
	wire_end_record();
}

/* It ends the connection, and what is behind it is not taken. */
static void test_what_cant_be(void **state)
{
	for (unsigned i = 0; i < sizeof odds / sizeof *odds; i++) {
		if (i) {
			wire_teardown(state);
			assert_int_equal(wire_setup(state), 0);
		}
		be_backup();
		wire_begin(LINK_RECORDS);
		add_odd(&odds[i]);
		add_record("behind", "v", 5);
		assert_true(wire_hear(0));
		if (strcmp(wires[0].closed, odds[i].is_ours ? "" : NO_RECORD))
			fail_msg("%s: '%s'", odds[i].what, wires[0].closed);
		replica_flush(wire_worker);
		assert_int_equal(wires[0].sent_count, odds[i].is_ours);
		wire_see(2);
		wire_expect("behind", odds[i].is_ours ? "v" : NULL);
		assert_string_equal(wire_unfit, "");
	}
}

/* What of it had memory gives that back. */
static void test_what_cant_be_leaves_nothing(void **state)
{
	static char value[8001];
	const uint32_t stripe = wire_stripe("k", 1);

	(void)state;
	memset(value, 'v', sizeof value - 1);
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_BACKUP, 0);
	for (unsigned i = 0; i < 2 * WIRE_TABLE_BYTES / sizeof value; i++) {
		wire_up(0, "anna");
		wire_begin(LINK_RECORDS);
		link_begin_record(&wire_message, 0, ++number, 10, &stripe, 1);
		add_item("k", value, 10);
		add_item("k", "v", 0);
		wire_end_record();
		assert_true(wire_hear(0));
		assert_string_equal(wires[0].closed, NO_RECORD);
	}
}

/* ---------------------------------------------------------------- for whom it is */

static void test_not_for_it(void **state)
{
	(void)state;
	be_backup();
	wire_up(1, "somebody");
	wire_begin(LINK_BEGIN);
	assert_false(wire_hear(0));
	wire_begin(LINK_RECORDS);
	add_record("k", "one", 10);
	assert_true(wire_hear(1)); /* of no seat */
	assert_true(wire_hear(2)); /* that is not up */
	wire_message.header->from++;
	assert_true(wire_hear(0));
	wire_message.header->from--;
	wire_message.header->to++;
	assert_true(wire_hear(0));
	wire_message.header->to--;
	wire_message.header->epoch++;
	assert_true(wire_hear(0)); /* refused: nothing is answered */
	expect_acks(0, 0, 0);
	assert_int_equal(wires[1].sent_count, 0);
	wire_message.header->epoch--;
	assert_true(wire_hear(0));
	expect_acks(0, 1, 1);
	wire_begin(LINK_RECORDS);
	wire_message.header->count = 1; /* and has none */
	assert_true(wire_hear(0));
	assert_string_equal(wires[0].closed, "its message is not what its header says");
}

static void test_connections(void **state)
{
	(void)state;
	be_backup();
	for (unsigned i = 1; i < REPLICA_PEERS_MAX; i++)
		wire_up(i, i == 4 ? "carl" : "");
	assert_false(replica_up(wire_worker, wire_link(REPLICA_PEERS_MAX)));
	replica_down(wire_worker, wire_link(REPLICA_PEERS_MAX));
	replica_down(wire_worker, wire_link(3));
	wire_up(REPLICA_PEERS_MAX, "anna");
	wire_begin(LINK_RECORDS);
	add_record("k", "one", 10);
	assert_true(wire_hear(REPLICA_PEERS_MAX));
	expect_acks(REPLICA_PEERS_MAX, 1, 1);
	assert_true(wire_hear(4)); /* of another's incarnation */
	expect_acks(4, 0, 0);
	/* What it was to acknowledge is forgotten with the connection. */
	hear_record("j", "one", 11);
	replica_down(wire_worker, wire_link(0));
	wire_up(0, "anna");
	expect_acks(0, 0, 0);
}

/* -------------------------------------------------------------- acknowledgements */

static void test_acknowledged_when_there_is_room(void **state)
{
	unsigned n = 2 * LINK_COUNT_MAX + 5, at = 0;
	char key[16];

	(void)state;
	be_backup();
	wires[0].room = 0;
	for (unsigned i = 0; i < n; i++) {
		snprintf(key, sizeof key, "key%u", i);
		hear_record(key, "v", 10 + i);
	}
	replica_flush(wire_worker);
	for (unsigned i = 0; i < 3; i++) {
		wires[0].room = 1;
		replica_flush(wire_worker);
		struct link_reader r = wire_sent(0, i, LINK_ACKS);
		assert_int_equal(r.header->count, i < 2 ? LINK_COUNT_MAX : 5);
		const uint64_t *ack;
		while ((ack = link_next_number(&r)))
			assert_int_equal(*ack, ++at);
	}
	assert_int_equal(at, n);
	wires[0].room = 9;
	expect_acks(0, 0, 0);
}

/* Those of an epoch that is over are asked for again. */
static void test_acknowledged_in_its_epoch(void **state)
{
	(void)state;
	be_backup();
	hear_record("a", "v", 10);
	hear_record("b", "v", 11);
	wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN, RECORDS_BACKUP, 0);
	wire_begin(LINK_RECORDS);
	wire_message.header->epoch++;
	add_record("c", "v", 12);
	assert_true(wire_hear(0));
	replica_flush(wire_worker);
	struct link_reader r = wire_sent(0, 0, LINK_ACKS);
	assert_int_equal(r.header->epoch, WIRE_EPOCH + 1);
	assert_int_equal(r.header->count, 1);
	assert_int_equal(*link_next_number(&r), 3);
}

static void test_who_takes_no_acknowledgements(void **state)
{
	const uint32_t stripe = wire_stripe("k", 1);

	(void)state;
	be_backup();
	wires[0].room = 0;
	hear_record("k", "v", 10);
	for (unsigned n = 1; n < ACKS_MAX;) {
		wire_begin(LINK_RECORDS);
		for (; n < ACKS_MAX && wire_message.header->count < 200; n++) {
			link_begin_record(&wire_message, 0, 1, 10, &stripe, 1);
			add_item("k", "v", 10);
			wire_end_record();
		}
		assert_true(wire_hear(0));
	}
	assert_string_equal(wires[0].closed, "");
	hear_record("j", "v", 10);
	assert_string_equal(wires[0].closed, "it takes no acknowledgements");
}

/* -------------------------------------------------------------------------- READs */

static void add_place(const char *key, uint32_t bytes, uint64_t address, uint64_t version)
{
	const struct link_place place = { .address = address, .rkey = 0xabcd, .bytes = bytes };
	const struct link_item item = { .value_bytes = sizeof place, .key_bytes = (uint16_t)strlen(key),
					.version = version, .flags = LINK_PLACE, .client_flags = 6 };

	link_put_item(&wire_message, &item, key, &place);
}

/* Two long values, and a short one between. */
static void hear_places(void)
{
	const uint32_t stripes[] = { wire_stripe("a", 1), wire_stripe("b", 1), wire_stripe("c", 1) };

	number++;
	wire_begin(LINK_RECORDS);
	link_begin_record(&wire_message, 0, number, 10 * number, stripes, 3);
	add_place("a", LONG, 0x1000, 10 * number);
	add_item("b", "short", 10 * number + 1);
	add_place("c", LONG + 7, 0x2000, 10 * number + 2);
	wire_end_record();
	assert_true(wire_hear(0));
}

/* As the device has READ it. */
static void arrive(unsigned i, char with)
{
	memset((void *)(uintptr_t)wires[0].reads[i].to, with, wires[0].reads[i].bytes);
	replica_read(wire_worker, wires[0].reads[i].cookie, true);
}

static void expect_long(const char *key, size_t bytes, char with)
{
	static char value[LONG + 100];
	struct store_result r;

	assert_int_equal(wire_get(key, value, sizeof value, &r), WIRE_OK);
	assert_int_equal(r.value_bytes, bytes);
	assert_true(value[0] == with && !memcmp(value, value + 1, bytes - 1));
	assert_int_equal(r.with.flags, 6);
}

static void test_read(void **state)
{
	const uint8_t *base = wire_fixture.table->base;

	(void)state;
	wire_fixture.table->lkey[0] = 0x77;
	be_backup();
	hear_places();
	assert_int_equal(wires[0].read_count, 2);
	for (unsigned i = 0; i < 2; i++) {
		const struct link_read *r = &wires[0].reads[i];
		assert_true((uint8_t *)(uintptr_t)r->to > base &&
			    (uint8_t *)(uintptr_t)r->to + r->bytes < base + wire_fixture.table->bytes);
		assert_int_equal(r->lkey, 0x77);
		assert_int_equal(r->bytes, i ? LONG + 7 : LONG);
		assert_int_equal(r->from, i ? 0x2000 : 0x1000);
		assert_int_equal(r->rkey, 0xabcd);
	}
	expect_acks(0, 0, 0);
	arrive(1, 'c');
	expect_acks(0, 0, 0);
	arrive(0, 'a');
	expect_acks(0, 1, 1);
	wire_see(1);
	expect_long("a", LONG, 'a');
	expect_long("c", LONG + 7, 'c');
	wire_expect("b", "short");
}

/* In their order, as there is room. */
static void test_reads_that_wait(void **state)
{
	(void)state;
	be_backup();
	wires[0].reads_room = 1;
	hear_places();
	hear_places();
	assert_int_equal(wires[0].read_count, 1);
	arrive(0, 'a'); /* the first of two */
	expect_acks(0, 0, 0);
	for (unsigned i = 1; i < 4; i++) {
		wires[0].reads_room = 1;
		replica_flush(wire_worker);
		assert_int_equal(wires[0].read_count, i + 1);
		assert_int_equal(wires[0].reads[i].from, i % 2 ? 0x2000 : 0x1000);
	}
	wires[0].reads_room = 1;
	replica_flush(wire_worker);
	assert_int_equal(wires[0].read_count, 4);
	arrive(1, 'c');
	arrive(2, 'A');
	expect_acks(0, 1, 1);
	arrive(3, 'C');
	expect_acks(0, 2, 1);
	hear_record("k", "v", 90); /* waits for none */
	expect_acks(0, 3, 1);
	wire_see(2);
	expect_long("a", LONG, 'A');
	expect_long("c", LONG + 7, 'C');
}

/* It is not taken, and its memory is free again. */
static void test_a_read_that_fails(void **state)
{
	(void)state;
	be_backup();
	for (unsigned i = 0; i < WIRE_TABLE_BYTES / LONG; i++) {
		wires[0].read_count = 0;
		hear_places();
		assert_int_equal(wires[0].read_count, 2);
		replica_read(wire_worker, wires[0].reads[i % 2].cookie, false);
		arrive(!(i % 2), 'x');
		expect_acks(0, 0, 0);
	}
	wire_see(number);
	assert_int_equal(wire_get("a", NULL, 0, &(struct store_result){ 0 }), WIRE_NOT_FOUND);
}

/* The last READ frees what its connection left; what had none yet goes at once. */
static void test_the_end_of_a_connection(void **state)
{
	(void)state;
	be_backup();
	for (unsigned i = 0; i < 4 * WIRE_TABLE_BYTES / LONG; i++) {
		wires[0].read_count = 0;
		wires[0].reads_room = i % 4;
		hear_places();
		hear_places();
		unsigned reads = wires[0].read_count;
		assert_int_equal(reads, i % 4);
		if (i % 8 > 3 && reads)
			arrive(0, 'x');
		replica_down(wire_worker, wire_link(0));
		bool is_late = reads == 1 && i % 16 > 7; /* over its new connection it comes again */
		if (is_late)
			wire_up(0, "anna");
		for (unsigned k = i % 8 > 3; k < reads; k++)
			arrive(k, 'x');
		if (!is_late)
			wire_up(0, "anna");
		expect_acks(0, 0, 0);
	}
	wire_see(number);
	assert_int_equal(wire_get("c", NULL, 0, &(struct store_result){ 0 }), WIRE_NOT_FOUND);
	wires[0].read_count = 0;
	hear_places();
	arrive(0, 'a');
	arrive(1, 'c');
	expect_acks(0, number, 1);
}

/* -------------------------------------------------------------------------- group */

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, wire_setup, wire_teardown)
		TEST(test_taken), TEST(test_a_transaction), TEST(test_known), TEST(test_a_completion_record),
		TEST(test_what_cant_be), TEST(test_what_cant_be_leaves_nothing), TEST(test_not_for_it),
		TEST(test_connections), TEST(test_acknowledged_when_there_is_room),
		TEST(test_acknowledged_in_its_epoch), TEST(test_who_takes_no_acknowledgements), TEST(test_read),
		TEST(test_reads_that_wait), TEST(test_a_read_that_fails), TEST(test_the_end_of_a_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
