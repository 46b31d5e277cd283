/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * durable_load(): each part once, times in kvd's clock, what is told meanwhile, and what ends it.  The
 * database, the time and the terminal are made up.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/durable/db.h"
#include "server/durable/durable.h"
#include "server/durable/folder.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/poll_chk.h"
#include "tests/unit/said.h"

#define S 1000000000ull
#define MIB (1ull << 20)
#define STEP 256u
#define WALL_MS 5000000u
#define CLOCK_MS 1000u
#define ITEMS_MAX 16u
#define WAITS_MAX 20000u

static struct durable *d;
static struct err err;
static struct db *const db = (struct db *)(void *)&err;
static struct db_item items[ITEMS_MAX];
static unsigned item_count;
static atomic_uint walked[DB_PARTS / STEP], threads_begun, joined, polls, loaded;
static int poll_ms[2]; /* the first, and the last */
static _Atomic uint64_t now_ns;
static atomic_bool is_at_gate, is_stopping;
static unsigned gate; /* the step before which the walk waits */
static unsigned item_gate; /* the item before which it waits */
static unsigned others; /* keys for which it waits there */
static uint64_t pauses_ns[4];
static _Atomic unsigned pauses; /* that are left, while it waits */
static unsigned thread_that_fails; /* from 1 */
static bool is_terminal, sync_fails, walk_fails, walks_for_ever;
static int load_rc;
static char calls[32];

/* -------------------------------------------------------------------- made up */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

int __real_pthread_join(pthread_t thread, void **result);

MADE_UP(int, pthread_join, pthread_t thread, void **result)
{
	joined++;
	return __real_pthread_join(thread, result);
}

static void moment(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

MADE_UP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	if (++threads_begun == thread_that_fails)
		return EAGAIN;
	return __real_pthread_create(thread, attr, run, arg);
}

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	uint64_t ns = clock == CLOCK_REALTIME ? WALL_MS * 1000000ull : now_ns;

	*ts = (struct timespec){ (time_t)(ns / S), (long)(ns % S) };
	return 0;
}

/* Where the walk waits, time goes on by a pause. */
MADE_UP(int, poll, struct pollfd *fds, nfds_t n, int timeout_ms)
{
	assert_true(!fds && !n);
	poll_ms[polls++ > 0] = timeout_ms;
	moment();
	if (!is_at_gate)
		return 0;
	if (pauses)
		now_ns += pauses_ns[--pauses];
	else
		is_at_gate = false;
	return 0;
}

MADE_UP(int, isatty, int fd) { return fd == STDERR_FILENO && is_terminal; }

MADE_UP(int, db_open, const char *dir, bool may_lose, bool is_members, struct db **out, struct err *e)
{
	(void)dir, (void)may_lose, (void)is_members, (void)e;
	*out = db;
	return 0;
}

MADE_UP(void, db_close, struct db **out) { *out = NULL; }
MADE_UP(uint64_t, db_reserve_bytes, const struct db *of) { return of == db; }
MADE_UP(uint64_t, folder_free_bytes, const char *dir) { return strlen(dir); }

MADE_UP(uint64_t, db_version, const struct db *of)
{
	return of == db ? 77 : 0;
}

MADE_UP(int, db_sync, struct db *of, struct err *e)
{
	strcat(calls, of == db ? "sync " : "?");
	return sync_fails ? err_set(e, -1, "no sync") : 0;
}

static void wait_at_gate(void)
{
	is_at_gate = !others;
	for (unsigned n = 0; (is_at_gate || loaded < others) && n < WAITS_MAX; n++)
		moment();
}

