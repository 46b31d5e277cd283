/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commit thread: takes what has gathered while the last batch was written, writes
 * it as one batch, gives it back.
 *
 * Waiting for company.  Whoever is answered often comes again at once; a batch that is
 * begun without waiting for them makes two groups that wait for each other's syncs, each
 * with half of the clients.  So after a sync the next batch waits for as many as there
 * were, half as long as that sync took at the most, and not at all for a while when they
 * did not come.
 *
 * Failure.  A disk that gets full is met before it is: below a reserve, which RocksDB
 * needs to tidy up, changes are refused and nothing is written.  Where writing fails
 * all the same, nobody knows what of the batch is on disk: its changes are answered
 * "unknown", and come back as undos with the values that the table has, their stripes
 * marked until those are written.  From then on all changes are refused, while the
 * database is closed and opened again, once a second, until it can be written: the
 * undos first, so what it has is what the table has, then everything.
 *
 * Locks: `lock` (the queue), `db_lock` (the database: who uses it holds it for reading,
 * who opens it again for writing).  Neither is taken inside the other.
 */
#include "server/durable.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "common/log.h"
#include "server/durable_db.h"
#include "server/durable_impl.h"
#include "server/store.h"

#define BATCH_BYTES_MAX (16ull << 20)
#define LINGER_NS_MAX 5000000ull
#define LINGER_REST 16u
#define REOPEN_NS 1000000000ull
/* Keys that are gone, of which nobody waits for the record. */
#define FORGOTTEN_MAX 65536u

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* ----------------------------------------------------------------------- ports */

void durable_port_init(struct durable_port *port, void (*wake)(void *arg), void *arg)
{
	*port = (struct durable_port){ .wake = wake, .arg = arg };
	pthread_mutex_init(&port->lock, NULL);
	port->done_end = &port->done;
}

struct durable_op *durable_port_take(struct durable_port *port)
{
	/* A hint; whoever is woken sees it. */
	if (!__atomic_load_n(&port->done, __ATOMIC_RELAXED))
		return NULL;
	pthread_mutex_lock(&port->lock);
	struct durable_op *all = port->done;
	__atomic_store_n(&port->done, NULL, __ATOMIC_RELAXED);
	port->done_end = &port->done;
	pthread_mutex_unlock(&port->lock);
	return all;
}

static void give_back(struct durable *d, struct durable_op *op)
{
	struct durable_port *port = op->port;

	if (!port) {
		atomic_fetch_sub_explicit(&d->forgotten, 1, memory_order_relaxed);
		free(op);
		return;
	}
	op->next = NULL;
	pthread_mutex_lock(&port->lock);
	bool first = !port->done;
	__atomic_store_n(port->done_end, op, __ATOMIC_RELAXED);
	port->done_end = &op->next;
	pthread_mutex_unlock(&port->lock);
	if (first)
		port->wake(port->arg);
}

static void give_back_all(struct durable *d, struct durable_op *list, enum durable_result result)
{
	struct durable_op *next;
	uint64_t n = 0;

	for (; list; list = next, n++) {
		next = list->next;
		list->result = result;
		give_back(d, list);
	}
	atomic_fetch_sub_explicit(&d->pending, n, memory_order_relaxed);
	if (result == DURABLE_REFUSED)
		atomic_fetch_add_explicit(&d->refused, n, memory_order_relaxed);
	else if (result == DURABLE_UNKNOWN)
		atomic_fetch_add_explicit(&d->unknown, n, memory_order_relaxed);
}

/* ---------------------------------------------------------------------- submit */

void durable_submit(struct durable *d, struct durable_op *op)
{
	op->next = NULL;
	atomic_fetch_add_explicit(&d->pending, 1, memory_order_relaxed);
	pthread_mutex_lock(&d->lock);
	struct durable_op ***end = op->is_undo ? &d->undos_end : &d->queue_end;
	**end = op;
	*end = &op->next;
	d->queued += !op->is_undo;
	if (op->is_undo || d->queued == 1 || d->queued == d->awaited)
		pthread_cond_signal(&d->work);
	pthread_mutex_unlock(&d->lock);
}

struct forgotten {
	struct durable_op op;
	struct durable_record record;
	uint8_t key[];
};

bool durable_forget(struct durable *d, const void *key, unsigned key_bytes)
{
	if (atomic_load_explicit(&d->forgotten, memory_order_relaxed) >= FORGOTTEN_MAX)
		return false;
	struct forgotten *f = malloc(sizeof *f + key_bytes);
	if (!f)
		return false;
	memcpy(f->key, key, key_bytes);
	f->record = (struct durable_record){ .key = f->key, .key_bytes = key_bytes };
	f->op = (struct durable_op){ .records = &f->record, .count = 1 };
	atomic_fetch_add_explicit(&d->forgotten, 1, memory_order_relaxed);
	durable_submit(d, &f->op);
	return true;
}

