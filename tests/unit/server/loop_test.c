/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/host/loop.h: what the main thread does of what happens, and at its end.  All that it calls is made
 * up, and noted: a word for each call.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/log.h"
#include "server/access/gate.h"
#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/host/listener.h"
#include "server/host/loop.h"
#include "server/host/rails.h"
#include "server/host/revoke.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/worker.h"
#include "tests/unit/made_up.h"
#include "tests/unit/poll_chk.h"
#include "tests/unit/said.h"

#define EVENTS_MAX 4u

static struct ibv_device device[2] = { { .name = "soft0" }, { .name = "soft1" } };
static struct ibv_context context[2] = { { .device = &device[0] }, { .device = &device[1] } };
static struct rdma_event_channel channel = { .fd = 70 };
static struct server server[3]; /* the last is not the host's */
static struct options options;
static struct host host;
static struct conn conn;
static struct rdma_cm_id peer_id = { .context = &conn }, listener_id[2];
static struct rdma_cm_event events[EVENTS_MAX];
static unsigned event_count, event_next;

/* What poll() says, one after the other; then -1 with EBADF. */
static struct step {
	int n, error;
	short ready[6];
} steps[4];
static unsigned step_count, step_next;
static uint64_t pending;
static bool touched[2], reads;
static int level, waited_ms, signals[2];
static char calls[1024];

static void call(const char *word)
{
	strncat(calls, word, sizeof calls - strlen(calls) - 1);
	strncat(calls, " ", sizeof calls - strlen(calls) - 1);
}

static void expect_calls(const char *words)
{
	assert_string_equal(calls, words);
	calls[0] = '\0';
}

/* -------------------------------------------------------------------- made up */

static int get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **e)
{
	assert_ptr_equal(ch, &channel);
	if (event_next == event_count)
		return -1;
	*e = &events[event_next++];
	return 0;
}

static int ack_cm_event(struct rdma_cm_event *e)
{
	assert_ptr_equal(e, &events[event_next - 1]);
	call("ack");
	return 0;
}

static int disconnect_id(struct rdma_cm_id *id)
{
	call(id == &peer_id ? "disconnect" : "?");
	return 0;
}

static void destroy_event_channel(struct rdma_event_channel *ch) { call(ch == &channel ? "-channel" : "?"); }

static const struct verbs made_up = { .get_cm_event = get_cm_event, .ack_cm_event = ack_cm_event,
				      .disconnect = disconnect_id,
				      .destroy_event_channel = destroy_event_channel };

MADE_UP(int, poll, struct pollfd *fds, nfds_t n, int timeout_ms)
{
	static const int of[] = { 70, 71, 72, 0, 80, 81 };

	waited_ms = timeout_ms;
	assert_int_equal(n, 6);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(fds[i].fd, i == 3 ? signals[0] : of[i]);
		assert_int_equal(fds[i].events, POLLIN);
		fds[i].revents = step_next < step_count ? steps[step_next].ready[i] : 0;
	}
	errno = step_next < step_count ? steps[step_next].error : EBADF;
	return step_next < step_count ? steps[step_next++].n : -1;
}

/* A gate is known by its server. */
MADE_UP(int, gate_fd, const struct gate *gate) { return gate == (void *)&server[0] ? 80 : gate == (void *)&server[1] ? 81 : -1; }
MADE_UP(bool, gate_touched, struct gate *gate) { return touched[gate == (void *)&server[1]]; }
MADE_UP(int, watch_fd, const struct watch *watch) { return watch == (void *)&host ? 71 : -1; }
MADE_UP(void, burial_look, struct host *h) { call(h == &host ? "look" : "?"); }
MADE_UP(void, burial_all, struct host *h) { call(h == &host ? "bury" : "?"); }
MADE_UP(void, listeners_close_lost, struct host *h) { call(h == &host ? "lost" : "?"); }
MADE_UP(void, listeners_close, struct host *h) { call(h == &host ? "-listeners" : "?"); }
MADE_UP(void, arrivals_refuse, struct host *h, bool all) { call(h == &host && all ? "refuse" : "?"); }
MADE_UP(uint64_t, conns_count_pending, const struct host *h) { return h == &host ? pending : 0; }
MADE_UP(void, notify_manager, const char *text) { call(strstr(text, "STOPPING=1\n") == text ? "stopping" : "?"); }
MADE_UP(void, worker_stop, struct worker *w) { call(w == (void *)&steps[0] ? "-w0" : w == (void *)&steps[1] ? "-w1" : "?"); }

MADE_UP(void, arrival_asked, struct host *h, struct rdma_cm_event *e)
{
	call(h == &host && e->event == RDMA_CM_EVENT_CONNECT_REQUEST ? "asked" : "?");
}

