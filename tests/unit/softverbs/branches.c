/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The branches of an XRC sender: how they are found, when their way is open, what is asked and what
 * an answer does.
 */
#include "brancher.h"

/* ---- finding ---- */

static void test_find(void **state)
{
	(void)state;
	assert_int_equal(find(SRQ(2, 1)), 0);
	assert_int_equal(find(SRQ(3, 1)), 1);
	assert_int_equal(find(SRQ(2, 2)), 2);
	assert_int_equal(find(OWN_SRQ(1)), 3);
	assert_true(refs[2] == 2 && refs[3] == 1 && refs[0] == 1 && refs[1] == 0);
	assert_int_equal(gets, 4);
	assert_int_equal(find(SRQ(2, 1)), 0);
	assert_int_equal(find(SRQ(2, 2)), 2);
	assert_int_equal(find(OWN_SRQ(1)), 3);
	assert_int_equal(gets, 4);
}

static void fill(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		assert_int_equal(find(SRQ(2, 100 + i)), i);
}

static void test_limit(void **state)
{
	(void)state;
	fill(0, SV_BRANCHES);
	assert_int_equal(gets, SV_BRANCHES);
	find_none(SRQ(3, 1));
	assert_int_equal(gets, SV_BRANCHES);
	assert_int_equal(find(SRQ(2, 100)), 0);
	assert_int_equal(find(SRQ(2, 100 + SV_BRANCHES - 1)), SV_BRANCHES - 1);
	/* An answer for a branch that can't be. */
	answer(SV_BRANCHES, 7, 0);
	expect_notice(NULL, INDEX, SV_ATTN_PROGRESS);
}

static void test_no_memory(void **state)
{
	(void)state;
	for (long i = 0; i < 2; i++) {
		memory = i;
		find_none(SRQ(2, 1));
		assert_int_equal(gets, 0);
		qp.sq_lock.held = 0;
		sv_branch_forget(&qp);
		qp.sq_lock.held = 1;
		assert_int_equal(blocks, 0);
	}
	memory = -1;
	no_links = true;
	find_none(SRQ(2, 1));
	assert_int_equal(gets, 1);
	assert_int_equal(blocks, 1); /* the table of branches */
	no_links = false;
	assert_int_equal(find(SRQ(2, 1)), 0);
}

/* Another thread, which has the lock now. */
static void finds_same(void)
{
	qp.sq_lock.held = 1;
	assert_int_equal(find(SRQ(2, 1)), 0);
	qp.sq_lock.held = 0;
}

static void finds_other(void)
{
	qp.sq_lock.held = 1;
	assert_int_equal(find(SRQ(3, 1)), 0);
	qp.sq_lock.held = 0;
}

static void finds_last(void)
{
	qp.sq_lock.held = 1;
	assert_int_equal(find(SRQ(2, 100 + SV_BRANCHES - 1)), SV_BRANCHES - 1);
	qp.sq_lock.held = 0;
}

static void test_other_first(void **state)
{
	(void)state;
	meanwhile = finds_same;
	assert_int_equal(find(SRQ(2, 1)), 0);
	assert_true(gets == 2 && refs[2] == 1);
	assert_int_equal(blocks, 2); /* the table and one branch */
}

static void test_other_between(void **state)
{
	(void)state;
	meanwhile = finds_other;
	assert_int_equal(find(SRQ(2, 1)), 1);
	assert_int_equal(find(SRQ(3, 1)), 0);
	assert_true(refs[2] == 1 && refs[3] == 1);
}

static void test_other_last(void **state)
{
	(void)state;
	fill(0, SV_BRANCHES - 1);
	meanwhile = finds_last;
	find_none(SRQ(3, 1));
	assert_true(refs[2] == SV_BRANCHES && refs[3] == 0);
	assert_int_equal(blocks, 1 + SV_BRANCHES);
}

/* The lock is free while memory and the link are sought, so that others may have it. */
static void takes_lock(void)
{
	hold(&qp.sq_lock);
}

static void test_lock_again(void **state)
{
	(void)state;
	meanwhile = takes_lock;
	assert_int_equal(find(SRQ(2, 1)), 0);
	assert_int_equal(yields, 1);
}

/* ---- the way there ---- */

