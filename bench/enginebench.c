/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * enginebench ADDRESS CASE [KEYS [VALUE-BYTES]]: one measurement of the engine; prints
 * figures as lines "name value".  bench/engine runs them all and knows the goals.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/clock.h"
#include "bench/enginekit.h"
#include "bench/histogram.h"
#include "bench/zipf.h"
#include "client/raw.h"

#define NO_MIRROR SIZE_MAX
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

static void absent_gets(unsigned count)
{
	char key[ENGINE_KEY_BYTES], value[8];
	size_t bytes;

	for (unsigned i = 0; i < count; i++) {
		engine_key(engine.keys + random_below(&engine.random, 1u << 30), key);
		ENGINE_CHECK(kvd_get(engine.session, key, sizeof key, value, sizeof value, &bytes,
				     NULL) == KVD_NOT_FOUND, "an absent key was found");
	}
}

static void case_absent(void)
{
	absent_gets(10000); /* it learns the directory */
	struct kvd_counters a = engine_counters(&engine);
	absent_gets(100000);
	struct kvd_counters b = engine_counters(&engine);
	figure("trips", PER_GET(&a, &b, round_trips));
	figure("reads", PER_GET(&a, &b, reads));
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

/*
 * One GET, one raw READ, in turn: both go through all keys in one random order, half
 * of it apart, so that they READ the same places and neither warms the other's caches.
 */
static void case_ratio(void)
{
	static struct histogram get, raw;
	uint64_t count = engine.keys, turn = 0;
	uint32_t *order = malloc(count * sizeof *order);
	char *value = malloc(engine.value_bytes + 1);

	ENGINE_CHECK(order && value, "out of memory");
	engine_gets(&engine, count, 16, engine_in_turn, &turn);
	shuffle(order, count);
	histogram_clear(&get);
	histogram_clear(&raw);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		histogram_record(&get, time_get(order[i % count], value));
		uint64_t ns = time_raw_read(order[(i + count / 2) % count]);
		if (ns)
			histogram_record(&raw, ns);
	}
	figure("get_p50_ns", (double)histogram_percentile(&get, 50));
	figure("raw_p50_ns", (double)histogram_percentile(&raw, 50));
	figure("ratio", (double)histogram_percentile(&get, 50) /
				(double)histogram_percentile(&raw, 50));
	free(order);
	free(value);
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

/* -------------------------------------------------------------------- main */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "load", case_load },	 { "warm", case_warm },	    { "cold", case_cold },
	{ "absent", case_absent }, { "ratio", case_ratio }, { "depth16", case_depth16 },
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
