/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Filling the table from the database.
 *
 * Threads take parts of the database, in an order that has nothing to do with the
 * index's.  In the order of the index all keys would go to its first buckets while it is
 * small, and these would grow long before it does.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/durable/db.h"
#include "server/durable/durable.h"
#include "server/durable/impl.h"

#define STEP_PARTS 256u
#define STEPS (DB_PARTS / STEP_PARTS)
#define TELL_NS 5000000000ull
#define LOOK_MS 100

struct load {
	struct durable *durable;
	const struct durable_sink *sink;
	uint64_t wall_ms, clock_ms; /* the same instant in both clocks */
	_Atomic uint32_t next;      /* step */
	_Atomic uint64_t parts_done;
	_Atomic uint64_t keys, bytes, expired;
	_Atomic unsigned running;
	_Atomic bool stop;
	pthread_mutex_t err_lock;
	struct err err;
	bool failed;
	uint64_t begun_ns;
};

struct loader {
	struct load *load;
	unsigned number;
	pthread_t thread;
	uint32_t part; /* that it is at */
	uint64_t keys, bytes;
};

static void give_up(struct load *l, const struct err *err)
{
	pthread_mutex_lock(&l->err_lock);
	if (!l->failed)
		l->err = *err;
	l->failed = true;
	pthread_mutex_unlock(&l->err_lock);
	atomic_store(&l->stop, true);
}

static void count(struct loader *o)
{
	atomic_fetch_add_explicit(&o->load->keys, o->keys, memory_order_relaxed);
	atomic_fetch_add_explicit(&o->load->bytes, o->bytes, memory_order_relaxed);
	o->keys = o->bytes = 0;
}

/* Its time in kvd's clock; false: it is over. */
static bool convert_expiry(const struct load *l, uint64_t wall_ms, uint64_t *expiry_ms)
{
	*expiry_ms = 0;
	if (!wall_ms)
		return true;
	if (wall_ms <= l->wall_ms)
		return false;
	*expiry_ms = wall_ms - l->wall_ms + l->clock_ms;
	return true;
}

static void refuse(struct loader *o, const struct db_item *item, int why)
{
	struct load *l = o->load;
	struct err err;

	count(o);
	if (why == ENOMEM)
		err_set(&err, -1, "the data in %s does not fit: %llu keys of %llu MiB were loaded when "
			"the memory was full; start kvd with more --memory",
			l->durable->options.dir, (unsigned long long)atomic_load(&l->keys),
			(unsigned long long)atomic_load(&l->bytes) >> 20);
	else
		err_set(&err, -1, "%s has a key of %zu bytes, which is not one that this kvd stores",
			l->durable->options.dir, item->key_bytes);
	give_up(l, &err);
}

static int load_item(void *arg, const struct db_item *item)
{
	struct loader *o = arg;
	struct load *l = o->load;
	struct durable_record r = { .key = item->key, .key_bytes = (unsigned)item->key_bytes,
				    .value = item->value, .value_bytes = item->value_bytes,
				    .version = item->version, .with = item->with };

	if (atomic_load_explicit(&l->stop, memory_order_relaxed))
		return 1;
	if (item->part != o->part) {
		atomic_fetch_add_explicit(&l->parts_done, item->part - o->part,
					  memory_order_relaxed);
		o->part = item->part;
		count(o);
	}
	if (!convert_expiry(l, item->with.expiry_ms, &r.with.expiry_ms)) {
		atomic_fetch_add_explicit(&l->expired, 1, memory_order_relaxed);
		return 0;
	}
	int rc = l->sink->load(l->sink->arg, o->number, &r);
	if (rc) {
		refuse(o, item, rc);
		return 1;
	}
	o->keys++;
	o->bytes += item->key_bytes + item->value_bytes;
	return 0;
}

static void *run(void *arg)
{
	struct loader *o = arg;
	struct load *l = o->load;
	struct err err;
	uint32_t step;

	while (!atomic_load(&l->stop) && (step = atomic_fetch_add(&l->next, 1)) < STEPS) {
		uint32_t from = step * STEP_PARTS, to = from + STEP_PARTS;
		o->part = from;
		if (db_walk(l->durable->db, from, to, load_item, o, &err) < 0)
			give_up(l, &err);
		atomic_fetch_add_explicit(&l->parts_done, to - o->part, memory_order_relaxed);
		count(o);
	}
	atomic_fetch_sub(&l->running, 1);
	return NULL;
}

