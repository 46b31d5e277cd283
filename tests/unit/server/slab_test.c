/* SPDX-License-Identifier: BSD-2-Clause */
/* server/table/slab.h against a plain model: who has which slot; and what its classes cost. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "server/store/reclaim/gain.h"
#include "server/table/slab.h"

#define PAGE REGION_PAGE_BYTES

static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static size_t below(uint64_t *x, size_t limit)
{
	return next_random(x) % limit;
}

struct bench {
	uint8_t *base;
	size_t bytes;
	struct region *region;
	struct slabs *slabs;
};

static struct bench begin(size_t bytes, unsigned unit)
{
	struct bench b = { .bytes = bytes };

	b.base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		      -1, 0);
	assert_true(b.base != MAP_FAILED);
	assert_int_equal(region_new(b.base, bytes, &b.region), 0);
	assert_int_equal(slabs_new(b.region, unit, &b.slabs), 0);
	return b;
}

static void end(struct bench *b)
{
	slabs_delete(&b->slabs);
	assert_int_equal(region_used_bytes(b->region), 0);
	region_delete(&b->region);
	munmap(b->base, b->bytes);
}

/* ----------------------------------------------------------------- classes */

/* Each length has a slot; what it takes of a slab, with the slab's books, is in bounds. */
static void test_classes(void **state)
{
	static struct size_classes x;

	(void)state;
	size_classes_init(&x, 8);
	print_message("%u classes\n", x.count);
	for (size_t bytes = 1; bytes <= SIZE_CLASS_BYTES_MAX; bytes++) {
		const struct size_class *c = &x.class[size_class_of(&x, bytes)];
		assert_true(c->slot_bytes >= bytes && c->slot_bytes % 8 == 0);
		assert_true(c == x.class || c[-1].slot_bytes < bytes);
		if (bytes < SIZE_CLASS_BYTES_MIN)
			continue;
		double slab = c->pages * (double)PAGE + 32 + c->pages * 12;
		double cost = slab / size_class_slots(c, c->pages);
		if (cost > (double)bytes * 1.03 + 8)
			fail_msg("%zu bytes cost %.1f in slots of %u, %u pages", bytes, cost,
				 c->slot_bytes, c->pages);
	}
}

/* 4,096, 5,120, 6,144 ... with a header and a key of 16 bytes. */
static void test_round_values(void **state)
{
	static struct size_classes x;
	unsigned step = 1024, n = 0;

	(void)state;
	size_classes_init(&x, 8);
	for (unsigned value = 4096; value + 48 <= SIZE_CLASS_BYTES_MAX; value += step, n++) {
		assert_int_equal(x.class[size_class_of(&x, value + 48)].slot_bytes, value + 48);
		if (value == 8 * step)
			step *= 2;
	}
	assert_true(n > 8);
}

/* What jemalloc takes for so many bytes: four classes a doubling. */
static size_t jemalloc_bytes(size_t bytes)
{
	size_t step = bytes <= 128 ? 16 : (size_t)1 << (61 - __builtin_clzll(bytes - 1));

	return (bytes + step - 1) & ~(step - 1);
}

/*
 * What Redis 7 takes for a value with a key of 16 bytes: the value with 6 bytes or in its object,
 * 4 where it is short; the object, the key and an entry; a pointer and more in its hash table.
 */
static double redis_bytes(size_t value)
{
	if (value <= 44)
		return (double)jemalloc_bytes(16 + 3 + value + 1) + 32 + 32 + 8;
	return (double)jemalloc_bytes(value + (value < 256 ? 4 : 6)) + 16 + 32 + 32 + 8;
}

/* At each length of a value that counts, where the class has many: less than Redis. */
static void test_beside_redis(void **state)
{
	static struct size_classes x;
	double least = 1e9;

	(void)state;
	size_classes_init(&x, 8);
	for (size_t value = 16; value <= 16384; value++) {
		const struct size_class *c = &x.class[size_class_of(&x, value + 48)];
		double slab = c->pages_long * (double)PAGE;
		double cost = slab / size_class_slots(c, c->pages_long) + 8 / 0.807;
		double spare = redis_bytes(value) - cost;
		assert_true(c->pages_long >= c->pages);
		if (spare < 4)
			fail_msg("%zu bytes cost %.1f in slots of %u, Redis %.1f", value, cost,
				 c->slot_bytes, redis_bytes(value));
		least = spare < least ? spare : least;
	}
	print_message("at least %.0f bytes less\n", least);
}

