/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A scrape reads counters that their threads go on writing: each figure is right,
 * though not all of the same instant.  Of a histogram the buckets are read once, and
 * its count is their sum.
 */
#include "server/metrics/metrics.h"

#include "config.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/durable/durable.h"
#include "server/store/item/expiry.h"
#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/evict.h"
#include "server/store/reclaim/expire.h"
#include "server/store/store.h"
#include "server/table/index.h"
#include "server/metrics/prometheus.h"
#include "server/access/gate.h"
#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/lock/locker.h"
#include "server/metrics/stats.h"
#include "server/table/table.h"
#include "server/worker/context.h"
#include "server/worker/timing.h"
#include "server/worker/worker.h"

#include "config.h"

#define STUCK_NS 3000000000ull

/* --------------------------------------------------------------------- text */

/* # HELP and # TYPE of what follows. */
static void head(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void gauge(FILE *f, const char *name, const char *help, uint64_t value)
{
	head(f, name, "gauge", help);
	fprintf(f, "%s %" PRIu64 "\n", name, value);
}

static void gauge_real(FILE *f, const char *name, const char *help, double value)
{
	head(f, name, "gauge", help);
	fprintf(f, "%s %.9g\n", name, value);
}

static void counter(FILE *f, const char *name, const char *help, uint64_t value)
{
	head(f, name, "counter", help);
	fprintf(f, "%s %" PRIu64 "\n", name, value);
}

/* A label's value, with what may not stand in it escaped. */
static void label(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', f);
		if (*text == '\n')
			fputs("\\n", f);
		else
			fputc(*text, f);
	}
}

/* ------------------------------------------------------------------ process */

static void add_build(FILE *f, const struct server *s)
{
	head(f, "kvd_build_info", "gauge", "Version and RDMA device of this kvd; always 1.");
	fprintf(f, "kvd_build_info{version=\"%s\",device=\"", PACKAGE_VERSION);
	label(f, rail_name(&s->rails[0]));
	fprintf(f, "\",software_device=\"%s\"} 1\n", s->verbs->soft ? "true" : "false");
}

static uint64_t resident_bytes(void)
{
	unsigned long long size = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n > 3 ? n - 3 : 0; /* ".", "..", and the folder's own */
}

