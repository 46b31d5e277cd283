/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session/route: where a session connects next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "client/session/route.h"

static struct route r;
static struct addr first, second, third;
static unsigned here; /* of a session that is not dealt out */
static uint64_t clock_now_ns;

static struct addr at(const char *text)
{
	struct addr addr;
	struct err err;

	assert_int_equal(addr_parse(&addr, text, &err), 0);
	return addr;
}

static void add(const char *text)
{
	const struct addr addr = at(text);

	assert_true(route_add(&r, &addr));
}

static void expect_present(const char *text)
{
	struct addr addr;

	route_present(&r, &here, clock_now_ns, &addr);
	assert_string_equal(addr.text, text);
}

static void gone(const char *text)
{
	struct addr addr = { .text = "" };

	strcpy(addr.text, text);
	route_failed(&r, &addr, clock_now_ns);
}

static bool learn_ports(uint64_t epoch, unsigned ports, const char *lines)
{
	char text[256];

	snprintf(text, sizeof text, "%s", lines);
	return route_learn(&r, epoch, text, ports, true);
}

static bool learn(uint64_t epoch, const char *lines)
{
	return learn_ports(epoch, 0, lines);
}

static bool leads(const char *text)
{
	struct addr addr = { .text = "" };

	strcpy(addr.text, text);
	return route_is_primary(&r, &addr);
}

static int begin(void **state)
{
	(void)state;
	memset(&r, 0, sizeof r);
	route_init(&r);
	here = ROUTE_NOWHERE;
	clock_now_ns = 0;
	add("127.0.0.1:1");
	add("127.0.0.1:2");
	return 0;
}

static int finish(void **state)
{
	(void)state;
	route_fini(&r);
	return 0;
}

/* Of a name with several addresses the first that answers is kept. */
static void test_name(void **state)
{
	(void)state;
	second = at("127.0.0.1:2");
	expect_present("127.0.0.1:1");
	gone("127.0.0.1:1");
	expect_present("127.0.0.1:2");
	route_settled(&r, &second, 0);
	assert_int_equal(route_count(&r), 1);
	gone("127.0.0.1:2");
	expect_present("127.0.0.1:2");
}

/* Of a list all are kept; who failed while another thread moved on moves nothing. */
static void test_list(void **state)
{
	(void)state;
	first = at("127.0.0.1:1");
	r.is_list = true;
	route_settled(&r, &first, 0);
	assert_int_equal(route_count(&r), 2);
	gone("127.0.0.1:2");
	expect_present("127.0.0.1:1");
	gone("127.0.0.1:1");
	gone("127.0.0.1:1");
	expect_present("127.0.0.1:2");
	add("127.0.0.1:2");
	assert_int_equal(route_count(&r), 2);
}

static void test_learn(void **state)
{
	(void)state;
	strcpy(r.suffix, "/photos");
	assert_true(learn(3, "127.0.0.1:7\n127.0.0.1:1\n-\n"));
	assert_true(leads("127.0.0.1:7/photos"));
	assert_true(r.is_list);
	expect_present("127.0.0.1:7/photos");
	assert_int_equal(route_count(&r), 4); /* with another namespace it is another one */
	/* An older configuration, one without its primary's address, none. */
	assert_false(learn(2, "127.0.0.1:8\n"));
	assert_false(learn(4, "-\n127.0.0.1:7\n"));
	assert_false(learn(0, ""));
	expect_present("127.0.0.1:7/photos");
}

/* Who knows of no later epoch names a primary that is dead: it is not gone to again and again. */
static void test_gone(void **state)
{
	(void)state;
	assert_true(learn(3, "127.0.0.1:1\n127.0.0.1:2\n127.0.0.1:3\n"));
	assert_false(route_is_gone(&r));
	gone("127.0.0.1:1");
	assert_true(route_is_gone(&r));
	assert_true(learn(3, "127.0.0.1:1\n127.0.0.1:2\n127.0.0.1:3\n"));
	assert_true(leads("127.0.0.1:1"));
	expect_present("127.0.0.1:2");
	/* A later epoch, with the same primary; it is gone once more. */
	assert_true(learn(4, "127.0.0.1:1\n127.0.0.1:2\n"));
	assert_false(route_is_gone(&r));
	expect_present("127.0.0.1:1");
	gone("127.0.0.1:1");
	assert_true(route_is_gone(&r));
	/* It was heard of. */
	route_found(&r);
	assert_false(route_is_gone(&r));
	expect_present("127.0.0.1:1");
	gone("127.0.0.1:1");
	/* The other one does not answer either, or it was there after all. */
	gone("127.0.0.1:2");
	assert_false(route_is_gone(&r));
	gone("127.0.0.1:1");
	assert_true(route_is_gone(&r));
	first = at("127.0.0.1:1");
	route_settled(&r, &first, 0);
	assert_false(route_is_gone(&r));
	/* Another primary. */
	gone("127.0.0.1:1");
	assert_true(learn(4, "127.0.0.1:2\n127.0.0.1:1\n"));
	assert_false(route_is_gone(&r));
	expect_present("127.0.0.1:2");
}

