/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica/disk.h: what of a member's records goes to its disk, with which notes, and what is
 * acknowledged and answered when it comes back.  The disk is made up: it gives back when it is told to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/cluster/note/note.h"
#include "server/cluster/replica/begin.h"
#include "server/cluster/replica/impl.h"
#include "server/durable/durable.h"
#include "server/store/item/stripe.h"
#include "server/store/put.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/server/cluster/wire_kit.h"

#define ANNA 1u
#define OPS_MAX 8u
#define WALL_MS 7000u /* the disk's clock is so far ahead */

static struct durable *const disk = (struct durable *)(void *)&wires[0];
static struct durable_op *ops[OPS_MAX]; /* on their way */
static unsigned op_count;
static uint64_t number, seen;

/* -------------------------------------------------------------------- made up */

MADE_UP(void, durable_submit, struct durable *d, struct durable_op *op)
{
	assert_true(d == disk && op_count < OPS_MAX);
	op->next = NULL;
	ops[op_count++] = op;
}

MADE_UP(uint64_t, durable_wall_ms, const struct durable *d, uint64_t expiry_ms)
{
	assert_ptr_equal(d, disk);
	return expiry_ms ? expiry_ms + WALL_MS : 0;
}

MADE_UP(void, durable_seen, struct durable *d, uint64_t reign, uint64_t up_to)
{
	assert_true(d == disk && reign == WIRE_REIGN);
	seen = up_to;
}

/* ------------------------------------------------------------------------- kit */

/* The eldest comes back so. */
static void give_back(enum durable_result result)
{
	struct durable_op *op = ops[0];

	assert_true(op_count > 0);
	op_count--;
	memmove(ops, ops + 1, op_count * sizeof *ops);
	op->result = result;
	durable_port_keep(op);
	replica_flush(wire_worker);
}

static void be_backup(void)
{
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_BACKUP, 0);
	wire_up(0, "anna");
}

static void add_record(uint16_t flags, const char *key, const char *value, uint64_t version)
{
	const uint32_t stripe = wire_stripe(key, strlen(key));
	const struct link_item item = { .key_bytes = (uint16_t)strlen(key), .version = value ? version : 0,
					.value_bytes = value ? (uint32_t)strlen(value) : 0,
					.left_ms = value ? 60000 : 0, .flags = value ? 0 : LINK_DELETED };

	link_begin_record(&wire_message, flags, number, version, &stripe, 1);
	link_put_item(&wire_message, &item, key, value);
	wire_end_record();
}

static void hear(uint16_t flags, const char *key, const char *value, uint64_t version)
{
	number++;
	wire_begin(LINK_RECORDS);
	add_record(flags, key, value, version);
	assert_true(wire_hear(0));
}

/* What this connection was sent as acknowledgements, all in all. */
static void expect_acks(unsigned i, unsigned n, uint64_t last)
{
	replica_flush(wire_worker);
	assert_int_equal(wires[i].sent_count, n);
	if (!n)
		return;
	struct link_reader r = wire_sent(i, n - 1, LINK_ACKS);
	assert_true(r.header->count == 1 && r.header->epoch == WIRE_EPOCH);
	assert_int_equal(*link_next_number(&r), last);
}

static void expect_record(const struct durable_record *r, const char *key, const char *value, uint64_t version)
{
	assert_int_equal(r->key_bytes, strlen(key));
	assert_memory_equal(r->key, key, r->key_bytes);
	assert_int_equal(r->version, version);
	if (!version)
		return;
	assert_int_equal(r->value_bytes, strlen(value));
	assert_memory_equal(r->value, value, r->value_bytes);
}

/* The only note of the eldest. */
static struct note expect_note(uint64_t version, uint64_t before, uint64_t of)
{
	struct note n;

	assert_true(op_count > 0);
	assert_int_equal(ops[0]->note_count, 1);
	assert_int_equal(ops[0]->notes[0].stripe, wire_stripe("k", 1));
	assert_true(note_read(ops[0]->notes[0].bytes, ops[0]->notes[0].length, &n));
	assert_int_equal(n.version, version);
	assert_int_equal(n.before, before);
	assert_int_equal(n.number, of);
	assert_int_equal(n.reign, of ? WIRE_REIGN : 0);
	assert_int_equal(n.stripe_count, of ? 1 : 0);
	assert_true(!of || n.stripes[0] == wire_stripe("k", 1));
	return n;
}

