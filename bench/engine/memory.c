/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/engine/memory.h"

#include <err.h>

#include "bench/measure/histogram.h"
#include "bench/measure/stopwatch.h"

struct fill {
	uint64_t done;  /* with KVD_OK */
	uint64_t first_failed;
	bool is_full;
};

static void reap_fill(struct engine *e, struct fill *f, uint64_t *in_flight)
{
	struct kvd_completion c[ENGINE_DEPTH];
	int n = kvd_poll(e->session, c, ENGINE_DEPTH, -1);

	ENGINE_CHECK(n > 0, "%s", kvd_session_error(e->session));
	for (int i = 0; i < n; i++) {
		uint64_t key = (uint64_t)(uintptr_t)c[i].tag;
		ENGINE_CHECK(c[i].result == KVD_OK || c[i].result == KVD_EFULL, "key %llu: %s",
			     (unsigned long long)key, kvd_strerror(c[i].result));
		f->done += c[i].result == KVD_OK;
		if (c[i].result == KVD_EFULL && key < f->first_failed)
			f->first_failed = key;
		f->is_full |= c[i].result == KVD_EFULL;
	}
	*in_flight -= (uint64_t)n;
}

/* Stores keys from `first` on until kvd has no room; the keys below first_failed are there. */
static struct fill fill(struct engine *e, uint64_t first, uint64_t value_bytes)
{
	static char value[4096];
	struct fill f = { .first_failed = UINT64_MAX };
	char key[ENGINE_KEY_BYTES];
	uint64_t in_flight = 0;

	for (uint64_t n = first; !f.is_full; n++) {
		engine_key(n, key);
		while (kvd_submit_put(e->session, key, sizeof key, value, value_bytes,
				      (void *)(uintptr_t)n) == KVD_EBUSY)
			reap_fill(e, &f, &in_flight);
		in_flight++;
	}
	while (in_flight)
		reap_fill(e, &f, &in_flight);
	return f;
}

static uint64_t delete_half(struct engine *e, uint64_t count)
{
	struct fill f = { 0 };
	char key[ENGINE_KEY_BYTES];
	uint64_t in_flight = 0;

	for (uint64_t n = 0; n < count; n++) {
		if (random_next(&e->random) & 1)
			continue;
		engine_key(n, key);
		while (kvd_submit_del(e->session, key, sizeof key, NULL) == KVD_EBUSY)
			reap_fill(e, &f, &in_flight);
		in_flight++;
	}
	while (in_flight)
		reap_fill(e, &f, &in_flight);
	return f.done;
}

/* Full of short values, a random half deleted, full of longer ones. */
void engine_case_refill(struct engine *e)
{
	const uint64_t second = 1ull << 40;
	struct fill with_short = fill(e, 0, 100);
	uint64_t deleted = delete_half(e, with_short.first_failed), begin = stopwatch_ns();
	struct fill with_long = fill(e, second, 1000);
	double s = (double)(stopwatch_ns() - begin) / 1e9;

	figure("short", (double)with_short.done);
	figure("deleted", (double)deleted);
	figure("long", (double)with_long.done);
	figure("long_per_s", (double)with_long.done / s);
	figure("reused", (double)with_long.done * (32 + ENGINE_KEY_BYTES + 1000) /
				 ((double)deleted * (32 + ENGINE_KEY_BYTES + 100)));
}

struct puts {
	uint64_t done;
	double p50_us, p99_us;
};

/* PUTs of new keys, one at a time, until there are so many or kvd has no room. */
static struct puts time_puts(struct engine *e, uint64_t first, uint64_t count, uint64_t value_bytes)
{
	static char value[4096];
	static struct histogram taken;
	char key[ENGINE_KEY_BYTES];
	uint64_t n = 0;
	int rc = KVD_OK;

