/* SPDX-License-Identifier: BSD-2-Clause */
/* client/get/pending.h: what counts while a change of the key, or a transaction with it, is
 * under way, from the worker's scratch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/item.h"
#include "client/get/pending.h"
#include "client/get/verify.h"
#include "tests/unit/client/one_item.h"

#define OLD_UNIT 4000u
#define NEW_UNIT 5000u
#define OLD_VERSION 7u
#define NEW_VERSION 11u
#define WORKER 1u
#define LONG_BYTES 40000u

static struct bytes_item old_item(enum layout_kind kind)
{
	return (struct bytes_item){ .unit = OLD_UNIT,
				    .key = KEY,
				    .value = "old",
				    .value_bytes = 90,
				    .kind = kind,
				    .version = OLD_VERSION,
				    .worker = WORKER };
}

static struct bytes_item new_item(enum layout_kind kind)
{
	return (struct bytes_item){ .unit = NEW_UNIT,
				    .key = KEY,
				    .value = "new",
				    .value_bytes = 60,
				    .kind = kind,
				    .version = NEW_VERSION,
				    .worker = WORKER };
}

static void assert_delivers(struct get *g, enum step step, const char *value)
{
	assert_int_equal(step, DELIVER);
	assert_memory_equal(verify_value(g), value, strlen(value));
}

/* ------------------------------------------------------------ being overwritten */

/* An item that is being overwritten, whose scratch says this of the old one. */
static struct get *read_updating(const struct bytes_item *in_scratch)
{
	struct bytes_item updating = old_item(LAYOUT_UPDATING);
	struct get *g = read_item(&updating, 100);

	bytes_old_item(b, in_scratch);
	assert_int_equal(item_got(g), READ_UPDATING);
	bytes_read(b, READ_UPDATING);
	return g;
}

static void test_old_value_in_the_scratch(void **state)
{
	const struct bytes_item old = old_item(LAYOUT_LIVE);
	struct get *g = read_updating(&old);

	(void)state;
	assert_delivers(g, pending_got_updating(g), "oldold");
}

/* The item's value went to the caller; the whole old item comes to the memory. */
static void test_old_value_of_one_that_went_to_the_caller(void **state)
{
	struct bytes_item updating = old_item(LAYOUT_UPDATING), old = old_item(LAYOUT_LIVE);
	struct get *g = read_item(&updating, 100);

	(void)state;
	bytes_old_item(b, &old);
	g->direct = true;
	bytes_read(b, READ_UPDATING);
	assert_delivers(g, pending_got_updating(g), "oldold");
}

static void test_scratch_of_another_change(void **state)
{
	struct bytes_item old = old_item(LAYOUT_LIVE);

	(void)state;
	old.version++;
	assert_int_equal(pending_got_updating(read_updating(&old)), READ_ITEM);
}

static void test_torn_scratch(void **state)
{
	const struct bytes_item old = old_item(LAYOUT_LIVE);
	struct get *g = read_updating(&old);

	(void)state;
	b->memory.item[50] ^= 1;
	assert_int_equal(pending_got_updating(g), READ_ITEM);
}

static void test_scratch_of_another_key(void **state)
{
	struct bytes_item old = old_item(LAYOUT_LIVE);
	uint64_t fp = get_fp(bytes_get(b, KEY, 100));
	char other[BYTES_KEY];

	(void)state;
	bytes_find_key(other, "k", bytes_has_fp, &fp);
	old.key = other;
	struct get *g = read_updating(&old);
	assert_int_equal(pending_got_updating(g), NEXT_ENTRY);
	assert_int_equal(g->other[0].version, OLD_VERSION);
}

static void test_worker_that_is_none(void **state)
{
	struct bytes_item updating = old_item(LAYOUT_UPDATING);

	(void)state;
	updating.worker = BYTES_WORKERS;
	struct get *g = read_item(&updating, 100);
	assert_int_equal(item_got(g), READ_UPDATING);
	assert_false(pending_plan(g, READ_UPDATING));
	assert_int_equal(g->reads.count, 0);
}

/* Of a long item that is being overwritten the scratch has the header only: the value is
 * what was READ already. */
static void read_long(struct get **g, size_t room)
{
	struct bytes_item item = old_item(LAYOUT_LIVE);
	struct layout_item *at = (void *)(b->base + OLD_UNIT * LAYOUT_UNIT_BYTES);

	item.value_bytes = LONG_BYTES;
	*g = bytes_get(b, KEY, room);
	(*g)->word = bytes_item(b, &item);
	memcpy(bytes_scratch(b, WORKER)->item, at, sizeof *at + strlen(KEY));
	at->state = layout_state(OLD_VERSION, LAYOUT_UPDATING, WORKER);
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(*g), READ_UPDATING);
	bytes_read(b, READ_UPDATING);
}

