/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/access/gate.h: the users file is watched, and where it can't be, kvd says so and serves all
 * the same.  inotify is made up: a pipe.  Who gets in: users_test.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/access/gate.h"
#include "tests/lib/group.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

static char folder[] = "/tmp/gate_test.XXXXXX";
static char path[64];
static struct gate *gate;
static struct err err;

/* ------------------------------------------------------------------------ made up */

static int init_error, watch_error; /* errno of what fails; 0: nothing does */
static bool any_file; /* each path is one of a users file */
static int events = -1; /* where they are written */
static unsigned watches;
static char watched[4096];

int __real_users_load(const char *from, struct users **users, struct err *to);

MADE_UP(int, inotify_init1, int flags)
{
	int fds[2];

	assert_int_equal(flags, IN_CLOEXEC | IN_NONBLOCK);
	errno = init_error;
	if (init_error)
		return -1;
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	events = fds[1];
	return fds[0];
}

MADE_UP(int, inotify_add_watch, int fd, const char *where, uint32_t mask)
{
	assert_true(fd >= 0);
	assert_int_equal(mask, IN_CLOSE_WRITE | IN_MOVED_TO);
	snprintf(watched, sizeof watched, "%s", where);
	watches++;
	errno = watch_error;
	return watch_error ? -1 : 0; /* 0 is one that is good */
}

MADE_UP(int, users_load, const char *from, struct users **users, struct err *to)
{
	if (!any_file)
		return __real_users_load(from, users, to);
	*users = users_new();
	return *users ? 0 : -1;
}

static void happens(uint32_t mask, const char *name)
{
	union {
		struct inotify_event event;
		char bytes[sizeof(struct inotify_event) + 32];
	} e = { .event = { .mask = mask } };
	size_t bytes = sizeof e.event;

	if (name) {
		e.event.len = 32;
		snprintf(e.bytes + sizeof e.event, 32, "%s", name);
		bytes += 32;
	}
	assert_int_equal(write(events, &e, bytes), bytes);
}

/* -------------------------------------------------------------------------- gates */

static int add(struct users *users, const char *name)
{
	struct auth_secret secret;

	return users_add(users, name, ROLE_READ, &secret, &err);
}

static int begin(void **state)
{
	(void)state;
	if (auth_init() || !mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/users", folder);
	struct users *users = users_new();
	int rc = !users || add(users, "anne") || add(users, "will") || users_save(users, path, true, &err);
	users_delete(&users);
	return rc ? -1 : 0;
}

static int end(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static int set_up(void **state)
{
	(void)state;
	init_error = watch_error = 0;
	any_file = false;
	watches = 0;
	watched[0] = '\0';
	return 0;
}

static void close_gate(void)
{
	gate_delete(&gate);
	assert_null(gate);
	if (events >= 0)
		close(events);
	events = -1;
}

/* What gate_new() says; meanwhile it is known how many lines of a warning there were. */
static int open_gate(const char *users)
{
	const struct gate_config config = { .users = users };

	said_begin();
	int rc = gate_new(&config, &gate, &err);
	said_end();
	return rc;
}

/* -------------------------------------------------------------------------- tests */

/* The folder is watched, for a file that is replaced is another one; and nothing is to be done. */
static void test_watched(void **state)
{
	int open = count_descriptors();
	char line[128];

	(void)state;
	assert_int_equal(open_gate(path), 0);
	if (said_lines(""))
		fail_msg("the users file is watched, and there is a line about it");
	assert_true(gate_fd(gate) >= 0);
	assert_int_equal(watches, 1);
	assert_string_equal(watched, folder);
	snprintf(line, sizeof line, "2 users of %s may connect", path);
	assert_string_equal(gate_line(gate), line);
	close_gate();
	assert_int_equal(count_descriptors(), open);
}

/* Who reads the log knows why, and what to do after a change; kvd serves. */
static void expect_warning(int error)
{
	int open = count_descriptors();
	unsigned users = 0;
	char line[256];

	assert_int_equal(open_gate(path), 0);
	snprintf(line, sizeof line, "can't watch %s (%s): send SIGHUP after a change of it", path, strerror(error));
	if (said_lines(line) != 1)
		fail_msg("no line '%s'", line);
	assert_int_equal(said_lines(""), 1);
	assert_int_equal(gate_reload(gate, &users), GATE_CHANGED);
	assert_int_equal(users, 2);
	close_gate();
	assert_int_equal(count_descriptors(), open);
}

static void test_not_watched(void **state)
{
	(void)state;
	init_error = EMFILE;
	expect_warning(EMFILE);
	assert_int_equal(watches, 0);
	init_error = 0;
	watch_error = ENOSPC;
	expect_warning(ENOSPC);
	assert_int_equal(watches, 1);
}

/* Without users there is nothing to watch. */
static void test_nothing_to_watch(void **state)
{
	const struct gate_config config = { .is_local = true };
	unsigned users;

	(void)state;
	said_begin();
	assert_int_equal(gate_new(&config, &gate, &err), 0);
	said_end();
	assert_int_equal(said_lines(""), 0);
	assert_int_equal(gate_fd(gate), -1);
	assert_int_equal(watches, 0);
	assert_int_equal(gate_reload(gate, &users), GATE_SAME);
	close_gate();
}

/* What happens to other files of the folder is nothing; where events are lost, it may have been this. */
static void test_touched(void **state)
{
	(void)state;
	assert_int_equal(open_gate(path), 0);
	assert_false(gate_touched(gate));
	happens(IN_MOVED_TO, "users.new");
	happens(IN_CLOSE_WRITE, "user");
	happens(IN_IGNORED, NULL);
	assert_false(gate_touched(gate));
	happens(IN_CLOSE_WRITE, "other");
	happens(IN_MOVED_TO, "users");
	happens(IN_CLOSE_WRITE, "other");
	assert_true(gate_touched(gate));
	assert_false(gate_touched(gate)); /* once */
	happens(IN_Q_OVERFLOW, NULL);
	assert_true(gate_touched(gate));
	close_gate();
}

/* A path of this many bytes, in folders of short names; its last name is of this many. */
static char *path_of(size_t bytes, size_t name_bytes)
{
	static char text[5000];

	memset(text, 'f', sizeof text);
	for (size_t i = 0; i < bytes - name_bytes; i += 100)
		text[i] = '/';
	text[bytes - name_bytes - 1] = '/';
	text[bytes] = '\0';
	return text;
}

static void test_too_long(void **state)
{
	(void)state;
	any_file = true;
	assert_int_equal(open_gate(path_of(4095, 10)), 0);
	assert_int_equal(strlen(watched), 4095 - 11);
	close_gate();
	assert_int_equal(open_gate(path_of(4096, 10)), -1);
	assert_string_equal(err.text, "--users: the path is too long");
	close_gate();
	assert_int_equal(open_gate(path_of(300, 255)), 0);
	close_gate();
	assert_int_equal(open_gate(path_of(300, 256)), -1);
	assert_string_equal(err.text, "--users: the name is too long");
	close_gate();
	assert_int_equal(watches, 2);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_watched),
		TEST(test_not_watched),
		TEST(test_nothing_to_watch),
		TEST(test_touched),
		TEST(test_too_long),
	};

	return GROUP_RUN(tests, begin, end);
}
