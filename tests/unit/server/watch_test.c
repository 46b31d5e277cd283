/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/host/device_events.h: what its thread does of each event of two devices that the test makes up,
 * which serve two namespaces.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "server/host/device_event.h"
#include "server/host/device_events.h"
#include "server/host/host.h"
#include "server/host/rails.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/worker_impl.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/poll_chk.h"
#include "tests/unit/said.h"

#define WORKERS 4u
#define RX_COUNT 808u
#define LIMIT (RX_COUNT / 8)
#define BOUND_NS 10000000000ull

static struct ibv_device device[2] = { { .name = "soft0" }, { .name = "soft1" } };
static struct ibv_context context[2] = { { .device = &device[0] }, { .device = &device[1] } };
static int events[2]; /* pipes with a device's events: where they are written */
static struct ibv_srq srq[WORKERS];
static struct worker worker[WORKERS];
static struct server server[2];
static struct host host;
static struct watch *watch;

static atomic_uint acked, armed[WORKERS], polls, waits;
static unsigned acked_before;
static _Atomic(const struct conn *) dropped, drained;
static _Atomic(const char *) why;
static atomic_uint lost; /* the device's number */

/* --------------------------------------------------------------------- devices */

static int get_async_event(struct ibv_context *ctx, struct ibv_async_event *e)
{
	return read(ctx->async_fd, e, sizeof *e) == (ssize_t)sizeof *e ? 0 : -1;
}

static void ack_async_event(struct ibv_async_event *e)
{
	(void)e;
	acked++;
}

static int modify_srq(struct ibv_srq *q, struct ibv_srq_attr *attr, int mask)
{
	assert_int_equal(mask, IBV_SRQ_LIMIT);
	assert_int_equal(attr->srq_limit, LIMIT);
	armed[q - srq]++;
	return q == &srq[3] ? ENOSYS : 0; /* it can't be watched, which is no fault */
}

static const struct verbs made_up = { .get_async_event = get_async_event, .modify_srq = modify_srq,
				      .ack_async_event = ack_async_event };

/* ------------------------------------------------------------ what it acts upon */

int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
void __wrap_conn_drop(struct conn *c, const char *reason);
void __wrap_conn_drained(struct conn *c);
void __wrap_rails_lose(struct host *h, unsigned number, const char *reason);

/* A second is a moment. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	if (timeout_ms >= 0) {
		assert_int_equal(timeout_ms, 1000);
		waits++;
	}
	polls++;
	return __real_poll(fds, n, timeout_ms < 0 ? timeout_ms : 10);
}

void __wrap_conn_drop(struct conn *c, const char *reason)
{
	assert_int_equal(acked, acked_before); /* until then it stays */
	dropped = c;
	why = reason;
}

void __wrap_conn_drained(struct conn *c)
{
	assert_int_equal(acked, acked_before);
	drained = c;
}

void __wrap_rails_lose(struct host *h, unsigned number, const char *reason)
{
	assert_ptr_equal(h, &host);
	lost = number;
	why = reason;
}

/* -------------------------------------------------------------------- to happen */

#define UNTIL(condition) \
	do { \
		uint64_t until_ns_ = clock_ns() + BOUND_NS; \
		while (!(condition)) { \
			assert_true(clock_ns() < until_ns_); \
			sched_yield(); \
		} \
	} while (0)

/* Until it was acknowledged; what was said. */
static const char *happen(unsigned rail, struct ibv_async_event e)
{
	acked_before = acked;
	said_begin();
	assert_int_equal(write(events[rail], &e, sizeof e), sizeof e);
	UNTIL(acked != acked_before);
	return said_end();
}

static const char *words_of(enum ibv_event_type type)
{
	const char *words;

	event_judge(type, &words);
	return words;
}

static void expect_said(const char *who, enum ibv_event_type type)
{
	char line[512];

	snprintf(line, sizeof line, "%s: %s (%s)", who, words_of(type), ibv_event_type_str(type));
	assert_int_equal(said_lines(line), 1);
}

