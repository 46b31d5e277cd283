/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica/disk.c, restore.c, server/cluster/note: a member's records on its disk.  A
 * disk counts as a member; what is open is open again after a restart, and can be taken back.
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
#include "server/cluster/note/note.h"
#include "server/cluster/replica/begin.h"
#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/impl.h"
#include "server/durable/backup.h"
#include "server/durable/durable.h"
#include "server/store/load.h"
#include "server/store/reclaim/expire.h"
#include "server/store/txn.h"
#include "tests/unit/server/cluster/replica_kit.h"

#define CLUSTER 7u

/* -------------------------------------------------------------------- notes */
static struct note a_note(void)
{
	struct note n = { .version = 11, .before = 10, .reign = 3, .number = 99, .stripe_count = 2,
			  .stripes = { 5, 70000 }, .count = 2 };

	n.keys[0] = (struct durable_record){ .key = "k", .key_bytes = 1, .value = "old", .value_bytes = 3,
					     .version = 9, .with = { 12345, 0xabcdef, LAYOUT_STALE } };
	n.keys[1] = (struct durable_record){ .key = "none", .key_bytes = 4, .value = "" };
	return n;
}

static void test_a_note(void **state)
{
	struct note n = a_note(), m;
	size_t bytes = note_bytes(&n);
	char *text = malloc(bytes);

	(void)state;
	note_write(&n, text);
	note_number(text, 4, 100);
	assert_true(note_read(text, bytes, &m));
	assert_int_equal(m.version, 11);
	assert_int_equal(m.before, 10);
	assert_int_equal(m.reign, 4);
	assert_int_equal(m.number, 100);
	assert_int_equal(m.stripe_count, 2);
	assert_int_equal(m.stripes[1], 70000);
	assert_int_equal(m.count, 2);
	assert_memory_equal(m.keys[0].value, "old", 3);
	assert_int_equal(m.keys[0].with.expiry_ms, 12345);
	assert_int_equal(m.keys[0].with.flags, 0xabcdef);
	assert_int_equal(m.keys[0].with.signs, LAYOUT_STALE);
	assert_memory_equal(m.keys[1].key, "none", 4);
	assert_int_equal(m.keys[1].version, 0);
	free(text);
}

/* Cut anywhere, or with any byte changed: refused, or read within its bounds. */
static void test_a_note_that_cant_be(void **state)
{
	struct note n = a_note(), m;
	size_t bytes = note_bytes(&n);
	char *text = malloc(bytes);

	(void)state;
	note_write(&n, text);
	for (size_t length = 0; length < bytes; length++) {
		char *cut = malloc(length + 1);

		memcpy(cut, text, length);
		assert_false(note_read(cut, length, &m));
		free(cut);
	}
	for (size_t i = 0; i < bytes; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			text[i] = (char)(text[i] ^ 1 << bit);
			note_read(text, bytes, &m);
			text[i] = (char)(text[i] ^ 1 << bit);
		}
	assert_true(note_read(text, bytes, &m));
	free(text);
}

/* -------------------------------------------------------------------- a disk */
static char folder[64], copy_folder[80];
static struct durable *disk;

static struct durable *open_folder(const char *dir, const struct fixture *f)
{
	struct durable_options o = { .dir = dir, .durability = DURABILITY_SYNC, .is_members = true,
				     .stripes = f->table->stripes, .cluster = CLUSTER };
	struct durable *d;
	struct err err;

	if (durable_open(&o, store_durable_clock(f->store), &d, &err))
		fail_msg("%s", err.text);
	return d;
}

