/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store as workers use it: against a plain model; several workers and a reader
 * (client/get/get.c) at once, all of what they saw linearizable; and no flipped bit of
 * an item ever comes out as a value.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/table/heap.h"
#include "tests/lib/fixture.h"
#include "tests/lib/history.h"
#include "tests/lib/linear.h"
#include "tests/lib/reader.h"
#include "tests/torture/value.h"

/* A READ races with the worker's stores: that is what it is for. */
#if defined(__SANITIZE_THREAD__)
#define READERS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define READERS 0
#endif
#endif
#ifndef READERS
#define READERS 1
#endif

#define BYTES_MAX 60000u

static struct fixture f;

static size_t make_key(uint64_t i, char *key)
{
	/* Of different lengths. */
	return (size_t)sprintf(key, "key%0*llu", (int)(i % 40) + 1, (unsigned long long)i);
}

static uint64_t pick_bytes(uint64_t *random)
{
	uint64_t kind = fixture_random(random) % 20;

	return VALUE_BYTES_MIN + fixture_random(random) % (kind < 12 ? 40 : kind < 19 ? 5000
										      : BYTES_MAX - 24);
}

/* ---------------------------------------------------------------- against a model */

#define MODEL_KEYS 500u

struct model {
	uint64_t id; /* 0: absent */
	uint64_t version;
};

static void check_get(uint64_t i, const struct model *m, uint8_t *buf)
{
	char key[64];
	size_t bytes = 0;
	uint64_t version = 0;
	int rc = fixture_get(&f.worker[0], key, make_key(i, key), buf, BYTES_MAX, &bytes, &version);

	assert_int_equal(rc, m->id ? WIRE_OK : WIRE_NOT_FOUND);
	if (!m->id)
		return;
	assert_int_equal(value_check(buf, bytes, i), m->id);
	assert_int_equal(version, m->version);
}

static void check_read(struct reader *r, uint64_t i, const struct model *m, uint8_t *buf)
{
	char key[64];
	struct reader_result got = reader_get(r, key, make_key(i, key), buf, BYTES_MAX);

	assert_int_equal(got.result, m->id ? KVD_OK : KVD_NOT_FOUND);
	if (!m->id)
		return;
	assert_int_equal(value_check(buf, got.value_bytes, i), m->id);
	assert_int_equal(got.version, m->version);
}

static bool holds(const struct model *m, unsigned flags, uint64_t version)
{
	return !((flags & WIRE_IF_ABSENT) && m->id) && !((flags & WIRE_IF_PRESENT) && !m->id) &&
	       !((flags & WIRE_IF_VERSION) && (!m->id || m->version != version));
}

static void model_put(uint64_t i, struct model *m, uint64_t id, uint64_t *random, uint8_t *buf)
{
	static const unsigned conditions[] = { 0, 0, 0, WIRE_IF_ABSENT, WIRE_IF_PRESENT,
					       WIRE_IF_VERSION };
	unsigned flags = conditions[fixture_random(random) % 6];
	uint64_t bytes = pick_bytes(random), version = m->version + fixture_random(random) % 2;
	char key[64];
	size_t key_bytes = make_key(i, key);
	bool should = holds(m, flags, version);
	int rc;

	value_make(buf, bytes, i, id);
	if (bytes > 8000 && !flags)
		rc = fixture_put_item(&f.worker[id % 2], key, key_bytes, buf, bytes, &version);
	else
		rc = fixture_put(&f.worker[id % 2], key, key_bytes, buf, bytes, flags, &version);
	assert_int_equal(rc, should ? WIRE_OK : WIRE_CONDITION);
	if (!should)
		return;
	assert_true(version > m->version);
	*m = (struct model){ .id = id, .version = version };
}

static void test_against_a_model(void **state)
{
	struct model *model = calloc(MODEL_KEYS, sizeof *model);
	uint8_t *buf = malloc(BYTES_MAX + 8);
	uint64_t random = 5;
	struct reader *plain, *mirror;

	(void)state;
	fixture_new(&f, 64 << 20, 2);
	plain = reader_new(f.table, 0, 1);
	mirror = reader_new(f.table, 1 << 20, 2);
	for (uint64_t n = 1; n <= 60000; n++) {
		uint64_t i = fixture_random(&random) % MODEL_KEYS, kind = fixture_random(&random) % 8;
		char key[64];
		if (kind < 4) {
			model_put(i, &model[i], n, &random, buf);
		} else if (kind < 5) {
			int rc = fixture_remove(&f.worker[n % 2], key, make_key(i, key));
			assert_int_equal(rc, model[i].id ? WIRE_OK : WIRE_NOT_FOUND);
			model[i].id = 0;
		}
		check_get(i, &model[i], buf);
		check_read(plain, i, &model[i], buf);
		if (kind == 7) {
			/* Now and then, so that what it remembers is old. */
			uint64_t other = fixture_random(&random) % MODEL_KEYS;
			check_read(mirror, other, &model[other], buf);
		}
	}
	reader_delete(plain);
	reader_delete(mirror);
	free(model);
	free(buf);
	fixture_delete(&f);
}

