/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvd stopped at every single instruction of a change: readers on the table
 * (client/get/get.c) find every key, with the value before or after, never the one
 * before once the one after was seen, and never need to ask.
 *
 * A child changes the table, traced, one instruction at a time; between two
 * instructions readers run: some a whole GET, some only a few words of one.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/store/change/rmw.h"
#include "server/table/heap.h"
#include "tests/lib/fixture.h"
#include "tests/lib/reader.h"
#include "tests/unit/server/stopped_value.h"

#define TABLE_BYTES (32ull << 20)
#define VALUE_BYTES_MAX 40000u
#define KEYS 3u
#define VALUES_MAX 4096u
#define FILL_MAX 120000u
#define MIRROR_BYTES (1u << 20)

static size_t make_key(unsigned i, char *key)
{
	return (size_t)sprintf(key, "key-%u", i);
}

/* ------------------------------------------------------ what both processes know */

/* A key's values one after the other, 0 for absent; done <= started <= done + 1. */
struct timeline {
	uint64_t value[VALUES_MAX];
	unsigned done;
	unsigned started;
	unsigned seen; /* the latest that a completed GET had */
};

struct shared {
	struct timeline key[KEYS];
	unsigned busy; /* the key that is being changed */
	volatile bool through;
	volatile bool end;
};

static struct fixture f;
static struct shared *shared;
static uint64_t random_state;

static uint64_t roll(uint64_t n)
{
	return fixture_random(&random_state) % n;
}

/* ------------------------------------------------------------------- the changer */

static void announce(unsigned key, uint64_t id)
{
	struct timeline *t = &shared->key[key];

	t->value[t->started + 1] = id;
	shared->busy = key;
	shared->through = false;
	__atomic_store_n(&t->started, t->started + 1, __ATOMIC_RELEASE);
	raise(SIGSTOP);
}

static void conclude(void)
{
	shared->through = true;
	raise(SIGSTOP);
	shared->key[shared->busy].done = shared->key[shared->busy].started;
}

static void change(unsigned i, uint64_t number)
{
	static uint8_t value[VALUE_BYTES_MAX];
	struct timeline *t = &shared->key[i];
	uint64_t old = t->value[t->done], kind = roll(16);
	struct store_worker *w = &f.worker[roll(f.workers)];
	struct store_result r;
	char key[32];
	size_t key_bytes = make_key(i, key);
	struct store_change c = { .hash = hash_key(f.table->hash_seed, key, key_bytes), .key = key,
				  .key_bytes = (unsigned)key_bytes };

	if (kind < 3) {
		announce(i, 0);
		store_remove(w, &c, &r);
		conclude();
		return;
	}
	if (kind == 3 && old) {
		/* Of any length: the same value under a new header. */
		struct compute touch = { .op = WIRE_TOUCH };
		c.compute = &touch;
		announce(i, old);
		store_put(w, &c, &r);
		conclude();
		return;
	}
	if (kind >= 9 && kind < 12 && old) {
		heap_trim(w->heap); /* or the cache has all places */
		announce(i, old);
		fixture_move(w, key, key_bytes);
		conclude();
		return;
	}
	/* In place as often as not. */
	c.value_bytes = kind < 9 && old ? (old & 0xfffff) : kind == 15 ? 17000 + roll(20000)
								       : 8 + roll(300);
	uint64_t id = stopped_id(number, c.value_bytes);
	stopped_make(id, value);
	if (c.value_bytes > 8000) {
		c.item = store_item_new(w, key, c.key_bytes, c.value_bytes, 0);
		memcpy(c.item->data + c.key_bytes, value, c.value_bytes);
	} else {
		c.value = value;
	}
	announce(i, id);
	store_put(w, &c, &r);
	conclude();
}

static bool is_filled[FILL_MAX];

static void fill_one(unsigned i)
{
	uint8_t value[64];
	char key[32];
	size_t key_bytes = make_key(1000 + i, key);
	size_t bytes = stopped_make(stopped_id(i, 24 + i % 40), value);

	fixture_put(&f.worker[0], key, key_bytes, value, bytes, 0, NULL);
	is_filled[i] = true;
}

/* Runs `work` in a traced child; it is stopped when this returns. */
static pid_t start(void (*work)(unsigned n), unsigned n)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(77);
		raise(SIGSTOP);
		work(n);
		shared->end = true;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("tracing is not permitted here\n");
		skip();
	}
	assert_true(WIFSTOPPED(status));
	return child;
}

