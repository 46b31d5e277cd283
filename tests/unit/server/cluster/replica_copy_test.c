/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica/copy.h and empty.h: what a joiner is sent of a table, once each, how much of it is
 * under way, how fast, and what is told of it.  Its connection and the time are made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/empty.h"
#include "server/cluster/replica/impl.h"
#include "server/store/change/remove.h"
#include "tests/unit/server/cluster/wire_kit.h"

#define ANNA 1u
#define CARL 2u /* the joiner */
#define MS 1000000ull
#define KEYS_MAX 1200u
#define TURNS_MAX 20000u
#define WORKER (&wire_fixture.worker[0])

static char text[400001];
static uint64_t now_ns, copies = 6; /* the latest one's number */
static unsigned seen_messages;
static uint64_t sent_numbers[4 * KEYS_MAX]; /* of copies that are not acknowledged */
static unsigned sent_count;
static unsigned copied[KEYS_MAX], stripes_copied;
static unsigned name_bytes; /* of names, at the least */

/* ------------------------------------------------------------------------- kit */

static const char *name_of(unsigned i)
{
	static char name[LAYOUT_KEY_BYTES_MAX + 1];
	unsigned n = (unsigned)snprintf(name, sizeof name, "%u.", i);

	if (n < name_bytes) {
		memset(name + n, 'x', name_bytes - n);
		name[name_bytes] = '\0';
	}
	return name;
}

static int try_put(unsigned i, uint64_t bytes)
{
	struct store_change c = wire_change_of(name_of(i));
	struct store_result r;

	c.value = text;
	c.value_bytes = bytes;
	c.with.flags = i;
	return store_put(WORKER, &c, &r);
}

static void come_back(void)
{
	struct durable_op *next;
	struct store_result r;

	replica_flush(wire_worker);
	for (struct durable_op *op = durable_port_take(&WORKER->port); op; op = next) {
		next = op->next;
		assert_int_equal(commit_end(WORKER, (struct commit *)op, &r), WIRE_OK);
	}
}

static void put(unsigned first, unsigned n, uint64_t bytes)
{
	for (unsigned i = first; i < first + n; i++) {
		assert_int_equal(try_put(i, bytes), STORE_COMMIT);
		come_back(); /* another one may have its stripe */
	}
}

static void remove_keys(unsigned first, unsigned n)
{
	struct store_result r;

	for (unsigned i = first; i < first + n; i++) {
		struct store_change c = wire_change_of(name_of(i));
		assert_int_equal(store_remove(WORKER, &c, &r), STORE_COMMIT);
		come_back();
	}
}

/* A primary that is alone. */
static void be_primary(void)
{
	memset(text, 't', sizeof text - 1);
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_PRIMARY, 0);
	wire_order((struct replica_order){ .kind = REPLICA_SHOW });
	wire_up(1, "carl");
	now_ns = 1000000 * MS;
	name_bytes = seen_messages = sent_count = stripes_copied = 0;
	memset(copied, 0, sizeof copied);
}

static void await(uint32_t members)
{
	wire_order((struct replica_order){ .kind = REPLICA_AWAIT, .members = members,
					   .seats = { { "anna", WIRE_ANNA }, { "carl", WIRE_CARL } } });
}

static void begin_copy(void)
{
	copies++;
	await(CARL);
	wire_order((struct replica_order){ .kind = REPLICA_BEGUN_BY, .members = CARL });
	wire_order((struct replica_order){ .kind = REPLICA_COPY, .number = copies, .members = CARL });
}

/* One that is of a copy. */
static void note_record(struct link_reader_record *record)
{
	const struct link_item *item;
	const uint8_t *key, *value;

	assert_int_equal(record->record->stripes, 1);
	sent_numbers[sent_count++] = record->record->number;
	item = link_next_item(record, &key, &value);
	if (!item) {
		stripes_copied++;
		return;
	}
	const char *name = name_of(item->client_flags);
	assert_int_equal(item->key_bytes, strlen(name));
	assert_memory_equal(key, name, item->key_bytes);
	assert_int_equal(record->stripes[0], wire_stripe(name, item->key_bytes));
	assert_true(item->version && item->version <= record->record->version);
	copied[item->client_flags]++;
	assert_null(link_next_item(record, &key, &value));
}

