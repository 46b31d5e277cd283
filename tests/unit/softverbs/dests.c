/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a UD queue pair has sent to: which destinations are kept, which are made anew, when a
 * group's members are looked for, and what is left when there is no memory.
 */
#include "sender.h"

#define KEPT 64u /* destinations, and one more that is in use */

static const uint8_t one_gid[16] = { 0xff, 0x0e, [15] = 1 }, other_gid[16] = { 0xff, 0x0e, [15] = 2 };

/* ---- queue pairs ---- */

static void test_found_again(void **state)
{
	struct sv_dest *a, *b;

	(void)state;
	a = to(sv_qpn(1, 5));
	assert_true(gets == 1 && refs[1] == 1 && qp.ndests == 1);
	b = to(sv_qpn(2, 5));
	assert_true(a != b && gets == 2 && refs[2] == 1 && qp.ndests == 2);
	assert_ptr_equal(to(sv_qpn(1, 5)), a);
	assert_ptr_equal(to(sv_qpn(1, 5)), a);
	assert_ptr_equal(to(sv_qpn(2, 5)), b);
	assert_true(to(sv_qpn(2, 6)) != b);
	assert_true(gets == 3 && qp.ndests == 3 && refs[2] == 2);
}

static void test_no_memory(void **state)
{
	struct sv_dest *dest;

	(void)state;
	memory = 0;
	assert_int_equal(sv_dest_find(&qp, sv_qpn(1, 5), &dest), ENOMEM);
	memory = -1;
	no_links = true;
	assert_int_equal(sv_dest_find(&qp, sv_qpn(1, 5), &dest), ENOBUFS);
	assert_true(!qp.dests && !qp.ndests && qp.sq_lock.held && !blocks);
}

/* The one that was not used for the longest time goes. */
static void test_too_many(void **state)
{
	struct sv_dest *first;

	(void)state;
	first = to(sv_qpn(1, 1));
	for (uint32_t i = 2; i <= KEPT + 1; i++)
		to(sv_qpn(1, i));
	assert_true(qp.ndests == KEPT + 1 && refs[1] == KEPT + 1);
	assert_ptr_equal(to(sv_qpn(1, 1)), first);
	gets = 0;
	to(sv_qpn(1, KEPT + 2)); /* the second is the oldest */
	assert_true(qp.ndests == KEPT + 1 && refs[1] == KEPT + 1 && gets == 1);
	assert_ptr_equal(to(sv_qpn(1, 1)), first);
	for (uint32_t i = 3; i <= KEPT + 2; i++)
		to(sv_qpn(1, i));
	assert_int_equal(gets, 1);
	to(sv_qpn(1, 2));
	assert_true(gets == 2 && qp.ndests == KEPT + 1);
}

/* While requests wait none goes: they may be at it. */
static void test_in_use(void **state)
{
	struct sv_dest *gone;

	(void)state;
	qp.sq_count = 1;
	for (uint32_t i = 1; i <= KEPT + 10; i++)
		to(sv_qpn(1, i));
	assert_true(qp.ndests == KEPT + 10 && refs[1] == KEPT + 10);
	gone = to(sv_qpn(1, 3));
	peers[1].state = SV_PEER_GONE;
	gets = 0;
	assert_ptr_equal(to(sv_qpn(1, 3)), gone);
	assert_int_equal(gets, 0);
	peers[1].state = SV_PEER_UP;
	qp.sq_count = 0;
	to(sv_qpn(2, 1));
	assert_true(qp.ndests == KEPT + 1 && refs[1] == KEPT);
}

/* Of a process that is gone: another may have its place. */
static void test_gone(void **state)
{
	struct sv_dest *there;

	(void)state;
	to(sv_qpn(1, 5));
	there = to(sv_qpn(2, 5));
	to(sv_qpn(1, 6));
	peers[1].state = SV_PEER_GONE;
	gets = 0;
	to(sv_qpn(1, 5));
	assert_true(gets == 1 && refs[1] == 1 && refs[2] == 1 && qp.ndests == 2);
	assert_ptr_equal(to(sv_qpn(2, 5)), there);
	assert_true(gets == 1 && refs[1] == 1); /* only where one is added others go */
	to(sv_qpn(3, 5));
	assert_true(gets == 2 && refs[1] == 0 && refs[2] == 1 && qp.ndests == 2);
}

