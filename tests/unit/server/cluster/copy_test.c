/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica: bert, whose table is another one's, joins while anna's goes on changing.
 * His becomes empty, then the same as hers; whoever is given up in between leaves nothing behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/empty.h"
#include "server/cluster/replica/impl.h"
#include "server/cluster/shard/join.h"
#include "server/store/item/stripe.h"
#include "tests/unit/server/cluster/replica_kit.h"

#define OTHER 2u /* bit of a member that never answers */

static uint64_t seed;
static uint64_t copies;

/* -------------------------------------------------------------------- steps of a join */
/* Anna is alone, or awaits who never answers; bert is out. */
static void part(uint64_t epoch, uint32_t members)
{
	kit_epoch(&b, epoch, 1, RECORDS_OUT, 0);
	kit_epoch(&a, epoch, 1, RECORDS_PRIMARY, members);
}

/* Bert's table is another from now on, and takes records. */
static void be_empty(void)
{
	kit_order(&b, REPLICA_EMPTY, 0, 0);
	for (unsigned i = 0; !replica_empty(b.worker); i++)
		assert_true(i < 100000);
	b.incarnation++;
	a.other.incarnation = b.incarnation;
	kit_epoch(&b, a.epoch, 1, RECORDS_BACKUP, 0);
	kit_order(&b, REPLICA_RESOLVE, 0, 0);
}

static void begin_copy(uint32_t others)
{
	kit_order(&a, REPLICA_AWAIT, 0, others | MEMBER);
	kit_order(&a, REPLICA_BEGUN_BY, 0, MEMBER);
	kit_order(&a, REPLICA_COPY, ++copies, MEMBER);
}

static bool is_copied(void)
{
	return replica_is_copied(a.replica, copies);
}

/* With changes of all kinds under way. */
static void change_until(bool (*is_so)(void), unsigned most)
{
	uint64_t end = clock_ns() + KIT_LIMIT_NS;

	for (unsigned i = 0; !is_so(); i++) {
		if (i < most)
			kit_change_something(&a, &seed);
		kit_turn();
		while (a.under_way >= UNDER_WAY)
			kit_turn();
		if (clock_ns() > end)
			fail_msg("the copy does not end");
	}
}

static void fill(unsigned changes)
{
	for (unsigned i = 0; i < changes; i++) {
		kit_change_something(&a, &seed);
		while (a.under_way >= UNDER_WAY)
			kit_turn();
	}
	kit_finish();
}

/* What was applied last is known of each stripe, too. */
static void expect_copied(void)
{
	const struct records *of_a = &a.replica->records, *of_b = &b.replica->records;

	kit_finish();
	kit_expect_all_same(&a, &b);
	assert_int_equal(index_keys(a.f.store->index), index_keys(b.f.store->index));
	for (uint32_t i = 0; i < of_a->stripes; i++)
		assert_int_equal(of_a->slots[i].applied, of_b->slots[i].applied);
	assert_int_equal(b.f.store->value_bytes, a.f.store->value_bytes);
}

static unsigned count_marks(const struct kit_member *m)
{
	unsigned n = 0;

	for (uint64_t i = 0; i < m->f.table->stripes; i++)
		n += m->f.table->marks[i];
	return n;
}

static bool is_some_copied(void)
{
	struct replica_progress p;

	return replica_progress(a.replica, &p) && p.keys > 20;
}

/* -------------------------------------------------------------------- cases */
static void test_all_of_it(void **state)
{
	struct replica_progress p;

	(void)state;
	seed = 3;
	fill(1000);
	part(2, 0);
	fill(1000);
	be_empty();
	assert_int_equal(index_keys(b.f.store->index), 0);
	begin_copy(0);
	change_until(is_copied, 200);
	assert_true(replica_progress(a.replica, &p));
	assert_true(p.of > 300);
	assert_true(p.keys >= p.of - 100);
	assert_true(p.bytes > 100000);
	expect_copied();
	assert_int_equal(count_marks(&a), 0);
	kit_epoch(&b, 3, 1, RECORDS_BACKUP, 0);
	kit_epoch(&a, 3, 1, RECORDS_PRIMARY, MEMBER);
	assert_false(replica_progress(a.replica, &p));
}