/* How many records of the copy leave. */
static unsigned look(void)
{
	struct link_reader_record record;
	unsigned before = sent_count;

	replica_flush(wire_worker);
	while (seen_messages < wires[1].sent_count) {
		struct link_reader r = wire_sent(1, seen_messages++, LINK_RECORDS);
		while (link_next_record(&r, &record))
			if (record.record->flags == LINK_COPY)
				note_record(&record);
	}
	return sent_count - before;
}

/* A worker's turn. */
static unsigned turn(void)
{
	replica_copy(wire_worker, now_ns);
	return look();
}

static void acknowledge(uint64_t number)
{
	wire_begin(LINK_ACKS);
	wire_message.header->from = WIRE_CARL;
	link_put_number(&wire_message, number);
	assert_true(wire_hear(1));
	come_back();
}

/* The eldest of them. */
static void acknowledge_copies(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		acknowledge(sent_numbers[i]);
	sent_count -= n;
	memmove(sent_numbers, sent_numbers + n, sent_count * sizeof *sent_numbers);
}

static void copy_all(void)
{
	for (unsigned n = 0; !replica_is_copied(wire_replica, copies); n++) {
		assert_true(n < TURNS_MAX);
		turn();
		acknowledge_copies(sent_count);
	}
	assert_false(replica_is_copied(wire_replica, copies + 1));
}

static void expect_copied(unsigned first, unsigned n, unsigned times)
{
	for (unsigned i = first; i < first + n; i++)
		if (copied[i] != times)
			fail_msg("key %u was copied %u times", i, copied[i]);
}

static void expect_progress(uint64_t keys, uint64_t bytes, uint64_t of)
{
	struct replica_progress p;

	assert_true(replica_progress(wire_replica, &p));
	assert_int_equal(p.keys, keys);
	assert_int_equal(p.bytes, bytes);
	assert_int_equal(p.of, of);
}

static uint64_t bytes_of(unsigned i, uint64_t value_bytes)
{
	return layout_item_bytes(strlen(name_of(i)), value_bytes);
}

/* -------------------------------------------------------------------------- tests */

static void test_each_once(void **state)
{
	struct replica_progress p;

	(void)state;
	be_primary();
	put(0, 500, 10);
	remove_keys(450, 50);
	assert_false(replica_copies(wire_worker));
	assert_false(replica_progress(wire_replica, &p));
	begin_copy();
	assert_true(replica_copies(wire_worker));
	expect_progress(0, 0, 450);
	assert_false(replica_is_copied(wire_replica, copies));
	copy_all();
	expect_copied(0, 450, 1);
	expect_copied(450, 50, 0);
	assert_in_range(stripes_copied, 1, 50); /* of which no key is left */
	expect_progress(450, 450 * (bytes_of(0, 10) + 2) - 10 * 2 - 90, 450); /* of their names' bytes */
	await(CARL);
	assert_true(replica_copies(wire_worker));
	await(ANNA | CARL);
	assert_true(replica_copies(wire_worker));
	wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN, RECORDS_PRIMARY, CARL);
	assert_false(replica_copies(wire_worker));
}

