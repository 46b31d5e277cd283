/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/log.h: what a line is made of, where it goes, and what of it is left where it can't be sent.
 * /dev and /run are this test's own, in a mount namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/log.h"
#include "tests/unit/said.h"

#define NAME "log_test"
#define LINE_BYTES 1024 /* with the newline */

/* The log's own write(): how many bytes it takes at once, and how often it is interrupted before. */
static size_t takes = LINE_BYTES;
static unsigned interrupts, writes;
static bool fails;

ssize_t write(int fd, const void *data, size_t bytes)
{
	if (++writes > 10000)
		abort(); /* without end */
	if (fails || interrupts > 0) {
		errno = fails ? EIO : EINTR;
		interrupts -= !fails;
		return -1;
	}
	return syscall(SYS_write, fd, data, bytes < takes ? bytes : takes);
}

static const char *say(enum log_level level, const char *text)
{
	said_begin();
	if (level == LOG_LEVEL_ERROR)
		log_error("%s", text);
	else if (level == LOG_LEVEL_WARN)
		log_warn("%s", text);
	else if (level == LOG_LEVEL_INFO)
		log_info("%s", text);
	else
		log_debug("%s", text);
	return said_end();
}

/* A level shows itself and what is worse. */
static void test_levels(void **state)
{
	static const char *const lines[] = { NAME ": error: t\n", NAME ": warning: t\n",
					     NAME ": info: t\n", NAME ": debug: t\n" };

	(void)state;
	for (enum log_level most = LOG_LEVEL_ERROR; most <= LOG_LEVEL_DEBUG; most++) {
		log_open(NAME, most);
		for (enum log_level l = LOG_LEVEL_ERROR; l <= LOG_LEVEL_DEBUG; l++) {
			assert_int_equal(log_shows(l), l <= most);
			assert_string_equal(say(l, "t"), l <= most ? lines[l] : "");
		}
	}
}

/* A long line is cut, and is a line all the same. */
static void test_lengths(void **state)
{
	const size_t before = strlen(NAME ": error: ");
	char text[LINE_BYTES + 100], name[LINE_BYTES + 100];

	(void)state;
	for (size_t n = LINE_BYTES - 30; n < sizeof text; n++) {
		memset(text, 'x', n);
		text[n] = '\0';
		const char *line = say(LOG_LEVEL_ERROR, text);
		size_t whole = before + n + 1;
		assert_int_equal(strlen(line), whole < LINE_BYTES ? whole : LINE_BYTES);
		assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
		assert_int_equal(strspn(line + before, "x"), strlen(line) - before - 1);
	}
	/* Nothing is left for the text behind such a name. */
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	log_open(name, LOG_LEVEL_ERROR);
	assert_int_equal(strspn(say(LOG_LEVEL_ERROR, "t"), "n"), LINE_BYTES - 1);
	log_open(NAME, LOG_LEVEL_INFO);
}

/* What can't be shown is no reason for half a line. */
static void test_wrong_format(void **state)
{
	const wchar_t none[] = { 0x7fffffff, 0 };

	(void)state;
	said_begin();
	log_error("%ls", none);
	assert_string_equal(said_end(), NAME ": error: \n");
}

/* Interrupted or not, or taken in pieces: the line is whole.  errno is the caller's. */
static void test_pieces(void **state)
{
	(void)state;
	for (takes = 1; takes < 20; takes++) {
		interrupts = takes % 2 ? 3 : 0;
		errno = EXDEV;
		assert_string_equal(say(LOG_LEVEL_ERROR, "in pieces"), NAME ": error: in pieces\n");
		assert_int_equal(interrupts, 0);
		assert_int_equal(errno, EXDEV);
	}
	takes = LINE_BYTES;
	fails = true;
	writes = 0;
	errno = EXDEV;
	log_error("to nowhere");
	fails = false;
	assert_int_equal(errno, EXDEV);
	assert_int_equal(writes, 1);
}

