/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session/connect.c: to which of several addresses a session connects, and what it tries next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/op/operation.h"
#include "client/session/connect.h"
#include "client/session/event.h"
#include "client/session/teardown.h"
#include "tests/unit/client/dial.h"

#define PLACES 3u
#define HOME_NS 10000000000ull

static struct kvd_session *s;
static struct kvd_client *client;
static struct route *r;
static struct engine *e;

/* Three addresses of one kvd. */
static int set_up(void **state)
{
	(void)state;
	alarm(20);
	dial_new(PLACES);
	s = &dial.end->session;
	client = &dial.end->client;
	r = &client->route;
	r->deals = true;
	e = dial.end->engine;
	for (unsigned i = 0; i < PLACES; i++)
		dial.place[i].welcome.instance = 100;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	dial_delete();
	alarm(0);
	return 0;
}

static void must_work(int rc)
{
	if (rc)
		fail_msg("%d: %s", rc, e->health.err.text);
	assert_true(health_is_usable(&e->health));
}

/* Those were dialled, in this order: "012". */
static void must_have_dialled(const char *places)
{
	char dialled[65] = "";

	assert_true(dial.dials < sizeof dialled);
	for (unsigned i = 0; i < dial.dials; i++)
		dialled[i] = (char)('0' + dial.port[i] - DIAL_PORT);
	assert_string_equal(dialled, places);
	dial_forget();
}

/* One that has begun there, and ends. */
static void meet(void)
{
	must_work(session_connect(s));
	session_disconnect(s);
	route_undeal(r, &s->own);
	s->others = 0;
	dial_forget();
}

/* As others' sessions do. */
static void crowd(unsigned a, unsigned b, unsigned c)
{
	r->place[0].sessions = a;
	r->place[1].sessions = b;
	r->place[2].sessions = c;
}

/* ------------------------------------------------------------------ a session that begins */

static void test_first_of_a_client(void **state)
{
	(void)state;
	r->place[1].instance = 55;
	must_work(session_connect(s));
	assert_int_equal(dial.addr_ms, 5000 / 3 + 1);
	must_have_dialled("0");
	assert_true(client->is_settled);
	assert_int_equal(pthread_mutex_trylock(&client->settling), 0);
	pthread_mutex_unlock(&client->settling);
	assert_int_equal(r->instance, 100);
	assert_int_equal(r->place[0].instance, 100);
	assert_int_equal(s->own, 0);
	assert_int_equal(r->place[0].sessions, 1);
	assert_int_equal(s->others, PLACES);
	assert_true(e->probes);
	assert_int_equal(e->home_ns, 0);
}

static void test_one_address(void **state)
{
	r->count = 1;
	must_work(session_connect(s));
	assert_int_equal(dial.addr_ms, 5000);
	must_have_dialled("0");
	assert_false(e->probes);
	assert_int_equal(s->others, 1);
	tear_down(state);
	set_up(state);
	r->count = 2;
	must_work(session_connect(s));
	assert_int_equal(dial.addr_ms, 2501);
}

/* Of a name with several addresses the others are forgotten, once it answers at one. */
static void test_name_with_several(void **state)
{
	(void)state;
	r->is_list = false;
	dial.place[0].is_dead = true;
	must_work(session_connect(s));
	must_have_dialled("01");
	assert_int_equal(r->count, 1);
	assert_int_equal(s->others, 1);
}

/* Sessions are dealt out, with no more than a second for each attempt. */
static void test_is_dealt(void **state)
{
	(void)state;
	meet();
	crowd(1, 0, 1);
	must_work(session_connect(s));
	assert_int_equal(dial.addr_ms, 1000);
	must_have_dialled("1");
	assert_int_equal(s->own, 1);
	assert_int_equal(r->place[1].sessions, 1);
	assert_int_equal(r->place[1].instance, 100);
	assert_int_equal(s->expected, 0);
	assert_int_equal(s->others, PLACES);
	assert_int_equal(e->home_ns, 0);
	session_disconnect(s);
	route_undeal(r, &s->own);
	client->options.timeout_ms = 600;
	crowd(1, 1, 0);
	must_work(session_connect(s));
	assert_int_equal(dial.addr_ms, 201);
}

/* Who is met there has to be the same kvd: another one is left, and put off. */
static void test_dealt_to_another_kvd(void **state)
{
	(void)state;
	meet();
	crowd(1, 0, 0);
	dial.place[1].welcome.instance = 200;
	must_work(session_connect(s));
	must_have_dialled("12");
	assert_int_equal(s->own, 2);
	assert_int_equal(r->instance, 100);
	assert_int_equal(r->place[1].instance, 200);
	assert_true(r->place[1].again_ns > clock_ns() + 10000000000ull);
	assert_int_equal(r->place[1].sessions, 0);
}

