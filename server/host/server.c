/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One namespace from its memory to its threads, and back.
 *
 * Happy path: server_new, server_load, server_start; at the end, when its workers are
 * stopped and its connections destroyed (listen_stop), server_delete, which takes apart
 * whatever of it there is.
 */
#include "server/host/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/lock/config.h"
#include "server/platform/affinity.h"
#include "server/store/load.h"
#include "server/store/reclaim/evict.h"
#include "server/table/heap.h"
#include "server/access/gate.h"
#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/host/listener.h"
#include "server/lock/locker.h"
#include "server/store/store.h"
#include "server/table/table.h"
#include "server/worker/conn.h"
#include "server/worker/context.h"
#include "server/worker/fate.h"
#include "server/worker/news.h"
#include "server/worker/rx.h"
#include "server/worker/worker.h"

/* Half the CPUs that it may use, so that clients on this machine have some. */
static unsigned default_workers(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus < 4 ? 1 : cpus > 8 ? 4 : (unsigned)cpus / 2;
}

/* DIR/namespaces/NAME; the database makes the last of them. */
static int name_folder(struct server *s, const char *dir, struct err *err)
{
	char path[4096];

	if (snprintf(path, sizeof path, "%s/namespaces", dir) >= (int)sizeof path)
		return err_set(err, -1, "--data-dir: the path is too long");
	if (mkdir(path, 0700) && errno != EEXIST)
		return err_set_errno(err, -1, errno, "can't make the folder %s", path);
	if (asprintf(&s->data_dir, "%s/%s", path, s->name) < 0)
		return err_set(err, -1, "out of memory");
	s->options->durable.dir = s->data_dir;
	return 0;
}

void server_name(struct server *s, const struct server *first, struct options *options,
		 const struct namespace_options *o)
{
	*s = *first;
	*options = *first->options;
	s->options = options;
	memcpy(s->name, o->name, sizeof s->name);
	s->space = space_number(s->name);
	s->options->memory_bytes = o->memory_bytes;
	s->options->users = o->users;
	s->options->workers = o->workers;
	if (o->connections)
		s->options->connections = o->connections;
}

static void wake_workers(void *arg)
{
	struct server *s = arg;

	commands_wake_all(&s->commands);
}

/* Of the device; -1: none. */
static int numa_node(const struct server *s, const struct rail *r)
{
	return affinity_node(s->verbs->soft ? NULL : rail_name(r));
}

static void bind_memory(const struct server *s)
{
	const struct table *t = s->table;
	int node = numa_node(s, &s->rails[0]);

	if (affinity_bind(node, t->base, t->bytes) &&
	    affinity_bind(node, (void *)t->locks, t->locks_bytes))
		log_info("memory on NUMA node %d, the device's", node);
}

/* A domain on each device, and the table with it. */
static int register_table(struct server *s, struct err *err)
{
	struct ibv_pd *pd[RAILS_MAX];

	for (unsigned i = 0; i < s->rail_count; i++) {
		pd[i] = s->rails[i].pd = s->verbs->alloc_pd(s->rails[i].ctx);
		if (!pd[i])
			return err_set_errno(err, -1, errno, "can't allocate a protection domain of %s",
					     rail_name(&s->rails[i]));
	}
	return table_register(s->table, pd, s->rail_count, err);
}

static int make_table(struct server *s, struct err *err)
{
	int rc;

	if (table_new(s->verbs, s->options->memory_bytes, s->worker_count, &s->table, err))
		return -1;
	if (s->membership)
		s->table->hash_seed = s->hash_seed;
	if (s->options->wipe)
		region_set_wipe(s->table->region);
	bind_memory(s);
	if (register_table(s, err) || store_new(s->table, &s->store, err))
		return -1;
	server_tell_rkeys(s);
	s->store->wake = wake_workers;
	s->store->wake_arg = s;
	if (!s->options->evict)
		return 0;
	if (s->options->durable.dir)
		return err_set(err, -1, "--evict and --data-dir exclude each other: what a cache removed "
			       "would be on disk still");
	rc = evict_new(s->store);
	return rc ? err_set_errno(err, -1, rc, "can't get memory for what --evict remembers") : 0;
}