/* The worker's only command; 0: it has none. */
static unsigned take_notice(unsigned i)
{
	struct command *c = commands_take(&worker[i].commands);
	unsigned notice;

	if (!c)
		return 0;
	assert_int_equal(c->kind, CMD_NOTICE);
	assert_null(c->next);
	notice = c->notice;
	free(c);
	return notice;
}

/* Workers 0 and 2 are on the first device, 1 and 3 on the other; 3 is the second namespace's. */
static void expect_notices(unsigned first, unsigned second)
{
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(take_notice(i), i % 2 ? second : first);
}

static bool is_ruined(void)
{
	struct pollfd fd = { .fd = watch_fd(watch), .events = POLLIN };

	return __real_poll(&fd, 1, 0) == 1;
}

/* ------------------------------------------------------------------------ tests */

static void test_queue_pair(void **state)
{
	static struct conn c;
	struct ibv_qp qp = { .qp_context = &c };
	struct ibv_async_event e = { .element.qp = &qp };

	(void)state;
	strcpy(c.peer.text, "192.0.2.7:99");
	e.event_type = IBV_EVENT_QP_ACCESS_ERR;
	happen(1, e);
	expect_said("192.0.2.7:99", IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(dropped, &c);
	assert_string_equal(why, words_of(IBV_EVENT_QP_ACCESS_ERR));
	assert_null(drained);
	dropped = NULL;
	e.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
	assert_string_equal(happen(0, e), "");
	assert_ptr_equal(drained, &c);
	assert_null(dropped);
	drained = NULL;
	e.event_type = IBV_EVENT_COMM_EST;
	assert_string_equal(happen(0, e), "");
	qp.qp_context = NULL; /* the locker's */
	e.event_type = IBV_EVENT_QP_FATAL;
	happen(0, e);
	expect_said("kvd's own queue pair, for locks", IBV_EVENT_QP_FATAL);
	assert_null(dropped);
	assert_null(drained);
	expect_notices(0, 0);
	assert_false(is_ruined());
}

/* Those that ran low are watched again, in a while, and nobody is woken for others. */
static void test_low(void **state)
{
	struct ibv_async_event e = { .event_type = IBV_EVENT_SRQ_LIMIT_REACHED };

	(void)state;
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(armed[i], 1);
	assert_int_equal(waits, 0);
	for (unsigned i = 1; i < WORKERS; i++) {
		char who[16];
		unsigned before = polls;
		snprintf(who, sizeof who, "worker %u", i);
		e.element.srq = &srq[i];
		happen(i % 2, e);
		expect_said(who, IBV_EVENT_SRQ_LIMIT_REACHED);
		UNTIL(armed[i] == 2);
		UNTIL(polls >= before + 2);
		assert_int_equal(waits, i);
	}
	assert_int_equal(armed[0], 1);
	for (unsigned i = 1; i < WORKERS; i++)
		assert_int_equal(armed[i], 2);
	expect_notices(0, 0);
}

/* Clients of that device are told of what they would see. */
static void test_port(void **state)
{
	struct ibv_async_event e = { .element.port_num = 2 };

	(void)state;
	e.event_type = IBV_EVENT_PORT_ERR;
	happen(1, e);
	expect_said("soft1 port 2", e.event_type);
	expect_notices(0, WIRE_NOTICE_PORT_DOWN);
	e.event_type = IBV_EVENT_PORT_ACTIVE;
	happen(0, e);
	expect_said("soft0 port 2", e.event_type);
	expect_notices(WIRE_NOTICE_PORT_UP, 0);
	static const enum ibv_event_type others[] = { IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE,
						      IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE,
						      IBV_EVENT_CLIENT_REREGISTER };
	for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
		e.event_type = others[i];
		happen(1, e);
		expect_said("soft1 port 2", e.event_type);
	}
	e.event_type = IBV_EVENT_PATH_MIG;
	happen(1, e);
	expect_said("soft1", e.event_type);
	expect_notices(0, 0);
	assert_int_equal(lost, 0);
	assert_false(is_ruined());
}

