/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commit thread: takes what has gathered while the last batch was written, writes
 * it as one batch, gives it back.
 *
 * Failure.  A disk that gets full is met before it is: below a reserve, which RocksDB
 * needs to tidy up, changes are refused and nothing is written.  Where writing fails
 * all the same, nobody knows what of the batch is on disk: its changes are answered
 * "unknown", and come back as undos with the values that the table has, their stripes
 * marked until those are written.  From then on all changes are refused, while the
 * database is closed and opened again, once a second, until it can be written: what was
 * written before and not synced, which the disk may have lost; the undos, so what it has is
 * what the table has; then everything.
 */
#include "server/durable/commit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "common/log.h"
#include "server/durable/batch.h"
#include "server/durable/db.h"
#include "server/durable/folder.h"
#include "server/durable/impl.h"
#include "server/durable/queue.h"

#define REOPEN_NS 1000000000ull

/* Changes are refused from now on, or again taken. */
static void set_failing(struct durable *d, const char *why)
{
	bool was = atomic_exchange(&d->is_failing, why != NULL);

	if (why && !was)
		log_error("changes are refused from now on, GETs go on: %s", why);
	else if (!why && was)
		log_info("changes are taken again: %s can be written", d->options.dir);
}

static bool has_room(struct durable *d, uint64_t batch_bytes)
{
	uint64_t have = folder_free_bytes(d->options.dir), need = d->reserve_bytes + 2 * batch_bytes;
	/* Some more before it goes on, lest it come and go. */
	bool ok = have >= need + (d->is_full ? need / 8 : 0);
	char why[512];

	if (!ok && !d->is_full) {
		snprintf(why, sizeof why, "the disk of %s is full: %llu MiB are left, of which %llu are "
			 "needed to work; make room", d->options.dir, (unsigned long long)have >> 20,
			 (unsigned long long)need >> 20);
		set_failing(d, why);
	} else if (ok && d->is_full && !d->is_broken) {
		set_failing(d, NULL);
	}
	d->is_full = !ok;
	return ok;
}

static void count_commit(struct durable *d, uint64_t changes, uint64_t begun_ns)
{
	atomic_fetch_add_explicit(&d->commits, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&d->changes, changes, memory_order_relaxed);
	atomic_fetch_add_explicit(&d->commit_ns, clock_ns() - begun_ns,
				  memory_order_relaxed);
}

/*
 * Nobody marks a stripe at a backup: a key's time may be over there, and another value of it on
 * the disk already, open.
 */
static bool is_obsolete(const struct durable *d, const struct durable_op *op, uint64_t wall_ms)
{
	return d->options.is_members && !op->port && !db_is_over(d->db, &op->records[0], wall_ms);
}

static void add_seen(struct durable *d)
{
	uint64_t reign, number;
	bool is_new;

	pthread_mutex_lock(&d->lock);
	is_new = d->is_seen_new;
	reign = d->seen_reign;
	number = d->seen_number;
	d->is_seen_new = false;
	pthread_mutex_unlock(&d->lock);
	if (is_new)
		db_batch_seen(d->db, reign, number);
}

static int write_list(struct durable *d, struct durable_op *list, bool sync, struct err *err)
{
	uint64_t begun_ns = clock_ns(), changes = 0, wall_ms = clock_read_ns(CLOCK_REALTIME) / 1000000;
	uint64_t offset = wall_ms - d->clock.now_ms(d->clock.arg);

	for (const struct durable_op *op = list; op; op = op->next) {
		if (is_obsolete(d, op, wall_ms))
			continue;
		for (unsigned i = 0; i < op->count; i++, changes++)
			db_batch_add(d->db, &op->records[i], offset);
		for (unsigned i = 0; i < op->note_count; i++)
			db_batch_note(d->db, &op->notes[i]);
	}
	if (d->options.is_members)
		add_seen(d);
	if (!sync) { /* from before: the syncing may begin at any time */
		uint64_t none = 0;
		atomic_compare_exchange_strong(&d->unsynced_ns, &none, begun_ns);
	}
	if (db_batch_write(d->db, sync, err))
		return -1;
	count_commit(d, changes, begun_ns);
	return 0;
}

static void broke(struct durable *d, const struct err *err)
{
	d->is_broken = true;
	d->reopen_ns = clock_ns() + REOPEN_NS;
	set_failing(d, err->text);
}

/* In this order: where it ends in between, the folder is of no table that the cluster knows. */
static int wipe(struct durable *d, uint64_t incarnation, struct err *err)
{
	const struct durable_options *o = &d->options;
	const struct folder_member m = { incarnation, o->stripes, o->cluster };

	if (folder_drop_member(o->dir, err) || db_wipe(d->db, err) ||
	    folder_write_member(o->dir, &m, err))
		return -1;
	atomic_store(&d->incarnation, incarnation);
	return 0;
}

