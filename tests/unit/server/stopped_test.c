/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvd stopped at every single instruction of a change: readers on the table
 * (client/get/get.c) find every key, with the value before or after, never the one
 * before once the one after was seen, and never need to ask.
 *
 * A child changes the table, traced, one instruction at a time; between two
 * instructions readers run: some a whole GET, some only a few words of one.  The child goes
 * on until they have READ of the scratches often enough to prove anything.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/store/change/rmw.h"
#include "server/store/txn.h"
#include "server/table/heap.h"
#include "tests/lib/reader.h"
#include "tests/unit/server/stopped_kit.h"
#include "tests/unit/server/stopped_value.h"

#define VALUE_BYTES_MAX 40000u
#define MIRROR_BYTES (1u << 20)
#define SCRATCHES_MIN 100u /* READs of each kind of scratch */
#define CHANGES_MAX 200u   /* below VALUES_MAX */

/* ------------------------------------------------------------------- the changer */

/* Keys, a bit each, are about to get these values. */
static void announce_all(unsigned keys, const uint64_t *id)
{
	stopped_shared->keys = keys;
	stopped_shared->through = false;
	for (unsigned k = 0; k < KEYS; k++) {
		struct timeline *t = &stopped_shared->key[k];
		if (!(keys >> k & 1))
			continue;
		stopped_shared->busy = k;
		t->value[t->started + 1] = id[k];
		__atomic_store_n(&t->started, t->started + 1, __ATOMIC_RELEASE);
	}
	raise(SIGSTOP);
}

static void announce(unsigned key, uint64_t id)
{
	uint64_t ids[KEYS] = { 0 };

	ids[key] = id;
	announce_all(1u << key, ids);
}

static void conclude(void)
{
	stopped_shared->through = true;
	raise(SIGSTOP);
	for (unsigned k = 0; k < KEYS; k++)
		if (stopped_shared->keys >> k & 1)
			stopped_shared->key[k].done = stopped_shared->key[k].started;
}