/* The first device's end is kvd's, another's is not. */
static void test_ruin(void **state)
{
	struct ibv_async_event e = { .event_type = IBV_EVENT_CQ_ERR };

	(void)state;
	happen(1, e);
	expect_said("soft1", e.event_type);
	assert_int_equal(lost, 1);
	assert_string_equal(why, words_of(e.event_type));
	assert_false(is_ruined());
	expect_notices(0, 0);
	lost = 0;
	e.event_type = IBV_EVENT_DEVICE_FATAL;
	happen(0, e);
	expect_said("soft0", e.event_type);
	assert_int_equal(said_lines("soft0 is of no use any more: kvd ends with status 3"), 1);
	assert_int_equal(lost, 0);
	assert_true(is_ruined());
	expect_notices(WIRE_NOTICE_DEVICE, WIRE_NOTICE_DEVICE);
}

/* A device that is gone is looked at no more; the other one's events are taken. */
static void test_gone(void **state)
{
	struct ibv_async_event e = { .event_type = IBV_EVENT_PATH_MIG };
	unsigned before;

	(void)state;
	close(events[0]);
	events[0] = -1;
	happen(1, e);
	before = polls;
	happen(1, e);
	happen(1, e);
	expect_said("soft1", e.event_type);
	assert_true(polls <= before + 4); /* it is not told of again and again */
	assert_false(is_ruined());
}

/* It leaves no descriptor: the one that ends its thread and the one that ends kvd are closed. */
static void test_delete(void **state)
{
	int before = count_descriptors();

	(void)state;
	assert_true(watch_fd(watch) >= 0);
	watch_delete(&watch);
	assert_null(watch);
	assert_int_equal(count_descriptors(), before - 2);
	watch_delete(&watch); /* none */
}

/* ------------------------------------------------------------------------ group */

static void make_worker(unsigned i)
{
	struct server *s = &server[i == 3];

	worker[i] = (struct worker){ .server = s, .rail = &s->rails[i % 2] };
	worker[i].queues.number = i;
	worker[i].queues.srq = &srq[i];
	worker[i].queues.rx_count = RX_COUNT;
	srq[i].srq_context = &worker[i];
	assert_int_equal(commands_init(&worker[i].commands), 0);
	s->worker[s->worker_count++] = &worker[i];
	armed[i] = 0;
}

static int make(void **state)
{
	struct err err;

	(void)state;
	host = (struct host){ .servers = server, .server_count = 2, .worker_count = WORKERS };
	for (unsigned i = 0; i < 2; i++) {
		int ends[2];
		assert_int_equal(pipe(ends), 0);
		context[i].async_fd = ends[0];
		events[i] = ends[1];
		server[i] = (struct server){ .host = &host, .verbs = &made_up, .rail_count = 2,
					     .worker_first = 3 * i };
		for (unsigned k = 0; k < 2; k++)
			server[i].rails[k] = (struct rail){ .number = k, .ctx = &context[k] };
	}
	for (unsigned i = 0; i < WORKERS; i++)
		make_worker(i);
	acked = polls = waits = lost = 0;
	dropped = drained = NULL;
	assert_int_equal(watch_new(&host, &watch, &err), 0);
	return 0;
}

static int unmake(void **state)
{
	(void)state;
	watch_delete(&watch);
	assert_null(watch);
	for (unsigned i = 0; i < WORKERS; i++) {
		take_notice(i);
		commands_fini(&worker[i].commands);
	}
	for (unsigned i = 0; i < 2; i++) {
		close(context[i].async_fd);
		if (events[i] >= 0)
			close(events[i]);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_queue_pair, make, unmake),
		cmocka_unit_test_setup_teardown(test_low, make, unmake),
		cmocka_unit_test_setup_teardown(test_port, make, unmake),
		cmocka_unit_test_setup_teardown(test_ruin, make, unmake),
		cmocka_unit_test_setup_teardown(test_gone, make, unmake),
		cmocka_unit_test_setup_teardown(test_delete, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
