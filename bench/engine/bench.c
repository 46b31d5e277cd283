/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * enginebench ADDRESS CASE [KEYS [VALUE-BYTES]]: one measurement of the engine; prints
 * figures as lines "name value".  bench/engine runs them all and knows the goals.
 */
#include <err.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/engine/kit.h"
#include "bench/measure/clock.h"
#include "bench/measure/histogram.h"
#include "bench/workload/zipf.h"
#include "client/api/raw.h"

#define NO_MIRROR SIZE_MAX
#define MIRROR_DEFAULT ((size_t)64 << 20)
#define MIRROR_BYTES_A_KEY 24u /* at the least load */
#define ROUNDS 200000u

static struct engine engine = { .keys = 100000, .value_bytes = 100, .random = { 42 } };

/* ------------------------------------------------------------------ READs */

static double per_get(const struct kvd_counters *a, const struct kvd_counters *b, size_t field)
{
	const char *from = (const char *)a, *to = (const char *)b;

	return (double)(*(const uint64_t *)(to + field) - *(const uint64_t *)(from + field)) /
	       (double)(b->gets - a->gets);
}

#define PER_GET(a, b, field) per_get(a, b, offsetof(struct kvd_counters, field))

static void case_load(void)
{
	engine_load(&engine, 0, engine.keys);
}

/* Every key was READ once; then uniformly. */
static void case_warm(void)
{
	uint64_t turn = 0;

	engine_gets(&engine, engine.keys, 16, engine_in_turn, &turn);
	struct kvd_counters a = engine_counters(&engine);
	engine_gets(&engine, engine.keys, 16, engine_uniform, &engine);
	struct kvd_counters b = engine_counters(&engine);
	figure("reads", PER_GET(&a, &b, reads));
	figure("bytes", PER_GET(&a, &b, read_bytes));
}

/* A client that knows nothing of the index but its directory. */
static void case_cold(void)
{
	engine_connect(&engine, NO_MIRROR, false);
	engine_gets(&engine, 10000, 16, engine_uniform, &engine);
	struct kvd_counters a = engine_counters(&engine);
	engine_gets(&engine, 200000, 16, engine_uniform, &engine);
	struct kvd_counters b = engine_counters(&engine);
	figure("trips", PER_GET(&a, &b, round_trips));
	figure("reads", PER_GET(&a, &b, reads));
}

static double part_over_two; /* of absent GETs: those with more than two READs */

static void absent_gets(unsigned count)
{
	struct kvd_counters before = engine_counters(&engine);
	unsigned over = 0;
	char key[ENGINE_KEY_BYTES], value[8];
	size_t bytes;

	for (unsigned i = 0; i < count; i++) {
		engine_key(engine.keys + random_below(&engine.random, 1u << 30), key);
		ENGINE_CHECK(kvd_get(engine.session, key, sizeof key, value, sizeof value, &bytes,
				     NULL) == KVD_NOT_FOUND, "an absent key was found");
		struct kvd_counters now = engine_counters(&engine);
		over += now.reads - before.reads > 2;
		before = now;
	}
	part_over_two = (double)over / count;
}

static void case_absent(void)
{
	absent_gets(10000); /* it learns the directory */
	struct kvd_counters a = engine_counters(&engine);
	absent_gets(100000);
	struct kvd_counters b = engine_counters(&engine);
	figure("trips", PER_GET(&a, &b, round_trips));
	figure("reads", PER_GET(&a, &b, reads));
	figure("over_two", part_over_two);
}

/* ------------------------------------------------------------------ times */