static void read_held(void *server, uint64_t connection, uint64_t look)
{
	struct server *s = server;

	commands_post_all(&s->commands, &(struct command){ .kind = CMD_READ_HELD, .look = look,
							   .connection = connection });
}

static void fence(void *server, uint64_t connection)
{
	struct server *s = server;

	commands_post_all(&s->commands, &(struct command){ .kind = CMD_FENCE,
							   .connection = connection });
}

static int make_locker(struct server *s, struct err *err)
{
	const struct rail *r = &s->rails[0];
	const struct locker_config config = {
		.loopback = { .verbs = s->verbs, .ctx = r->ctx, .pd = r->pd,
			      .port = r->port, .addr = s->addr, .locks = s->table->locks,
			      .rkey = s->table->own_locks_mr->rkey },
		.stripes = s->table->stripes,
		.last_id = atomic_load(&s->last_id),
		.lease_ns = (uint64_t)s->options->lease_ms * 1000000,
		.hooks = { .answer = conn_answer, .forgotten = conn_forgotten,
			   .read_held = read_held, .fence = fence, .wake_all = wake_workers,
			   .arg = s },
	};

	return locker_new(&config, &s->locker, err);
}

/* By default all but an eighth: one user alone doesn't keep the others out. */
static unsigned user_connections(const struct server *s)
{
	unsigned all = s->connections_max, kept = all / 8 ? all / 8 : 1;

	if (s->options->user_connections)
		return (unsigned)s->options->user_connections;
	return all > kept ? all - kept : all;
}

static int make_gate(struct server *s, struct err *err)
{
	const struct gate_config config = { .users = s->options->users,
					    .insecure = s->options->insecure,
					    .is_local = s->verbs->soft,
					    .addr = *listeners_widest(s->host),
					    .user_connections = user_connections(s) };

	return gate_new(&config, &s->gate, err);
}

void server_tell_rkeys(struct server *s)
{
	struct gate_rkeys rkeys = { .lock = 0 };

	for (unsigned i = 0; i < s->rail_count; i++)
		rkeys.table[i] = s->table->mr[i]->rkey;
	if (s->rails[0].limits.atomics)
		rkeys.lock = s->table->locks_mr->rkey;
	gate_set_rkeys(s->gate, &rkeys);
}

/* --connections, or as many as the device has room for. */
static unsigned connections_of(const struct server *s)
{
	unsigned fit = queues_conns_fit(s);

	if (s->options->connections)
		return (unsigned)s->options->connections;
	if (fit >= CONNECTIONS_DEFAULT)
		return CONNECTIONS_DEFAULT;
	log_info("connections at the most: %u, as the device's completion queues have no more entries "
		 "(more --workers have more of them)", fit);
	return fit;
}

static int open_data(struct server *s, struct err *err)
{
	struct durable_options o = s->options->durable;

	o.is_members = s->membership;
	o.stripes = s->table->stripes;
	o.cluster = s->hash_seed; /* which follows from its key */
	return durable_open(&o, store_durable_clock(s->store), &s->durable, err);
}

/* Each device has one at the least. */
static int count_workers(struct server *s, struct err *err)
{
	unsigned asked = (unsigned)s->options->workers, n = asked;

	if (!asked)
		n = *s->name ? 1 : default_workers();
	if (!asked && n < s->rail_count)
		n = s->rail_count;
	s->worker_count = n;
	if (n >= s->rail_count)
		return 0;
	return err_set(err, -1, "%s%s%s%u worker%s for %u RDMA devices: each device has one of its own at "
		       "the least: raise workers to %u, or leave it out", *s->name ? "--namespace " : "--workers: ",
		       s->name, *s->name ? ": " : "", n, n == 1 ? "" : "s", s->rail_count,
		       s->rail_count);
}