/* That member's, which begins to write with start(). */
static void fill(struct kit_member *m)
{
	snprintf(folder, sizeof folder, "/tmp/kvd-disk-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(copy_folder, sizeof copy_folder, "%s/copy", folder);
	disk = open_folder(folder, &m->f);
	m->f.store->durable = disk;
}

static void start(void)
{
	struct err err;

	if (durable_start(disk, &err))
		fail_msg("%s", err.text);
}

static void remove_folder(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	assert_int_equal(system(command), 0);
}

/* Its machine goes: what is on the disk stays. */
static void end(struct kit_member *m)
{
	uint64_t limit = clock_ns() + KIT_LIMIT_NS;

	while (replica_is_writing(m->worker) && clock_ns() < limit)
		replica_flush(m->worker);
	assert_false(replica_is_writing(m->worker));
	durable_close(&disk);
	m->f.store->durable = NULL;
}

/* -------------------------------------------------------------------- a restart */
/* Carol, who is that one after a restart. */
static struct kit_member c;

static bool never(void *arg)
{
	(void)arg;
	return false;
}

static void wake(void *arg)
{
	(void)arg;
}

static void unfit(void *arg, const char *why)
{
	(void)arg;
	fail_msg("%s", why);
}

static void restart_from(const char *dir)
{
	struct store_worker *workers[1] = { &c.f.worker[0] };
	struct err err;

	memset(&c, 0, sizeof c);
	fixture_new(&c.f, 64 << 20, 1);
	durable_port_init(&c.f.worker[0].port, wake, NULL);
	disk = open_folder(dir, &c.f);
	if (store_load(c.f.store, disk, workers, 1, never, NULL, &err) || durable_start(disk, &err))
		fail_msg("%s", err.text);
	c.f.store->durable = disk;
	c.incarnation = durable_incarnation(disk);
	if (replica_new(&(struct replica_options){ .store = c.f.store, .incarnation = c.incarnation,
						  .unfit = unfit }, &c.replica, &err) ||
	    replica_worker_new(c.replica, &c.f.worker[0], wake, NULL, &c.worker, &err) ||
	    replica_restore(c.replica, &err))
		fail_msg("%s", err.text);
}

static void stop(void)
{
	replica_worker_delete(&c.worker);
	replica_delete(&c.replica);
	durable_close(&disk);
	fixture_delete(&c.f);
}

static unsigned open_records(void)
{
	const struct records *rs = &c.replica->records;
	unsigned n = 0;

	for (const struct record *r = rs->open.next; r != &rs->open; r = r->next)
		n++;
	return n;
}

/* The primary says so of the only record that is open. */
static void decide(enum records_fate fate, uint64_t epoch)
{
	struct kit_member *m = &c;

	kit_epoch(m, epoch, epoch, RECORDS_BACKUP, 0);
	assert_true(replica_ask(m->replica, KIT_QUESTION));
	assert_int_equal(m->replica->question.count, 1);
	m->replica->question.entries[0].fate = fate;
	m->replica->question.answered = 1;
	kit_order(m, REPLICA_RESOLVE, KIT_QUESTION, 0);
}

/* -------------------------------------------------------------------- cases */
static void until_written(void)
{
	struct durable_stats stats = { .commits = 0 };
	uint64_t limit = clock_ns() + KIT_LIMIT_NS;

	while (!stats.commits) {
		durable_stats(disk, &stats);
		kit_turn();
		assert_true(clock_ns() < limit);
	}
}

/* A primary's change: neither the backup alone nor the disk alone. */
static void test_to_the_disk_at_once(void **state)
{
	(void)state;
	fill(&a);
	kit_put(&a, "k", "one", 3);
	kit_turns(1000);
	assert_int_equal(b.heard, 1);
	assert_int_equal(a.under_way, 1);
	assert_int_equal(replica_visible(a.replica), 0);
	start();
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
	end(&a);
	remove_folder();
}

/* It acknowledges what its disk has, and not before; one that comes again, neither. */
static void test_a_backups_disk_first(void **state)
{
	(void)state;
	fill(&b);
	kit_put(&a, "k", "one", 3);
	kit_turns(1000);
	assert_int_equal(b.heard, 1);
	assert_int_equal(a.under_way, 1);
	link_peer_close(a.side.peer, "the test cuts it");
	while (a.side.peer || b.side.peer)
		kit_turn();
	kit_connect_them();
	while (b.heard < 2)
		kit_turn();
	kit_turns(1000);
	assert_int_equal(a.under_way, 1);
	start();
	kit_finish();
	assert_int_equal(a.done, 1);
	end(&b);
	remove_folder();
}

/* What is on its way to the disk is not to become something else on that way. */
static void test_orders_wait(void **state)
{
	struct replica_order o = { .serial = 1000, .kind = REPLICA_EPOCH, .epoch = 2, .reign = 2,
				   .role = RECORDS_BACKUP };

	(void)state;
	fill(&b);
	kit_put(&a, "k", "one", 3);
	kit_send_to(&a, &b);
	assert_true(replica_is_writing(b.worker));
	assert_false(replica_obey(b.worker, &o));
	o.kind = REPLICA_EMPTY;
	assert_false(replica_obey(b.worker, &o));
	o.kind = REPLICA_HOLD;
	o.serial = 0;
	assert_true(replica_obey(b.worker, &o));
	start();
	kit_finish();
	end(&b);
	remove_folder();
}

/* After a restart the latest change is open again, and the table is as it was before. */
static void change_and_restart(bool is_removal)
{
	fill(&b);
	start();
	kit_put(&a, "k", "one", 3);
	kit_finish();
	if (is_removal)
		kit_remove(&a, "k");
	else
		kit_put(&a, "k", "two", 3);
	kit_finish();
	end(&b);
	restart_from(folder);
	assert_int_equal(open_records(), 1);
	kit_has_value(&c, "k", "one");
}

static void test_open_again(void **state)
{
	(void)state;
	change_and_restart(false);
	decide(RECORDS_APPLIED, 2);
	kit_has_value(&c, "k", "two");
	stop();
	/* Nothing says so on the disk, which asks again. */
	restart_from(folder);
	assert_int_equal(open_records(), 1);
	decide(RECORDS_UNKNOWN, 3);
	kit_has_value(&c, "k", "one");
	stop();
	restart_from(folder);
	assert_int_equal(open_records(), 0);
	kit_has_value(&c, "k", "one");
	stop();
	remove_folder();
}

static void test_a_removal_open_again(void **state)
{
	(void)state;
	change_and_restart(true);
	decide(RECORDS_OPEN, 2);
	kit_has_value(&c, "k", "one");
	kit_epoch(&c, 3, 3, RECORDS_PRIMARY, 0);
	kit_order(&c, REPLICA_SHOW, 0, 0);
	replica_flush(c.worker);
	kit_has_value(&c, "k", NULL);
	stop();
	remove_folder();
}

/* What was seen is not open; of versions it goes on above all. */
static void test_seen(void **state)
{
	uint64_t version;

	(void)state;
	fill(&b);
	start();
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_put(&a, "l", "two", 3); /* takes that along */
	kit_finish();
	version = atomic_load(&a.f.store->version);
	end(&b);
	restart_from(folder);
	assert_int_equal(open_records(), 1);
	kit_has_value(&c, "k", "one");
	kit_has_value(&c, "l", NULL);
	assert_true(atomic_load(&c.f.store->version) >= version);
	stop();
	remove_folder();
}

/* A cluster that was made anew counts reigns from 1 again: its numbers are no older ones. */
static void test_numbers_of_another_life(void **state)
{
	char key[16];

	(void)state;
	fill(&b);
	start();
	for (unsigned i = 0; i < 20; i++) {
		snprintf(key, sizeof key, "key%u", i);
		kit_put(&a, key, "one", 3);
		kit_finish();
	}
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_put(&a, "key0", "two", 3);
	kit_finish();
	end(&b);
	restart_from(folder);
	assert_int_equal(open_records(), 1);
	kit_epoch(&c, 1, 1, RECORDS_PRIMARY, 0);
	kit_order(&c, REPLICA_SHOW, 0, 0);
	kit_put(&c, "key1", "three", 5);
	while (c.under_way)
		kit_step(&c);
	kit_has_value(&c, "key1", "three");
	stop();
	restart_from(folder);
	kit_has_value(&c, "key1", "one");
	assert_int_equal(open_records(), 2);
	stop();
	remove_folder();
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
	fill(&b);
	start();
	put_both("one");
	put_both("two");
	end(&b);
	restart_from(folder);
	assert_int_equal(open_records(), 1);
	kit_has_value(&c, "t1", "one");
	kit_has_value(&c, "t2", "one");
	decide(RECORDS_APPLIED, 2);
	kit_has_value(&c, "t1", "two");
	kit_has_value(&c, "t2", "two");
	stop();
	remove_folder();
}

/* One behind it in one of its stripes proves that all of it took effect. */
static void test_a_transaction_that_is_proven(void **state)
{
	(void)state;
	fill(&b);
	start();
	put_both("one");
	kit_put(&a, "t1", "two", 3);
	kit_finish();
	end(&b);
	restart_from(folder);
	assert_int_equal(open_records(), 1);
	kit_has_value(&c, "t1", "one");
	kit_has_value(&c, "t2", "one");
	stop();
	remove_folder();
}

/* What is dropped is as it was on the disk before it is said that it began. */
static void test_dropped(void **state)
{
	(void)state;
	fill(&b);
	start();
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_put(&a, "k", "two", 3);
	kit_put(&a, "new", "x", 1);
	kit_send_to(&a, &b);
	/* Anna begins a reign without it: she was restarted, and lacks it. */
	records_empty(&a.replica->records);
	kit_epoch(&b, 2, 2, RECORDS_BACKUP, 0);
	kit_epoch(&a, 2, 2, RECORDS_PRIMARY, MEMBER);
	kit_begin_with(&b, &a);
	end(&b);
	restart_from(folder);
	assert_int_equal(open_records(), 0);
	kit_has_value(&c, "k", "one");
	kit_has_value(&c, "new", NULL);
	stop();
	remove_folder();
}

/* Who is deposed has it open on its disk, as the next primary may. */
static void test_a_disk_that_was_ahead(void **state)
{
	(void)state;
	fill(&a);
	start();
	kit_put(&a, "k", "one", 3);
	kit_take_over(&b, &a, 2);
	kit_finish();
	assert_int_equal(a.unknown, 1);
	end(&a);
	restart_from(folder);
	kit_has_value(&c, "k", NULL);
	assert_int_equal(open_records(), 0); /* bert never had it, and said so */
	stop();
	remove_folder();
}

static void test_deposed_and_kept(void **state)
{
	(void)state;
	fill(&a);
	start();
	kit_put(&a, "k", "one", 3);
	kit_send_to(&a, &b);
	kit_take_over(&b, &a, 2);
	kit_finish();
	assert_int_equal(a.unknown, 1);
	end(&a);
	restart_from(folder);
	assert_int_equal(open_records(), 1);
	kit_has_value(&c, "k", NULL);
	decide(RECORDS_APPLIED, 3);
	kit_has_value(&c, "k", "one");
	stop();
	remove_folder();
}

/* A key's time is over at a backup, and another value of it is on the disk already, open. */
static void test_a_time_that_is_over(void **state)
{
	struct store_change change = kit_change_of(&a, "k");
	struct store_result r;

	(void)state;
	fill(&b);
	start();
	change.value = "one";
	change.value_bytes = 3;
	change.with.expiry_ms = store_clock_ms(a.f.store) + 200;
	assert_int_equal(store_put(&a.f.worker[0], &change, &r), STORE_COMMIT);
	a.under_way++;
	kit_finish();
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	kit_put(&a, "k", "two", 3);
	kit_finish();
	while (store_clock_ms(a.f.store) <= change.with.expiry_ms + 50)
		kit_turn();
	change = kit_change_of(&b, "k");
	assert_int_equal(store_expire(&b.f.worker[0], &change), WIRE_OK);
	kit_put(&a, "l", "three", 5); /* behind it */
	kit_finish();
	end(&b);
	restart_from(folder);
	kit_has_value(&c, "k", NULL);
	assert_int_equal(open_records(), 2);
	kit_epoch(&c, 3, 3, RECORDS_PRIMARY, 0);
	kit_order(&c, REPLICA_SHOW, 0, 0);
	replica_flush(c.worker);
	kit_has_value(&c, "k", "two");
	stop();
	remove_folder();
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
	fill(&b);
	kit_epoch(&b, 2, 1, RECORDS_BACKUP, 0);
	kit_order(&b, REPLICA_RESOLVE, 0, 0);
	kit_order(&a, REPLICA_AWAIT, 0, MEMBER);
	kit_order(&a, REPLICA_BEGUN_BY, 0, MEMBER);
	kit_order(&a, REPLICA_COPY, 1, MEMBER);
	while (b.replica->writes < 3)
		kit_turn();
	kit_turns(1000);
	assert_false(replica_is_copied(a.replica, 1));
	assert_int_equal(a.replica->copy.progress.keys, 0);
	start();
	while (!replica_is_copied(a.replica, 1))
		kit_turn();
	end(&b);
	restart_from(folder);
	assert_int_equal(open_records(), 0);
	kit_has_value(&c, "k", "one");
	kit_has_value(&c, "l", "two");
	kit_has_value(&c, "gone", NULL);
	for (uint32_t i = 0; i < a.replica->records.stripes; i++)
		assert_int_equal(c.replica->records.slots[i].applied, a.replica->records.slots[i].applied);
	stop();
	remove_folder();
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
	change_and_restart(false);
	before = c.incarnation;
	version = atomic_load(&c.f.store->version);
	stop();
	restart_from(folder);
	assert_int_equal(c.incarnation, before);
	wipe();
	stop();
	restart_from(folder);
	assert_int_equal(c.incarnation, 4711);
	assert_int_equal(index_keys(c.f.store->index), 0);
	assert_int_equal(open_records(), 0);
	assert_true(atomic_load(&c.f.store->version) >= version);
	stop();
	remove_folder();
}

/* A copy of the folder that was made earlier is not taken for the table that the cluster knows. */
static void test_a_backup(void **state)
{
	uint64_t before, limit = clock_ns() + KIT_LIMIT_NS;
	char text[512];

	(void)state;
	change_and_restart(false);
	before = c.incarnation;
	while (durable_backup(disk, copy_folder, text, sizeof text) == BACKUP_RUNNING)
		assert_true(clock_ns() < limit);
	stop();
	restart_from(copy_folder);
	assert_int_not_equal(c.incarnation, before);
	kit_has_value(&c, "k", "one");
	stop();
	remove_folder();
}

/* Of another cluster, or another size; of no cluster at all. */
static void expect_refused(struct durable_options o, const char *why)
{
	struct durable *d = NULL;
	struct err err;

	o.dir = folder;
	assert_int_equal(durable_open(&o, store_durable_clock(b.f.store), &d, &err), -1);
	assert_non_null(strstr(err.text, why));
}

static void test_of_somebody_else(void **state)
{
	struct durable_options mine = { .durability = DURABILITY_SYNC, .is_members = true,
					.stripes = b.f.table->stripes, .cluster = CLUSTER }, o;

	(void)state;
	fill(&b);
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
	remove_folder();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_note),
		cmocka_unit_test(test_a_note_that_cant_be),
#ifdef HAVE_ROCKSDB
#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
		CASE(test_to_the_disk_at_once),
		CASE(test_a_backups_disk_first),
		CASE(test_orders_wait),
		CASE(test_open_again),
		CASE(test_a_removal_open_again),
		CASE(test_seen),
		CASE(test_numbers_of_another_life),
		CASE(test_a_transaction),
		CASE(test_a_transaction_that_is_proven),
		CASE(test_dropped),
		CASE(test_a_disk_that_was_ahead),
		CASE(test_deposed_and_kept),
		CASE(test_a_time_that_is_over),
		CASE(test_a_copys_disk_first),
		CASE(test_wiped),
		CASE(test_a_backup),
		CASE(test_of_somebody_else),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