static void shuffle(uint32_t *order, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		order[i] = (uint32_t)i;
	for (uint64_t i = count - 1; i > 0; i--) {
		uint64_t j = random_below(&engine.random, i + 1);
		uint32_t t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
}

static uint64_t time_raw_read(uint64_t n)
{
	struct session_raw raw;
	char key[ENGINE_KEY_BYTES];

	engine_key(n, key);
	/* Where the key has moved since the mirror learnt of it nothing is lost. */
	if (session_raw_read(engine.session, key, sizeof key, &raw) != KVD_OK)
		return 0;
	uint64_t begin = clock_ns();
	ENGINE_CHECK(session_raw_run(&raw) == KVD_OK, "%s", kvd_session_error(engine.session));
	return clock_ns() - begin;
}

static uint64_t time_get(uint64_t n, void *value)
{
	char key[ENGINE_KEY_BYTES];
	size_t bytes;

	engine_key(n, key);
	uint64_t begin = clock_ns();
	int rc = kvd_get(engine.session, key, sizeof key, value, engine.value_bytes, &bytes, NULL);
	uint64_t ns = clock_ns() - begin;
	ENGINE_CHECK(rc == KVD_OK && bytes == engine.value_bytes, "key %llu: %s",
		     (unsigned long long)n, kvd_strerror(rc));
	return ns;
}

/* All keys once, in turn: what the mirror has room for is in it. */
static void warm(size_t mirror_bytes)
{
	uint64_t turn = 0;

	engine_disconnect(&engine);
	engine_connect(&engine, mirror_bytes, false);
	engine_gets(&engine, engine.keys, 16, engine_in_turn, &turn);
}

/*
 * One GET, one raw READ, in turn: both go through all keys in one random order, half
 * of it apart, so that they READ the same places and neither warms the other's caches.
 * With a mirror of the whole index; and GETs with the default one, if that is less.
 */
static void case_ratio(void)
{
	static struct histogram get, raw, part;
	uint64_t count = engine.keys;
	size_t whole = (size_t)count * MIRROR_BYTES_A_KEY;
	uint32_t *order = malloc(count * sizeof *order);
	char *value = malloc(engine.value_bytes + 1);

	ENGINE_CHECK(order && value, "out of memory");
	warm(whole > MIRROR_DEFAULT ? whole : 0);
	shuffle(order, count);
	histogram_clear(&get);
	histogram_clear(&raw);
	histogram_clear(&part);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		histogram_record(&get, time_get(order[i % count], value));
		uint64_t ns = time_raw_read(order[(i + count / 2) % count]);
		if (ns)
			histogram_record(&raw, ns);
	}
	if (whole > MIRROR_DEFAULT) {
		warm(0);
		for (uint64_t i = 0; i < ROUNDS; i++)
			histogram_record(&part, time_get(order[i % count], value));
		figure("default_p50_ns", (double)histogram_percentile(&part, 50));
	}
	figure("get_p50_ns", (double)histogram_percentile(&get, 50));
	figure("raw_p50_ns", (double)histogram_percentile(&raw, 50));
	figure("ratio", (double)histogram_percentile(&get, 50) /
				(double)histogram_percentile(&raw, 50));
	free(order);
	free(value);
}

/* As redis-benchmark -P 32 does it: 32 are sent at once, and all awaited; of random keys. */
static void case_puts32(void)
{
	enum { BATCH = 32 };
	static char keys[BATCH][ENGINE_KEY_BYTES], value[4096];
	struct kvd_item items[BATCH];
	uint64_t batches = 600000 / BATCH, begin = clock_ns();

	ENGINE_CHECK(engine.value_bytes <= sizeof value, "values to 4,096 bytes");
	for (uint64_t n = 0; n < batches; n++) {
		for (unsigned i = 0; i < BATCH; i++) {
			engine_key(random_below(&engine.random, engine.keys), keys[i]);
			items[i] = (struct kvd_item){ .key = keys[i], .key_bytes = ENGINE_KEY_BYTES,
						      .value = value,
						      .value_bytes = engine.value_bytes };
		}
		ENGINE_CHECK(kvd_mput(engine.session, items, BATCH, NULL) == KVD_OK, "%s",
			     kvd_session_error(engine.session));
	}
	figure("puts_per_s", (double)batches * BATCH * 1e9 / (double)(clock_ns() - begin));
}

