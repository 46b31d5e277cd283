/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli doctor asks a kvfront: what is made of its answers.  The network is made up here. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/cli/session/front.h"
#include "tests/unit/poll_chk.h"

static struct {
	const char *answer; /* NULL: it closes; "": it says nothing */
	size_t told, piece; /* bytes at once */
	int socket_error, connect_error, open;
	unsigned addresses, refuse; /* of a host; that many of them do */
	unsigned lists;		    /* of addresses, which are there */
	time_t patience[2];	    /* of the sending of a socket, s and us */
	uint64_t step_ms;	    /* until the next bytes come */
	char path[128], sent[64];
	uint64_t ms;
} made;

int socket(int family, int type, int protocol)
{
	(void)family, (void)protocol;
	assert_int_equal(type & 0xf, SOCK_STREAM);
	if (made.socket_error) {
		errno = made.socket_error;
		return -1;
	}
	made.open++;
	memset(made.patience, 0, sizeof made.patience); /* it has none of its own */
	return dup(2);
}

int connect(int fd, const struct sockaddr *addr, socklen_t bytes)
{
	(void)fd, (void)bytes;
	assert_int_equal(made.patience[0], 10);
	assert_int_equal(made.patience[1], 0);
	if (addr->sa_family == AF_UNIX)
		snprintf(made.path, sizeof made.path, "%s", ((const struct sockaddr_un *)addr)->sun_path);
	int error = made.refuse && made.refuse-- ? ECONNREFUSED : made.connect_error;
	if (!error)
		return 0; /* errno is what it was */
	errno = error;
	return -1;
}

/* A host has as many addresses as are wanted, or is not known. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	static struct sockaddr nowhere = { .sa_family = AF_INET };
	static struct addrinfo list[3];

	assert_string_equal(node, "127.0.0.1");
	assert_string_equal(service, "11211");
	assert_int_equal(hints->ai_socktype, SOCK_STREAM);
	for (unsigned i = 0; i < made.addresses; i++)
		list[i] = (struct addrinfo){ .ai_family = AF_INET, .ai_addr = &nowhere, .ai_addrlen = sizeof nowhere,
					     .ai_next = i + 1 < made.addresses ? &list[i + 1] : NULL };
	*found = list;
	made.lists += made.addresses > 0;
	return made.addresses ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list)
{
	assert_non_null(list);
	made.lists--;
	errno = EIO; /* nobody has said that it is left as it was */
}

/* Who listens, but takes no connection, is not waited for without end either. */
int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	const struct timeval *patience = value;

	(void)fd;
	assert_int_equal(level, SOL_SOCKET);
	if (name == SO_SNDTIMEO) {
		assert_int_equal(bytes, sizeof *patience);
		made.patience[0] = patience->tv_sec;
		made.patience[1] = patience->tv_usec;
	}
	return 0;
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	(void)fd;
	assert_true(flags & MSG_NOSIGNAL);
	snprintf(made.sent, sizeof made.sent, "%.*s", (int)bytes, (const char *)data);
	return (ssize_t)bytes;
}

ssize_t recv(int fd, void *to, size_t bytes, int flags)
{
	size_t n = made.answer ? strlen(made.answer + made.told) : 0;

	(void)fd, (void)flags;
	n = n < made.piece ? n : made.piece;
	n = n < bytes ? n : bytes;
	if (n)
		memcpy(to, made.answer + made.told, n);
	made.told += n;
	return (ssize_t)n;
}

int poll(struct pollfd *fds, nfds_t count, int ms)
{
	(void)fds, (void)count;
	assert_true(ms > 0);
	if (!made.answer || made.answer[made.told]) {
		made.ms += made.step_ms;
		return 1;
	}
	made.ms += (uint64_t)ms;
	return 0;
}

/* What it is where the compiler checks sizes (_FORTIFY_SOURCE). */
ssize_t __recv_chk(int fd, void *to, size_t bytes, size_t room, int flags);

ssize_t __recv_chk(int fd, void *to, size_t bytes, size_t room, int flags)
{
	assert_in_range(bytes, 0, room);
	return recv(fd, to, bytes, flags);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	t->tv_sec = (time_t)(made.ms / 1000);
	t->tv_nsec = (long)(made.ms % 1000 * 1000000);
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	memset(&made, 0, sizeof made);
	made.piece = 1000;
	made.step_ms = 3;
	made.ms = 1000999;
	made.addresses = 1;
	return 0;
}

/* The number that the next descriptor gets. */
static int next_fd(void)
{
	int fd = dup(2);

	close(fd);
	return fd;
}

