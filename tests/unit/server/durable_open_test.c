/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/durable/durable.h from opening to closing: which table a member's folder has, times of the disk's,
 * what was seen, how old what is not synced is.  The database, the folder and the time are made up.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <cmocka.h>

#include "server/durable/db.h"
#include "server/durable/durable.h"
#include "server/durable/folder.h"
#include "server/durable/impl.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/said.h"

#define S 1000000000ull
#define WALL_MS 5000000u
#define CLOCK_MS 1000u

static struct durable *d;
static struct err err;
static struct db *const db = (struct db *)(void *)&err;
static struct durable_options options;
static struct folder_member there; /* in the folder */
static int is_there;
static uint64_t drawn, now_ns;
static bool no_numbers;
static unsigned threads_begun, joined, thread_that_fails; /* from 1 */
static const char *fails;
static char calls[256];

/* -------------------------------------------------------------------- made up */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

static int call(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int call(const char *format, ...)
{
	size_t used = strlen(calls);
	va_list args;

	va_start(args, format);
	vsnprintf(calls + used, sizeof calls - used, format, args);
	va_end(args);
	return fails && !strcmp(calls + used, fails) ? err_set(&err, -1, "no %s", fails) : 0;
}

static void expect_calls(const char *words)
{
	assert_string_equal(calls, words);
	calls[0] = '\0';
}

MADE_UP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	if (++threads_begun == thread_that_fails)
		return EAGAIN;
	return __real_pthread_create(thread, attr, run, arg);
}

int __real_pthread_join(pthread_t thread, void **result);

MADE_UP(int, pthread_join, pthread_t thread, void **result)
{
	joined++;
	return __real_pthread_join(thread, result);
}

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	uint64_t ns = clock == CLOCK_REALTIME ? WALL_MS * 1000000ull : now_ns;

	*ts = (struct timespec){ (time_t)(ns / S), (long)(ns % S) };
	return 0;
}

MADE_UP(ssize_t, getrandom, void *to, size_t bytes, unsigned flags)
{
	assert_int_equal(flags, 0);
	assert_int_equal(bytes, sizeof drawn);
	memcpy(to, &drawn, bytes);
	errno = EIO;
	return no_numbers ? -1 : (ssize_t)bytes;
}

MADE_UP(int, db_open, const char *dir, bool may_lose, bool is_members, struct db **out, struct err *e)
{
	(void)e;
	*out = NULL;
	if (call("open:%s:%u:%u ", dir, may_lose, is_members))
		return -1;
	*out = db;
	return 0;
}

MADE_UP(void, db_close, struct db **out)
{
	call(*out ? "close " : "none ");
	*out = NULL;
}

MADE_UP(uint64_t, db_reserve_bytes, const struct db *of) { return of == db ? 4000 : 0; }
MADE_UP(uint64_t, folder_free_bytes, const char *dir) { return strcmp(dir, "/data") ? 0 : 12345; }

MADE_UP(int, db_sync, struct db *of, struct err *e)
{
	int rc = call(of == db ? "sync " : "?");

	*e = err;
	return rc;
}

MADE_UP(int, db_flush, struct db *of, struct err *e)
{
	int rc = call(of == db ? "flush " : "?");

	*e = err;
	return rc;
}

MADE_UP(int, folder_read_member, const char *dir, struct folder_member *m, struct err *e)
{
	assert_int_equal(m->incarnation, 0);
	if (is_there > 0)
		*m = there;
	call("read:%s ", dir);
	return is_there < 0 ? err_set(e, -1, "no reading") : is_there;
}

MADE_UP(int, folder_write_member, const char *dir, const struct folder_member *m, struct err *e)
{
	(void)e;
	there = *m;
	return call("write:%s ", dir);
}

MADE_UP(void, db_batch_note, struct db *of, const struct durable_note *note)
{
	call(of == db ? "note%u " : "?", note->stripe);
}

MADE_UP(void, db_batch_unsee, struct db *of) { call(of == db ? "unsee " : "?"); }

MADE_UP(int, db_batch_write, struct db *of, bool sync, struct err *e)
{
	(void)e;
	return call(of == db ? "write%u " : "?", sync);
}

MADE_UP(int, db_walk_notes, struct db *of, int (*each)(void *arg, const struct durable_note *note), void *arg,
	struct err *e)
{
	const struct durable_note note = { .stripe = 8 };

	return of == db && e == &err ? each(arg, &note) : -1;
}

MADE_UP(int, db_seen, const struct db *of, uint64_t reign, uint64_t *number, struct err *e)
{
	*number = reign + 1;
	return of == db && e == &err ? 0 : -1;
}

