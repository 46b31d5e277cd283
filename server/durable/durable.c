/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The database and its threads, from opening to closing; the one that syncs, for
 * DURABILITY_ASYNC.
 *
 * Locks: `lock` (the queue), `db_lock` (the database: who uses it holds it for reading,
 * who opens it again for writing).  Neither is taken inside the other.
 */
#include "server/durable/durable.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "common/log.h"
#include "server/durable/commit.h"
#include "server/durable/db.h"
#include "server/durable/folder.h"
#include "server/durable/impl.h"

/* ------------------------------------------------------------------------ sync */

/* DURABILITY_ASYNC: what is not synced by now is lost if the machine dies. */
static void sync_once(struct durable *d)
{
	struct err err;

	/* Until it is opened again, it is as old as it was. */
	if (atomic_load(&d->is_broken) || atomic_load(&d->sync_failed))
		return;
	/* What is written from here on is counted anew: it may miss this sync. */
	uint64_t since_ns = atomic_exchange(&d->unsynced_ns, 0);
	if (!since_ns)
		return;
	atomic_store(&d->syncing_ns, since_ns);
	pthread_rwlock_rdlock(&d->db_lock);
	bool broken = atomic_load(&d->is_broken);
	int rc = broken ? 0 : db_sync(d->db, &err);
	pthread_rwlock_unlock(&d->db_lock);
	if (broken || rc)
		atomic_store(&d->unsynced_ns, since_ns);
	atomic_store(&d->syncing_ns, 0);
	if (rc && !atomic_exchange(&d->sync_failed, true))
		log_error("%s", err.text);
}

static void *run_syncs(void *arg)
{
	struct durable *d = arg;
	struct timespec until = durable_in_ns((uint64_t)d->options.lag_ms * 1000000);

	pthread_mutex_lock(&d->lock);
	while (!d->stopping) {
		if (pthread_cond_timedwait(&d->stop, &d->lock, &until) == 0)
			continue;
		pthread_mutex_unlock(&d->lock);
		sync_once(d);
		until = durable_in_ns((uint64_t)d->options.lag_ms * 1000000);
		pthread_mutex_lock(&d->lock);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

/* -------------------------------------------------------------- open and close */

static void init_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

static int draw(struct durable *d, struct folder_member *m, struct err *err)
{
	if (getrandom(&m->incarnation, sizeof m->incarnation, 0) != sizeof m->incarnation)
		return err_set_errno(err, -1, errno, "no random numbers");
	m->incarnation |= !m->incarnation;
	return folder_write_member(d->options.dir, m, err);
}

/*
 * Which table it is.  One that may lack what it acknowledged, as a machine's death leaves it
 * without DURABILITY_SYNC, is another one.
 */
static int be_member(struct durable *d, struct err *err)
{
	const struct durable_options *o = &d->options;
	struct folder_member m = { .incarnation = 0 };
	int is_there = folder_read_member(o->dir, &m, err);

	if (is_there < 0)
		return -1;
	if (is_there && m.cluster != o->cluster)
		return err_set(err, -1, "%s has the data of a member of another cluster, which has another "
			       "key: name another folder", o->dir);
	if (is_there && m.stripes != o->stripes)
		return err_set(err, -1, "%s has the data of a table of %llu lock stripes, and this one has "
			       "%llu: start kvd with the same --memory as before", o->dir,
			       (unsigned long long)m.stripes, (unsigned long long)o->stripes);
	m.stripes = o->stripes;
	m.cluster = o->cluster;
	if ((!is_there || o->durability != DURABILITY_SYNC) && draw(d, &m, err))
		return -1;
	atomic_store(&d->incarnation, m.incarnation);
	return 0;
}

int durable_open(const struct durable_options *options, struct durable_clock clock,
		 struct durable **out, struct err *err)
{
	struct durable *d = calloc(1, sizeof *d);

	if (!d)
		return err_set(err, -1, "out of memory");
	d->options = *options;
	d->clock = clock;
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->backup.lock, NULL);
	pthread_rwlock_init(&d->db_lock, NULL);
	init_cond(&d->work);
	init_cond(&d->stop);
	d->queue_end = &d->queue;
	d->undos_end = &d->undos;
	if (db_open(options->dir, options->durability == DURABILITY_ASYNC, options->is_members, &d->db,
		    err) || (options->is_members && be_member(d, err))) {
		durable_close(&d);
		return -1;
	}
	d->reserve_bytes = db_reserve_bytes(d->db);
	*out = d;
	return 0;
}

int durable_start(struct durable *d, struct err *err)
{
	int rc = 0;

	if (d->options.durability == DURABILITY_ASYNC) {
		rc = pthread_create(&d->sync_thread, NULL, run_syncs, d);
		d->has_sync_thread = !rc;
	}
	if (!rc) {
		rc = pthread_create(&d->commit_thread, NULL, durable_run_commits, d);
		d->has_commit_thread = !rc;
	}
	return rc ? err_set_errno(err, -1, rc, "can't start the commit thread") : 0;
}

static void stop_threads(struct durable *d)
{
	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	pthread_cond_broadcast(&d->work);
	pthread_cond_broadcast(&d->stop);
	pthread_mutex_unlock(&d->lock);
	if (d->has_commit_thread)
		pthread_join(d->commit_thread, NULL);
	if (d->has_sync_thread)
		pthread_join(d->sync_thread, NULL);
	if (d->backup.has_thread)
		pthread_join(d->backup.thread, NULL);
}

void durable_close(struct durable **out)
{
	struct durable *d = *out;
	struct err err;

	*out = NULL;
	if (!d)
		return;
	stop_threads(d);
	if (d->is_broken)
		log_error("%s can't be written: changes since it was last synced may be lost",
			  d->options.dir);
	else if (d->db && d->has_commit_thread &&
		 (db_sync(d->db, &err) || db_flush(d->db, &err)))
		log_error("%s", err.text);
	db_close(&d->db);
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->backup.lock);
	pthread_rwlock_destroy(&d->db_lock);
	pthread_cond_destroy(&d->work);
	pthread_cond_destroy(&d->stop);
	free(d);
}