	histogram_clear(&taken);
	while (n < count && rc == KVD_OK) {
		engine_key(first + n, key);
		uint64_t begin = stopwatch_ns();
		rc = kvd_put(e->session, key, sizeof key, value, value_bytes, NULL);
		if (rc == KVD_OK)
			histogram_record(&taken, stopwatch_ns() - begin);
		ENGINE_CHECK(rc == KVD_OK || rc == KVD_EFULL, "PUT: %s", kvd_session_error(e->session));
		n += rc == KVD_OK;
	}
	return (struct puts){ n, (double)histogram_percentile(&taken, 50) / 1e3,
			      (double)histogram_percentile(&taken, 99) / 1e3 };
}

/* PUTs of longer values while kvd moves the short ones, of which a random half was deleted,
 * out of their way; and the same PUTs in an empty table. */
void engine_case_changes(struct engine *e)
{
	const uint64_t second = 1ull << 40;
	uint64_t most = time_puts(e, second, UINT64_MAX, 1000).done;

	ENGINE_CHECK(kvd_flush(e->session) == KVD_OK, "%s", kvd_session_error(e->session));
	struct puts without = time_puts(e, second, most / 4, 1000);
	ENGINE_CHECK(kvd_flush(e->session) == KVD_OK, "%s", kvd_session_error(e->session));
	struct fill with_short = fill(e, 0, 100);
	delete_half(e, with_short.first_failed);
	double moved = engine_stat(e, "compaction.moved_keys");
	double waits = engine_stat(e, "compaction.waits");
	struct puts with = time_puts(e, second, UINT64_MAX, 1000);
	figure("puts", (double)with.done);
	figure("waits", engine_stat(e, "compaction.waits") - waits);
	figure("moved", engine_stat(e, "compaction.moved_keys") - moved);
	figure("p50_us", with.p50_us);
	figure("p50_without_us", without.p50_us);
	figure("p99_us", with.p99_us);
	figure("p99_without_us", without.p99_us);
	figure("p99_ratio", with.p99_us / without.p99_us);
	figure("longest_us", engine_stat(e, "compaction.longest_us"));
}

/* The index' load, overflow nodes included, at hundreds of sizes from 100,000 keys on. */
void engine_case_fill(struct engine *e)
{
	double least = 1, sum = 0;
	unsigned n = 0;

	for (uint64_t at = 0; at < e->keys;) {
		uint64_t step = at < 100000 ? 100000 : at / 50;
		if (step > e->keys - at)
			step = e->keys - at;
		engine_load(e, at, step);
		at += step;
		double load = engine_stat(e, "index.load");
		least = load < least ? load : least;
		sum += load;
		n++;
	}
	figure("load_least", least);
	figure("load_mean", sum / n);
	figure("bytes_per_key", (double)engine_server_kib("VmRSS") * 1024 / (double)e->keys);
}

#define IDLE_MAX 4096u

void engine_case_idle(struct engine *e)
{
	static kvd_session *session[IDLE_MAX];
	uint64_t n = e->keys < IDLE_MAX ? e->keys : IDLE_MAX, value = 0;
	size_t bytes;

	engine_load(e, 0, 1);
	uint64_t before = engine_server_kib("VmRSS");
	for (uint64_t i = 0; i < n; i++) {
		char key[ENGINE_KEY_BYTES];
		ENGINE_CHECK(kvd_session_new(e->client, &session[i]) == KVD_OK, "%s",
			     kvd_client_error(e->client));
		/* It has done something of each kind once. */
		engine_key(0, key);
		ENGINE_CHECK(kvd_put(session[i], key, sizeof key, &value, sizeof value, NULL) == KVD_OK &&
				     kvd_get(session[i], key, sizeof key, &value, sizeof value, &bytes,
					     NULL) == KVD_OK, "%s", kvd_session_error(session[i]));
	}
	figure("kib_per_connection", (double)(engine_server_kib("VmRSS") - before) / (double)n);
	for (uint64_t i = 0; i < n; i++)
		kvd_session_delete(&session[i]);
}
