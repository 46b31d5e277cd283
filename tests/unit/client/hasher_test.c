/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/hasher.h: the checksum is that of the value, whoever made it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/cache/hasher.h"

#define BYTES ((3u << 20) + 77)
#define ROUNDS 2000u /* in which the second thread surely has its turn once */

/* ----------------------------------------------------------- threads that can't be */

static bool no_threads;
static unsigned refused;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (no_threads) {
		refused++;
		return EAGAIN;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attr, run, arg);
}

/* ----------------------------------------------------------------------- a value */

struct value {
	uint8_t *bytes;
	struct pieces pieces;
	struct value_hash hash;
	uint64_t sum;
};

static struct hasher *hasher;

static void new_value(struct value *v, unsigned seed)
{
	v->bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(v->bytes != MAP_FAILED);
	for (size_t i = 0; i < BYTES; i += 61)
		v->bytes[i] = (uint8_t)(i * i + seed);
	const struct iovec iov[] = { { v->bytes, 1000001 },
				     { v->bytes + 1000001, BYTES - 1000001 } };
	assert_int_equal(pieces_set(&v->pieces, iov, 2), 0);
	v->sum = pieces_hash(&v->pieces);
	memset(&v->hash, 0, sizeof v->hash);
}

static void delete_value(struct value *v)
{
	munmap(v->bytes, BYTES);
}

static void begin(struct value *v)
{
	hash_bytes_begin(&v->hash.sum);
	value_hash_begin(&v->hash, hasher, &v->pieces, BYTES);
}

static void wait_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void add_all(struct value *v, uint64_t part)
{
	for (uint64_t at = 0; at < BYTES; at += part)
		value_hash_add(&v->hash, BYTES - at < part ? BYTES - at : part);
}

static bool ends_well(struct value *v)
{
	value_hash_end(&v->hash);
	return hash_bytes_end(&v->hash.sum) == v->sum && v->hash.aside <= BYTES && !v->hash.by;
}

static bool can_be_aside(void)
{
	cpu_set_t set;

	return !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 1;
}

static int set_up(void **state)
{
	(void)state;
	hasher = hasher_new();
	assert_non_null(hasher);
	no_threads = false;
	refused = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	hasher_delete(hasher);
	return 0;
}

/* -------------------------------------------------------------------------- tests */

static void test_in_order(void **state)
{
	static const uint64_t parts[] = { 1000, 8191, 256 << 10, 1 << 20, BYTES };
	struct value v;

	(void)state;
	for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
		for (unsigned turn = 0; turn < 5; turn++) {
			new_value(&v, i + turn);
			begin(&v);
			add_all(&v, parts[i]);
			assert_true(ends_well(&v));
			delete_value(&v);
		}
}

static void test_second_thread_has_its_part(void **state)
{
	uint64_t aside = 0;
	struct value v;

	(void)state;
	if (!can_be_aside())
		skip();
	new_value(&v, 1);
	for (unsigned i = 0; i < ROUNDS && !aside; i++) {
		begin(&v);
		assert_ptr_equal(v.hash.by, hasher);
		value_hash_add(&v.hash, 500000);
		wait_ns(1000000);
		value_hash_add(&v.hash, BYTES - 500000);
		assert_true(ends_well(&v));
		aside = v.hash.aside;
	}
	assert_true(aside > 0);
	delete_value(&v);
}

/* It sleeps between values, and is woken. */
static void test_woken_again(void **state)
{
	struct value v;

	(void)state;
	if (!can_be_aside())
		skip();
	new_value(&v, 1);
	for (unsigned times = 0; times < 3; times++) {
		uint64_t aside = 0;
		wait_ns(20000000);
		for (unsigned i = 0; i < ROUNDS && !aside; i++) {
			begin(&v);
			value_hash_add(&v.hash, 500000);
			wait_ns(1000000);
			value_hash_end(&v.hash);
			aside = v.hash.aside;
		}
		assert_true(aside > 0);
	}
	delete_value(&v);
}

static void test_one_at_a_time(void **state)
{
	struct value v, w;

	(void)state;
	if (!can_be_aside())
		skip();
	new_value(&v, 1);
	new_value(&w, 2);
	begin(&v);
	begin(&w);
	assert_ptr_equal(v.hash.by, hasher);
	assert_null(w.hash.by);
	add_all(&v, 256 << 10);
	add_all(&w, 256 << 10);
	assert_true(ends_well(&w));
	assert_true(ends_well(&v));
	begin(&w);
	assert_ptr_equal(w.hash.by, hasher);
	add_all(&w, 256 << 10);
	assert_true(ends_well(&w));
	delete_value(&v);
	delete_value(&w);
}

