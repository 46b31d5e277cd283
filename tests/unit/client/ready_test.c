/* SPDX-License-Identifier: BSD-2-Clause */
/* client/again/ready.c: how often, and for how long, a session tries to connect again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/again/ready.h"
#include "client/op/operation.h"
#include "client/op/post.h"
#include "client/session/connect.h"
#include "client/session/teardown.h"
#include "tests/unit/client/dial.h"
#include "tests/unit/client/set_clock.h"

#define REFUSED "connecting to 127.0.0.1:7000: nothing listens on that port: is kvd running? " \
		"(RDMA_CM_EVENT_REJECTED, status 8)"

static struct kvd_session *s;
static struct engine *e;

static void begin(unsigned places)
{
	set_clock();
	dial_new(places);
	s = &dial.end->session;
	e = dial.end->engine;
	e->time.limit_ns = 5000 * SET_MS;
}

static int set_up(void **state)
{
	(void)state;
	begin(1);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	dial_delete();
	return 0;
}

static void all_are_dead(void)
{
	for (unsigned i = 0; i < DIAL_PLACES; i++)
		dial.place[i].is_dead = true;
}

/* The milliseconds from an attempt to the next one. */
static unsigned gap(unsigned i)
{
	return (unsigned)((dial.dialled_ns[i + 1] - dial.dialled_ns[i]) / SET_MS);
}

/* ------------------------------------------------------------------------------ pauses */

#define PAUSES 11u
static const unsigned longest[PAUSES] = { 4, 8, 16, 32, 64, 128, 256, 500, 500, 500, 500 };

/* Each pause is a random part of the upper half of one that doubles, up to half a second. */
static void test_pauses(void **state)
{
	unsigned least[PAUSES], most[PAUSES] = { 0 };

	(void)state;
	memset(least, 0xff, sizeof least);
	for (unsigned seed = 0; seed < 5000; seed++) {
		if (seed % 16 == 0) { /* all that it counts */
			tear_down(NULL);
			begin(1);
			all_are_dead();
		}
		dial_forget();
		set_sleeps = 0;
		set_ns = SET_BEGIN_NS + seed * 7919;
		uint64_t end_ns = set_ns + 5000 * SET_MS;
		assert_int_equal(session_ready(s), KVD_ECONNECT);
		assert_true(set_ns <= end_ns);
		assert_true(set_ns + 501 * SET_MS >= end_ns);
		assert_in_range(dial.dials, 12, 30);
		for (unsigned i = 0; i < PAUSES; i++) {
			least[i] = gap(i) < least[i] ? gap(i) : least[i];
			most[i] = gap(i) > most[i] ? gap(i) : most[i];
		}
	}
	for (unsigned i = 0; i < PAUSES; i++) {
		assert_int_equal(least[i], longest[i] / 2);
		assert_int_equal(most[i], longest[i] / 2 + longest[i] / 2);
	}
}

/* No pause is begun behind which there is no time: that would be told later, and nothing else. */
static void test_ends_in_time(void **state)
{
	(void)state;
	all_are_dead();
	set_look_ns = 0;
	bool has_paused[2] = { false, false };
	for (unsigned ns = 0; ns < 3; ns++) {
		set_clock();
		set_look_ns = 0;
		set_ns += ns; /* the pause: 2 ms and this modulo 3 */
		e->time.end_ns = set_ns + 3 * SET_MS;
		unsigned rest_ms = 2 + (unsigned)(set_ns % 3);
		dial_forget();
		assert_int_equal(session_ready(s), KVD_ECONNECT);
		assert_int_equal(dial.dials > 1, rest_ms < 3);
		has_paused[dial.dials > 1] = true;
	}
	assert_true(has_paused[0] && has_paused[1]);
}

/* A kvd that comes back is met at the next attempt. */
static int revive_at;
static int (*create_id)(struct rdma_event_channel *, struct rdma_cm_id **, void *, enum rdma_port_space);

static int create_id_until(struct rdma_event_channel *on, struct rdma_cm_id **new, void *of,
			   enum rdma_port_space space)
{
	if ((int)dial.dials == revive_at)
		dial.place[0].is_dead = false;
	return create_id(on, new, of, space);
}

static void test_comes_back(void **state)
{
	(void)state;
	all_are_dead();
	revive_at = 6;
	create_id = dial.verbs.create_id;
	dial.verbs.create_id = create_id_until;
	assert_int_equal(session_ready(s), 0);
	assert_int_equal(dial.dials, 7);
	assert_int_equal(e->counters.reconnects, 1);
	assert_true(health_is_usable(&e->health));
	assert_int_equal(session_ready(s), 0);
	assert_int_equal(dial.dials, 7);
}

