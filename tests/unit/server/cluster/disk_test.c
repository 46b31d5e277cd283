/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica/disk.c: a member's records on its disk, which counts as a member; whose table
 * it is that the disk has.  restore_test has what becomes of it after a restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/impl.h"
#include "server/durable/backup.h"
#include "server/durable/db.h"
#include "server/durable/durable.h"
#include "server/durable/impl.h"
#include "server/store/change/remove.h"
#include "server/store/load.h"
#include "server/store/txn.h"
#include "tests/unit/server/cluster/disk_kit.h"

static void until_written(void)
{
	struct durable_stats stats = { .commits = 0 };

	KIT_UNTIL((durable_stats(disk, &stats), stats.commits));
}

/* A primary's change: neither the backup alone nor the disk alone. */
static void test_to_the_disk_at_once(void **state)
{
	(void)state;
	disk_fill(&a);
	kit_put(&a, "k", "one", 3);
	kit_turns(1000);
	assert_int_equal(b.heard, 1);
	assert_int_equal(a.under_way, 1);
	assert_int_equal(replica_visible(a.replica), 0);
	disk_start();
	kit_finish();
	kit_has_value(&a, "k", "one");
	b.side.is_frozen = true;
	kit_put(&a, "l", "two", 3);
	until_written();
	kit_turns(1000);
	assert_int_equal(a.under_way, 1);
	b.side.is_frozen = false;
	kit_finish();
	kit_has_value(&a, "l", "two");
	disk_end(&a);
	disk_remove_folder();
}

/* It acknowledges what its disk has, and not before; one that comes again, neither. */
static void test_a_backups_disk_first(void **state)
{
	(void)state;
	disk_fill(&b);
	kit_put(&a, "k", "one", 3);
	kit_turns(1000);
	assert_int_equal(b.heard, 1);
	assert_int_equal(a.under_way, 1);
	link_peer_close(a.side.peer, "the test cuts it");
	KIT_UNTIL(!a.side.peer && !b.side.peer);
	kit_connect_them();
	KIT_UNTIL(b.heard >= 2);
	kit_turns(1000);
	assert_int_equal(a.under_way, 1);
	disk_start();
	kit_finish();
	assert_int_equal(a.done, 1);
	disk_end(&b);
	disk_remove_folder();
}

/* How many of the keys' values are replaced before one has to wait. */
static unsigned replace_all(unsigned keys)
{
	struct store_result r;
	char key[16];

	for (unsigned i = 0; i < keys; i++) {
		snprintf(key, sizeof key, "long%u", i);
		struct store_change change = kit_change_of(&a, key);
		change.value = "new";
		change.value_bytes = 3;
		if (store_put(&a.f.worker[0], &change, &r) == STORE_ASIDE)
			return i;
		a.under_way++;
	}
	return keys;
}

/* Old values on their way to the disk are in memory beside the table: not more than there may be. */
static void test_old_values_are_bounded(void **state)
{
	static uint8_t value[1 << 20];
	const unsigned keys = STORE_COMMIT_BYTES_MAX / sizeof value + 8;
	char key[16];

	(void)state;
	for (unsigned i = 0; i < keys; i++) {
		snprintf(key, sizeof key, "long%u", i);
		kit_put(&a, key, value, sizeof value);
	}
	kit_finish();
	assert_int_equal(a.f.worker[0].commit_bytes, 0);
	disk_fill(&a);
	assert_int_equal(replace_all(keys), STORE_COMMIT_BYTES_MAX / sizeof value);
	assert_true(a.f.worker[0].commit_bytes < STORE_COMMIT_BYTES_MAX + 2 * sizeof value);
	disk_start();
	kit_finish();
	assert_int_equal(a.f.worker[0].commit_bytes, 0);
	assert_int_equal(replace_all(keys), keys);
	kit_finish();
	kit_has_value(&a, "long20", "new");
	disk_end(&a);
	disk_remove_folder();
}

/* What is on its way to the disk is not to become something else on that way. */
static void test_orders_wait(void **state)
{
	struct replica_order o = { .serial = 1000, .kind = REPLICA_EPOCH, .epoch = 2, .reign = 2,
				   .role = RECORDS_BACKUP };

	(void)state;
	disk_fill(&b);
	kit_put(&a, "k", "one", 3);
	kit_send_to(&a, &b);
	assert_true(replica_is_writing(b.worker));
	assert_false(replica_obey(b.worker, &o));
	o.kind = REPLICA_EMPTY;
	assert_false(replica_obey(b.worker, &o));
	o.kind = REPLICA_HOLD;
	o.serial = 0;
	assert_true(replica_obey(b.worker, &o));
	disk_start();
	kit_finish();
	disk_end(&b);
	disk_remove_folder();
}