MADE_UP(void, revoke_reload, struct server *s) { call(s == &server[0] ? "reload0" : s == &server[1] ? "reload1" : "?"); }

MADE_UP(void, rails_lose, struct host *h, unsigned number, const char *why)
{
	call(h == &host && number == 1 && !strcmp(why, "it was taken away") ? "lose1" : "?");
}

MADE_UP(void, conn_drop, struct conn *c, const char *why)
{
	call(c == &conn && !strcmp(why, "disconnected by the peer") ? "drop" : "?");
}

MADE_UP(void, burial_one, struct conn *c)
{
	call(c == &conn ? "burial" : "?");
	server[1].conns = NULL;
}

MADE_UP(void, locker_delete, struct locker **locker)
{
	call(locker == &server[0].locker ? "-locker0" : locker == &server[1].locker ? "-locker1" : "?");
}

MADE_UP(int, listeners_open, struct host *h, struct err *err)
{
	call(h == &host && h->done_fd >= 0 && err ? "open" : "?");
	return 7;
}

static int read_options(struct options *fresh, struct err *err)
{
	*fresh = (struct options){ .log_level = level };
	return reads ? 0 : err_set(err, -1, "kvd.conf is wrong");
}

/* --------------------------------------------------------------------- to happen */

/* One of its descriptors is readable. */
static void ready(unsigned which)
{
	steps[step_count] = (struct step){ .n = 1 };
	steps[step_count++].ready[which] = POLLIN;
}

static void step(const struct step *s)
{
	steps[step_count++] = *s;
}

/* Until it ends by itself, or its script does. */
static int run(void)
{
	calls[0] = '\0';
	step_next = event_next = 0;
	said_begin();
	int rc = listen_run(&host);
	said_end();
	step_count = event_count = 0;
	return rc;
}

static void happen(enum rdma_cm_event_type type, struct rdma_cm_id *id)
{
	events[event_count++] = (struct rdma_cm_event){ .event = type, .id = id };
}

static void send_signal(int number)
{
	struct signalfd_siginfo info = { .ssi_signo = (uint32_t)number };

	assert_int_equal(write(signals[1], &info, sizeof info), sizeof info);
}

/* -------------------------------------------------------------------------- tests */

static void test_waits(void **state)
{
	(void)state;
	assert_int_equal(run(), -1);
	assert_int_equal(said_lines("poll: Bad file descriptor"), 1);
	expect_calls("");
	assert_int_equal(waited_ms, 1000);
	pending = 1; /* somebody's time may be over */
	step(&(struct step){ .n = 0 });
	step(&(struct step){ .n = -1, .error = EINTR });
	assert_int_equal(run(), -1);
	assert_int_equal(waited_ms, 250);
	expect_calls("look look ");
}

static void test_descriptors(void **state)
{
	(void)state;
	ready(2);
	assert_int_equal(run(), -1);
	expect_calls("look lost bury ");
	ready(1); /* a device, which said why */
	assert_int_equal(run(), -1);
	expect_calls("look ");
	assert_int_equal(said_lines("poll"), 0);
}

static void test_users(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		touched[i] = true;
		ready(4 + i);
		assert_int_equal(run(), -1);
		expect_calls(i ? "look lost reload1 " : "look lost reload0 ");
		ready(5 - i);
		touched[1 - i] = false;
		assert_int_equal(run(), -1);
		expect_calls("look lost ");
		touched[i] = false;
	}
}

static void test_stop(void **state)
{
	(void)state;
	ready(3);
	assert_int_equal(run(), -1); /* none is there */
	expect_calls("look lost ");
	send_signal(SIGTERM);
	ready(3);
	assert_int_equal(run(), 0);
	expect_calls("look lost stopping ");
	assert_int_equal(said_lines("finishing what was accepted"), 1);
}

/* The log's level, and all users. */
static void test_reload(void **state)
{
	static const int levels[] = { LOG_LEVEL_DEBUG, LOG_LEVEL_DEBUG, LOG_LEVEL_ERROR, LOG_LEVEL_INFO };
	static const char *const says[] = { "the log's level is debug now", NULL, "the log's level is error now",
					    "the log's level is info now" };

	(void)state;
	send_signal(SIGHUP);
	ready(3);
	assert_int_equal(run(), -1);
	expect_calls("look lost reload0 reload1 ");
	assert_int_equal(said_lines("kvd.conf is wrong: the log's level stays info"), 1);
	reads = true;
	for (unsigned i = 0; i < 4; i++) {
		level = levels[i];
		send_signal(SIGHUP);
		ready(3);
		assert_int_equal(run(), -1);
		expect_calls("look lost reload0 reload1 ");
		assert_int_equal(said_lines("the log's level"), says[i] != NULL);
		assert_int_equal(!says[i] || said_lines(says[i]), 1);
		assert_int_equal(options.log_level, level);
		assert_int_equal(log_shows(LOG_LEVEL_DEBUG), level == LOG_LEVEL_DEBUG);
		assert_int_equal(log_shows(LOG_LEVEL_INFO), level >= LOG_LEVEL_INFO);
	}
}

