/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/metrics/stats.h"

#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "server/access/gate.h"
#include "server/durable/durable.h"
#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/host/options.h"
#include "server/lock/locker.h"
#include "server/store/item/expiry.h"
#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/evict.h"
#include "server/store/reclaim/expire.h"
#include "server/store/store.h"
#include "server/table/index.h"
#include "server/table/table.h"
#include "server/worker/context.h"
#include "server/worker/rx.h"
#include "server/worker/timing.h"
#include "server/worker/worker.h"

#include "config.h"

struct out {
	char *buf;
	size_t bytes, used;
};

static void __attribute__((format(printf, 2, 3))) add(struct out *o, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	int n = vsnprintf(o->buf + o->used, o->bytes - o->used, format, ap);
	va_end(ap);
	if (n > 0)
		o->used += (size_t)n < o->bytes - o->used ? (size_t)n : o->bytes - o->used - 1;
}

uint64_t stats_sum(const struct server *s, size_t offset)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < s->worker_count; i++) {
		const char *stats = (const char *)worker_stats(s->worker[i]);
		n += atomic_load_explicit((const _Atomic uint64_t *)(stats + offset),
					  memory_order_relaxed);
	}
	return n;
}

static void add_operations(struct out *o, const struct server *s)
{
	add(o, "\"operations\":{");
	for (unsigned i = 1; i < WIRE_OPS; i++)
		add(o, "\"%s\":%llu,", timing_op_name(i),
		    (unsigned long long)STATS_SUM(s, requests[i]));
	add(o, "\"not_found\":%llu,\"failed\":%llu,\"set_aside\":%llu,\"pulls\":%llu,"
	       "\"pull_bytes\":%llu},",
	    (unsigned long long)STATS_SUM(s, not_found), (unsigned long long)STATS_SUM(s, failed),
	    (unsigned long long)STATS_SUM(s, aside), (unsigned long long)STATS_SUM(s, pulls),
	    (unsigned long long)STATS_SUM(s, pull_bytes));
}

static void add_index(struct out *o, const struct server *s)
{
	uint64_t buckets = index_buckets(s->store->index);
	uint64_t nodes = index_overflow_nodes(s->store->index);
	uint64_t keys = index_keys(s->store->index);

	add(o, "\"index\":{\"buckets\":%llu,\"overflow_nodes\":%llu,\"crowded\":%llu,"
	       "\"load\":%.4f},",
	    (unsigned long long)buckets, (unsigned long long)nodes,
	    (unsigned long long)index_crowded(s->store->index),
	    (double)keys / (double)(LAYOUT_BUCKET_WORDS * buckets + LAYOUT_NODE_WORDS * nodes));
}

static void add_compaction(struct out *o, const struct server *s)
{
	struct compact_stats k = compact_stats(s->store->compact);

	add(o, "\"eviction\":{\"enabled\":%s,\"evictions\":%llu},", s->store->evict ? "true" : "false",
	    (unsigned long long)evict_count(s->store->evict));
	add(o, "\"compaction\":{\"passes\":%llu,\"moved_keys\":%llu,\"moved_bytes\":%llu,"
	       "\"freed_bytes\":%llu,\"waits\":%llu,\"longest_us\":%llu},",
	    (unsigned long long)k.passes, (unsigned long long)k.items,
	    (unsigned long long)k.item_bytes, (unsigned long long)k.freed_bytes,
	    (unsigned long long)k.waits, (unsigned long long)(k.longest_ns / 1000));
}

static void add_locks(struct out *o, const struct server *s)
{
	struct locker_stats k = { 0 };

	if (s->locker)
		locker_stats(s->locker, &k);
	add(o, "\"locks\":{\"available\":%s,\"waits\":%llu,\"handovers\":%llu,\"recovered\":%llu,"
	       "\"released\":%llu,\"fenced\":%llu},",
	    s->locker ? "true" : "false", (unsigned long long)k.waits,
	    (unsigned long long)k.handovers, (unsigned long long)k.recovered,
	    (unsigned long long)k.released, (unsigned long long)k.fenced);
}

static void add_cluster(struct out *o, const struct server *s)
{
	char text[4096];

	if (s->hooks.cluster && s->hooks.cluster(s->hooks.cluster_arg, text, sizeof text))
		add(o, "\"cluster\":%s,", text);
}

