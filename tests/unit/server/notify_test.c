/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/platform/sd_notify.h: what comes at the manager's socket, under each kind of name, and what
 * is said where it can't be told.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/platform/sd_notify.h"
#include "tests/lib/group.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/said.h"

#define PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

static char dir[] = "/tmp/notify_test.XXXXXX";
static int manager = -1;
static char got[1024];

/* A manager whose socket has that name; a '@' first stands for a zero byte. */
static void listen_at(const char *name)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t n = strlen(name);

	assert_true(n < PATH_BYTES);
	memcpy(sun.sun_path, name, n);
	if (name[0] == '@')
		sun.sun_path[0] = '\0';
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(manager >= 0);
	assert_int_equal(bind(manager, (struct sockaddr *)&sun,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
}

/* The only datagram that came, or NULL. */
static const char *take(void)
{
	ssize_t n = recv(manager, got, sizeof got - 1, 0);
	char more;

	if (n < 0)
		return NULL;
	got[n] = '\0';
	assert_int_equal(strlen(got), n);
	assert_int_equal(recv(manager, &more, 1, 0), -1);
	return got;
}

/* What is said of it; no descriptor is left. */
static const char *notify(const char *status)
{
	int files = count_descriptors();

	said_begin();
	notify_manager("READY=%d\nSTATUS=%s", 1, status);
	const char *text = said_end();
	assert_int_equal(count_descriptors(), files);
	return text;
}

static void expect_told(const char *name)
{
	listen_at(name);
	assert_string_equal(notify("serves"), "");
	assert_string_equal(take(), "READY=1\nSTATUS=serves");
	close(manager);
}

/* So many bytes, below the folder. */
static const char *name_of(size_t n)
{
	static char name[256];
	size_t begin = (size_t)snprintf(name, sizeof name, "%s/", dir);

	memset(name + begin, 'n', n - begin);
	name[n] = '\0';
	return name;
}

static void test_told(void **state)
{
	char name[64];

	(void)state;
	expect_told(name_of(40));
	expect_told(name_of(PATH_BYTES - 1));
	snprintf(name, sizeof name, "@kvd-notify-test-%ld", (long)getpid());
	expect_told(name);
}

/* It is cut, neither lost nor more than there is. */
static void test_long(void **state)
{
	char status[600];

	(void)state;
	listen_at(name_of(40));
	for (size_t n = 490; n < 500; n++) {
		memset(status, 's', sizeof status);
		status[n] = '\0';
		assert_string_equal(notify(status), "");
		assert_non_null(take());
		assert_int_equal(strlen(got), 15 + n < 511 ? 15 + n : 511);
		assert_memory_equal(got, "READY=1\nSTATUS=sss", 18);
		assert_int_equal(got[strlen(got) - 1], 's');
	}
	close(manager);
}

static void test_nobody(void **state)
{
	(void)state;
	unsetenv("NOTIFY_SOCKET");
	assert_string_equal(notify("x"), "");
	setenv("NOTIFY_SOCKET", "", 1);
	assert_string_equal(notify("x"), "");
}

static void expect_not_told(const char *name, const char *why)
{
	char line[512];

	setenv("NOTIFY_SOCKET", name, 1);
	snprintf(line, sizeof line, "can't tell the service manager at NOTIFY_SOCKET=%s: %s", name, why);
	notify("x");
	assert_int_equal(said_lines(line), 1);
}

static void test_no_socket(void **state)
{
	static const char none[] = "it is no path of a socket";

	(void)state;
	expect_not_told("vsock:2:1", none);
	expect_not_told("run/notify", none);
	expect_not_told("/", none);
	expect_not_told("@", none);
	expect_not_told(name_of(PATH_BYTES), none);
	expect_not_told(name_of(PATH_BYTES + 20), none);
	expect_not_told("/x", strerror(ENOENT));
	expect_not_told("@y", strerror(ECONNREFUSED));
	expect_not_told(name_of(PATH_BYTES - 2), strerror(ENOENT));
}

/* It does not wait for a manager that takes nothing. */
static void test_full(void **state)
{
	const char *name = name_of(41);
	unsigned n = 0;

	(void)state;
	listen_at(name);
	while (!*notify("x"))
		assert_true(++n < 100000);
	assert_true(n > 0);
	expect_not_told(name, strerror(EAGAIN));
	close(manager);
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int clear(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s/*", dir);
	return system(command);
}

static int end(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_told, clear),
		cmocka_unit_test_teardown(test_long, clear),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_no_socket),
		cmocka_unit_test_teardown(test_full, clear),
	};

	return GROUP_RUN(tests, begin, end);
}
