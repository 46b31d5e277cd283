/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every kind of change, against a model: after each restart the table has exactly what
 * the model has, with versions and times; versions go on above all that were seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/store/change/rmw.h"
#include "server/store/load.h"
#include "server/store/txn.h"
#include "tests/lib/fixture.h"
#include "tests/lib/group.h"

#define KEYS 200u
#define BYTES_MAX 9000u
#define TABLE_BYTES (64ull << 20)

static char dir[] = "/tmp/kvd-durable-test.XXXXXX";
static struct fixture f;
static struct durable *durable;
static struct durable_port *port;
static int lag_ms = 5;
static uint64_t random_state = 7, version_max;

static struct model {
	uint8_t value[BYTES_MAX];
	uint64_t bytes;
	uint64_t version; /* 0: absent */
	uint64_t wall_ms; /* when its time is over; 0: never */
	uint32_t flags;
	unsigned signs;
} model[KEYS];

static uint64_t roll(uint64_t n)
{
	return fixture_random(&random_state) % n;
}

static uint64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void wake(void *arg)
{
	(void)arg;
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

static void start(void)
{
	struct durable_options options = { .dir = dir, .durability = DURABILITY_ASYNC, .lag_ms = lag_ms };
	struct store_worker *workers[2] = { &f.worker[0], &f.worker[1] };
	struct err err = { .text = "" };

	fixture_new(&f, TABLE_BYTES, 2);
	port = &f.worker[0].port;
	durable_port_init(port, wake, NULL);
	if (durable_open(&options, store_durable_clock(f.store), &durable, &err) ||
	    store_load(f.store, durable, workers, 2, never, NULL, &err) ||
	    durable_start(durable, &err))
		fail_msg("%s", err.text);
	f.store->durable = durable;
	f.store->waits = true;
}

static void stop(void)
{
	durable_close(&durable);
	fixture_delete(&f);
}

/* Until the change is through. */
static int finish(int status, struct store_result *r)
{
	while (status == STORE_COMMIT) {
		struct durable_op *op = durable_port_take(port);
		if (!op) {
			nanosleep(&(struct timespec){ .tv_nsec = 10000 }, NULL);
			continue;
		}
		assert_null(op->next);
		status = commit_end(&f.worker[0], (struct commit *)op, r);
	}
	return status;
}

static struct store_change change_of(unsigned i, char *key)
{
	unsigned bytes = (unsigned)sprintf(key, "key%u", i);

	return (struct store_change){ .hash = hash_key(f.table->hash_seed, key, bytes), .key = key, .key_bytes = bytes };
}

static void remember(struct model *m, const struct store_result *r, const void *value,
		     uint64_t bytes)
{
	if (value)
		memcpy(m->value, value, bytes);
	m->bytes = bytes;
	m->version = r->version;
	assert_true(r->version > version_max);
	version_max = r->version;
}

static uint64_t pick_bytes(void)
{
	return roll(8) ? 20 + roll(40) : roll(BYTES_MAX / 2);
}

static void fill(uint8_t *value, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		value[i] = (uint8_t)roll(256);
}

static void do_put(unsigned i)
{
	uint8_t value[BYTES_MAX];
	char key[32];
	struct store_change c = change_of(i, key);
	struct store_result r;
	uint64_t ttl_ms = roll(4) ? 0 : 3600000;

	c.value = value;
	c.value_bytes = pick_bytes();
	fill(value, c.value_bytes);
	c.with = (struct layout_attributes){ ttl_ms ? store_clock_ms(f.store) + ttl_ms : 0,
					     (uint32_t)fixture_random(&random_state),
					     (unsigned)roll(4) };
	assert_int_equal(finish(store_put(&f.worker[0], &c, &r), &r), WIRE_OK);
	remember(&model[i], &r, value, c.value_bytes);
	model[i].wall_ms = ttl_ms ? wall_ms() + ttl_ms : 0;
	model[i].flags = c.with.flags;
	model[i].signs = c.with.signs;
}

static void do_remove(unsigned i)
{
	char key[32];
	struct store_change c = change_of(i, key);
	struct store_result r;
	int status = finish(store_remove(&f.worker[0], &c, &r), &r);

	assert_int_equal(status, model[i].version ? WIRE_OK : WIRE_NOT_FOUND);
	model[i].version = 0;
}

static void do_compute(unsigned i, enum wire_op op)
{
	uint8_t value[100];
	char key[32];
	struct store_change c = change_of(i, key);
	struct wire_request q = { .op = (uint8_t)op };
	struct wire_incr incr = { .delta = 3, .initial = 10 };
	struct compute x;
	struct store_result r;
	struct model *m = &model[i];

	if (op == WIRE_INCR) {
		q.value_bytes = sizeof incr;
		q.flags = WIRE_INITIAL;
	} else if (op == WIRE_APPEND) {
		q.value_bytes = c.value_bytes = roll(sizeof value);
		fill(value, c.value_bytes);
		c.value = value;
	} else {
		c.with.expiry_ms = store_clock_ms(f.store) + 7200000;
		c.with.signs = (unsigned)roll(4);
		c.flags = WIRE_SIGNS;
	}
	if (m->bytes + c.value_bytes > BYTES_MAX)
		return;
	assert_true(compute_init(&x, &q, &incr));
	c.compute = &x;
	int status = finish(store_put(&f.worker[0], &c, &r), &r);
	if (status != WIRE_OK) {
		assert_true(op == WIRE_INCR ? status == WIRE_ENUMBER : !m->version);
		return;
	}
	if (!m->version)
		m->wall_ms = m->flags = m->signs = 0;
	if (op == WIRE_INCR) {
		remember(m, &r, x.buf, strlen((char *)x.buf));
	} else if (op == WIRE_APPEND) {
		uint64_t before = m->version ? m->bytes : 0;
		memcpy(m->value + before, value, q.value_bytes);
		remember(m, &r, NULL, before + q.value_bytes);
	} else {
		remember(m, &r, NULL, m->bytes);
		m->wall_ms = wall_ms() + 7200000;
		m->signs = c.with.signs;
	}
}

static void do_txn(unsigned i)
{
	struct txn_key keys[3];
	char key[3][32];
	uint8_t value[2][64];
	struct store_result r;
	uint64_t version = 0;
	unsigned j[3] = { i, (i + 1) % KEYS, (i + 2) % KEYS }, failed;

	for (unsigned k = 0; k < 3; k++) {
		keys[k] = (struct txn_key){ .kind = k < 2 ? WIRE_TXN_PUT : WIRE_TXN_DELETE,
					    .version = WIRE_TXN_ANY,
					    .change = change_of(j[k], key[k]) };
		if (k == 2)
			break;
		fill(value[k], sizeof value[k]);
		keys[k].change.value = value[k];
		keys[k].change.value_bytes = sizeof value[k];
	}
	int status = txn_run(&f.worker[0], keys, 3, 0, &version, &failed);
	assert_int_equal(finish(status, &r), WIRE_OK);
	for (unsigned k = 0; k < 2; k++, r.version++) {
		remember(&model[j[k]], &r, value[k], sizeof value[k]);
		model[j[k]].wall_ms = model[j[k]].flags = model[j[k]].signs = 0;
	}
	model[j[2]].version = 0;
}

static void check(void)
{
	static uint8_t value[BYTES_MAX];
	char key[32];

	for (unsigned i = 0; i < KEYS; i++) {
		struct store_change c = change_of(i, key);
		struct store_result r = { 0 };
		int status = store_get(&f.worker[0], &c, value, sizeof value, &r);
		assert_int_equal(status, model[i].version ? WIRE_OK : WIRE_NOT_FOUND);
		if (!model[i].version)
			continue;
		assert_int_equal(r.version, model[i].version);
		assert_int_equal(r.value_bytes, model[i].bytes);
		assert_memory_equal(value, model[i].value, r.value_bytes);
		const struct layout_item *item = (struct layout_item *)(f.table->base +
									layout_word_offset(r.word,
											   f.table->unit_mask));
		assert_int_equal(r.with.flags, model[i].flags);
		assert_int_equal(r.with.signs, model[i].signs);
		assert_int_equal(r.with.expiry_ms, layout_expiry_ms(item->expiry));
		if (!model[i].wall_ms) {
			assert_int_equal(r.with.expiry_ms, 0);
			continue;
		}
		int64_t error = (int64_t)(r.with.expiry_ms - store_clock_ms(f.store)) -
				(int64_t)(model[i].wall_ms - wall_ms());
		assert_in_range(error + 5000, 0, 10000);
	}
}

static void test_changes(void **state)
{
	(void)state;
	for (unsigned run = 0; run < 5; run++) {
		start();
		check();
		for (unsigned n = 0; n < 1500; n++) {
			unsigned i = (unsigned)roll(KEYS), kind = (unsigned)roll(10);
			if (kind < 4)
				do_put(i);
			else if (kind < 5)
				do_remove(i);
			else if (kind < 6)
				do_txn(i);
			else
				do_compute(i, kind < 8 ? WIRE_INCR : kind < 9 ? WIRE_APPEND : WIRE_TOUCH);
		}
		check();
		stop();
	}
}

/* A time that is over while kvd is down; one that kvd itself tidies up. */
static void test_expiry(void **state)
{
	char key[32];
	struct store_result r;

	(void)state;
	start();
	for (unsigned i = 0; i < 2; i++) {
		struct store_change c = change_of(KEYS + i, key);
		c.value = "x";
		c.value_bytes = 1;
		c.with.expiry_ms = store_clock_ms(f.store) + 30;
		assert_int_equal(finish(store_put(&f.worker[0], &c, &r), &r), WIRE_OK);
	}
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	struct store_change first = change_of(KEYS, key);
	assert_int_equal(store_expire(&f.worker[0], &first), WIRE_OK);
	stop();
	start();
	for (unsigned i = 0; i < 2; i++) {
		struct store_change c = change_of(KEYS + i, key);
		assert_int_equal(store_head(&f.worker[0], &c, &r), WIRE_NOT_FOUND);
	}
	check();
	stop();
}

__attribute__((format(printf, 1, 0))) static void in_shell(const char *format)
{
	char command[256];

	snprintf(command, sizeof command, format, dir, dir, dir);
	assert_int_equal(system(command), 0);
}

/* The disk as it is now; and as it was then: what came behind it is lost. */
static void keep_disk(void)
{
	in_shell("rm -rf %s.kept && cp -a %s %s.kept");
}

static void lose_changes(void)
{
	in_shell("rm -rf %s && mv %s.kept %s");
}

static uint64_t put_version(const char *value)
{
	char key[32];
	struct store_change c = change_of(KEYS, key);
	struct store_result r;

	c.value = value;
	c.value_bytes = strlen(value);
	assert_int_equal(finish(store_put(&f.worker[0], &c, &r), &r), WIRE_OK);
	return r.version;
}

/* A version that somebody read is never another value's, though no disk knows of it. */
static void test_versions_of_lost_changes(void **state)
{
	uint64_t lost = 0, version;

	(void)state;
	for (unsigned run = 0; run < 4; run++) {
		start();
		keep_disk();
		version = put_version("here");
		assert_true(version > lost);
		lost = put_version("lost");
		stop();
		lose_changes();
	}
}

/* The mark is on disk before the first version above it is told. */
static void test_versions_above_the_mark(void **state)
{
	uint64_t lost;

	(void)state;
	lag_ms = 60000; /* so that nobody else syncs */
	start();
	atomic_fetch_add(&f.store->version, 1ull << 23);
	put_version("here");
	keep_disk();
	lost = put_version("lost");
	stop();
	lose_changes();
	start();
	assert_true(put_version("other") > lost);
	stop();
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_expiry),
		cmocka_unit_test(test_versions_of_lost_changes),
		cmocka_unit_test(test_versions_above_the_mark),
	};

	return GROUP_RUN(tests, make_dir, remove_dir);
}
