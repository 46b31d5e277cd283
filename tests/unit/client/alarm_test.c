/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op/poll.c: for how long it sleeps, when a loop is woken, and what is tried and given up meanwhile; by a
 * clock that is set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/poll.h"
#include "client/op/post.h"
#include "tests/lib/end.h"
#include "tests/unit/client/set_clock.h"

#define PROBE_NS (100 * SET_MS)
#define TIMER_FD 12345

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *was);

static struct end *end;
static struct engine *e;
static struct itimerspec timer;
static unsigned timers, notified;
static unsigned completes; /* so often something completes as a notice is asked for */
static int (*notify)(struct ibv_cq *cq, int solicited);

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *was)
{
	(void)was;
	assert_int_equal(fd, TIMER_FD);
	assert_int_equal(flags, TFD_TIMER_ABSTIME);
	timer = *to;
	timers++;
	return 0;
}

static int notify_and_complete(struct ibv_cq *cq, int solicited)
{
	assert_int_equal(solicited, 0);
	notified++;
	if (completes) {
		completes--;
		end->asked.request_id = WIRE_NOTICE_ID;
		end_reply(end, (struct wire_reply){ .status = 99 }, NULL, 0);
	}
	return notify(cq, solicited);
}

static int set_up(void **state)
{
	(void)state;
	set_clock();
	set_look_ns = 0;
	end = end_new();
	e = end->engine;
	e->comp->fd = eventfd(0, EFD_CLOEXEC);
	e->channel->fd = eventfd(0, EFD_CLOEXEC);
	assert_true(e->comp->fd >= 0 && e->channel->fd >= 0);
	notify = e->qp->context->ops.req_notify_cq;
	e->qp->context->ops.req_notify_cq = notify_and_complete;
	end->client.options.poll = KVD_POLL_EVENT;
	end->client.options.timeout_ms = 4321;
	e->timer_fd = TIMER_FD;
	timers = notified = completes = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	e->timer_fd = -1;
	close(e->comp->fd);
	close(e->channel->fd);
	ops_abort(e);
	end_delete(end);
	return 0;
}

/* -------------------------------------------------------------------------------- sleeping */

static void must_sleep(uint64_t ns, int ms)
{
	char tag;

	set_up(NULL);
	end_change(end, "key", &tag);
	set_waited = -1;
	/* Only the first sleep: a look takes as long as there is. */
	set_ns += 2 * SET_MS;
	uint64_t until_ns = set_ns + ns;
	assert_int_equal(engine_poll(e, until_ns), 0);
	assert_true(set_ns >= until_ns);
	assert_in_range(set_ns - until_ns, 0, SET_MS - 1);
	assert_int_equal(set_waited, ms);
	tear_down(NULL);
}

/* Until the next thing is due, rounded up, and for a second at the most. */
static void test_sleeps(void **state)
{
	(void)state;
	must_sleep(SET_MS, 1);
	must_sleep(SET_MS + 1, 2);
	must_sleep(2500000, 3);
	must_sleep(999 * SET_MS + 1, 1000);
	must_sleep(2000 * SET_MS, 1000);
	must_sleep(1007 * SET_MS, 7);
}

/* What completes as it asks to be woken keeps it awake. */
static void test_does_not_sleep(void **state)
{
	char tag;

	(void)state;
	end_change(end, "key", &tag);
	completes = 3;
	assert_int_equal(engine_poll(e, set_ns + 10 * SET_MS), 0);
	assert_int_equal(notified, 4);
	assert_int_equal(set_ns, SET_BEGIN_NS + 10 * SET_MS);
}

/* ------------------------------------------------------------------------------ deadlines */

static void test_deadline(void **state)
{
	char tag;

	(void)state;
	e->time.limit_ns = 700 * SET_MS;
	struct op *op = end_change(end, "key", &tag);
	uint64_t begun_ns = set_ns;
	e->time.limit_ns = 200 * SET_MS;
	struct op *done = end_change(end, "done", NULL), *adrift = end_change(end, "adrift", NULL);
	done->done = true;
	adrift->phase = PHASE_ADRIFT;
	e->adrift = 1;
	assert_int_equal(engine_poll(e, begun_ns + 699 * SET_MS), 0);
	assert_int_equal(engine_poll(e, begun_ns + 2000 * SET_MS), KVD_ETIMEDOUT);
	assert_string_equal(e->health.err.text, "here did not answer within 4321 ms");
	assert_in_range(set_ns - begun_ns, 700 * SET_MS, 1700 * SET_MS);
	assert_false(op->done);
	done->done = false;
}

/* --------------------------------------------------------------------------------- probes */

static void test_probes(void **state)
{
	char tag;

	(void)state;
	e->probes = true;
	assert_int_equal(engine_poll(e, set_ns + 250 * SET_MS), 0);
	assert_int_equal(end->reads, 0); /* nothing is in flight */
	end_change(end, "key", &tag);
	set_ns += PROBE_NS;
	uint64_t begun_ns = set_ns, messages = e->counters.messages;
	assert_int_equal(engine_poll(e, begun_ns + 350 * SET_MS), 0);
	assert_int_equal(end->reads, 4);
	assert_int_equal(e->counters.messages, messages);
	assert_int_equal(e->counters.read_bytes, 4 * 8);
	assert_ptr_equal(end->read_to, e->look);
	assert_int_equal(e->probed_ns, begun_ns + 300 * SET_MS);
	assert_int_equal(e->in_flight, 1);
	/* Where there is no room for one it waits. */
	e->sq_posted = e->sq_done + e->sq_depth;
	assert_int_equal(engine_poll(e, set_ns + 250 * SET_MS), 0);
	assert_int_equal(end->reads, 4);
	e->sq_posted = e->sq_done;
}

