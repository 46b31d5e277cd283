/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/durable: what its commit thread writes, and what it does when the disk is full or broken.  The
 * database, the disk and the time are made up; each call is noted by a word.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "server/durable/db.h"
#include "server/durable/durable.h"
#include "server/durable/folder.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#define S 1000000000ull
#define RESERVE 8000u
#define WALL_MS 5000000u
#define CLOCK_MS 1000u /* of expiries */
#define TURNS_MAX 20000u

static struct durable *d;
static struct durable_port port;
static struct err err;
static _Atomic uint64_t now_ns, free_bytes;
static _Atomic unsigned fails_of; /* writes, from now on */
static atomic_bool syncs_fail, reopens, is_over;
static _Atomic(const char *) fails; /* whose call */
static atomic_uint reopened, synced, wakes;
static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;
static char calls[2048];

/* One more word; -1 if it fails. */
static int call(const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&calls_lock);
	size_t used = strlen(calls);
	va_start(args, format);
	vsnprintf(calls + used, sizeof calls - used, format, args);
	va_end(args);
	strncat(calls, " ", sizeof calls - strlen(calls) - 1);
	int rc = fails && !strncmp(calls + used, fails, strlen(fails)) ? -1 : 0;
	pthread_mutex_unlock(&calls_lock);
	return rc;
}

static void expect_calls(const char *words)
{
	pthread_mutex_lock(&calls_lock);
	bool is = !strcmp(calls, words);
	if (!is)
		print_error("'%s', not '%s'\n", calls, words);
	calls[0] = '\0';
	pthread_mutex_unlock(&calls_lock);
	assert_true(is);
}

/* -------------------------------------------------------------------- made up */

static struct db *const db = (struct db *)(void *)&port;
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *until);

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	uint64_t ns = clock == CLOCK_REALTIME ? WALL_MS * 1000000ull : now_ns;

	*ts = (struct timespec){ (time_t)(ns / S), (long)(ns % S) };
	return 0;
}

/* A moment. */
MADE_UP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *until)
{
	struct timespec soon;

	(void)until;
	__real_clock_gettime(CLOCK_MONOTONIC, &soon);
	soon.tv_nsec += 500000;
	if (soon.tv_nsec >= 1000000000)
		soon = (struct timespec){ soon.tv_sec + 1, soon.tv_nsec - 1000000000 };
	return __real_pthread_cond_timedwait(cond, lock, &soon);
}

MADE_UP(int, db_open, const char *dir, bool may_lose, bool is_members, struct db **out, struct err *e)
{
	(void)dir, (void)may_lose, (void)is_members, (void)e;
	*out = db;
	return 0;
}

MADE_UP(void, db_close, struct db **out) { *out = NULL; }
MADE_UP(uint64_t, db_reserve_bytes, const struct db *of) { return of == db ? RESERVE : 0; }
MADE_UP(int, db_flush, struct db *of, struct err *e) { return of == db && e ? 0 : -1; }
MADE_UP(bool, db_is_over, const struct db *of, const struct durable_record *key, uint64_t wall_ms)
{
	return of == db && key && wall_ms == WALL_MS && is_over;
}

MADE_UP(int, db_sync, struct db *of, struct err *e)
{
	synced += of == db;
	return syncs_fail ? err_set(e, -1, "syncing comes to nothing") : 0;
}

MADE_UP(void, db_batch_add, struct db *of, const struct durable_record *record, uint64_t offset_ms)
{
	call(of == db && offset_ms == WALL_MS - CLOCK_MS ? "add:%.*s" : "?", (int)record->key_bytes,
	     (const char *)record->key);
}

MADE_UP(void, db_batch_note, struct db *of, const struct durable_note *note)
{
	call(of == db ? "note%u" : "?", note->stripe);
}

MADE_UP(void, db_batch_seen, struct db *of, uint64_t reign, uint64_t number)
{
	call(of == db ? "seen%u:%u" : "?", (unsigned)reign, (unsigned)number);
}

MADE_UP(int, db_batch_write, struct db *of, bool sync, struct err *e)
{
	call(of == db ? "write%u" : "?", sync);
	if (!fails_of)
		return 0;
	fails_of--;
	return err_set(e, -1, "the disk does not write");
}