static void test_target(void **state)
{
	struct sv_ro_qp *target = &ros[TARGET].qp[sv_qpn_index(TARGET_QPN)];
	uint32_t number = find(SRQ(2, 1));

	(void)state;
	for (uint32_t s = IBV_QPS_RESET; s <= IBV_QPS_ERR; s++) {
		bool open = s == IBV_QPS_RTR || s == IBV_QPS_RTS || s == IBV_QPS_SQD || s == IBV_QPS_SQE;

		atomic_store(&target->state, s);
		assert_int_equal(sv_branch_select(&qp, number), open ? SV_WAY_ASKED : SV_WAY_DOWN);
	}
	atomic_store(&target->state, IBV_QPS_RTS);
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
	atomic_store(&target->dest_qpn, OWN_QPN + 1);
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_DOWN);
	atomic_store(&target->dest_qpn, OWN_QPN);
	atomic_store(&target->gen, GEN + 1); /* another one of that number */
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_DOWN);
	atomic_store(&target->gen, 0);
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_DOWN);
	atomic_store(&target->gen, GEN);
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
	assert_int_equal(pokes, 0);
}

/* The first look says which one it is; none is there yet. */
static void test_target_not_made(void **state)
{
	struct sv_ro_qp *target = &ros[TARGET].qp[sv_qpn_index(TARGET_QPN)];
	uint32_t number = find(SRQ(2, 1));

	(void)state;
	atomic_store(&target->gen, 0);
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_DOWN);
	atomic_store(&target->gen, GEN + 5);
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
	atomic_store(&target->gen, GEN);
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_DOWN);
}

static void test_target_process(void **state)
{
	uint32_t number = find(SRQ(2, 1));

	(void)state;
	links[TARGET].state = SV_PEER_NEW;
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
	links[TARGET].state = SV_PEER_ASKED;
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
	links[TARGET].state = SV_PEER_GONE;
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_DOWN);
	assert_int_equal(pokes, 3);
	assert_int_equal(asks.n, 0);
}

static void test_process(void **state)
{
	uint32_t number = find(SRQ(2, 1));

	(void)state;
	links[2].state = SV_PEER_NEW;
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
	assert_true(pokes == 1 && asks.n == 0);
	links[2].state = SV_PEER_GONE;
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_DOWN);
	assert_true(pokes == 2 && asks.n == 0);
	links[2].state = SV_PEER_UP;
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
	assert_true(pokes == 2 && asks.n == 1);
	links[2].state = SV_PEER_GONE; /* it owes an answer for ever */
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_DOWN);
	assert_int_equal(asks.n, 1);
}

static void expect_request(const struct sv_msg *msg, uint32_t number, uint32_t srq)
{
	const struct sv_msg expected = { .type = SV_MSG_JOIN, .src_qpn = OWN_QPN, .serial = number,
					 .index = srq, .mem = TARGET_QPN, .write = 5, .stage = 6, .bytes = 7,
					 .addr = DOMAIN_ID };

	assert_memory_equal(msg, &expected, sizeof(expected));
}

/* Once, until it was heard. */
static void test_ask(void **state)
{
	uint32_t number;

	(void)state;
	find(SRQ(3, 1));
	number = find(SRQ(2, 77));
	deaf = true;
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
		assert_int_equal(asks.n, i);
	}
	deaf = false;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
		assert_int_equal(asks.n, 3);
	}
	assert_ptr_equal(asks.peer, &links[2]);
	expect_request(&asks.msg, number, 77);
	assert_int_equal(notices.n, 0);
	assert_true(qp.peer == &links[TARGET] && qp.peer_qpn == TARGET_QPN);
}

static bool own_request(struct sv_msg *msg)
{
	bool found;

	qp.sq_lock.held = 0;
	found = sv_branch_own_request(&qp, msg);
	assert_int_equal(qp.sq_lock.held, 0);
	qp.sq_lock.held = 1;
	return found;
}

/* The process itself is asked by its control thread. */
static void test_ask_self(void **state)
{
	uint32_t number[2], other;
	struct sv_msg msg;

	(void)state;
	assert_false(own_request(&msg));
	number[0] = find(OWN_SRQ(5));
	assert_false(own_request(&msg));
	other = find(SRQ(2, 1));
	number[1] = find(OWN_SRQ(6));
	assert_int_equal(sv_branch_select(&qp, other), SV_WAY_ASKED);
	assert_false(own_request(&msg));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sv_branch_select(&qp, number[i]), SV_WAY_ASKED);
		expect_notice(NULL, INDEX, SV_ATTN_JOIN);
		assert_int_equal(sv_branch_select(&qp, number[i]), SV_WAY_ASKED);
		assert_int_equal(notices.n, 0);
	}
	assert_int_equal(asks.n, 1);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(own_request(&msg));
		expect_request(&msg, number[i], 5 + i);
		answer(number[i], 30 + i, i);
	}
	assert_false(own_request(&msg));
	assert_int_equal(sv_branch_select(&qp, number[0]), SV_WAY_OPEN);
	assert_int_equal(sv_branch_select(&qp, number[1]), SV_WAY_REFUSED);
}

