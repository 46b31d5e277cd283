/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/durable/batch.h and queue.h: what is written together, for how long who was answered is waited for,
 * and ports.  Without a thread; the time is made up.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "server/durable/batch.h"
#include "server/durable/impl.h"
#include "server/durable/queue.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"

#define S 1000000000ull
#define MIB (1ull << 20)
#define OPS 40u
#define FORGOTTEN_MAX 65536u
#define BYTES_OF_RECORD 32u /* beside its key and value */

static struct durable d;
static struct durable_port port;
static struct durable_op op[OPS];
static struct durable_record record[OPS];
static uint64_t now_ns = 1000 * S, waited_ns;
static unsigned waits, signals, wakes;
static unsigned come_in_wait[4]; /* so many are handed in during each */
static bool stops_in_wait;
static unsigned handed_in;

static struct durable_op *op_of(unsigned i, uint64_t value_bytes);

/* -------------------------------------------------------------------- made up */

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ (time_t)(now_ns / S), (long)(now_ns % S) };
	return 0;
}

MADE_UP(int, pthread_cond_signal, pthread_cond_t *cond)
{
	signals += cond == &d.work;
	return 0;
}

static void hand_in(unsigned n)
{
	for (; n; n--)
		durable_submit(&d, op_of(handed_in++ % OPS, 1));
}

/* Those come, and then it is over. */
MADE_UP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *until)
{
	unsigned n = waits < 4 ? come_in_wait[waits] : 0;

	assert_ptr_equal(cond, &d.work);
	waited_ns = (uint64_t)until->tv_sec * S + (uint64_t)until->tv_nsec - now_ns;
	waits++;
	d.stopping = d.stopping || stops_in_wait;
	if (!n)
		return stops_in_wait ? 0 : ETIMEDOUT;
	assert_int_equal(pthread_mutex_unlock(lock), 0);
	hand_in(n);
	assert_int_equal(pthread_mutex_lock(lock), 0);
	return 0;
}

static void wake(void *arg)
{
	wakes += arg == &port;
}

/* ------------------------------------------------------------------------- kit */

static struct durable_op *op_of(unsigned i, uint64_t value_bytes)
{
	record[i] = (struct durable_record){ .key = "k", .key_bytes = 1, .value = "", .value_bytes = value_bytes };
	op[i] = (struct durable_op){ .port = &port, .records = &record[i], .count = 1 };
	return &op[i];
}

/* The next batch is that many, from this one on, of that size. */
static void expect_batch(unsigned first, unsigned n, uint64_t bytes)
{
	uint64_t is_bytes = 99;
	struct durable_op *list = durable_take_batch(&d, &is_bytes);

	for (unsigned i = first; i < first + n; i++, list = list->next)
		assert_ptr_equal(list, &op[i]);
	assert_null(list);
	assert_int_equal(is_bytes, bytes);
}

static void expect_lingered(unsigned n, uint64_t ns)
{
	waits = 0;
	waited_ns = 0;
	pthread_mutex_lock(&d.lock);
	durable_linger(&d);
	pthread_mutex_unlock(&d.lock);
	assert_int_equal(waits, n);
	assert_int_equal(waited_ns, ns);
	assert_int_equal(d.awaited, 0);
}

static void take_all(void)
{
	uint64_t bytes;

	while (durable_take_batch(&d, &bytes))
		;
	assert_int_equal(d.queued, 0);
}

/* After a sync of so many that took so long. */
static void plan(unsigned n, uint64_t took_ns)
{
	for (unsigned i = 0; i < n; i++)
		op_of(i, 1)->next = i + 1 < n ? &op[i + 1] : NULL;
	durable_plan(&d, op, took_ns);
}

/* --------------------------------------------------------------------- a batch */

static void test_bytes(void **state)
{
	const struct durable_note notes[] = { { .length = 7 }, { .length = 90 } };
	struct durable_record records[] = { { .key_bytes = 3, .value_bytes = 1000 }, { .key_bytes = 5 } };

	(void)state;
	expect_batch(0, 0, 0);
	durable_submit(&d, op_of(0, 100));
	durable_submit(&d, op_of(1, 0));
	op[1].records = records;
	op[1].count = 2;
	op[1].notes = notes;
	op[1].note_count = 2;
	expect_batch(0, 2, 101 + 1008 + 97 + 3 * BYTES_OF_RECORD);
	assert_int_equal(d.queued, 0);
	expect_batch(0, 0, 0);
	durable_submit(&d, op_of(2, 0));
	expect_batch(2, 1, 1 + BYTES_OF_RECORD);
}