/* Its key is not in the index as the copy begins. */
static void test_what_began_before(void **state)
{
	(void)state;
	part(2, OTHER);
	kit_put(&a, "k", "one", 3);
	kit_turns(10);
	be_empty();
	begin_copy(OTHER);
	kit_turns(1000);
	assert_false(is_copied());
	kit_order(&a, REPLICA_AWAIT, 0, MEMBER);
	change_until(is_copied, 0);
	kit_has_value(&a, "k", "one");
	kit_has_value(&b, "k", "one");
	expect_copied();
}

/* A change of a key that is being copied waits, and nothing else does. */
static void test_marked_until_it_is_there(void **state)
{
	struct store_change c = kit_change_of(&a, "k");
	struct store_result r;

	(void)state;
	part(2, 0);
	kit_put(&a, "k", "one", 3);
	kit_finish();
	be_empty();
	begin_copy(0);
	b.side.is_frozen = true;
	kit_turns(100);
	assert_int_equal(count_marks(&a), 1);
	c.value = "two";
	c.value_bytes = 3;
	assert_int_equal(store_put(&a.f.worker[0], &c, &r), STORE_ASIDE);
	assert_false(is_copied());
	b.side.is_frozen = false;
	kit_put(&a, "k", "two", 3);
	change_until(is_copied, 0);
	expect_copied();
	kit_has_value(&b, "k", "two");
}

/* What was changed since is a record, and is not copied as well. */
static void test_not_what_was_sent(void **state)
{
	static uint8_t value[LONG_BYTES];

	(void)state;
	part(2, OTHER);
	kit_put(&a, "k", "one", 3);
	be_empty();
	begin_copy(OTHER);
	kit_put(&a, "long", value, sizeof value);
	kit_turns(500); /* it lacks the other one's word only */
	kit_order(&a, REPLICA_AWAIT, 0, MEMBER);
	change_until(is_copied, 0);
	kit_finish();
	assert_int_equal(b.reads, 1);
	expect_copied();
}

/* The joiner is given up: what is under way comes back, and the next copy is whole. */
static void test_given_up(void **state)
{
	(void)state;
	seed = 5;
	part(2, 0);
	fill(1500);
	for (unsigned round = 0; round < 20; round++) {
		unsigned frozen_for = (unsigned)fixture_random(&seed) % 50;

		be_empty();
		begin_copy(0);
		change_until(is_some_copied, 20);
		b.side.is_frozen = round % 2;
		kit_turns(frozen_for);
		kit_order(&a, REPLICA_AWAIT, 0, 0);
		assert_false(is_copied());
		b.side.is_frozen = false;
		kit_finish();
		kit_turns(2);
		assert_int_equal(count_marks(&a), 0);
	}
	be_empty();
	begin_copy(0);
	change_until(is_copied, 200);
	expect_copied();
}

/* With the next epoch a copy is over; the primary may be another then. */
static void test_over_with_the_epoch(void **state)
{
	struct replica_progress p;

	(void)state;
	seed = 6;
	part(2, 0);
	fill(1000);
	be_empty();
	begin_copy(0);
	change_until(is_some_copied, 20);
	b.side.is_frozen = true;
	kit_turns(5);
	part(3, 0);
	assert_false(replica_progress(a.replica, &p));
	b.side.is_frozen = false;
	kit_finish();
	kit_turn();
	assert_int_equal(count_marks(&a), 0);
	be_empty();
	begin_copy(0);
	change_until(is_some_copied, 20);
	/* Deposed by another. */
	kit_order(&a, REPLICA_SEAL, 0, 0);
	kit_turns(5);
	kit_epoch(&a, 4, 4, RECORDS_OUT, 0);
	kit_finish();
	kit_turn();
	assert_int_equal(count_marks(&a), 0);
	assert_false(is_copied());
}