static int free_fd(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

/* Says so, leaves nothing open, and the log is on standard error as before. */
static void check_nobody_listens(enum log_to to, const char *wrong)
{
	int next = free_fd(), ends[2];
	struct err err = { "" };

	assert_int_equal(log_direct(to, &err), -1);
	assert_string_equal(err.text, wrong);
	assert_int_equal(free_fd(), next);
	/* Somebody else's socket takes the number. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	assert_int_equal(ends[0], next);
	assert_string_equal(say(LOG_LEVEL_WARN, "here"), NAME ": warning: here\n");
	close(ends[0]);
	close(ends[1]);
}

static void check_refusals(void)
{
	check_nobody_listens(LOG_TO_SYSLOG, "--log-to syslog: nobody listens at /dev/log: "
					    "No such file or directory");
	check_nobody_listens(LOG_TO_JOURNAL, "--log-to journal: nobody listens at "
					     "/run/systemd/journal/socket: No such file or directory");
}

static void test_nobody_listens(void **state)
{
	struct err err = { "" };
	int in = dup(STDIN_FILENO);

	(void)state;
	assert_int_equal(log_direct(LOG_TO_STDERR, &err), 0);
	assert_string_equal(say(LOG_LEVEL_INFO, "here"), NAME ": info: here\n");
	check_refusals();
	close(STDIN_FILENO);
	check_refusals();
	if (in >= 0) {
		dup2(in, STDIN_FILENO);
		close(in);
	}
}

static void test_without_descriptors(void **state)
{
	struct err err = { "" };
	struct rlimit was, is;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	is = was;
	is.rlim_cur = (rlim_t)free_fd();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &is), 0);
	int rc = log_direct(LOG_TO_SYSLOG, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(rc, -1);
	assert_string_equal(err.text, "--log-to syslog: nobody listens at /dev/log: Too many open files");
	assert_string_equal(say(LOG_LEVEL_INFO, "here"), NAME ": info: here\n");
}

static int listen_at(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0 && strlen(path) < sizeof sun.sun_path);
	memcpy(sun.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof sun), 0);
	return fd;
}

/* What was sent; nothing is on standard error. */
static const char *sent(int fd, enum log_level level, const char *text)
{
	static char message[2 * LINE_BYTES];

	assert_string_equal(say(level, text), "");
	ssize_t bytes = recv(fd, message, sizeof message - 1, 0);
	assert_true(bytes > 0);
	message[bytes] = '\0';
	assert_int_equal(recv(fd, &(char){ 0 }, 1, 0), -1);
	return message;
}

static void check_syslog(int fd, enum log_level level, int priority)
{
	char wanted[2][128];
	time_t before = time(NULL), now;
	const char *message = sent(fd, level, "one \n line");

	for (now = before; now <= before + 1; now++) {
		struct tm tm;
		char when[32];
		localtime_r(&now, &tm);
		strftime(when, sizeof when, "%b %e %H:%M:%S", &tm);
		snprintf(wanted[now - before], sizeof wanted[0], "<%d>%s " NAME "[%d]: one   line",
			 24 + priority, when, (int)getpid());
	}
	if (strcmp(message, wanted[1]) != 0)
		assert_string_equal(message, wanted[0]);
}

/* As of syslog(3), at the time of this place; the newline of a text is none. */
static void test_syslog(void **state)
{
	struct err err = { "" };
	int fd = listen_at("/dev/log");

	(void)state;
	setenv("TZ", "ABC-3:30", 1);
	tzset();
	log_open(NAME, LOG_LEVEL_DEBUG);
	assert_int_equal(log_direct(LOG_TO_SYSLOG, &err), 0);
	check_syslog(fd, LOG_LEVEL_ERROR, 3);
	check_syslog(fd, LOG_LEVEL_WARN, 4);
	check_syslog(fd, LOG_LEVEL_INFO, 6);
	check_syslog(fd, LOG_LEVEL_DEBUG, 7);
	/* Who listened is gone. */
	close(fd);
	assert_string_equal(say(LOG_LEVEL_INFO, "here"), NAME ": info: here\n");
}

/* By a socket that is number 0, too. */
static void test_journal(void **state)
{
	char wanted[256];
	struct err err = { "" };
	int in = dup(STDIN_FILENO);

	(void)state;
	assert_int_equal(mkdir("/run/systemd", 0755), 0);
	assert_int_equal(mkdir("/run/systemd/journal", 0755), 0);
	int fd = listen_at("/run/systemd/journal/socket");
	close(STDIN_FILENO);
	assert_int_equal(log_direct(LOG_TO_JOURNAL, &err), 0);
	snprintf(wanted, sizeof wanted,
		 "PRIORITY=4\nSYSLOG_IDENTIFIER=" NAME "\nSYSLOG_PID=%d\nMESSAGE=one line\n", (int)getpid());
	assert_string_equal(sent(fd, LOG_LEVEL_WARN, "one line"), wanted);
	/* It never waits for who reads: what can't be sent now is on standard error. */
	said_begin();
	for (unsigned i = 0; i < 5000; i++)
		log_warn("flood");
	assert_non_null(strstr(said_end(), NAME ": warning: flood\n"));
	close(fd);
	assert_string_equal(say(LOG_LEVEL_INFO, "here"), NAME ": info: here\n");
	if (in >= 0)
		dup2(in, STDIN_FILENO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_wrong_format),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_nobody_listens),
		cmocka_unit_test(test_without_descriptors),
		cmocka_unit_test(test_syslog),
		cmocka_unit_test(test_journal),
	};

	if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev", "tmpfs", 0, NULL) || mount("none", "/run", "tmpfs", 0, NULL)) {
		printf("skipped: no mount namespace of its own: %s\n", strerror(errno));
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
