/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wipecost -- what kvd --wipe costs a change, in the store alone: CPU time of a change of each
 * kind without it and with it, in turn.
 *
 * A row: the kind, ns without, ns with.  Of 400 batches of each the 5th percentile, as the
 * machine's other work only adds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/lib/fixture.h"

#define TABLE_BYTES (256ull << 20)
#define BATCHES 400u
#define BATCH_MAX 2000u
#define VALUE_MAX 120000u

static const struct kind {
	const char *name;
	unsigned bytes[2]; /* of a key's values, in turn */
	unsigned keys;
	bool deletes; /* before each PUT */
} kinds[] = {
	{ "in place, 100 B", { 100, 100 }, 20000, false },
	{ "in place, 1,000 B", { 1000, 1000 }, 20000, false },
	{ "in place, 4,000 B", { 4000, 4000 }, 5000, false },
	{ "elsewhere, 100 and 200 B", { 100, 200 }, 20000, false },
	{ "elsewhere, 1,000 and 2,000 B", { 1000, 2000 }, 20000, false },
	{ "elsewhere, 10,000 and 12,000 B", { 10000, 12000 }, 4000, false },
	{ "elsewhere, 100,000 and 120,000 B", { 100000, 120000 }, 500, false },
	{ "delete and insert, 1,000 B", { 1000, 1000 }, 20000, true },
};

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void change(struct fixture *f, unsigned number, unsigned bytes, bool deletes)
{
	static const uint8_t value[VALUE_MAX];
	char key[16];
	struct store_result r;
	struct store_change c = { .key = key, .value = value, .value_bytes = bytes };

	c.key_bytes = (unsigned)sprintf(key, "key%05u", number);
	c.hash = hash_key(f->table->hash_seed, key, c.key_bytes);
	if (deletes)
		store_remove(&f->worker[0], &c, &r);
	if (store_put(&f->worker[0], &c, &r) != WIRE_OK)
		abort();
}

/* ns a change. */
static double batch(struct fixture *f, const struct kind *k, unsigned number)
{
	unsigned n = k->keys < BATCH_MAX ? k->keys : BATCH_MAX;
	uint64_t at = (uint64_t)number * n, begun = cpu_ns();

	for (uint64_t i = at; i < at + n; i++)
		change(f, (unsigned)(i % k->keys), k->bytes[(i / k->keys + 1) % 2], k->deletes);
	return (double)(cpu_ns() - begun) / n;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void measure(const struct kind *k)
{
	static double ns[2][BATCHES];
	struct fixture f[2];

	fixture_new(&f[0], TABLE_BYTES, 1);
	fixture_new_wiping(&f[1], TABLE_BYTES, 1);
	for (unsigned i = 0; i < 2 * k->keys; i++)
		change(&f[i % 2], i / 2, k->bytes[0], false);
	for (unsigned i = 0; i < 2 * BATCHES; i++)
		ns[i % 2][i / 2] = batch(&f[i % 2], k, i / 2);
	for (unsigned i = 0; i < 2; i++) {
		qsort(ns[i], BATCHES, sizeof ns[i][0], compare);
		fixture_delete(&f[i]);
	}
	printf("%-34s %8.0f %8.0f\n", k->name, ns[0][BATCHES / 20], ns[1][BATCHES / 20]);
	fflush(stdout);
}

int main(void)
{
	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		measure(&kinds[i]);
	return 0;
}