static void take_lock(void)
{
	qp.sq_lock.held = 1;
}

/* Another thread has the lock while one is given back: it is waited for, before the next goes. */
static void test_gone_beside_another(void **state)
{
	(void)state;
	to(sv_qpn(1, 5));
	to(sv_qpn(1, 6));
	peers[1].state = SV_PEER_GONE;
	at_put = take_lock;
	to(sv_qpn(2, 5));
	assert_true(yields == 1 && refs[1] == 0 && qp.ndests == 1);
}

/* Another thread has added the same meanwhile: each has its own, the later is found. */
static struct sv_dest *others;

static void find_too(void)
{
	qp.sq_lock.held = 1;
	others = to(sv_qpn(1, 5));
	qp.sq_lock.held = 0;
}

static void test_found_by_two(void **state)
{
	struct sv_dest *own;

	(void)state;
	meanwhile = find_too;
	own = to(sv_qpn(1, 5));
	assert_true(own != others && qp.ndests == 2 && refs[1] == 2);
	assert_ptr_equal(to(sv_qpn(1, 5)), own);
}

/* ---- groups ---- */

static const uint32_t two[] = { 0x1005, 0x2005 }, other_two[] = { 0x1005, 0x2006 };
static const uint32_t third_two[] = { 0x1006, 0x2006 };

static void test_groups_are_others(void **state)
{
	struct sv_dest *one, *other, *single;

	(void)state;
	set_members(2, two);
	single = to(sv_qpn(1, 5));
	one = to_group(one_gid);
	other = to_group(other_gid);
	assert_true(looks == 2 && gets == 5 && qp.ndests == 3);
	assert_true(one != other && one != single && other != single);
	assert_ptr_equal(to_group(one_gid), one);
	assert_ptr_equal(to(sv_qpn(1, 5)), single);
	assert_ptr_equal(to_group(other_gid), other);
	assert_true(looks == 2 && gets == 5 && refs[1] == 3 && refs[2] == 2);
}

/* A number is a queue pair's where no group is named. */
static void test_number_of_groups(void **state)
{
	struct sv_dest *group, *single;

	(void)state;
	set_members(0, NULL);
	group = to_group(one_gid);
	memory = 0;
	assert_int_equal(sv_dest_find(&qp, SV_QPN_GROUP, &single), ENOMEM);
	memory = -1;
	assert_ptr_equal(to_group(one_gid), group);
	assert_int_equal(qp.ndests, 1);
}

/* A list is believed for a second from when it was looked for, unless there is news. */
static void look_for_long(void)
{
	now_ns += SECOND * 6 / 10;
}

static void test_looks(void **state)
{
	struct sv_dest *group;
	uint64_t begin = now_ns;

	(void)state;
	set_members(2, two);
	at_look = look_for_long;
	group = to_group(one_gid);
	now_ns = begin + SECOND - 1;
	assert_ptr_equal(to_group(one_gid), group);
	assert_int_equal(looks, 1);
	now_ns = begin + SECOND;
	at_look = look_for_long;
	assert_ptr_equal(to_group(one_gid), group); /* the same members */
	assert_int_equal(looks, 2);
	now_ns = begin + 2 * SECOND - 1;
	assert_ptr_equal(to_group(one_gid), group);
	assert_int_equal(looks, 2);
	epoch++;
	assert_ptr_equal(to_group(one_gid), group);
	assert_ptr_equal(to_group(one_gid), group);
	assert_int_equal(looks, 3);
	epoch--; /* any other number is news */
	assert_ptr_equal(to_group(one_gid), group);
	assert_true(looks == 4 && gets == 2 && qp.ndests == 1);
}

/* Another list is another destination; the one before goes when nobody needs it. */
static void expect_news(struct sv_dest **group, uint32_t n)
{
	static uint32_t number;
	struct sv_dest *old = *group;
	uint32_t before = qp.ndests;

	gets = 0;
	epoch++;
	qp.sq_count = 1;
	*group = to_group(one_gid);
	assert_true(*group != old && gets == (int)n && qp.ndests == before + 1);
	assert_ptr_equal(to_group(one_gid), *group);
	qp.sq_count = 0;
	to(sv_qpn(3, ++number)); /* as another is added */
	assert_int_equal(qp.ndests, before + 1);
	assert_int_equal(refs[1] + refs[2], n);
}