/* GETs a second with `depth` in flight. */
static void case_depth16(void)
{
	uint64_t turn = 0, count = 1000000;

	engine_gets(&engine, engine.keys, 16, engine_in_turn, &turn);
	uint64_t begin = clock_ns();
	engine_gets(&engine, count, 16, engine_uniform, &engine);
	figure("gets_per_s", (double)count * 1e9 / (double)(clock_ns() - begin));
}

/* ----------------------------------------------------------------- memory */

struct fill {
	uint64_t done;  /* with KVD_OK */
	uint64_t first_failed;
	bool is_full;
};

static void reap_fill(struct fill *f, uint64_t *in_flight)
{
	struct kvd_completion c[ENGINE_DEPTH];
	int n = kvd_poll(engine.session, c, ENGINE_DEPTH, -1);

	ENGINE_CHECK(n > 0, "%s", kvd_session_error(engine.session));
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
static struct fill fill(uint64_t first, uint64_t value_bytes)
{
	static char value[4096];
	struct fill f = { .first_failed = UINT64_MAX };
	char key[ENGINE_KEY_BYTES];
	uint64_t in_flight = 0;

	for (uint64_t n = first; !f.is_full; n++) {
		engine_key(n, key);
		while (kvd_submit_put(engine.session, key, sizeof key, value, value_bytes,
				      (void *)(uintptr_t)n) == KVD_EBUSY)
			reap_fill(&f, &in_flight);
		in_flight++;
	}
	while (in_flight)
		reap_fill(&f, &in_flight);
	return f;
}

static uint64_t delete_half(uint64_t count)
{
	struct fill f = { 0 };
	char key[ENGINE_KEY_BYTES];
	uint64_t in_flight = 0;

	for (uint64_t n = 0; n < count; n++) {
		if (random_next(&engine.random) & 1)
			continue;
		engine_key(n, key);
		while (kvd_submit_del(engine.session, key, sizeof key, NULL) == KVD_EBUSY)
			reap_fill(&f, &in_flight);
		in_flight++;
	}
	while (in_flight)
		reap_fill(&f, &in_flight);
	return f.done;
}

/* Full of short values, a random half deleted, full of longer ones. */
static void case_refill(void)
{
	const uint64_t second = 1ull << 40;
	struct fill with_short = fill(0, 100);
	uint64_t deleted = delete_half(with_short.first_failed), begin = clock_ns();
	struct fill with_long = fill(second, 1000);
	double s = (double)(clock_ns() - begin) / 1e9;

	figure("short", (double)with_short.done);
	figure("deleted", (double)deleted);
	figure("long", (double)with_long.done);
	figure("long_per_s", (double)with_long.done / s);
	figure("reused", (double)with_long.done * (32 + ENGINE_KEY_BYTES + 1000) /
				 ((double)deleted * (32 + ENGINE_KEY_BYTES + 100)));
}

/* ------------------------------------------------------------------ server */

static uint64_t server_kib(const char *field)
{
	const char *pid = getenv("KVD_PID");
	char path[64], line[128];
	unsigned long long kib = 0;

	ENGINE_CHECK(pid, "KVD_PID is not set: whose memory is it?");
	snprintf(path, sizeof path, "/proc/%s/status", pid);
	FILE *file = fopen(path, "r");
	ENGINE_CHECK(file, "can't read %s", path);
	while (fgets(line, sizeof line, file) != NULL)
		if (!strncmp(line, field, strlen(field)))
			sscanf(line + strlen(field), ": %llu", &kib);
	fclose(file);
	return kib;
}

/* The index' load, overflow nodes included, at hundreds of sizes from 100,000 keys on. */
static void case_fill(void)
{
	double least = 1, sum = 0;
	unsigned n = 0;

	for (uint64_t at = 0; at < engine.keys;) {
		uint64_t step = at < 100000 ? 100000 : at / 50;
		if (step > engine.keys - at)
			step = engine.keys - at;
		engine_load(&engine, at, step);
		at += step;
		double load = engine_stat(&engine, "index.load");
		least = load < least ? load : least;
		sum += load;
		n++;
	}
	figure("load_least", least);
	figure("load_mean", sum / n);
	figure("bytes_per_key", (double)server_kib("VmRSS") * 1024 / (double)engine.keys);
}

#define IDLE_MAX 4096u

static void case_idle(void)
{
	static kvd_session *session[IDLE_MAX];
	uint64_t n = engine.keys < IDLE_MAX ? engine.keys : IDLE_MAX, value = 0;
	size_t bytes;

	engine_load(&engine, 0, 1);
	uint64_t before = server_kib("VmRSS");
	for (uint64_t i = 0; i < n; i++) {
		char key[ENGINE_KEY_BYTES];
		ENGINE_CHECK(kvd_session_new(engine.client, &session[i]) == KVD_OK, "%s",
			     kvd_client_error(engine.client));
		/* It has done something of each kind once. */
		engine_key(0, key);
		ENGINE_CHECK(kvd_put(session[i], key, sizeof key, &value, sizeof value, NULL) == KVD_OK &&
				     kvd_get(session[i], key, sizeof key, &value, sizeof value, &bytes,
					     NULL) == KVD_OK, "%s", kvd_session_error(session[i]));
	}
	figure("kib_per_connection", (double)(server_kib("VmRSS") - before) / (double)n);
	for (uint64_t i = 0; i < n; i++)
		kvd_session_delete(&session[i]);
}

/* -------------------------------------------------------------- bad input */

#define BAD_LONG_BYTES (12u << 20) /* of kvd's 16, half of which are taken */

static uint8_t bad_value[BAD_LONG_BYTES];

/* Each is refused, or does nothing; the n-th of many. */
static void refuse_one(uint64_t n)
{
	struct kvd_change past = { .size = sizeof past, .ttl_ms = (uint64_t)-5 };
	struct kvd_change taken = { .size = sizeof taken, .condition = KVD_IF_ABSENT };
	struct kvd_change other = { .size = sizeof other, .condition = KVD_IF_VERSION,
				    .version = 1ull << 47 };
	kvd_session *s = engine.session;
	int want = KVD_OK, got = KVD_OK;
	int64_t number;

	switch (n % 8) {
	case 0:
		want = KVD_ENUMBER, got = kvd_incr(s, "text", 4, 1, NULL, NULL, &number);
		break;
	case 1:
		want = KVD_ERANGE, got = kvd_incr(s, "most", 4, 1, NULL, NULL, &number);
		break;
	case 2:
		want = KVD_EINVAL, got = kvd_put_with(s, "a", 1, "x", 1, &past, NULL);
		break;
	case 3:
		want = KVD_ETOOBIG, got = kvd_put(s, bad_value, KVD_KEY_BYTES_MAX + 1, "x", 1, NULL);
		break;
	case 4:
		want = KVD_ETOOBIG, got = kvd_put(s, "a", 1, bad_value, KVD_VALUE_BYTES_MAX + 1, NULL);
		break;
	case 5:
		want = KVD_CONDITION, got = kvd_put_with(s, "text", 4, bad_value, 4000, &taken, NULL);
		break;
	case 6:
		want = KVD_CONDITION, got = kvd_del_with(s, "text", 4, &other, NULL);
		break;
	case 7:
		/* Pulled, where there is no room for it: dearer, so not each time. */
		if (n % 1024 != 7)
			break;
		want = KVD_EFULL, got = kvd_put(s, "long", 4, bad_value, BAD_LONG_BYTES, NULL);
		break;
	}
	ENGINE_CHECK(got == want, "refusal %llu: %s where %s was expected",
		     (unsigned long long)(n % 8), kvd_strerror(got), kvd_strerror(want));
}

/* 10^6 refusals, in a kvd with less room than one of the values. */
static void case_bad(void)
{
	uint64_t before = 0;
	double used = 0;

	ENGINE_CHECK(kvd_put(engine.session, "text", 4, "text", 4, NULL) == KVD_OK &&
			     kvd_put(engine.session, "half", 4, bad_value, 8u << 20, NULL) ==
				     KVD_OK &&
			     kvd_put(engine.session, "most", 4, "9223372036854775807", 19, NULL) ==
				     KVD_OK, "%s", kvd_session_error(engine.session));
	for (uint64_t n = 0; n < engine.keys; n++) {
		if (n == engine.keys / 2) { /* every message buffer was used by then */
			before = server_kib("VmRSS");
			used = engine_stat(&engine, "memory.used_bytes");
		}
		refuse_one(n);
	}
	figure("rss_kib", (double)server_kib("VmRSS") - (double)before);
	figure("table_bytes", engine_stat(&engine, "memory.used_bytes") - used);
	figure("keys", engine_stat(&engine, "keys"));
}

/* ------------------------------------------------------------------ longer */

/* GETs of a long value into registered memory: MB/s, best of the rounds. */
static void case_long(void)
{
	uint64_t bytes = engine.value_bytes, rounds = (4ull << 30) / bytes;
	uint8_t *value;
	kvd_buffer *buffer;
	size_t got;

	rounds = rounds > 2000 ? 2000 : rounds;
	ENGINE_CHECK(!posix_memalign((void **)&value, 4096, bytes), "out of memory");
	memset(value, 7, bytes);
	ENGINE_CHECK(kvd_buffer_new(engine.client, value, bytes, &buffer) == KVD_OK, "%s",
		     kvd_client_error(engine.client));
	ENGINE_CHECK(kvd_put(engine.session, "long", 4, value, bytes, NULL) == KVD_OK, "%s",
		     kvd_session_error(engine.session));
	static struct histogram get;
	histogram_clear(&get);
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t begin = clock_ns();
		ENGINE_CHECK(kvd_get(engine.session, "long", 4, value, bytes, &got, NULL) == KVD_OK &&
				     got == bytes, "%s", kvd_session_error(engine.session));
		histogram_record(&get, clock_ns() - begin);
	}
	figure("mb_per_s", (double)bytes * 1000 / (double)histogram_percentile(&get, 50));
	kvd_buffer_delete(&buffer);
	free(value);
}

