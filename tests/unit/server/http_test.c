/* SPDX-License-Identifier: BSD-2-Clause */
/* server/metrics/http.h: what is answered to whom asks, on a socket of this machine. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/log.h"
#include "server/host/host.h"
#include "server/metrics/guests.h"
#include "server/metrics/http.h"
#include "server/metrics/metrics.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#ifdef HAVE_LIBMICROHTTPD

#include "tests/unit/poll_chk.h"

#define WAIT_MS 20000
#define FIGURES "# TYPE kvd_keys gauge\nkvd_keys 5\n"

static struct host host;
static struct http *http;
static struct err err;
static in_port_t port;
static bool is_well, has_no_text;
static int no_eventfd, no_thread;
static char got[4096];
static _Atomic uint64_t ahead_ns; /* so much later it is than it is */
static _Atomic int interrupts; /* to come */

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_poll(struct pollfd *fds, nfds_t count, int ms);
int __real_eventfd(unsigned count, int flags);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

MADE_UP(int, eventfd, unsigned count, int flags)
{
	errno = no_eventfd;
	return no_eventfd ? -1 : __real_eventfd(count, flags);
}

MADE_UP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return no_thread ? no_thread : __real_pthread_create(thread, attr, run, arg);
}

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	int rc = __real_clock_gettime(clock, ts);

	ts->tv_sec += (time_t)(ahead_ns / 1000000000);
	return rc;
}

/* The server waits for two, this test for one. */
MADE_UP(int, poll, struct pollfd *fds, nfds_t count, int ms)
{
	if (count != 2 || !interrupts)
		return __real_poll(fds, count, ms);
	interrupts--;
	errno = EINTR;
	return -1;
}

MADE_UP(char *, metrics_text, struct host *h, size_t *bytes)
{
	*bytes = strlen(FIGURES);
	return has_no_text || h != &host ? NULL : strdup(FIGURES);
}

MADE_UP(bool, metrics_healthy, struct host *h, char *text, size_t text_bytes)
{
	snprintf(text, text_bytes, is_well && h == &host ? "ok\n" : "worker 1 does nothing\n");
	return is_well;
}

static int begin(void **state)
{
	static const char words[] = "metrics at http://127.0.0.1:";

	(void)state;
	is_well = true;
	has_no_text = false;
	no_eventfd = no_thread = 0;
	ahead_ns = 0;
	said_begin();
	int rc = http_new(&host, "127.0.0.1:0", &http, &err);
	const char *text = said_end(), *at = strstr(text, words);
	if (rc || !at || !strstr(at, "/metrics\n"))
		return -1;
	port = (in_port_t)atoi(at + sizeof words - 1);
	return port ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	http_delete(&http);
	return http ? -1 : 0;
}

/* From 127.0.0.0 and so much. */
static int dial_from(unsigned last)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in from = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffu) + last);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

static int dial(void)
{
	return dial_from(1);
}

