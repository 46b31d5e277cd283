/* SPDX-License-Identifier: BSD-2-Clause */
/* The page runs of the region against a plain model, and the heaps on top. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "server/table/heap.h"

#define PAGE REGION_PAGE_BYTES

static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static size_t below(size_t limit)
{
	return next_random(&random_state) % limit;
}

/* n, or less where the tests were asked to be small. */
static unsigned scaled(unsigned n)
{
	const char *percent = getenv("KVD_TEST_SCALE");

	return percent && atoi(percent) < 100 ? n / 100 * (unsigned)atoi(percent) + 1 : n;
}

static char *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(p != MAP_FAILED);
	return p;
}

static struct region *make_region(char *base, size_t bytes)
{
	struct region *region = NULL;

	assert_int_equal(region_new(base, bytes, &region), 0);
	assert_int_equal(region_used_bytes(region), 0);
	return region;
}

static struct slabs *make_slabs(struct region *region)
{
	struct slabs *slabs = NULL;

	assert_int_equal(slabs_new(region, 8, &slabs), 0);
	return slabs;
}

/* ------------------------------------------------------------------ region */

/* The model: a byte per page, first fit by looking at each. */
struct model {
	char *base;
	size_t pages;
	unsigned char *used;
};

static bool is_free(const struct model *m, size_t first, size_t pages)
{
	for (size_t i = 0; i < pages; i++) {
		if (m->used[first + i])
			return false;
	}
	return true;
}

static char *model_alloc(struct model *m, size_t pages, size_t alignment)
{
	for (size_t first = 0; first + pages <= m->pages; first++) {
		char *at = m->base + first * PAGE;
		if ((uintptr_t)at % alignment == 0 && is_free(m, first, pages)) {
			memset(m->used + first, 1, pages);
			return at;
		}
	}
	return NULL;
}

struct run {
	char *addr;
	size_t pages;
};

static size_t random_pages(size_t region_pages)
{
	switch (below(8)) {
	case 0:
		return 1 + below(region_pages / 3 + 1);
	case 1:
		return 1 + below(600);
	default:
		return 1 + below(9);
	}
}

static void run_against_model(size_t pages, unsigned steps)
{
	char *base = map(pages * PAGE);
	struct model m = { base, pages, calloc(pages, 1) };
	struct region *region = make_region(base, pages * PAGE);
	struct run *runs = calloc(pages, sizeof *runs);
	size_t count = 0, used = 0;

	assert_true(runs != NULL && m.used != NULL);
	for (unsigned step = 0; step < steps; step++) {
		/* Fill and drain in turns, so that both ends are reached. */
		bool fill = below(100) < (step / 500 % 2 ? 35 : 65);
		if (fill) {
			size_t n = random_pages(pages);
			size_t alignment = (size_t)PAGE << (below(4) ? 0 : below(12));
			char *want = model_alloc(&m, n, alignment);
			assert_ptr_equal(region_alloc(region, n * PAGE, alignment), want);
			if (want != NULL) {
				runs[count++] = (struct run){ want, n };
				used += n;
			}
		} else if (count > 0) {
			size_t i = below(count);
			region_free(region, runs[i].addr, runs[i].pages * PAGE);
			memset(m.used + (runs[i].addr - base) / PAGE, 0, runs[i].pages);
			used -= runs[i].pages;
			runs[i] = runs[--count];
		}
		assert_int_equal(region_used_bytes(region), used * PAGE);
	}
	while (count-- > 0)
		region_free(region, runs[count].addr, runs[count].pages * PAGE);
	/* All coalesced again. */
	assert_ptr_equal(region_alloc(region, pages * PAGE, PAGE), base);
	region_delete(&region);
	assert_null(region);
	free(runs);
	free(m.used);
	munmap(base, pages * PAGE);
}