static void add_process(FILE *f, const struct server *s)
{
	struct rusage u = { 0 };
	struct rlimit lim = { 0 };

	getrusage(RUSAGE_SELF, &u);
	getrlimit(RLIMIT_NOFILE, &lim);
	head(f, "process_cpu_seconds_total", "counter", "User and system CPU time.");
	fprintf(f, "process_cpu_seconds_total %.6f\n",
		(double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
			(double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	gauge_real(f, "process_start_time_seconds", "When kvd was started, in seconds of Unix time.",
		   (double)time(NULL) - (double)(clock_ns() - s->start_ns) / 1e9);
	gauge(f, "process_resident_memory_bytes", "Resident memory.", resident_bytes());
	gauge(f, "process_open_fds", "Open file descriptors.", open_descriptors());
	gauge(f, "process_max_fds", "Limit of open file descriptors.", lim.rlim_cur);
}

/* -------------------------------------------------------------------- table */

static void add_table(FILE *f, const struct server *s)
{
	uint64_t buckets = index_buckets(s->store->index);
	uint64_t nodes = index_overflow_nodes(s->store->index);
	uint64_t keys = index_keys(s->store->index);
	struct compact_stats moved = compact_stats(s->store->compact);

	gauge(f, "kvd_keys", "Keys in the table.", keys);
	gauge(f, "kvd_expiring_keys", "Keys that have a time to live.",
	      expiry_keys(s->store->expiry));
	counter(f, "kvd_expired_keys_total", "Keys reclaimed after their time was over.",
		expire_reclaimed(s->store->expire));
	gauge(f, "kvd_memory_used_bytes", "Memory in use: index, locks, items, what is kept for them.",
	      table_used_bytes(s->table));
	gauge(f, "kvd_memory_budget_bytes", "Memory at the most, as of --memory.",
	      s->options->memory_bytes);
	gauge(f, "kvd_memory_value_bytes", "Bytes of all values.",
	      atomic_load(&s->store->value_bytes));
	gauge(f, "kvd_memory_pinned_bytes",
	      "Values that their keys have no more, and that clients still READ.",
	      pins_dead_bytes(s->store->pins));
	counter(f, "kvd_evicted_keys_total", "Keys removed as memory was full (--evict).",
		evict_count(s->store->evict));
	counter(f, "kvd_moved_keys_total", "Keys whose items were moved to give memory back.",
		moved.items);
	counter(f, "kvd_moves_freed_bytes_total", "Memory that moves gave back to all sizes.",
		moved.freed_bytes);
	gauge(f, "kvd_index_buckets", "Buckets of the index.", buckets);
	gauge(f, "kvd_index_overflow_nodes", "Buckets that are full have these behind them.", nodes);
	counter(f, "kvd_index_crowded_total",
		"New keys refused as too many share their buckets: somebody made those.",
		index_crowded(s->store->index));
	gauge_real(f, "kvd_index_load_ratio", "Entries in use, as a part of all.",
		   (double)keys /
			   (double)(LAYOUT_BUCKET_WORDS * buckets + LAYOUT_NODE_WORDS * nodes));
}

/* ----------------------------------------------------------------- requests */

static void add_requests(FILE *f, const struct server *s)
{
	head(f, "kvd_requests_total", "counter",
	     "Requests by operation. GETs by one-sided READ are not among them: kvd can't see them.");
	for (unsigned i = 1; i < WIRE_OPS; i++)
		fprintf(f, "kvd_requests_total{op=\"%s\"} %" PRIu64 "\n", timing_op_name(i),
			STATS_SUM(s, requests[i]));
	counter(f, "kvd_requests_not_found_total", "Requests for keys that were not there.",
		STATS_SUM(s, not_found));
	counter(f, "kvd_requests_failed_total", "Requests answered with anything else than done.",
		STATS_SUM(s, failed));
	counter(f, "kvd_requests_set_aside_total",
		"Times that a request had to wait for a lock or another change.", STATS_SUM(s, aside));
	counter(f, "kvd_pulls_total", "Values that were READ from the client's memory.",
		STATS_SUM(s, pulls));
	counter(f, "kvd_pull_bytes_total", "Bytes of those values.", STATS_SUM(s, pull_bytes));
}

static void add_histogram(FILE *f, const struct server *s, unsigned op)
{
	static const char name[] = "kvd_request_duration_seconds";
	uint64_t total = 0, sum_ns = 0;

	for (unsigned b = 0; b <= TIMING_BOUNDS; b++) {
		for (unsigned i = 0; i < s->worker_count; i++)
			total += atomic_load_explicit(&worker_timing(s->worker[i], op)->bucket[b],
						      memory_order_relaxed);
		fprintf(f, "%s_bucket{op=\"%s\",le=\"", name, timing_op_name(op));
		if (b < TIMING_BOUNDS)
			fprintf(f, "%g", (double)timing_bound_ns[b] / 1e9);
		else
			fputs("+Inf", f);
		fprintf(f, "\"} %" PRIu64 "\n", total);
	}
	for (unsigned i = 0; i < s->worker_count; i++)
		sum_ns += atomic_load_explicit(&worker_timing(s->worker[i], op)->sum_ns,
					       memory_order_relaxed);
	fprintf(f, "%s_sum{op=\"%s\"} %.9f\n", name, timing_op_name(op), (double)sum_ns / 1e9);
	fprintf(f, "%s_count{op=\"%s\"} %" PRIu64 "\n", name, timing_op_name(op), total);
}

static void add_durations(FILE *f, const struct server *s)
{
	head(f, "kvd_request_duration_seconds", "histogram",
	     "From the look that found a request to its reply, without the network.");
	for (unsigned op = 1; op < WIRE_OPS; op++)
		if (op != WIRE_LOCK) /* answered by another thread, when it is granted */
			add_histogram(f, s, op);
}

/* -------------------------------------------------------------------- locks */

static uint64_t locks_held(const struct server *s)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < s->table->stripes; i++)
		n += atomic_load_explicit(&s->table->locks[i], memory_order_relaxed) != 0;
	return n;
}

static void add_locks(FILE *f, const struct server *s)
{
	struct locker_stats k = { 0 };

	if (s->locker)
		locker_stats(s->locker, &k);
	gauge(f, "kvd_locks_available", "1 if the device has atomics, and so locks.", s->locker != NULL);
	gauge(f, "kvd_locks_held", "Lock words that are taken.", locks_held(s));
	counter(f, "kvd_lock_waits_total", "Lock requests that waited in kvd's queue.", k.waits);
	counter(f, "kvd_lock_handovers_total", "Locks handed to who waited.", k.handovers);
	counter(f, "kvd_locks_recovered_total", "Locks taken from holders that are gone.", k.recovered);
	counter(f, "kvd_locks_released_total", "Locks released for holders that had let go.",
		k.released);
	counter(f, "kvd_lock_fenced_total", "Connections cut off for a lock over its lease.", k.fenced);
}

/* -------------------------------------------------------------- connections */

struct name {
	char text[AUTH_NAME_BYTES_MAX + 1];
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct names {
	struct gate *gate;
	struct name *name;
	size_t count, max;
};

static void add_name(void *arg, struct conn *c, const struct handshake *h)
{
	struct names *n = arg;

	(void)c;
	if (n->count < n->max)
		gate_user_name(n->gate, h, n->name[n->count++].text);
}

/* The users of all connections, sorted; NULL: there are none. */
static struct name *user_names(struct server *s, size_t *count)
{
	struct names n = { .gate = s->gate, .max = s->connections_max };

	n.name = calloc(n.max, sizeof *n.name);
	pthread_mutex_lock(&s->conns_lock);
	if (n.name)
		conns_each(s, add_name, &n);
	pthread_mutex_unlock(&s->conns_lock);
	if (n.name)
		qsort(n.name, n.count, sizeof *n.name, compare_names);
	*count = n.count;
	return n.name;
}

static void add_users(FILE *f, struct server *s)
{
	size_t count = 0, same;
	struct name *names = gate_has_users(s->gate) ? user_names(s, &count) : NULL;

	head(f, "kvd_user_connections", "gauge", "Connections by user, where there are users.");
	for (size_t i = 0; i < count; i += same) {
		for (same = 1; i + same < count && !compare_names(&names[i], &names[i + same]);)
			same++;
		if (!names[i].text[0])
			continue; /* not admitted yet */
		fputs("kvd_user_connections{user=\"", f);
		label(f, names[i].text);
		fprintf(f, "\"} %zu\n", same);
	}
	free(names);
	gauge(f, "kvd_user_connections_limit", "Connections that one user may have; 0: any number.",
	      gate_seats(s->gate));
}

/* By the address that they came by. */
static void add_addresses(FILE *f, struct server *s)
{
	unsigned counts[LISTENERS_MAX];

	conns_count_by(s, counts);
	head(f, "kvd_address_connections", "gauge",
	     "Connections by the device, its port and the address that they came by.");
	for (unsigned i = 0; i < s->host->listener_count; i++) {
		const struct rail *r = &s->rails[s->host->listeners[i].rail];
		fputs("kvd_address_connections{device=\"", f);
		label(f, rail_name(r));
		fprintf(f, "\",port=\"%u\",address=\"", r->port);
		label(f, s->host->listeners[i].addr.text);
		fprintf(f, "\"} %u\n", counts[i]);
	}
	head(f, "kvd_device_lost", "gauge", "1 if kvd serves by the device no more until it starts again.");
	for (unsigned i = 0; i < s->rail_count; i++) {
		fputs("kvd_device_lost{device=\"", f);
		label(f, rail_name(&s->rails[i]));
		fprintf(f, "\"} %d\n", (int)atomic_load(&s->rails[i].is_lost));
	}
}

static void add_connections(FILE *f, struct server *s)
{
	gauge(f, "kvd_connections", "Connections that are served.", atomic_load(&s->connections));
	gauge(f, "kvd_connections_limit", "Connections at the most, as of --connections.",
	      s->connections_max);
	counter(f, "kvd_connections_refused_total", "Connections that were refused.",
		atomic_load(&s->refused));
	counter(f, "kvd_requests_forbidden_total", "Requests that their user may not make.",
		atomic_load(&s->forbidden));
	add_users(f, s);
	add_addresses(f, s);
	counter(f, "kvd_protocol_errors_total", "Malformed requests; each ended its connection.",
		atomic_load(&s->protocol_errors));
	head(f, "kvd_completion_errors_total", "counter",
	     "Work requests of kvd that failed, by status; RNR and transport retries among them.");
	for (unsigned i = 1; i < WC_STATUSES; i++)
		fprintf(f, "kvd_completion_errors_total{status=\"%s\"} %" PRIu64 "\n",
			ibv_wc_status_str((enum ibv_wc_status)i), STATS_SUM(s, wc_errors[i]));
}

/* --------------------------------------------------------------- durability */

static void add_durability(FILE *f, const struct server *s)
{
	struct durable_stats d;

	gauge(f, "kvd_durable", "1 if changes are kept on disk (--data-dir).", s->durable != NULL);
	if (!s->durable)
		return;
	durable_stats(s->durable, &d);
	gauge(f, "kvd_durability_sync", "1 if a change is on disk before it is answered.", d.sync);
	gauge(f, "kvd_durability_refusing", "1 if changes are refused: the disk is full or broken.",
	      d.is_failing);
	gauge_real(f, "kvd_durability_lag_seconds",
		   "Age of the oldest change that is acknowledged and not on disk.",
		   (double)d.lag_ns / 1e9);
	gauge(f, "kvd_durability_pending_changes", "Changes that wait for the disk.", d.pending);
	counter(f, "kvd_durability_commits_total", "Batches written.", d.commits);
	counter(f, "kvd_durability_changes_total", "Changes in them.", d.changes);
	counter(f, "kvd_durability_refused_total", "Changes refused for the disk's sake.", d.refused);
	counter(f, "kvd_durability_unknown_total", "Changes that may be on disk or not.", d.unknown);
	head(f, "kvd_durability_commit_seconds_total", "counter", "Time that all the batches took.");
	fprintf(f, "kvd_durability_commit_seconds_total %.9f\n", (double)d.commit_ns / 1e9);
	gauge(f, "kvd_durability_disk_free_bytes", "Room on that disk.", d.disk_free_bytes);
	gauge(f, "kvd_loaded_keys", "Keys loaded from disk at the start.", d.loaded_keys);
	gauge_real(f, "kvd_load_seconds", "Time that it took.", (double)d.load_ns / 1e9);
}

/* ------------------------------------------------------------------ cluster */

static void add_cluster(FILE *f, const struct server *s)
{
	struct cluster_figures c;

	if (!s->hooks.cluster_figures)
		return;
	s->hooks.cluster_figures(s->hooks.cluster_arg, &c);
	gauge(f, "kvd_cluster_epoch", "Of the configuration that this member knows.", c.epoch);
	gauge(f, "kvd_cluster_primary", "1 if it is the primary, and serves.", c.serves);
	gauge(f, "kvd_cluster_in_sync_members", "That have each change that is answered.", c.in_sync);
	gauge(f, "kvd_cluster_copies", "That there are to be.", c.copies);
	gauge(f, "kvd_cluster_agreement_reached", "1 if ZooKeeper can be asked.", c.is_reached);
	gauge(f, "kvd_cluster_fit", "0 if it lacks a change, and waits to be copied to.", c.is_fit);
	gauge(f, "kvd_cluster_lag_records",
	      "Changes under way that the slowest backup has not acknowledged.", c.lag_records);
	gauge_real(f, "kvd_cluster_lease_left_seconds", "Until when the primary may answer.",
		   (double)c.lease_left_ns / 1e9);
	counter(f, "kvd_cluster_failovers_total", "Times that this member took over.", c.failovers);
	gauge_real(f, "kvd_cluster_failover_seconds", "Time that the last one took.",
		   (double)c.failover_ns / 1e9);
}

/* ------------------------------------------------------------------- device */

static bool read_number(const char *path, uint64_t *number)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fscanf(f, "%" SCNu64, number) == 1;

	if (f)
		fclose(f);
	return ok;
}

/* The counters of one folder of a port; their names are the driver's. */
static void add_counters(FILE *f, const char *device, unsigned port, const char *folder)
{
	char path[512];
	struct dirent *entry;
	uint64_t number;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%u/%s", device, port, folder);
	DIR *dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%u/%s/%s", device, port,
			 folder, entry->d_name);
		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "lifespan") ||
		    !read_number(path, &number))
			continue;
		fputs("kvd_port_counter{device=\"", f);
		label(f, device);
		fprintf(f, "\",port=\"%u\",counter=\"", port);
		label(f, entry->d_name);
		fprintf(f, "\"} %" PRIu64 "\n", number);
	}
	if (dir)
		closedir(dir);
}

