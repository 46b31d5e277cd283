/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/durable/backup.h: one at a time, what is told of it and how often, and paths that are refused.  The
 * copy, its thread and the time are made up.
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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/durable/backup.h"
#include "server/durable/db.h"
#include "server/durable/durable.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#define S 1000000000ull
#define PATH_MAX_BYTES 1024u /* with the end */
#define TURNS_MAX 20000u

static struct durable *d;
static struct err err;
static struct db *const db = (struct db *)(void *)&err;
static char dir[40], path[64], text[2048], copied[64];
static _Atomic uint64_t now_ns;
static atomic_bool may_end, copy_fails;
static atomic_uint copies;
static unsigned joined; /* threads */
static bool no_thread;

/* -------------------------------------------------------------------- made up */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

MADE_UP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return no_thread ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

int __real_pthread_join(pthread_t thread, void **result);

MADE_UP(int, pthread_join, pthread_t thread, void **result)
{
	joined++;
	return __real_pthread_join(thread, result);
}

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ (time_t)(now_ns / S), (long)(now_ns % S) };
	return 0;
}

MADE_UP(int, db_open, const char *of, bool may_lose, bool is_members, struct db **out, struct err *e)
{
	(void)of, (void)may_lose, (void)is_members, (void)e;
	*out = db;
	return 0;
}

MADE_UP(void, db_close, struct db **out) { *out = NULL; }
MADE_UP(uint64_t, db_reserve_bytes, const struct db *of) { return of == db; }

static void moment(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

MADE_UP(int, db_checkpoint, struct db *of, const char *to, struct err *e)
{
	snprintf(copied, sizeof copied, "%s", of == db ? to : "?");
	copies++;
	for (unsigned n = 0; !may_end && n < TURNS_MAX; n++)
		moment();
	return copy_fails ? err_set(e, -1, "no copy") : 0;
}

/* ------------------------------------------------------------------------- kit */

static enum durable_backup ask(const char *of)
{
	memset(text, 'x', sizeof text - 1);
	return durable_backup(d, of, text, sizeof text);
}

__attribute__((format(printf, 1, 2))) static void expect_text(const char *format, ...)
{
	char is[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(is, sizeof is, format, args);
	va_end(args);
	assert_string_equal(text, is);
}

static enum durable_backup ask_until_told(void)
{
	for (unsigned n = 0; n < TURNS_MAX; n++) {
		enum durable_backup is = ask(path);
		if (is != BACKUP_RUNNING)
			return is;
		expect_text("%s is being made", path);
		moment();
	}
	return BACKUP_RUNNING;
}

static void expect_said(const char *line)
{
	said_end();
	unsigned lines = said_lines(line);
	said_begin();
	assert_int_equal(lines, 1);
}

/* -------------------------------------------------------------------------- tests */

static void test_made(void **state)
{
	char other[64];

	(void)state;
	snprintf(other, sizeof other, "%s/other", dir);
	for (unsigned i = 1; i <= 2; i++) { /* told once: then the same path is another copy */
		may_end = false;
		assert_int_equal(ask(path), BACKUP_RUNNING);
		expect_text("%s is being made", path);
		assert_int_equal(ask(path), BACKUP_RUNNING);
		assert_int_equal(ask(other), BACKUP_FAILED);
		expect_text("another backup is being made: %s", path);
		for (unsigned n = 0; copies < i; n++, moment())
			assert_true(n < TURNS_MAX);
		now_ns += 5 * S / 4;
		may_end = true;
		assert_int_equal(ask_until_told(), BACKUP_DONE);
		expect_text("%s made in 1.25 s", path);
		assert_int_equal(copies, i);
		assert_string_equal(copied, path);
	}
	said_end();
	char line[128];
	snprintf(line, sizeof line, "backup of all changes until now in %s, made in 1.25 s", path);
	assert_int_equal(said_lines(line), 2);
	said_begin();
}

static void test_failed(void **state)
{
	(void)state;
	copy_fails = may_end = true;
	assert_int_equal(ask(path), BACKUP_RUNNING);
	assert_int_equal(ask_until_told(), BACKUP_FAILED);
	expect_text("no copy");
	expect_said("backup: no copy");
	copy_fails = false;
	assert_int_equal(ask(path), BACKUP_RUNNING);
	assert_int_equal(ask_until_told(), BACKUP_DONE);
}

/* Who never asks again does not keep others from theirs. */
static void test_not_asked_for(void **state)
{
	char other[64];

	(void)state;
	snprintf(other, sizeof other, "%s/other", dir);
	may_end = true;
	assert_int_equal(ask(other), BACKUP_RUNNING);
	unsigned n = 0;
	while (ask(path) == BACKUP_FAILED && n++ < TURNS_MAX)
		moment();
	expect_text("%s is being made", path);
	assert_int_equal(ask_until_told(), BACKUP_DONE);
	assert_int_equal(copies, 2);
	assert_int_equal(ask(other), BACKUP_RUNNING);
	assert_int_equal(joined, 2);
	durable_close(&d); /* with the thread, which has ended */
	assert_int_equal(copies, 3);
	assert_int_equal(joined, 3);
}

static void test_no_thread(void **state)
{
	(void)state;
	no_thread = true;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ask(path), BACKUP_FAILED);
		expect_text("can't start a thread: %s", strerror(EAGAIN));
	}
	no_thread = false;
	may_end = true;
	assert_int_equal(ask(path), BACKUP_RUNNING);
	assert_int_equal(ask_until_told(), BACKUP_DONE);
	no_thread = true;
	assert_int_equal(ask(path), BACKUP_FAILED);
	assert_int_equal(joined, 1);
	durable_close(&d);
	assert_int_equal(joined, 1);
}