/* ---------------------------------------------------------------------- commit */

static uint64_t free_bytes(const struct durable *d)
{
	struct statvfs fs;

	return statvfs(d->options.dir, &fs) ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize;
}

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
	uint64_t have = free_bytes(d), need = d->reserve_bytes + 2 * batch_bytes;
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
	atomic_fetch_add_explicit(&d->commit_ns, now_ns(CLOCK_MONOTONIC) - begun_ns,
				  memory_order_relaxed);
}

static int write_list(struct durable *d, struct durable_op *list, bool sync, struct err *err)
{
	uint64_t begun_ns = now_ns(CLOCK_MONOTONIC), changes = 0;
	uint64_t offset = now_ns(CLOCK_REALTIME) / 1000000 - store_clock_ms(d->store);

	for (const struct durable_op *op = list; op; op = op->next)
		for (unsigned i = 0; i < op->count; i++, changes++)
			db_batch_add(d->db, &op->records[i], offset);
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
	d->reopen_ns = now_ns(CLOCK_MONOTONIC) + REOPEN_NS;
	set_failing(d, err->text);
}

static struct timespec in_ns(uint64_t ns)
{
	uint64_t at = now_ns(CLOCK_MONOTONIC) + ns;

	return (struct timespec){ .tv_sec = (time_t)(at / 1000000000ull),
				  .tv_nsec = (long)(at % 1000000000ull) };
}

/* For those who were answered last to come again.  Caller: has the lock, and work. */
static void linger(struct durable *d)
{
	struct timespec until = in_ns(d->linger_ns);
	unsigned before = d->queued;
	int rc = 0;

	if (!d->linger_ns || d->queued >= d->expected || d->stopping)
		return;
	if (d->linger_rest) {
		d->linger_rest--;
		return;
	}
	d->awaited = d->expected;
	while (d->queued < d->expected && !d->stopping && !rc)
		rc = pthread_cond_timedwait(&d->work, &d->lock, &until);
	d->awaited = 0;
	if (d->queued < d->expected && d->queued - before < (d->expected - before) / 2)
		d->linger_rest = LINGER_REST;
}

/* What to wait for before the next batch: called before this one is given back. */
static void plan(struct durable *d, const struct durable_op *list, uint64_t took_ns)
{
	unsigned n = 0;

	for (; list; list = list->next)
		n++;
	pthread_mutex_lock(&d->lock);
	n += d->queued;
	pthread_mutex_unlock(&d->lock);
	d->expected = n - n / 16;
	d->linger_ns = took_ns / 2 < LINGER_NS_MAX ? took_ns / 2 : LINGER_NS_MAX;
}

static void commit(struct durable *d, struct durable_op *list, uint64_t bytes)
{
	uint64_t begun_ns = now_ns(CLOCK_MONOTONIC);
	bool sync = d->options.durability == DURABILITY_SYNC;
	struct err err;

	d->linger_ns = 0;
	if (d->is_broken || !has_room(d, bytes)) {
		give_back_all(d, list, DURABLE_REFUSED);
	} else if (write_list(d, list, sync, &err)) {
		broke(d, &err);
		give_back_all(d, list, DURABLE_UNKNOWN);
	} else {
		if (sync)
			plan(d, list, now_ns(CLOCK_MONOTONIC) - begun_ns);
		give_back_all(d, list, DURABLE_WRITTEN);
	}
}

/* Those of a table that got full; of a disk, when the database was opened again. */
static void commit_undos(struct durable *d, struct durable_op *list)
{
	struct durable_op **end = &list;
	struct err err;

	if (!d->is_broken && !write_list(d, list, true, &err)) {
		give_back_all(d, list, DURABLE_WRITTEN);
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

	d->reopen_ns = now_ns(CLOCK_MONOTONIC) + REOPEN_NS;
	if (free_bytes(d) < 2 * d->reserve_bytes)
		return;
	pthread_rwlock_wrlock(&d->db_lock);
	db_close(&d->db);
	ok = !db_open(d->options.dir, d->options.durability == DURABILITY_ASYNC, &d->db, &err);
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

static uint64_t bytes_of(const struct durable_op *op)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < op->count; i++)
		bytes += op->records[i].key_bytes + op->records[i].value_bytes + 32;
	return bytes;
}

