/* SPDX-License-Identifier: BSD-2-Clause */
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
#include "server/cluster/replica/impl.h"
#include "server/durable/durable.h"
#include "server/store/load.h"
#include "tests/unit/server/cluster/disk_kit.h"

/* -------------------------------------------------------------------- a disk */
char disk_folder[64], disk_copy_folder[80];
struct durable *disk;
static bool is_started;

static struct durable *open_folder(const char *dir, const struct fixture *f)
{
	struct durable_options o = { .dir = dir, .durability = DURABILITY_SYNC, .is_members = true,
				     .stripes = f->table->stripes, .cluster = DISK_CLUSTER };
	struct durable *d;
	struct err err;

	if (durable_open(&o, store_durable_clock(f->store), &d, &err))
		fail_msg("%s", err.text);
	return d;
}

/* That member's, which begins to write with disk_start(). */
void disk_fill(struct kit_member *m)
{
#ifndef HAVE_ROCKSDB
	skip();
#endif
	snprintf(disk_folder, sizeof disk_folder, "/tmp/kvd-disk-XXXXXX");
	assert_non_null(mkdtemp(disk_folder));
	snprintf(disk_copy_folder, sizeof disk_copy_folder, "%s/copy", disk_folder);
	disk = open_folder(disk_folder, &m->f);
	is_started = false;
	m->f.store->durable = disk;
}

void disk_start(void)
{
	struct err err;

	if (durable_start(disk, &err))
		fail_msg("%s", err.text);
	is_started = true;
}

/* Also after a test that failed in the middle: what is on its way to the disk comes back. */
int disk_teardown(void **state)
{
	if (disk && !is_started)
		disk_start();
	durable_close(&disk);
	a.f.store->durable = b.f.store->durable = NULL;
	return kit_teardown(state);
}

void disk_remove_folder(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", disk_folder);
	assert_int_equal(system(command), 0);
}

/* Its machine goes: what is on the disk stays. */
void disk_end(struct kit_member *m)
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
struct kit_member c;

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

void disk_restart_from(const char *dir)
{
	struct store_worker *workers[1] = { &c.f.worker[0] };
	struct err err;

	memset(&c, 0, sizeof c);
	fixture_new(&c.f, 64 << 20, 1);
	durable_port_init(&c.f.worker[0].port, wake, NULL);
	disk = open_folder(dir, &c.f);
	is_started = true;
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

void disk_stop(void)
{
	durable_close(&disk);
	c.f.store->durable = NULL;
	replica_worker_delete(&c.worker);
	replica_delete(&c.replica);
	fixture_delete(&c.f);
}

unsigned disk_open_records(void)
{
	const struct records *rs = &c.replica->records;
	unsigned n = 0;

	for (const struct record *r = rs->open.next; r != &rs->open; r = r->next)
		n++;
	return n;
}

/* The primary says so of the only record that is open. */
void disk_decide(enum records_fate fate, uint64_t epoch)
{
	struct kit_member *m = &c;

	kit_epoch(m, epoch, epoch, RECORDS_BACKUP, 0);
	assert_true(replica_ask(m->replica, KIT_QUESTION));
	assert_int_equal(m->replica->question.count, 1);
	m->replica->question.entries[0].fate = fate;
	m->replica->question.answered = 1;
	kit_order(m, REPLICA_RESOLVE, KIT_QUESTION, 0);
}

/* After a restart the latest change is open again, and the table is as it was before. */
void disk_change_and_restart(bool is_removal)
{
	disk_fill(&b);
	disk_start();
	kit_put(&a, "k", "one", 3);
	kit_finish();
	if (is_removal)
		kit_remove(&a, "k");
	else
		kit_put(&a, "k", "two", 3);
	kit_finish();
	disk_end(&b);
	disk_restart_from(disk_folder);
	assert_int_equal(disk_open_records(), 1);
	kit_has_value(&c, "k", "one");
}