/* A key and value that what becomes of the item does not touch. */
static void expect_own(const struct durable_record *r)
{
	const uint8_t *base = wire_fixture.table->base, *key = r->key, *value = r->value;

	assert_true(key < base || key >= base + wire_fixture.table->bytes);
	assert_true(value < base || value >= base + wire_fixture.table->bytes);
}

/* --------------------------------------------------------------------- a backup */

static void test_taken(void **state)
{
	struct note n;

	(void)state;
	be_backup();
	hear(0, "k", "one", 10);
	assert_true(replica_is_writing(wire_worker));
	expect_acks(0, 0, 0);
	assert_int_equal(ops[0]->count, 1);
	expect_record(&ops[0]->records[0], "k", "one", 10);
	n = expect_note(10, 0, 1);
	assert_int_equal(n.count, 1);
	expect_record(&n.keys[0], "k", "", 0); /* it was not there */
	assert_int_equal(wire_fixture.worker[0].commit_bytes, ops[0]->notes[0].length);
	const uint64_t expiry_ms = ops[0]->records[0].with.expiry_ms;
	assert_true(expiry_ms >= 60000);
	give_back(DURABLE_WRITTEN);
	expect_acks(0, 1, 1);
	assert_false(replica_is_writing(wire_worker));
	assert_int_equal(wire_replica->writes, 0);
	hear(0, "k", NULL, 20);
	assert_int_equal(op_count, 1);
	expect_record(&ops[0]->records[0], "k", "", 0);
	n = expect_note(20, 10, 2);
	expect_record(&n.keys[0], "k", "one", 10);
	assert_int_equal(n.keys[0].with.expiry_ms, expiry_ms + WALL_MS);
	give_back(DURABLE_WRITTEN);
	expect_acks(0, 2, 2);
	assert_int_equal(wire_fixture.worker[0].commit_bytes, 0);
	wire_see(2);
	assert_int_equal(seen, 2);
	wire_expect("k", NULL);
}

/* It comes again by another connection: once it is on the disk that one is told. */
static void test_again(void **state)
{
	(void)state;
	be_backup();
	hear(0, "k", "one", 10);
	replica_down(wire_worker, wire_link(0));
	wire_up(1, "carl");
	wire_up(2, "anna");
	wire_begin(LINK_RECORDS);
	add_record(0, "k", "one", 10);
	assert_true(wire_hear(2));
	expect_acks(2, 0, 0);
	assert_int_equal(op_count, 1);
	give_back(DURABLE_WRITTEN);
	expect_acks(2, 1, 1);
	assert_int_equal(wires[1].sent_count, 0);
	wire_begin(LINK_RECORDS);
	add_record(0, "k", "one", 10);
	assert_true(wire_hear(2));
	expect_acks(2, 2, 1);
	assert_int_equal(op_count, 0);
}

static void test_refused(void **state)
{
	(void)state;
	be_backup();
	hear(0, "k", "one", 10);
	give_back(DURABLE_REFUSED);
	assert_string_equal(wire_unfit, "its disk does not take another member's change");
	expect_acks(0, 0, 0);
}

static void test_copies(void **state)
{
	(void)state;
	be_backup();
	hear(LINK_COPY, "k", "copied", 30);
	wire_expect("k", "copied");
	assert_true(replica_is_writing(wire_worker));
	assert_int_equal(ops[0]->count, 1);
	expect_record(&ops[0]->records[0], "k", "copied", 30);
	expect_own(&ops[0]->records[0]);
	assert_int_equal(wire_fixture.worker[0].commit_bytes, ops[0]->notes[0].length + strlen("kcopied"));
	expect_note(30, 0, 0);
	expect_acks(0, 0, 0);
	wire_begin(LINK_RECORDS); /* the same */
	add_record(LINK_COPY, "k", "copied", 30);
	assert_true(wire_hear(0));
	expect_acks(0, 0, 0);
	assert_int_equal(op_count, 1);
	give_back(DURABLE_WRITTEN);
	expect_acks(0, 1, 1);
	assert_int_equal(wire_fixture.worker[0].commit_bytes, 0);
	wire_begin(LINK_RECORDS); /* it is there */
	add_record(LINK_COPY, "k", "copied", 30);
	assert_true(wire_hear(0));
	expect_acks(0, 2, 1);
	hear(LINK_COPY, "k", "more", 40);
	give_back(DURABLE_UNKNOWN);
	assert_string_equal(wire_unfit, "its disk does not take another member's change");
	expect_acks(0, 2, 1);
}

