/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that wait: what only time ends, whose queue pairs are looked at and when again, and
 * answers that come.
 */
#include "execute.h"

/* Only time ends these waits. */
static void test_must_wait(void **state)
{
	static const enum sv_block timed[] = { SV_BLOCK_RNR, SV_BLOCK_DELAY, SV_BLOCK_REPLY };

	(void)state;
	for (int i = 0; i < 3; i++) {
		add(IBV_WR_SEND);
		qp.block = timed[i];
		qp.deadline_ns = now_ns + 1;
		expect("");
		qp.deadline_ns = now_ns;
		expect("s.");
	}
	qp.deadline_ns = now_ns + 1;
	qp.block = SV_BLOCK_ROOM;
	add(IBV_WR_SEND);
	expect("s.");
	qp.block = SV_BLOCK_LINK;
	add(IBV_WR_SEND);
	expect("s.");
}

/* ---- who waits ---- */

static struct sv_cq other_cq;

static uint64_t progress(struct sv_cq *of, struct sv_peer *to, const char *expected)
{
	uint64_t due;

	memset(calls, 0, sizeof(calls));
	due = sv_progress_blocked(of, to);
	assert_string_equal(calls, expected);
	assert_int_equal(refs, 0);
	return due;
}

static void test_blocked(void **state)
{
	(void)state;
	assert_true(progress(NULL, NULL, "") == UINT64_MAX);
	proc.blocked[INDEX / 64] = 1ull << INDEX % 64 | 1; /* one is gone by now */
	add(IBV_WR_SEND);
	outcome = SV_WAIT;
	qp.counted = true;
	qp.deadline_ns = now_ns + 5;
	assert_true(progress(NULL, NULL, "") == now_ns + 5);
	assert_true(progress(&other_cq, NULL, "") == UINT64_MAX);
	assert_true(progress(&cq, NULL, "s") == now_ns + 5);
	assert_true(progress(NULL, &peer, "s") == now_ns + 5);
	qp.deadline_ns = now_ns; /* stuck: it is looked at now and then */
	assert_true(progress(NULL, NULL, "s") == now_ns + SV_WAIT_PEER_MAX_NS);
	qp.sq_lock.held = 1;
	assert_true(progress(NULL, NULL, "") == now_ns + 200 * US);
	assert_int_equal(qp.sq_lock.held, 1);
	qp.sq_lock.held = 0;
	qp.counted = false;
	assert_true(progress(NULL, NULL, "s") == UINT64_MAX && !qp.sq_lock.held);
}

static void test_places(void **state)
{
	static const uint32_t places[] = { 0, 63, 64, SV_QPS - 1 };

	(void)state;
	atomic_store(&proc.next_gen, UINT32_MAX); /* behind the last place */
	outcome = SV_WAIT;
	qp.counted = true;
	add(IBV_WR_SEND);
	for (int i = 0; i < 4; i++) {
		memset(proc.blocked, 0, sizeof(proc.blocked));
		qp.index = places[i];
		proc.blocked[qp.index / 64] = 1ull << qp.index % 64;
		qp.deadline_ns = now_ns + 5;
		assert_true(progress(NULL, &peer, "s") == now_ns + 5);
	}
}

/* ---- answers ---- */

static uint64_t got[2];

static void ask(enum ibv_wr_opcode opcode)
{
	ro.state = IBV_QPS_RTS;
	qp.sq_head = qp.sq_count = 0;
	add(opcode);
	wqes[0].stage = SV_STAGE_ASKED;
	wqes[0].len = 16;
	wqes[0].nsge = 1;
	wqes[0].sge[0] = (struct ibv_sge){ (uintptr_t)got, 16, 0 };
	qp.slow_serial = 4;
	qp.slow_open = 2;
	qp.block = SV_BLOCK_REPLY;
	qp.deadline_ns = now_ns + 5;
	got[0] = got[1] = 1;
	finished = 999;
	outcome = SV_WAIT;
}

static void answer(uint32_t index, uint32_t serial, uint32_t with, uint64_t offset, uint32_t bytes,
		   const char *expected)
{
	uint64_t data[2] = { 21, 22 };

	memset(calls, 0, sizeof(calls));
	sv_slow_answer(index, serial, with, offset, 33, data, bytes);
	assert_string_equal(calls, expected);
	assert_true(refs == 0 && !qp.sq_lock.held);
}

static void test_answers(void **state)
{
	(void)state;
	ask(IBV_WR_RDMA_READ);
	answer(INDEX + 1, 4, 0, 0, 8, "");
	answer(INDEX, 5, 0, 0, 8, "");
	wqes[0].stage = SV_STAGE_START;
	answer(INDEX, 4, 0, 0, 8, "");
	wqes[0].stage = SV_STAGE_ASKED;
	qp.sq_count = 0;
	answer(INDEX, 4, 0, 0, 8, "");
	qp.sq_count = 1;
	assert_true(qp.slow_open == 2 && got[0] == 1);
	answer(INDEX, 4, 0, 8, 8, "r");
	assert_true(qp.slow_open == 1 && wqes[0].done == 8 && got[0] == 1 && got[1] == 21);
	ask(IBV_WR_RDMA_WRITE);
	answer(INDEX, 4, 0, 0, 16, "r");
	assert_true(wqes[0].done == 16 && got[0] == 1);
	ask(IBV_WR_ATOMIC_CMP_AND_SWP);
	answer(INDEX, 4, 0, 0, 8, "r");
	assert_true(got[0] == 33 && got[1] == 1);
	ask(IBV_WR_ATOMIC_FETCH_AND_ADD);
	answer(INDEX, 4, 0, 0, 8, "r");
	assert_int_equal(got[0], 33);
}

/* A refusal, and what lies outside of the request. */
static void test_bad_answers(void **state)
{
	(void)state;
	ask(IBV_WR_RDMA_READ);
	answer(INDEX, 4, IBV_WC_REM_OP_ERR, 0, 8, ".F");
	assert_true(finished == IBV_WC_REM_OP_ERR && got[0] == 1 && qp.slow_open == 1);
	ask(IBV_WR_RDMA_READ);
	answer(INDEX, 4, 0, 0, 17, ".F");
	assert_int_equal(finished, IBV_WC_BAD_RESP_ERR);
	ask(IBV_WR_RDMA_READ);
	answer(INDEX, 4, 0, 9, 8, ".F");
	assert_int_equal(finished, IBV_WC_BAD_RESP_ERR);
	ask(IBV_WR_RDMA_READ);
	answer(INDEX, 4, 0, 0, 16, "r");
	assert_true(got[0] == 21 && got[1] == 22);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(must_wait), TEST(blocked), TEST(places), TEST(answers), TEST(bad_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
