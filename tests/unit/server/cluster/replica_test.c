/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica: two members with a table each.  What the primary answers its backup
 * has; what the backup has open has no effect; at the end both tables are the same.
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
#include "server/cluster/replica/impl.h"
#include "server/store/change/remove.h"
#include "server/store/reclaim/evict.h"
#include "server/store/txn.h"
#include "tests/unit/server/cluster/replica_kit.h"

static uint8_t value[2 << 20];

/* -------------------------------------------------------------------- cases */
static void test_only_when_the_backup_has_it(void **state)
{
	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	b.side.is_frozen = true;
	kit_put(&a, "k", "two", 3);
	for (unsigned i = 0; i < 1000; i++)
		kit_turn();
	assert_int_equal(a.under_way, 1);
	assert_int_equal(a.done, 1);
	b.side.is_frozen = false;
	kit_finish();
	kit_has_value(&a, "k", "two");
}

static void test_what_is_open_has_no_effect(void **state)
{
	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_has_value(&b, "k", NULL);
	kit_put(&a, "k", "two", 3); /* proves that the one before is committed */
	kit_finish();
	kit_has_value(&b, "k", "one");
	kit_remove(&a, "k");
	kit_finish();
	kit_has_value(&b, "k", "two");
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_has_value(&b, "k", NULL);
}

/* With its change, and told when that takes effect. */
static void test_a_completion_record_travels(void **state)
{
	struct durable_fate *fate;

	(void)state;
	kit_put(&a, "k", "one", 3);
	fate = &a.f.worker[0].commit->op.fate; /* as who asked for it sets it */
	fate->connection = 77;
	fate->secret = 88;
	fate->request = 99;
	kit_finish();
	assert_int_equal(b.completed, 0);
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	assert_int_equal(b.completed, 1);
	assert_int_equal(b.fate.connection, 77);
	assert_int_equal(b.fate.secret, 88);
	assert_int_equal(b.fate.request, 99);
	assert_int_equal(b.fate.value_bytes, 3);
}

/* A client that locks at a backup keeps nothing of the primary's away. */
static void test_words_of_a_backup(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < b.f.table->stripes; i++)
		atomic_store(&b.f.table->locks[i], layout_token(7, 1));
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_put(&a, "k", "two", 3);
	kit_finish();
	kit_has_value(&b, "k", "one");
	kit_remove(&a, "k");
	kit_finish();
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_has_value(&b, "k", NULL);
}

static void count_wake(void *arg)
{
	++*(unsigned *)arg;
}

/* What it gives back itself it takes before it sleeps: a system call for each batch less. */
static void test_wakes_nobody(void **state)
{
	struct durable_port *port = &a.f.worker[0].port;
	unsigned woken = 0;

	(void)state;
	port->wake = count_wake;
	port->arg = &woken;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	assert_int_equal(a.done, 1);
	assert_int_equal(woken, 0);
}

static void test_one_message_for_a_poll(void **state)
{
	char key[16];

	(void)state;
	for (unsigned i = 0; i < 32; i++) {
		snprintf(key, sizeof key, "key%u", i);
		kit_put(&a, key, "value", 5);
	}
	assert_int_equal(a.under_way, 32);
	kit_finish();
	assert_int_equal(b.heard, 1);
	assert_true(a.heard <= 2); /* acknowledgements of a poll leave together too */
	kit_expect_all_same(&a, &b);
}

static void expect_same_of(unsigned count)
{
	char key[16];

	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	for (unsigned i = 0; i < count; i++) {
		snprintf(key, sizeof key, "some%u", i);
		kit_expect_same(key);
	}
	assert_int_equal(index_keys(a.f.store->index), index_keys(b.f.store->index));
}

/* What a full cache removes goes at both: no key of it would be back at the next primary. */
static void evict_with(size_t bytes, unsigned count, unsigned seen)
{
	struct store_worker *w = &a.f.worker[0];
	char key[16];

	assert_int_equal(evict_new(a.f.store), 0);
	region_set_reserve(a.f.table->region, a.f.table->bytes / 16); /* as a primary has it */
	for (unsigned i = 0; i < count; i++) {
		snprintf(key, sizeof key, "some%u", i);
		kit_put(&a, key, value, bytes);
		if (i % seen)
			continue;
		kit_finish();
		kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	}
	KIT_UNTIL(!w->commits);
	assert_true(evict_count(a.f.store->evict) > count / 10);
	assert_true(index_keys(a.f.store->index) > count / 10);
	assert_int_equal(w->evictions, 0);
	expect_same_of(count);
	assert_string_equal(b.unfit, "");
}