/* Compaction has a mark for a few steps; nobody else has. */
static void test_a_stripe_that_stays_marked(void **state)
{
	const uint64_t begun_ns = clock_ns();

	(void)state;
	be_backup();
	assert_true(stripe_mark(wire_fixture.store, wire_stripe("k", 1)));
	hear(0, "k", "one", 10);
	assert_true(clock_ns() - begun_ns >= REPLICA_FREE_NS);
	assert_string_equal(wire_unfit, "there is no memory to write a change, or its stripe stays marked");
	assert_int_equal(op_count, 0);
	assert_false(replica_is_writing(wire_worker));
	stripe_unmark(wire_fixture.store, wire_stripe("k", 1));
}

/* Of a write, of its note; of a copy's value, too: all that it got is given back. */
static void test_no_memory(void **state)
{
	for (unsigned is_copy = 0; is_copy < 2; is_copy++)
		for (unsigned at = 2; at < 4 + is_copy; at++) { /* behind the record's own */
			wire_fixture.store->durable = NULL;
			wire_teardown(state);
			assert_int_equal(wire_setup(state), 0);
			wire_fixture.store->durable = disk;
			be_backup();
			fails_at = at;
			has_failed = false;
			hear(is_copy ? LINK_COPY : 0, "k", "one", 10);
			assert_true(has_failed);
			assert_string_equal(wire_unfit,
					    is_copy ? "there is no memory to write a copy"
						    : "there is no memory to write a change, or its stripe stays marked");
			expect_acks(0, 0, 0);
			assert_int_equal(op_count, 0);
			assert_int_equal(wire_fixture.worker[0].commit_bytes, 0);
			assert_false(replica_is_writing(wire_worker));
		}
}

/* What a beginning drops is taken back on the disk before it is said that it began. */
static void test_dropped(void **state)
{
	(void)state;
	be_backup();
	hear(0, "k", "one", 10);
	give_back(DURABLE_WRITTEN);
	hear(0, "k", "two", 20);
	give_back(DURABLE_WRITTEN);
	wire_order((struct replica_order){ .kind = REPLICA_EPOCH, .epoch = WIRE_EPOCH + 1, .reign = WIRE_REIGN + 1,
					   .role = RECORDS_BACKUP, .incarnation = WIRE_ME });
	assert_true(replica_ask(wire_replica, 7));
	wire_replica->question.entries[0].fate = RECORDS_UNKNOWN;
	wire_replica->question.answered = 1;
	wire_order((struct replica_order){ .kind = REPLICA_RESOLVE, .number = 7 });
	assert_true(replica_is_writing(wire_worker));
	assert_int_equal(op_count, 1);
	assert_int_equal(ops[0]->count, 1);
	expect_record(&ops[0]->records[0], "k", "one", 10);
	expect_own(&ops[0]->records[0]);
	expect_note(10, 0, 0);
	give_back(DURABLE_WRITTEN);
	assert_false(replica_is_writing(wire_worker));
	assert_int_equal(wires[0].sent_count, 2); /* nobody is told of that */
	wire_expect("k", "one");
	assert_int_equal(wire_fixture.worker[0].commit_bytes, 0);
}

/* -------------------------------------------------------------------- a primary */

static void be_primary(uint32_t members)
{
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_PRIMARY, members);
	wire_order((struct replica_order){ .kind = REPLICA_SHOW });
	wire_up(0, "anna");
	wire_order((struct replica_order){ .kind = REPLICA_BEGUN_BY, .members = members });
}

static void put(const char *value)
{
	struct store_change c = wire_change_of("k");
	struct store_result r;

	c.value = value;
	c.value_bytes = strlen(value);
	assert_int_equal(store_put(&wire_fixture.worker[0], &c, &r), STORE_COMMIT);
}