static void must_be_hung(bool is_down, uint64_t after_ms, const char *text)
{
	char tag;

	set_up(NULL);
	e->probes = true;
	end->is_hung = true;
	end->port_is_down = is_down;
	e->time.limit_ns = 10000 * SET_MS;
	end_change(end, "key", &tag);
	uint64_t begun_ns = set_ns;
	assert_int_equal(engine_poll(e, begun_ns + 9000 * SET_MS), KVD_ECONNECT);
	assert_string_equal(e->health.err.text, text);
	assert_int_equal(set_ns - begun_ns, after_ms * SET_MS);
	tear_down(NULL);
}

static void test_hung(void **state)
{
	(void)state;
	must_be_hung(false, 3000, "the RDMA device has ended no READ from here for 3000 ms");
	must_be_hung(true, 100, "the RDMA device has ended no READ from here for 100 ms; port 1 of the RDMA "
				"device here is down (cable, switch, 'ip link')");
}

/* Who is away from home may go when it is time. */
static void test_homesick(void **state)
{
	char tag;

	(void)state;
	end_change(end, "key", &tag);
	e->home_ns = set_ns + 50 * SET_MS;
	assert_int_equal(engine_poll(e, e->home_ns - 1), 0);
	assert_false(e->is_homesick && set_ns < e->home_ns);
	assert_int_equal(engine_poll(e, e->home_ns + 2 * SET_MS), 0);
	assert_true(e->is_homesick);
	e->home_ns = 0;
	assert_int_equal(engine_poll(e, set_ns + 2 * SET_MS), 0);
	assert_false(e->is_homesick);
}

/* ---------------------------------------------------------------------------------- alarms */

static void must_wake_at(uint64_t ns, unsigned times)
{
	timers = 0;
	engine_arm(e);
	assert_int_equal(e->timer_ns, ns);
	assert_int_equal(timers, times);
	if (!times)
		return;
	assert_int_equal(timer.it_value.tv_sec, ns / 1000000000);
	assert_int_equal(timer.it_value.tv_nsec, ns % 1000000000);
	assert_int_equal(timer.it_interval.tv_sec + timer.it_interval.tv_nsec, 0);
}

static void test_alarm_of_a_pause(void **state)
{
	const uint64_t first_ns = SET_BEGIN_NS + 1234567891;

	(void)state;
	must_wake_at(0, 0);
	e->later_ns = first_ns;
	must_wake_at(first_ns, 1);
	must_wake_at(first_ns, 0);
	e->later_ns = first_ns - 1;
	must_wake_at(first_ns - 1, 1);
	e->later_ns = 0;
	must_wake_at(0, 1);
	e->timer_fd = -1;
	e->later_ns = first_ns;
	must_wake_at(0, 0);
}

static void test_alarm_of_a_probe(void **state)
{
	char tag;

	(void)state;
	e->probes = true;
	must_wake_at(0, 0); /* nothing is in flight */
	end_change(end, "key", &tag);
	must_wake_at(SET_BEGIN_NS + PROBE_NS, 1);
	/* It stays while it is soon enough. */
	set_ns += 60 * SET_MS;
	must_wake_at(SET_BEGIN_NS + PROBE_NS, 0);
	e->later_ns = SET_BEGIN_NS + PROBE_NS;
	must_wake_at(SET_BEGIN_NS + PROBE_NS, 0);
	e->later_ns--;
	must_wake_at(SET_BEGIN_NS + PROBE_NS - 1, 1);
	e->later_ns = 0;
	/* It went off. */
	set_ns = SET_BEGIN_NS + PROBE_NS - 1;
	must_wake_at(set_ns + PROBE_NS, 1);
	/* What is adrift is not on the way. */
	set_ns += 200 * SET_MS;
	e->adrift = 1;
	must_wake_at(0, 1);
	e->later_ns = set_ns + 5 * SET_MS;
	must_wake_at(e->later_ns, 1);
	e->adrift = 0;
	e->later_ns = set_ns + 500 * SET_MS;
	set_ns += 50 * SET_MS;
	must_wake_at(set_ns + PROBE_NS, 1);
	e->later_ns = 0;
}

/* A loop sleeps only if nothing came between its look and its asking. */
static void test_arms(void **state)
{
	char tag;

	(void)state;
	engine_arm(e);
	assert_int_equal(notified, 1);
	completes = 2;
	notified = 0;
	engine_arm(e);
	assert_int_equal(notified, 3);
	struct op *op = end_change(end, "key", &tag);
	op_done(op, KVD_OK);
	notified = 0;
	engine_arm(e);
	assert_int_equal(notified, 0);
	ops_forget_done(e);
	op_free(op);
	e->health.connected = false;
	engine_arm(e);
	assert_int_equal(notified, 0);
	e->health.connected = e->health.broken = true;
	engine_arm(e);
	assert_int_equal(notified, 0);
	e->health.broken = false;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sleeps),
		TEST(test_does_not_sleep),
		TEST(test_deadline),
		TEST(test_probes),
		cmocka_unit_test(test_hung),
		TEST(test_homesick),
		TEST(test_alarm_of_a_pause),
		TEST(test_alarm_of_a_probe),
		TEST(test_arms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
