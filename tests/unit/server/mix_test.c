/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sizes that change: again and again all keys are replaced by others of another mix of sizes,
 * in a table that is full.  None is refused, and none is evicted, while much of the memory
 * holds neither keys, values nor headers.
 *
 * The least parts that are asked for are of this small table, in which most size classes have
 * less than one long slab; doc/decisions.md has those of larger ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/clock.h"
#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/evict.h"
#include "tests/lib/fixture.h"

#define TABLE_BYTES (48ull << 20)
#define WORKERS 2u
#define KEYS_MAX 1000000u
#define AT_ONCE (1u << 20) /* bytes that are removed where there is no room */
#define PART_MIN 0.78
#define PART_OF_CACHE_MIN 0.74 /* a thirty-second is left to the index */
#define MIXES_SCALED 5u

static struct fixture f;
static uint64_t random_state = 11;
static uint64_t clock_now;

struct entry {
	uint64_t number;
	size_t bytes;
};
static struct entry *keys;
static unsigned count, old_count; /* the first ones are of the mix before */
static uint64_t next_number, live_bytes;

static uint64_t below(uint64_t n)
{
	return fixture_random(&random_state) % n;
}

/* ------------------------------------------------------------------- mixes */

static size_t all_small(void)
{
	return 16 + below(113);
}

static size_t all_large(void)
{
	return 8192 + below(20000);
}

static size_t ycsb(void)
{
	return 1000;
}

static size_t bimodal(void)
{
	return below(8) ? 50 + below(20) : 5000 + below(500);
}

static size_t all_sizes(void)
{
	return 16 + below(16369);
}

static const struct {
	const char *name;
	size_t (*draw)(void);
} mixes[] = { { "small", all_small },  { "large", all_large },  { "YCSB", ycsb },
	      { "bimodal", bimodal },  { "all", all_sizes },    { "small", all_small },
	      { "all", all_sizes },    { "YCSB", ycsb },        { "large", all_large },
	      { "bimodal", bimodal },  { "small", all_small } };

static unsigned count_mixes(void)
{
	const char *percent = getenv("KVD_TEST_SCALE");

	return percent && atoi(percent) < 100 ? MIXES_SCALED : sizeof mixes / sizeof mixes[0];
}

/* ------------------------------------------------------------------- store */

static size_t make_key(uint64_t number, char *key)
{
	return (size_t)sprintf(key, "key%013llu", (unsigned long long)number);
}

/* What the workers of a kvd do: steps of compaction, until the round is over. */
static void run_round(void)
{
	for (unsigned steps = 0; compact_is_busy(f.store->compact); steps++) {
		for (unsigned i = 0; i < WORKERS; i++)
			if (compact_is_due(&f.worker[i]))
				compact_step(&f.worker[i], clock_now += 1000000);
		assert_true(steps < 1000000);
	}
}

static int put(uint64_t number, size_t bytes)
{
	static uint8_t value[32768];
	char key[32];
	struct store_change c = { .key = key, .key_bytes = (unsigned)make_key(number, key),
				  .value = value, .value_bytes = bytes };
	struct store_result r;
	int status = STORE_ASIDE;

	c.hash = hash_key(f.table->hash_seed, key, c.key_bytes);
	value[0] = (uint8_t)number;
	for (unsigned tries = 0; status == STORE_ASIDE && tries < 100; tries++) {
		status = store_put(&f.worker[number % WORKERS], &c, &r);
		if (status == STORE_ASIDE)
			run_round();
	}
	return status;
}

static uint64_t item_bytes_of(const struct entry *e)
{
	return sizeof(struct layout_item) + 16 + e->bytes;
}

static void remove_one(void)
{
	char key[32];
	unsigned i = (unsigned)below(old_count ? old_count : count);

	fixture_remove(&f.worker[0], key, make_key(keys[i].number, key));
	live_bytes -= item_bytes_of(&keys[i]);
	if (old_count) {
		keys[i] = keys[--old_count];
		keys[old_count] = keys[--count];
	} else {
		keys[i] = keys[--count];
	}
}

/* The part of the memory that the index leaves which holds keys, values and headers. */
static double part_of_memory(uint64_t bytes)
{
	uint64_t slabs = 0, all = f.table->bytes - f.table->heap_offset;

	for (unsigned i = 0; i < slabs_classes(f.table->slabs)->count; i++)
		slabs += slabs_use(f.table->slabs, i).bytes;
	return (double)bytes / (double)(all - (region_used_bytes(f.table->region) - slabs));
}

static void begin(bool evicts)
{
	fixture_new(&f, TABLE_BYTES, WORKERS);
	if (evicts)
		assert_int_equal(evict_new(f.store), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		compact_join(&f.worker[i]);
	keys = calloc(KEYS_MAX, sizeof *keys);
	count = old_count = 0;
	live_bytes = next_number = 0;
	clock_now = clock_ns();
}

static void end(void)
{
	for (unsigned i = 0; i < WORKERS; i++)
		compact_leave(&f.worker[i]);
	fixture_delete(&f);
	free(keys);
}

/* ------------------------------------------------------------------- tests */

/* The least part of the memory that was in use when a key was refused. */
static double replace_all(size_t (*draw)(void))
{
	double least = 1;

	old_count = count;
	for (unsigned refusals = 0; old_count || refusals < 3;) {
		struct entry e = { next_number++, draw() };
		int status = put(e.number, e.bytes);
		assert_true(status == WIRE_OK || status == WIRE_EMEMORY);
		if (status == WIRE_OK) {
			assert_true(count < KEYS_MAX);
			keys[count++] = e;
			live_bytes += item_bytes_of(&e);
			continue;
		}
		double part = part_of_memory(live_bytes);
		least = part < least ? part : least;
		refusals += !old_count;
		for (uint64_t before = live_bytes; before - live_bytes < AT_ONCE;)
			remove_one();
	}
	return least;
}

static void test_changing_mixes(void **state)
{
	(void)state;
	begin(false);
	for (unsigned i = 0; i < count_mixes(); i++) {
		double least = replace_all(mixes[i].draw);
		print_message("%-8s %.3f\n", mixes[i].name, least);
		assert_true(least >= PART_MIN);
	}
	end();
}

/* A cache refuses nothing, and is as full when all keys were replaced. */
static void test_changing_mixes_of_a_cache(void **state)
{
	(void)state;
	begin(true);
	for (unsigned i = 0; i < count_mixes(); i++) {
		for (uint64_t stored = 0; stored < 3 * TABLE_BYTES;) {
			size_t bytes = mixes[i].draw();
			assert_int_equal(put(next_number++, bytes), WIRE_OK);
			stored += bytes;
		}
		uint64_t held = atomic_load(&f.store->value_bytes) + index_keys(f.store->index) * 48;
		print_message("%-8s %.3f\n", mixes[i].name, part_of_memory(held));
		assert_true(part_of_memory(held) >= PART_OF_CACHE_MIN);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changing_mixes),
		cmocka_unit_test(test_changing_mixes_of_a_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