static void test_header_of_a_long_one(void **state)
{
	struct get *g;

	(void)state;
	read_long(&g, LONG_BYTES);
	assert_int_equal(pending_got_updating(g), DELIVER);
	assert_memory_equal(b->room, "oldold", 6);
	read_long(&g, 1000); /* no room for it: believed if it is the same again */
	assert_int_equal(pending_got_updating(g), READ_ITEM);
	bytes_read(b, READ_ITEM);
	assert_int_equal(item_got(g), READ_UPDATING);
	bytes_read(b, READ_UPDATING);
	assert_int_equal(pending_got_updating(g), DELIVER);
}

static void test_header_of_a_long_one_of_another_key(void **state)
{
	struct get *g;
	struct layout_item *old = (void *)b->memory.item;

	(void)state;
	read_long(&g, LONG_BYTES);
	old->lengths = layout_lengths(LONG_BYTES, 11);
	assert_int_equal(pending_got_updating(g), READ_ITEM); /* longer than what was READ */
	old->lengths = layout_lengths(100, 11);
	assert_int_equal(pending_got_updating(g), NEXT_ENTRY);
	assert_true(g->untold);
}

/* ---------------------------------------------------------------- prepared */

/* A prepared item, and what its scratch says; then the old one. */
static struct get *read_prepared(uint64_t version, enum layout_kind old_kind)
{
	const struct bytes_item old = old_item(old_kind), new = new_item(LAYOUT_PREPARED);
	struct layout_scratch *scratch = bytes_scratch(b, WORKER);
	struct get *g = read_item(&new, 100);

	scratch->new_version = version;
	scratch->old_word = bytes_item(b, &old);
	scratch->old_version = OLD_VERSION;
	assert_int_equal(item_got(g), READ_PREPARED);
	bytes_read(b, READ_PREPARED);
	return g;
}

static void test_old_one_counts_while_it_lives(void **state)
{
	struct get *g = read_prepared(NEW_VERSION, LAYOUT_LIVE);

	(void)state;
	assert_int_equal(pending_got_prepared(g), READ_OLD);
	bytes_read(b, READ_OLD);
	assert_delivers(g, pending_got_old(g), "oldold");
}

static void test_prepared_one_counts_after_that(void **state)
{
	struct get *g = read_prepared(NEW_VERSION, LAYOUT_DEAD);

	(void)state;
	assert_int_equal(pending_got_prepared(g), READ_OLD);
	bytes_read(b, READ_OLD);
	assert_int_equal(pending_got_old(g), READ_ITEM);
	bytes_read(b, READ_ITEM);
	assert_delivers(g, item_got(g), "newnew");
}

static void test_memory_of_the_old_one_is_used_again(void **state)
{
	struct get *g = read_prepared(NEW_VERSION, LAYOUT_LIVE);
	struct bytes_item again = old_item(LAYOUT_LIVE);

	(void)state;
	assert_int_equal(pending_got_prepared(g), READ_OLD);
	again.version = NEW_VERSION + 5;
	bytes_item(b, &again);
	bytes_read(b, READ_OLD);
	assert_int_equal(pending_got_old(g), READ_ITEM);
	assert_true(g->accept_prepared);
}

static void test_old_one_is_torn(void **state)
{
	struct get *g = read_prepared(NEW_VERSION, LAYOUT_LIVE);

	(void)state;
	assert_int_equal(pending_got_prepared(g), READ_OLD);
	bytes_read(b, READ_OLD);
	b->memory.item[50] ^= 1;
	assert_int_equal(pending_got_old(g), READ_ITEM);
	assert_false(g->accept_prepared);
}

static void test_preparation_is_over(void **state)
{
	struct get *g = read_prepared(NEW_VERSION + 1, LAYOUT_LIVE);

	(void)state;
	assert_int_equal(pending_got_prepared(g), READ_ITEM);
}

/* -------------------------------------------------------------- transactions */

#define TXN_VERSION (NEW_VERSION - 3) /* the fourth key that it puts */

enum side { OLD, NEW };

