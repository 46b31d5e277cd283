/* SPDX-License-Identifier: BSD-2-Clause */
/* client/again/follow.c, client/session/where.c: a session that is with a member which doesn't serve goes to
 * the primary, or waits until there is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "client/again/follow.h"
#include "client/again/ready.h"
#include "client/op/operation.h"
#include "client/op/post.h"
#include "client/session/connect.h"
#include "client/session/teardown.h"
#include "client/session/where.h"
#include "tests/unit/client/dial.h"
#include "tests/unit/client/set_clock.h"

#define HERE "127.0.0.1:7000\n127.0.0.1:7001\n127.0.0.1:7002\n"
#define THERE "127.0.0.1:7001\n127.0.0.1:7000\n127.0.0.1:7002\n"
#define NOWHERE "-\n127.0.0.1:7000\n127.0.0.1:7001\n127.0.0.1:7002\n"
#define LEFT "127.0.0.1:7000 is not the cluster's primary any more"

static struct kvd_session *s;
static struct route *r;
static struct engine *e;
static struct where w;

/* Connected with a member that does not serve. */
static int set_up(void **state)
{
	(void)state;
	set_clock();
	dial_new(1);
	s = &dial.end->session;
	r = &dial.end->client.route;
	e = dial.end->engine;
	e->time.limit_ns = 5000 * SET_MS;
	dial_as_cluster();
	for (unsigned i = 0; i < DIAL_PLACES; i++) {
		dial.place[i].where = NOWHERE;
		dial.place[i].welcome.reign = 0;
	}
	assert_int_equal(session_attempt(s, 1000), 0);
	assert_int_equal(r->count, 3);
	e->health.moved = true;
	dial_forget();
	set_sleeps = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	dial_delete();
	return 0;
}

/* All say so, from now on. */
static void say(const char *where, uint64_t epoch, uint64_t reign)
{
	for (unsigned i = 0; i < DIAL_PLACES; i++) {
		dial.place[i].where = where;
		dial.place[i].epoch = epoch;
		dial.place[i].welcome.reign = reign;
	}
}

/* It has left who it was with. */
static void must_leave(void)
{
	e->was_primary = true;
	assert_int_equal(session_follow(s), 0);
	assert_true(e->health.broken);
	assert_int_equal(e->health.broken_code, KVD_ECONNECT);
	assert_string_equal(e->health.err.text, LEFT);
	assert_false(e->was_primary);
}

/* ----------------------------------------------------------------------- what is said */

static void test_what_is_said(void **state)
{
	(void)state;
	set_look_ns = 0;
	dial.heard_us = 1500;
	say(THERE, 11, 4);
	assert_int_equal(where_ask(s, false, &w), 0);
	assert_int_equal(dial.end->asked.op, WIRE_WHERE);
	assert_int_equal(w.epoch, 11);
	assert_int_equal(w.reign, 4);
	assert_true(w.is_known);
	assert_false(w.is_here);
	assert_false(w.is_gone);
	assert_int_equal(w.heard_ns, set_ns - 1500000);
	assert_int_equal(r->epoch, 11);
	assert_int_equal(r->at, 0);
	assert_int_equal(where_ask(s, true, &w), 0);
	assert_int_equal(r->at, 1);
	r->is_gone = true;
	dial.heard_us = UINT32_MAX;
	assert_int_equal(where_ask(s, true, &w), 0);
	assert_true(w.is_gone);
	assert_int_equal(w.heard_ns, 0);
	say(HERE, 12, 5);
	r->is_gone = true;
	assert_int_equal(where_ask(s, false, &w), 0);
	assert_true(w.is_here);
	assert_false(w.is_gone);
	say(NOWHERE, 13, 0);
	assert_int_equal(where_ask(s, false, &w), 0);
	assert_false(w.is_known || w.is_here || w.is_gone);
	/* What is older than what is known counts for nothing. */
	say(HERE, 2, 1);
	assert_int_equal(where_ask(s, false, &w), 0);
	assert_false(w.is_known);
}

/* --------------------------------------------------------------------------- who serves */

