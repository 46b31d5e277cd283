/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica, a primary: what leaves for whom and when, to the last field, whose
 * acknowledgements count, and what is told of those that lag.  Its connections are made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "server/cluster/replica/impl.h"
#include "server/store/change/remove.h"
#include "server/store/item/clock.h"
#include "server/store/txn.h"
#include "tests/unit/server/cluster/wire_kit.h"

#define ANNA 1u /* their bits */
#define CARL 2u
#define DORA_INCARNATION 0xd4ull
#define RKEY 0x1234u
#define LEFT_MS 100000u
#define LONG (REPLICA_INLINE_MAX + 1)

static char text[LONG + 1];
static unsigned sent[2]; /* messages that were looked at */

/* ------------------------------------------------------------------------- kit */

static void be_primary(void)
{
	static struct ibv_mr mr = { .rkey = RKEY };

	wire_fixture.table->mr[0] = &mr;
	memset(text, 't', sizeof text - 1);
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_PRIMARY, ANNA | CARL);
	wire_order((struct replica_order){ .kind = REPLICA_SHOW });
	wire_up(0, "anna");
	wire_up(1, "carl");
	sent[0] = sent[1] = 0;
}

static void begin_with(uint32_t members)
{
	wire_order((struct replica_order){ .kind = REPLICA_BEGUN_BY, .members = members });
}

static void put(const char *key, uint64_t bytes)
{
	struct store_change c = wire_change_of(key);
	struct store_result r;

	c.value = text;
	c.value_bytes = bytes;
	assert_int_equal(store_put(&wire_fixture.worker[0], &c, &r), STORE_COMMIT);
}

/* So many come back with this flush, each with that. */
static void expect_back(unsigned n, int status)
{
	struct store_result r;
	struct durable_op *next;

	replica_flush(wire_worker);
	for (struct durable_op *op = durable_port_take(&wire_fixture.worker[0].port); op; op = next, n--) {
		next = op->next;
		assert_int_equal(commit_end(&wire_fixture.worker[0], (struct commit *)op, &r), status);
	}
	assert_int_equal(n, 0);
}

static void hear_ack(unsigned i, uint64_t from, uint64_t number)
{
	wire_begin(LINK_ACKS);
	wire_message.header->from = from;
	link_put_number(&wire_message, number);
	assert_true(wire_hear(i));
}

static void ack(unsigned i, uint64_t number)
{
	hear_ack(i, i ? WIRE_CARL : WIRE_ANNA, number);
}

/* The next message to that one; how many records it has. */
static unsigned next_message(unsigned i, struct link_reader *r)
{
	*r = wire_sent(i, sent[i]++, LINK_RECORDS);
	assert_int_equal(r->header->epoch, WIRE_EPOCH);
	assert_true(r->header->from == WIRE_ME && !r->header->number);
	assert_int_equal(r->header->to, i ? WIRE_CARL : WIRE_ANNA);
	return r->header->count;
}

static void expect_silence(unsigned i)
{
	replica_flush(wire_worker);
	assert_int_equal(wires[i].sent_count, sent[i]);
}

/* One message of one record, with that number. */
static struct link_reader_record expect_record(unsigned i, uint64_t number)
{
	struct link_reader_record record;
	struct link_reader r;

	assert_int_equal(next_message(i, &r), 1);
	assert_true(link_next_record(&r, &record));
	assert_int_equal(record.record->number, number);
	return record;
}

static void expect_lag(unsigned of_anna, unsigned of_carl)
{
	uint32_t lag[REPLICA_PEERS_MAX];

	memset(lag, 0xff, sizeof lag);
	replica_lag(wire_replica, lag);
	assert_int_equal(lag[0], of_anna);
	assert_int_equal(lag[1], of_carl);
	for (unsigned i = 2; i < REPLICA_PEERS_MAX; i++)
		assert_int_equal(lag[i], 0);
}

static void expect_lacking(uint32_t member, uint64_t number, uint64_t bytes)
{
	uint64_t is_bytes = 999;

	assert_int_equal(replica_lacking(wire_replica, member, &is_bytes), number);
	assert_int_equal(is_bytes, number ? bytes : 999);
}

/* ------------------------------------------------------------------ what leaves */

