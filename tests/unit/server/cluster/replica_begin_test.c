/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica/begin.h: what a backup asks of what it has open, part by part, what a primary answers,
 * answers that can't be, and what becomes of each change.  With it order.h: the same of orders.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "server/cluster/record/records.h"
#include "server/cluster/replica/begin.h"
#include "server/cluster/replica/impl.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/server/cluster/wire_kit.h"

#define QUESTION 77u
#define NAME_BYTES 12u

static uint64_t number;
static uint8_t memory[2][LINK_BYTES_MAX] __attribute__((aligned(8)));
static struct link_writer open_message, begin_message;
static uint64_t reserved_bytes;

MADE_UP(void, region_set_reserve, struct region *region, uint64_t bytes)
{
	if (region == wire_fixture.table->region)
		reserved_bytes = bytes;
}

/* ------------------------------------------------------------------------- kit */

static void be_backup(void)
{
	number = 0;
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_BACKUP, 0);
	wire_up(0, "anna");
}

static void hear(const char *key, uint64_t version)
{
	const uint32_t stripe = wire_stripe(key, strlen(key));
	const struct link_item item = { .key_bytes = (uint16_t)strlen(key), .value_bytes = 5, .version = version };

	wire_begin(LINK_RECORDS);
	link_begin_record(&wire_message, 0, ++number, version, &stripe, 1);
	link_put_item(&wire_message, &item, key, "value");
	wire_end_record();
	assert_true(wire_hear(0));
}

static struct link_reader reader_of(const struct link_writer *w)
{
	struct link_reader r;
	const char *why = "";

	if (link_open(&r, w->memory, link_length(w), &why))
		fail_msg("%s", why);
	return r;
}

/* The next part of the question, with so many entries. */
static struct link_reader question(unsigned entries)
{
	link_begin(&open_message, memory[0], LINK_OPEN, WIRE_EPOCH, 0, 0, QUESTION);
	replica_put_question(wire_replica, &open_message);
	assert_int_equal(open_message.header->count, entries);
	return reader_of(&open_message);
}

static void begin_answer(uint64_t of)
{
	link_begin(&begin_message, memory[1], LINK_BEGIN, WIRE_EPOCH, 0, 0, of);
}

static void expect_answered(enum replica_answered is)
{
	struct link_reader r = reader_of(&begin_message);

	assert_int_equal(replica_answered(wire_replica, &r), is);
}

/* The same for each entry of the question. */
static void answer_all(struct link_reader asked, enum records_fate fate)
{
	const struct link_entry *e;

	begin_answer(QUESTION);
	while ((e = link_next_entry(&asked))) {
		struct link_entry answer = *e;
		answer.fate = fate;
		link_put_entry(&begin_message, &answer);
	}
}

static void next_epoch(void)
{
	wire_order((struct replica_order){ .kind = REPLICA_EPOCH, .epoch = WIRE_EPOCH + 1, .reign = WIRE_REIGN + 1,
					   .role = RECORDS_BACKUP, .incarnation = WIRE_ME,
					   .seats = { { "anna", WIRE_ANNA } } });
}

static void resolve(uint64_t of)
{
	wire_order((struct replica_order){ .kind = REPLICA_RESOLVE, .number = of });
}

static unsigned count_open(void)
{
	unsigned n = 0;

	for (struct record *r = wire_replica->records.open.next; r != &wire_replica->records.open; r = r->next)
		n++;
	return n;
}

/* ------------------------------------------------------------------ a question */

static void test_asked(void **state)
{
	static const char *const keys[] = { "a", "b", "c" };
	const struct link_entry *e;

	(void)state;
	be_backup();
	for (unsigned i = 0; i < 3; i++)
		hear(keys[i], 10 + i);
	next_epoch();
	assert_true(replica_ask(wire_replica, QUESTION));
	struct link_reader asked = question(3);
	for (unsigned i = 0; i < 3; i++) {
		e = link_next_entry(&asked);
		assert_non_null(e);
		assert_int_equal(e->stripe, wire_stripe(keys[i], 1));
		assert_int_equal(e->version, 10 + i);
		assert_int_equal(e->reign, WIRE_REIGN);
		assert_int_equal(e->fate, RECORDS_UNKNOWN);
	}
	fails_at = 1; /* no memory to ask */
	assert_false(replica_ask(wire_replica, QUESTION + 1));
	begin_answer(0);
	expect_answered(REPLICA_ANSWERED_NOT);
	assert_true(replica_ask(wire_replica, QUESTION));
	question(3);
}

static void test_nothing_is_open(void **state)
{
	(void)state;
	be_backup();
	next_epoch();
	assert_true(replica_ask(wire_replica, QUESTION));
	answer_all(question(0), RECORDS_OPEN);
	expect_answered(REPLICA_ANSWERED_WHOLE);
	begin_answer(QUESTION + 1);
	expect_answered(REPLICA_ANSWERED_NOT);
	begin_answer(QUESTION);
	link_put_entry(&begin_message, &(struct link_entry){ .stripe = 1 });
	expect_answered(REPLICA_ANSWERED_NOT);
}

