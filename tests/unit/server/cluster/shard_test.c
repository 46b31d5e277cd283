/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/shard without its threads: orders that nobody takes, places of connections, members
 * that are there and take nothing.  The time is the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "server/cluster/shard/crew.h"
#include "server/cluster/shard/impl.h"
#include "server/cluster/shard/lanes.h"
#include "server/cluster/shard/stuck.h"
#include "tests/unit/server/cluster/replica_kit.h"

#define MS 1000000ull
#define TURN_NS (5 * MS)

static struct shard s;
static uint64_t now_ns;

static void ignore(void *worker)
{
	(void)worker;
}

static int set_up(void **state)
{
	kit_setup(state);
	memset(&s, 0, sizeof s);
	s.options.store = a.f.store;
	s.options.worker_count = 1;
	s.options.wake = ignore;
	s.crew[0].shard = &s;
	s.crew[0].replica = a.worker;
	s.replica = a.replica;
	s.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&s.lock, NULL);
	s.member.self = (struct config_member){ "anna", PRIMARY };
	s.member.joiner = -1;
	now_ns = 1000 * MS;
	return 0;
}

static int tear_down(void **state)
{
	close(s.wake_fd);
	pthread_mutex_destroy(&s.lock);
	return kit_teardown(state);
}

/* -------------------------------------------------------------------- orders */
static void order(enum replica_order_kind kind)
{
	crew_order(&s, &(struct replica_order){ .kind = kind }, 0);
}

/* A worker comes late, and heartbeats go on: they leave room for what has to be. */
static void test_orders(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10 * SHARD_ORDERS; i++)
		order(REPLICA_SEEN);
	for (unsigned i = 0; i < SHARD_ORDERS / 4; i++)
		order(REPLICA_HOLD);
	assert_false(s.is_unfit);
	for (unsigned i = 0; i < SHARD_ORDERS; i++)
		order(REPLICA_HOLD);
	assert_true(s.is_unfit);
	assert_int_equal(s.ordered, SHARD_ORDERS);
}

/* -------------------------------------------------------------------- lanes */
/* Connections that ended before they said who they were: the place is not theirs for ever. */
static void test_places(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SHARD_OTHERS; i++) {
		snprintf(s.lanes[i].name, sizeof s.lanes[i].name, "127.0.0.1:%u", i + 1);
		s.lanes[i].of[1].state = LANE_ASKED;
		s.lanes[i].of[1].asked_ns = now_ns;
	}
	lanes_keep(&s, now_ns + 100 * MS);
	assert_string_equal(s.lanes[0].name, "127.0.0.1:1");
	lanes_keep(&s, now_ns + 10000 * MS);
	for (unsigned i = 0; i < SHARD_OTHERS; i++)
		assert_string_equal(s.lanes[i].name, "");
}

/* A lane for each of the most workers, and the shard's, to each other member of the largest set. */
static void test_doors(void **state)
{
	const struct link_lane lane = { 0, 1 };
	struct addr nobody = *link_door_addr(b.side.door);
	struct err err;

	(void)state;
	addr_set_port(&nobody, 1);
	for (unsigned i = 0; i < (CONFIG_MEMBERS_MAX - 1) * SHARD_LANES; i++)
		assert_int_equal(link_door_connect(a.side.door, &nobody, &lane, kit_now_ns(), &err), 0);
}

/* -------------------------------------------------------------------- who takes nothing */
static void be_primary(void)
{
	s.member.state = MEMBER_SERVING;
	s.member.known = (struct config){ .epoch = 1, .reign = 1, .count = 2,
					  .set = { { "anna", PRIMARY }, { "bert", BACKUP } } };
	s.member.peers[0].id = s.member.known.set[1];
	s.member.peers[0].is_begun = true;
}

/* For so long, or until it is taken for gone.  The worker takes its orders, or not. */
static bool goes_in(uint64_t ms, bool obeys)
{
	uint64_t end_ns = now_ns + ms * MS;

	for (; now_ns < end_ns && !s.member.peers[0].is_gone; now_ns += TURN_NS) {
		stuck_look(&s, now_ns);
		while (obeys && s.done < s.ordered)
			s.done++;
	}
	return s.member.peers[0].is_gone;
}

static void test_stuck(void **state)
{
	(void)state;
	be_primary();
	b.side.is_frozen = true;
	assert_false(goes_in(30000, true)); /* it lacks nothing */
	kit_put(&a, "k", "one", 3);
	kit_turns(10);
	assert_false(goes_in(9000, true));
	b.side.is_frozen = false; /* it takes one, and the next one it does not */
	kit_finish();
	b.side.is_frozen = true;
	kit_put(&a, "k", "two", 3);
	kit_turns(10);
	assert_false(goes_in(9000, true));
	now_ns += 20000 * MS; /* nobody looked: that says nothing of others */
	assert_false(goes_in(9000, true));
	assert_true(goes_in(2000, true));
	b.side.is_frozen = false;
	kit_finish();
}

/* One that does not begin the epoch; unless it is for this one's own threads. */
static void test_stuck_at_first(void **state)
{
	(void)state;
	be_primary();
	s.member.peers[0].is_begun = false;
	s.member.epoch_order = 77;
	assert_false(goes_in(30000, true));
	s.member.epoch_order = 0;
	assert_false(goes_in(30000, false));
	s.done = s.ordered;
	assert_true(goes_in(11000, true));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_orders),
		TEST(test_places),
		TEST(test_doors),
		TEST(test_stuck),
		TEST(test_stuck_at_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
