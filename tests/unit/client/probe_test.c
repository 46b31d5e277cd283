/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op: a session that has another way to kvd tries the one that it waits on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/op/operation.h"
#include "client/session/event.h"
#include "client/session/wait.h"
#include "tests/lib/end.h"

#define KEY "key"

static struct end *end;
static struct engine *e;

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	return 0;
}

/* Who waits for an answer tries the connection meanwhile, but rarely, and only if there is another way. */
static void test_waiting_probes(void **state)
{
	char tag;

	(void)state;
	end_change(end, KEY, &tag); /* nobody answers */
	assert_int_equal(session_poll_for(&end->session, 5000000), 0);
	assert_int_equal(end->reads, 0);
	e->probes = true;
	assert_int_equal(session_poll_for(&end->session, 250000000), 0);
	assert_in_range(end->reads, 2, 4);
	assert_int_equal(e->in_flight, 1);
	assert_true(health_is_good(&e->health));
}

/* One that is not answered breaks it, long before the call's time is over. */
static void test_probe_finds_a_cut(void **state)
{
	struct kvd_completion done;
	char tag;

	(void)state;
	e->probes = true;
	end_change(end, KEY, &tag);
	assert_int_equal(session_poll_for(&end->session, 0), 0);
	end->status = IBV_WC_RETRY_EXC_ERR;
	assert_int_equal(session_poll_for(&end->session, 4000000000), 0);
	assert_true(ops_take_done(e, &done));
	assert_int_equal(done.result, KVD_EUNKNOWN);
	assert_null(e->qp);
}

/* A change that nobody answers, tried so long by a device that is `is_hung`, or not; how its text ends if
 * the connection broke. */
static const char *tried(uint64_t ns, bool is_hung)
{
	struct kvd_completion done;
	char tag;

	e->probes = true;
	end->is_hung = is_hung;
	end_change(end, KEY, &tag);
	assert_int_equal(session_poll_for(&end->session, ns), 0);
	if (!ops_take_done(e, &done))
		return NULL;
	assert_int_equal(done.result, KVD_EUNKNOWN);
	return e->health.lost.text;
}

/* A device that ends no READ, with an error either, is not waited for: it has a few seconds, ... */
static void test_hung_device_is_left(void **state)
{
	(void)state;
	uint64_t begun = clock_ns();
	const char *text = tried(4500000000, true);
	assert_non_null(text);
	assert_true(clock_ns() - begun >= 3000000000);
	assert_non_null(strstr(text, "the RDMA device has ended no READ from here for 3"));
	assert_in_range(end->reads, 20, 31);
}

/* ... and none while its port is down.  One that ends them is not asked about its port. */
static void test_port_down_that_works(void **state)
{
	(void)state;
	end->port_is_down = true;
	assert_null(tried(350000000, false));
	assert_true(health_is_good(&e->health));
	assert_true(end->reads >= 2);
}

static void test_port_down_is_not_waited_for(void **state)
{
	(void)state;
	end->port_is_down = true;
	uint64_t begun = clock_ns();
	const char *text = tried(2500000000, true);
	assert_non_null(text);
	assert_true(clock_ns() - begun < 2000000000);
	assert_non_null(strstr(text, "the RDMA device has ended no READ from here for "));
	assert_non_null(strstr(e->health.err.text, "port 1 of the RDMA device here is down"));
}

/* An event loop is woken for that; the alarm is not set anew each time. */
static void test_probe_wakes_its_loop(void **state)
{
	struct kvd_completion done;
	struct epoll_event event;
	char tag;

	(void)state;
	e->comp->fd = eventfd(0, EFD_CLOEXEC);
	e->channel->fd = eventfd(0, EFD_CLOEXEC);
	int fd = event_fd_of(e);
	assert_true(fd >= 0);
	e->probes = true;
	assert_int_equal(kvd_arm(&end->session), 0);
	assert_int_equal(e->timer_ns, 0); /* nothing is in flight */
	end_change(end, KEY, &tag);
	assert_int_equal(kvd_arm(&end->session), 0);
	uint64_t alarm_ns = e->timer_ns;
	assert_int_equal(kvd_arm(&end->session), 0);
	assert_int_equal(e->timer_ns, alarm_ns);
	assert_int_equal(epoll_wait(fd, &event, 1, 5000), 1);
	assert_int_equal(kvd_poll(&end->session, &done, 1, 0), 0);
	assert_int_equal(end->reads, 1);
	close(e->comp->fd);
	close(e->channel->fd);
	event_delete(e);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_waiting_probes),
		TEST(test_probe_finds_a_cut),
		TEST(test_hung_device_is_left),
		TEST(test_port_down_that_works),
		TEST(test_port_down_is_not_waited_for),
		TEST(test_probe_wakes_its_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