/* All that comes until the other end closes. */
static void take_all(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t used = 0;
	ssize_t n;

	do {
		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		n = read(fd, got + used, sizeof got - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	got[used] = '\0';
}

/* The status that is answered to a method and a path; `got` is all of it. */
static int ask_with(const char *method, const char *path, const char *rest)
{
	char text[4500];
	int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: kvd\r\nConnection: close\r\n%s", method,
			 path, rest);
	int fd = dial(), status = 0;

	assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
	take_all(fd);
	close(fd);
	assert_int_equal(sscanf(got, "HTTP/1.1 %d ", &status), 1);
	return status;
}

static int ask(const char *method, const char *path)
{
	return ask_with(method, path, "\r\n");
}

static void expect_body(const char *body)
{
	const char *at = strstr(got, "\r\n\r\n");

	assert_non_null(at);
	assert_string_equal(at + 4, body);
}

static void test_figures(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/metrics"), 200);
	expect_body(FIGURES);
	assert_non_null(strstr(got, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
	assert_non_null(strstr(got, "\r\nCache-Control: no-store\r\n"));
	assert_null(strstr(got, "Allow:"));
	assert_int_equal(ask("HEAD", "/metrics"), 200);
	expect_body("");
	has_no_text = true;
	assert_int_equal(ask("GET", "/metrics"), 500);
	expect_body("out of memory\n");
}

static void test_health(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/healthz"), 200);
	expect_body("ok\n");
	assert_non_null(strstr(got, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
	is_well = false;
	assert_int_equal(ask("GET", "/healthz"), 503);
	expect_body("worker 1 does nothing\n");
}

static void test_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/"), 200);
	expect_body("kvd: /metrics, /healthz\n");
	assert_int_equal(ask("GET", "/metrics/"), 404);
	expect_body("kvd: /metrics, /healthz\n");
}

/* No other method, and a body is passed over whatever is asked. */
static void test_methods(void **state)
{
	(void)state;
	assert_int_equal(ask_with("POST", "/metrics", "Content-Length: 5\r\n\r\nabcde"), 405);
	expect_body("only GET and HEAD\n");
	assert_non_null(strstr(got, "\r\nAllow: GET, HEAD\r\n"));
	assert_int_equal(ask("DELETE", "/nothing"), 405);
	assert_int_equal(ask_with("GET", "/metrics", "Content-Length: 5\r\n\r\nabcde"), 200);
	expect_body(FIGURES);
}

/* A place that was left is another's: more come one after the other than there are places. */
static void test_places(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * GUESTS_MAX + 1; i++)
		assert_int_equal(ask("GET", "/"), 200);
}

static bool is_served(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

/* It ends soon: not by the library's own limit, which is as long as a guest may take. */
static void expect_end(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, WAIT_MS / 4), 1);
	take_all(fd);
	assert_string_equal(got, "");
	close(fd);
}

/* Who says nothing has their time, and no more; others are served meanwhile. */
static void test_silent(void **state)
{
	int fd = dial();

	(void)state;
	assert_int_equal(ask("GET", "/"), 200); /* it came before */
	ahead_ns = GUEST_NS / 2;
	assert_int_equal(ask("GET", "/"), 200);
	assert_true(is_served(fd));
	ahead_ns = GUEST_NS + 1000000000;
	expect_end(fd);
	assert_int_equal(ask("GET", "/"), 200);
}

static void ask_again(int fd)
{
	static const char request[] = "GET /healthz HTTP/1.1\r\nHost: kvd\r\n\r\n";
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t used = 0;

	assert_int_equal(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
	do {
		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		ssize_t n = read(fd, got + used, sizeof got - 1 - used);
		assert_true(n > 0);
		used += (size_t)n;
		got[used] = '\0';
	} while (!strstr(got, "\r\n\r\nok\n"));
}

/* With each answer their time begins again. */
static void test_asks_again(void **state)
{
	int fd = dial();

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		ahead_ns = i * (GUEST_NS / 10 * 6);
		ask_again(fd);
	}
	close(fd);
}

/* As many of one address have places as there are, and then the eldest of them goes, nobody else. */
static void test_addresses(void **state)
{
	int other = dial_from(2), fd[GUESTS_OF_ADDRESS_MAX + 1];

	(void)state;
	for (unsigned i = 0; i <= GUESTS_OF_ADDRESS_MAX; i++)
		fd[i] = dial();
	expect_end(fd[0]);
	assert_true(is_served(other));
	for (unsigned i = 1; i <= GUESTS_OF_ADDRESS_MAX; i++) {
		assert_true(is_served(fd[i]));
		close(fd[i]);
	}
	close(other);
}

/* A signal to its thread ends nothing. */
static void test_interrupted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		interrupts = 2;
		assert_int_equal(ask("GET", "/"), 200);
	}
	assert_int_equal(ask("GET", "/"), 200);
}