static void add_durability(struct out *o, const struct server *s)
{
	struct durable_stats d;

	if (!s->durable)
		return;
	durable_stats(s->durable, &d);
	add(o, "\"durability\":{\"mode\":\"%s\",\"refusing\":%s,\"commits\":%llu,\"changes\":%llu,"
	       "\"pending\":%llu,\"refused\":%llu,\"unknown\":%llu,\"lag_seconds\":%.6f,"
	       "\"commit_seconds\":%.6f,\"disk_free_bytes\":%llu,\"loaded_keys\":%llu,"
	       "\"load_seconds\":%.3f},",
	    d.sync ? "sync" : "async", d.is_failing ? "true" : "false",
	    (unsigned long long)d.commits, (unsigned long long)d.changes,
	    (unsigned long long)d.pending, (unsigned long long)d.refused,
	    (unsigned long long)d.unknown, (double)d.lag_ns / 1e9, (double)d.commit_ns / 1e9,
	    (unsigned long long)d.disk_free_bytes, (unsigned long long)d.loaded_keys,
	    (double)d.load_ns / 1e9);
}

/* What of it is of a rail. */
static unsigned sum_of(const struct server *s, unsigned rail, const unsigned *counts)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->host->listener_count; i++)
		n += s->host->listeners[i].rail == rail ? counts[i] : 0;
	return n;
}

static void add_rails(struct out *o, const struct server *s)
{
	unsigned counts[LISTENERS_MAX];

	conns_count_by(&s->host->servers[s - s->host->servers], counts);
	add(o, "\"rails\":[");
	for (unsigned i = 0; i < s->rail_count; i++) {
		const struct rail *r = &s->rails[i];
		add(o, "%s{\"device\":\"%s\",\"port\":%u,\"address\":\"%s\",\"workers\":%u,"
		       "\"connections\":%u,\"lost\":%s}", i ? "," : "", rail_name(r), r->port,
		    r->addr.text, queues_workers(s, r), sum_of(s, i, counts),
		    atomic_load(&r->is_lost) ? "true" : "false");
	}
	add(o, "],");
}

size_t stats_json(const struct server *s, char *buf, size_t buf_bytes)
{
	struct out o = { .buf = buf, .bytes = buf_bytes };
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	add(&o, *s->name ? "{\"namespace\":\"%s\"," : "{%s", s->name);
	add(&o, "\"keys\":%llu,\"memory\":{\"used_bytes\":%llu,\"budget_bytes\":%llu,"
		"\"value_bytes\":%llu,\"pinned_bytes\":%llu},",
	    (unsigned long long)index_keys(s->store->index),
	    (unsigned long long)table_used_bytes(s->table),
	    (unsigned long long)s->options->memory_bytes,
	    (unsigned long long)atomic_load(&s->store->value_bytes),
	    (unsigned long long)pins_dead_bytes(s->store->pins));
	add(&o, "\"expiry\":{\"keys\":%llu,\"reclaimed\":%llu},",
	    (unsigned long long)expiry_keys(s->store->expiry),
	    (unsigned long long)expire_reclaimed(s->store->expire));
	add_compaction(&o, s);
	add_index(&o, s);
	add_operations(&o, s);
	add_locks(&o, s);
	add_cluster(&o, s);
	add_durability(&o, s);
	add(&o, "\"connections\":%llu,\"refused\":%llu,\"protocol_errors\":%llu,",
	    (unsigned long long)atomic_load(&s->connections),
	    (unsigned long long)atomic_load(&s->refused),
	    (unsigned long long)atomic_load(&s->protocol_errors));
	add_rails(&o, s);
	add(&o, "\"security\":{\"users\":%s,\"handshakes\":%llu,\"denied\":%llu,"
		"\"forbidden\":%llu,\"rkey_changes\":%llu,\"wrong_rights\":%llu},",
	    gate_has_users(s->gate) ? "true" : "false",
	    (unsigned long long)atomic_load(&s->pending),
	    (unsigned long long)atomic_load(&s->denied),
	    (unsigned long long)atomic_load(&s->forbidden),
	    (unsigned long long)atomic_load(&s->rkey_changes),
	    (unsigned long long)atomic_load(&s->wrong_rights));
	add(&o, "\"server\":{\"version\":\"%s\",\"uptime_seconds\":%.3f,\"cpu_seconds\":%.6f,"
		"\"workers\":%u,\"device\":\"%s\",\"software_device\":%s}}",
	    PACKAGE_VERSION, (double)(clock_ns() - s->start_ns) / 1e9,
	    (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
		    (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6,
	    s->worker_count, rail_name(&s->rails[0]), s->verbs->soft ? "true" : "false");
	return o.used;
}