static void test_classes_of_a_longer_unit(void **state)
{
	static struct size_classes x;

	(void)state;
	size_classes_init(&x, 32);
	for (unsigned i = 0; i < x.count; i++) {
		const struct size_class *c = &x.class[i];
		assert_int_equal(c->slot_bytes % 32, 0);
		assert_true(c->pages_min <= c->pages_first && c->pages_first <= c->pages);
		assert_true(size_class_slots(c, c->pages_min) > 0);
		assert_true(size_class_slots(c, c->pages) <= SIZE_CLASS_SLOTS_MAX);
		assert_true(i == 0 || c->slot_bytes <= c[-1].slot_bytes + 32 ||
			    c->slot_bytes <= c[-1].slot_bytes * 1.03);
	}
	assert_int_equal(x.class[x.count - 1].slot_bytes, SIZE_CLASS_BYTES_MAX);
}

/* ------------------------------------------------------------------- model */

/* A slot's owner in each unit of the region; 0: none. */
struct model {
	uint32_t *owner;
	void **slot;
	unsigned *class;
	unsigned count, max;
	uint64_t taken[SIZE_CLASSES_MAX];
};

static void model_take(struct bench *b, struct model *m, unsigned class, void *slot)
{
	size_t bytes = slabs_classes(b->slabs)->class[class].slot_bytes;
	size_t at = (size_t)((uint8_t *)slot - b->base);

	assert_true((uint8_t *)slot >= b->base && at + bytes <= b->bytes && at % 8 == 0);
	assert_int_equal(slabs_slot_bytes(b->slabs, slot), bytes);
	for (size_t i = at / 8; i < (at + bytes) / 8; i++) {
		assert_int_equal(m->owner[i], 0);
		m->owner[i] = 1;
	}
	m->slot[m->count] = slot;
	m->class[m->count++] = class;
	m->taken[class]++;
}

static void model_give(struct bench *b, struct model *m, unsigned i)
{
	unsigned class = m->class[i];
	size_t bytes = slabs_classes(b->slabs)->class[class].slot_bytes;
	size_t at = (size_t)((uint8_t *)m->slot[i] - b->base);

	memset(&m->owner[at / 8], 0, bytes / 8 * sizeof *m->owner);
	slabs_give(b->slabs, &m->slot[i], 1);
	m->taken[class]--;
	m->slot[i] = m->slot[--m->count];
	m->class[i] = m->class[m->count];
}

static void take_some(struct bench *b, struct model *m, unsigned class, enum slabs_grow grow)
{
	void *slot[16];
	unsigned want = 1 + (unsigned)below(&random_state, 16);
	unsigned n = slabs_take(b->slabs, class, slot, want, grow);

	assert_true(n <= want);
	for (unsigned i = 0; i < n && m->count < m->max; i++)
		model_take(b, m, class, slot[i]);
	assert_true(m->count < m->max);
}

/* Nothing of a held slab is taken; it is the region's when all of it was given back. */
static void hold_one(struct bench *b, struct model *m)
{
	struct slab_held slab, again;
	size_t page = below(&random_state, b->bytes / PAGE);
	unsigned mine = 0;

	if (!slabs_look(b->slabs, page, &again) || !slabs_hold(b->slabs, page, &slab))
		return;
	assert_ptr_equal(slab.addr, again.addr);
	assert_true(slab.addr <= b->base + page * PAGE && b->base + page * PAGE < slab.addr + slab.bytes);
	assert_false(slabs_hold(b->slabs, page, &again));
	take_some(b, m, slab.class, SLABS_GROW);
	for (unsigned i = 0; i < slab.slots; i++)
		mine += slab_held_is_taken(&slab, i);
	assert_int_equal(mine, slab.taken);
	bool empties = below(&random_state, 2);
	for (unsigned i = 0; i < m->count; i++) {
		const uint8_t *p = m->slot[i];
		if (p < slab.addr || p >= slab.addr + slab.bytes)
			continue;
		assert_true(slab_held_is_taken(&slab, (unsigned)((size_t)(p - slab.addr) / slab.slot_bytes)));
		if (empties)
			model_give(b, m, i--);
	}
	size_t used = region_used_bytes(b->region), bytes = slab.bytes;
	assert_int_equal(slabs_release(b->slabs, &slab), empties || !mine);
	assert_int_equal(region_used_bytes(b->region), used - (empties || !mine ? bytes : 0));
}