/* On a terminal a line that counts, in a log one every few seconds. */
static void tell(const struct load *l, uint64_t *told_ns)
{
	uint64_t now = clock_ns(), keys = atomic_load(&l->keys), done = atomic_load(&l->parts_done);
	double s = (double)(now - l->begun_ns) / 1e9, share = (double)done / DB_PARTS;
	bool terminal = isatty(STDERR_FILENO);
	char left[48] = "";

	if (now - *told_ns < (terminal ? TELL_NS / 10 : TELL_NS))
		return;
	*told_ns = now;
	if (share > 0.005)
		snprintf(left, sizeof left, ", %.0f s to go", s * (1 - share) / share);
	if (terminal)
		fprintf(stderr, "\rloading: %3.0f %%, %llu keys, %.0f a second%s   ", 100 * share,
			(unsigned long long)keys, (double)keys / s, left);
	else
		log_info("loading %s: %.0f %%, %llu keys, %.0f a second%s", l->durable->options.dir,
			 100 * share, (unsigned long long)keys, (double)keys / s, left);
}

/* Who read a version may come back with it, though the change was lost: no other value gets it. */
static int reserve_versions(struct load *l)
{
	uint64_t version = db_version(l->durable->db);

	if (db_sync(l->durable->db, &l->err))
		return -1;
	l->sink->set_version(l->sink->arg, version);
	return 0;
}

static void finish(struct load *l, unsigned threads)
{
	struct durable *d = l->durable;
	uint64_t ns = clock_ns() - l->begun_ns, keys = atomic_load(&l->keys);
	uint64_t expired = atomic_load(&l->expired);

	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	d->loaded_keys = keys;
	d->load_ns = ns;
	log_info("loaded %llu keys of %.1f MB from %s in %.2f s, %.0f a second, with %u threads%s",
		 (unsigned long long)keys, (double)atomic_load(&l->bytes) / 1e6, d->options.dir,
		 (double)ns / 1e9, (double)keys * 1e9 / (double)(ns ? ns : 1), threads,
		 expired ? "; of others the time is over" : "");
}

/* Starts them and waits; whether all could be started. */
static int run_all(struct load *l, struct loader *loaders, unsigned threads,
		   bool (*stop)(void *arg), void *arg)
{
	uint64_t told_ns = l->begun_ns;
	unsigned n = 0;
	int rc = 0;

	atomic_store(&l->running, threads);
	for (; n < threads && !rc; n += !rc)
		rc = pthread_create(&loaders[n].thread, NULL, run, &loaders[n]);
	atomic_fetch_sub(&l->running, threads - n);
	if (rc)
		atomic_store(&l->stop, true);
	while (atomic_load(&l->running)) {
		poll(NULL, 0, clock_ns() - l->begun_ns < 100000000 ? 1 : LOOK_MS);
		if (stop(arg))
			atomic_store(&l->stop, true);
		tell(l, &told_ns);
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(loaders[i].thread, NULL);
	return rc;
}

int durable_load(struct durable *d, const struct durable_sink *sink, unsigned threads,
		 bool (*stop)(void *arg), void *arg, struct err *err)
{
	struct load l = { .durable = d, .sink = sink, .begun_ns = clock_ns() };
	struct loader *loaders = calloc(threads, sizeof *loaders);
	int rc = ENOMEM;

	if (!loaders)
		goto out;
	l.wall_ms = clock_read_ns(CLOCK_REALTIME) / 1000000;
	l.clock_ms = d->clock.now_ms(d->clock.arg);
	pthread_mutex_init(&l.err_lock, NULL);
	for (unsigned i = 0; i < threads; i++)
		loaders[i] = (struct loader){ .load = &l, .number = i };
	rc = run_all(&l, loaders, threads, stop, arg);
	pthread_mutex_destroy(&l.err_lock);
	if (!rc && !l.failed && !atomic_load(&l.stop)) {
		finish(&l, threads);
		l.failed = reserve_versions(&l);
	}
out:
	free(loaders);
	if (rc)
		return err_set_errno(err, -1, rc, "can't load %s", d->options.dir);
	if (l.failed)
		*err = l.err;
	else if (atomic_load(&l.stop))
		return err_set(err, -1, "stopped while it loaded %s", d->options.dir);
	return l.failed ? -1 : 0;
}