/* Its stripe is nobody else's until the joiner has it. */
static void test_under_way(void **state)
{
	(void)state;
	be_primary();
	put(0, 1, 100);
	begin_copy();
	assert_int_equal(turn(), 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(try_put(0, 5), STORE_ASIDE);
	assert_false(replica_is_copied(wire_replica, copies));
	expect_progress(0, 0, 1);
	acknowledge(sent_numbers[0]);
	expect_progress(1, bytes_of(0, 100), 1);
	put(0, 1, 5);
	copy_all();
	expect_copied(0, 1, 1);
	assert_true(replica_is_copied(wire_replica, copies));
}

static void test_so_many_at_once(void **state)
{
	(void)state;
	be_primary();
	put(0, 200, 10);
	begin_copy();
	while (sent_count < 64)
		assert_true(turn() > 0 && sent_count <= 64);
	assert_int_equal(turn(), 0);
	acknowledge_copies(3);
	unsigned more = 0;
	for (unsigned i = 0; i < 20; i++)
		more += turn();
	assert_int_equal(more, 3);
	copy_all();
	expect_copied(0, 200, 1);
}

/* A mebibyte, and the one that goes beyond it. */
static void test_so_many_bytes_at_once(void **state)
{
	const uint64_t beside = bytes_of(0, 0);

	(void)state;
	be_primary();
	put(0, 9, (1 << 18) - beside);
	begin_copy();
	assert_int_equal(turn(), 4);
	assert_int_equal(turn(), 0);
	acknowledge_copies(1);
	assert_int_equal(turn(), 1);
	copy_all();
	expect_progress(9, 9 << 18, 9);
}

static void test_rate(void **state)
{
	unsigned n = 0;

	(void)state;
	be_primary();
	wire_replica->options.copy_bytes_s = 9999999; /* 10 a microsecond */
	name_bytes = 8;
	put(0, 40, 95904 - bytes_of(0, 0)); /* with what a message costs 10 ms each */
	begin_copy();
	assert_int_equal(turn(), 1); /* whatever was before */
	acknowledge_copies(1);
	now_ns += 8 * MS - 1; /* it made up for two */
	assert_int_equal(turn(), 0);
	now_ns++;
	assert_int_equal(turn(), 1);
	acknowledge_copies(1);
	uint64_t begun_ns = now_ns;
	for (; n < 9; now_ns += MS / 10) {
		n += turn();
		acknowledge_copies(sent_count);
	}
	assert_in_range(now_ns - begun_ns, 90 * MS, 91 * MS);
	/* What it did not use is not made up for. */
	now_ns += 1000 * MS;
	n = turn();
	now_ns += 7 * MS;
	n += turn();
	assert_int_equal(n, 1);
	now_ns += 2 * MS;
	assert_int_equal(turn(), 1);
}

/* By a record, or not at all. */
static void test_what_is_not_copied(void **state)
{
	uint64_t numbers;

	(void)state;
	be_primary();
	put(0, 30, 10);
	begin_copy();
	numbers = wire_replica->records.numbers;
	for (unsigned i = 10; i < 20; i++)
		assert_int_equal(try_put(i, 20), STORE_COMMIT);
	for (unsigned i = 30; i < 35; i++)
		assert_int_equal(try_put(i, 20), STORE_COMMIT);
	replica_flush(wire_worker);
	for (unsigned i = 1; i <= 15; i++)
		acknowledge(numbers + i);
	copy_all();
	expect_copied(0, 10, 1);
	expect_copied(10, 10, 0);
	expect_copied(20, 10, 1);
	expect_copied(30, 5, 0);
	assert_int_equal(stripes_copied, 0);
	struct replica_progress p;
	assert_true(replica_progress(wire_replica, &p));
	assert_int_equal(p.keys, 35);
	assert_int_equal(p.of, 30);
}

/* They are in its hand already. */
static void test_removed_meanwhile(void **state)
{
	(void)state;
	be_primary();
	put(0, 1000, 10);
	begin_copy();
	while (sent_count < 64)
		assert_true(turn() > 0);
	unsigned removed = 0;
	for (unsigned i = 0; i < 1000; i++) {
		struct store_change c = wire_change_of(name_of(i));
		struct store_result r;
		if (copied[i] || store_remove(WORKER, &c, &r) != STORE_COMMIT)
			continue;
		assert_int_equal(look(), 0);
		acknowledge(wire_replica->records.numbers);
		removed++;
	}
	assert_true(removed > 500);
	copy_all();
	unsigned n = 0;
	for (unsigned i = 0; i < 1000; i++) {
		assert_true(copied[i] <= 1);
		n += copied[i];
	}
	assert_int_equal(n, 1000 - removed);
	for (uint64_t i = 0; i < wire_fixture.table->stripes; i++)
		assert_int_equal(wire_fixture.table->marks[i], 0);
}

/* Changes that began before it come to an end first. */
static void test_what_began_before(void **state)
{
	(void)state;
	be_primary();
	await(CARL);
	wire_order((struct replica_order){ .kind = REPLICA_BEGUN_BY, .members = CARL });
	assert_int_equal(try_put(0, 10), STORE_COMMIT);
	replica_flush(wire_worker);
	wire_order((struct replica_order){ .kind = REPLICA_COPY, .number = copies, .members = CARL });
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(turn(), 0);
	assert_false(replica_is_copied(wire_replica, copies));
	acknowledge(1);
	copy_all();
	expect_copied(0, 1, 1);
}

/* A hand holds a few of them. */
static void test_long_keys(void **state)
{
	(void)state;
	be_primary();
	for (name_bytes = LAYOUT_KEY_BYTES_MAX; name_bytes > LAYOUT_KEY_BYTES_MAX - 16; name_bytes--) {
		wire_teardown(state);
		assert_int_equal(wire_setup(state), 0);
		unsigned bytes = name_bytes;
		be_primary();
		name_bytes = bytes;
		put(0, 40, 10);
		begin_copy();
		copy_all();
		expect_copied(0, 40, 1);
		assert_int_equal(stripes_copied, 0);
	}
}

static void test_given_up(void **state)
{
	struct replica_progress p;

	(void)state;
	for (unsigned by_epoch = 0; by_epoch < 2; by_epoch++) {
		if (by_epoch) {
			wire_teardown(state);
			assert_int_equal(wire_setup(state), 0);
		}
		be_primary();
		put(0, 100, 10);
		begin_copy();
		assert_true(turn() > 0);
		if (by_epoch)
			wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN, RECORDS_PRIMARY, 0);
		else
			await(0);
		come_back();
		assert_false(replica_copies(wire_worker));
		assert_false(replica_progress(wire_replica, &p));
		assert_false(replica_is_copied(wire_replica, copies));
		sent_count = 0;
		put(0, 100, 20); /* nothing is marked */
		assert_int_equal(turn(), 0);
		/* Another one begins anew. */
		memset(copied, 0, sizeof copied);
		if (by_epoch)
			continue;
		begin_copy();
		copy_all();
		expect_copied(0, 100, 1);
	}
}