static void expect_item(const struct link_item *item, const uint8_t *key, const char *name, const uint8_t *value,
			uint64_t bytes)
{
	const uint8_t *base = wire_fixture.table->base;
	struct link_place place;

	assert_int_equal(item->key_bytes, strlen(name));
	assert_memory_equal(key, name, strlen(name));
	if (!(item->flags & LINK_PLACE)) {
		assert_int_equal(item->flags, 0);
		assert_int_equal(item->value_bytes, bytes);
		assert_memory_equal(value, text, bytes);
		return;
	}
	assert_int_equal(item->flags, LINK_PLACE);
	assert_int_equal(item->value_bytes, sizeof place);
	memcpy(&place, value, sizeof place); /* it is not aligned */
	assert_true(place.bytes == bytes && place.rkey == RKEY && !place.checksum);
	const uint8_t *at = (const uint8_t *)(uintptr_t)place.address;
	assert_true(at > base && at + bytes < base + wire_fixture.table->bytes);
	assert_memory_equal(at, text, bytes);
}

static void test_sent(void **state)
{
	struct store_change c = wire_change_of("k");
	struct link_reader_record record;
	const struct link_item *item;
	const uint8_t *key, *value;
	struct store_result r;

	(void)state;
	be_primary();
	begin_with(ANNA);
	c.value = text;
	c.value_bytes = 3;
	c.with = (struct layout_attributes){ store_clock_ms(wire_fixture.store) + LEFT_MS, 0xdeadbeef, LAYOUT_STALE };
	assert_int_equal(store_put(&wire_fixture.worker[0], &c, &r), STORE_COMMIT);
	assert_int_equal(wires[0].sent_count, 0); /* at the end of the poll */
	replica_flush(wire_worker);
	record = expect_record(0, 1);
	assert_int_equal(record.record->flags, 0);
	assert_int_equal(record.record->stripes, 1);
	assert_int_equal(record.record->items, 1);
	assert_int_equal(record.stripes[0], wire_stripe("k", 1));
	item = link_next_item(&record, &key, &value);
	assert_non_null(item);
	expect_item(item, key, "k", value, 3);
	assert_true(item->version > 0);
	assert_int_equal(item->version, record.record->version);
	assert_in_range(item->left_ms, LEFT_MS - 10000, LEFT_MS);
	assert_int_equal(item->client_flags, 0xdeadbeef);
	assert_int_equal(item->signs, LAYOUT_STALE);
	expect_silence(0); /* once */
	expect_silence(1); /* until it has begun */
	begin_with(CARL);
	replica_flush(wire_worker);
	record = expect_record(1, 1);
	ack(0, 1);
	expect_back(0, 0);
	ack(1, 1);
	expect_back(1, WIRE_OK);
	wire_expect("k", "ttt");
	assert_int_equal(wire_wakes, 0); /* by its own thread */
}

static void test_lengths(void **state)
{
	static const uint64_t bytes[] = { 0, 1, REPLICA_INLINE_MAX, LONG };
	struct link_reader_record record;
	const struct link_item *item;
	const uint8_t *key, *value;

	(void)state;
	be_primary();
	begin_with(ANNA | CARL);
	for (unsigned i = 0; i < 4; i++) {
		put("k", bytes[i]);
		replica_flush(wire_worker);
		record = expect_record(0, i + 1);
		item = link_next_item(&record, &key, &value);
		assert_non_null(item);
		assert_int_equal(item->flags, i < 3 ? 0 : LINK_PLACE);
		expect_item(item, key, "k", value, bytes[i]);
		assert_int_equal(item->left_ms, 0);
		ack(0, i + 1);
		ack(1, i + 1);
		expect_back(1, WIRE_OK);
	}
	assert_int_equal(wires[1].sent_count, 4);
	wire_fixture.table->mr[0] = NULL; /* no links */
	put("k", LONG);
	replica_flush(wire_worker);
	record = expect_record(0, 5);
	assert_non_null(link_next_item(&record, &key, &value));
	assert_memory_equal(value + offsetof(struct link_place, rkey), "\0\0\0\0", 4);
}