/* ----------------------------------------------------------------- full and empty */

static void test_full_and_empty(void **state)
{
	uint8_t *buf = malloc(BYTES_MAX + 8);
	uint64_t random = 3, n = 0, used, ids[20000];
	char key[64];
	size_t bytes;

	(void)state;
	fixture_new(&f, 32 << 20, 2);
	used = table_used_bytes(f.table);
	for (unsigned round = 0; round < 3; round++) {
		int rc = WIRE_OK;
		for (n = 0; rc == WIRE_OK && n < 20000; n++) {
			uint64_t length = pick_bytes(&random);
			ids[n] = length;
			value_make(buf, length, n, n + 1);
			rc = fixture_put(&f.worker[n % 2], key, make_key(n, key), buf, length, 0, NULL);
		}
		assert_int_equal(rc, WIRE_EMEMORY);
		n--;
		for (uint64_t i = 0; i < n; i++) {
			rc = fixture_get(&f.worker[0], key, make_key(i, key), buf, BYTES_MAX, &bytes,
					 NULL);
			assert_int_equal(rc, WIRE_OK);
			assert_int_equal(bytes, ids[i]);
			assert_int_equal(value_check(buf, bytes, i), i + 1);
		}
		assert_int_equal(fixture_get(&f.worker[0], key, make_key(n, key), buf, BYTES_MAX,
					     &bytes, NULL), WIRE_NOT_FOUND);
		for (uint64_t i = 0; i < n; i++)
			assert_int_equal(fixture_remove(&f.worker[1], key, make_key(i, key)), WIRE_OK);
		heap_trim(f.worker[0].heap);
		heap_trim(f.worker[1].heap);
		/* The index keeps what it took. */
		assert_true(table_used_bytes(f.table) < used + (2 << 20));
	}
	assert_int_equal(f.store->value_bytes, 0);
	free(buf);
	fixture_delete(&f);
}

/* ------------------------------------------------------------------- many workers */

#define THREADS 4u
#define SHARED_KEYS 6u
#define OPS 30000u

struct thread {
	pthread_t id;
	unsigned number;
	struct linear_op *ops;
	bool is_reader;
	bool is_wrong;
};

static void did_get(struct thread *t, struct linear_op *op, bool found, const uint8_t *buf,
		    size_t bytes, uint64_t version)
{
	op->result = found ? LINEAR_DONE : LINEAR_NOT_FOUND;
	op->value = found ? value_check(buf, bytes, op->key) : 0;
	op->version = found ? version : 0;
	t->is_wrong |= found && !op->value;
}

static void one_read(struct thread *t, struct reader *r, struct linear_op *op, uint8_t *buf)
{
	char key[64];

	op->kind = LINEAR_GET;
	reader_begin(r, key, make_key(op->key, key), buf, BYTES_MAX);
	while (reader_step(r, 64))
		;
	struct reader_result got = reader_end(r);
	op->return_ns = history_now_ns();
	did_get(t, op, got.result == KVD_OK, buf, got.value_bytes, got.version);
	if (got.result != KVD_OK && got.result != KVD_NOT_FOUND)
		op->result = LINEAR_NOTHING; /* asks the server */
}