/* ------------------------------------------------------------ dealing out */

#define KVD 77u /* the instance that the sessions are with */
#define SECOND 1000000000ull

static struct goal goal;

/* A list of three, of which a session is at the first. */
static int begin_list(void **state)
{
	begin(state);
	add("127.0.0.1:3");
	first = at("127.0.0.1:1");
	second = at("127.0.0.1:2");
	third = at("127.0.0.1:3");
	r.is_list = r.deals = true;
	route_settled(&r, &first, KVD);
	return 0;
}

static unsigned own;

/* A session that begins. */
static void expect_deal(uint64_t now_ns, const char *text)
{
	own = ROUTE_NOWHERE;
	r.draws = 0; /* the first of those with as many */
	assert_true(route_deal(&r, &own, now_ns, &goal));
	assert_string_equal(goal.addr.text, text);
}

static void expect_home(uint64_t now_ns, bool is_due)
{
	assert_int_equal(route_deal(&r, &own, now_ns, &goal), is_due);
}

static bool meets(const struct addr *addr, uint64_t instance, uint64_t now_ns)
{
	goal = (struct goal){ *addr, KVD };
	return route_met(&r, &goal, instance, now_ns);
}

/* As many everywhere, and of those who are made in pairs both kinds everywhere. */
static void test_dealt_in_turn(void **state)
{
	(void)state;
	for (r.count = 2; r.count <= 3; r.count++) {
		unsigned all[3] = { 0 }, even[3] = { 0 };
		memset(r.place, 0, sizeof r.place);
		for (unsigned i = 0; i < 24; i++) {
			own = ROUTE_NOWHERE;
			assert_true(route_deal(&r, &own, 0, &goal));
			all[own]++;
			even[own] += i % 2 == 0;
		}
		for (unsigned i = 0; i < r.count; i++) {
			assert_int_equal(all[i], 24 / r.count);
			assert_in_range(even[i], 12 / r.count - 1, 12 / r.count + 1);
		}
	}
}

/* Who belongs nowhere yet belongs where it is; the place of one that ends is the next one's. */
static void test_fewest(void **state)
{
	unsigned at_first = ROUTE_NOWHERE;

	(void)state;
	route_stay(&r, &at_first, &first);
	assert_int_equal(at_first, 0);
	route_stay(&r, &at_first, &second);
	assert_int_equal(at_first, 0);
	expect_deal(0, "127.0.0.1:2");
	assert_int_equal(goal.instance, KVD);
	expect_deal(0, "127.0.0.1:3");
	route_undeal(&r, &at_first);
	assert_int_equal(at_first, ROUTE_NOWHERE);
	expect_deal(0, "127.0.0.1:1");
	assert_int_equal(goal.instance, 0); /* who is there is known */
}

/* Where another kvd answers no session belongs; it is looked at again, but rarely. */
static void test_another_kvd(void **state)
{
	(void)state;
	expect_deal(0, "127.0.0.1:1");
	expect_deal(0, "127.0.0.1:2");
	assert_false(meets(&second, KVD + 1, 5));
	assert_int_equal(r.instance, KVD);
	assert_true(route_deal(&r, &own, 6, &goal)); /* it gets another one */
	assert_string_equal(goal.addr.text, "127.0.0.1:3");
	assert_true(meets(&third, KVD, 7));
	expect_deal(60 * SECOND, "127.0.0.1:1");
	assert_true(route_other(&r, &first, 60 * SECOND, &goal));
	assert_string_equal(goal.addr.text, "127.0.0.1:3");
	assert_true(route_other(&r, &third, 60 * SECOND, &goal));
	assert_string_equal(goal.addr.text, "127.0.0.1:1");
	expect_deal(64 * SECOND + 4, "127.0.0.1:3");
	route_undeal(&r, &own);
	expect_deal(64 * SECOND + 5, "127.0.0.1:2");
	assert_int_equal(goal.instance, KVD);
}

