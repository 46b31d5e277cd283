/* SPDX-License-Identifier: BSD-2-Clause */
/* server/host/room.h: for whom there is room, and who makes it; which connections there are. */
#include "tests/unit/said.h"
#include "tests/unit/server/arrival_kit.h"

/* --------------------------------------------------------------------------- room */

/* So many of a namespace that have proved who they are; from `first` on. */
static void fill(unsigned first, unsigned n, uint64_t space)
{
	for (unsigned i = first; i < first + n; i++)
		come(i, 0, space)->state = CONN_READY;
	server[0].pending = server[1].pending = 0;
}

static void test_none_for_more(void **state)
{
	(void)state;
	fill(0, TEAM_MAX, TEAM);
	ask(id_of(8, 0), 32, TEAM);
	expect_refused(&ids[8], WIRE_REFUSED_CONNECTIONS, TEAM_MAX);
	assert_int_equal(server[1].refused, 1);
	fill(2, ALL_MAX - TEAM_MAX, 0);
	ask(id_of(8, 0), 32, 0);
	expect_refused(&ids[8], WIRE_REFUSED_CONNECTIONS, ALL_MAX);
	bury(ids[0].context);
	bury(ids[2].context);
	fill(0, 1, 0);
	fill(2, 1, 0);
	ask(id_of(8, 0), 32, TEAM); /* all others' are taken, of its own it has one */
	expect_refused(&ids[8], WIRE_REFUSED_CONNECTIONS, ALL_MAX);
	assert_int_equal(drops, 0);
}

/* The eldest who proved nothing makes room for the newcomer, who waits until it is gone. */
static void test_soon(void **state)
{
	struct conn *young, *old;

	(void)state;
	fill(0, ALL_MAX - 2, 0);
	now_ns = 2 * S;
	young = come(4, 0, 0);
	old = come(5, 0, 0);
	old->since_ns = S;
	old->state = CONN_DENIED; /* which proves nothing either */
	drops = 0;
	for (unsigned i = 8; i < 10; i++) {
		ask(id_of(i, 0), 30, 0);
		expect_waiting();
		assert_int_equal(drops, i - 7);
		assert_ptr_equal(dropped, i == 8 ? old : young);
		assert_string_equal(why, "it did not finish its handshake, and all connections are taken");
	}
	ask(id_of(10, 0), 32, 0); /* those that end do so for others */
	expect_refused(&ids[10], WIRE_REFUSED_CONNECTIONS, ALL_MAX);
	__atomic_store_n(&((struct conn *)ids[0].context)->state, CONN_CLOSING, __ATOMIC_RELAXED);
	ask(id_of(10, 0), 32, 0); /* one more ends, by itself */
	expect_waiting();
	assert_int_equal(drops, 2);
	arrivals_go_on(&host);
	expect_waiting();

	bury(young);
	arrivals_go_on(&host);
	assert_ptr_equal(accepted, &ids[8]);
	assert_int_equal(((struct conn *)ids[8].context)->credits, 30);
	accepted = NULL;
	arrivals_go_on(&host);
	expect_waiting();
	bury(old);
	bury(ids[0].context);
	arrivals_go_on(&host);
	assert_ptr_equal(accepted, &ids[10]);
	assert_int_equal(server[0].conn_count, ALL_MAX);
	assert_null(host.waiting);
}

static void test_soon_in_a_namespace(void **state)
{
	struct conn *c;

	(void)state;
	fill(0, 1, TEAM);
	c = come(1, 0, TEAM);
	fill(2, ALL_MAX - TEAM_MAX - 1, 0);
	ask(id_of(8, 0), 32, TEAM);
	expect_waiting();
	assert_ptr_equal(dropped, c);
	ask(id_of(9, 0), 32, TEAM); /* the one that ends does so for another */
	expect_refused(&ids[9], WIRE_REFUSED_CONNECTIONS, TEAM_MAX);
	assert_int_equal(drops, 1);
	fill(5, 1, 0); /* the last of all */
	ask(id_of(9, 0), 32, 0);
	expect_refused(&ids[9], WIRE_REFUSED_CONNECTIONS, ALL_MAX);
	((struct conn *)ids[2].context)->disconnected = true;
	ask(id_of(9, 0), 32, 0);
	expect_waiting();
	/* Who waited first is in another's way no more than it must. */
	bury(ids[2].context);
	arrivals_go_on(&host);
	assert_ptr_equal(accepted, &ids[9]);
	assert_ptr_equal(host.waiting->id, &ids[8]);
	bury(c);
	arrivals_go_on(&host);
	assert_ptr_equal(accepted, &ids[8]);
	assert_ptr_equal(((struct conn *)ids[8].context)->server, &server[1]);
}