static uint32_t stripe_of(const char *key)
{
	return (uint32_t)layout_stripe(hash_key(a.f.table->hash_seed, key, strlen(key)).b,
				       a.f.table->stripes);
}

/* Nothing but a removal is known of its stripe. */
static void test_a_stripe_without_keys(void **state)
{
	struct records *rs = &b.replica->records;
	uint64_t version;

	(void)state;
	part(2, 0);
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_remove(&a, "k");
	kit_finish();
	version = a.replica->records.slots[stripe_of("k")].applied;
	assert_true(version);
	be_empty();
	begin_copy(0);
	change_until(is_copied, 0);
	assert_int_equal(rs->slots[stripe_of("k")].applied, version);
	expect_copied();
}

/* Value of a record for the table that was: its READ ends when that is empty, and another. */
static void test_a_pull_over_two_copies(void **state)
{
	static uint8_t value[LONG_BYTES];
	unsigned heard;

	(void)state;
	part(2, 0);
	be_empty();
	begin_copy(0);
	change_until(is_copied, 0);
	heard = b.heard;
	kit_put(&a, "long", value, sizeof value);
	replica_flush(a.worker);
	while (b.heard == heard)
		kit_poll(&a.side, &b.side);
	b.side.is_frozen = true;
	kit_order(&a, REPLICA_AWAIT, 0, 0);
	kit_finish();
	kit_remove(&a, "long");
	kit_finish();
	assert_int_equal(b.reads, 0);
	be_empty();
	b.side.is_frozen = false;
	while (!b.reads)
		kit_turn();
	kit_order(&b, REPLICA_SEEN, 1000, 0);
	kit_has_value(&b, "long", NULL);
	begin_copy(0);
	change_until(is_copied, 0);
	expect_copied();
}

/* What an emptied table is sent before it is somebody's is refused. */
static void test_nothing_while_it_is_empty(void **state)
{
	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_order(&b, REPLICA_EMPTY, 0, 0);
	assert_true(replica_empty(b.worker));
	kit_put(&a, "l", "two", 3);
	kit_turns(500);
	assert_int_equal(a.under_way, 1);
	kit_order(&b, REPLICA_SEEN, 1000, 0);
	assert_int_equal(index_keys(b.f.store->index), 0);
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_finish();
}

/* The eldest record that the joiner lacks stays the same while it takes none. */
static void test_who_takes_nothing(void **state)
{
	uint64_t bytes = 0, number;

	(void)state;
	part(2, 0);
	be_empty();
	begin_copy(0);
	change_until(is_copied, 0);
	assert_int_equal(replica_lacking(a.replica, MEMBER, &bytes), 0);
	b.side.is_frozen = true;
	kit_put(&a, "k", "one", 3);
	kit_put(&a, "l", "two", 3);
	kit_turns(100);
	number = replica_lacking(a.replica, MEMBER, &bytes);
	assert_true(number);
	assert_int_equal(bytes, 3);
	kit_turns(100);
	assert_int_equal(replica_lacking(a.replica, MEMBER, &bytes), number);
	b.side.is_frozen = false;
	kit_finish();
	assert_int_equal(replica_lacking(a.replica, MEMBER, &bytes), 0);
}

static struct shard shard;
static struct member_actions actions;

static bool is_gone_at(uint64_t now_ns)
{
	join_tick(&shard, now_ns, &actions);
	return shard.member.peers[0].is_gone;
}