/* There is room for the heads that proxies make longer. */
static void test_long_head(void **state)
{
	static char rest[4000];
	int n = snprintf(rest, sizeof rest, "Cookie: ");

	(void)state;
	memset(rest + n, 'c', sizeof rest - (size_t)n);
	memcpy(rest + sizeof rest - 5, "\r\n\r\n", 5);
	assert_int_equal(ask_with("GET", "/metrics", rest), 200);
	expect_body(FIGURES);
}

/* Who says nothing keeps the end waiting for nothing, and each loses its connection. */
static void test_end(void **state)
{
	int fd = dial();

	(void)state;
	assert_int_equal(ask("GET", "/"), 200);
	http_delete(&http);
	assert_null(http);
	take_all(fd);
	close(fd);
	http_delete(&http);
}

/* ------------------------------------------------------------------------ start */

static void refuses(const char *address, const char *why)
{
	int files = count_descriptors();

	http = (struct http *)(void *)&host;
	assert_int_equal(http_new(&host, address, &http, &err), -1);
	assert_null(http);
	assert_non_null(strstr(err.text, why));
	assert_int_equal(count_descriptors(), files);
}

/* It says why, and leaves nothing. */
static void test_no_start(void **state)
{
	char taken[32];

	(void)state;
	assert_int_equal(begin(state), 0);
	struct http *first = http;
	snprintf(taken, sizeof taken, "127.0.0.1:%u", port);
	refuses(taken, "--metrics: can't serve 127.0.0.1:");
	assert_non_null(strstr(err.text, strerror(EADDRINUSE)));
	refuses("no address", "no address");
	no_thread = EAGAIN;
	refuses("127.0.0.1:0", "--metrics: can't start its thread");
	no_thread = 0;
	no_eventfd = EMFILE;
	refuses("127.0.0.1:0", "--metrics: can't start its thread: Too many open files");
	no_eventfd = 0;
	http_delete(&first);
}

/* Of an address of IPv6, whose port is told as it is. */
static void test_six(void **state)
{
	static const char words[] = "metrics at http://[::1]:";
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof to)) {
		if (fd >= 0)
			close(fd);
		print_message("this machine has no IPv6\n");
		skip();
	}
	close(fd);
	said_begin();
	int rc = http_new(&host, "[::1]:0", &http, &err);
	const char *at = strstr(said_end(), words);
	assert_int_equal(rc, 0);
	assert_non_null(at);
	to.sin6_port = htons((in_port_t)atoi(at + sizeof words - 1));
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	is_well = true;
	ask_again(fd);
	close(fd);
	http_delete(&http);
}

/* Again and again: nothing of it stays. */
static void test_leaves_nothing(void **state)
{
	int files = count_descriptors();

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(begin(state), 0);
		assert_int_equal(ask("GET", "/"), 200);
		assert_int_equal(end(state), 0);
		assert_int_equal(count_descriptors(), files);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_figures, begin, end),
		cmocka_unit_test_setup_teardown(test_health, begin, end),
		cmocka_unit_test_setup_teardown(test_elsewhere, begin, end),
		cmocka_unit_test_setup_teardown(test_methods, begin, end),
		cmocka_unit_test_setup_teardown(test_places, begin, end),
		cmocka_unit_test_setup_teardown(test_silent, begin, end),
		cmocka_unit_test_setup_teardown(test_asks_again, begin, end),
		cmocka_unit_test_setup_teardown(test_addresses, begin, end),
		cmocka_unit_test_setup_teardown(test_interrupted, begin, end),
		cmocka_unit_test_setup_teardown(test_long_head, begin, end),
		cmocka_unit_test_setup(test_end, begin),
		cmocka_unit_test(test_no_start),
		cmocka_unit_test(test_six),
		cmocka_unit_test(test_leaves_nothing),
	};

	log_open("http_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

MADE_UP(char *, metrics_text, struct host *h, size_t *bytes)
{
	(void)h;
	(void)bytes;
	return NULL;
}

int main(void)
{
	printf("skipped: kvd is built without libmicrohttpd\n");
	return 77;
}

#endif