static void test_goes_to_the_primary(void **state)
{
	(void)state;
	say(THERE, 10, 0);
	dial.place[1].welcome.reign = 4;
	assert_int_equal(session_ready(s), 0);
	assert_int_equal(dial.dials, 1);
	assert_int_equal(dial.port[0], DIAL_PORT + 1);
	assert_int_equal(dial.wheres, 2);
	assert_int_equal(set_sleeps, 0);
	assert_int_equal(e->reign, 4);
	assert_true(health_is_usable(&e->health));
}

/* A connection is of the reign that it began in: the same member serves in a new one. */
static void test_serves_by_now(void **state)
{
	(void)state;
	say(HERE, 10, 4);
	must_leave();
	assert_int_equal(dial.wheres, 1);
	assert_int_equal(set_sleeps, 0);
	assert_int_equal(e->follows, 0);
	assert_int_equal(session_ready(s), 0);
	assert_int_equal(dial.port[0], DIAL_PORT);
	assert_int_equal(e->reign, 4);
}

/* The pauses while nobody is: short ones first, as long as a hand-over takes. */
static void must_have_paused(void)
{
	assert_int_equal(dial.wheres, 51);
	assert_true(set_sleeps >= 50);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(set_slept[i], i < 25 ? 1 : 4);
}

static void test_nobody_has_made_it(void **state)
{
	(void)state;
	say("-\n", 0, 0);
	assert_int_equal(session_follow(s), KVD_ECONNECT);
	must_have_paused();
	assert_int_equal(set_sleeps, 50);
	assert_string_equal(e->health.err.text,
			    "kvd at 127.0.0.1:7000 knows of no primary: nobody has made the cluster "
			    "(\"kvcli cluster init\"), or it does not reach ZooKeeper");
	assert_false(e->health.moved);
	assert_false(e->health.broken);
}

/* It is the primary, and does not serve: another member may know of a later one. */
static void test_primary_that_does_not_serve(void **state)
{
	(void)state;
	say(HERE, 10, 0);
	must_leave();
	must_have_paused();
	assert_int_equal(r->at, 1);
	assert_true(r->is_gone);
}

static void test_nobody_knows(void **state)
{
	(void)state;
	say(NOWHERE, 10, 0);
	must_leave();
	must_have_paused();
	assert_int_equal(r->at, 1);
	assert_false(r->is_gone);
}

static void test_no_time(void **state)
{
	(void)state;
	say(NOWHERE, 10, 0);
	set_look_ns = 0;
	e->time.end_ns = set_ns + 10 * SET_MS;
	dial.end->client.options.timeout_ms = 4321;
	assert_int_equal(session_follow(s), KVD_ECONNECT);
	assert_int_equal(dial.wheres, 10);
	assert_string_equal(e->health.err.text,
			    "no member of the cluster served within 4321 ms; kvd at 127.0.0.1:7000 was "
			    "asked last: \"kvcli cluster status\" says why");
	assert_false(e->health.broken);
}

/* ---------------------------------------------------------------------- a primary that is gone */

static void be_gone(void)
{
	say(THERE, 10, 0);
	assert_int_equal(where_ask(s, false, &w), 0);
	r->is_gone = true;
	dial_forget();
}

/* Others have heard of it since it was lost: it lives. */
static void test_gone_and_heard_of(void **state)
{
	(void)state;
	be_gone();
	set_look_ns = 0;
	dial.heard_us = 0;
	must_leave();
	assert_int_equal(dial.wheres, 2); /* not only in the same instant */
	assert_false(r->is_gone);
	assert_int_equal(r->at, 1);
}

/* Or only before: then it is waited for another one, and the lost one is tried again. */
static void test_gone_and_not_heard_of(void **state)
{
	(void)state;
	be_gone();
	dial.heard_us = 5000000;
	must_leave();
	must_have_paused();
	assert_false(r->is_gone);
	assert_int_equal(r->at, 1);
}

/* ------------------------------------------------------------------------------- to and fro */

static void follow_again(unsigned follows, int pause_ms)
{
	set_sleeps = 0;
	e->health.broken = false;
	must_leave();
	assert_int_equal(e->follows, follows);
	assert_int_equal(e->followed_ns, set_ns - (pause_ms > 0 ? (unsigned)pause_ms * SET_MS : 0));
	assert_int_equal(set_sleeps, pause_ms > 0);
	if (pause_ms)
		assert_int_equal(set_slept[0], pause_ms);
}