static void check_use(struct bench *b, const struct model *m)
{
	const struct size_classes *x = slabs_classes(b->slabs);
	uint64_t bytes = 0;

	for (unsigned i = 0; i < x->count; i++) {
		struct slab_use use = slabs_use(b->slabs, i);
		assert_int_equal(use.taken, m->taken[i]);
		assert_true(use.slots >= use.taken && use.slots * x->class[i].slot_bytes <= use.bytes);
		bytes += use.bytes;
	}
	assert_int_equal(region_used_bytes(b->region), bytes);
}

static unsigned some_class(const struct bench *b)
{
	const struct size_classes *x = slabs_classes(b->slabs);

	/* Some are wanted often. */
	return below(&random_state, 4) ? (unsigned)below(&random_state, 5) * 40
				       : (unsigned)below(&random_state, x->count);
}

static void test_random_walk(void **state)
{
	struct bench b = begin(6 << 20, 8);
	struct model m = { .max = 200000 };
	unsigned full = 0;

	(void)state;
	m.owner = calloc(b.bytes / 8, sizeof *m.owner);
	m.slot = calloc(m.max, sizeof *m.slot);
	m.class = calloc(m.max, sizeof *m.class);
	for (unsigned step = 0; step < 60000; step++) {
		bool fills = step / 4000 % 2 == 0;
		unsigned before = m.count;
		if (below(&random_state, 100) == 0)
			hold_one(&b, &m);
		else if (below(&random_state, 8) < (fills ? 6 : 2))
			take_some(&b, &m, some_class(&b), (enum slabs_grow)below(&random_state, 3));
		else
			for (unsigned i = 0; i < 5 && m.count; i++)
				model_give(&b, &m, (unsigned)below(&random_state, m.count));
		full += fills && m.count == before;
		if (step % 1000 == 0)
			check_use(&b, &m);
	}
	assert_true(full > 100); /* it was small enough to be full at times */
	while (m.count)
		model_give(&b, &m, m.count - 1);
	check_use(&b, &m);
	assert_int_equal(region_used_bytes(b.region), 0);
	free(m.owner);
	free(m.slot);
	free(m.class);
	end(&b);
}

/* --------------------------------------------------------------- properties */

/* All bytes of slabs are told anew, whatever stood there: a gain is worth its work by their part. */
static void test_gain(void **state)
{
	enum { SLOTS = 640 };
	struct bench b = begin(1 << 20, 8);
	uint64_t all = ~0ull / 2;
	void *slot[SLOTS];

	(void)state;
	assert_int_equal(gain_of_slabs(b.slabs, &all), 0);
	assert_int_equal(all, 0);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(slabs_take(b.slabs, 0, &slot[i], 1, SLABS_GROW), 1);
	uint64_t packed = gain_of_slabs(b.slabs, &all);
	assert_int_equal(all, region_used_bytes(b.region));
	/* One of two is given back: what is left would go into half of the slabs. */
	for (unsigned i = 0; i < SLOTS; i += 2)
		slabs_give(b.slabs, &slot[i], 1);
	for (unsigned n = 0; n < 2; n++) {
		assert_true(gain_of_slabs(b.slabs, &all) > packed);
		assert_int_equal(all, region_used_bytes(b.region));
	}
	end(&b);
}

/* Slots of full slabs are taken first, so that sparse ones become empty. */
static void test_fullest_first(void **state)
{
	enum { SLOTS = 640 };
	struct bench b = begin(1 << 20, 8);
	void *slot[SLOTS], *again;

	(void)state;
	assert_int_equal(slabs_take(b.slabs, 0, slot, 1, SLABS_GROW), 1);
	for (unsigned i = 1; i < SLOTS; i++)
		assert_int_equal(slabs_take(b.slabs, 0, &slot[i], 1, SLABS_GROW), 1);
	/* Of slabs of 64: one slot of the first, all but one of the second. */
	slabs_give(b.slabs, &slot[3], 1);
	slabs_give(b.slabs, &slot[64], 63);
	assert_int_equal(slabs_take(b.slabs, 0, &again, 1, SLABS_GROW_NOT), 1);
	assert_ptr_equal(again, slot[3]);
	end(&b);
}