MADE_UP(int, db_walk, struct db *of, uint32_t from, uint32_t to,
	int (*each)(void *arg, const struct db_item *item), void *arg, struct err *e)
{
	int rc = 0;

	if (of != db || from % STEP || to != from + STEP || walked[from / STEP]++)
		return err_set(e, -1, "a walk of %u to %u", from, to);
	if (gate && from == gate * STEP)
		wait_at_gate();
	for (unsigned n = 0; walks_for_ever && !rc && n < WAITS_MAX; n++, moment())
		rc = each(arg, &items[0]);
	for (unsigned i = 0; i < item_count && !rc; i++) {
		if (items[i].part < from || items[i].part >= to)
			continue;
		if (item_gate && i == item_gate)
			wait_at_gate();
		rc = each(arg, &items[i]);
	}
	return walk_fails && !rc ? err_set(e, -1, "no walk") : rc;
}

/* ---------------------------------------------------------------------- the sink */

static struct durable_record got[ITEMS_MAX];
static unsigned thread_of[ITEMS_MAX];
static uint64_t version_set;

static int take(void *arg, unsigned thread, const struct durable_record *record)
{
	unsigned n = loaded++;

	if (arg != &items || load_rc)
		return load_rc ? load_rc : EINVAL;
	if (n < ITEMS_MAX) {
		got[n] = *record;
		thread_of[n] = thread;
	}
	return 0;
}

static void set_version(void *arg, uint64_t version)
{
	strcat(calls, arg == &items ? "version " : "?");
	version_set = version;
}

static const struct durable_sink sink = { take, set_version, &items };

static bool stop(void *arg)
{
	return arg == &calls && is_stopping && walked[0]; /* the walk has begun */
}

static int load(unsigned threads)
{
	return durable_load(d, &sink, threads, stop, &calls, &err);
}

static struct db_item *add_item(uint32_t part, uint64_t expiry_ms)
{
	static const char keys[] = "abcdefghijklmnop";
	struct db_item *item = &items[item_count];

	*item = (struct db_item){ .key = keys + item_count, .key_bytes = 1, .value = "v", .value_bytes = 1,
				  .version = 100 + item_count, .part = part, .with = { expiry_ms, 5, 2 } };
	item_count++;
	return item;
}

static void expect_failed(int rc, const char *text)
{
	assert_int_equal(rc, -1);
	assert_string_equal(err.text, text);
	assert_string_equal(calls, "");
}

static void expect_said(const char *text, unsigned lines)
{
	said_end();
	unsigned is = said_lines(text);
	said_begin();
	assert_int_equal(is, lines);
}

static struct durable_stats stats(void)
{
	struct durable_stats s;

	durable_stats(d, &s);
	return s;
}

/* -------------------------------------------------------------------------- tests */

static void test_each_part_once(void **state)
{
	(void)state;
	for (unsigned threads = 1; threads < 8; threads += 3) {
		item_count = 0;
		loaded = 0;
		calls[0] = '\0';
		for (unsigned i = 0; i < ITEMS_MAX; i++)
			add_item(i == ITEMS_MAX - 1 ? DB_PARTS - 1 : i * 4000, 0);
		assert_int_equal(load(threads), 0);
		for (unsigned i = 0; i < DB_PARTS / STEP; i++)
			assert_int_equal(atomic_exchange(&walked[i], 0), 1);
		assert_int_equal(loaded, ITEMS_MAX);
		for (unsigned i = 0; i < ITEMS_MAX; i++)
			assert_true(thread_of[i] < threads);
		assert_string_equal(calls, "sync version ");
		assert_int_equal(version_set, 77);
		assert_int_equal(stats().loaded_keys, ITEMS_MAX);
	}
	assert_int_equal(threads_begun, 1 + 4 + 7);
	assert_int_equal(joined, threads_begun);
}

static void test_threads(void **state)
{
	(void)state;
	gate = 1; /* one waits, the other does all the rest */
	others = 8;
	for (unsigned i = 0; i < others; i++)
		add_item(8192 * i, 0);
	add_item(STEP, 0);
	assert_int_equal(load(2), 0);
	assert_int_equal(loaded, 9);
	bool both[2] = { false };
	for (unsigned i = 0; i < 9; i++)
		both[thread_of[i]] = true;
	assert_true(both[0] && both[1]);
}