static void test_no_place_to_wait(void **state)
{
	(void)state;
	fill(0, ALL_MAX - 1, 0);
	come(5, 0, 0);
	fault = NO_PLACE_TO_WAIT;
	ask(id_of(8, 0), 32, 0);
	expect_refused(&ids[8], WIRE_REFUSED_RESOURCES, 0);
	assert_null(host.waiting);
}

static void refuse_late(bool all)
{
	said_begin();
	arrivals_refuse(&host, all);
	said_end();
}

/* Those that wait in vain are refused after 3 s, or as kvd stops. */
static void test_in_vain(void **state)
{
	(void)state;
	now_ns = 10 * S;
	fill(0, ALL_MAX, 0);
	for (unsigned i = 0; i < 3; i++) {
		((struct conn *)ids[i].context)->disconnected = true;
		ask(id_of(8 + i, 0), 32, 0);
		expect_waiting();
		now_ns += S;
	}
	refuse_late(false);
	expect_waiting();
	now_ns++;
	refuse_late(false);
	expect_refused(&ids[8], WIRE_REFUSED_CONNECTIONS, ALL_MAX);
	assert_int_equal(server[0].refused, 1);
	rejected = deleted = NULL;
	refuse_late(true);
	expect_refused(&ids[10], WIRE_REFUSED_STOPPING, 0);
	assert_int_equal(server[0].refused, 3);
	assert_null(host.waiting);
}

/* Of all connections a half is for those who said who they are. */
static void test_a_part(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ALL_MAX / 2; i++) {
		now_ns += S;
		come(i, 0, i == 1 ? TEAM : 0);
		assert_int_equal(drops, 0);
	}
	come(3, 0, 0);
	assert_int_equal(drops, 1);
	assert_ptr_equal(dropped, ids[0].context);
	assert_string_equal(why, "it did not finish its handshake, and others wait for theirs");
	server[0].connections_max = 1;
	while (server[0].conns)
		bury(server[0].conns);
	bury(server[1].conns);
	server[0].pending = server[1].pending = 0;
	come(4, 0, 0);
	assert_int_equal(drops, 1);
}

/* ------------------------------------------------------------------------ listed */

static void count(void *arg, struct conn *c, const struct handshake *handshake)
{
	assert_ptr_equal(handshake, &c->handshake);
	assert_ptr_equal(c->server, &server[0]);
	++*(unsigned *)arg;
}

static void test_listed(void **state)
{
	unsigned counts[LISTENERS_MAX], n = 0;
	struct conn *eldest;

	(void)state;
	come(0, 1, 0)->connection_id = 8;
	come(1, 1, 0)->connection_id = 9;
	come(2, 0, 0);
	assert_true(conns_know(&server[0], 8));
	assert_true(conns_know(&server[0], 9));
	assert_false(conns_know(&server[0], 0)); /* nobody's */
	assert_false(conns_know(&server[1], 9));
	come(3, 0, TEAM);
	conns_each(&server[0], count, &n);
	assert_int_equal(n, 3);
	assert_int_equal(conns_look(&host, &server[1], &eldest), 0);
	assert_ptr_equal(eldest, ids[3].context);
	eldest->state = CONN_READY;
	assert_int_equal(conns_look(&host, &server[1], &eldest), 0);
	assert_null(eldest);
	conns_count_by(&server[0], counts);
	assert_int_equal(counts[0], 1);
	assert_int_equal(counts[1], 2);
	assert_int_equal(counts[LISTENERS_MAX - 1], 0);
	bury(ids[1].context);
	assert_false(conns_know(&server[0], 9));
	assert_true(conns_know(&server[0], 8));
	assert_int_equal(conns_count(&host), 3);
	assert_int_equal(conns_count_pending(&host), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, arrival_make, arrival_unmake)
		CASE(test_none_for_more),
		CASE(test_soon),
		CASE(test_soon_in_a_namespace),
		CASE(test_no_place_to_wait),
		CASE(test_in_vain),
		CASE(test_a_part),
		CASE(test_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