/* One slot of each class: the first slabs are short. */
static void test_idle_classes(void **state)
{
	struct bench b = begin(64 << 20, 8);
	unsigned count = slabs_classes(b.slabs)->count;
	void *slot;

	(void)state;
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(slabs_take(b.slabs, i, &slot, 1, SLABS_GROW), 1);
	print_message("%u classes have %zu KiB\n", count, region_used_bytes(b.region) >> 10);
	assert_true(region_used_bytes(b.region) < 6 << 20);
	end(&b);
}

/* A class that has many slots, and holes that are shorter than its slabs: these are as long as
 * the holes allow. */
static void test_as_long_as_a_hole(void **state)
{
	enum { HOLE = 9, HOLES = 20 };
	struct bench b = begin(4 << 20, 8);
	unsigned class = size_class_of(slabs_classes(b.slabs), 1048), n = 0;
	const struct size_class *c = &slabs_classes(b.slabs)->class[class];
	void *slot[256];
	uint8_t *hole[HOLES];

	(void)state;
	assert_true(c->pages_first < HOLE && HOLE < c->pages);
	while (slabs_use(b.slabs, class).pages != c->pages)
		assert_int_equal(slabs_take(b.slabs, class, slot, 1, SLABS_GROW), 1);
	while (slabs_take(b.slabs, class, slot, 1, SLABS_GROW_NOT))
		;
	for (unsigned i = 0; i < HOLES; i++) {
		hole[i] = region_alloc(b.region, HOLE * PAGE, PAGE);
		assert_non_null(region_alloc(b.region, PAGE, PAGE));
	}
	while (region_alloc(b.region, PAGE, PAGE))
		;
	for (unsigned i = 0; i < HOLES; i++)
		region_free(b.region, hole[i], HOLE * PAGE);
	while (slabs_take(b.slabs, class, slot, 1, SLABS_GROW))
		n++;
	assert_int_equal(n, HOLES * size_class_slots(c, HOLE));
	slabs_delete(&b.slabs);
	region_delete(&b.region);
	munmap(b.base, b.bytes);
}

/* A slab that slides goes to the lowest run that is before it and long enough, or nowhere. */
static void test_slide(void **state)
{
	struct bench b = begin(1 << 20, 8);
	unsigned class = size_class_of(slabs_classes(b.slabs), 9000);
	struct slab_held slab, before;
	void *slot, *moved;

	(void)state;
	size_t bytes = slabs_classes(b.slabs)->class[class].pages_first * (size_t)PAGE;
	uint8_t *low = region_alloc(b.region, bytes, PAGE);
	assert_int_equal(slabs_take(b.slabs, class, &slot, 1, SLABS_GROW), 1);
	assert_true(slabs_hold(b.slabs, (size_t)((uint8_t *)slot - b.base) / PAGE, &slab));
	assert_ptr_equal(slab.addr, low + bytes);
	assert_false(slabs_add_before(b.slabs, &slab)); /* there is room behind it only */
	region_free(b.region, low, bytes - PAGE);
	assert_false(slabs_add_before(b.slabs, &slab)); /* the hole is a page too short */
	region_free(b.region, low + bytes - PAGE, PAGE);
	assert_true(slabs_add_before(b.slabs, &slab));
	assert_true(slabs_look(b.slabs, 0, &before));
	assert_int_equal(before.bytes, slab.bytes);
	assert_int_equal(before.taken, 0);
	assert_int_equal(slabs_take(b.slabs, class, &moved, 1, SLABS_GROW_NOT), 1);
	assert_ptr_equal(moved, low);
	slabs_give(b.slabs, &slot, 1);
	assert_true(slabs_release(b.slabs, &slab));
	slabs_give(b.slabs, &moved, 1);
	end(&b);
}