static void ack(uint64_t of)
{
	wire_begin(LINK_ACKS);
	link_put_number(&wire_message, of);
	assert_true(wire_hear(0));
}

/* Whether it is back; then with that. */
static void expect_back(bool is, int status)
{
	struct store_result r;

	replica_flush(wire_worker);
	struct durable_op *op = durable_port_take(&wire_fixture.worker[0].port);
	assert_int_equal(op != NULL, is);
	if (op)
		assert_int_equal(commit_end(&wire_fixture.worker[0], (struct commit *)op, &r), status);
}

/* Both have it: the other member, and its own disk. */
static void test_both(void **state)
{
	(void)state;
	be_primary(ANNA);
	for (unsigned disk_first = 0; disk_first < 2; disk_first++) {
		put(disk_first ? "two" : "one");
		replica_flush(wire_worker);
		assert_int_equal(wires[0].sent_count, disk_first + 1);
		assert_int_equal(op_count, 1);
		const uint64_t version = ops[0]->records[0].version;
		expect_record(&ops[0]->records[0], "k", disk_first ? "two" : "one", version);
		const struct note n = expect_note(version, wire_replica->records.slots[wire_stripe("k", 1)].applied,
						  disk_first + 1);
		assert_int_equal(n.keys[0].version > 0, disk_first);
		expect_back(false, 0);
		if (disk_first)
			give_back(DURABLE_WRITTEN);
		else
			ack(1);
		expect_back(false, 0);
		if (disk_first)
			ack(2);
		else
			give_back(DURABLE_WRITTEN);
		expect_back(true, WIRE_OK);
		wire_expect("k", disk_first ? "two" : "one");
		assert_int_equal(replica_visible(wire_replica), disk_first + 1);
		assert_int_equal(seen, disk_first + 1);
	}
	assert_string_equal(wire_unfit, "");
	assert_false(replica_is_writing(wire_worker));
}

/* Nobody else was sent it: it is as its disk says.  Others have it: another one decides. */
static void test_its_disk_refuses(void **state)
{
	(void)state;
	be_primary(0);
	put("one");
	give_back(DURABLE_REFUSED);
	expect_back(true, WIRE_EDISK);
	assert_string_equal(wire_unfit, "");
	wire_expect("k", NULL);
	wire_fixture.store->durable = NULL;
	wire_teardown(state);
	assert_int_equal(wire_setup(state), 0);
	wire_fixture.store->durable = disk;
	be_primary(ANNA);
	put("one");
	replica_flush(wire_worker);
	give_back(DURABLE_REFUSED);
	expect_back(false, 0);
	assert_string_equal(wire_unfit, "its disk takes no change that other members have already: another one decides "
					"what becomes of it");
	wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN + 1, RECORDS_OUT, 0); /* as another one is primary */
}

static void test_no_memory_for_its_disk(void **state)
{
	(void)state;
	be_primary(0);
	put("old");
	give_back(DURABLE_WRITTEN);
	expect_back(true, WIRE_OK);
	for (unsigned at = 2; at < 4; at++) { /* of the write, of its note; and 4: of none */
		struct store_change c = wire_change_of("k");
		struct store_result r;
		c.value = "new";
		c.value_bytes = 3;
		assert_int_equal(wire_fixture.worker[0].commit_bytes, 0);
		fails_at = at;
		has_failed = false;
		assert_int_equal(store_put(&wire_fixture.worker[0], &c, &r), STORE_COMMIT);
		fails_at = 0;
		if (!has_failed)
			give_back(DURABLE_WRITTEN);
		expect_back(true, has_failed ? WIRE_EDISK : WIRE_OK);
		assert_int_equal(op_count, 0);
	}
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	int rc = wire_setup(state);

	wire_fixture.store->durable = disk;
	op_count = 0;
	number = seen = 0;
	return rc;
}

static int tear_down(void **state)
{
	while (op_count)
		give_back(DURABLE_WRITTEN);
	wire_fixture.store->durable = NULL;
	return wire_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_taken), TEST(test_again), TEST(test_refused), TEST(test_copies),
		TEST(test_a_stripe_that_stays_marked), TEST(test_no_memory), TEST(test_dropped),
		TEST(test_both), TEST(test_its_disk_refuses), TEST(test_no_memory_for_its_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