static bool go_on(pid_t child, bool one_step)
{
	int status;

	if (ptrace(one_step ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, NULL))
		return false;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSTOPPED(status))
		return true;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	return false;
}

/* ------------------------------------------------------------------- the readers */

struct observer {
	const char *name;
	struct reader *reader;
	unsigned every;      /* takes its turn at one in so many instructions */
	unsigned words;      /* samples up to so many words in a turn; 0: a whole GET */
	bool small_buffer;   /* into a buffer that large values don't fit into */
	bool running;
	unsigned key;
	unsigned floor; /* what was seen when its GET began */
	uint8_t value[VALUE_BYTES_MAX];
};

static void begin(struct observer *o, unsigned k)
{
	char key[32];
	size_t key_bytes = make_key(k, key);
	size_t room = o->small_buffer ? 16900 : sizeof o->value;

	o->key = k;
	o->running = true;
	o->floor = shared->key[k].seen > shared->key[k].done ? shared->key[k].seen
							      : shared->key[k].done;
	reader_begin(o->reader, key, key_bytes, roll(4) || o->small_buffer ? o->value : NULL, room);
}

static void judge(struct observer *o)
{
	struct timeline *t = &shared->key[o->key];
	struct reader_result r = reader_end(o->reader);
	unsigned i = o->floor;
	uint64_t id = 0;

	o->running = false;
	if (r.result == KVD_OK)
		id = stopped_id_of(r.value, r.value_bytes);
	else if (r.result == KVD_ESPACE && o->small_buffer)
		/* Which value it is can't be told from its length for sure. */
		for (; i <= t->started; i++)
			if ((t->value[i] & 0xfffff) == r.value_bytes)
				id = t->value[i];
	if (r.result == KVD_ESPACE && o->small_buffer && id)
		return;
	if (r.result != KVD_OK && r.result != KVD_NOT_FOUND)
		fail_msg("%s: GET of key %u ended with %d", o->name, o->key, r.result);
	while (i <= t->started && t->value[i] != id)
		i++;
	if (i > t->started)
		fail_msg("%s: key %u has %#llx, after value %u (%#llx) of %u (%#llx)", o->name, o->key,
			 (unsigned long long)id, o->floor, (unsigned long long)t->value[o->floor],
			 t->started, (unsigned long long)t->value[t->started]);
	if (i > t->seen)
		t->seen = i;
}

static void turn(struct observer *o)
{
	if (o->every > 1 && roll(o->every))
		return;
	if (!o->running)
		begin(o, roll(8) ? shared->busy : (unsigned)roll(KEYS));
	unsigned words = o->words ? (unsigned)roll(o->words + 1) : 1u << 30;
	if (!reader_step(o->reader, words))
		judge(o);
}

static void observe(struct observer *o, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		turn(&o[i]);
}

static void work_on_keys(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		change((unsigned)roll(KEYS), i + 1);
}

static unsigned scaled(unsigned n)
{
	const char *scale = getenv("KVD_TEST_SCALE");
	unsigned m = n * (scale ? (unsigned)atoi(scale) : 100) / 100;

	return m ? m : 1;
}

static void begin_test(uint64_t seed)
{
	random_state = seed;
	memset(is_filled, 0, sizeof is_filled);
	fixture_new(&f, TABLE_BYTES, 2);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(shared != MAP_FAILED);
}

static void end_test(void)
{
	munmap(shared, sizeof *shared);
	fixture_delete(&f);
}

/* The steps of one change, with the observers between them. */
static uint64_t step_through(pid_t child, struct observer *o, unsigned n)
{
	uint64_t steps = 0;

	while (!shared->through) {
		observe(o, n);
		assert_true(go_on(child, true));
		steps++;
	}
	return steps;
}

/* An item of each size in each heap, so that there are slabs to move others to. */
static void make_room(void)
{
	for (unsigned i = 0; i < f.workers; i++)
		for (uint64_t bytes = 8; bytes < 310; bytes += 16)
			assert_non_null(store_item_new(&f.worker[i], "k", 1, bytes, 0));
}

