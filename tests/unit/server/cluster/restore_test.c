/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica/restore.c: a member that was restarted.  What was open is open again, and can
 * be taken back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "server/store/txn.h"
#include "tests/unit/server/cluster/disk_kit.h"

static void test_open_again(void **state)
{
	(void)state;
	disk_change_and_restart(false);
	disk_decide(RECORDS_APPLIED, 2);
	kit_has_value(&c, "k", "two");
	disk_stop();
	/* Nothing says so on the disk, which asks again. */
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 1);
	disk_decide(RECORDS_UNKNOWN, 3);
	kit_has_value(&c, "k", "one");
	disk_stop();
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 0);
	kit_has_value(&c, "k", "one");
	disk_stop();
	disk_remove_folder();
}

static void test_a_removal_open_again(void **state)
{
	(void)state;
	disk_change_and_restart(true);
	disk_decide(RECORDS_OPEN, 2);
	kit_has_value(&c, "k", "one");
	kit_epoch(&c, 3, 3, RECORDS_PRIMARY, 0);
	kit_order(&c, REPLICA_SHOW, 0, 0);
	replica_flush(c.worker);
	kit_has_value(&c, "k", NULL);
	disk_stop();
	disk_remove_folder();
}

/* What was seen is not open; of versions it goes on above all. */
static void test_seen(void **state)
{
	uint64_t version;

	(void)state;
	disk_fill(&b);
	disk_start();
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_put(&a, "l", "two", 3); /* takes that along */
	kit_finish();
	version = atomic_load(&a.f.store->version);
	disk_end(&b);
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 1);
	kit_has_value(&c, "k", "one");
	kit_has_value(&c, "l", NULL);
	assert_true(atomic_load(&c.f.store->version) >= version);
	disk_stop();
	disk_remove_folder();
}

/* A cluster that was made anew counts reigns from 1 again: its numbers are no older ones. */
static void test_numbers_of_another_life(void **state)
{
	char key[16];

	(void)state;
	disk_fill(&b);
	disk_start();
	for (unsigned i = 0; i < 20; i++) {
		snprintf(key, sizeof key, "key%u", i);
		kit_put(&a, key, "one", 3);
		kit_finish();
	}
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_put(&a, "key0", "two", 3);
	kit_finish();
	disk_end(&b);
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 1);
	kit_epoch(&c, 1, 1, RECORDS_PRIMARY, 0);
	kit_order(&c, REPLICA_SHOW, 0, 0);
	kit_put(&c, "key1", "three", 5);
	KIT_UNTIL((kit_step(&c), !c.under_way));
	kit_has_value(&c, "key1", "three");
	disk_stop();
	disk_restart_from(disk_folder);
	kit_has_value(&c, "key1", "one");
	assert_int_equal(disk_open_records(), 2);
	disk_stop();
	disk_remove_folder();
}

/* Two keys of two stripes. */
static void put_both(const char *value)
{
	struct txn_key key[2];
	uint64_t version;
	unsigned failed;

	for (unsigned i = 0; i < 2; i++) {
		key[i] = (struct txn_key){ .kind = WIRE_TXN_PUT, .version = WIRE_TXN_ANY,
					   .change = kit_change_of(&a, i ? "t1" : "t2") };
		key[i].change.value = value;
		key[i].change.value_bytes = (unsigned)strlen(value);
	}
	assert_int_equal(txn_run(&a.f.worker[0], key, 2, 0, &version, &failed), STORE_COMMIT);
	a.under_way++;
	kit_finish();
}

/* Whole, or not at all. */
static void test_a_transaction(void **state)
{
	(void)state;
	disk_fill(&b);
	disk_start();
	put_both("one");
	put_both("two");
	disk_end(&b);
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 1);
	kit_has_value(&c, "t1", "one");
	kit_has_value(&c, "t2", "one");
	disk_decide(RECORDS_APPLIED, 2);
	kit_has_value(&c, "t1", "two");
	kit_has_value(&c, "t2", "two");
	disk_stop();
	disk_remove_folder();
}

/* One behind it in one of its stripes proves that all of it took effect. */
static void test_a_transaction_that_is_proven(void **state)
{
	(void)state;
	disk_fill(&b);
	disk_start();
	put_both("one");
	kit_put(&a, "t1", "two", 3);
	kit_finish();
	disk_end(&b);
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 1);
	kit_has_value(&c, "t1", "one");
	kit_has_value(&c, "t2", "one");
	disk_stop();
	disk_remove_folder();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, disk_teardown)
		CASE(test_open_again),
		CASE(test_a_removal_open_again),
		CASE(test_seen),
		CASE(test_numbers_of_another_life),
		CASE(test_a_transaction),
		CASE(test_a_transaction_that_is_proven),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