/* ------------------------------------------------------------- how long an attempt takes */

/* The limits of the attempts at places that don't answer. */
static void must_take(const int *ms, unsigned count)
{
	dial.is_hushed = true;
	assert_int_equal(session_ready(s), KVD_ECONNECT);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(dial.limit_ms[i], ms[i]);
}

static void test_attempts_double(void **state)
{
	static const int one[] = { 1000, 2000, 4000, 8000, 8000, 8000 };
	static const int many[] = { 250, 250, 250, 500, 500, 500, 1000, 1000, 1000, 2000 };
	static const int two[] = { 250, 250, 500, 500 };
	static const int ports[] = { 600, 600, 1200, 1200, 2400, 2400 };

	(void)state;
	e->time.limit_ns = 40000 * SET_MS;
	must_take(one, 6);
	tear_down(NULL);
	begin(3);
	e->time.limit_ns = 20000 * SET_MS;
	must_take(many, 10);
	tear_down(NULL);
	begin(2);
	must_take(two, 4);
	tear_down(NULL);
	begin(2);
	e->probes = true;
	e->time.limit_ns = 20000 * SET_MS;
	must_take(ports, 6);
}

/* The last one has what is left. */
static void test_last_attempt(void **state)
{
	(void)state;
	dial.is_hushed = true;
	e->time.limit_ns = 2500 * SET_MS;
	assert_int_equal(session_ready(s), KVD_ECONNECT);
	assert_int_equal(dial.dials, 2);
	assert_in_range(dial.limit_ms[1], 1493, 1499);
	uint64_t left_ns = SET_BEGIN_NS + 2500 * SET_MS - dial.dialled_ns[1];
	assert_int_equal(dial.limit_ms[1], left_ns / SET_MS + 1);
}

/* One that was refused at once says nothing of how long one may take. */
static void test_refused_at_once(void **state)
{
	(void)state;
	all_are_dead();
	assert_int_equal(session_ready(s), KVD_ECONNECT);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(dial.limit_ms[i], 1000);
}

/* Each address once, without a pause in between. */
static void test_rounds(void **state)
{
	(void)state;
	tear_down(NULL);
	begin(3);
	all_are_dead();
	assert_int_equal(session_ready(s), KVD_ECONNECT);
	assert_true(dial.dials > 9);
	for (unsigned i = 0; i < 9; i++) {
		assert_int_equal(dial.port[i], DIAL_PORT + i % 3);
		assert_int_equal(gap(i) > 0, i % 3 == 2);
	}
	assert_int_equal(dial.dials % 3, 0);
	/* Where there is no time left in the middle of one, it ends there. */
	dial_forget();
	dial.is_hushed = true;
	e->time.limit_ns = 300 * SET_MS;
	assert_int_equal(session_ready(s), KVD_ECONNECT);
	assert_int_equal(dial.dials, 2);
}

static void test_no_time(void **state)
{
	(void)state;
	e->time.end_ns = set_ns;
	assert_int_equal(session_ready(s), KVD_ECONNECT);
	e->health.broken = true;
	e->health.broken_code = KVD_ETIMEDOUT;
	assert_int_equal(session_ready(s), KVD_ETIMEDOUT);
	set_look_ns = 0;
	e->time.end_ns = set_ns; /* to the nanosecond */
	assert_int_equal(session_ready(s), KVD_ETIMEDOUT);
	assert_int_equal(dial.dials, 0);
	assert_int_equal(e->counters.reconnects, 3);
}

/* --------------------------------------------------------------------- what may not pass */

/* A change without a connection. */
static void be_adrift(void)
{
	static char tag;

	assert_int_equal(session_ready(s), 0);
	dial.answer = NULL;
	dial.is_deaf = true;
	end_change(dial.end, "key", &tag);
	assert_int_equal(engine_flush(e), 0);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	session_drift(s);
	assert_int_equal(e->adrift, 1);
	dial.is_deaf = false;
	dial_forget();
}