static void test_records(void **state)
{
	(void)state;
	add_item(0, 0);
	add_item(1, WALL_MS);
	add_item(2, WALL_MS + 1);
	add_item(3, WALL_MS - 1);
	add_item(3, LAYOUT_EXPIRY_MS_MAX);
	assert_int_equal(load(1), 0);
	assert_int_equal(loaded, 3);
	for (unsigned i = 0; i < 3; i++) {
		const struct db_item *item = &items[2 * i];
		assert_ptr_equal(got[i].key, item->key);
		assert_int_equal(got[i].key_bytes, 1);
		assert_ptr_equal(got[i].value, item->value);
		assert_int_equal(got[i].value_bytes, 1);
		assert_int_equal(got[i].version, item->version);
		assert_int_equal(got[i].with.flags, 5);
		assert_int_equal(got[i].with.signs, 2);
	}
	assert_int_equal(got[0].with.expiry_ms, 0);
	assert_int_equal(got[1].with.expiry_ms, CLOCK_MS + 1);
	assert_int_equal(got[2].with.expiry_ms, LAYOUT_EXPIRY_MS_MAX - WALL_MS + CLOCK_MS);
	assert_int_equal(stats().loaded_keys, 3);
	expect_said("with 1 threads; of others the time is over", 1);
}

static void test_told(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++)
		add_item(i, 0)->value_bytes = 999999;
	add_item(40000, 0)->value_bytes = 1999999;
	gate = 128;
	pauses = 3;
	pauses_ns[2] = 5 * S;
	pauses_ns[1] = 5 * S - 1;
	pauses_ns[0] = 1;
	assert_int_equal(load(1), 0);
	said_end();
	assert_int_equal(said_lines("loading /data: "), 2);
	assert_int_equal(said_lines("loading /data: 50 %, 10 keys, 2 a second, 5 s to go"), 1);
	assert_int_equal(said_lines("loading /data: 50 %, 10 keys, 1 a second, 10 s to go"), 1);
	assert_int_equal(said_lines("loaded 11 keys of 12.0 MB from /data in 10.00 s, 1 a second, with 1 threads"), 1);
	assert_int_equal(said_lines("the time is over"), 0);
	said_begin();
	assert_int_equal(stats().load_ns, 10 * S);
	assert_int_equal(poll_ms[0], 1);
	assert_int_equal(poll_ms[1], 100);
}

/* How long it will take is told when some of it is done. */
static void test_told_early(void **state)
{
	(void)state;
	for (gate = 1; gate < 3; gate++) {
		memset(walked, 0, sizeof walked);
		pauses = 1;
		pauses_ns[0] = 5 * S;
		calls[0] = '\0';
		assert_int_equal(load(1), 0);
		said_end();
		assert_int_equal(said_lines("loading /data: "), 1);
		assert_int_equal(said_lines(": 0 %, 0 keys, 0 a second"), gate == 1);
		assert_int_equal(said_lines(": 1 %, 0 keys, 0 a second, 635 s to go"), gate == 2);
		assert_int_equal(said_lines("to go"), gate == 2);
		said_begin();
	}
}

/* Within a step, too: the parts that are done, and the keys in them. */
static void test_told_within_a_step(void **state)
{
	(void)state;
	add_item(STEP, 0);
	add_item(STEP + 128, 0);
	add_item(STEP + 144, 0);
	add_item(STEP + 145, 0);
	item_gate = 3;
	pauses = 1;
	pauses_ns[0] = 5 * S;
	assert_int_equal(load(1), 0);
	expect_said("loading /data: 1 %, 2 keys, 0 a second, 814 s to go", 1);
}

static void test_told_on_a_terminal(void **state)
{
	(void)state;
	is_terminal = true;
	for (unsigned i = 0; i < 10; i++)
		add_item(i, 0);
	gate = 128;
	pauses = 2;
	pauses_ns[1] = S / 2 - 1;
	pauses_ns[0] = 1;
	assert_int_equal(load(1), 0);
	const char *said = said_end();
	const char *line = strstr(said, "\rloading:  50 %, 10 keys, 20 a second, 0 s to go   ");
	bool is_once = line && !strstr(line + 9, "loading") && strstr(line, "\r\033[K");
	said_begin();
	assert_true(is_once);
}