static void test_a_removal(void **state)
{
	struct store_change c = wire_change_of("k");
	struct link_reader_record record;
	const uint8_t *key, *value;
	struct store_result r;
	uint64_t version;

	(void)state;
	be_primary();
	begin_with(ANNA | CARL);
	put("k", 3);
	replica_flush(wire_worker);
	version = expect_record(0, 1).record->version;
	ack(0, 1);
	ack(1, 1);
	expect_back(1, WIRE_OK);
	assert_int_equal(store_remove(&wire_fixture.worker[0], &c, &r), STORE_COMMIT);
	replica_flush(wire_worker);
	record = expect_record(0, 2);
	assert_true(record.record->version > version);
	const struct link_item *item = link_next_item(&record, &key, &value);
	assert_non_null(item);
	assert_int_equal(item->flags, LINK_DELETED);
	assert_int_equal(item->version, 0);
	assert_true(!item->value_bytes && item->key_bytes == 1);
	expect_lacking(CARL, 2, 0);
	ack(1, 2);
	ack(0, 2);
	expect_back(1, WIRE_OK);
	wire_expect("k", NULL);
}

static void test_a_completion_record(void **state)
{
	struct link_reader_record record;
	const struct link_item *item;
	const uint8_t *key, *value;
	struct link_fate fate;

	(void)state;
	be_primary();
	begin_with(ANNA);
	put("k", 3);
	struct durable_fate *f = &wire_fixture.worker[0].commit->op.fate; /* as who asked for it sets it */
	f->connection = 77;
	f->secret = 88;
	f->request = 99;
	f->kept = 4;
	replica_flush(wire_worker);
	record = expect_record(0, 1);
	assert_int_equal(record.record->items, 2);
	item = link_next_item(&record, &key, &value);
	expect_item(item, key, "k", value, 3);
	uint64_t version = item->version;
	item = link_next_item(&record, &key, &value);
	assert_int_equal(item->flags, LINK_FATE);
	assert_int_equal(item->key_bytes, 8);
	assert_int_equal(item->value_bytes, sizeof fate);
	assert_memory_equal(key, &f->connection, 8);
	memcpy(&fate, value, sizeof fate);
	assert_true(fate.secret == 88 && fate.request == 99 && fate.kept == 4);
	assert_int_equal(fate.version, version);
	assert_int_equal(fate.value_bytes, 3);
}

static void hand_in_txn(unsigned n, const uint64_t *bytes, char (*names)[8])
{
	struct txn_key keys[LAYOUT_TXN_KEYS_MAX];
	uint64_t version = 0;
	unsigned failed;

	for (unsigned i = 0; i < n; i++) {
		keys[i] = (struct txn_key){ .kind = WIRE_TXN_PUT, .version = WIRE_TXN_ANY, .change = wire_change_of(names[i]) };
		keys[i].change.value = text;
		keys[i].change.value_bytes = bytes[i];
	}
	assert_int_equal(txn_run(&wire_fixture.worker[0], keys, n, 0, &version, &failed), STORE_COMMIT);
}

/* Long values are READ where it has no room otherwise. */
static void test_transactions(void **state)
{
	uint64_t bytes[LAYOUT_TXN_KEYS_MAX];
	char names[LAYOUT_TXN_KEYS_MAX][8];
	struct link_reader_record record;
	const struct link_item *item;
	const uint8_t *key, *value;

	(void)state;
	be_primary();
	begin_with(ANNA | CARL);
	for (unsigned crowded = 0; crowded < 2; crowded++) {
		unsigned n = crowded ? LAYOUT_TXN_KEYS_MAX : 3;
		for (unsigned i = 0; i < n; i++)
			bytes[i] = i == 1 ? REPLICA_INLINE_CROWDED : i == 2 ? REPLICA_INLINE_CROWDED + 1 : 8000;
		for (unsigned i = 0; i < n; i++)
			snprintf(names[i], sizeof names[i], "key%u", i);
		hand_in_txn(n, bytes, names);
		expect_lacking(ANNA, crowded + 1, crowded ? 14 * 8000 + 129 : 8000 + 129);
		replica_flush(wire_worker);
		record = expect_record(0, crowded + 1);
		assert_int_equal(record.record->stripes, n);
		for (unsigned i = 0; i < n; i++) {
			assert_int_equal(record.stripes[i], wire_stripe(names[i], strlen(names[i])));
			item = link_next_item(&record, &key, &value);
			assert_non_null(item);
			assert_int_equal(item->version, record.record->version + i);
			expect_item(item, key, names[i], value, bytes[i]);
			assert_int_equal(item->flags, crowded && i != 1 ? LINK_PLACE : 0);
		}
		assert_null(link_next_item(&record, &key, &value));
		ack(0, crowded + 1);
		ack(1, crowded + 1);
		expect_back(1, WIRE_OK);
	}
}