static void examined(const char *where, bool is_there, const char *mark, const char *text)
{
	struct cli_front front;
	int fd = next_fd();

	made.told = 0;
	cli_front_examine(where, &front);
	assert_int_equal(next_fd(), fd);
	assert_int_equal(made.lists, 0);
	assert_string_equal(front.text, text);
	assert_string_equal(front.mark, mark);
	assert_int_equal(front.is_there, is_there);
}

#define OURS "VERSION 1.6.0-kvfront-" PACKAGE_VERSION "\r\n"
#define STATS(reached) "STAT pid 1\r\nSTAT kvd_reachable " #reached "\r\nEND\r\n"
#define MUTE "it takes connections, but does not answer: restart it"
#define NOT_OURS "/s: it is no kvfront"
#define HOST "127.0.0.1:11211"
#define NO ": no kvfront: "
#define START ": start it, or say where it is"

static void answers_are_judged(void **state)
{
	static const char *const cases[][3] = {
		{ OURS STATS(1), "ok", "/s: version " PACKAGE_VERSION ", it reaches its kvd" },
		{ OURS STATS(0), "FIX", "/s: version " PACKAGE_VERSION "; it does not reach its kvd: its log says why, "
		  "and kvcli ping whether kvd answers" },
		{ OURS "END\r\n", "FIX", "/s: version " PACKAGE_VERSION "; it does not reach its kvd: its log says why, "
		  "and kvcli ping whether kvd answers" },
		{ "VERSION 1-kvfront-0.1~rc+x-y\r\n" STATS(1), "note", "/s: version 0.1~rc+x-y, it reaches its kvd; kvcli "
		  "is version " PACKAGE_VERSION ": restart kvfront if it was updated" },
		{ "VERSION 1.6.21\r\n" STATS(1), "note", NOT_OURS ", but a memcached 1.6.21" },
		{ "VERSION 1.6.21\r\nSTAT -kvfront-1\r\nEND\r\n", "note", NOT_OURS ", but a memcached 1.6.21" },
		{ "VERSION 1.6.21\r\nERROR\r\n", "note", NOT_OURS ", but a memcached 1.6.21" },
		{ "VERSION 1\033[2J\r\nEND\r\n", "note", NOT_OURS ", but a memcached 1" },
		{ "HTTP/1.1 400 Bad Request\r\n", "note", NOT_OURS },
		{ "CLIENT_ERROR unauthenticated\r\n", "note",
		  "/s: it wants a name and a password first, so it is not known how it is" },
		{ "", "FIX", "/s: " MUTE }, { NULL, "FIX", "/s: " MUTE }, { "VERSION 1", "FIX", "/s: " MUTE },
		{ OURS "STAT kvd_reachable 1\r\n", "FIX", "/s: " MUTE }, { "HTTP", "FIX", "/s: " MUTE },
	};

	for (size_t piece = 1; piece < 100; piece *= 3)
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			set_up(state);
			made.piece = piece;
			made.answer = cases[i][0];
			examined("/s", true, cases[i][1], cases[i][2]);
			assert_string_equal(made.sent, "version\r\nstats\r\n");
			assert_string_equal(made.path, "/s");
			assert_true(made.ms <= 1000999 + 10000);
		}
}

/* One that never ends is not read for ever. */
static void an_answer_without_end(void **state)
{
	static char much[40000];

	(void)state;
	memset(much, 'x', sizeof much - 1);
	memcpy(much, "VERSION 9 ", 10);
	made.answer = much;
	examined("/s", true, "note", NOT_OURS ", but a memcached 9");
	assert_int_equal(made.told, 16383);
}

/* Bytes that come one by one, so slowly that the last is late, are not waited for. */
static void an_answer_that_is_slow(void **state)
{
	(void)state;
	made.answer = OURS STATS(1);
	made.piece = 1;
	made.step_ms = 3000;
	examined("/s", true, "FIX", "/s: " MUTE);
	assert_int_equal(made.told, 4); /* after 3, 6, 9 and 12 s */
}