static bool spoil(uint32_t members)
{
	bool is_spoiled;

	replica_enter(wire_replica, wire_worker);
	is_spoiled = replica_spoil_copy(wire_replica, members);
	replica_leave(wire_replica);
	return is_spoiled;
}

/* It is sent nothing any more, and not copied to in the end. */
static void test_spoiled(void **state)
{
	(void)state;
	be_primary();
	put(0, 10, 10);
	assert_false(spoil(CARL));
	begin_copy();
	assert_false(spoil(ANNA));
	assert_false(spoil(ANNA | CARL));
	assert_false(replica_is_spoiled(wire_replica, copies));
	assert_true(spoil(CARL));
	assert_true(replica_is_spoiled(wire_replica, copies));
	assert_false(replica_is_spoiled(wire_replica, copies + 1));
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(turn(), 0);
	for (uint64_t i = 1; i <= wire_replica->records.numbers; i++)
		acknowledge(i);
	assert_false(replica_is_copied(wire_replica, copies));
}

/* The joiner may be named any moment. */
static void test_told_is_not_spoiled(void **state)
{
	(void)state;
	be_primary();
	put(0, 10, 10);
	begin_copy();
	copy_all();
	assert_false(spoil(CARL));
	assert_false(replica_is_spoiled(wire_replica, copies));
}

static void test_emptied(void **state)
{
	(void)state;
	be_primary();
	put(0, KEYS_MAX, 10);
	name_bytes = LAYOUT_KEY_BYTES_MAX;
	put(0, 50, 10);
	wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN, RECORDS_OUT, 0);
	wire_order((struct replica_order){ .kind = REPLICA_EMPTY });
	assert_int_equal(index_keys(wire_fixture.store->index), KEYS_MAX + 50);
	unsigned n = 0;
	while (!replica_empty(wire_worker))
		assert_true(n++ < TURNS_MAX);
	assert_int_equal(index_keys(wire_fixture.store->index), 0);
	assert_int_equal(wire_fixture.store->value_bytes, 0);
	assert_true(replica_empty(wire_worker));
}

/* -------------------------------------------------------------------------- group */

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, wire_setup, wire_teardown)
		TEST(test_each_once), TEST(test_under_way), TEST(test_so_many_at_once),
		TEST(test_so_many_bytes_at_once), TEST(test_rate), TEST(test_what_is_not_copied),
		TEST(test_removed_meanwhile), TEST(test_what_began_before), TEST(test_long_keys),
		TEST(test_given_up), TEST(test_spoiled), TEST(test_told_is_not_spoiled), TEST(test_emptied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