/* Where nobody answers they are sent after a second, then after two, and so on to a minute. */
static void test_missed(void **state)
{
	uint64_t now = 0, wait = SECOND;

	(void)state;
	expect_deal(0, "127.0.0.1:1");
	for (unsigned i = 0; i < 9; i++) {
		route_missed(&r, &first, now);
		expect_home(now + wait - 1, false);
		expect_home(now + wait, true);
		now += wait;
		wait = wait < 64 * SECOND ? 2 * wait : wait;
	}
	assert_string_equal(goal.addr.text, "127.0.0.1:1"); /* it belongs there all the same */
	assert_true(meets(&first, KVD, now));
	expect_home(now, true);
	route_missed(&r, &first, now);
	expect_home(now + SECOND, true);
}

/* Who lost its connection goes to another address, never to the same one. */
static void test_other(void **state)
{
	(void)state;
	assert_true(route_other(&r, &first, 0, &goal));
	assert_string_equal(goal.addr.text, "127.0.0.1:2");
	assert_int_equal(goal.instance, KVD);
	assert_true(route_other(&r, &second, 0, &goal));
	assert_string_equal(goal.addr.text, "127.0.0.1:3");
	assert_true(route_other(&r, &third, 0, &goal));
	assert_string_equal(goal.addr.text, "127.0.0.1:1");
	route_missed(&r, &second, 0);
	route_missed(&r, &third, 0);
	assert_false(route_other(&r, &first, SECOND - 1, &goal));
	assert_true(route_other(&r, &first, SECOND, &goal));
	assert_string_equal(goal.addr.text, "127.0.0.1:2");
	assert_true(route_is_home(&r, 0, &first));
	assert_false(route_is_home(&r, 0, &second));
	assert_true(route_is_home(&r, ROUTE_NOWHERE, &second));
}

/* Of a name the one that answered is the only one left, and the session's. */
static void test_name_met(void **state)
{
	struct addr kept = third;

	(void)state;
	route_missed(&r, &first, 0);
	r.is_list = false;
	r.at = 2;
	route_settled(&r, &kept, KVD + 1);
	assert_int_equal(route_count(&r), 1);
	expect_present("127.0.0.1:3");
	assert_int_equal(r.place[0].instance, KVD + 1);
	assert_int_equal(r.place[0].again_ns, 0);
	assert_int_equal(r.place[0].misses, 0);
	/* Who is in no list is put off nowhere. */
	route_missed(&r, &first, 0);
	assert_int_equal(r.place[1].misses, 0);
}

/* kvd was started again: that is the one from now on, and who else is it has to be seen. */
static void test_started_again(void **state)
{
	(void)state;
	assert_true(meets(&second, KVD, 0));
	assert_true(route_other(&r, &first, 0, &goal));
	assert_int_equal(goal.instance, 0);
	assert_true(route_met(&r, &goal, KVD + 1, 0));
	assert_int_equal(r.instance, KVD + 1);
	expect_deal(0, "127.0.0.1:1");
	assert_int_equal(goal.instance, KVD + 1);
}

/* Not without a list, not where it is not wanted, not in a cluster, and not before one is met. */
static void test_not_dealt(void **state)
{
	(void)state;
	own = ROUTE_NOWHERE;
	r.deals = false;
	assert_false(route_deal(&r, &own, 0, &goal) || route_other(&r, &first, 0, &goal) ||
		     route_has_others(&r));
	r.deals = true;
	r.is_list = false;
	assert_false(route_deal(&r, &own, 0, &goal) || route_has_others(&r));
	r.is_list = true;
	route_settled(&r, &first, 0);
	assert_true(route_has_others(&r)); /* for all that is known */
	assert_false(route_deal(&r, &own, 0, &goal));
	route_stay(&r, &own, &first);
	assert_int_equal(own, ROUTE_NOWHERE);
	route_settled(&r, &first, KVD);
	assert_true(route_deal(&r, &own, 0, &goal));
	assert_true(learn(3, "127.0.0.1:1\n127.0.0.1:2\n"));
	assert_false(route_deal(&r, &own, 0, &goal) || route_other(&r, &first, 0, &goal) ||
		     route_has_others(&r));
	assert_true(route_is_home(&r, own, &third));
}

/* ------------------------------------------------------------ a primary with several addresses */

#define PRIMARY "127.0.0.1:1\n127.0.0.1:2\n"

static void at_once(unsigned *session, const char *text)
{
	struct addr addr;

	route_present(&r, session, clock_now_ns, &addr);
	assert_string_equal(addr.text, text);
}