static void change(unsigned i, uint64_t number)
{
	static uint8_t value[VALUE_BYTES_MAX];
	struct timeline *t = &stopped_shared->key[i];
	uint64_t old = t->value[t->done], kind = stopped_roll(16);
	struct store_worker *w = &stopped_store.worker[stopped_roll(stopped_store.workers)];
	struct store_result r;
	char key[32];
	size_t key_bytes = stopped_key(i, key);
	struct store_change c = { .hash = hash_key(stopped_store.table->hash_seed, key, key_bytes), .key = key,
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
	c.value_bytes = kind < 9 && old ? (old & 0xfffff) : kind == 15 ? 17000 + stopped_roll(20000)
								       : 8 + stopped_roll(300);
	uint64_t id = stopped_id(number, c.value_bytes);
	stopped_make(id, value);
	if (c.value_bytes > 8000) {
		c.item = store_item_new(w, key, c.key_bytes, c.value_bytes,
					&(struct layout_attributes){ 0 });
		memcpy(c.item->data + c.key_bytes, value, c.value_bytes);
	} else {
		c.value = value;
	}
	announce(i, id);
	store_put(w, &c, &r);
	conclude();
}

/* A transaction of some of the keys, which are put or deleted. */
static void transact(uint64_t number)
{
	static uint8_t value[KEYS][400];
	static char name[KEYS][32];
	struct txn_key keys[KEYS] = { 0 };
	uint64_t id[KEYS] = { 0 }, version;
	unsigned count = 0, mask = 1 + (unsigned)stopped_roll((1u << KEYS) - 1), failed;

	for (unsigned k = 0; k < KEYS; k++) {
		size_t key_bytes = stopped_key(k, name[k]);
		bool is_put = stopped_roll(3);
		if (!(mask >> k & 1))
			continue;
		id[k] = is_put ? stopped_id(number, 8 + stopped_roll(300)) : 0;
		keys[count++] = (struct txn_key){
			.kind = is_put ? WIRE_TXN_PUT : WIRE_TXN_DELETE,
			.version = WIRE_TXN_ANY,
			.change = { .hash = hash_key(stopped_store.table->hash_seed, name[k], key_bytes),
				    .key = name[k],
				    .key_bytes = (unsigned)key_bytes,
				    .value = value[k],
				    .value_bytes = is_put ? stopped_make(id[k], value[k]) : 0 },
		};
	}
	struct store_worker *w = &stopped_store.worker[stopped_roll(stopped_store.workers)];
	announce_all(mask, id);
	if (txn_run(w, keys, count, 0, &version, &failed) != WIRE_OK)
		_exit(3);
	conclude();
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
	size_t key_bytes = stopped_key(k, key);
	size_t room = o->small_buffer ? 16900 : sizeof o->value;

	o->key = k;
	o->running = true;
	o->floor = stopped_shared->key[k].seen > stopped_shared->key[k].done ? stopped_shared->key[k].seen
							      : stopped_shared->key[k].done;
	reader_begin(o->reader, key, key_bytes, stopped_roll(4) || o->small_buffer ? o->value : NULL, room);
}

static void judge(struct observer *o)
{
	struct timeline *t = &stopped_shared->key[o->key];
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
	/* What one key of a transaction shows, the others show from now on. */
	for (unsigned k = 0; k < KEYS && i == t->started && (stopped_shared->keys >> o->key & 1); k++)
		if (stopped_shared->keys >> k & 1)
			stopped_shared->key[k].seen = stopped_shared->key[k].started;
}

static void turn(struct observer *o)
{
	if (o->every > 1 && stopped_roll(o->every))
		return;
	if (!o->running)
		begin(o, stopped_roll(8) ? stopped_shared->busy : (unsigned)stopped_roll(KEYS));
	unsigned words = o->words ? (unsigned)stopped_roll(o->words + 1) : 1u << 30;
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
	for (unsigned i = 0; i < n || (!stopped_shared->enough && i < CHANGES_MAX); i++)
		change((unsigned)stopped_roll(KEYS), i + 1);
}

static void work_on_txns(unsigned n)
{
	for (unsigned i = 0; i < n || (!stopped_shared->enough && i < CHANGES_MAX); i++)
		transact(i + 1);
}

/* The steps of one change, with the observers between them. */
static uint64_t step_through(pid_t child, struct observer *o, unsigned n)
{
	uint64_t steps = 0;

	while (!stopped_shared->through) {
		observe(o, n);
		assert_true(stopped_go_on(child, true));
		steps++;
	}
	return steps;
}

/* An item of each size in each heap, so that there are slabs to move others to. */
static void make_room(void)
{
	for (unsigned i = 0; i < stopped_store.workers; i++)
		for (uint64_t bytes = 8; bytes < 320; bytes += 8)
			assert_non_null(store_item_new(&stopped_store.worker[i], "k", 1, bytes,
						       &(struct layout_attributes){ 0 }));
}

static struct reader_scratches scratches_of(const struct observer *o, unsigned n)
{
	struct reader_scratches all = { 0 };

	for (unsigned i = 0; i < n; i++) {
		struct reader_scratches r = reader_scratches(o[i].reader);
		all.items += r.items;
		all.changes += r.changes;
		all.txns += r.txns;
	}
	return all;
}

/* `changes` of `work`, and as many more as it takes to see so much of the scratches. */
static struct reader_scratches watch(void (*work)(unsigned n), unsigned changes,
				     bool (*is_enough)(const struct reader_scratches *))
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
	struct reader_scratches seen;
	uint64_t steps = 0;

	stopped_begin(getenv("KVD_TEST_SEED") ? strtoull(getenv("KVD_TEST_SEED"), NULL, 0) : 7);
	for (unsigned i = 0; i < n; i++)
		o[i].reader = reader_new(stopped_store.table, strstr(o[i].name, "mirror") ? MIRROR_BYTES : 0, i);
	make_room();
	pid_t child = stopped_start(work, stopped_scaled(changes));
	while (stopped_go_on(child, false) && !stopped_shared->end) {
		steps += step_through(child, o, n);
		seen = scratches_of(o, n);
		stopped_shared->enough = is_enough(&seen);
		/* Into the stop of conclude(). */
		assert_true(stopped_go_on(child, false));
	}
	seen = scratches_of(o, n);
	print_message("%llu instructions; READs of scratches: %llu items, %llu changes, %llu transactions\n",
		      (unsigned long long)steps, (unsigned long long)seen.items,
		      (unsigned long long)seen.changes, (unsigned long long)seen.txns);
	for (unsigned i = 0; i < n; i++)
		reader_delete(o[i].reader);
	stopped_end();
	return seen;
}