/* It is closed by the one that fills it. */
static void test_bytes_max(void **state)
{
	const uint64_t beside = 1 + BYTES_OF_RECORD;

	(void)state;
	durable_submit(&d, op_of(0, 16 * MIB - 1 - beside));
	durable_submit(&d, op_of(1, 0));
	durable_submit(&d, op_of(2, 16 * MIB - beside));
	durable_submit(&d, op_of(3, 40 * MIB));
	durable_submit(&d, op_of(4, 0));
	expect_batch(0, 2, 16 * MIB - 1 + beside);
	assert_int_equal(d.queued, 3);
	expect_batch(2, 1, 16 * MIB);
	expect_batch(3, 1, 40 * MIB + beside);
	expect_batch(4, 1, beside);
	assert_int_equal(d.queued, 0);
}

static void test_apart(void **state)
{
	const uint64_t bytes = 1 + BYTES_OF_RECORD;

	(void)state;
	for (unsigned i = 0; i < 9; i++)
		durable_submit(&d, op_of(i, 0));
	op[2].wipe = op[3].wipe = 5;
	op[5].port = op[6].port = op[8].port = NULL;
	d.options.is_members = true;
	expect_batch(0, 2, 2 * bytes);
	expect_batch(2, 1, bytes);
	expect_batch(3, 1, bytes);
	expect_batch(4, 1, bytes);
	expect_batch(5, 2, 2 * bytes);
	expect_batch(7, 1, bytes);
	expect_batch(8, 1, bytes);
	d.options.is_members = false;
	for (unsigned i = 0; i < 3; i++)
		durable_submit(&d, op_of(i, 0));
	op[1].port = NULL;
	expect_batch(0, 3, 3 * bytes);
}

/* ------------------------------------------------------------------- for company */

static void test_as_many_as_there_were(void **state)
{
	(void)state;
	hand_in(2);
	expect_lingered(0, 0); /* nobody was answered */
	plan(30, 1000000); /* and two more are there */
	assert_int_equal(d.expected, 30);
	come_in_wait[0] = 20;
	come_in_wait[1] = 7;
	come_in_wait[2] = 1;
	signals = 0;
	expect_lingered(3, 500000);
	assert_int_equal(signals, 1); /* when all are there */
	expect_lingered(0, 0);
	take_all();
	plan(15, 1000000);
	assert_int_equal(d.expected, 15);
	plan(16, 1000000);
	assert_int_equal(d.expected, 15);
	plan(32, 1000000);
	assert_int_equal(d.expected, 30);
	/* So long at the most. */
	plan(4, 9999998);
	expect_lingered(1, 4999999);
	d.linger_rest = 0;
	plan(4, 10000002);
	expect_lingered(1, 5000000);
	d.linger_rest = 0;
	plan(4, 60 * S);
	expect_lingered(1, 5000000);
}

/* Where they don't come they are not waited for, for a while. */
static void test_in_vain(void **state)
{
	(void)state;
	plan(12, 1000000);
	hand_in(2);
	come_in_wait[0] = 5; /* half of those that are missing */
	expect_lingered(2, 500000);
	come_in_wait[0] = 1; /* not even half: of five */
	expect_lingered(2, 500000);
	for (unsigned i = 0; i < 16; i++)
		expect_lingered(0, 0);
	come_in_wait[0] = 0;
	expect_lingered(1, 500000);
	expect_lingered(0, 0);
}

static void test_the_end_is_not_waited_for(void **state)
{
	(void)state;
	plan(10, 1000000);
	stops_in_wait = true;
	expect_lingered(1, 500000);
	d.linger_rest = 0;
	expect_lingered(0, 0);
}

/* --------------------------------------------------------------------- the queue */