/* Nobody is there: it goes elsewhere, and home later. */
static void test_dealt_to_nobody(void **state)
{
	(void)state;
	meet();
	crowd(1, 0, 1);
	dial.place[1].is_dead = true;
	uint64_t begun_ns = clock_ns();
	must_work(session_connect(s));
	must_have_dialled("12");
	assert_int_equal(s->own, 1);
	assert_int_equal(r->place[1].misses, 1);
	assert_in_range(r->place[1].again_ns, begun_ns + 1000000000ull, clock_ns() + 1000000000ull);
	assert_in_range(e->home_ns, begun_ns + HOME_NS, clock_ns() + HOME_NS);
	assert_false(e->is_homesick);
	assert_int_equal(e->drains_ns, 0);
}

/* No other address is good for who was denied. */
static void test_dealt_and_denied(void **state)
{
	(void)state;
	meet();
	crowd(1, 0, 1);
	dial.hello.status = WIRE_EDENIED;
	assert_int_equal(session_connect(s), KVD_EDENIED);
	must_have_dialled("1");
	assert_int_equal(r->place[1].misses, 0);
	assert_int_equal(s->expected, 0);
}

/* All but the present address are dead: there it is accepted whatever kvd that is. */
static void test_only_the_present_one(void **state)
{
	(void)state;
	meet();
	crowd(1, 0, 0);
	dial.place[1].is_dead = dial.place[2].is_dead = true;
	r->place[0].again_ns = UINT64_MAX;
	dial.place[0].welcome.instance = 300;
	must_work(session_connect(s));
	must_have_dialled("120");
	assert_int_equal(r->instance, 300);
}

/* ------------------------------------------------------------------------- none answers */

static void test_nobody_anywhere(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PLACES; i++)
		dial.place[i].is_dead = true;
	assert_int_equal(session_connect(s), KVD_ECONNECT);
	must_have_dialled("012");
	assert_string_equal(e->health.err.text, "connecting to 127.0.0.1:7000: nothing listens on that "
			    "port: is kvd running? (RDMA_CM_EVENT_REJECTED, status 8)");
	assert_false(client->is_settled);
	assert_int_equal(pthread_mutex_trylock(&client->settling), 0);
	pthread_mutex_unlock(&client->settling);
	assert_false(e->health.connected);
}

static void test_second_answers(void **state)
{
	(void)state;
	dial.place[0].is_dead = true;
	must_work(session_connect(s));
	must_have_dialled("01");
	assert_int_equal(s->own, 1);
}

/* That is its answer, which the third one's would not change. */
static void test_second_denies(void **state)
{
	(void)state;
	dial.place[0].is_dead = true;
	dial.hello.status = WIRE_EDENIED;
	assert_int_equal(session_connect(s), KVD_EDENIED);
	must_have_dialled("01");
	assert_non_null(strstr(e->health.err.text, "kvd at 127.0.0.1:7001 denied"));
}

/* What this end lacks may be the device's of one address only. */
static void test_device_that_fails(void **state)
{
	(void)state;
	dial.fails = DIAL_CQ;
	assert_int_equal(session_connect(s), KVD_EDEVICE);
	must_have_dialled("012");
}

/* ------------------------------------------------------------------- a connection is lost */

/* It was at the first, whose kvd is at the others, too, or it isn't. */
static void lose(bool is_dealt)
{
	r->deals = is_dealt;
	must_work(session_connect(s));
	health_fail(&e->health, KVD_ECONNECT, "gone");
	session_disconnect(s);
	dial_forget();
}

static void attempt(const char *dials)
{
	session_attempt(s, 77);
	assert_int_equal(s->attempt_ms, 77);
	must_have_dialled(dials);
	session_disconnect(s);
}

/* First each other address is tried once. */
static void test_lost_one_of_several(void **state)
{
	(void)state;
	lose(true);
	for (unsigned i = 0; i < PLACES; i++)
		dial.place[i].is_dead = true;
	attempt("1");
	attempt("2");
	assert_int_equal(s->others, 1);
	attempt("0");
	assert_int_equal(s->others, 0);
	dial.place[0].is_dead = dial.place[1].is_dead = false;
	for (unsigned i = 0; i < PLACES; i++)
		r->place[i].again_ns = 0;
	attempt("0");
	assert_int_equal(s->others, PLACES);
	attempt("1");
	assert_int_equal(s->own, 0);
}