/* ------------------------------------------------------------------ mirror */

static uint64_t zipfian(void *arg)
{
	static struct zipf zipf;

	(void)arg;
	if (zipf.items != engine.keys)
		zipf_init(&zipf, engine.keys, 0);
	/* Scrambled, or the most frequent keys would be the first ones. */
	return random_mix(zipf_next(&zipf, &engine.random)) % engine.keys;
}

/* A mirror for all, 1/2, 1/8, nothing of the index. */
static void case_mirror(void)
{
	static const unsigned parts[] = { 1, 2, 8, 0 };
	/* A line of the mirror: words, their fingerprints, a tag. */
	double index = engine_stat(&engine, "index.buckets") * (32 * 8 + 64 + 8) * 1.02;
	char name[64];

	for (unsigned i = 0; i < 8; i++) {
		unsigned part = parts[i % 4];
		uint64_t (*next)(void *) = i < 4 ? engine_uniform : zipfian;
		engine_connect(&engine, part ? (size_t)(index / part) : NO_MIRROR, false);
		engine_gets(&engine, 2 * engine.keys, 16, next, &engine);
		struct kvd_counters a = engine_counters(&engine);
		engine_gets(&engine, engine.keys / 4, 16, next, &engine);
		struct kvd_counters b = engine_counters(&engine);
		snprintf(name, sizeof name, "%s_%s%u_trips", i < 4 ? "uniform" : "zipfian",
			 part ? "1/" : "", part);
		figure(name, PER_GET(&a, &b, round_trips));
	}
}