/* Long slabs are made where a class has so many items that one more or less is little. */
static void test_long_slabs(void **state)
{
	struct bench b = begin(128 << 20, 8);
	unsigned class = size_class_of(slabs_classes(b.slabs), 16384 + 48);
	const struct size_class *c = &slabs_classes(b.slabs)->class[class];
	struct slab_use use;
	void *slot;

	(void)state;
	assert_true(c->pages_long > 2 * c->pages);
	for (;;) {
		use = slabs_use(b.slabs, class);
		if (use.pages == c->pages_long)
			break;
		assert_true(use.bytes < 8 * c->pages_long * (size_t)PAGE);
		assert_int_equal(slabs_take(b.slabs, class, &slot, 1, SLABS_GROW), 1);
	}
	assert_true(use.bytes >= 7 * c->pages_long * (size_t)PAGE);
	while (use.bytes < 100u << 20) {
		assert_int_equal(slabs_take(b.slabs, class, &slot, 1, SLABS_GROW), 1);
		use = slabs_use(b.slabs, class);
	}
	assert_true(use.bytes < use.slots * (c->slot_bytes + 64ull));
	slabs_delete(&b.slabs);
	region_delete(&b.region);
	munmap(b.base, b.bytes);
}

/* Where only single pages are free, slabs of one page are made if much may be wasted. */
static void test_torn_region(void **state)
{
	struct bench b = begin(1 << 20, 8);
	unsigned class = size_class_of(slabs_classes(b.slabs), 1480);
	void *slot[1000];
	unsigned n = 0;

	(void)state;
	assert_true(slabs_classes(b.slabs)->class[class].pages > 1);
	for (size_t i = 0; i < b.bytes / PAGE; i++)
		assert_non_null(region_alloc(b.region, PAGE, PAGE));
	for (size_t i = 0; i < b.bytes / PAGE; i += 2)
		region_free(b.region, b.base + i * PAGE, PAGE);
	assert_int_equal(slabs_take(b.slabs, class, &slot[n], 1, SLABS_GROW), 0);
	while (slabs_take(b.slabs, class, &slot[n], 1, SLABS_GROW_ANY))
		n++;
	assert_int_equal(n, b.bytes / PAGE / 2 * 2);
	while (n-- > 0)
		slabs_give(b.slabs, &slot[n], 1);
	for (size_t i = 1; i < b.bytes / PAGE; i += 2)
		region_free(b.region, b.base + i * PAGE, PAGE);
	end(&b);
}

/* ----------------------------------------------------------------- threads */

enum { THREADS = 4, SLOTS_OF_ONE = 200 };

struct thread {
	pthread_t id;
	struct bench *bench;
	uint64_t random;
};

static void hold_any(struct bench *b, uint64_t *x)
{
	struct slab_held slab;

	if (slabs_hold(b->slabs, below(x, b->bytes / PAGE), &slab))
		slabs_release(b->slabs, &slab);
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;
	struct slabs *s = t->bench->slabs;
	void *slot[SLOTS_OF_ONE] = { NULL };

	for (unsigned step = 0; step < 30000; step++) {
		void **p = &slot[below(&t->random, SLOTS_OF_ONE)];
		if (step % 16 == 0)
			hold_any(t->bench, &t->random);
		if (*p) {
			assert_int_equal(*(uint64_t *)*p, (uintptr_t)t);
			*(uint64_t *)*p = 0;
			slabs_give(s, p, 1);
			*p = NULL;
		} else if (slabs_take(s, (unsigned)below(&t->random, 4) * 60, p, 1, SLABS_GROW)) {
			*(uint64_t *)*p = (uintptr_t)t;
		}
	}
	for (unsigned i = 0; i < SLOTS_OF_ONE; i++)
		if (slot[i])
			slabs_give(s, &slot[i], 1);
	return NULL;
}

static void test_threads(void **state)
{
	struct bench b = begin(2 << 20, 8);
	struct thread threads[THREADS];

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i] = (struct thread){ .bench = &b, .random = 1234567 + i };
		assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i].id, NULL);
	assert_int_equal(region_used_bytes(b.region), 0);
	end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_round_values),
		cmocka_unit_test(test_beside_redis),
		cmocka_unit_test(test_classes_of_a_longer_unit),
		cmocka_unit_test(test_random_walk),
		cmocka_unit_test(test_gain),
		cmocka_unit_test(test_fullest_first),
		cmocka_unit_test(test_idle_classes),
		cmocka_unit_test(test_as_long_as_a_hole),
		cmocka_unit_test(test_slide),
		cmocka_unit_test(test_long_slabs),
		cmocka_unit_test(test_torn_region),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
