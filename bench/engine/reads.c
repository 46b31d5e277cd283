/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/engine/reads.h"

#include <err.h>
#include <stdio.h>

#include "bench/workload/zipf.h"

static double per_get(const struct kvd_counters *a, const struct kvd_counters *b, size_t field)
{
	const char *from = (const char *)a, *to = (const char *)b;

	return (double)(*(const uint64_t *)(to + field) - *(const uint64_t *)(from + field)) /
	       (double)(b->gets - a->gets);
}

#define PER_GET(a, b, field) per_get(a, b, offsetof(struct kvd_counters, field))

void engine_case_load(struct engine *e)
{
	engine_load(e, 0, e->keys);
}

/* Every key was READ once; then uniformly. */
void engine_case_warm(struct engine *e)
{
	uint64_t turn = 0;

	engine_gets(e, e->keys, 16, engine_in_turn, &turn);
	struct kvd_counters a = engine_counters(e);
	engine_gets(e, e->keys, 16, engine_uniform, e);
	struct kvd_counters b = engine_counters(e);
	figure("reads", PER_GET(&a, &b, reads));
	figure("bytes", PER_GET(&a, &b, read_bytes));
}

/* A client that knows nothing of the index but its directory. */
void engine_case_cold(struct engine *e)
{
	engine_connect(e, ENGINE_NO_MIRROR, false);
	engine_gets(e, 10000, 16, engine_uniform, e);
	struct kvd_counters a = engine_counters(e);
	engine_gets(e, 200000, 16, engine_uniform, e);
	struct kvd_counters b = engine_counters(e);
	figure("trips", PER_GET(&a, &b, round_trips));
	figure("reads", PER_GET(&a, &b, reads));
}

static double part_over_two; /* of absent GETs: those with more than two READs */

static void absent_gets(struct engine *e, unsigned count)
{
	struct kvd_counters before = engine_counters(e);
	unsigned over = 0;
	char key[ENGINE_KEY_BYTES], value[8];
	size_t bytes;

	for (unsigned i = 0; i < count; i++) {
		engine_key(e->keys + random_below(&e->random, 1u << 30), key);
		ENGINE_CHECK(kvd_get(e->session, key, sizeof key, value, sizeof value, &bytes,
				     NULL) == KVD_NOT_FOUND, "an absent key was found");
		struct kvd_counters now = engine_counters(e);
		over += now.reads - before.reads > 2;
		before = now;
	}
	part_over_two = (double)over / count;
}

void engine_case_absent(struct engine *e)
{
	absent_gets(e, 10000); /* it learns the directory */
	struct kvd_counters a = engine_counters(e);
	absent_gets(e, 100000);
	struct kvd_counters b = engine_counters(e);
	figure("trips", PER_GET(&a, &b, round_trips));
	figure("reads", PER_GET(&a, &b, reads));
	figure("over_two", part_over_two);
}

static uint64_t zipfian(void *arg)
{
	static struct zipf zipf;
	struct engine *e = arg;

	if (zipf.items != e->keys)
		zipf_init(&zipf, e->keys, 0);
	/* Scrambled, or the most frequent keys would be the first ones. */
	return random_mix(zipf_next(&zipf, &e->random)) % e->keys;
}

/* A mirror for all, 1/2, 1/8, nothing of the index. */
void engine_case_mirror(struct engine *e)
{
	static const unsigned parts[] = { 1, 2, 8, 0 };
	/* A line of the mirror: words, their fingerprints, a tag. */
	double index = engine_stat(e, "index.buckets") * (32 * 8 + 64 + 8) * 1.02;
	char name[64];

	for (unsigned i = 0; i < 8; i++) {
		unsigned part = parts[i % 4];
		uint64_t (*next)(void *) = i < 4 ? engine_uniform : zipfian;
		engine_connect(e, part ? (size_t)(index / part) : ENGINE_NO_MIRROR, false);
		engine_gets(e, 2 * e->keys, 16, next, e);
		struct kvd_counters a = engine_counters(e);
		engine_gets(e, e->keys / 4, 16, next, e);
		struct kvd_counters b = engine_counters(e);
		snprintf(name, sizeof name, "%s_%s%u_trips", i < 4 ? "uniform" : "zipfian",
			 part ? "1/" : "", part);
		figure(name, PER_GET(&a, &b, round_trips));
	}
}