/* Who is sent to and fro waits a little longer each time, until there is a second of rest. */
static void test_to_and_fro(void **state)
{
	static const int pauses[] = { 0, 2, 4, 8, 16, 32, 64, 64, 64 };
	const unsigned count = sizeof pauses / sizeof pauses[0];

	(void)state;
	say(THERE, 10, 0);
	set_look_ns = 0;
	for (unsigned i = 0; i < count; i++)
		follow_again(i, pauses[i]);
	set_ns = e->followed_ns + 1000 * SET_MS - 1;
	follow_again(count, 64);
	set_ns = e->followed_ns + 1000 * SET_MS;
	follow_again(0, 0);
	follow_again(1, 2);
}

/* ------------------------------------------------------------------------- it can't be asked */

static int break_with;

static void break_it(struct end *end, const struct wire_request *request)
{
	(void)end, (void)request;
	health_fail(&e->health, break_with, "it broke");
}

static void test_breaks_as_it_is_asked(void **state)
{
	static const struct {
		int code, result;
	} cases[] = { { KVD_ECONNECT, 0 }, { KVD_ETIMEDOUT, 0 }, { KVD_EPROTOCOL, KVD_EPROTOCOL },
		      { KVD_EDEVICE, KVD_EDEVICE } };

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		break_with = cases[i].code;
		dial.end->answer = break_it;
		assert_int_equal(session_follow(s), cases[i].result);
		assert_int_equal(set_sleeps, 0);
		tear_down(state);
		set_up(state);
	}
	dial.where_status = WIRE_EUNSUPPORTED;
	assert_int_equal(session_follow(s), KVD_EPROTOCOL);
	assert_string_equal(e->health.err.text,
			    "kvd at 127.0.0.1:7000 does not say where the primary is (status 8)");
}

/* ------------------------------------------------------------------------ what is adrift */

static char tag;

/* A change whose primary, at the first address, is lost. */
static void lose_the_primary(void)
{
	dial.place[0].welcome.reign = 3;
	session_disconnect(s);
	say(HERE, 10, 3);
	assert_int_equal(session_attempt(s, 1000), 0);
	dial.is_deaf = true;
	end_change(dial.end, "key", &tag);
	assert_int_equal(engine_flush(e), 0);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	session_drift(s);
	assert_int_equal(e->adrift, 1);
	dial.place[0].is_dead = true;
	dial_forget();
}

/* It is for the next primary: a member that is none is asked where that is. */
static void test_adrift_from_a_primary(void **state)
{
	(void)state;
	lose_the_primary();
	say("127.0.0.1:7002\n127.0.0.1:7001\n", 11, 0);
	dial.place[2].welcome.reign = 4;
	assert_int_equal(session_ready(s), 0);
	assert_int_equal(e->reign, 4);
	assert_int_equal(dial.port[dial.dials - 1], DIAL_PORT + 2);
	assert_int_equal(e->adrift, 1);
	assert_false(e->health.moved);
}

/* Where nothing is adrift, or of no cluster, who answers will do. */
static void test_who_answers_will_do(void **state)
{
	(void)state;
	lose_the_primary();
	ops_end_adrift(e, KVD_ECONNECT);
	ops_forget_done(e);
	say("127.0.0.1:7002\n127.0.0.1:7001\n", 11, 0);
	assert_int_equal(session_ready(s), 0);
	assert_int_equal(dial.dials, 1);
	assert_int_equal(dial.port[0], DIAL_PORT + 1);
	assert_int_equal(e->reign, 0);
	assert_false(e->health.moved);
	tear_down(state);
	set_up(state);
	lose_the_primary();
	for (unsigned i = 0; i < DIAL_PLACES; i++)
		dial.place[i].welcome.flags = 0;
	assert_int_equal(session_ready(s), 0);
	assert_int_equal(dial.dials, 1);
	assert_false(e->health.moved);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_said),
		TEST(test_goes_to_the_primary),
		TEST(test_serves_by_now),
		TEST(test_nobody_has_made_it),
		TEST(test_primary_that_does_not_serve),
		TEST(test_nobody_knows),
		TEST(test_no_time),
		TEST(test_gone_and_heard_of),
		TEST(test_gone_and_not_heard_of),
		TEST(test_to_and_fro),
		TEST(test_breaks_as_it_is_asked),
		TEST(test_adrift_from_a_primary),
		TEST(test_who_answers_will_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