static bool saw_changes(const struct reader_scratches *seen)
{
	return seen->items >= SCRATCHES_MIN && seen->changes >= SCRATCHES_MIN;
}

static void test_changes(void **state)
{
	struct reader_scratches seen = watch(work_on_keys, 60, saw_changes);

	(void)state;
	stopped_must_reach("items READ of a scratch", seen.items, SCRATCHES_MIN);
	stopped_must_reach("changes READ of a scratch", seen.changes, SCRATCHES_MIN);
}

static bool saw_txns(const struct reader_scratches *seen)
{
	return seen->txns >= SCRATCHES_MIN;
}

static void test_transactions(void **state)
{
	struct reader_scratches seen = watch(work_on_txns, 40, saw_txns);

	(void)state;
	stopped_must_reach("transactions READ of a scratch", seen.txns, SCRATCHES_MIN);
}

/* --------------------------------------------------------------- an old location */

#define PRIMED 300u

static void work_on_return(unsigned n)
{
	uint8_t value[100];
	uint64_t id = stopped_id(2, sizeof value);
	char key[32];
	size_t key_bytes = stopped_key(0, key);

	(void)n;
	stopped_make(id, value);
	fixture_remove(&stopped_store.worker[0], key, key_bytes);
	stopped_shared->key[0].started = stopped_shared->key[0].done = 2;
	announce(0, id);
	fixture_put(&stopped_store.worker[0], key, key_bytes, value, sizeof value, 0, NULL);
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
	size_t key_bytes = stopped_key(0, key);
	uint64_t steps = 0, next = 0;

	(void)state;
	stopped_begin(1);
	stopped_shared->key[0].value[1] = stopped_id(1, sizeof value);
	stopped_shared->key[0].done = stopped_shared->key[0].started = 1;
	stopped_make(stopped_shared->key[0].value[1], value);
	fixture_put(&stopped_store.worker[0], key, key_bytes, value, sizeof value, 0, NULL);
	plain.reader = reader_new(stopped_store.table, 0, 1);
	for (unsigned i = 0; i < PRIMED; i++) {
		old[i].name = "by an old location";
		old[i].reader = reader_new(stopped_store.table, 1 << 14, i);
		reader_get(old[i].reader, key, key_bytes, old[i].value, sizeof old[i].value);
	}
	pid_t child = stopped_start(work_on_return, 0);
	assert_true(stopped_go_on(child, false));
	for (; !stopped_shared->through; steps++) {
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
		assert_true(stopped_go_on(child, true));
	}
	assert_true(stopped_go_on(child, false));
	while (stopped_go_on(child, false))
		;
	print_message("%llu instructions, %llu clients\n", (unsigned long long)steps,
		      (unsigned long long)next);
	stopped_must_reach("clients with an old location", next, PRIMED / 2);
	for (unsigned i = 0; i < PRIMED; i++)
		reader_delete(old[i].reader);
	reader_delete(plain.reader);
	stopped_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_transactions),
		cmocka_unit_test(test_old_locations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
