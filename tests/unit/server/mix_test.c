/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sizes that change: again and again all keys are replaced by others of another mix of sizes,
 * in a table that is full.  None is refused, and none is evicted, while much of the memory
 * holds neither keys, values nor headers.
 *
 * The least parts that are asked for are of this small table, in which most size classes have
 * less than one long slab, and of one that is four times as large (make check-mix).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "common/clock.h"
#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/evict.h"
#include "server/table/heap.h"
#include "tests/lib/fixture.h"

#define TABLE_MIB 48u
#define TABLE_FULL_MIB 192u
#define WORKERS 2u
#define KEYS_MAX 4000000u
#define AT_ONCE (1u << 20) /* bytes that are removed where there is no room */
#define PART_MIN 0.89 /* the goal is not met there: doc/decisions.md */
#define PART_FULL_MIN 0.92
#define PART_OF_CACHE_MIN 0.76 /* a thirty-second is left to the index */
#define MIXES_SCALED 5u

static struct fixture f;
static uint64_t random_state = 11;
static uint64_t clock_now, longest_ns;

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

/* KVD_TEST_MIX_MIB: of a table of that size. */
static unsigned table_mib(void)
{
	const char *mib = getenv("KVD_TEST_MIX_MIB");

	return mib ? (unsigned)atoi(mib) : TABLE_MIB;
}

static double part_min(void)
{
	return table_mib() < TABLE_FULL_MIB ? PART_MIN : PART_FULL_MIN;
}

static uint64_t table_bytes(void)
{
	return (uint64_t)table_mib() << 20;
}

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

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Work of which a worker makes as many pieces as three tenths of a millisecond have. */
static void step(struct store_worker *w)
{
	uint64_t begun = cpu_ns();

	compact_step(w, clock_now += 1000000);
	uint64_t ns = cpu_ns() - begun;
	longest_ns = ns > longest_ns ? ns : longest_ns;
}

/* What the workers of a kvd do: steps of compaction, until the round is over. */
static void run_round(void)
{
	for (unsigned steps = 0; compact_is_busy(f.store->compact); steps++) {
		for (unsigned i = 0; i < WORKERS; i++)
			if (compact_is_due(&f.worker[i]))
				step(&f.worker[i]);
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
		if (status == STORE_ASIDE) {
			run_round();
			evict_round(&f.worker[number % WORKERS]);
		}
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

/*
 * Where the memory is that the index leaves: in keys, values and headers; in what their slots are
 * longer; in what workers keep; in free slots; in the tails of slabs; in no slab, side by side or in
 * pieces.
 */
struct use {
	uint64_t all, live, longer, kept, free, tails, run, pieces;
	uint64_t index;
	unsigned classes; /* that have free slots */
	uint64_t most, most_slot_bytes; /* free of one of them */
};

static void add_class(struct use *u, unsigned class)
{
	struct slab_use c = slabs_use(f.table->slabs, class);
	uint64_t slot = slabs_classes(f.table->slabs)->class[class].slot_bytes;

	uint64_t free = (c.slots - c.taken) * slot;

	u->longer += c.taken * slot;
	u->free += free;
	u->classes += free > 0;
	if (free > u->most) {
		u->most = free;
		u->most_slot_bytes = slot;
	}
	u->tails += c.bytes - c.slots * slot;
	u->all += c.bytes;
}

static uint64_t taken_bytes(void)
{
	struct use u = { .all = 0 };

	for (unsigned i = 0; i < slabs_classes(f.table->slabs)->count; i++)
		add_class(&u, i);
	return u.longer;
}

/* What workers keep they give back for it. */
static struct use look(uint64_t live)
{
	struct use u = { .live = live };
	uint64_t memory = f.table->bytes - f.table->heap_offset, taken = taken_bytes();

	for (unsigned i = 0; i < WORKERS; i++)
		heap_trim(f.worker[i].heap);
	u.kept = taken - taken_bytes();
	for (unsigned i = 0; i < slabs_classes(f.table->slabs)->count; i++)
		add_class(&u, i);
	u.longer -= live;
	u.run = region_longest_bytes(f.table->region);
	u.pieces = memory - region_used_bytes(f.table->region) - u.run;
	u.all += u.run + u.pieces;
	u.index = memory - u.all;
	return u;
}

static double part(const struct use *u)
{
	return (double)u->live / (double)u->all;
}

static void print_use(const char *name, const struct use *u)
{
	const double all = (double)u->all;

	print_message("%-8s %.3f  longer slots %.3f  kept by workers %.3f  free slots %.3f  tails "
		      "%.3f  pages side by side %.3f, in pieces %.3f\n", name, part(u),
		      (double)u->longer / all, (double)u->kept / all, (double)u->free / all,
		      (double)u->tails / all, (double)u->run / all, (double)u->pieces / all);
	print_message("         beside it: the index %.3f; free slots of %u classes, the most %u KiB "
		      "in slots of %u\n", (double)u->index / all, u->classes,
		      (unsigned)(u->most >> 10), (unsigned)u->most_slot_bytes);
}

static void begin(bool evicts)
{
	fixture_new(&f, table_bytes(), WORKERS);
	if (evicts)
		assert_int_equal(evict_new(f.store), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		compact_join(&f.worker[i]);
	keys = calloc(KEYS_MAX, sizeof *keys);
	count = old_count = 0;
	live_bytes = next_number = 0;
	clock_now = clock_ns();
	longest_ns = 0;
}

static void end(void)
{
	struct compact_stats stats = compact_stats(f.store->compact);

	print_message("%u items of %u MiB moved; the longest step %u us\n", (unsigned)stats.items,
		      (unsigned)(stats.item_bytes >> 20), (unsigned)(longest_ns / 1000));
	assert_true(stats.items > 1000);
	for (unsigned i = 0; i < WORKERS; i++)
		compact_leave(&f.worker[i]);
	fixture_delete(&f);
	free(keys);
}

/* ------------------------------------------------------------------- tests */

/* The least part of the memory that was in use when a key was refused. */
static struct use replace_all(size_t (*draw)(void))
{
	struct use least = { .live = 1, .all = 1 };

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
		struct use u = look(live_bytes);
		least = part(&u) < part(&least) ? u : least;
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
		struct use least = replace_all(mixes[i].draw);
		print_use(mixes[i].name, &least);
		assert_true(part(&least) >= part_min());
	}
	end();
}

/* A cache refuses nothing, and is as full when all keys were replaced. */
static void test_changing_mixes_of_a_cache(void **state)
{
	(void)state;
	begin(true);
	for (unsigned i = 0; i < count_mixes(); i++) {
		for (uint64_t stored = 0; stored < 3 * table_bytes();) {
			size_t bytes = mixes[i].draw();
			assert_int_equal(put(next_number++, bytes), WIRE_OK);
			stored += bytes;
		}
		uint64_t held = atomic_load(&f.store->value_bytes) + index_keys(f.store->index) * 48;
		struct use u = look(held);
		print_use(mixes[i].name, &u);
		assert_true(part(&u) >= PART_OF_CACHE_MIN);
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