/* -------------------------------------------------------------------- of a member */

int durable_notes(struct durable *d, int (*each)(void *arg, const struct durable_note *note),
		  void *arg, struct err *err)
{
	return db_walk_notes(d->db, each, arg, err);
}

int durable_was_seen(const struct durable *d, uint64_t reign, uint64_t *number, struct err *err)
{
	return db_seen(d->db, reign, number, err);
}

void durable_renote(struct durable *d, const struct durable_note *note)
{
	db_batch_note(d->db, note);
}

int durable_renoted(struct durable *d, struct err *err)
{
	db_batch_unsee(d->db);
	return db_batch_write(d->db, true, err);
}

uint64_t durable_wall_ms(const struct durable *d, uint64_t expiry_ms)
{
	if (!expiry_ms)
		return 0;
	return clock_read_ns(CLOCK_REALTIME) / 1000000 + expiry_ms - d->clock.now_ms(d->clock.arg);
}

uint64_t durable_expiry_ms(const struct durable *d, uint64_t wall_ms)
{
	uint64_t now_ms = clock_read_ns(CLOCK_REALTIME) / 1000000;

	if (!wall_ms)
		return 0;
	return wall_ms <= now_ms ? 1 : wall_ms - now_ms + d->clock.now_ms(d->clock.arg);
}

void durable_seen(struct durable *d, uint64_t reign, uint64_t number)
{
	pthread_mutex_lock(&d->lock);
	if (reign > d->seen_reign || (reign == d->seen_reign && number > d->seen_number)) {
		d->seen_reign = reign;
		d->seen_number = number;
		d->is_seen_new = true;
	}
	pthread_mutex_unlock(&d->lock);
}

uint64_t durable_incarnation(const struct durable *d)
{
	return atomic_load(&d->incarnation);
}

void durable_stats(struct durable *d, struct durable_stats *s)
{
	uint64_t oldest = atomic_load(&d->syncing_ns), unsynced = atomic_load(&d->unsynced_ns);

	if (!oldest || (unsynced && unsynced < oldest))
		oldest = unsynced;
	*s = (struct durable_stats){
		.sync = d->options.durability == DURABILITY_SYNC,
		.is_failing = atomic_load(&d->is_failing),
		.commits = atomic_load(&d->commits),
		.changes = atomic_load(&d->changes),
		.refused = atomic_load(&d->refused),
		.unknown = atomic_load(&d->unknown),
		.pending = atomic_load(&d->pending),
		.lag_ns = oldest ? clock_ns() - oldest : 0,
		.commit_ns = atomic_load(&d->commit_ns),
		.disk_free_bytes = folder_free_bytes(d->options.dir),
		.loaded_keys = d->loaded_keys,
		.load_ns = d->load_ns,
	};
}