/* What is dropped is as it was on the disk before it is said that it began. */
static void test_dropped(void **state)
{
	(void)state;
	disk_fill(&b);
	disk_start();
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_put(&a, "k", "two", 3);
	kit_put(&a, "new", "x", 1);
	kit_send_to(&a, &b);
	/* Anna begins a reign without it: she was restarted, and lacks it. */
	replica_enter(a.replica, a.worker);
	records_empty(&a.replica->records);
	replica_leave(a.replica);
	kit_epoch(&b, 2, 2, RECORDS_BACKUP, 0);
	kit_epoch(&a, 2, 2, RECORDS_PRIMARY, MEMBER);
	kit_begin_with(&b, &a);
	kit_finish();
	assert_int_equal(a.unknown, 2);
	disk_end(&b);
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 0);
	kit_has_value(&c, "k", "one");
	kit_has_value(&c, "new", NULL);
	disk_stop();
	disk_remove_folder();
}

/* Who is deposed has it open on its disk, as the next primary may. */
static void test_a_disk_that_was_ahead(void **state)
{
	(void)state;
	disk_fill(&a);
	disk_start();
	kit_put(&a, "k", "one", 3);
	kit_take_over(&b, &a, 2);
	kit_finish();
	assert_int_equal(a.unknown, 1);
	disk_end(&a);
	disk_restart_from(disk_folder);
	kit_has_value(&c, "k", NULL);
	assert_int_equal(disk_open_records(), 0); /* bert never had it, and said so */
	disk_stop();
	disk_remove_folder();
}

static void test_deposed_and_kept(void **state)
{
	(void)state;
	disk_fill(&a);
	disk_start();
	kit_put(&a, "k", "one", 3);
	kit_send_to(&a, &b);
	kit_take_over(&b, &a, 2);
	kit_finish();
	assert_int_equal(a.unknown, 1);
	disk_end(&a);
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 1);
	kit_has_value(&c, "k", NULL);
	disk_decide(RECORDS_APPLIED, 3);
	kit_has_value(&c, "k", "one");
	disk_stop();
	disk_remove_folder();
}

/* "k" is "one" for so long, and the disk has it; when that is over. */
static uint64_t put_for(unsigned ms)
{
	struct store_change change = kit_change_of(&a, "k");
	struct store_result r;

	change.value = "one";
	change.value_bytes = 3;
	change.with.expiry_ms = store_clock_ms(a.f.store) + ms;
	assert_int_equal(store_put(&a.f.worker[0], &change, &r), STORE_COMMIT);
	a.under_way++;
	kit_finish();
	return change.with.expiry_ms;
}

/* A key's time is over at a backup, and another value of it is on the disk already, open. */
static void test_a_time_that_is_over(void **state)
{
	struct store_change change = kit_change_of(&b, "k");
	uint64_t expiry_ms;

	(void)state;
	disk_fill(&b);
	disk_start();
	expiry_ms = put_for(200);
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_put(&a, "k", "two", 3);
	kit_finish();
	KIT_UNTIL(store_clock_ms(a.f.store) > expiry_ms + 50);
	assert_int_equal(store_expire(&b.f.worker[0], &change), WIRE_OK);
	kit_put(&a, "l", "three", 5); /* behind it */
	kit_finish();
	disk_end(&b);
	disk_restart_from(disk_folder);
	kit_has_value(&c, "k", NULL);
	assert_int_equal(disk_open_records(), 2);
	kit_epoch(&c, 3, 3, RECORDS_PRIMARY, 0);
	kit_order(&c, REPLICA_SHOW, 0, 0);
	replica_flush(c.worker);
	kit_has_value(&c, "k", "two");
	disk_stop();
	disk_remove_folder();
}

static bool is_over_on_disk(const char *key)
{
	const struct durable_record r = { .key = key, .key_bytes = (unsigned)strlen(key) };

	return db_is_over(disk->db, &r, clock_read_ns(CLOCK_REALTIME) / 1000000);
}