static void test_changes(void **state)
{
	struct observer o[] = {
		{ .name = "whole GET", .every = 1 },
		{ .name = "whole GET by an old mirror", .every = 300 },
		{ .name = "torn GET", .every = 1, .words = 8 },
		{ .name = "slow torn GET", .every = 2, .words = 2 },
		{ .name = "torn GET by an old mirror", .every = 50, .words = 64 },
		{ .name = "GET into a small buffer", .every = 40, .small_buffer = true },
		{ .name = "GET into a small buffer by a mirror", .every = 900, .small_buffer = true },
	};
	unsigned n = sizeof o / sizeof *o;
	uint64_t steps = 0;

	(void)state;
	begin_test(getenv("KVD_TEST_SEED") ? strtoull(getenv("KVD_TEST_SEED"), NULL, 0) : 7);
	for (unsigned i = 0; i < n; i++)
		o[i].reader = reader_new(f.table, strstr(o[i].name, "mirror") ? MIRROR_BYTES : 0, i);
	make_room();
	pid_t child = start(work_on_keys, scaled(60));
	while (go_on(child, false) && !shared->end) {
		steps += step_through(child, o, n);
		/* Into the stop of conclude(). */
		assert_true(go_on(child, false));
	}
	print_message("%llu instructions\n", (unsigned long long)steps);
	for (unsigned i = 0; i < n; i++)
		reader_delete(o[i].reader);
	end_test();
}

/* --------------------------------------------------------------- an old location */

#define PRIMED 300u

static void work_on_return(unsigned n)
{
	uint8_t value[100];
	uint64_t id = stopped_id(2, sizeof value);
	char key[32];
	size_t key_bytes = make_key(0, key);

	(void)n;
	stopped_make(id, value);
	fixture_remove(&f.worker[0], key, key_bytes);
	shared->key[0].started = shared->key[0].done = 2;
	announce(0, id);
	fixture_put(&f.worker[0], key, key_bytes, value, sizeof value, 0, NULL);
	conclude();
}

/*
 * A key is deleted and comes back at the same place.  Clients that remember the
 * place and clients that go by the index must see it come back at one instant.
 */
static void test_old_locations(void **state)
{
	static struct observer old[PRIMED];
	struct observer plain = { .name = "plain", .every = 1 };
	uint8_t value[100];
	char key[32];
	size_t key_bytes = make_key(0, key);
	uint64_t steps = 0, next = 0;

	(void)state;
	begin_test(1);
	shared->key[0].value[1] = stopped_id(1, sizeof value);
	shared->key[0].done = shared->key[0].started = 1;
	stopped_make(shared->key[0].value[1], value);
	fixture_put(&f.worker[0], key, key_bytes, value, sizeof value, 0, NULL);
	plain.reader = reader_new(f.table, 0, 1);
	for (unsigned i = 0; i < PRIMED; i++) {
		old[i].name = "by an old location";
		old[i].reader = reader_new(f.table, 1 << 14, i);
		reader_get(old[i].reader, key, key_bytes, old[i].value, sizeof old[i].value);
	}
	pid_t child = start(work_on_return, 0);
	assert_true(go_on(child, false));
	for (; !shared->through; steps++) {
		if (steps % 8 == 0 && next < PRIMED) {
			begin(&old[next], 0);
			while (reader_step(old[next].reader, 1u << 30))
				;
			judge(&old[next++]);
		}
		begin(&plain, 0);
		while (reader_step(plain.reader, 1u << 30))
			;
		judge(&plain);
		assert_true(go_on(child, true));
	}
	assert_true(go_on(child, false));
	while (go_on(child, false))
		;
	print_message("%llu instructions, %llu clients\n", (unsigned long long)steps,
		      (unsigned long long)next);
	for (unsigned i = 0; i < PRIMED; i++)
		reader_delete(old[i].reader);
	reader_delete(plain.reader);
	end_test();
}

/* -------------------------------------------------------------------- expansion */

static unsigned filled;

static void work_on_growth(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		shared->through = false;
		raise(SIGSTOP);
		fill_one(filled + i);
		shared->through = true;
		raise(SIGSTOP);
	}
}

/* Fill keys that have a place in the group that is expanded next. */
static unsigned keys_of_group(unsigned *list, unsigned n)
{
	struct layout_view v = layout_view(f.table->header->buckets);
	unsigned bits = LAYOUT_BASE_BITS + v.level, m = 0;
	char key[32];

	for (unsigned i = 0; i < n; i++) {
		if (i < filled && !is_filled[i])
			continue;
		size_t key_bytes = make_key(1000 + i, key);
		struct hash h = hash_key(f.table->hash_seed, key, key_bytes);
		if (h.a >> (64 - bits) == v.split || h.b >> (64 - bits) == v.split)
			list[m++] = i;
	}
	return m;
}