static void test_fates(void **state)
{
	static const struct { enum records_fate fate; bool is_there; unsigned open; } fates[] = {
		{ RECORDS_UNKNOWN, false, 0 }, { RECORDS_APPLIED, true, 0 }, { RECORDS_OPEN, false, 1 },
	};

	for (unsigned i = 0; i < 3; i++) {
		if (i) {
			wire_teardown(state);
			assert_int_equal(wire_setup(state), 0);
		}
		be_backup();
		hear("k", 10);
		next_epoch();
		assert_true(replica_ask(wire_replica, QUESTION));
		answer_all(question(1), fates[i].fate);
		expect_answered(REPLICA_ANSWERED_WHOLE);
		resolve(QUESTION + 1); /* of another question */
		assert_int_equal(count_open(), 1);
		assert_false(wire_replica->records.is_ready);
		resolve(QUESTION);
		assert_true(wire_replica->records.is_ready);
		assert_int_equal(count_open(), fates[i].open);
		wire_expect("k", fates[i].is_there ? "value" : NULL);
		begin_answer(QUESTION); /* it is over */
		expect_answered(REPLICA_ANSWERED_NOT);
	}
}

/* Of other entries than were asked, or in another order. */
static void test_answers_that_cant_be(void **state)
{
	(void)state;
	be_backup();
	hear("k", 10);
	next_epoch();
	for (unsigned i = 0; i < 7; i++) {
		struct link_entry e = { .stripe = wire_stripe("k", 1), .version = 10, .reign = WIRE_REIGN,
					.fate = RECORDS_APPLIED };
		assert_true(replica_ask(wire_replica, QUESTION));
		e.stripe += i == 0;
		e.version += i == 1;
		e.reign += i == 2;
		e.fate += i == 3;
		begin_answer(QUESTION);
		if (i != 4)
			link_put_entry(&begin_message, &e);
		if (i == 5)
			link_put_entry(&begin_message, &e);
		expect_answered(i == 6 ? REPLICA_ANSWERED_WHOLE : REPLICA_ANSWERED_NOT);
	}
}

/* More than one message has room for. */
static void test_parts(void **state)
{
	char key[NAME_BYTES];
	unsigned n = 0;

	(void)state;
	be_backup();
	for (unsigned i = 0; count_open() < LINK_COUNT_MAX + 3; i++) {
		snprintf(key, sizeof key, "%u", i);
		hear(key, 10 + i);
	}
	next_epoch();
	assert_true(replica_ask(wire_replica, QUESTION));
	struct link_reader asked = question(LINK_COUNT_MAX);
	question(LINK_COUNT_MAX); /* the same, until it is answered */
	answer_all(asked, RECORDS_APPLIED);
	expect_answered(REPLICA_ANSWERED_PART);
	resolve(QUESTION); /* what was answered */
	n = count_open();
	assert_int_equal(n, 3);
	assert_true(replica_ask(wire_replica, QUESTION));
	answer_all(question(3), RECORDS_UNKNOWN);
	expect_answered(REPLICA_ANSWERED_WHOLE);
	resolve(QUESTION);
	assert_int_equal(count_open(), 0);
}

/* ------------------------------------------------------------------- an answer */

static void test_answer(void **state)
{
	struct link_entry e = { .stripe = 3, .version = 9, .reign = WIRE_REIGN - 1 };
	const struct link_entry *answer;

	(void)state;
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_PRIMARY, 0);
	wire_replica->records.slots[3].applied = 9;
	link_begin(&open_message, memory[0], LINK_OPEN, WIRE_EPOCH, 0, 0, QUESTION);
	link_put_entry(&open_message, &e);
	e.version = 10;
	link_put_entry(&open_message, &e);
	struct link_reader asked = reader_of(&open_message);
	begin_answer(QUESTION);
	assert_true(replica_answer(wire_replica, &asked, &begin_message));
	struct link_reader r = reader_of(&begin_message);
	answer = link_next_entry(&r);
	assert_true(answer && answer->stripe == 3 && answer->version == 9 && answer->fate == RECORDS_APPLIED);
	answer = link_next_entry(&r);
	assert_true(answer && answer->version == 10 && answer->fate == RECORDS_UNKNOWN && answer->reign == e.reign);
	assert_int_equal(r.left, 0);
	/* A stripe that there is not; a message that is not what it says. */
	e.stripe = wire_replica->records.stripes;
	link_put_entry(&open_message, &e);
	asked = reader_of(&open_message);
	begin_answer(QUESTION);
	assert_false(replica_answer(wire_replica, &asked, &begin_message));
	link_begin(&open_message, memory[0], LINK_OPEN, WIRE_EPOCH, 0, 0, QUESTION);
	open_message.header->count = 1;
	asked = reader_of(&open_message);
	assert_false(replica_answer(wire_replica, &asked, &begin_message));
}