/* And where no other value came the disk has it until it is over, and not for ever. */
static void test_what_is_over_goes(void **state)
{
	struct store_change change = kit_change_of(&b, "k");
	uint64_t expiry_ms;

	(void)state;
	disk_fill(&b);
	disk_start();
	expiry_ms = put_for(300);
	/* Not before its time, however long this took; a clock's millisecond aside. */
	assert_true(!is_over_on_disk("k") || store_clock_ms(a.f.store) + 1 >= expiry_ms);
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	KIT_UNTIL(store_clock_ms(a.f.store) > expiry_ms + 50);
	assert_true(is_over_on_disk("k"));
	assert_int_equal(store_expire(&b.f.worker[0], &change), WIRE_OK);
	KIT_UNTIL(!is_over_on_disk("k"));
	disk_end(&b);
	disk_remove_folder();
}

/* A joiner's disk has each key before that is acknowledged, and which change was the last one. */
static void test_a_copys_disk_first(void **state)
{
	(void)state;
	kit_epoch(&b, 1, 1, RECORDS_OUT, 0);
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_put(&a, "k", "one", 3);
	kit_put(&a, "l", "two", 3);
	kit_put(&a, "gone", "three", 5);
	kit_finish();
	kit_remove(&a, "gone");
	kit_finish();
	disk_fill(&b);
	kit_epoch(&b, 2, 1, RECORDS_BACKUP, 0);
	kit_order(&b, REPLICA_RESOLVE, 0, 0);
	kit_order(&a, REPLICA_AWAIT, 0, MEMBER);
	kit_order(&a, REPLICA_BEGUN_BY, 0, MEMBER);
	kit_order(&a, REPLICA_COPY, 1, MEMBER);
	KIT_UNTIL(b.replica->writes >= 3);
	kit_turns(1000);
	assert_false(replica_is_copied(a.replica, 1));
	assert_int_equal(a.replica->copy.progress.keys, 0);
	disk_start();
	KIT_UNTIL(replica_is_copied(a.replica, 1));
	disk_end(&b);
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 0);
	kit_has_value(&c, "k", "one");
	kit_has_value(&c, "l", "two");
	kit_has_value(&c, "gone", NULL);
	for (uint32_t i = 0; i < a.replica->records.stripes; i++)
		assert_int_equal(c.replica->records.slots[i].applied, a.replica->records.slots[i].applied);
	disk_stop();
	disk_remove_folder();
}

static void refuse_all(void)
{
	struct durable_op *list;

	pthread_mutex_lock(&disk->lock);
	list = disk->queue;
	disk->queue = NULL;
	disk->queue_end = &disk->queue;
	disk->queued = 0;
	pthread_mutex_unlock(&disk->lock);
	durable_give_back(disk, list, DURABLE_REFUSED);
}

static void begin_joining(void)
{
	kit_epoch(&b, 1, 1, RECORDS_OUT, 0);
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_put(&a, "before", "it", 2);
	kit_finish();
	disk_fill(&a);
	kit_epoch(&b, 2, 1, RECORDS_BACKUP, 0);
	kit_order(&b, REPLICA_RESOLVE, 0, 0);
	kit_order(&a, REPLICA_AWAIT, 0, MEMBER);
	kit_order(&a, REPLICA_BEGUN_BY, 0, MEMBER);
	kit_order(&a, REPLICA_COPY, 1, MEMBER);
}

/*
 * The disk of a primary that is alone is full while somebody joins: it has nobody who could go on, so it
 * refuses, and the joiner, which has the change, is given up.
 */
static void test_full_beside_a_joiner(void **state)
{
	unsigned heard;

	(void)state;
	begin_joining();
	heard = b.heard;
	kit_put(&a, "k", "one", 3);
	KIT_UNTIL(b.heard > heard);
	refuse_all();
	KIT_UNTIL(!a.under_way || a.unfit[0]);
	assert_string_equal(a.unfit, "");
	assert_int_equal(a.no_disk, 1);
	assert_true(replica_is_spoiled(a.replica, 1));
	/* What comes next would tell it that the change took effect. */
	heard = b.heard;
	kit_put(&a, "k", "two", 3);
	kit_turns(1000);
	assert_int_equal(b.heard, heard);
	assert_false(replica_is_copied(a.replica, 1));
	kit_order(&a, REPLICA_AWAIT, 0, 0);
	disk_start();
	kit_finish();
	kit_has_value(&a, "k", "two");
	kit_has_value(&b, "k", NULL);
	disk_end(&a);
	disk_remove_folder();
}

/* Once it may be of the set it is another one that has to decide. */
static void test_full_behind_a_copy(void **state)
{
	(void)state;
	begin_joining();
	KIT_UNTIL(replica_is_copied(a.replica, 1));
	kit_put(&a, "k", "one", 3);
	kit_turns(100);
	refuse_all();
	KIT_UNTIL(a.unfit[0]);
	assert_int_equal(a.no_disk + a.elsewhere, 0);
	assert_false(replica_is_spoiled(a.replica, 1));
	kit_epoch(&a, 3, 3, RECORDS_BACKUP, 0);
	disk_start();
	kit_finish();
	disk_end(&a);
	disk_remove_folder();
}