static void test_against_model(void **state)
{
	static const size_t sizes[] = { 1, 2, 63, 64, 65, 511, 512, 513, 4096, 5000, 40000 };

	(void)state;
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		run_against_model(sizes[i], scaled(sizes[i] > 10000 ? 4000 : 12000));
}

static void test_exhaustion(void **state)
{
	size_t pages = 3000;
	char *base = map(pages * PAGE);
	struct region *region = make_region(base, pages * PAGE);

	(void)state;
	assert_null(region_alloc(region, (pages + 1) * PAGE, PAGE));
	for (size_t i = 0; i < pages; i++)
		assert_ptr_equal(region_alloc(region, PAGE, PAGE), base + i * PAGE);
	assert_null(region_alloc(region, PAGE, PAGE));
	for (size_t i = 0; i < pages; i += 2)
		region_free(region, base + i * PAGE, PAGE);
	assert_null(region_alloc(region, 2 * PAGE, PAGE));
	region_free(region, base + 1001 * PAGE, PAGE);
	assert_null(region_alloc(region, 4 * PAGE, PAGE));
	assert_ptr_equal(region_alloc(region, 3 * PAGE, PAGE), base + 1000 * PAGE);
	region_delete(&region);
	munmap(base, pages * PAGE);
}

/* The largest there can be: its books are small, and the pages never touched. */
static void test_a_terabyte(void **state)
{
	size_t bytes = (size_t)1 << 40;
	char *base = (char *)(uintptr_t)bytes; /* region never looks at the memory */
	struct region *region = make_region(base, bytes);

	(void)state;
	assert_true(region_metadata_bytes(region) < bytes / 20000);
	assert_ptr_equal(region_alloc(region, bytes - PAGE, PAGE), base);
	assert_null(region_alloc(region, 2 * PAGE, PAGE));
	assert_ptr_equal(region_alloc(region, PAGE, PAGE), base + bytes - PAGE);
	assert_null(region_alloc(region, PAGE, PAGE));
	region_free(region, base, bytes - PAGE);
	assert_ptr_equal(region_alloc(region, PAGE, PAGE), base);
	assert_ptr_equal(region_alloc(region, bytes / 2, bytes / 4), base + bytes / 4);
	assert_int_equal(region_used_bytes(region), bytes / 2 + 2 * PAGE);
	region_delete(&region);
}

static void test_refused_sizes(void **state)
{
	struct region *region;

	(void)state;
	assert_int_not_equal(region_new((void *)(uintptr_t)PAGE, PAGE - 1, &region), 0);
}

/* ------------------------------------------------------------------- heaps */

struct object {
	unsigned char *addr;
	size_t bytes;
	unsigned char fill;
};

static void check_and_free(struct heap *heap, const struct object *o)
{
	for (size_t i = 0; i < o->bytes; i += o->bytes / 16 + 1)
		assert_int_equal(o->addr[i], o->fill);
	assert_int_equal(o->addr[o->bytes - 1], o->fill);
	heap_free(heap, o->addr, o->bytes);
}

static size_t random_bytes(uint64_t *x)
{
	uint64_t r = next_random(x);

	switch (r % 16) {
	case 0:
		return 1 + (r >> 8) % 300000;
	case 1:
		return 1 + (r >> 8) % 20000;
	default:
		return 1 + (r >> 8) % 1000;
	}
}

/* False if the region is full. */
static bool make_object(struct heap *heap, uint64_t *x, struct object *o)
{
	o->bytes = random_bytes(x);
	o->fill = (unsigned char)next_random(x);
	o->addr = heap_alloc(heap, o->bytes);
	if (o->addr == NULL)
		return false;
	assert_int_equal((uintptr_t)o->addr % 8, 0);
	assert_true(heap_usable_bytes(heap, o->bytes) >= o->bytes);
	memset(o->addr, o->fill, o->bytes);
	return true;
}