static void run_events(int rc, const char *words)
{
	ready(0);
	assert_int_equal(run(), rc);
	expect_calls(words);
}

static void test_events(void **state)
{
	(void)state;
	happen(RDMA_CM_EVENT_CONNECT_REQUEST, &listener_id[0]); /* who is asked acknowledges it */
	happen(RDMA_CM_EVENT_ESTABLISHED, &peer_id);
	happen(RDMA_CM_EVENT_DISCONNECTED, &peer_id);
	run_events(-1, "look asked ack disconnect drop ack lost ");
	happen(RDMA_CM_EVENT_TIMEWAIT_EXIT, &peer_id);
	happen(RDMA_CM_EVENT_ADDR_CHANGE, &listener_id[0]);
	happen(RDMA_CM_EVENT_UNREACHABLE, &peer_id);
	happen(RDMA_CM_EVENT_DEVICE_REMOVAL, &peer_id); /* a connection's: it ends, and no more */
	run_events(-1, "look ack ack drop ack drop ack lost ");
}

/* The first device's end is kvd's. */
static void test_removal(void **state)
{
	(void)state;
	happen(RDMA_CM_EVENT_DEVICE_REMOVAL, &listener_id[1]);
	run_events(-1, "look lose1 ack lost ");
	assert_int_equal(said_lines("poll"), 1);
	happen(RDMA_CM_EVENT_DEVICE_REMOVAL, &listener_id[0]);
	happen(RDMA_CM_EVENT_DEVICE_REMOVAL, &listener_id[1]);
	run_events(-1, "look ack lose1 ack ");
	assert_int_equal(said_lines("soft0 was taken away: kvd ends"), 1);
	assert_int_equal(said_lines("poll"), 0);
	listener_id[0].verbs = NULL; /* of a device that is known no more */
	happen(RDMA_CM_EVENT_DEVICE_REMOVAL, &listener_id[0]);
	run_events(-1, "look ack ");
}

static void test_begin(void **state)
{
	struct err err;
	eventfd_t value;

	(void)state;
	calls[0] = '\0';
	host.done_fd = -1;
	assert_int_equal(listen_start(&host, &err), 7);
	expect_calls("open ");
	assert_int_equal(eventfd_read(host.done_fd, &value), -1); /* nobody is done with */
	assert_int_equal(errno, EAGAIN);
	close(host.done_fd);
}

static void test_end(void **state)
{
	(void)state;
	calls[0] = '\0';
	server[0].worker_count = 1;
	server[0].worker[0] = (struct worker *)(void *)&steps[0];
	server[1].worker_count = 1;
	server[1].worker[0] = (struct worker *)(void *)&steps[1];
	server[1].conns = &conn;
	listen_stop(&host);
	expect_calls("-listeners refuse -w0 -locker0 -w1 burial -locker1 -channel ");
	assert_null(host.channel);
	server[0].worker_count = server[1].worker_count = 0;
	listen_stop(&host);
	expect_calls("-listeners refuse -locker0 -locker1 ");
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(pipe2(signals, O_NONBLOCK | O_CLOEXEC), 0);
	host = (struct host){ .servers = server, .server_count = 2, .channel = &channel, .done_fd = 72,
			      .watch = (struct watch *)(void *)&host, .signal_fd = signals[0],
			      .read_options = read_options };
	for (unsigned i = 0; i < 3; i++) {
		server[i] = (struct server){ .host = &host, .verbs = &made_up, .options = &options, .rail_count = 2,
					     .gate = (struct gate *)(void *)&server[i] };
		for (unsigned k = 0; k < 2; k++)
			server[i].rails[k] = (struct rail){ .number = k, .ctx = &context[k] };
	}
	for (unsigned k = 0; k < 2; k++)
		listener_id[k] = (struct rdma_cm_id){ .context = &host, .verbs = &context[k] };
	conn = (struct conn){ .server = &server[1] };
	options.log_level = LOG_LEVEL_INFO;
	log_set_level(LOG_LEVEL_INFO);
	step_count = event_count = 0;
	pending = 0;
	reads = touched[0] = touched[1] = false;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(signals[0]);
	return close(signals[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_waits), TEST(test_descriptors), TEST(test_users), TEST(test_stop), TEST(test_reload),
		TEST(test_events), TEST(test_removal), TEST(test_begin), TEST(test_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