/* It has each stripe once. */
static void test_two_keys_of_a_stripe(void **state)
{
	const uint64_t bytes[] = { 0, 1, 2 };
	char names[3][8] = { "a", "b", "" };
	unsigned n = 0;

	(void)state;
	be_primary();
	begin_with(ANNA);
	do
		snprintf(names[2], sizeof names[2], "%u", n++);
	while (wire_stripe(names[2], strlen(names[2])) != wire_stripe("a", 1));
	hand_in_txn(3, bytes, names);
	replica_flush(wire_worker);
	struct link_reader_record record = expect_record(0, 1);
	assert_true(record.record->items == 3 && record.record->stripes == 2);
	assert_true(record.stripes[0] == wire_stripe("a", 1) && record.stripes[1] == wire_stripe("b", 1));
}

/* ------------------------------------------------------------------ and when */

/* Records that this connection was sent, from that number on. */
static unsigned expect_numbers(unsigned i, uint64_t from)
{
	struct link_reader_record record;
	struct link_reader r;
	unsigned n = 0;

	while (sent[i] < wires[i].sent_count) {
		assert_true(next_message(i, &r) > 0);
		for (; link_next_record(&r, &record); n++)
			assert_int_equal(record.record->number, from + n);
		assert_int_equal(r.left, 0);
	}
	return n;
}

static void put_many(unsigned n, uint64_t bytes)
{
	char key[16];

	for (unsigned i = 0; i < n; i++) {
		snprintf(key, sizeof key, "key%u", i);
		put(key, bytes);
	}
}

static void test_many(void **state)
{
	(void)state;
	be_primary();
	begin_with(ANNA | CARL);
	wires[1].room = 2;
	put_many(10, 8000);
	replica_flush(wire_worker);
	assert_int_equal(wires[0].sent_count, 3); /* of four at the most */
	assert_int_equal(expect_numbers(0, 1), 10);
	assert_int_equal(expect_numbers(1, 1), 8);
	expect_silence(1);
	wires[1].room = 1;
	replica_flush(wire_worker);
	assert_int_equal(expect_numbers(1, 9), 2);
	expect_silence(0);
	/* Over a new connection all comes again that is not back. */
	for (unsigned i = 1; i <= 4; i++) {
		ack(0, i);
		if (i != 3)
			ack(1, i);
	}
	expect_back(3, WIRE_OK);
	replica_down(wire_worker, wire_link(0));
	wire_up(0, "anna");
	replica_flush(wire_worker);
	unsigned last = sent[0];
	struct link_reader r;
	struct link_reader_record record;
	assert_int_equal(next_message(0, &r), 4);
	assert_true(link_next_record(&r, &record));
	assert_int_equal(record.record->number, 3);
	assert_int_equal(wires[0].sent_count, last + 2);
	expect_silence(1);
	wires[1].room = 1;
	put("one more", 3);
	replica_flush(wire_worker);
	assert_int_equal(expect_numbers(1, 11), 1);
}

static void test_not_when(void **state)
{
	(void)state;
	be_primary();
	wire_up(2, "nobody");
	begin_with(ANNA | CARL);
	wires[0].room = 0;
	put("k", 3);
	replica_flush(wire_worker);
	assert_int_equal(wires[2].sent_count, 0);
	assert_int_equal(wires[0].sent_count, 0);
	wire_order((struct replica_order){ .kind = REPLICA_SEAL });
	put("j", 3); /* another member is primary, or will be */
	expect_back(1, WIRE_EELSEWHERE);
	wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN + 1, RECORDS_BACKUP, 0);
	put("i", 3);
	assert_int_equal(wires[0].sent_count, 0);
	expect_lag(0, 0);
	expect_lacking(ANNA | CARL, 0, 0);
	assert_int_equal(replica_visible(wire_replica), 0);
	assert_false(replica_is_settled(wire_replica));
}

/* ---------------------------------------------------------- acknowledgements */