static uint64_t clock_ms(const void *arg)
{
	return arg == &options ? CLOCK_MS : 0;
}

static int try_open(void)
{
	return durable_open(&options, (struct durable_clock){ clock_ms, &options }, &d, &err);
}

static void open_it(void)
{
	if (try_open())
		fail_msg("%s", err.text);
}

static void expect_refused(const char *text, const char *words)
{
	assert_int_equal(try_open(), -1);
	assert_null(d);
	assert_string_equal(err.text, text);
	expect_calls(words);
}

/* ------------------------------------------------------------------------- opened */

static void test_opened(void **state)
{
	struct durable_stats s;

	(void)state;
	open_it();
	expect_calls("open:/data:1:0 ");
	assert_int_equal(durable_incarnation(d), 0);
	durable_stats(d, &s);
	assert_false(s.sync);
	assert_int_equal(s.disk_free_bytes, 12345);
	assert_int_equal(s.lag_ns, 0);
	durable_close(&d);
	assert_null(d);
	expect_calls("close "); /* nothing was written */
	durable_close(&d);
	expect_calls("");
	options.durability = DURABILITY_SYNC;
	open_it();
	expect_calls("open:/data:0:0 ");
	durable_stats(d, &s);
	assert_true(s.sync);
	durable_close(&d);
	calls[0] = '\0';
	fails = "open:/data:0:0 ";
	expect_refused("no open:/data:0:0 ", "open:/data:0:0 none ");
	fails_at = 1;
	expect_refused("out of memory", "");
}

static void test_started(void **state)
{
	(void)state;
	options.durability = DURABILITY_SYNC;
	open_it();
	assert_int_equal(durable_start(d, &err), 0);
	assert_int_equal(threads_begun, 1);
	calls[0] = '\0';
	durable_close(&d);
	expect_calls("sync flush close ");
	assert_int_equal(joined, 1);
	fails = "sync ";
	open_it();
	assert_int_equal(durable_start(d, &err), 0);
	calls[0] = '\0';
	durable_close(&d);
	expect_calls("sync close ");
	fails = "flush ";
	open_it();
	assert_int_equal(durable_start(d, &err), 0);
	durable_close(&d);
	said_end();
	assert_int_equal(said_lines("no sync "), 1);
	assert_int_equal(said_lines("no flush "), 1);
	said_begin();
}

static void test_not_started(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 2; i++) {
		open_it();
		threads_begun = 0;
		thread_that_fails = i;
		assert_int_equal(durable_start(d, &err), -1);
		assert_string_equal(err.text, "can't start the commit thread: Resource temporarily unavailable");
		assert_int_equal(threads_begun, i);
		calls[0] = '\0';
		durable_close(&d);
		expect_calls("close ");
		assert_int_equal(joined, i - 1);
	}
}

/* -------------------------------------------------------------------- which table it is */

static void test_a_new_table(void **state)
{
	(void)state;
	options.is_members = true;
	options.durability = DURABILITY_SYNC;
	drawn = 0x1234567890;
	open_it();
	expect_calls("open:/data:0:1 read:/data write:/data ");
	assert_int_equal(durable_incarnation(d), 0x1234567890);
	assert_int_equal(there.incarnation, 0x1234567890);
	assert_int_equal(there.stripes, 64);
	assert_int_equal(there.cluster, 9);
	durable_close(&d);
	drawn = 0; /* is none */
	open_it();
	assert_int_equal(durable_incarnation(d), 1);
	durable_close(&d);
	calls[0] = '\0';
	fails = "write:/data ";
	expect_refused("no write:/data ", "open:/data:0:1 read:/data write:/data close ");
	no_numbers = true;
	expect_refused("no random numbers: Input/output error", "open:/data:0:1 read:/data close ");
}

/* The same after a restart, where nothing can be missing. */
static void test_the_same_table(void **state)
{
	(void)state;
	options.is_members = true;
	options.durability = DURABILITY_SYNC;
	is_there = 1;
	drawn = 8;
	open_it();
	expect_calls("open:/data:0:1 read:/data ");
	assert_int_equal(durable_incarnation(d), 4);
	durable_close(&d);
	options.durability = DURABILITY_ASYNC;
	calls[0] = '\0';
	open_it();
	expect_calls("open:/data:1:1 read:/data write:/data ");
	assert_int_equal(durable_incarnation(d), 8);
	assert_int_equal(there.incarnation, 8);
}

