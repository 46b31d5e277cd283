/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica: epochs and reigns of two members.  What a backup has open becomes what
 * the primary says; what a deposed primary had under way is the next one's to decide; what a new
 * primary had open it sends again before it shows it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#include "common/clock.h"
#include "server/cluster/replica/begin.h"
#include "server/durable/durable.h"
#include "server/store/load.h"
#include "server/store/txn.h"
#include "tests/unit/server/cluster/replica_kit.h"

static void frozen_turns(struct kit_member *m, unsigned n)
{
	m->side.is_frozen = true;
	kit_turns(n);
	m->side.is_frozen = false;
}

/* -------------------------------------------------------------------- cases */
/* Open at the backup when the primary goes: it is sent again, and then it is seen. */
static void test_taking_over(void **state)
{
	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_put(&a, "k", "two", 3);
	kit_send_to(&a, &b);
	kit_take_over(&b, &a, 2);
	/* The one that was deposed has it open, too: as the new one says. */
	kit_has_value(&b, "k", "one");
	assert_false(replica_is_settled(b.replica));
	kit_turns(100);
	kit_settle(&b);
	kit_has_value(&b, "k", "one");
	kit_order(&b, REPLICA_SHOW, 0, 0);
	kit_has_value(&b, "k", "two");
	kit_finish();
	assert_int_equal(a.unknown, 1);
	kit_order(&a, REPLICA_SEEN, replica_visible(b.replica), 0);
	kit_expect_same("k");
	kit_has_value(&a, "k", "two");
}

/* It is not shown before the other one has it. */
static void test_not_before_all_have_it(void **state)
{
	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_send_to(&a, &b);
	kit_take_over(&b, &a, 2);
	kit_order(&b, REPLICA_SHOW, 0, 0);
	kit_has_value(&b, "k", NULL);
	kit_finish();
	kit_settle(&b);
	kit_turn();
	kit_has_value(&b, "k", "one");
}

/* What nobody else has is dropped by whoever is deposed, and its memory is free. */
static void test_what_the_primary_lacks(void **state)
{
	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_put(&a, "k", "two", 3);
	kit_remove(&a, "other");
	kit_put(&a, "new", "three", 5);
	kit_take_over(&b, &a, 2);
	kit_finish();
	kit_settle(&b);
	kit_order(&b, REPLICA_SHOW, 0, 0);
	assert_int_equal(a.unknown, 2);
	kit_has_value(&a, "k", "one");
	kit_has_value(&a, "new", NULL);
	kit_put(&b, "k", "four", 4);
	kit_put(&b, "new", "five", 4);
	kit_finish();
	kit_order(&a, REPLICA_SEEN, replica_visible(b.replica), 0);
	kit_expect_same("k");
	kit_expect_same("new");
	assert_string_equal(a.unfit, "");
}

/* A new epoch of the same reign: what is committed at the primary is so at a backup. */
static void test_the_same_reign(void **state)
{
	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_put(&a, "l", "two", 3);
	kit_finish();
	kit_put(&a, "m", "three", 5);
	kit_send_to(&a, &b);
	kit_has_value(&b, "k", NULL);
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, MEMBER);
	kit_epoch(&b, 2, 1, RECORDS_BACKUP, 0);
	kit_begin_with(&b, &a);
	kit_has_value(&b, "k", "one");
	kit_has_value(&b, "l", "two");
	kit_has_value(&b, "m", NULL);
	kit_finish();
	kit_has_value(&a, "m", "three");
	assert_int_equal(a.unknown, 0);
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_expect_same("m");
}

/* No record is sent, or taken, before the beginning is done. */
static void test_not_before_it_has_begun(void **state)
{
	unsigned heard;

	(void)state;
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, MEMBER);
	kit_epoch(&b, 2, 1, RECORDS_BACKUP, 0);
	heard = b.heard;
	kit_put(&a, "k", "one", 3);
	kit_turns(1000);
	assert_int_equal(b.heard, heard);
	assert_int_equal(a.under_way, 1);
	kit_begin_with(&b, &a);
	kit_finish();
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_expect_same("k");
}

static void test_nothing_after_the_seal(void **state)
{
	(void)state;
	kit_order(&b, REPLICA_SEAL, 0, 0);
	kit_put(&a, "k", "one", 3);
	kit_turns(1000);
	assert_int_equal(a.under_way, 1);
	kit_order(&b, REPLICA_SEEN, 100, 0);
	kit_has_value(&b, "k", NULL);
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_finish();
}

/* An answer to an earlier question, or to another one's. */
static void test_another_question(void **state)
{
	struct link_writer open, begin;
	struct link_reader r;

	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	assert_true(replica_ask(b.replica, KIT_QUESTION));
	link_begin(&open, kit_memory[0], LINK_OPEN, 1, 0, 0, KIT_QUESTION);
	replica_put_question(b.replica, &open);
	r = kit_opened(&open);
	assert_int_equal(r.left, 1);
	link_begin(&begin, kit_memory[1], LINK_BEGIN, 1, 0, 0, KIT_QUESTION);
	assert_true(replica_answer(a.replica, &r, &begin));
	assert_true(replica_ask(b.replica, KIT_QUESTION + 1));
	r = kit_opened(&begin);
	assert_int_equal(replica_answered(b.replica, &r), REPLICA_ANSWERED_NOT);
	/* Its workers do nothing by it either. */
	kit_order(&b, REPLICA_RESOLVE, KIT_QUESTION, 0);
	kit_has_value(&b, "k", NULL);
	/* One of another stripe; one that is missing. */
	begin.header->number = KIT_QUESTION + 1;
	((struct link_entry *)(void *)(begin.header + 1))->stripe ^= 1;
	r = kit_opened(&begin);
	assert_int_equal(replica_answered(b.replica, &r), REPLICA_ANSWERED_NOT);
	link_begin(&begin, kit_memory[1], LINK_BEGIN, 1, 0, 0, KIT_QUESTION + 1);
	r = kit_opened(&begin);
	assert_int_equal(replica_answered(b.replica, &r), REPLICA_ANSWERED_NOT);
}