/* Of the queue, what fits one batch.  Caller: has the lock. */
static struct durable_op *take_batch(struct durable *d, uint64_t *bytes)
{
	struct durable_op *first = d->queue, **at = &d->queue;

	*bytes = 0;
	while (*at && (*bytes == 0 || *bytes < BATCH_BYTES_MAX)) {
		*bytes += bytes_of(*at);
		at = &(*at)->next;
		d->queued--;
	}
	d->queue = *at;
	if (!d->queue)
		d->queue_end = &d->queue;
	*at = NULL;
	return first;
}

static bool has_work(const struct durable *d)
{
	return d->queue || d->stopping || (d->undos && !d->is_broken);
}

/* Until there is something to do, or time to look after the disk.  False: the end. */
static bool wait_for_work(struct durable *d, struct durable_op **undos, struct durable_op **list,
			  uint64_t *bytes)
{
	struct timespec until = in_ns(REOPEN_NS);
	bool more;

	pthread_mutex_lock(&d->lock);
	while (!has_work(d))
		if (pthread_cond_timedwait(&d->work, &d->lock, &until) == ETIMEDOUT)
			break;
	linger(d);
	*undos = NULL;
	if (!d->is_broken) {
		*undos = d->undos;
		d->undos = NULL;
		d->undos_end = &d->undos;
	}
	*list = take_batch(d, bytes);
	more = *list || *undos || !d->stopping;
	pthread_mutex_unlock(&d->lock);
	return more;
}

static void *run_commits(void *arg)
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
		if (d->is_broken && now_ns(CLOCK_MONOTONIC) >= d->reopen_ns)
			reopen(d);
	}
	return NULL;
}

/* ------------------------------------------------------------------------ sync */

/* DURABILITY_ASYNC: what is not synced by now is lost if the machine dies. */
static void sync_once(struct durable *d)
{
	struct err err;

	/* What is written from here on is counted anew: it may miss this sync. */
	if (!atomic_exchange(&d->unsynced_ns, 0) || atomic_load(&d->is_failing))
		return;
	uint64_t begun_ns = now_ns(CLOCK_MONOTONIC);
	atomic_store(&d->syncing_ns, begun_ns);
	pthread_rwlock_rdlock(&d->db_lock);
	int rc = d->db ? db_sync(d->db, &err) : 0;
	pthread_rwlock_unlock(&d->db_lock);
	atomic_store(&d->syncing_ns, 0);
	if (rc) {
		log_error("%s", err.text);
		atomic_store(&d->sync_failed, true);
	}
}

static void *run_syncs(void *arg)
{
	struct durable *d = arg;
	struct timespec until = in_ns((uint64_t)d->options.lag_ms * 1000000);

	pthread_mutex_lock(&d->lock);
	while (!d->stopping) {
		if (pthread_cond_timedwait(&d->stop, &d->lock, &until) == 0)
			continue;
		pthread_mutex_unlock(&d->lock);
		sync_once(d);
		until = in_ns((uint64_t)d->options.lag_ms * 1000000);
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

int durable_open(const struct durable_options *options, struct durable **out, struct err *err)
{
	struct durable *d = calloc(1, sizeof *d);

	if (!d)
		return err_set(err, -1, "out of memory");
	d->options = *options;
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->backup.lock, NULL);
	pthread_rwlock_init(&d->db_lock, NULL);
	init_cond(&d->work);
	init_cond(&d->stop);
	d->queue_end = &d->queue;
	d->undos_end = &d->undos;
	if (db_open(options->dir, options->durability == DURABILITY_ASYNC, &d->db, err)) {
		durable_close(&d);
		return -1;
	}
	d->reserve_bytes = db_reserve_bytes(d->db);
	*out = d;
	return 0;
}

int durable_start(struct durable *d, struct store *store, struct err *err)
{
	int rc = 0;

	d->store = store;
	if (d->options.durability == DURABILITY_ASYNC) {
		rc = pthread_create(&d->sync_thread, NULL, run_syncs, d);
		d->has_sync_thread = !rc;
	}
	if (!rc) {
		rc = pthread_create(&d->commit_thread, NULL, run_commits, d);
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
	if (d->db && d->has_commit_thread && !d->is_broken &&
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
		.lag_ns = oldest ? now_ns(CLOCK_MONOTONIC) - oldest : 0,
		.commit_ns = atomic_load(&d->commit_ns),
		.disk_free_bytes = free_bytes(d),
		.loaded_keys = d->loaded_keys,
		.load_ns = d->load_ns,
	};
}
