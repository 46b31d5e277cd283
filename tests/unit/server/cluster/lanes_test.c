/* SPDX-License-Identifier: BSD-2-Clause */
/* server/cluster/shard/lanes.h: which connections are asked for, and when again.  The door is made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/cluster/shard/lanes.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#define MS 1000000ull
#define S (1000 * MS)
#define WORKERS 2u
#define ALL ((1u << (WORKERS + 1)) - 1) /* lanes, a bit each */
#define BERT "127.0.0.1:7001"
#define CARL "127.0.0.1:7002"
#define DORA "127.0.0.1:7003"
#define PATIENCE_NS (LINK_CONNECT_NS + LINK_PROVE_NS) /* of one that is asked for */

/* In struct link_peer's place. */
struct fake {
	const char *name;
	struct link_lane lane;
	bool is_asker;
	const char *closed;
};

static struct shard s;
static uint64_t now_ns;
static unsigned asked_bert, asked_carl, asked_dora; /* lanes */
static bool refuses;

static struct link_peer *of(struct fake *f)
{
	return (struct link_peer *)(void *)f;
}

MADE_UP(const char *, link_peer_name, const struct link_peer *p)
{
	return ((const struct fake *)(const void *)p)->name;
}

MADE_UP(const struct link_lane *, link_peer_lane, const struct link_peer *p)
{
	return &((const struct fake *)(const void *)p)->lane;
}

MADE_UP(bool, link_peer_is_asker, const struct link_peer *p)
{
	return ((const struct fake *)(const void *)p)->is_asker;
}

MADE_UP(void, link_peer_close, struct link_peer *p, const char *why, ...)
{
	((struct fake *)(void *)p)->closed = why;
}