static void one_operation(struct thread *t, uint64_t *random, struct linear_op *op, uint64_t n,
			  uint8_t *buf)
{
	struct store_worker *w = &f.worker[t->number];
	uint64_t kind = fixture_random(random) % 10, move = fixture_random(random) % 4, bytes = pick_bytes(random);
	char key[64];
	size_t key_bytes = make_key(op->key, key), length = 0;
	int rc;

	if (!move) /* no operation: nobody must notice */
		fixture_move(w, key, key_bytes);
	op->kind = kind < 4 ? LINEAR_GET : kind < 9 ? LINEAR_PUT : LINEAR_DEL;
	if (op->kind == LINEAR_GET) {
		rc = fixture_get(w, key, key_bytes, buf, BYTES_MAX, &length, &op->version);
		op->return_ns = history_now_ns();
		did_get(t, op, rc == WIRE_OK, buf, length, op->version);
		return;
	}
	if (op->kind == LINEAR_PUT) {
		op->value = (uint64_t)(t->number + 1) << 32 | n;
		value_make(buf, bytes, op->key, op->value);
		op->invoke_ns = history_now_ns();
		rc = bytes > 8000 ? fixture_put_item(w, key, key_bytes, buf, bytes, &op->version)
				  : fixture_put(w, key, key_bytes, buf, bytes, 0, &op->version);
	} else {
		rc = fixture_remove(w, key, key_bytes);
	}
	op->return_ns = history_now_ns();
	op->result = rc == WIRE_OK ? LINEAR_DONE : LINEAR_NOT_FOUND;
}

static void *work(void *arg)
{
	struct thread *t = arg;
	uint64_t random = t->number + 77;
	uint8_t *buf = malloc(BYTES_MAX + 8);
	struct reader *r = reader_new(f.table, t->number % 2 ? 1 << 20 : 0, t->number);

	for (uint64_t n = 0; buf && n < OPS; n++) {
		struct linear_op *op = &t->ops[n];
		*op = (struct linear_op){ .key = fixture_random(&random) % SHARED_KEYS,
					  .client = t->number, .invoke_ns = history_now_ns() };
		if (t->is_reader)
			one_read(t, r, op, buf);
		else
			one_operation(t, &random, op, n + 1, buf);
	}
	reader_delete(r);
	free(buf);
	return NULL;
}

static void test_many_workers(void **state)
{
	struct thread t[THREADS + 2 * READERS];
	unsigned n = sizeof t / sizeof *t;
	struct linear_op *all = calloc(n * OPS, sizeof *all);
	struct linear_report report = { .why = "" };

	(void)state;
	fixture_new(&f, 64 << 20, THREADS);
	for (unsigned i = 0; i < n; i++) {
		t[i] = (struct thread){ .number = i, .ops = all + i * OPS, .is_reader = i >= THREADS };
		assert_int_equal(pthread_create(&t[i].id, NULL, work, &t[i]), 0);
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(t[i].id, NULL);
		assert_false(t[i].is_wrong);
	}
	if (linear_check(all, n * OPS, &report) != LINEAR_OK) {
		history_print(stderr, &report.op);
		fail_msg("%s", report.why);
	}
	free(all);
	fixture_delete(&f);
}

/* ------------------------------------------------------------------- flipped bits */

static struct index_entry entry_of(const char *key, size_t key_bytes)
{
	struct index_spot spot;
	struct index_entry e;

	index_lock(f.store->index, hash_key(f.table->hash_seed, key, key_bytes), &spot);
	assert_true(index_find(f.store->index, &spot, key, (unsigned)key_bytes, &e));
	index_unlock(f.store->index, &spot);
	return e;
}

/* The offset of a key's item. */
static uint64_t offset_of(const char *key, size_t key_bytes)
{
	return layout_word_offset(entry_of(key, key_bytes).word, f.table->unit_mask);
}

/* Of so many bits one is flipped: all in a test of full size, else every n-th of each
 * word and byte. */
static unsigned stride(void)
{
	const char *scale = getenv("KVD_TEST_SCALE");
	unsigned percent = scale ? (unsigned)atoi(scale) : 100;

	return percent >= 100 ? 1 : percent >= 10 ? 7 : 23;
}

/* Every bit of an item reads wrong: once, and for ever. */
static void flip_all(const char *key, size_t key_bytes, uint64_t from, uint64_t bytes,
		     const uint8_t *value, size_t value_bytes)
{
	uint8_t *buf = malloc(BYTES_MAX);
	uint64_t retries = 0, flips = 0;

	for (uint64_t bit = 0; bit < 8 * bytes; bit += stride()) {
		for (unsigned times = 1; times; times = times == 1 ? UINT32_MAX : 0) {
			struct reader *r = reader_new(f.table, 0, bit);
			reader_flip(r, from + bit / 8, bit % 8, times);
			struct reader_result got = reader_get(r, key, key_bytes, buf, BYTES_MAX);
			/* With another length of its key a long item is not told for ours. */
			if (times == 1 && value_bytes < 16000)
				assert_int_equal(got.result, KVD_OK);
			if (got.result == KVD_OK) {
				assert_int_equal(got.value_bytes, value_bytes);
				assert_memory_equal(buf, value, value_bytes);
			} else {
				assert_int_equal(got.result, KVD_EBUSY); /* asks the server */
			}
			retries += reader_counters(r)->retries;
			flips++;
			reader_delete(r);
		}
	}
	/* All but those of PENDING, and of the worker of a live item, were noticed. */
	assert_true(retries + 8 >= flips / 2);
	free(buf);
}