static void case_cache(void)
{
	engine_cache(&engine);
}

/* ------------------------------------------------------------------ growth */

/* Shared with the process that loads. */
struct growth {
	_Atomic uint64_t there; /* keys that are surely there */
	_Atomic bool end;
};

static void load_for_growth(struct growth *g)
{
	const uint64_t batch = 1000;

	engine_disconnect(&engine);
	engine_connect(&engine, NO_MIRROR, false);
	for (uint64_t at = atomic_load(&g->there); at < engine.keys; at += batch) {
		engine_load(&engine, at, batch);
		atomic_store(&g->there, at + batch);
	}
	atomic_store(&g->end, true);
	engine_disconnect(&engine);
	_exit(0);
}

static double percentile_us(const struct histogram *h, double p)
{
	return (double)histogram_percentile(h, p) / 1000;
}

/* GETs of keys that are there, one at a time, for so long or until the end. */
static void read_growing(struct growth *g, struct histogram *h, uint64_t for_ns)
{
	char *value = malloc(engine.value_bytes + 1);
	uint64_t until = clock_ns() + for_ns;

	histogram_clear(h);
	for (uint64_t now = clock_ns(); now < until && !atomic_load(&g->end);) {
		uint64_t n = random_below(&engine.random, atomic_load(&g->there));
		histogram_record(h, time_get(n, value));
		now = clock_ns();
	}
	free(value);
}