static void test_told(void **state)
{
	(void)state;
	be_primary();
	begin_with(ANNA | CARL);
	assert_true(replica_is_settled(wire_replica));
	expect_lag(0, 0);
	put("a", 30);
	put("b", 400);
	put("c", 5000);
	replica_flush(wire_worker);
	assert_false(replica_is_settled(wire_replica));
	assert_int_equal(replica_visible(wire_replica), 0);
	expect_lag(3, 3);
	expect_lacking(ANNA, 1, 30);
	ack(0, 1);
	ack(0, 3);
	expect_lag(1, 3);
	expect_lacking(ANNA, 2, 400);
	expect_lacking(CARL, 1, 30);
	expect_lacking(4, 0, 0);
	ack(1, 2);
	ack(1, 1);
	expect_lag(1, 1);
	expect_lacking(CARL, 3, 5000);
	expect_back(1, WIRE_OK);
	assert_int_equal(replica_visible(wire_replica), 1);
	ack(0, 2);
	expect_lag(0, 1);
	expect_lacking(ANNA, 0, 0);
	expect_back(1, WIRE_OK);
	assert_int_equal(replica_visible(wire_replica), 2);
	ack(1, 3);
	expect_back(1, WIRE_OK);
	assert_int_equal(replica_visible(wire_replica), 3);
	assert_true(replica_is_settled(wire_replica));
}

static void test_whose_count(void **state)
{
	(void)state;
	be_primary();
	wire_up(2, "nobody");
	begin_with(ANNA | CARL);
	put("k", 3);
	replica_flush(wire_worker);
	ack(0, 1);
	hear_ack(2, WIRE_CARL, 1);
	hear_ack(1, WIRE_CARL + 1, 1);
	hear_ack(3, WIRE_CARL, 1);
	wire_begin(LINK_ACKS);
	wire_message.header->from = WIRE_CARL;
	link_put_number(&wire_message, 1);
	for (unsigned i = 0; i < 2; i++) { /* of before its reign; of an epoch that nobody has told it of */
		wire_message.header->epoch = i ? WIRE_REIGN - 1 : WIRE_EPOCH + 1;
		assert_true(wire_hear(1));
	}
	ack(1, 2);
	ack(0, 1);
	expect_back(0, 0);
	expect_lag(0, 1);
	ack(1, 1);
	expect_back(1, WIRE_OK);
	wire_begin(LINK_ACKS);
	wire_message.header->from = WIRE_CARL;
	wire_message.header->count = 2;
	assert_true(wire_hear(1));
	assert_string_equal(wires[1].closed, "its message is not what its header says");
}

/* Who is awaited no more keeps nothing back, and counts for nobody who has its place. */
static void test_awaited(void **state)
{
	const struct replica_order without = { .kind = REPLICA_AWAIT, .members = ANNA,
					       .seats = { { "anna", WIRE_ANNA } } };
	const struct replica_order with_dora = { .kind = REPLICA_AWAIT, .members = ANNA | CARL,
						 .seats = { { "anna", WIRE_ANNA }, { "dora", DORA_INCARNATION } } };

	(void)state;
	be_primary();
	begin_with(ANNA | CARL);
	put("a", 3);
	replica_flush(wire_worker);
	ack(0, 1);
	expect_back(0, 0);
	wire_order(without);
	expect_back(1, WIRE_OK);
	put("b", 3);
	expect_back(0, 0);
	ack(0, 2);
	expect_back(1, WIRE_OK);
	assert_int_equal(wires[0].sent_count, 2);
	assert_int_equal(wires[1].sent_count, 1);
	put("c", 3);
	replica_flush(wire_worker);
	wire_order(with_dora);
	replica_flush(wire_worker);
	assert_int_equal(wires[0].sent_count, 3); /* who stays goes on where it is */
	ack(0, 3);
	expect_back(1, WIRE_OK);
	wire_up(2, "dora");
	put("d", 3);
	replica_flush(wire_worker);
	assert_int_equal(wires[2].sent_count, 0); /* until it has begun */
	begin_with(CARL);
	replica_flush(wire_worker);
	assert_true(wires[0].sent_count == 4 && wires[1].sent_count == 1 && wires[2].sent_count == 1);
	ack(0, 4);
	ack(1, 4);
	expect_back(0, 0);
	hear_ack(2, DORA_INCARNATION, 4);
	expect_back(1, WIRE_OK);
}

/* -------------------------------------------------------------------------- group */

static int end(void **state)
{
	wire_fixture.table->mr[0] = NULL;
	return wire_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, wire_setup, end)
		TEST(test_sent), TEST(test_lengths), TEST(test_a_removal), TEST(test_a_completion_record),
		TEST(test_transactions), TEST(test_two_keys_of_a_stripe), TEST(test_many), TEST(test_not_when),
		TEST(test_told), TEST(test_whose_count), TEST(test_awaited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