static void test_evictions_are_changes(void **state)
{
	(void)state;
	evict_with(9000, 10000, 32);
}

/* However often one tries again that waits for memory: so many at the most. */
static void begin_evictions(size_t bytes, unsigned most)
{
	struct store_change c = kit_change_of(&a, "wants memory");
	struct store_worker *w = &a.f.worker[0];
	struct store_result r;
	char key[16];
	int status;

	b.side.is_frozen = true;
	c.value = value;
	c.value_bytes = bytes;
	for (unsigned i = 0; (status = store_put(w, &c, &r)) == STORE_COMMIT && i < 1000; i++) {
		a.under_way++;
		snprintf(key, sizeof key, "more%u", i);
		c = kit_change_of(&a, key);
		c.value = value;
		c.value_bytes = bytes;
	}
	assert_int_equal(status, STORE_ASIDE);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(store_put(w, &c, &r), STORE_ASIDE);
	assert_in_range(w->evictions, 1, most);
	b.side.is_frozen = false;
	KIT_UNTIL(!w->commits);
}

static void test_evictions_in_one_go(void **state)
{
	(void)state;
	evict_with(9000, 8000, 32);
	begin_evictions(9000, 64);
}

static void test_evictions_of_runs_in_one_go(void **state)
{
	(void)state;
	evict_with(400000, 300, 1);
	begin_evictions(400000, 16);
}

static void test_evictions_of_pages(void **state)
{
	(void)state;
	evict_with(400000, 300, 1);
}

/* It is there until the backup has that it goes. */
static void test_an_eviction_waits(void **state)
{
	struct store_change c = kit_change_of(&a, "k");

	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	b.side.is_frozen = true;
	assert_int_equal(store_evict(&a.f.worker[0], &c), STORE_COMMIT);
	assert_int_equal(store_evict(&a.f.worker[0], &c), STORE_ASIDE);
	kit_turns(100);
	assert_int_equal(index_keys(a.f.store->index), 1);
	assert_int_equal(a.f.worker[0].evictions, 1);
	b.side.is_frozen = false;
	KIT_UNTIL(!a.f.worker[0].evictions);
	kit_has_value(&a, "k", NULL);
}

static uint64_t seed;

static void test_many(void **state)
{
	(void)state;
	seed = 7;
	for (unsigned i = 0; i < 5000; i++) {
		kit_change_something(&a, &seed);
		while (a.under_way >= UNDER_WAY)
			kit_turn();
	}
	kit_finish();
	assert_true(b.reads > 100);
	assert_true(a.done > 4000);
	assert_int_equal(a.side.downs + b.side.downs, 0);
	kit_expect_all_same(&a, &b);
}

/* The connection ends with changes and READs under way: sent again, nothing is lost or twice. */
static void test_a_connection_that_ends(void **state)
{
	(void)state;
	seed = 11;
	for (unsigned round = 0; round < 30; round++) {
		for (unsigned i = 0; i < 100; i++) {
			kit_change_something(&a, &seed);
			while (a.under_way >= UNDER_WAY)
				kit_turn();
		}
		assert_true(a.under_way > 0);
		link_peer_close((round % 2 ? &a : &b)->side.peer, "the test ends it");
		while (a.side.peer || b.side.peer)
			kit_turn();
		kit_connect_them();
	}
	kit_finish();
	kit_expect_all_same(&a, &b);
}

static void test_a_long_value(void **state)
{
	struct store_change c = kit_change_of(&a, "long");
	struct store_result r;

	(void)state;
	c.item = store_item_new(&a.f.worker[0], "long", 4, sizeof value,
				&(struct layout_attributes){ .flags = 77 });
	assert_non_null(c.item);
	for (unsigned i = 0; i < sizeof value; i++)
		c.item->data[4 + i] = (uint8_t)(i * 13 + i / 255);
	c.value_bytes = sizeof value;
	assert_int_equal(store_put(&a.f.worker[0], &c, &r), STORE_COMMIT);
	a.under_way++;
	kit_finish();
	assert_int_equal(b.reads, 1);
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_expect_same("long");
}