/*
 * A process inserts keys, this one reads those that are there; every GET must find its
 * key.  Steady is while the other process inserts as fast into an index that does not
 * grow, which is to overwrite: both have the same cores to share.
 */
static void case_growth(void)
{
	static struct histogram steady, growing, window;
	struct growth *g = mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				-1, 0);

	ENGINE_CHECK(g != MAP_FAILED, "out of memory");
	engine_load(&engine, 0, 1000);
	engine_disconnect(&engine);
	for (int round = 0; round < 2; round++) {
		atomic_store(&g->there, 1000);
		atomic_store(&g->end, false);
		pid_t child = fork();
		ENGINE_CHECK(child >= 0, "can't fork");
		if (child == 0)
			load_for_growth(g);
		engine_connect(&engine, 512u << 20, false);
		struct histogram *h = round ? &steady : &growing;
		histogram_clear(h);
		double worst = 0;
		while (!atomic_load(&g->end)) {
			read_growing(g, &window, 5000000000ull);
			histogram_merge(h, &window);
			double p99 = percentile_us(&window, 99);
			worst = window.count > 10000 && p99 > worst ? p99 : worst;
		}
		int status;
		ENGINE_CHECK(waitpid(child, &status, 0) == child && status == 0,
			     "the process that inserts failed");
		figure(round ? "steady_gets" : "growing_gets", (double)h->count);
		figure(round ? "steady_p50_us" : "growing_p50_us", percentile_us(h, 50));
		figure(round ? "steady_p99_us" : "growing_p99_us", percentile_us(h, 99));
		figure(round ? "steady_worst_5s_p99_us" : "growing_worst_5s_p99_us", worst);
		engine_disconnect(&engine);
	}
	figure("p99_ratio", percentile_us(&growing, 99) / percentile_us(&steady, 99));
	engine_connect(&engine, 0, false);
	figure("bytes_per_key", (double)server_kib("VmRSS") * 1024 / (double)engine.keys);
}

/* -------------------------------------------------------------------- main */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "load", case_load },	 { "warm", case_warm },	    { "cold", case_cold },
	{ "absent", case_absent }, { "ratio", case_ratio }, { "depth16", case_depth16 },
	{ "puts32", case_puts32 }, { "refill", case_refill }, { "fill", case_fill }, { "idle", case_idle },
	{ "bad", case_bad }, { "long", case_long }, { "mirror", case_mirror },
	{ "growth", case_growth }, { "cache", case_cache },
};

int main(int argc, char **argv)
{
	if (argc < 3)
		errx(2, "usage: enginebench ADDRESS CASE [KEYS [VALUE-BYTES]]");
	engine.address = argv[1];
	if (argc > 3)
		engine.keys = strtoull(argv[3], NULL, 10);
	if (argc > 4)
		engine.value_bytes = strtoull(argv[4], NULL, 10);
	clock_init();
	engine_connect(&engine, 0, false);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		if (strcmp(argv[2], cases[i].name))
			continue;
		cases[i].run();
		engine_disconnect(&engine);
		return 0;
	}
	errx(2, "enginebench has no case '%s'", argv[2]);
}