/* The disk goes with the table; the next one is another. */
static void wipe(void)
{
	struct durable_op op = { .port = &c.f.worker[0].port, .wipe = 4711 };
	uint64_t limit = clock_ns() + KIT_LIMIT_NS;

	durable_submit(disk, &op);
	while (!durable_port_take(&c.f.worker[0].port))
		assert_true(clock_ns() < limit);
	assert_int_equal(op.result, DURABLE_WRITTEN);
}

static void test_wiped(void **state)
{
	uint64_t before, version;

	(void)state;
	disk_change_and_restart(false);
	before = c.incarnation;
	version = atomic_load(&c.f.store->version);
	disk_stop();
	disk_restart_from(disk_folder);
	assert_int_equal(c.incarnation, before);
	wipe();
	disk_stop();
	disk_restart_from(disk_folder);
	assert_int_equal(c.incarnation, 4711);
	assert_int_equal(index_keys(c.f.store->index), 0);
	assert_int_equal(disk_open_records(), 0);
	assert_true(atomic_load(&c.f.store->version) >= version);
	disk_stop();
	disk_remove_folder();
}

/* A copy of the disk_folder that was made earlier is not taken for the table that the cluster knows. */
static void test_a_backup(void **state)
{
	uint64_t before, limit = clock_ns() + KIT_LIMIT_NS;
	char text[512];

	(void)state;
	disk_change_and_restart(false);
	before = c.incarnation;
	while (durable_backup(disk, disk_copy_folder, text, sizeof text) == BACKUP_RUNNING)
		assert_true(clock_ns() < limit);
	disk_stop();
	disk_restart_from(disk_copy_folder);
	assert_int_not_equal(c.incarnation, before);
	kit_has_value(&c, "k", "one");
	disk_stop();
	disk_remove_folder();
}

/* One that may lack what it acknowledged is not taken for it either. */
static void test_async(void **state)
{
	struct durable_options o = { .dir = disk_folder, .durability = DURABILITY_ASYNC, .lag_ms = 100,
				     .is_members = true, .stripes = b.f.table->stripes,
				     .cluster = DISK_CLUSTER };
	uint64_t before;
	struct err err;

	(void)state;
	disk_fill(&b);
	before = durable_incarnation(disk);
	durable_close(&disk);
	for (unsigned i = 0; i < 2; i++) {
		if (durable_open(&o, store_durable_clock(b.f.store), &disk, &err))
			fail_msg("%s", err.text);
		assert_int_not_equal(durable_incarnation(disk), before);
		before = durable_incarnation(disk);
		durable_close(&disk);
	}
	b.f.store->durable = NULL;
	disk_remove_folder();
}

/* Of another cluster, or another size; of no cluster at all. */
static void expect_refused(struct durable_options o, const char *why)
{
	struct durable *d = NULL;
	struct err err;

	o.dir = disk_folder;
	assert_int_equal(durable_open(&o, store_durable_clock(b.f.store), &d, &err), -1);
	assert_non_null(strstr(err.text, why));
}

static void test_of_somebody_else(void **state)
{
	struct durable_options mine = { .durability = DURABILITY_SYNC, .is_members = true,
					.stripes = b.f.table->stripes, .cluster = DISK_CLUSTER }, o;

	(void)state;
	disk_fill(&b);
	durable_close(&disk);
	b.f.store->durable = NULL;
	o = mine;
	o.cluster++;
	expect_refused(o, "another cluster");
	o = mine;
	o.stripes *= 2;
	expect_refused(o, "the same --memory");
	o = mine;
	o.is_members = false;
	expect_refused(o, "start kvd with --cluster");
	disk_remove_folder();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, disk_teardown)
		CASE(test_to_the_disk_at_once),
		CASE(test_a_backups_disk_first),
		CASE(test_old_values_are_bounded),
		CASE(test_orders_wait),
		CASE(test_dropped),
		CASE(test_a_disk_that_was_ahead),
		CASE(test_deposed_and_kept),
		CASE(test_a_time_that_is_over),
		CASE(test_what_is_over_goes),
		CASE(test_a_copys_disk_first),
		CASE(test_full_beside_a_joiner),
		CASE(test_full_behind_a_copy),
		CASE(test_wiped),
		CASE(test_a_backup),
		CASE(test_async),
		CASE(test_of_somebody_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