static void test_what_no_attempt_cures(void **state)
{
	struct kvd_completion done;

	(void)state;
	be_adrift();
	dial.hello.status = WIRE_EDENIED;
	e->health.was_lost = true;
	assert_int_equal(session_ready(s), KVD_EDENIED);
	assert_int_equal(dial.dials, 1);
	assert_int_equal(e->adrift, 0);
	assert_true(ops_take_done(e, &done));
	assert_int_equal(done.result, KVD_EUNKNOWN);
	dial.hello.status = WIRE_OK;
	dial.fails = DIAL_CQ;
	dial_forget();
	e->health.was_lost = false;
	assert_int_equal(session_ready(s), KVD_EDEVICE);
	assert_int_equal(dial.dials, 1);
	/* A device that was taken away may come back. */
	dial_forget();
	e->health.was_lost = true;
	e->time.limit_ns = 100 * SET_MS;
	assert_int_equal(session_ready(s), KVD_EDEVICE);
	assert_true(dial.dials > 3);
	assert_null(strstr(e->health.err.text, "how the last"));
}

/* What may pass ends nothing that is adrift: its own time does. */
static void test_what_may_pass(void **state)
{
	(void)state;
	be_adrift();
	all_are_dead();
	e->time.limit_ns = 50 * SET_MS;
	assert_int_equal(session_ready(s), KVD_ECONNECT);
	assert_int_equal(e->adrift, 1);
	assert_null(e->done);
}

/* --------------------------------------------------------------------------- what is said */

static int query_port_down(struct ibv_context *of, uint8_t port, struct ibv_port_attr *attr)
{
	(void)of, (void)port;
	*attr = (struct ibv_port_attr){ .max_msg_sz = 1u << 20, .state = IBV_PORT_DOWN };
	return 0;
}

static void test_says_how_it_was_lost(void **state)
{
	(void)state;
	assert_int_equal(session_ready(s), 0);
	all_are_dead();
	health_fail(&e->health, KVD_ECONNECT, "the cat bit the cable");
	dial.verbs.query_port = query_port_down;
	e->time.limit_ns = 3 * SET_MS;
	assert_int_equal(session_ready(s), KVD_ECONNECT);
	assert_string_equal(e->health.err.text, REFUSED
			    "; port 1 of the RDMA device here is down (cable, switch, 'ip link')"
			    "; how the last connection ended: the cat bit the cable");
}

static void break_it(struct end *end, const struct wire_request *request)
{
	(void)end, (void)request;
	health_fail(&e->health, KVD_ECONNECT, "it broke");
}

/* One that broke in the middle of its making says that itself. */
static void test_breaks_as_it_is_made(void **state)
{
	(void)state;
	dial.end->answer = break_it;
	dial.verbs.query_port = query_port_down;
	strcpy(e->health.lost.text, "another one");
	e->time.limit_ns = 3 * SET_MS;
	assert_int_equal(session_ready(s), KVD_ECONNECT);
	assert_string_equal(e->health.err.text, "it broke; port 1 of the RDMA device here is down (cable, "
			    "switch, 'ip link')");
}

/* -------------------------------------------------------------------------------- others */

static void test_alone(void **state)
{
	char tag;

	(void)state;
	assert_int_equal(session_ready_alone(s), 0);
	assert_int_equal(dial.dials, 1);
	dial.is_deaf = true;
	end_change(dial.end, "key", &tag);
	assert_int_equal(session_ready_alone(s), KVD_EINVAL);
	ops_abort(e);
	ops_forget_done(e);
	session_disconnect(s);
}

/* It goes home when it is time, to the nanosecond. */
static void test_goes_home_in_time(void **state)
{
	(void)state;
	tear_down(NULL);
	begin(2);
	dial.place[1].welcome.instance = 100;
	dial.end->client.route.deals = true;
	assert_int_equal(session_connect(s), 0);
	session_disconnect(s);
	assert_int_equal(session_attempt(s, 1000), 0);
	assert_int_equal(s->own, 0);
	dial_forget();
	set_look_ns = 0;
	assert_true(e->home_ns > set_ns);
	set_ns = e->home_ns - 1;
	assert_int_equal(session_ready(s), 0);
	assert_int_equal(dial.dials, 0);
	set_ns = e->home_ns;
	assert_int_equal(session_ready(s), 0);
	assert_int_equal(dial.dials, 1);
	assert_int_equal(dial.port[0], DIAL_PORT);
	assert_int_equal(e->home_ns, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_pauses),
		TEST(test_ends_in_time),
		TEST(test_comes_back),
		TEST(test_attempts_double),
		TEST(test_last_attempt),
		TEST(test_refused_at_once),
		TEST(test_rounds),
		TEST(test_no_time),
		TEST(test_what_no_attempt_cures),
		TEST(test_what_may_pass),
		TEST(test_says_how_it_was_lost),
		TEST(test_breaks_as_it_is_made),
		TEST(test_alone),
		TEST(test_goes_home_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