static void test_another_table(void **state)
{
	(void)state;
	options.is_members = true;
	is_there = 1;
	there.cluster = 10;
	expect_refused("/data has the data of a member of another cluster, which has another key: name another folder",
		       "open:/data:1:1 read:/data close ");
	there.cluster = 9;
	there.stripes = 128;
	expect_refused("/data has the data of a table of 128 lock stripes, and this one has 64: start kvd with the "
		       "same --memory as before", "open:/data:1:1 read:/data close ");
	is_there = -1;
	expect_refused("no reading", "open:/data:1:1 read:/data close ");
}

/* ------------------------------------------------------------------------ a member's */

static int note_rc(void *arg, const struct durable_note *note)
{
	return arg == &there && note->stripe == 8 ? 6 : 0;
}

static void test_notes(void **state)
{
	const struct durable_note note = { .stripe = 3 };
	uint64_t number = 0;

	(void)state;
	open_it();
	calls[0] = '\0';
	assert_int_equal(durable_notes(d, note_rc, &there, &err), 6);
	assert_int_equal(durable_was_seen(d, 41, &number, &err), 0);
	assert_int_equal(number, 42);
	durable_renote(d, &note);
	expect_calls("note3 ");
	assert_int_equal(durable_renoted(d, &err), 0);
	expect_calls("unsee write1 ");
	fails = "write1 ";
	assert_int_equal(durable_renoted(d, &err), -1);
}

static void test_times(void **state)
{
	(void)state;
	open_it();
	assert_int_equal(durable_wall_ms(d, 0), 0);
	assert_int_equal(durable_wall_ms(d, CLOCK_MS), WALL_MS);
	assert_int_equal(durable_wall_ms(d, CLOCK_MS + 7), WALL_MS + 7);
	assert_int_equal(durable_wall_ms(d, 1), WALL_MS - CLOCK_MS + 1);
	assert_int_equal(durable_expiry_ms(d, 0), 0);
	assert_int_equal(durable_expiry_ms(d, 1), 1);
	assert_int_equal(durable_expiry_ms(d, WALL_MS), 1);
	assert_int_equal(durable_expiry_ms(d, WALL_MS + 1), CLOCK_MS + 1);
	assert_int_equal(durable_expiry_ms(d, WALL_MS + 70), CLOCK_MS + 70);
}

static void expect_seen(uint64_t reign, uint64_t number, bool is_new)
{
	assert_int_equal(d->seen_reign, reign);
	assert_int_equal(d->seen_number, number);
	assert_int_equal(d->is_seen_new, is_new);
	d->is_seen_new = false;
}

static void test_seen(void **state)
{
	(void)state;
	open_it();
	durable_seen(d, 2, 10);
	expect_seen(2, 10, true);
	durable_seen(d, 2, 10);
	expect_seen(2, 10, false);
	durable_seen(d, 2, 9);
	expect_seen(2, 10, false);
	durable_seen(d, 1, 11);
	expect_seen(2, 10, false);
	durable_seen(d, 2, 11);
	expect_seen(2, 11, true);
	durable_seen(d, 3, 1);
	expect_seen(3, 1, true);
}

/* The oldest that is not synced: before the sync under way, or since. */
static void test_lag(void **state)
{
	static const struct { uint64_t syncing_ns, unsynced_ns, lag_ns; } lags[] = {
		{ 0, 0, 0 }, { 0, 30 * S, 70 * S }, { 20 * S, 0, 80 * S }, { 20 * S, 30 * S, 80 * S },
		{ 40 * S, 10 * S, 90 * S },
	};
	struct durable_stats s;

	(void)state;
	open_it();
	for (unsigned i = 0; i < 5; i++) {
		atomic_store(&d->syncing_ns, lags[i].syncing_ns);
		atomic_store(&d->unsynced_ns, lags[i].unsynced_ns);
		durable_stats(d, &s);
		assert_int_equal(s.lag_ns, lags[i].lag_ns);
	}
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	options = (struct durable_options){ .dir = "/data", .durability = DURABILITY_ASYNC, .lag_ms = 1000,
					    .stripes = 64, .cluster = 9 };
	there = (struct folder_member){ .incarnation = 4, .stripes = 64, .cluster = 9 };
	is_there = 0;
	no_numbers = false;
	fails = NULL;
	threads_begun = joined = thread_that_fails = 0;
	now_ns = 100 * S;
	said_begin();
	calls[0] = '\0';
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	durable_close(&d);
	said_end();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_opened), TEST(test_started), TEST(test_not_started), TEST(test_a_new_table),
		TEST(test_the_same_table), TEST(test_another_table), TEST(test_notes), TEST(test_times),
		TEST(test_seen), TEST(test_lag),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