/* Back at the target nothing is asked: there is none to say for whom. */
static void test_ask_self_left(void **state)
{
	struct sv_msg msg;

	(void)state;
	assert_int_equal(sv_branch_select(&qp, find(OWN_SRQ(5))), SV_WAY_ASKED);
	sv_branch_leave(&qp);
	assert_false(own_request(&msg));
}

/* ---- answers ---- */

static void test_answers(void **state)
{
	uint32_t first = find(SRQ(2, 1)), second = find(SRQ(3, 1));

	(void)state;
	answer(first, 7, 0); /* to what nobody asked */
	expect_notice(NULL, INDEX, SV_ATTN_PROGRESS);
	assert_int_equal(sv_branch_select(&qp, first), SV_WAY_ASKED);
	assert_int_equal(sv_branch_select(&qp, second), SV_WAY_ASKED);
	assert_int_equal(asks.n, 2);
	answer(2, 7, 0);
	answer(UINT32_MAX, 7, 0);
	assert_int_equal(sv_branch_select(&qp, first), SV_WAY_ASKED);
	assert_int_equal(sv_branch_select(&qp, second), SV_WAY_ASKED);
	answer(second, 7, EINVAL);
	assert_int_equal(sv_branch_select(&qp, second), SV_WAY_REFUSED);
	answer(second, 7, 0);
	assert_int_equal(sv_branch_select(&qp, second), SV_WAY_REFUSED);
	assert_int_equal(sv_branch_select(&qp, first), SV_WAY_ASKED);
	answer(first, 7, 0);
	answer(first, 8, EINVAL);
	assert_int_equal(sv_branch_select(&qp, first), SV_WAY_OPEN);
	assert_true(qp.peer == &links[2] && qp.peer_qpn == SRQ(2, 7));
	assert_int_equal(asks.n, 2);
}

static void test_answers_to_nobody(void **state)
{
	(void)state;
	answer(0, 7, 0); /* no branch yet */
	expect_notice(NULL, INDEX, SV_ATTN_PROGRESS);
	no_qp = true;
	answer(0, 7, 0);
	assert_int_equal(notices.n, 0);
}

static void is_asked_still(void)
{
	assert_int_equal(notices.n, 0);
}

/* Not while another thread is at the queue pair. */
static void test_answer_waits(void **state)
{
	const struct sv_msg msg = { .src_qpn = OWN_QPN };
	struct sv_msg request;

	(void)state;
	assert_int_equal(sv_branch_select(&qp, find(SRQ(2, 1))), SV_WAY_ASKED);
	qp.sq_lock.held = 0;
	at_yield = is_asked_still;
	hold(&qp.sq_lock);
	sv_branch_answered(&msg);
	assert_int_equal(yields, 1);
	hold(&qp.sq_lock);
	notices.n = 0;
	assert_false(sv_branch_own_request(&qp, &request));
	assert_int_equal(yields, 2);
	hold(&qp.sq_lock);
	sv_branch_forget(&qp);
	assert_int_equal(yields, 3);
	qp.sq_lock.held = 1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_find, begin, end),
		cmocka_unit_test_setup_teardown(test_limit, begin, end),
		cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
		cmocka_unit_test_setup_teardown(test_other_first, begin, end),
		cmocka_unit_test_setup_teardown(test_other_between, begin, end),
		cmocka_unit_test_setup_teardown(test_other_last, begin, end),
		cmocka_unit_test_setup_teardown(test_lock_again, begin, end),
		cmocka_unit_test_setup_teardown(test_target, begin, end),
		cmocka_unit_test_setup_teardown(test_target_not_made, begin, end),
		cmocka_unit_test_setup_teardown(test_target_process, begin, end),
		cmocka_unit_test_setup_teardown(test_process, begin, end),
		cmocka_unit_test_setup_teardown(test_ask, begin, end),
		cmocka_unit_test_setup_teardown(test_ask_self, begin, end),
		cmocka_unit_test_setup_teardown(test_ask_self_left, begin, end),
		cmocka_unit_test_setup_teardown(test_answers, begin, end),
		cmocka_unit_test_setup_teardown(test_answers_to_nobody, begin, end),
		cmocka_unit_test_setup_teardown(test_answer_waits, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