static void test_signals(void **state)
{
	(void)state;
	durable_submit(&d, op_of(0, 1));
	assert_int_equal(signals, 1);
	op_of(1, 1)->next = &op[0]; /* of another list */
	durable_submit(&d, &op[1]); /* it is awake */
	assert_int_equal(signals, 1);
	op_of(2, 1)->is_undo = true;
	durable_submit(&d, &op[2]);
	assert_int_equal(signals, 2);
	assert_int_equal(d.queued, 2);
	op_of(3, 1)->is_undo = true;
	durable_submit(&d, &op[3]);
	assert_int_equal(signals, 3);
	assert_ptr_equal(d.undos, &op[2]);
	assert_ptr_equal(op[2].next, &op[3]);
	assert_null(op[3].next);
	assert_int_equal(d.pending, 4);
	expect_batch(0, 2, 2 * (2 + BYTES_OF_RECORD));
}

static void test_ports(void **state)
{
	static const enum durable_result results[] = { DURABLE_WRITTEN, DURABLE_REFUSED, DURABLE_UNKNOWN };

	(void)state;
	assert_false(durable_port_has(&port));
	assert_null(durable_port_take(&port));
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < 2; k++)
			durable_submit(&d, op_of(2 * i + k, 1));
		op[2 * i].next = &op[2 * i + 1];
		durable_give_back(&d, &op[2 * i], results[i]);
		assert_int_equal(d.refused, i > 0 ? 2 : 0);
		assert_int_equal(d.unknown, i > 1 ? 2 : 0);
	}
	take_all();
	assert_int_equal(wakes, 1); /* by the first */
	assert_int_equal(d.pending, 0);
	durable_port_keep(op_of(6, 1));
	assert_true(durable_port_has(&port));
	struct durable_op *all = durable_port_take(&port);
	for (unsigned i = 0; i < 7; i++, all = all->next) {
		assert_ptr_equal(all, &op[i]);
		assert_int_equal(all->result, i < 6 ? results[i / 2] : DURABLE_WRITTEN);
	}
	assert_null(all);
	assert_false(durable_port_has(&port));
	op_of(7, 1)->next = &op[0]; /* of another list */
	durable_port_keep(&op[7]);
	assert_int_equal(wakes, 1); /* not that thread itself */
	assert_ptr_equal(durable_port_take(&port), &op[7]);
	assert_null(op[7].next);
	durable_give_back(&d, op_of(8, 1), DURABLE_WRITTEN);
	assert_int_equal(wakes, 2);
}

/* Keys that nobody waits for are bounded, and go by themselves. */
static void test_forgotten(void **state)
{
	uint64_t bytes;
	char key[2] = "k";

	(void)state;
	fails_at = 1;
	assert_false(durable_forget(&d, key, 1));
	assert_int_equal(d.pending, 0);
	assert_true(durable_forget(&d, key, 1));
	key[0] = 'x';
	struct durable_op *list = durable_take_batch(&d, &bytes);
	assert_non_null(list);
	assert_null(list->port);
	assert_int_equal(list->count, 1);
	assert_int_equal(list->records->key_bytes, 1);
	assert_memory_equal(list->records->key, "k", 1);
	assert_int_equal(list->records->version, 0);
	durable_give_back(&d, list, DURABLE_REFUSED);
	assert_int_equal(d.refused, 1);
	for (unsigned i = 0; i < FORGOTTEN_MAX; i++)
		assert_true(durable_forget(&d, key, 1));
	assert_false(durable_forget(&d, key, 1));
	assert_int_equal(d.pending, FORGOTTEN_MAX);
	while ((list = durable_take_batch(&d, &bytes)))
		durable_give_back(&d, list, DURABLE_WRITTEN);
	assert_int_equal(d.pending, 0);
	assert_true(durable_forget(&d, key, 1));
	durable_give_back(&d, durable_take_batch(&d, &bytes), DURABLE_WRITTEN);
	assert_int_equal(wakes, 0);
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	d = (struct durable){ .db = NULL };
	pthread_mutex_init(&d.lock, NULL);
	d.queue_end = &d.queue;
	d.undos_end = &d.undos;
	durable_port_init(&port, wake, &port);
	signals = wakes = handed_in = 0;
	memset(come_in_wait, 0, sizeof come_in_wait);
	stops_in_wait = false;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pthread_mutex_destroy(&d.lock);
	pthread_mutex_destroy(&port.lock);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_bytes), TEST(test_bytes_max), TEST(test_apart), TEST(test_as_many_as_there_were),
		TEST(test_in_vain), TEST(test_the_end_is_not_waited_for), TEST(test_signals), TEST(test_ports),
		TEST(test_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