static void commit_wipe(struct durable *d, struct durable_op *op)
{
	struct err err;

	if (d->is_broken) {
		durable_give_back(d, op, DURABLE_REFUSED);
	} else if (wipe(d, op->wipe, &err)) {
		broke(d, &err);
		durable_give_back(d, op, DURABLE_UNKNOWN);
	} else {
		durable_give_back(d, op, DURABLE_WRITTEN);
	}
}

static void commit(struct durable *d, struct durable_op *list, uint64_t bytes)
{
	uint64_t begun_ns = clock_ns();
	bool sync = d->options.durability == DURABILITY_SYNC;
	struct err err;

	d->linger_ns = 0;
	if (list->wipe) {
		commit_wipe(d, list);
		return;
	}
	if (d->is_broken || !has_room(d, bytes)) {
		durable_give_back(d, list, DURABLE_REFUSED);
	} else if (write_list(d, list, sync, &err)) {
		broke(d, &err);
		durable_give_back(d, list, DURABLE_UNKNOWN);
	} else {
		if (sync)
			durable_plan(d, list, clock_ns() - begun_ns);
		durable_give_back(d, list, DURABLE_WRITTEN);
	}
}

/* Those of a table that got full; of a disk, when the database was opened again. */
static void commit_undos(struct durable *d, struct durable_op *list)
{
	struct durable_op **end = &list;
	struct err err;

	if (!d->is_broken && !write_list(d, list, true, &err)) {
		durable_give_back(d, list, DURABLE_WRITTEN);
		return;
	}
	if (!d->is_broken)
		broke(d, &err);
	while (*end)
		end = &(*end)->next;
	pthread_mutex_lock(&d->lock);
	*end = d->undos;
	if (!d->undos)
		d->undos_end = end;
	d->undos = list;
	pthread_mutex_unlock(&d->lock);
}

static void reopen(struct durable *d)
{
	struct err err;
	bool ok;

	d->reopen_ns = clock_ns() + REOPEN_NS;
	if (folder_free_bytes(d->options.dir) < 2 * d->reserve_bytes)
		return;
	pthread_rwlock_wrlock(&d->db_lock);
	ok = !db_reopen(d->db, d->options.durability == DURABILITY_ASYNC, &err);
	pthread_rwlock_unlock(&d->db_lock);
	if (!ok) {
		log_debug("not yet: %s", err.text);
		return;
	}
	atomic_store(&d->unsynced_ns, 0);
	d->is_broken = d->is_full = false;
	atomic_store(&d->sync_failed, false);
	pthread_mutex_lock(&d->lock);
	struct durable_op *undos = d->undos;
	d->undos = NULL;
	d->undos_end = &d->undos;
	pthread_mutex_unlock(&d->lock);
	if (undos)
		commit_undos(d, undos);
	if (!d->is_broken)
		set_failing(d, NULL);
}

static bool has_work(const struct durable *d)
{
	return d->queue || d->stopping || (d->undos && !d->is_broken);
}

/* Until there is something to do, or time to look after the disk.  False: the end. */
static bool wait_for_work(struct durable *d, struct durable_op **undos, struct durable_op **list,
			  uint64_t *bytes)
{
	struct timespec until = durable_in_ns(REOPEN_NS);
	bool more;

	pthread_mutex_lock(&d->lock);
	while (!has_work(d))
		if (pthread_cond_timedwait(&d->work, &d->lock, &until) == ETIMEDOUT)
			break;
	durable_linger(d);
	*undos = NULL;
	if (!d->is_broken) {
		*undos = d->undos;
		d->undos = NULL;
		d->undos_end = &d->undos;
	}
	*list = durable_take_batch(d, bytes);
	more = *list || *undos || !d->stopping;
	pthread_mutex_unlock(&d->lock);
	return more;
}

void *durable_run_commits(void *arg)
{
	struct durable *d = arg;
	struct durable_op *undos, *list;
	uint64_t bytes;

	while (wait_for_work(d, &undos, &list, &bytes)) {
		struct err err = { .text = "syncing the disk failed" };
		if (atomic_load(&d->sync_failed) && !d->is_broken)
			broke(d, &err);
		if (undos)
			commit_undos(d, undos);
		if (list)
			commit(d, list, bytes);
		else if (d->is_full && !d->is_broken)
			has_room(d, 0);
		if (d->is_broken && clock_ns() >= d->reopen_ns)
			reopen(d);
	}
	return NULL;
}