static void nothing_is_there(void **state)
{
	static const struct {
		int error;
		bool is_there;
		const char *mark, *text;
	} cases[] = {
		{ ENOENT, false, "FIX", "/s: no kvfront: No such file or directory: start it, or say where it is" },
		{ ECONNREFUSED, false, "FIX", "/s: no kvfront: Connection refused: start it, or say where it is" },
		{ EAGAIN, true, "FIX", "/s: no kvfront: Resource temporarily unavailable: start it, or say where it is" },
		{ EACCES, true, "note", "/s: Permission denied: only the socket's owner and group may ask it" },
		{ EPERM, true, "note", "/s: Operation not permitted: only the socket's owner and group may ask it" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		made.connect_error = cases[i].error;
		examined("/s", cases[i].is_there, cases[i].mark, cases[i].text);
	}
}

static void places_that_are_none(void **state)
{
	static const char *const none[] = { "host", ":11211", "" };
	char path[300] = "/", text[400];

	(void)state;
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		snprintf(text, sizeof text, "%s: no path of a socket, and not HOST:PORT", none[i]);
		examined(none[i], true, "FIX", text);
	}
	memset(path + 1, 'p', sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
	snprintf(text, sizeof text, "%s: no kvfront: File name too long: start it, or say where it is", path);
	examined(path, true, "FIX", text);
	assert_int_equal(made.open, 0);
	path[strlen(path) - 1] = '\0';
	made.connect_error = ENOENT;
	snprintf(text, sizeof text, "%s: no kvfront: No such file or directory: start it, or say where it is", path);
	examined(path, false, "FIX", text);
	assert_string_equal(made.path, path);
	/* Of a host there are 255 bytes, of what is told of it 200. */
	memset(path, 'h', 256);
	strcpy(path + 256, ":1");
	snprintf(text, sizeof text, "%.200s: no path of a socket, and not HOST:PORT", path);
	examined(path, true, "FIX", text);
}

static void ports_are_asked(void **state)
{
	(void)state;
	made.answer = OURS STATS(1);
	examined("127.0.0.1:11211", true, "ok", "127.0.0.1:11211: version " PACKAGE_VERSION ", it reaches its kvd");
	assert_int_equal(made.open, 1);
	assert_string_equal(made.path, "");
	made.connect_error = ECONNREFUSED;
	examined("127.0.0.1:11211", false, "FIX",
		 "127.0.0.1:11211: no kvfront: Connection refused: start it, or say where it is");
}

/* One address after the other, until one is connected. */
static void all_addresses_are_tried(void **state)
{
	(void)state;
	made.addresses = 3;
	made.answer = OURS STATS(1);
	examined(HOST, true, "ok", HOST ": version " PACKAGE_VERSION ", it reaches its kvd");
	assert_int_equal(made.open, 1);
	made.refuse = 2;
	examined(HOST, true, "ok", HOST ": version " PACKAGE_VERSION ", it reaches its kvd");
	assert_int_equal(made.open, 4);
	made.refuse = 3;
	examined(HOST, false, "FIX", HOST NO "Connection refused" START);
	assert_int_equal(made.open, 7);
	made.addresses = 0;
	examined(HOST, true, "FIX", HOST NO "Cannot assign requested address" START);
	assert_int_equal(made.open, 7);
}

static void no_socket(void **state)
{
	(void)state;
	made.socket_error = EMFILE;
	examined("/s", true, "FIX", "/s" NO "Too many open files" START);
	made.addresses = 3;
	examined(HOST, true, "FIX", HOST NO "Too many open files" START);
	assert_string_equal(made.path, "");
	assert_string_equal(made.sent, "");
}

static int input = -1;

static int close_input(void **state)
{
	input = fcntl(0, F_DUPFD_CLOEXEC, 3);
	close(0);
	return set_up(state);
}

static int restore_input(void **state)
{
	(void)state;
	if (input < 0) {
		close(0);
		return 0;
	}
	int rc = dup2(input, 0);
	close(input);
	return rc ? -1 : 0;
}

/* Who closed standard input gets its number for the socket, which is as good as others. */
static void the_socket_is_descriptor_0(void **state)
{
	(void)state;
	assert_int_equal(next_fd(), 0);
	made.answer = OURS STATS(1);
	examined("/s", true, "ok", "/s: version " PACKAGE_VERSION ", it reaches its kvd");
	made.addresses = 3;
	made.refuse = 1;
	examined(HOST, true, "ok", HOST ": version " PACKAGE_VERSION ", it reaches its kvd");
	assert_int_equal(made.open, 3);
	made.answer = NULL;
	examined("/s", true, "FIX", "/s: " MUTE);
	made.connect_error = ECONNREFUSED;
	examined("/s", false, "FIX", "/s" NO "Connection refused" START);
	assert_int_equal(made.open, 5);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answers_are_judged),
		TEST(an_answer_without_end),
		TEST(an_answer_that_is_slow),
		TEST(nothing_is_there),
		TEST(places_that_are_none),
		TEST(ports_are_asked),
		TEST(all_addresses_are_tried),
		TEST(no_socket),
		cmocka_unit_test_setup_teardown(the_socket_is_descriptor_0, close_input, restore_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