static void test_heap_random(void **state)
{
	enum { OBJECTS = 2000 };
	unsigned steps = 80000 + scaled(20000); /* fewer would not fill the region */
	size_t bytes = 10 << 20;
	char *base = map(bytes);
	struct region *region = make_region(base, bytes);
	struct object *objects = calloc(OBJECTS, sizeof *objects);
	struct slabs *slabs = make_slabs(region);
	struct heap *heap;
	unsigned full = 0;

	(void)state;
	assert_int_equal(heap_new(region, slabs, &heap), 0);
	for (unsigned step = 0; step < steps; step++) {
		struct object *o = &objects[below(OBJECTS)];
		if (o->addr != NULL) {
			check_and_free(heap, o);
			o->addr = NULL;
		} else if (!make_object(heap, &random_state, o)) {
			full++;
		} else {
			assert_true((char *)o->addr >= base &&
				    (char *)o->addr + o->bytes <= base + bytes);
		}
	}
	assert_true(full > 0); /* it was small enough to be full at times */
	for (unsigned i = 0; i < OBJECTS; i++) {
		if (objects[i].addr != NULL)
			check_and_free(heap, &objects[i]);
	}
	heap_trim(heap);
	assert_int_equal(region_used_bytes(region), 0);
	heap_delete(&heap);
	assert_int_equal(region_used_bytes(region), 0);
	slabs_delete(&slabs);
	region_delete(&region);
	free(objects);
	munmap(base, bytes);
}

/* Fills the region with objects of one size; how many there were. */
static size_t fill_with(struct heap *heap, size_t bytes, void **objects, size_t max)
{
	size_t count = 0;

	while (count < max && (objects[count] = heap_alloc(heap, bytes)) != NULL)
		count++;
	return count;
}

/* Filled, emptied, filled with another size: nothing is lost between. */
static void test_heap_refill(void **state)
{
	static const size_t sizes[] = { 148, 1000, 48, 20000, 333, 9000, 148 };
	size_t bytes = 24 << 20, max = bytes / 64;
	char *base = map(bytes);
	struct region *region = make_region(base, bytes);
	void **objects = calloc(max, sizeof *objects);
	struct slabs *slabs = make_slabs(region);
	struct heap *heap;

	(void)state;
	assert_int_equal(heap_new(region, slabs, &heap), 0);
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t count = fill_with(heap, sizes[i], objects, max);
		/* All but some hundredths hold objects. */
		assert_true(count * heap_usable_bytes(heap, sizes[i]) > bytes / 100 * 97);
		assert_null(heap_alloc(heap, sizes[i]));
		while (count-- > 0)
			heap_free(heap, objects[count], sizes[i]);
		heap_trim(heap);
	}
	heap_delete(&heap);
	assert_int_equal(region_used_bytes(region), 0);
	slabs_delete(&slabs);
	region_delete(&region);
	free(objects);
	munmap(base, bytes);
}

/* A worker that has had items of each length keeps less than a megabyte of free slots. */
static void test_heap_at_rest(void **state)
{
	enum { EACH = 64 };
	size_t bytes = (size_t)256 << 20, kept = 0;
	char *base = map(bytes);
	struct region *region = make_region(base, bytes);
	struct slabs *slabs = make_slabs(region);
	const struct size_classes *classes = slabs_classes(slabs);
	struct heap *heap;

	(void)state;
	assert_int_equal(heap_new(region, slabs, &heap), 0);
	for (unsigned i = 0; i < classes->count; i++) {
		size_t slot_bytes = classes->class[i].slot_bytes;
		void *ptr[EACH];

		for (unsigned k = 0; k < EACH; k++)
			assert_non_null(ptr[k] = heap_alloc(heap, slot_bytes));
		for (unsigned k = 0; k < EACH; k++)
			heap_free(heap, ptr[k], slot_bytes);
		kept += slabs_use(slabs, i).taken * slot_bytes;
	}
	print_message("%zu KiB are kept\n", kept >> 10);
	assert_true(kept > 0 && kept <= 1 << 20);
	heap_delete(&heap);
	assert_int_equal(region_used_bytes(region), 0);
	slabs_delete(&slabs);
	region_delete(&region);
	munmap(base, bytes);
}