/* Its sessions are dealt out over them, and over no other member's. */
static void test_ports(void **state)
{
	unsigned one = ROUTE_NOWHERE, two = ROUTE_NOWHERE, three = ROUTE_NOWHERE;

	(void)state;
	route_settled(&r, &first, 0);
	assert_true(learn_ports(3, 2, PRIMARY "127.0.0.1:3\n127.0.0.1:4\n"));
	assert_true(leads("127.0.0.1:1") && leads("127.0.0.1:2"));
	assert_false(leads("127.0.0.1:3"));
	assert_true(route_has_others(&r));
	at_once(&one, "127.0.0.1:1");
	at_once(&two, "127.0.0.1:2");
	assert_int_equal(r.place[0].sessions, 1);
	assert_int_equal(r.place[1].sessions, 1);
	at_once(&one, "127.0.0.1:1");
	assert_true(route_deal(&r, &three, 0, &goal));
	assert_int_equal(goal.instance, 0); /* who answers there says whose it is */
	assert_true(three < 2);
	assert_false(route_other(&r, &first, 0, &goal));
	assert_true(route_is_home(&r, one, &first));
	assert_false(route_is_home(&r, one, &second));
	/* Another one is primary. */
	assert_true(learn_ports(4, 1, "127.0.0.1:3\n" PRIMARY));
	assert_false(leads("127.0.0.1:1") || leads("127.0.0.1:2") || route_has_others(&r));
	at_once(&one, "127.0.0.1:3");
	assert_true(learn_ports(5, 2, "127.0.0.1:3\n127.0.0.1:4\n" PRIMARY));
	at_once(&one, "127.0.0.1:3");
	assert_int_equal(r.place[0].sessions + r.place[1].sessions, 2 - (one < 2) - (two < 2) + (three < 2));
}

/* One of them is cut: the other one, before the primary counts as gone; then another member. */
static void test_cut_port(void **state)
{
	unsigned one = ROUTE_NOWHERE;

	(void)state;
	route_settled(&r, &first, 0);
	assert_true(learn_ports(3, 2, PRIMARY "127.0.0.1:3\n"));
	at_once(&one, "127.0.0.1:1");
	gone("127.0.0.1:1");
	assert_false(route_is_gone(&r));
	at_once(&one, "127.0.0.1:2");
	at_once(&here, "127.0.0.1:2");
	gone("127.0.0.1:1"); /* another thread's */
	clock_now_ns += SECOND;
	at_once(&one, "127.0.0.1:1");
	gone("127.0.0.1:1");
	gone("127.0.0.1:2");
	assert_true(route_is_gone(&r));
	at_once(&one, "127.0.0.1:3");
	assert_true(learn_ports(3, 2, PRIMARY "127.0.0.1:3\n"));
	assert_true(route_is_gone(&r));
	at_once(&one, "127.0.0.1:3");
	assert_false(route_deal(&r, &one, 60 * SECOND, &goal));
	/* It was heard of: where it is due first. */
	route_found(&r);
	at_once(&one, "127.0.0.1:2");
	route_settled(&r, &second, 0);
	assert_false(route_is_gone(&r));
	gone("127.0.0.1:2");
	assert_true(route_is_gone(&r));
	/* Who leads anew is looked for everywhere. */
	assert_true(learn_ports(4, 1, "127.0.0.1:3\n" PRIMARY));
	assert_true(learn_ports(5, 2, PRIMARY "127.0.0.1:3\n"));
	at_once(&one, "127.0.0.1:1");
	/* Who does not know who leads is left, with all its addresses. */
	route_forget(&r, &second);
	assert_true(route_is_gone(&r));
	at_once(&one, "127.0.0.1:3");
}

/* A cut address of the primary is put off once for all who find it cut, and longer the next time. */
static void test_cut_port_is_due(void **state)
{
	unsigned one = ROUTE_NOWHERE;

	(void)state;
	assert_true(learn_ports(3, 2, PRIMARY "127.0.0.1:3\n"));
	at_once(&one, "127.0.0.1:1");
	gone("127.0.0.1:1");
	assert_int_equal(r.place[0].again_ns, SECOND);
	clock_now_ns = SECOND - 1;
	gone("127.0.0.1:1");
	assert_int_equal(r.place[0].again_ns, SECOND);
	at_once(&one, "127.0.0.1:2");
	clock_now_ns = SECOND;
	at_once(&one, "127.0.0.1:1");
	gone("127.0.0.1:1");
	assert_int_equal(r.place[0].again_ns, 3 * SECOND);
	/* The other one answers to the moment when it is put off, and again from when it is due. */
	gone("127.0.0.1:2");
	assert_int_equal(r.place[1].again_ns, 2 * SECOND);
	route_found(&r);
	at_once(&one, "127.0.0.1:2");
	clock_now_ns = 2 * SECOND;
	gone("127.0.0.1:1");
	assert_false(route_is_gone(&r));
	at_once(&one, "127.0.0.1:2");
	/* Of two that are both due the first is it. */
	r.deals = false;
	clock_now_ns = 3 * SECOND;
	at_once(&here, "127.0.0.1:1");
	assert_int_equal(r.place[2].again_ns, 0); /* another member's was never put off */
}