/* An item of a transaction, what the scratch has of it, and what is committed. */
static struct get *read_txn(enum side side, bool had_old, bool has_new, uint64_t committed)
{
	const struct bytes_item old = old_item(LAYOUT_OLD), new = new_item(LAYOUT_NEW);
	struct layout_scratch *scratch = bytes_scratch(b, WORKER);
	struct layout_txn *e = &scratch->txn[LAYOUT_TXN_KEYS_MAX - 1];
	uint64_t old_word = bytes_item(b, &old);
	struct get *g = read_item(side == OLD ? &old : &new, 100);

	*e = (struct layout_txn){ .commit = TXN_VERSION,
				  .version = NEW_VERSION,
				  .old_word = had_old ? old_word : 0,
				  .old_version = had_old ? OLD_VERSION : 0,
				  .new_unit = has_new ? NEW_UNIT : 0 };
	e->seal = hash_txn(e);
	scratch->committed = committed;
	assert_int_equal(item_got(g), READ_TXN);
	bytes_read(b, READ_TXN);
	return g;
}

static void test_before_the_commit(void **state)
{
	struct get *g = read_txn(OLD, true, true, TXN_VERSION - 1);

	(void)state;
	assert_delivers(g, pending_got_txn(g), "oldold");
	g = read_txn(NEW, true, true, TXN_VERSION - 1);
	assert_int_equal(pending_got_txn(g), READ_TXN_OLD);
	bytes_read(b, READ_TXN_OLD);
	assert_delivers(g, pending_got_txn_old(g), "oldold");
	assert_int_equal(pending_got_txn(read_txn(NEW, false, true, TXN_VERSION - 1)), ABSENT);
}

static void test_after_the_commit(void **state)
{
	struct get *g = read_txn(NEW, true, true, TXN_VERSION);

	(void)state;
	assert_int_equal(pending_got_txn(g), READ_ITEM);
	bytes_read(b, READ_ITEM);
	assert_delivers(g, item_got(g), "newnew");
	assert_int_equal(pending_got_txn(read_txn(OLD, true, true, TXN_VERSION)), START_OVER);
	assert_int_equal(pending_got_txn(read_txn(OLD, true, false, TXN_VERSION)), ABSENT);
}

static void test_transaction_is_over(void **state)
{
	(void)state;
	assert_int_equal(pending_got_txn(read_txn(OLD, true, true, TXN_VERSION + 1)), START_OVER);
	assert_int_equal(pending_got_txn(read_txn(NEW, true, true, TXN_VERSION + 1)), START_OVER);
	struct get *g = read_txn(NEW, true, true, TXN_VERSION);
	memset(b->memory.scratch, 0, sizeof b->memory.scratch);
	assert_int_equal(pending_got_txn(g), READ_ITEM); /* another says nothing of it */
}

static void test_entry_without_its_seal(void **state)
{
	const size_t last = offsetof(struct layout_scratch, txn[LAYOUT_TXN_KEYS_MAX - 1].seal) / 8;
	struct get *g = read_txn(NEW, true, true, TXN_VERSION);

	(void)state;
	b->memory.scratch[last] ^= 1;
	assert_int_equal(pending_got_txn(g), READ_ITEM);
	assert_false(g->accept_prepared);
}

static void test_old_one_of_a_transaction_is_gone(void **state)
{
	struct bytes_item old = old_item(LAYOUT_DEAD);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct get *g = read_txn(NEW, true, true, TXN_VERSION - 1);
		assert_int_equal(pending_got_txn(g), READ_TXN_OLD);
		bytes_item(b, &old);
		bytes_read(b, READ_TXN_OLD);
		assert_int_equal(pending_got_txn_old(g), START_OVER);
		old = old_item(LAYOUT_LIVE); /* or its memory is used again */
		old.version = NEW_VERSION + 1;
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_old_value_in_the_scratch),
		TEST(test_old_value_of_one_that_went_to_the_caller),
		TEST(test_scratch_of_another_change),
		TEST(test_torn_scratch),
		TEST(test_scratch_of_another_key),
		TEST(test_worker_that_is_none),
		TEST(test_header_of_a_long_one),
		TEST(test_header_of_a_long_one_of_another_key),
		TEST(test_old_one_counts_while_it_lives),
		TEST(test_prepared_one_counts_after_that),
		TEST(test_memory_of_the_old_one_is_used_again),
		TEST(test_old_one_is_torn),
		TEST(test_preparation_is_over),
		TEST(test_before_the_commit),
		TEST(test_after_the_commit),
		TEST(test_transaction_is_over),
		TEST(test_entry_without_its_seal),
		TEST(test_old_one_of_a_transaction_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