/* The overhead that the project promises for items of 148 bytes. */
static void test_heap_cost(void **state)
{
	size_t count = 1000000, bytes = (size_t)256 << 20;
	char *base = map(bytes);
	struct region *region = make_region(base, bytes);
	struct slabs *slabs = make_slabs(region);
	struct heap *heap;
	size_t cost;

	(void)state;
	assert_int_equal(heap_new(region, slabs, &heap), 0);
	for (size_t i = 0; i < count; i++)
		assert_non_null(heap_alloc(heap, 148));
	cost = region_used_bytes(region) + region_metadata_bytes(region) + slabs_metadata_bytes(slabs);
	print_message("148 bytes cost %.2f, all included\n", (double)cost / (double)count);
	assert_true(cost <= 154 * count);
	heap_delete(&heap);
	slabs_delete(&slabs);
	region_delete(&region);
	munmap(base, bytes);
}

/* ----------------------------------------------------------------- threads */

enum { THREADS = 4, SHARED = 512 };

/* Objects that any thread may take and free. */
struct exchange {
	pthread_mutex_t lock;
	struct object objects[SHARED];
	struct region *region;
	struct slabs *slabs;
	struct heap *heaps[THREADS];
};

struct thread {
	pthread_t id;
	struct exchange *exchange;
	struct heap *heap;
	uint64_t random_state;
};

static struct object swap(struct exchange *e, size_t i, struct object mine)
{
	struct object theirs;

	pthread_mutex_lock(&e->lock);
	theirs = e->objects[i];
	e->objects[i] = mine;
	pthread_mutex_unlock(&e->lock);
	return theirs;
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;
	unsigned steps = scaled(40000);

	for (unsigned step = 0; step < steps; step++) {
		struct object o;
		if (!make_object(t->heap, &t->random_state, &o))
			o.addr = NULL;
		o = swap(t->exchange, next_random(&t->random_state) % SHARED, o);
		if (o.addr != NULL)
			check_and_free(t->heap, &o);
		if (step % 8192 == 0)
			heap_trim(t->heap);
	}
	return NULL;
}

static void test_heaps_of_threads(void **state)
{
	size_t bytes = 12 << 20;
	char *base = map(bytes);
	struct exchange *e = calloc(1, sizeof *e);
	struct thread threads[THREADS];

	(void)state;
	pthread_mutex_init(&e->lock, NULL);
	e->region = make_region(base, bytes);
	e->slabs = make_slabs(e->region);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(heap_new(e->region, e->slabs, &e->heaps[i]), 0);
		threads[i] = (struct thread){ .exchange = e, .heap = e->heaps[i],
					      .random_state = 1234567 + i };
		assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i].id, NULL);
	for (unsigned i = 0; i < SHARED; i++) {
		if (e->objects[i].addr != NULL)
			check_and_free(e->heaps[0], &e->objects[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		heap_trim(e->heaps[i]);
	assert_int_equal(region_used_bytes(e->region), 0);
	for (unsigned i = 0; i < THREADS; i++)
		heap_delete(&e->heaps[i]);
	assert_int_equal(region_used_bytes(e->region), 0);
	slabs_delete(&e->slabs);
	region_delete(&e->region);
	pthread_mutex_destroy(&e->lock);
	free(e);
	munmap(base, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_exhaustion),
		cmocka_unit_test(test_a_terabyte),
		cmocka_unit_test(test_refused_sizes),
		cmocka_unit_test(test_heap_random),
		cmocka_unit_test(test_heap_refill),
		cmocka_unit_test(test_heap_at_rest), cmocka_unit_test(test_heap_cost),
		cmocka_unit_test(test_heaps_of_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