MADE_UP(int, link_door_connect, struct link_door *door, const struct addr *to, const struct link_lane *lane,
	uint64_t at_ns, struct err *err)
{
	unsigned *asked = !strcmp(to->text, BERT) ? &asked_bert : !strcmp(to->text, CARL) ? &asked_carl : &asked_dora;

	assert_ptr_equal(door, s.door);
	assert_int_equal(at_ns, now_ns);
	assert_int_equal(lane->shard, 0);
	assert_false(*asked & 1u << lane->number);
	*asked |= 1u << lane->number;
	return refuses ? err_set(err, -1, "no way to there") : 0;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
MADE_UP(int, pthread_mutex_unlock, pthread_mutex_t *lock)
{
	assert_int_equal(__real_pthread_mutex_unlock(lock), 0); /* it was held */
	return 0;
}

/* Which are asked for at that time. */
static void keep(uint64_t later_ns)
{
	now_ns += later_ns;
	asked_bert = asked_carl = asked_dora = 0;
	said_begin();
	lanes_keep(&s, now_ns);
	said_end();
}

static void are(const char *name, unsigned lane, enum lane_state state)
{
	struct fake f = { .name = name, .lane = { 0, lane } };

	lanes_are(&s, of(&f), state);
}

static void are_up(const char *name)
{
	for (unsigned lane = 0; lane <= WORKERS; lane++)
		are(name, lane, LANE_UP);
}

static struct lanes *lanes_to(const char *name)
{
	for (unsigned i = 0; i < SHARD_OTHERS; i++)
		if (!strcmp(s.lanes[i].name, name))
			return &s.lanes[i];
	return NULL;
}

/* -------------------------------------------------------------------------- tests */

static void test_asked(void **state)
{
	(void)state;
	assert_false(lanes_are_up(&s, BERT));
	keep(0);
	assert_int_equal(asked_bert, ALL);
	assert_int_equal(asked_carl, ALL);
	assert_int_equal(asked_dora, ALL); /* who is wanted */
	keep(0);
	assert_int_equal(asked_bert, 0);
	for (unsigned lane = WORKERS + 1; lane-- > 0;) {
		assert_false(lanes_are_up(&s, BERT));
		are(BERT, lane, LANE_UP);
	}
	assert_true(lanes_are_up(&s, BERT));
	assert_false(lanes_are_up(&s, CARL));
	assert_false(lanes_are_up(&s, "127.0.0.1:9"));
	are_up(CARL);
	are_up(DORA);
	keep(100 * S);
	assert_int_equal(asked_bert | asked_carl | asked_dora, 0);
	are("", 0, LANE_NONE); /* it did not say who it is */
	are("127.0.0.1:9", 0, LANE_NONE);
	are(BERT, SHARD_LANES, LANE_NONE);
	assert_true(lanes_are_up(&s, BERT));
}

/* What ended is asked for again, after a while. */
static void test_again(void **state)
{
	(void)state;
	keep(0);
	are_up(BERT);
	are_up(CARL);
	are_up(DORA);
	are(BERT, 1, LANE_NONE);
	keep(50 * MS - 1);
	assert_int_equal(asked_bert, 0);
	keep(1);
	assert_int_equal(asked_bert, 1u << 1);
	assert_int_equal(asked_carl, 0);
	keep(PATIENCE_NS + 50 * MS - 1);
	assert_int_equal(asked_bert, 0);
	keep(1); /* it never came up */
	assert_int_equal(asked_bert, 1u << 1);
	struct addr to = { .text = BERT };
	lanes_failed(&s, &to, &(struct link_lane){ 0, 1 });
	keep(50 * MS);
	assert_int_equal(asked_bert, 1u << 1);
}

static void test_refused(void **state)
{
	(void)state;
	refuses = true;
	keep(0);
	assert_int_equal(said_lines("no way to there"), 3 * (WORKERS + 1));
	assert_int_equal(lanes_to(BERT)->of[1].state, LANE_NONE);
	refuses = false;
	keep(50 * MS);
	assert_int_equal(asked_bert, ALL);
	assert_int_equal(lanes_to(BERT)->of[1].state, LANE_ASKED);
}

/* A primary whose workers are of the epoch, and who is next. */
static void test_who_asks(void **state)
{
	(void)state;
	s.member.epoch_order = 9;
	keep(0);
	assert_int_equal(asked_bert, 0);
	s.member.epoch_order = 0;
	s.member.state = MEMBER_BACKING;
	keep(S);
	assert_int_equal(asked_bert, 0);
	s.member.is_next = true;
	s.member.epoch_order = 9;
	keep(S);
	assert_int_equal(asked_bert, ALL);
}

/* Who is no member any more: its place is another's when all its connections have ended. */
static void test_let_go(void **state)
{
	struct fake asked = { .name = CARL, .is_asker = true }, asker = { .name = CARL };

	(void)state;
	keep(0);
	are_up(CARL);
	are(CARL, 2, LANE_NONE);
	s.peers[3] = of(&asker);
	s.member.peers[MEMBER_PEERS_MAX - 1].id.name[0] = '\0';
	keep(S);
	assert_null(asker.closed);
	s.peers[3] = of(&asked);
	keep(S);
	assert_string_equal(asked.closed, "it is no member any more");
	assert_int_equal(asked_carl, 0);
	assert_non_null(lanes_to(CARL));
	s.peers[3] = NULL;
	are(CARL, 0, LANE_NONE);
	are(CARL, 1, LANE_ASKED);
	lanes_to(CARL)->of[1].asked_ns = now_ns;
	keep(PATIENCE_NS);
	assert_non_null(lanes_to(CARL));
	struct lanes *place = lanes_to(CARL);
	keep(50 * MS);
	assert_null(lanes_to(CARL));
	assert_string_equal(place->name, "");
	assert_non_null(lanes_to(BERT));
	s.member.wanted[0] = '\0';
	are(DORA, 0, LANE_NONE);
	are(DORA, 1, LANE_NONE);
	are(DORA, 2, LANE_NONE);
	keep(0);
	assert_null(lanes_to(DORA));
}

/* More than there are places for. */
static void test_places(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SHARD_OTHERS; i++) {
		snprintf(s.lanes[i].name, sizeof s.lanes[i].name, "127.0.0.1:%u", i + 1);
		s.lanes[i].of[0].state = LANE_UP;
	}
	keep(0);
	assert_null(lanes_to(BERT));
	memset(&s.lanes[SHARD_OTHERS - 1], 0, sizeof s.lanes[0]);
	keep(0);
	assert_ptr_equal(lanes_to(BERT), &s.lanes[SHARD_OTHERS - 1]);
	assert_int_equal(asked_bert, ALL);
	memset(&s.lanes[0], 0, sizeof s.lanes[0]);
	keep(0);
	assert_ptr_equal(lanes_to(CARL), &s.lanes[0]);
	are(CARL, 1, LANE_UP);
	assert_int_equal(s.lanes[0].of[1].state, LANE_UP);
}

static int set_up(void **state)
{
	pthread_mutexattr_t checked;

	(void)state;
	memset(&s, 0, sizeof s);
	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&s.lock, &checked);
	pthread_mutexattr_destroy(&checked);
	s.options.worker_count = WORKERS;
	s.door = (struct link_door *)(void *)&now_ns;
	s.member.state = MEMBER_SERVING;
	strcpy(s.member.peers[0].id.name, BERT);
	strcpy(s.member.peers[MEMBER_PEERS_MAX - 1].id.name, CARL);
	strcpy(s.member.wanted, DORA);
	now_ns = 1000 * S;
	refuses = false;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
		TEST(test_asked), TEST(test_again), TEST(test_refused), TEST(test_who_asks),
		TEST(test_let_go), TEST(test_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
