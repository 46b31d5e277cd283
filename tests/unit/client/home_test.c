/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session/connect.c: when a session that lost its port goes back to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/again/ready.h"
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

/* It goes where it belongs only while nothing is in flight and nothing is locked. */
static void test_homesick(void **state)
{
	char tag;

	(void)state;
	e->home_ns = 1;
	end_change(end, KEY, &tag);
	assert_int_equal(session_poll_for(&end->session, 5000000), 0);
	assert_true(e->is_homesick);
	assert_int_equal(session_ready(&end->session), 0);
	assert_false(e->is_homesick);
	assert_true(e->home_ns > clock_ns());
	assert_true(health_is_good(&e->health));
}

/* Of two addresses of one kvd it belongs to the first, and is not there. */
static void be_away(void)
{
	struct route *r = &end->client.route;

	r->deals = r->is_list = true;
	r->count = 2;
	r->instance = 1;
	end->session.own = 0;
	e->home_ns = 1;
	e->is_homesick = true;
}

/* What is in flight has to end first, for a while: then it is tried again later. */
static void test_drains_before_it_goes_home(void **state)
{
	uint8_t value[10];
	char tag;

	(void)state;
	be_away();
	end_change(end, KEY, &tag);
	assert_int_equal(kvd_submit_get(&end->session, KEY, 3, value, sizeof value, &tag), KVD_EBUSY);
	assert_int_equal(kvd_submit_get(&end->session, KEY, 3, value, sizeof value, &tag), KVD_EBUSY);
	assert_int_equal(e->in_flight, 1);
	assert_true(e->drains_ns);
	e->drains_ns = 1;
	assert_int_equal(kvd_submit_get(&end->session, KEY, 3, value, sizeof value, &tag), KVD_OK);
	assert_int_equal(e->in_flight, 2);
	assert_false(e->is_homesick);
	assert_true(e->home_ns > clock_ns());
}

/* Nothing is held up for a way that leads nowhere, nor for one that a lock would not survive. */
static void test_drains_for_nothing(void **state)
{
	uint8_t value[10];
	char tag;

	(void)state;
	be_away();
	end->client.route.place[0].again_ns = UINT64_MAX;
	end_change(end, KEY, &tag);
	assert_int_equal(kvd_submit_get(&end->session, KEY, 3, value, sizeof value, &tag), KVD_OK);
	be_away();
	end->client.route.place[0].again_ns = 0;
	e->held.count = 1;
	assert_int_equal(kvd_submit_get(&end->session, KEY, 3, value, sizeof value, &tag), KVD_OK);
	e->held.count = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_homesick, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_drains_before_it_goes_home, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_drains_for_nothing, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