static void must_find(struct reader *r, unsigned i, const char *who)
{
	char key[32];
	uint8_t value[64];
	size_t key_bytes = make_key(1000 + i, key);
	struct reader_result got = reader_get(r, key, key_bytes, value, sizeof value);

	if (got.result != KVD_OK || stopped_id_of(value, got.value_bytes) != stopped_id(i, 24 + i % 40))
		fail_msg("%s: GET of key %u, which is there, ended with %d (%llu buckets)", who, i,
			 got.result, (unsigned long long)f.table->header->buckets);
}

/* Keys whose places are all in the first two groups: chains stand behind their buckets.
 * From which number on there are none. */
static unsigned fill_chains(void)
{
	unsigned n = 0;
	char key[32];

	for (unsigned found = 0; n < FILL_MAX / 2 && found < 160; n++) {
		struct hash h = hash_key(f.table->hash_seed, key, make_key(1000 + n, key));
		if (h.a >> (65 - LAYOUT_BASE_BITS) || h.b >> (65 - LAYOUT_BASE_BITS))
			continue;
		fill_one(n);
		found++;
	}
	return n;
}

static void watch_growth(unsigned fill, unsigned more)
{
	struct reader *plain = reader_new(f.table, 0, 1), *mirror = reader_new(f.table, 1 << 20, 2);
	struct reader *old = reader_new(f.table, 0, 3);
	unsigned *list = calloc(FILL_MAX, sizeof *list), n = 0;
	uint64_t buckets = 0, steps = 0;

	filled = fill;
	pid_t child = start(work_on_growth, more);
	for (unsigned k = 0; go_on(child, false) && !shared->end; k++) {
		while (!shared->through) {
			if (buckets != f.table->header->buckets) {
				buckets = f.table->header->buckets;
				n = keys_of_group(list, fill + k);
			}
			if (n)
				must_find(plain, list[roll(n)], "plain");
			if (n && !roll(4))
				must_find(mirror, list[roll(n)], "mirror");
			for (unsigned i = 0; n && i < 4; i++) {
				reader_forget(old, i ? LAYOUT_BUCKETS_MIN
						     : LAYOUT_BUCKETS_MIN +
							       roll(buckets - LAYOUT_BUCKETS_MIN + 1));
				must_find(old, list[roll(n)], "with an old view");
			}
			for (unsigned i = 0; i < n && steps % 512 == 0; i++)
				must_find(plain, list[i], "plain, all");
			assert_true(go_on(child, true));
			steps++;
		}
		assert_true(go_on(child, false));
	}
	print_message("%llu instructions, now %llu buckets, %llu overflow nodes\n",
		      (unsigned long long)steps, (unsigned long long)f.table->header->buckets,
		      (unsigned long long)index_overflow_nodes(f.store->index));
	free(list);
	reader_delete(plain);
	reader_delete(mirror);
	reader_delete(old);
}

static void grow_from(unsigned fill, unsigned more)
{
	begin_test(fill);
	for (unsigned i = 0; i < fill; i++)
		fill_one(i);
	watch_growth(fill, more);
	end_test();
}

static void test_growth_from_two_buckets_to_three(void **state)
{
	(void)state;
	grow_from(1770, scaled(30));
}

static void test_growth_from_three_buckets_to_four(void **state)
{
	(void)state;
	grow_from(2700, scaled(30));
}

static void test_growth_of_chains(void **state)
{
	(void)state;
	begin_test(1);
	unsigned n = fill_chains();
	print_message("%llu overflow nodes\n",
		      (unsigned long long)index_overflow_nodes(f.store->index));
	assert_true(index_overflow_nodes(f.store->index) > 5);
	while (index_keys(f.store->index) < 1657)
		fill_one(n++);
	assert_int_equal(index_buckets(f.store->index), LAYOUT_BUCKETS_MIN);
	watch_growth(n, scaled(30));
	end_test();
}

static void test_growth_of_a_later_level(void **state)
{
	(void)state;
	grow_from(3800, scaled(30));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_old_locations),
		cmocka_unit_test(test_growth_from_two_buckets_to_three),
		cmocka_unit_test(test_growth_from_three_buckets_to_four),
		cmocka_unit_test(test_growth_of_chains),
		cmocka_unit_test(test_growth_of_a_later_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
