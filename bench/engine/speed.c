/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/engine/speed.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure/histogram.h"
#include "bench/measure/stopwatch.h"
#include "client/api/raw.h"

#define MIRROR_DEFAULT ((size_t)64 << 20)
#define MIRROR_BYTES_A_KEY 24u /* at the least load */
#define ROUNDS 200000u

static void shuffle(struct engine *e, uint32_t *order, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		order[i] = (uint32_t)i;
	for (uint64_t i = count - 1; i > 0; i--) {
		uint64_t j = random_below(&e->random, i + 1);
		uint32_t t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
}

static uint64_t time_raw_read(struct engine *e, uint64_t n)
{
	struct session_raw raw;
	char key[ENGINE_KEY_BYTES];

	engine_key(n, key);
	/* Where the key has moved since the mirror learnt of it nothing is lost. */
	if (session_raw_read(e->session, key, sizeof key, &raw) != KVD_OK)
		return 0;
	uint64_t begin = stopwatch_ns();
	ENGINE_CHECK(session_raw_run(&raw) == KVD_OK, "%s", kvd_session_error(e->session));
	return stopwatch_ns() - begin;
}

/* All keys once, in turn: what the mirror has room for is in it. */
static void warm(struct engine *e, size_t mirror_bytes)
{
	uint64_t turn = 0;

	engine_disconnect(e);
	engine_connect(e, mirror_bytes, false);
	engine_gets(e, e->keys, 16, engine_in_turn, &turn);
}

/*
 * One GET, one raw READ, in turn: both go through all keys in one random order, half
 * of it apart, so that they READ the same places and neither warms the other's caches.
 * With a mirror of the whole index; and GETs with the default one, if that is less.
 */
void engine_case_ratio(struct engine *e)
{
	static struct histogram get, raw, part;
	uint64_t count = e->keys;
	size_t whole = (size_t)count * MIRROR_BYTES_A_KEY;
	uint32_t *order = malloc(count * sizeof *order);
	char *value = malloc(e->value_bytes + 1);

	ENGINE_CHECK(order && value, "out of memory");
	warm(e, whole > MIRROR_DEFAULT ? whole : 0);
	shuffle(e, order, count);
	histogram_clear(&get);
	histogram_clear(&raw);
	histogram_clear(&part);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		histogram_record(&get, engine_time_get(e, order[i % count], value));
		uint64_t ns = time_raw_read(e, order[(i + count / 2) % count]);
		if (ns)
			histogram_record(&raw, ns);
	}
	if (whole > MIRROR_DEFAULT) {
		warm(e, 0);
		for (uint64_t i = 0; i < ROUNDS; i++)
			histogram_record(&part, engine_time_get(e, order[i % count], value));
		figure("default_p50_ns", (double)histogram_percentile(&part, 50));
	}
	figure("get_p50_ns", (double)histogram_percentile(&get, 50));
	figure("raw_p50_ns", (double)histogram_percentile(&raw, 50));
	figure("ratio", (double)histogram_percentile(&get, 50) /
				(double)histogram_percentile(&raw, 50));
	free(order);
	free(value);
}

#define PUTS_BATCH_MAX 32u
#define PUTS_NS_MAX 3000000000ull

/* As redis-benchmark -P does it: so many are sent at once, and all awaited; of random keys.
 * On a machine that others use, too, for a few seconds at the most. */
static void puts_in_batches(struct engine *e, unsigned batch, uint64_t count_max)
{
	static char keys[PUTS_BATCH_MAX][ENGINE_KEY_BYTES], value[4096];
	struct kvd_item items[PUTS_BATCH_MAX];
	uint64_t count = 0, begin = stopwatch_ns(), now = begin;

	ENGINE_CHECK(e->value_bytes <= sizeof value, "values to 4,096 bytes");
	while (count < count_max && now - begin < PUTS_NS_MAX) {
		for (unsigned i = 0; i < batch; i++) {
			engine_key(random_below(&e->random, e->keys), keys[i]);
			items[i] = (struct kvd_item){ .key = keys[i], .key_bytes = ENGINE_KEY_BYTES,
						      .value = value,
						      .value_bytes = e->value_bytes };
		}
		int rc = batch > 1 ? kvd_mput(e->session, items, batch, NULL)
				   : kvd_put(e->session, keys[0], ENGINE_KEY_BYTES, value,
					     e->value_bytes, NULL);
		ENGINE_CHECK(rc == KVD_OK, "%s", kvd_session_error(e->session));
		count += batch;
		now = stopwatch_ns();
	}
	figure("puts_per_s", (double)count * 1e9 / (double)(now - begin));
}