int server_new(struct server *s, struct err *err)
{
	if (count_workers(s, err))
		return -1;
	s->worker_first = s->host->worker_count;
	s->poll = (enum poll_policy)s->options->poll;
	s->connections_max = connections_of(s);
	s->slow_ms = (unsigned)s->options->slow_ms;
	s->timed = s->options->metrics || s->slow_ms;
	s->hooks.done = burial_order;
	s->hooks.knows = conns_know;
	s->host->worker_count += s->worker_count;
	if (getrandom(&s->instance, sizeof s->instance, 0) != sizeof s->instance)
		s->instance = clock_ns();
	pthread_mutex_init(&s->conns_lock, NULL);
	if (make_gate(s, err) || make_table(s, err))
		return -1;
	if (s->options->durable.dir && *s->name && name_folder(s, s->options->durable.dir, err))
		return -1;
	if (s->options->durable.dir && open_data(s, err))
		return -1;
	s->fates = fates_new();
	s->news = news_new();
	if (!s->fates || !s->news)
		return err_set(err, -1, "out of memory");
	for (unsigned i = 0; i < s->worker_count; i++) {
		if (worker_new(s, i, &s->worker[i], err))
			return -1;
		s->commands.of[s->commands.count++] = worker_commands(s->worker[i]);
	}
	return s->rails[0].limits.atomics ? make_locker(s, err) : 0;
}

/* A signal to end: they are blocked, and read by listen_run() only. */
static bool is_to_stop(void *arg)
{
	sigset_t pending;

	(void)arg;
	return !sigpending(&pending) &&
	       (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}

int server_load(struct server *s, struct err *err)
{
	struct store_worker *workers[LAYOUT_WORKERS_MAX];

	if (!s->durable)
		return 0;
	for (unsigned i = 0; i < s->worker_count; i++)
		workers[i] = worker_store(s->worker[i]);
	if (store_load(s->store, s->durable, workers, s->worker_count, is_to_stop, s, err) ||
	    durable_start(s->durable, err))
		return -1;
	s->store->durable = s->durable;
	s->store->waits = s->durable != NULL;
	return 0;
}

int server_start(struct server *s, struct err *err)
{
	char where[128];

	for (unsigned i = 0; i < s->worker_count; i++) {
		if (worker_start(s->worker[i], err))
			return -1;
		const struct rail *r = worker_rail(s->worker[i]);
		affinity_pin(worker_thread(s->worker[i]), numa_node(s, r), s->worker_first + i,
			     s->host->worker_count, where, sizeof where);
		log_debug("worker %u, of %s, runs on %s", i, rail_name(r), where);
	}
	return 0;
}

void server_abandon(struct server *s)
{
	if (s->store && !s->store->durable) /* or workers run that use it */
		durable_close(&s->durable);
}

/* A heap's cache has memory of the others: it goes back before the first heap ends. */
static void delete_workers(struct server *s)
{
	for (unsigned i = 0; i < s->worker_count; i++)
		if (s->worker[i] && worker_store(s->worker[i])->heap)
			heap_trim(worker_store(s->worker[i])->heap);
	for (unsigned i = 0; i < s->worker_count; i++)
		worker_delete(&s->worker[i]);
}

void server_delete(struct server *s)
{
	durable_close(&s->durable);
	delete_workers(s);
	fates_delete(&s->fates);
	news_delete(&s->news);
	store_delete(&s->store);
	table_delete(&s->table);
	for (unsigned i = 0; i < s->rail_count; i++)
		if (s->rails[i].pd)
			s->verbs->dealloc_pd(s->rails[i].pd);
	gate_delete(&s->gate);
	free(s->data_dir);
	pthread_mutex_destroy(&s->conns_lock);
}