/* A value that could not be READ is not kept: its record comes again. */
static void test_a_read_that_fails(void **state)
{
	struct ibv_mr wrong = *a.mr;

	(void)state;
	memset(value, 'v', LONG_BYTES);
	kit_put(&a, "long", value, LONG_BYTES);
	wrong.rkey++;
	a.f.table->mr[0] = &wrong;
	replica_flush(a.worker);
	a.f.table->mr[0] = a.mr;
	while (!a.side.downs || !b.side.downs)
		kit_turn();
	assert_int_equal(b.reads, 1);
	assert_int_equal(a.under_way, 1);
	kit_connect_them();
	kit_finish();
	assert_int_equal(b.reads, 2);
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_expect_same("long");
}

/* More of them than there are READs at once, and the connection ends in between. */
static void test_reads_that_wait(void **state)
{
	char key[16];

	(void)state;
	for (unsigned i = 0; i < 3 * LINK_READS; i++) {
		snprintf(key, sizeof key, "key%u", i);
		kit_put(&a, key, value, LONG_BYTES);
	}
	replica_flush(a.worker);
	while (!b.heard)
		kit_poll(&a.side, &b.side);
	link_peer_close(b.side.peer, "the test ends it");
	while (a.side.peer || b.side.peer)
		kit_turn();
	kit_connect_them();
	kit_finish();
	assert_true(b.reads > 3 * LINK_READS);
	kit_expect_all_same(&a, &b);
}

/* All keys at once, of the greatest length, with values that one message has no room for. */
static void test_a_transaction(void **state)
{
	static uint8_t keys[LAYOUT_TXN_KEYS_MAX][LAYOUT_KEY_BYTES_MAX + 1];
	struct txn_key key[LAYOUT_TXN_KEYS_MAX];
	uint64_t version;
	unsigned failed;
	int status;

	(void)state;
	memset(value, 'v', REPLICA_INLINE_MAX);
	for (unsigned i = 0; i < LAYOUT_TXN_KEYS_MAX; i++) {
		memset(keys[i], 'a' + (int)i, LAYOUT_KEY_BYTES_MAX);
		key[i] = (struct txn_key){ .kind = WIRE_TXN_PUT, .version = WIRE_TXN_ANY,
					   .change = kit_change_of(&a, (char *)keys[i]) };
		key[i].change.value = value;
		key[i].change.value_bytes = REPLICA_INLINE_MAX;
	}
	status = txn_run(&a.f.worker[0], key, LAYOUT_TXN_KEYS_MAX, 0, &version, &failed);
	assert_int_equal(status, STORE_COMMIT);
	a.under_way++;
	kit_finish();
	assert_int_equal(b.heard, 1);
	assert_int_equal(b.reads, LAYOUT_TXN_KEYS_MAX);
	for (unsigned i = 0; i < LAYOUT_TXN_KEYS_MAX; i++)
		kit_has_value(&b, (char *)keys[i], NULL);
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	for (unsigned i = 0; i < LAYOUT_TXN_KEYS_MAX; i++)
		kit_expect_same((char *)keys[i]);
}

static void test_another_epoch(void **state)
{
	(void)state;
	kit_epoch(&b, 2, 1, RECORDS_BACKUP, 0);
	kit_order(&b, REPLICA_RESOLVE, 0, 0);
	kit_put(&a, "k", "one", 3);
	kit_turns(2000);
	assert_int_equal(b.heard, 1);
	assert_int_equal(a.under_way, 1);
	/* It is left out: then nobody has to have it. */
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_finish();
	kit_has_value(&a, "k", "one");
	kit_order(&b, REPLICA_SEEN, 100, 0);
	kit_has_value(&b, "k", NULL);
}

static void test_another_table(void **state)
{
	(void)state;
	/* Of a table that was emptied since. */
	link_peer_close(a.side.peer, "the test ends it");
	while (a.side.peer || b.side.peer)
		kit_turn();
	a.other.incarnation = 0xbad;
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, MEMBER);
	kit_order(&a, REPLICA_BEGUN_BY, 0, MEMBER);
	kit_epoch(&b, 2, 1, RECORDS_BACKUP, 0);
	kit_order(&b, REPLICA_RESOLVE, 0, 0);
	kit_connect_them();
	kit_put(&a, "k", "one", 3);
	kit_turns(2000);
	assert_int_equal(b.heard, 1);
	assert_int_equal(a.under_way, 1);
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_finish();
}

static void test_a_record_that_cant_be(void **state)
{
	(void)state;
	b.f.table->hash_seed++;
	kit_put(&a, "k", "one", 3);
	for (unsigned i = 0; i < 100000 && !b.side.downs; i++)
		kit_turn();
	assert_int_equal(b.side.downs, 1);
	assert_non_null(strstr(b.side.why, "a record that can't be"));
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_finish();
}