MADE_UP(int, db_reopen, struct db *of, bool may_lose, struct err *e)
{
	call(of == db ? "reopen%u" : "?", may_lose);
	reopened++;
	return reopens ? 0 : err_set(e, -1, "it can't be opened");
}

MADE_UP(int, db_wipe, struct db *of, struct err *e)
{
	return call(of == db ? "wipe" : "?") ? err_set(e, -1, "no wipe") : 0;
}

MADE_UP(uint64_t, folder_free_bytes, const char *dir) { return !strcmp(dir, "/data") ? free_bytes : 0; }

MADE_UP(int, folder_drop_member, const char *dir, struct err *e)
{
	return call("drop:%s", dir) ? err_set(e, -1, "no drop") : 0;
}

MADE_UP(int, folder_read_member, const char *dir, struct folder_member *m, struct err *e)
{
	(void)dir, (void)e;
	*m = (struct folder_member){ .incarnation = 4, .stripes = 64, .cluster = 9 };
	return 1;
}

MADE_UP(int, folder_write_member, const char *dir, const struct folder_member *m, struct err *e)
{
	return call("member%u:%u:%u%s", (unsigned)m->incarnation, (unsigned)m->stripes, (unsigned)m->cluster, dir)
		       ? err_set(e, -1, "no member") : 0;
}

static uint64_t clock_ms(const void *arg)
{
	return arg == &port ? CLOCK_MS : 0;
}

static void wake(void *arg)
{
	wakes += arg == &port;
}

/* --------------------------------------------------------------------- to happen */

#define UNTIL(condition) \
	do { \
		for (unsigned n_ = 0; !(condition); n_++) { \
			struct timespec moment_ = { 0, 500000 }; \
			assert_true(n_ < TURNS_MAX); \
			nanosleep(&moment_, NULL); \
		} \
	} while (0)

static void begin(enum durability durability, bool is_members)
{
	const struct durable_options o = { .dir = "/data", .durability = (int)durability, .lag_ms = 1,
					   .is_members = is_members, .stripes = 64, .cluster = 9 };
	const struct durable_clock clock = { clock_ms, &port };

	assert_int_equal(durable_open(&o, clock, &d, &err), 0);
	calls[0] = '\0';
	assert_int_equal(durable_start(d, &err), 0);
}

static struct durable_stats stats(void)
{
	struct durable_stats s;

	durable_stats(d, &s);
	return s;
}

/* A change of one key. */
static struct durable_op *op_of(unsigned i)
{
	static const char *const keys[] = { "a", "b", "c", "d" };
	static struct durable_record record[4];
	static struct durable_op op[4];

	record[i] = (struct durable_record){ .key = keys[i], .key_bytes = 1, .value = "v", .value_bytes = 1 };
	op[i] = (struct durable_op){ .port = &port, .records = &record[i], .count = 1 };
	return &op[i];
}

static struct durable_op *come_back(void)
{
	struct durable_op *back = NULL;

	UNTIL((back = durable_port_take(&port)));
	return back;
}

static void submit(struct durable_op *op, enum durable_result result)
{
	durable_submit(d, op);
	struct durable_op *back = come_back();
	assert_ptr_equal(back, op);
	assert_null(back->next);
	assert_int_equal(back->result, result);
}

/* It is said behind the flag that tells of it. */
static void expect_said(const char *text)
{
	UNTIL(said_so_far(text));
	said_end();
	assert_int_equal(said_lines(text), 1);
	said_begin();
}

/* -------------------------------------------------------------------------- tests */

static void test_written(void **state)
{
	const struct durable_note notes[] = { { .stripe = 5 }, { .stripe = 6 } };
	struct durable_record records[] = { { .key = "x", .key_bytes = 1 }, { .key = "y", .key_bytes = 1 } };
	struct durable_op op = { .port = &port, .records = records, .count = 2, .notes = notes,
				 .note_count = 2 };

	(void)state;
	begin(DURABILITY_SYNC, false);
	durable_seen(d, 3, 7); /* of no member */
	submit(&op, DURABLE_WRITTEN);
	expect_calls("add:x add:y note5 note6 write1 ");
	assert_int_equal(wakes, 1);
	assert_int_equal(stats().pending, 0);
	assert_int_equal(stats().commits, 1);
	assert_int_equal(stats().changes, 2);
	assert_int_equal(stats().lag_ns, 0);
	assert_true(durable_forget(d, "gone", 4));
	UNTIL(stats().commits == 2);
	expect_calls("add:gone write1 ");
	assert_false(stats().is_failing);
}