/* ---------------------------------------------------------------------- orders */

static void test_orders_are_obeyed_once(void **state)
{
	struct replica_order o = { .kind = REPLICA_SEEN, .epoch = WIRE_EPOCH, .number = 1 };

	(void)state;
	be_backup();
	hear("k", 10);
	o.serial = replica_order_serial(wire_replica);
	assert_int_equal(replica_order_serial(wire_replica), o.serial + 1);
	wire_replica->obeyed = o.serial; /* another worker was first */
	assert_true(replica_obey(wire_worker, &o));
	assert_int_equal(count_open(), 1);
	wire_replica->obeyed--;
	assert_true(replica_obey(wire_worker, &o));
	assert_int_equal(count_open(), 0);
	assert_int_equal(wire_replica->obeyed, o.serial);
	wire_expect("k", "value");
}

/* What is on its way to the disk is to be there first. */
static void test_orders_wait(void **state)
{
	struct replica_order o = { .kind = REPLICA_EMPTY, .serial = 1000 };

	(void)state;
	be_backup();
	wire_replica->writes = 1;
	assert_false(replica_obey(wire_worker, &o));
	assert_true(wire_replica->obeyed < 1000);
	wire_replica->writes = 0;
	o = (struct replica_order){ .kind = REPLICA_EPOCH, .serial = 1000, .epoch = WIRE_EPOCH + 1,
				    .reign = WIRE_REIGN, .role = RECORDS_BACKUP, .incarnation = WIRE_ME };
	wire_worker->writes = 1;
	assert_false(replica_obey(wire_worker, &o));
	o.kind = REPLICA_HOLD;
	assert_true(replica_obey(wire_worker, &o));
	wire_worker->writes = 0;
	wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN + 1, RECORDS_PRIMARY, 0);
	wire_worker->writes = 1;
	o = (struct replica_order){ .kind = REPLICA_EPOCH, .serial = 2000, .epoch = WIRE_EPOCH + 2,
				    .reign = WIRE_REIGN + 2, .role = RECORDS_PRIMARY, .incarnation = WIRE_ME };
	assert_false(replica_obey(wire_worker, &o)); /* a new reign */
	o.role = RECORDS_BACKUP;
	o.reign = WIRE_REIGN + 1;
	assert_false(replica_obey(wire_worker, &o));
	o.role = RECORDS_PRIMARY; /* the same */
	assert_true(replica_obey(wire_worker, &o));
	wire_worker->writes = 0;
}

/* What a backup finds memory for is more than what a primary does. */
static void test_reserves(void **state)
{
	const struct table *t = wire_fixture.table;

	(void)state;
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_PRIMARY, 0);
	assert_int_equal(reserved_bytes, (t->bytes - t->heap_offset) / 16);
	wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN, RECORDS_BACKUP, 0);
	assert_int_equal(reserved_bytes, (t->bytes - t->heap_offset) / 64);
}

/* A table that lacks nothing is one that is new. */
static void test_unfit(void **state)
{
	(void)state;
	be_backup();
	wire_replica->is_unfit = true;
	wire_epoch(WIRE_EPOCH + 1, WIRE_REIGN, RECORDS_BACKUP, 0);
	assert_true(wire_replica->is_unfit);
	wire_order((struct replica_order){ .kind = REPLICA_EMPTY });
	assert_int_equal(wire_replica->incarnation, 0);
	wire_epoch(WIRE_EPOCH + 2, WIRE_REIGN, RECORDS_BACKUP, 0);
	assert_false(wire_replica->is_unfit);
	assert_int_equal(wire_replica->incarnation, WIRE_ME);
}

/* Nothing is open then, no question is answered, and nothing is acknowledged. */
static void test_emptied(void **state)
{
	(void)state;
	be_backup();
	hear("k", 10);
	assert_true(replica_ask(wire_replica, QUESTION));
	answer_all(question(1), RECORDS_APPLIED);
	wire_replica->on_its_way[0] = 7;
	wire_order((struct replica_order){ .kind = REPLICA_EMPTY });
	assert_int_equal(count_open(), 0);
	expect_answered(REPLICA_ANSWERED_NOT);
	assert_int_equal(wire_replica->on_its_way[0], 0);
	assert_int_equal(wire_worker->emptying, 0);
	assert_int_equal(wire_worker->incarnation, 0);
	replica_flush(wire_worker);
	assert_int_equal(wires[0].sent_count, 0);
	wire_expect("k", NULL);
}

/* -------------------------------------------------------------------------- group */

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, wire_setup, wire_teardown)
		TEST(test_asked), TEST(test_nothing_is_open), TEST(test_fates), TEST(test_answers_that_cant_be),
		TEST(test_parts), TEST(test_answer), TEST(test_orders_are_obeyed_once), TEST(test_orders_wait),
		TEST(test_reserves), TEST(test_unfit), TEST(test_emptied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