/* The backup's memory is somebody else's: all of it. */
static struct layout_item *hoarded[100000];
static unsigned hoarded_count;

static void hoard(unsigned bytes)
{
	struct layout_item *item;

	while ((item = store_item_new(&b.f.worker[0], "x", 1, bytes, &(struct layout_attributes){ 0 }))) {
		hoarded[hoarded_count++] = item;
		assert_true(hoarded_count < 100000);
	}
}

static void give_back(void)
{
	while (hoarded_count)
		store_item_delete(&b.f.worker[0], hoarded[--hoarded_count]);
}

/* Changes of which the backup has parked some, as it lacks memory. */
static void put_in_vain(void)
{
	char key[16];

	hoarded_count = 0;
	hoard(1 << 20);
	hoard(1000);
	for (unsigned i = 0; i < 3 || !b.worker->parked; i++) {
		snprintf(key, sizeof key, "key%u", i);
		kit_put(&a, key, value, 3000);
		kit_turns(50);
		assert_true(i < 1000);
	}
	assert_true(a.under_way > 0);
	assert_string_equal(b.unfit, "");
}

static void test_no_memory(void **state)
{
	uint64_t begun_ns = clock_ns();

	(void)state;
	put_in_vain();
	while (!b.unfit[0] && clock_ns() - begun_ns < KIT_LIMIT_NS)
		kit_turn();
	assert_true(clock_ns() - begun_ns >= 500000000); /* it waited first */
	assert_non_null(strstr(b.unfit, "no memory for another member's change"));
	assert_true(a.under_way > 0);
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_finish();
}

/* What found no memory is acknowledged when there is some, and nothing is lost meanwhile. */
static void test_memory_in_time(void **state)
{
	(void)state;
	put_in_vain();
	give_back();
	kit_finish();
	assert_int_equal(b.worker->parked, 0);
	assert_string_equal(b.unfit, "");
	kit_expect_all_same(&a, &b);
}

/* What waits for memory goes with its connection; it comes again with the next one. */
static void test_parked_and_cut(void **state)
{
	(void)state;
	put_in_vain();
	link_peer_close(b.side.peer, "it is cut");
	kit_turns(1000);
	assert_int_equal(b.worker->parked, 0);
	give_back();
	kit_connect_them();
	kit_finish();
	assert_string_equal(b.unfit, "");
	kit_expect_all_same(&a, &b);
}

/* What a PUT costs, both members in one thread. */
static void test_cost(void **state)
{
	enum { ROUNDS = 20000 };
	uint64_t begun_ns, alone_ns;
	char key[16];

	(void)state;
	begun_ns = clock_ns();
	for (unsigned i = 0; i < ROUNDS; i++) {
		snprintf(key, sizeof key, "key%u", i % KEYS);
		kit_put(&a, key, "a value of thirty-two bytes here", 32);
		kit_finish();
	}
	alone_ns = (clock_ns() - begun_ns) / ROUNDS;
	begun_ns = clock_ns();
	for (unsigned i = 0; i < ROUNDS; i++) {
		snprintf(key, sizeof key, "key%u", i % KEYS);
		kit_put(&a, key, "a value of thirty-two bytes here", 32);
		while (a.under_way >= UNDER_WAY)
			kit_turn();
	}
	kit_finish();
	print_message("a PUT with a backup: %llu ns one at a time, %llu ns with %u under way\n",
		      (unsigned long long)alone_ns,
		      (unsigned long long)((clock_ns() - begun_ns) / ROUNDS), UNDER_WAY);
	kit_expect_all_same(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
		CASE(test_only_when_the_backup_has_it),
		CASE(test_what_is_open_has_no_effect),
		CASE(test_a_completion_record_travels),
		CASE(test_words_of_a_backup),
		CASE(test_wakes_nobody),
		CASE(test_one_message_for_a_poll),
		CASE(test_an_eviction_waits),
		CASE(test_evictions_in_one_go),
		CASE(test_evictions_of_runs_in_one_go),
		CASE(test_evictions_are_changes),
		CASE(test_evictions_of_pages),
		CASE(test_many),
		CASE(test_a_connection_that_ends),
		CASE(test_a_long_value),
		CASE(test_a_read_that_fails),
		CASE(test_reads_that_wait),
		CASE(test_a_transaction),
		CASE(test_another_epoch),
		CASE(test_another_table),
		CASE(test_a_record_that_cant_be),
		CASE(test_no_memory),
		CASE(test_memory_in_time),
		CASE(test_parked_and_cut),
		CASE(test_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