/* Where others are other kvds it comes back to the one that it was at, if that may be there still. */
static void test_lost_the_one_that_counts(void **state)
{
	(void)state;
	lose(false);
	attempt("0");
	e->health.silent = true;
	attempt("1");
	assert_false(e->health.silent);
	attempt("1");
	e->was_primary = true;
	attempt("2");
	assert_false(e->was_primary);
	attempt("2");
	dial.place[2].is_dead = true;
	attempt("2");
	attempt("0");
	dial.place[1].is_dead = true;
	e->was_primary = true;
	attempt("1");
	assert_false(e->was_primary);
	attempt("2");
	attempt("0");
	dial.hello.status = WIRE_EDENIED;
	attempt("0");
	attempt("0");
	dial.fails = DIAL_COMP;
	attempt("0");
	attempt("1");
	attempt("2");
}

/* ------------------------------------------------------------------------ the way home */

/* It is at the second, and belongs to the first. */
static void be_away(void)
{
	must_work(session_connect(s));
	session_disconnect(s);
	must_work(session_attempt(s, 4000));
	assert_string_equal(s->addr.text, "127.0.0.1:7001");
	assert_int_equal(s->own, 0);
	assert_true(e->home_ns);
	e->is_homesick = true;
	e->drains_ns = 5;
	dial_forget();
}

static void test_goes_home(void **state)
{
	(void)state;
	be_away();
	session_go_home(s);
	assert_true(health_is_usable(&e->health));
	assert_int_equal(dial.addr_ms, 100);
	must_have_dialled("0");
	assert_int_equal(e->counters.reconnects, 1);
	assert_int_equal(e->home_ns, 0);
	assert_false(e->is_homesick);
	assert_int_equal(e->drains_ns, 0);
	assert_int_equal(s->others, PLACES);
}

/* It is not left where it was: that would take longer. */
static void test_nobody_at_home(void **state)
{
	(void)state;
	be_away();
	dial.place[0].is_dead = true;
	uint64_t begun_ns = clock_ns();
	session_go_home(s);
	must_have_dialled("0");
	assert_false(e->health.connected);
	assert_int_equal(r->place[0].misses, 1);
	assert_in_range(e->home_ns, begun_ns + HOME_NS, clock_ns() + HOME_NS);
	/* While that is known nobody tries. */
	must_work(session_attempt(s, 4000));
	dial_forget();
	session_go_home(s);
	must_have_dialled("");
	assert_true(health_is_usable(&e->health));
}

static void test_stays_for_a_lock(void **state)
{
	(void)state;
	be_away();
	e->held.count = 1;
	session_go_home(s);
	must_have_dialled("");
	assert_true(health_is_usable(&e->health));
	assert_true(e->home_ns > clock_ns());
	assert_false(e->is_homesick);
	assert_int_equal(e->drains_ns, 0);
	e->held.count = 0;
}

static void say_nothing(struct end *end, const struct wire_request *request)
{
	(void)end, (void)request;
}

static void test_stays_for_what_is_in_flight(void **state)
{
	char tag;

	(void)state;
	be_away();
	dial.answer = say_nothing;
	end_change(dial.end, "key", &tag);
	session_go_home(s);
	must_have_dialled("");
	assert_int_equal(e->in_flight, 1);
	assert_int_equal(e->counters.reconnects, 0);
}

/* ----------------------------------------------------------------------- an event loop */

/* The descriptor stays the same: it is readable for the new connection's, too. */
static void test_event_loop(void **state)
{
	struct epoll_event event;

	(void)state;
	must_work(session_connect(s));
	int fd = event_fd_of(e);
	assert_true(fd >= 0);
	session_disconnect(s);
	must_work(session_attempt(s, 4000));
	assert_int_equal(event_fd_of(e), fd);
	const int fds[] = { e->comp->fd, e->channel->fd };
	for (unsigned i = 0; i < 2; i++) {
		eventfd_t got;

		assert_int_equal(epoll_wait(fd, &event, 1, 0), 0);
		assert_int_equal(eventfd_write(fds[i], 1), 0);
		assert_int_equal(epoll_wait(fd, &event, 1, 5000), 1);
		assert_int_equal(eventfd_read(fds[i], &got), 0);
	}
	event_delete(e);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_first_of_a_client),
		TEST(test_one_address),
		TEST(test_name_with_several),
		TEST(test_is_dealt),
		TEST(test_dealt_to_another_kvd),
		TEST(test_dealt_to_nobody),
		TEST(test_dealt_and_denied),
		TEST(test_only_the_present_one),
		TEST(test_nobody_anywhere),
		TEST(test_second_answers),
		TEST(test_second_denies),
		TEST(test_device_that_fails),
		TEST(test_lost_one_of_several),
		TEST(test_lost_the_one_that_counts),
		TEST(test_goes_home),
		TEST(test_nobody_at_home),
		TEST(test_stays_for_a_lock),
		TEST(test_stays_for_what_is_in_flight),
		TEST(test_event_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