/* All up to a number is said with the next batch, once. */
static void test_member(void **state)
{
	(void)state;
	begin(DURABILITY_SYNC, true);
	assert_int_equal(durable_incarnation(d), 4);
	submit(op_of(0), DURABLE_WRITTEN);
	expect_calls("add:a write1 ");
	durable_seen(d, 3, 7);
	durable_seen(d, 3, 6);
	submit(op_of(0), DURABLE_WRITTEN);
	expect_calls("add:a seen3:7 write1 ");
	submit(op_of(0), DURABLE_WRITTEN);
	expect_calls("add:a write1 ");
	/* A key's time is over: what is on the disk by now may be another value of it. */
	assert_true(durable_forget(d, "k", 1));
	UNTIL(stats().commits == 4);
	expect_calls("write1 ");
	is_over = true;
	assert_true(durable_forget(d, "k", 1));
	UNTIL(stats().commits == 5);
	expect_calls("add:k write1 ");
	assert_int_equal(stats().changes, 4);
}

static void test_wiped(void **state)
{
	static const char *const steps[] = { "drop", "wipe", "member" };
	struct durable_op op = { .port = &port, .wipe = 5 };

	(void)state;
	begin(DURABILITY_SYNC, true);
	submit(&op, DURABLE_WRITTEN);
	expect_calls("drop:/data wipe member5:64:9/data ");
	assert_int_equal(durable_incarnation(d), 5);
	for (unsigned i = 0; i < 3; i++) {
		fails = steps[i];
		op.wipe = 6;
		submit(&op, DURABLE_UNKNOWN);
		assert_true(stats().is_failing);
		assert_int_equal(durable_incarnation(d), 5);
		calls[0] = '\0';
		submit(&op, DURABLE_REFUSED);
		expect_calls("");
		fails = NULL;
		reopens = true;
		now_ns += S;
		UNTIL(!stats().is_failing);
	}
}

/* Before it is full changes are refused, and taken again with some more room. */
static void test_full(void **state)
{
	const uint64_t batch = 1 + 1 + 32, need = RESERVE + 2 * batch;

	(void)state;
	begin(DURABILITY_SYNC, false);
	free_bytes = need;
	submit(op_of(0), DURABLE_WRITTEN);
	free_bytes = need - 1;
	submit(op_of(0), DURABLE_REFUSED);
	expect_said("changes are refused from now on, GETs go on: the disk of /data is full");
	assert_true(stats().is_failing);
	assert_int_equal(stats().refused, 1);
	expect_calls("add:a write1 ");
	free_bytes = RESERVE + RESERVE / 8 - 1;
	submit(op_of(0), DURABLE_REFUSED);
	free_bytes = RESERVE - 1;
	submit(op_of(0), DURABLE_REFUSED);
	said_end();
	assert_int_equal(said_lines("refused"), 0); /* once */
	said_begin();
	/* Somebody made room, and nobody asks. */
	free_bytes = RESERVE + RESERVE / 8;
	UNTIL(!stats().is_failing);
	expect_said("changes are taken again: /data can be written");
	free_bytes = need;
	submit(op_of(0), DURABLE_WRITTEN);
	assert_int_equal(stats().refused, 3);
}

/* Nobody knows what is on the disk: undos are written first when it can be opened again. */
static void test_broken(void **state)
{
	struct durable_op *undo = op_of(1), *later = op_of(2);

	(void)state;
	begin(DURABILITY_SYNC, false);
	fails_of = 1;
	submit(op_of(0), DURABLE_UNKNOWN);
	expect_said("changes are refused from now on, GETs go on: the disk does not write");
	assert_int_equal(stats().unknown, 1);
	assert_int_equal(stats().commits, 0);
	submit(op_of(0), DURABLE_REFUSED);
	undo->is_undo = later->is_undo = true;
	durable_submit(d, undo);
	durable_submit(d, later);
	expect_calls("add:a write1 ");
	now_ns += S - 1;
	submit(op_of(0), DURABLE_REFUSED);
	assert_int_equal(reopened, 0);
	for (unsigned i = 1; i < 3; i++) { /* once a second */
		now_ns += i == 1 ? 1 : S;
		UNTIL(reopened == i);
		submit(op_of(0), DURABLE_REFUSED);
		assert_int_equal(reopened, i);
	}
	expect_calls("reopen0 reopen0 ");
	free_bytes = 2 * RESERVE - 1; /* opening it needs room */
	reopens = true;
	now_ns += S;
	submit(op_of(0), DURABLE_REFUSED);
	submit(op_of(0), DURABLE_REFUSED);
	assert_int_equal(reopened, 2);
	assert_null(durable_port_take(&port));
	free_bytes = 2 * RESERVE;
	now_ns += S;
	UNTIL(!stats().is_failing);
	expect_calls("reopen0 add:b add:c write1 ");
	expect_said("changes are taken again: /data can be written");
	struct durable_op *back = come_back();
	assert_ptr_equal(back, undo);
	assert_ptr_equal(back->next, later);
	assert_null(later->next);
	assert_int_equal(undo->result, DURABLE_WRITTEN);
	submit(op_of(0), DURABLE_WRITTEN);
}