/* ---------------------------------------------------------------------- what ends it */

static void test_does_not_fit(void **state)
{
	(void)state;
	add_item(0, 0);
	load_rc = ENOMEM;
	expect_failed(load(1), "the data in /data does not fit: 0 keys of 0 MiB were loaded when the memory was "
			       "full; start kvd with more --memory");
	assert_int_equal(loaded, 1);
}

static int refuse_third(void *arg, unsigned thread, const struct durable_record *record)
{
	(void)arg, (void)thread, (void)record;
	return ++loaded == 3 ? load_rc : 0;
}

static void test_refused(void **state)
{
	const struct durable_sink third = { refuse_third, set_version, &items };

	(void)state;
	add_item(0, 0)->value_bytes = 3 * MIB - 1;
	add_item(0, 0)->value_bytes = 2 * MIB - 2;
	add_item(0, 0)->key_bytes = 300;
	add_item(0, 0);
	load_rc = ENOMEM;
	expect_failed(durable_load(d, &third, 1, stop, &calls, &err),
		      "the data in /data does not fit: 2 keys of 4 MiB were loaded when the memory was full; start "
		      "kvd with more --memory");
	load_rc = EINVAL;
	loaded = 0;
	memset(walked, 0, sizeof walked);
	expect_failed(durable_load(d, &third, 3, stop, &calls, &err),
		      "/data has a key of 300 bytes, which is not one that this kvd stores");
	assert_int_equal(loaded, 3);
	assert_int_equal(stats().loaded_keys, 0);
	expect_said("loaded", 0);
}

static void test_fails(void **state)
{
	(void)state;
	walk_fails = true;
	expect_failed(load(3), "no walk");
	walk_fails = false;
	memset(walked, 0, sizeof walked);
	sync_fails = true;
	assert_int_equal(load(1), -1);
	assert_string_equal(calls, "sync ");
	assert_string_equal(err.text, "no sync");
	calls[0] = '\0';
	fails_at = 1;
	expect_failed(load(1), "can't load /data: Cannot allocate memory");
	threads_begun = joined = 0;
	thread_that_fails = 3;
	memset(walked, 0, sizeof walked);
	expect_failed(load(4), "can't load /data: Resource temporarily unavailable");
	assert_int_equal(threads_begun, 3);
	assert_int_equal(joined, 2);
}

static void test_stopped(void **state)
{
	(void)state;
	add_item(0, 0);
	walks_for_ever = true;
	is_stopping = true;
	expect_failed(load(2), "stopped while it loaded /data");
	assert_true(walked[0] == 1 && walked[DB_PARTS / STEP - 1] == 0);
	assert_int_equal(version_set, 0);
}

/* -------------------------------------------------------------------------- group */

static uint64_t clock_ms(const void *arg)
{
	return arg == &items ? CLOCK_MS : 0;
}

static int set_up(void **state)
{
	const struct durable_options o = { .dir = "/data" };

	(void)state;
	loaded = threads_begun = joined = polls = 0;
	pauses = 0;
	item_count = gate = others = item_gate = thread_that_fails = 0;
	memset(walked, 0, sizeof walked);
	is_at_gate = is_stopping = is_terminal = sync_fails = walk_fails = walks_for_ever = false;
	load_rc = 0;
	version_set = 0;
	now_ns = 1000 * S;
	said_begin();
	int rc = durable_open(&o, (struct durable_clock){ clock_ms, &items }, &d, &err);
	calls[0] = '\0';
	return rc;
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
		TEST(test_each_part_once), TEST(test_threads), TEST(test_records), TEST(test_told),
		TEST(test_told_early), TEST(test_told_within_a_step), TEST(test_told_on_a_terminal),
		TEST(test_does_not_fit), TEST(test_refused), TEST(test_fails), TEST(test_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