static _Atomic bool all_well;

static void *hash_many(void *arg)
{
	struct value v;

	new_value(&v, *(unsigned *)arg);
	for (unsigned i = 0; i < 50; i++) {
		begin(&v);
		if (i % 7 == 3) {
			value_hash_add(&v.hash, BYTES / 2);
			value_hash_drop(&v.hash);
			continue;
		}
		add_all(&v, 100000);
		if (!ends_well(&v))
			atomic_store(&all_well, false);
	}
	delete_value(&v);
	return NULL;
}

static void test_several_sessions(void **state)
{
	pthread_t threads[4];
	unsigned seeds[4];

	(void)state;
	atomic_store(&all_well, true);
	for (unsigned i = 0; i < 4; i++) {
		seeds[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, hash_many, &seeds[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_true(atomic_load(&all_well));
}

/* Its memory goes away at once. */
static void test_dropped_while_it_is_hashed(void **state)
{
	struct value v;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		new_value(&v, i);
		begin(&v);
		value_hash_add(&v.hash, 1 << 20);
		if (i % 2)
			wait_ns(10000);
		value_hash_drop(&v.hash);
		delete_value(&v);
		assert_null(v.hash.by);
		value_hash_drop(&v.hash);
	}
	new_value(&v, 1);
	begin(&v);
	assert_ptr_equal(v.hash.by, can_be_aside() ? hasher : NULL);
	add_all(&v, 256 << 10);
	assert_true(ends_well(&v));
	delete_value(&v);
}

static void test_short_ones_not(void **state)
{
	struct value v;

	(void)state;
	new_value(&v, 1);
	hash_bytes_begin(&v.hash.sum);
	value_hash_begin(&v.hash, hasher, &v.pieces, HASHER_BYTES_MIN - 1);
	assert_null(v.hash.by);
	delete_value(&v);
}

static void hash_alone(void)
{
	struct value v;

	new_value(&v, 1);
	for (unsigned i = 0; i < 3; i++) {
		begin(&v);
		assert_null(v.hash.by);
		add_all(&v, 256 << 10);
		assert_true(ends_well(&v));
		assert_int_equal(v.hash.aside, 0);
	}
	delete_value(&v);
}

static void test_without_a_hasher(void **state)
{
	struct hasher *was = hasher;

	(void)state;
	hasher = NULL;
	hash_alone();
	hasher = was;
}

static void test_no_thread_can_be_made(void **state)
{
	(void)state;
	if (!can_be_aside())
		skip();
	no_threads = true;
	hash_alone();
	assert_int_equal(refused, 1); /* not tried again and again */
}

static void test_one_processor(void **state)
{
	cpu_set_t was, one;
	int cpu = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof was, &was), 0);
	while (!CPU_ISSET(cpu, &was))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	hash_alone();
	assert_int_equal(sched_setaffinity(0, sizeof was, &was), 0);
}

/* The child has the memory, but not the thread. */
static int hash_in_child(struct value *under_way)
{
	struct value w;
	int status;

	new_value(&w, 2);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		alarm(60);
		value_hash_drop(&under_way->hash);
		begin(&w);
		bool by_nobody = !w.hash.by;
		add_all(&w, 256 << 10);
		bool good = by_nobody && ends_well(&w);
		hasher_delete(hasher);
		_exit(good ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	delete_value(&w);
	return status;
}

/* Whatever the thread was doing. */
static void test_forked(void **state)
{
	struct value v;

	(void)state;
	new_value(&v, 1);
	begin(&v);
	value_hash_add(&v.hash, 1 << 20);
	assert_int_equal(hash_in_child(&v), 0);
	value_hash_add(&v.hash, BYTES - (1 << 20));
	assert_true(ends_well(&v));
	assert_int_equal(hash_in_child(&v), 0);
	delete_value(&v);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_in_order),
		TEST(test_second_thread_has_its_part),
		TEST(test_woken_again),
		TEST(test_one_at_a_time),
		TEST(test_dropped_while_it_is_hashed),
		TEST(test_several_sessions),
		TEST(test_short_ones_not),
		TEST(test_without_a_hasher),
		TEST(test_no_thread_can_be_made),
		TEST(test_one_processor),
		TEST(test_forked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