/* Undos that fail are tried with those that came meanwhile, until they are written. */
static void test_undos(void **state)
{
	struct durable_op *one = op_of(1), *two = op_of(2), *three = op_of(3);

	(void)state;
	begin(DURABILITY_ASYNC, false);
	one->is_undo = two->is_undo = three->is_undo = true;
	submit(one, DURABLE_WRITTEN); /* of a table that got full; the disk is well */
	expect_calls("add:b write1 ");
	fails_of = 2;
	durable_submit(d, one);
	UNTIL(stats().is_failing);
	expect_said("changes are refused from now on, GETs go on: the disk does not write");
	durable_submit(d, two);
	reopens = true;
	now_ns += S;
	UNTIL(reopened == 1 && !fails_of);
	submit(op_of(0), DURABLE_REFUSED); /* it is broken still */
	assert_true(stats().is_failing);
	durable_submit(d, three);
	now_ns += S;
	struct durable_op *back = come_back();
	UNTIL(!stats().is_failing);
	unsigned n = 0;
	for (; back; back = back->next, n++)
		assert_int_equal(back->result, DURABLE_WRITTEN);
	assert_int_equal(n, 3);
	submit(op_of(0), DURABLE_WRITTEN);
	assert_int_equal(stats().pending, 0);
}

/* What is not synced is so old; a sync that fails breaks it as a write does. */
static void test_async(void **state)
{
	(void)state;
	syncs_fail = true;
	begin(DURABILITY_ASYNC, false);
	submit(op_of(0), DURABLE_WRITTEN);
	expect_calls("add:a write0 ");
	UNTIL(synced == 1);
	UNTIL(stats().is_failing);
	expect_said("syncing comes to nothing");
	now_ns += S / 2;
	assert_int_equal(stats().lag_ns, S / 2);
	submit(op_of(0), DURABLE_REFUSED);
	assert_int_equal(synced, 1);
	syncs_fail = false;
	reopens = true;
	now_ns += S / 2;
	UNTIL(!stats().is_failing);
	assert_int_equal(stats().lag_ns, 0);
	expect_calls("reopen1 ");
	submit(op_of(0), DURABLE_WRITTEN);
	UNTIL(synced == 2);
	UNTIL(stats().lag_ns == 0);
	assert_false(stats().is_failing);
}

/* What was handed in is written before it is closed. */
static void test_end(void **state)
{
	(void)state;
	begin(DURABILITY_SYNC, false);
	durable_submit(d, op_of(0));
	durable_close(&d);
	assert_int_equal(come_back()->result, DURABLE_WRITTEN);
	begin(DURABILITY_SYNC, false);
	fails_of = 1;
	submit(op_of(0), DURABLE_UNKNOWN);
	durable_close(&d);
	said_end();
	assert_int_equal(said_lines("/data can't be written: changes since it was last synced may be lost"), 1);
	said_begin();
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	durable_port_init(&port, wake, &port);
	now_ns = 1000 * S;
	free_bytes = ~0ull;
	fails_of = reopened = synced = wakes = 0;
	syncs_fail = reopens = is_over = false;
	fails = NULL;
	said_begin();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	durable_close(&d);
	said_end();
	pthread_mutex_destroy(&port.lock);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_written), TEST(test_member), TEST(test_wiped), TEST(test_full), TEST(test_broken),
		TEST(test_undos), TEST(test_async), TEST(test_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