static void test_flipped_bits(void **state)
{
	uint8_t value[700];
	uint8_t *large = malloc(20000);

	(void)state;
	fixture_new(&f, 32 << 20, 1);
	value_make(value, sizeof value, 1, 1);
	value_make(large, 20000, 2, 2);
	fixture_put(&f.worker[0], "small", 5, value, sizeof value, 0, NULL);
	flip_all("small", 5, offset_of("small", 5), layout_item_bytes(5, sizeof value), value,
		 sizeof value);
	fixture_put_item(&f.worker[0], "large", 5, large, 20000, NULL);
	/* Its head and the first of its value: the READ goes to two places. */
	flip_all("large", 5, offset_of("large", 5), 64, large, 20000);
	free(large);
	fixture_delete(&f);
}

/* Every bit of an entry, which has no checksum, reads wrong: the key may seem absent,
 * or its value too long for the buffer it does not fit in, but nothing else. */
static void test_flipped_bits_of_an_entry(void **state)
{
	static const size_t lengths[] = { 0, 1, 100, 700, 20000 };
	uint8_t *value = malloc(20000), *buf = malloc(20000);

	(void)state;
	fixture_new(&f, 32 << 20, 1);
	value_make(value, 20000, 1, 1);
	for (unsigned i = 0; i < 5 * 64 * 4; i += stride()) {
		unsigned bit = i / 5 % 64, times = i & 1 ? 1 : UINT32_MAX;
		size_t bytes = lengths[i % 5], room = i / 320 % 2 ? bytes : 20000;
		fixture_put_item(&f.worker[0], "key", 3, value, bytes, NULL);
		struct reader *r = reader_new(f.table, 1 << 20, i);
		uint64_t at = table_offset(f.table, (void *)entry_of("key", 3).at);
		reader_flip(r, at + bit / 8, bit % 8, times);
		memset(buf, 0xaa, 20000);
		struct reader_result got = reader_get(r, "key", 3, room ? buf : NULL, room);
		if (got.result == KVD_OK) {
			assert_int_equal(got.value_bytes, bytes);
			assert_memory_equal(got.value, value, bytes);
		} else if (got.result != KVD_EBUSY) {
			assert_int_equal(got.result, KVD_NOT_FOUND);
		}
		reader_delete(r);
	}
	fixture_delete(&f);
	free(value);
	free(buf);
}

/* An item that was replaced, found by an old location, must not come to life. */
static void test_flipped_bits_of_a_dead_item(void **state)
{
	uint8_t value[300], longer[900], buf[1000];

	(void)state;
	fixture_new(&f, 32 << 20, 1);
	value_make(value, sizeof value, 1, 1);
	value_make(longer, sizeof longer, 1, 2);
	for (uint64_t bit = 0; bit < 64; bit++) {
		fixture_put(&f.worker[0], "key", 3, value, sizeof value, 0, NULL);
		uint64_t old = offset_of("key", 3);
		struct reader *r = reader_new(f.table, 1 << 20, bit);
		assert_int_equal(reader_get(r, "key", 3, buf, sizeof buf).result, KVD_OK);
		fixture_put(&f.worker[0], "key", 3, longer, sizeof longer, 0, NULL);
		reader_flip(r, old + bit / 8, bit % 8, 1);
		struct reader_result got = reader_get(r, "key", 3, buf, sizeof buf);
		assert_int_equal(got.result, KVD_OK);
		assert_int_equal(value_check(buf, got.value_bytes, 1), 2);
		reader_delete(r);
	}
	fixture_delete(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_a_model),
		cmocka_unit_test(test_full_and_empty),
		cmocka_unit_test(test_many_workers),
		cmocka_unit_test(test_flipped_bits),
		cmocka_unit_test(test_flipped_bits_of_an_entry),
		cmocka_unit_test(test_flipped_bits_of_a_dead_item),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