/* A session of a cluster belongs only to an address of its primary. */
static void test_stay_at_the_primary(void **state)
{
	unsigned one = ROUTE_NOWHERE;

	(void)state;
	assert_true(learn_ports(3, 2, PRIMARY "127.0.0.1:3\n"));
	route_stay(&r, &one, &third);
	assert_int_equal(one, ROUTE_NOWHERE);
	route_stay(&r, &one, &second);
	assert_int_equal(one, 1);
	assert_false(route_is_home(&r, one, &first));
	assert_true(route_is_home(&r, 2, &first)); /* where another member is no session belongs */
	gone("127.0.0.1:2");
	route_settled(&r, &third, 0);
	assert_false(route_is_gone(&r)); /* the primary answers at the first still */
}

/* Where the order is a preference the first is it, as long as it answers. */
static void test_ports_in_order(void **state)
{
	unsigned one = ROUTE_NOWHERE, two = ROUTE_NOWHERE;

	(void)state;
	r.deals = false;
	assert_true(learn_ports(3, 2, PRIMARY));
	at_once(&one, "127.0.0.1:1");
	at_once(&two, "127.0.0.1:1");
	gone("127.0.0.1:1");
	at_once(&one, "127.0.0.1:2");
	assert_false(route_deal(&r, &one, 0, &goal));
	clock_now_ns += SECOND;
	at_once(&one, "127.0.0.1:1");
}

static void *can_hold(void *yes)
{
	return pthread_mutex_trylock(&r.lock) || pthread_mutex_unlock(&r.lock) ? NULL : yes;
}

/* Threads share it: each call holds the lock, and gives it back as often as it took it. */
static void test_lock(void **state)
{
	unsigned one = ROUTE_NOWHERE;
	struct addr addr;
	pthread_t other;
	void *yes = NULL;

	(void)state;
	pthread_mutex_destroy(&r.lock);
	r.lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
#define HOLDS(call) (pthread_mutex_lock(&r.lock), (void)(call), pthread_mutex_unlock(&r.lock))
	assert_int_equal(HOLDS(route_add(&r, &first)) | HOLDS(route_count(&r)) |
			 HOLDS(learn(3, PRIMARY)) | HOLDS(gone("127.0.0.1:3")) |
			 HOLDS(route_forget(&r, &third)) | HOLDS(leads("127.0.0.1:1")) |
			 HOLDS(route_is_gone(&r)) | HOLDS(route_found(&r)) |
			 HOLDS(route_settled(&r, &first, KVD)) | HOLDS(route_has_others(&r)) |
			 HOLDS(route_present(&r, &one, 0, &addr)) | HOLDS(route_undeal(&r, &one)) |
			 HOLDS(route_deal(&r, &one, 0, &goal)) | HOLDS(route_stay(&r, &one, &first)) |
			 HOLDS(route_is_home(&r, one, &first)) | HOLDS(meets(&first, KVD, 0)) |
			 HOLDS(route_other(&r, &first, 0, &goal)) | HOLDS(route_missed(&r, &first, 0)), 0);
	assert_true(!pthread_create(&other, NULL, can_hold, &r) && !pthread_join(other, &yes) && yes);
}

/* What comes off the wire is bounded. */
static void test_many(void **state)
{
	char line[48];

	(void)state;
	for (unsigned i = 0; i < 2 * ROUTE_MAX; i++) {
		snprintf(line, sizeof line, "127.0.0.1:%u\n127.0.0.1:nonsense\n", 100 + i);
		learn(i + 1, line);
	}
	first = at("127.0.0.1:9");
	assert_false(route_add(&r, &first));
	assert_int_equal(route_count(&r), ROUTE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_name, begin, finish),
		cmocka_unit_test_setup_teardown(test_list, begin, finish),
		cmocka_unit_test_setup_teardown(test_learn, begin, finish),
		cmocka_unit_test_setup_teardown(test_gone, begin, finish),
		cmocka_unit_test_setup_teardown(test_many, begin, finish),
		cmocka_unit_test_setup_teardown(test_dealt_in_turn, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_fewest, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_another_kvd, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_missed, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_other, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_started_again, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_not_dealt, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_ports, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_cut_port, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_name_met, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_cut_port_is_due, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_stay_at_the_primary, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_lock, begin_list, finish),
		cmocka_unit_test_setup_teardown(test_ports_in_order, begin_list, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