/* It answers heartbeats, but its workers stand still: changes wait for it for a second. */
static void test_given_up_if_it_takes_nothing(void **state)
{
	const uint64_t second = 1000000000;
	char text[JOIN_STATUS_BYTES];

	(void)state;
	part(2, 0);
	kit_put(&a, "k", "one", 3);
	kit_finish();
	be_empty();
	begin_copy(0);
	change_until(is_copied, 0);
	memset(&shard, 0, sizeof shard);
	pthread_mutex_init(&shard.lock, NULL);
	shard.replica = a.replica;
	shard.options.store = a.f.store;
	strcpy(shard.member.peers[0].id.name, "bert");
	shard.seen = shard.member;
	b.side.is_frozen = true;
	kit_put(&a, "k", "two", 3);
	assert_false(is_gone_at(10 * second));
	b.side.is_frozen = false;
	kit_finish();
	b.side.is_frozen = true;
	kit_put(&a, "k", "three", 5);
	assert_false(is_gone_at(11 * second)); /* another one than before */
	assert_false(is_gone_at(12 * second - 1));
	assert_true(is_gone_at(12 * second + 1000));
	join_status(&shard, text);
	assert_non_null(strstr(text, "\"copy\":{\"to\":\"bert\",\"keys\":1,\"of\":1,"));
	assert_non_null(strstr(text, "\"percent\":100}"));
	b.side.is_frozen = false;
	kit_finish();
	pthread_mutex_destroy(&shard.lock);
}

static void wake(void *arg)
{
	(void)arg;
}

static void await_by(struct replica_worker *w, uint32_t members)
{
	replica_obey(w, &(struct replica_order){
		.serial = replica_order_serial(a.replica), .kind = REPLICA_AWAIT,
		.members = members, .seats = { a.other } });
}

/* One worker knows that the joiner is another now, the other one hears of the one before. */
static void test_a_word_of_who_was_before(void **state)
{
	struct replica_worker *second;
	struct err err;

	(void)state;
	part(2, 0);
	be_empty();
	begin_copy(0);
	change_until(is_copied, 0);
	if (replica_worker_new(a.replica, &a.f.worker[0], wake, NULL, &second, &err))
		fail_msg("%s", err.text);
	a.f.worker[0].others = &a.worker->others;
	await_by(second, 0);
	a.other.incarnation++;
	await_by(second, MEMBER);
	kit_put(&a, "k", "one", 3);
	kit_turns(500);
	assert_int_equal(a.under_way, 1);
	await_by(second, 0);
	kit_finish();
	replica_worker_delete(&second);
	a.f.worker[0].others = &a.worker->others;
}

/* Not faster than it may be. */
static void test_rate(void **state)
{
	static uint8_t value[50000];
	char key[16];
	uint64_t start;

	(void)state;
	part(2, 0);
	for (unsigned i = 0; i < 40; i++) {
		snprintf(key, sizeof key, "rate%u", i);
		kit_put(&a, key, value, sizeof value);
		kit_finish();
	}
	a.replica->options.copy_bytes_s = 5000000;
	be_empty();
	start = clock_ns();
	begin_copy(0);
	change_until(is_copied, 0);
	/* Two megabytes, but for what may come at once. */
	assert_in_range(clock_ns() - start, 300000000, KIT_LIMIT_NS);
	expect_copied();
}

/* More keys than a hand holds, of which the index grows meanwhile. */
static void test_many_keys(void **state)
{
	enum { MANY = 20000 };
	char key[16];

	(void)state;
	part(2, 0);
	for (unsigned i = 0; i < 2 * MANY; i++) {
		snprintf(key, sizeof key, "many%u", i);
		kit_put(&a, key, key, strlen(key));
		if (i == MANY) {
			kit_finish();
			be_empty();
			begin_copy(0);
		}
		while (a.under_way >= UNDER_WAY)
			kit_turn();
	}
	change_until(is_copied, 0);
	expect_copied();
	for (unsigned i = 0; i < 2 * MANY; i++) {
		snprintf(key, sizeof key, "many%u", i);
		kit_expect_same(key);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
		CASE(test_all_of_it),
		CASE(test_what_began_before),
		CASE(test_marked_until_it_is_there),
		CASE(test_not_what_was_sent),
		CASE(test_given_up),
		CASE(test_over_with_the_epoch),
		CASE(test_a_stripe_without_keys),
		CASE(test_a_pull_over_two_copies),
		CASE(test_nothing_while_it_is_empty),
		CASE(test_who_takes_nothing),
		CASE(test_given_up_if_it_takes_nothing),
		CASE(test_a_word_of_who_was_before),
		CASE(test_rate),
		CASE(test_many_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