static void test_a_question_that_cant_be(void **state)
{
	struct link_entry entry = { .stripe = 1u << 31 };
	struct link_writer open, begin;
	struct link_reader r;

	(void)state;
	link_begin(&open, kit_memory[0], LINK_OPEN, 1, 0, 0, KIT_QUESTION);
	link_put_entry(&open, &entry);
	r = kit_opened(&open);
	link_begin(&begin, kit_memory[1], LINK_BEGIN, 1, 0, 0, KIT_QUESTION);
	assert_false(replica_answer(a.replica, &r, &begin));
}

/* More is open than one message has room for. */
static void test_a_long_question(void **state)
{
	enum { MANY = 3 * LINK_COUNT_MAX };
	char key[16];

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(key, sizeof key, "many%u", i);
		kit_put(&a, key, "v", 1);
		while (a.under_way >= UNDER_WAY)
			kit_turn();
	}
	kit_finish();
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, MEMBER);
	kit_epoch(&b, 2, 1, RECORDS_BACKUP, 0);
	assert_in_range(kit_begin_with(&b, &a), 2, 4);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(key, sizeof key, "many%u", i);
		kit_expect_same(key);
	}
}

/* Values that were long, that are removed, and a transaction: kept whole by whoever is deposed. */
static void test_all_kinds_turned_into_items(void **state)
{
	static uint8_t value[LONG_BYTES];
	struct txn_key key[2];
	uint64_t version;
	unsigned failed;

	(void)state;
	memset(value, 'v', sizeof value);
	kit_put(&a, "gone", "x", 1);
	kit_finish();
	kit_remove(&a, "gone");
	kit_put(&a, "long", value, sizeof value);
	for (unsigned i = 0; i < 2; i++) {
		key[i] = (struct txn_key){ .kind = WIRE_TXN_PUT, .version = WIRE_TXN_ANY,
					   .change = kit_change_of(&a, i ? "t1" : "t2") };
		key[i].change.value = "both";
		key[i].change.value_bytes = 4;
	}
	assert_int_equal(txn_run(&a.f.worker[0], key, 2, 0, &version, &failed), STORE_COMMIT);
	a.under_way++;
	/* It is its own successor: restarted as a primary, say, without losing its memory. */
	kit_order(&a, REPLICA_SEAL, 0, 0);
	kit_epoch(&a, 2, 2, RECORDS_PRIMARY, MEMBER);
	kit_epoch(&b, 2, 2, RECORDS_BACKUP, 0);
	kit_begin_with(&b, &a);
	kit_finish();
	assert_int_equal(a.unknown, 3);
	kit_settle(&a);
	kit_has_value(&a, "gone", "x");
	kit_has_value(&a, "t1", NULL);
	kit_order(&a, REPLICA_SHOW, 0, 0);
	kit_has_value(&a, "gone", NULL);
	kit_has_value(&a, "t1", "both");
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_expect_same("gone");
	kit_expect_same("long");
	kit_expect_same("t1");
	kit_expect_same("t2");
}

/* Versions of a reign are above all that its primary has seen, open ones too. */
static void test_versions_go_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		kit_put(&a, "k", "one", 3);
		kit_finish();
	}
	kit_remove(&a, "k");
	kit_send_to(&a, &b);
	kit_take_over(&b, &a, 2);
	assert_true(atomic_load(&b.f.store->version) >= atomic_load(&a.f.store->version));
	kit_finish();
	kit_settle(&b);
}

/* They change roles again and again, with changes under way. */
static void test_back_and_forth(void **state)
{
	struct kit_member *primary = &a, *backup = &b, *other;
	uint64_t seed = 5;

	(void)state;
	for (uint64_t epoch = 2; epoch < 60; epoch++) {
		for (unsigned i = 0; i < 60; i++) {
			kit_change_something(primary, &seed);
			while (primary->under_way >= UNDER_WAY)
				kit_turn();
		}
		if (epoch % 3)
			frozen_turns(epoch % 3 == 1 ? primary : backup, 20);
		other = primary;
		primary = backup;
		backup = other;
		kit_take_over(primary, backup, epoch);
		kit_settle(primary);
		kit_order(primary, REPLICA_SHOW, 0, 0);
		kit_finish();
		assert_int_equal(backup->f.worker[0].commits, 0);
	}
	assert_true(a.done > 500 && b.done > 500);
	assert_true(a.unknown > 50 && b.unknown > 50);
	assert_int_equal(a.side.downs + b.side.downs, 0);
	kit_expect_all_same(primary, backup);
}

/* Who has sealed begins no change. */
static void test_sealed_as_a_primary(void **state)
{
	(void)state;
	kit_order(&a, REPLICA_SEAL, 0, 0);
	kit_put(&a, "k", "one", 3);
	kit_finish();
	assert_int_equal(a.elsewhere, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
		CASE(test_taking_over),
		CASE(test_not_before_all_have_it),
		CASE(test_what_the_primary_lacks),
		CASE(test_the_same_reign),
		CASE(test_not_before_it_has_begun),
		CASE(test_nothing_after_the_seal),
		CASE(test_another_question),
		CASE(test_a_question_that_cant_be),
		CASE(test_a_long_question),
		CASE(test_all_kinds_turned_into_items),
		CASE(test_versions_go_on),
		CASE(test_back_and_forth),
		CASE(test_sealed_as_a_primary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