/* RNR and retry counts of the port are among them, where the device has such. */
static void add_device(FILE *f, const struct server *s)
{
	head(f, "kvd_port_counter", "untyped",
	     "Counters of the RDMA device's ports, of all that use it, as the kernel has them.");
	if (s->verbs->soft)
		return;
	for (unsigned i = 0; i < s->rail_count; i++)
		for (unsigned port = 1; port <= 2; port++) {
			add_counters(f, rail_name(&s->rails[i]), port, "counters");
			add_counters(f, rail_name(&s->rails[i]), port, "hw_counters");
		}
}

/* ----------------------------------------------------------------- together */

/* One namespace's figures; the process's and the device's are with the first. */
static char *text_of(struct server *s, bool first, size_t *bytes)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, bytes);

	if (!f)
		return NULL;
	if (first) {
		add_build(f, s);
		add_process(f, s);
	}
	add_table(f, s);
	add_requests(f, s);
	add_durations(f, s);
	add_locks(f, s);
	add_connections(f, s);
	add_durability(f, s);
	add_cluster(f, s);
	if (first)
		add_device(f, s);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

char *metrics_text(struct host *h, size_t *bytes)
{
	struct exposition_part part[NAMESPACES_MAX];
	unsigned count = h->server_count - 1;
	char *first = text_of(h->servers, true, bytes), *all = NULL;
	bool ok = first;
	size_t unused;

	if (!count)
		return first;
	for (unsigned i = 0; i < count; i++) {
		part[i].name = h->servers[i + 1].name;
		part[i].text = text_of(&h->servers[i + 1], false, &unused);
		ok &= part[i].text != NULL;
	}
	if (ok)
		all = exposition_merge(first, part, count, bytes);
	for (unsigned i = 0; i < count; i++)
		free(part[i].text);
	free(first);
	return all;
}

static bool server_is_well(struct server *s, uint64_t now, char *text, size_t text_bytes)
{
	for (unsigned i = 0; i < s->worker_count; i++) {
		uint64_t stuck_ns = worker_stuck_ns(s->worker[i], now);
		if (stuck_ns > STUCK_NS) {
			snprintf(text, text_bytes, "worker %u%s%s does nothing since %.1f s\n", i,
				 *s->name ? " of " : "", s->name, (double)stuck_ns / 1e9);
			return false;
		}
	}
	return true;
}

bool metrics_healthy(struct host *h, char *text, size_t text_bytes)
{
	uint64_t now = clock_ns(), keys = 0, connections = 0;

	for (unsigned i = 0; i < h->server_count; i++) {
		if (!server_is_well(&h->servers[i], now, text, text_bytes))
			return false;
		keys += index_keys(h->servers[i].store->index);
		connections += atomic_load(&h->servers[i].connections);
	}
	snprintf(text, text_bytes, "ok: %" PRIu64 " keys, %" PRIu64 " connections\n", keys, connections);
	return true;
}