static void test_paths(void **state)
{
	static char is_long[PATH_MAX_BYTES + 8];
	char parent[128];

	(void)state;
	assert_int_equal(ask("backup"), BACKUP_FAILED);
	expect_text("backup: the folder is one of kvd's machine, so name it from / on");
	assert_int_equal(ask(""), BACKUP_FAILED);
	assert_int_equal(ask(dir), BACKUP_FAILED);
	expect_text("%s is there already: name a new folder", dir);
	snprintf(parent, sizeof parent, "%s/none", dir);
	snprintf(is_long, sizeof is_long, "%s/new//", parent);
	assert_int_equal(ask(is_long), BACKUP_FAILED);
	expect_text("%s: there is no folder %s on kvd's machine: make it first", is_long, parent);
	snprintf(parent, sizeof parent, "%s/file", dir);
	FILE *f = fopen(parent, "w");
	assert_non_null(f);
	fclose(f);
	snprintf(is_long, sizeof is_long, "%s/new", parent);
	assert_int_equal(ask(is_long), BACKUP_FAILED);
	expect_text("%s: there is no folder %s on kvd's machine: make it first", is_long, parent);
	memset(is_long, '/', PATH_MAX_BYTES);
	memcpy(is_long, dir, strlen(dir));
	is_long[PATH_MAX_BYTES] = '\0';
	memcpy(is_long + PATH_MAX_BYTES - 4, "/new", 4);
	assert_int_equal(ask(is_long), BACKUP_FAILED);
	expect_text("the path is too long");
	assert_int_equal(copies, 0);
	is_long[PATH_MAX_BYTES - 1] = '\0'; /* that has just room */
	may_end = true;
	assert_int_equal(ask(is_long), BACKUP_RUNNING);
}

/* Below / itself, and with slashes behind it. */
static void test_parents(void **state)
{
	(void)state;
	may_end = true;
	assert_int_equal(ask("/kvd-backup-test-of-no-name"), BACKUP_RUNNING);
	strcpy(path, "/kvd-backup-test-of-no-name");
	assert_int_equal(ask_until_told(), BACKUP_DONE);
	snprintf(path, sizeof path, "%s/new///", dir);
	assert_int_equal(ask(path), BACKUP_RUNNING);
	assert_int_equal(ask_until_told(), BACKUP_DONE);
	assert_string_equal(copied, path);
	assert_int_equal(ask("//"), BACKUP_FAILED);
	expect_text("// is there already: name a new folder");
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	const struct durable_options o = { .dir = dir };

	(void)state;
	strcpy(dir, "/tmp/kvd-backup-test.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof path, "%s/new", dir);
	copies = joined = 0;
	may_end = copy_fails = no_thread = false;
	now_ns = 1000 * S;
	said_begin();
	return durable_open(&o, (struct durable_clock){ .arg = NULL }, &d, &err);
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	may_end = true;
	durable_close(&d);
	said_end();
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_made), TEST(test_failed), TEST(test_not_asked_for), TEST(test_no_thread),
		TEST(test_paths), TEST(test_parents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