void engine_case_puts1(struct engine *e)
{
	puts_in_batches(e, 1, 600000);
}

void engine_case_puts32(struct engine *e)
{
	puts_in_batches(e, PUTS_BATCH_MAX, 600000);
}

/* GETs a second with `depth` in flight. */
void engine_case_depth16(struct engine *e)
{
	uint64_t turn = 0, count = 1000000;

	engine_gets(e, e->keys, 16, engine_in_turn, &turn);
	uint64_t begin = stopwatch_ns();
	engine_gets(e, count, 16, engine_uniform, e);
	figure("gets_per_s", (double)count * 1e9 / (double)(stopwatch_ns() - begin));
}

/* What a GET takes, and then the READs alone, of the same item into the same memory. */
struct pair {
	uint64_t get_ns, raw_ns;
};

static struct pair time_long(struct engine *e, void *room, size_t room_bytes)
{
	struct session_raw raw;
	struct pair pair;
	size_t got;

	uint64_t begin = stopwatch_ns();
	ENGINE_CHECK(kvd_get(e->session, "long", 4, room, e->value_bytes, &got, NULL) == KVD_OK &&
			     got == e->value_bytes, "%s", kvd_session_error(e->session));
	pair.get_ns = stopwatch_ns() - begin;
	ENGINE_CHECK(session_raw_read_long(e->session, "long", 4, e->value_bytes, room, room_bytes,
					   &raw) == KVD_OK, "%s", kvd_session_error(e->session));
	begin = stopwatch_ns();
	ENGINE_CHECK(session_raw_run(&raw) == KVD_OK, "%s", kvd_session_error(e->session));
	pair.raw_ns = stopwatch_ns() - begin;
	session_raw_end(&raw);
	return pair;
}

static double mb_per_s(size_t bytes, const struct histogram *ns)
{
	return (double)bytes * 1000 / (double)histogram_percentile(ns, 50);
}

#define LONG_PAIRS_MAX 500u
#define LONG_BYTES_ALL (4ull << 30)
#define MILLION 1000000u

/* GETs of a long value into registered memory and READs, in turn: the medians.  What a GET takes of
 * a READ's time is counted in millionths: a bucket's end makes the ratio less, never more. */
void engine_case_long(struct engine *e)
{
	static struct histogram get_ns, raw_ns, share;
	size_t bytes = e->value_bytes, room_bytes = bytes + 4096;
	uint64_t pairs = LONG_BYTES_ALL / bytes;
	kvd_buffer *buffer;
	uint8_t *room;

	pairs = pairs > LONG_PAIRS_MAX ? LONG_PAIRS_MAX : pairs;
	ENGINE_CHECK(!posix_memalign((void **)&room, 4096, room_bytes), "out of memory");
	memset(room, 7, room_bytes);
	ENGINE_CHECK(kvd_buffer_new(e->client, room, room_bytes, &buffer) == KVD_OK, "%s",
		     kvd_client_error(e->client));
	ENGINE_CHECK(kvd_put(e->session, "long", 4, room, bytes, NULL) == KVD_OK, "%s",
		     kvd_session_error(e->session));
	time_long(e, room, room_bytes);
	histogram_clear(&get_ns);
	histogram_clear(&raw_ns);
	histogram_clear(&share);
	struct kvd_counters before = engine_counters(e);
	for (uint64_t i = 0; i < pairs; i++) {
		struct pair pair = time_long(e, room, room_bytes);
		histogram_record(&get_ns, pair.get_ns);
		histogram_record(&raw_ns, pair.raw_ns);
		histogram_record(&share, pair.get_ns * MILLION / pair.raw_ns);
	}
	figure("mb_per_s", mb_per_s(bytes, &get_ns));
	figure("raw_mb_per_s", mb_per_s(bytes, &raw_ns));
	figure("ratio", (double)MILLION / (double)histogram_percentile(&share, 50));
	figure("ratio_of_best", (double)raw_ns.min_ns / (double)get_ns.min_ns);
	struct kvd_counters after = engine_counters(e);
	figure("hashed_aside", (double)(after.hashed_aside_bytes - before.hashed_aside_bytes) /
				       ((double)bytes * (double)pairs));
	kvd_buffer_delete(&buffer);
	free(room);
}