static void test_news(void **state)
{
	struct sv_dest *group;

	(void)state;
	set_members(2, two);
	group = to_group(one_gid);
	set_members(2, other_two);
	expect_news(&group, 2);
	set_members(2, third_two);
	expect_news(&group, 2);
	set_members(1, other_two);
	expect_news(&group, 1);
	set_members(2, other_two);
	expect_news(&group, 2);
	peers[2].state = SV_PEER_GONE; /* its process was another */
	expect_news(&group, 2);
	peers[2].state = SV_PEER_UP;
	set_members(0, NULL);
	expect_news(&group, 0);
}

static void expect_no_memory(long pieces)
{
	int before = blocks, refs_before = refs[1] + refs[2];
	struct sv_dest *dest;
	uint32_t n = qp.ndests;

	memory = pieces;
	assert_int_equal(sv_dest_find_group(&qp, one_gid, &dest), ENOMEM);
	memory = -1;
	assert_true(qp.sq_lock.held && blocks == before && qp.ndests == n);
	assert_int_equal(refs[1] + refs[2], refs_before);
}

/* Nothing is left of it, and it is looked for again. */
static void test_no_memory_for_group(void **state)
{
	struct sv_dest *group;

	(void)state;
	set_members(2, two);
	for (long pieces = 0; pieces < 4; pieces++)
		expect_no_memory(pieces);
	no_links = true;
	expect_no_memory(-1);
	no_links = false;
	looks = 0;
	group = to_group(one_gid);
	set_members(2, other_two);
	epoch++;
	expect_no_memory(2);
	set_members(2, two);
	assert_ptr_equal(to_group(one_gid), group);
	assert_int_equal(looks, 3);
}

/* ---- two threads and one group ---- */

static void find_group_too(void)
{
	qp.sq_lock.held = 1;
	others = to_group(one_gid);
	qp.sq_lock.held = 0;
}

static void news_meanwhile(void)
{
	epoch++;
}

/* Who looked meanwhile has made the list already. */
static void test_list_of_another(void **state)
{
	struct sv_dest *own;

	(void)state;
	set_members(2, two);
	at_look = find_group_too;
	own = to_group(one_gid);
	assert_ptr_equal(own, others);
	assert_true(looks == 2 && gets == 2 && qp.ndests == 1);
	meanwhile = news_meanwhile; /* behind its look: that one is old then */
	set_members(2, other_two);
	epoch++;
	to_group(one_gid);
	assert_int_equal(looks, 3);
	to_group(one_gid);
	assert_int_equal(looks, 4);
}

/* Who makes one too has the older list: it is over. */
static void test_list_of_two(void **state)
{
	struct sv_dest *own;

	(void)state;
	set_members(2, two);
	meanwhile = find_group_too;
	own = to_group(one_gid);
	assert_true(own != others && qp.ndests == 2 && refs[1] == 2);
	to(sv_qpn(3, 1));
	assert_true(qp.ndests == 2 && refs[1] == 1 && refs[2] == 1);
	assert_ptr_equal(to_group(one_gid), own);
}

/* Too many lists: those of groups go like others. */
static void test_many_groups(void **state)
{
	uint8_t gid[16] = { 0xff };

	(void)state;
	set_members(2, two);
	for (uint8_t i = 0; i < KEPT + 20; i++) {
		gid[15] = i;
		to_group(gid);
	}
	assert_true(qp.ndests == KEPT + 1 && refs[1] == KEPT + 1 && refs[2] == KEPT + 1);
	qp.sq_count = 1;
	gid[14] = 1;
	to_group(gid);
	assert_true(qp.ndests == KEPT + 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, sender_begin, sender_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(found_again),	  TEST(no_memory), TEST(too_many),	  TEST(in_use),
		TEST(gone),		  TEST(gone_beside_another), TEST(found_by_two), TEST(groups_are_others),
		TEST(number_of_groups),	  TEST(looks),	   TEST(news),		  TEST(no_memory_for_group),
		TEST(list_of_another),	  TEST(list_of_two), TEST(many_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
