/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a request waits for its peer, to the nanosecond; when the peer is ready, and what is
 * taken over from it at first sight.
 *
 * The program is linked with --wrap: the time is the test's, and nobody is called.
 */
#include "kit.h"
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/peer/peer.h"

#define INDEX 70u
#define OWN_QPN 0xb046u
#define PEER_QPN 0x2009u
#define US 1000ull
#define MS 1000000ull

static struct sv_proc proc;
static struct sv_ro ro;
static struct sv_rw rw;
static struct sv_peer peer;
static struct sv_cq cq;
static struct sv_qp qp;
static uint64_t now_ns, wake_at;
static int pokes, wakes;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
void __wrap_sv_ctl_wake_at(uint64_t at_ns);
void __wrap_sv_peer_poke(struct sv_peer *at);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	ts->tv_sec = (time_t)(now_ns / 1000000000);
	ts->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

/* Whoever looks then finds the queue pair. */
void __wrap_sv_ctl_wake_at(uint64_t at_ns)
{
	assert_true(qp.deadline_ns == at_ns && qp.counted);
	assert_int_equal(proc.blocked[INDEX / 64], 1ull << INDEX % 64);
	wake_at = at_ns;
	wakes++;
}

void __wrap_sv_peer_poke(struct sv_peer *at)
{
	assert_ptr_equal(at, &peer);
	pokes++;
}

static int begin(void **state)
{
	(void)state;
	memset(&qp, 0, sizeof(qp));
	proc.blocked[INDEX / 64] = 0;
	sv_proc = &proc;
	cq.nblocked = 0;
	peer = (struct sv_peer){ .state = SV_PEER_UP, .ro = &ro, .rw = &rw };
	ro.qp[9].state = IBV_QPS_RTS;
	ro.qp[9].dest_qpn = OWN_QPN;
	ro.qp[9].gen = 5;
	rw.qp[9].tail = 33;
	qp.ib.send_cq = &cq.ib;
	qp.index = INDEX;
	qp.qpn = OWN_QPN;
	qp.peer = &peer;
	qp.peer_qpn = PEER_QPN;
	qp.budget_ns = 1000 * MS;
	now_ns = 500000 * MS;
	pokes = wakes = 0;
	return 0;
}

/* ---- waits ---- */

typedef enum sv_outcome wait_fn(struct sv_qp *of, uint32_t *status);

/* After so long it waits so long. */
static void expect_step(wait_fn *wait, uint64_t waited, uint64_t step)
{
	uint32_t status = 0;
	int before = wakes;

	qp.first_ns = now_ns - waited;
	assert_int_equal(wait(&qp, &status), SV_WAIT);
	assert_true(status == 0 && qp.block == SV_BLOCK_LINK && qp.first_ns == now_ns - waited);
	assert_true(wakes == before + 1 && wake_at == now_ns + step && cq.nblocked == 1);
}

static void expect_end(wait_fn *wait, uint64_t waited)
{
	uint32_t status = 0;
	int before = wakes;

	qp.first_ns = now_ns - waited;
	assert_int_equal(wait(&qp, &status), SV_DONE);
	assert_true(status == IBV_WC_RETRY_EXC_ERR && wakes == before);
}

static void test_steps(void **state)
{
	uint32_t status = 0;

	(void)state;
	assert_int_equal(sv_wait_peer(&qp, &status), SV_WAIT);
	assert_true(qp.first_ns == now_ns && wake_at == now_ns + 200 * US);
	expect_step(sv_wait_peer, 800 * US - 4, 200 * US);
	expect_step(sv_wait_peer, 800 * US + 4, 200 * US + 1);
	expect_step(sv_wait_peer, 40 * MS, 10 * MS);
	expect_step(sv_wait_peer, 80 * MS - 4, 20 * MS - 1);
	expect_step(sv_wait_peer, 80 * MS + 4, 20 * MS);
	expect_step(sv_wait_peer, 980 * MS, 20 * MS);
	expect_step(sv_wait_peer, 990 * MS, 10 * MS);
	expect_step(sv_wait_peer, 1000 * MS - 1, 1);
	expect_end(sv_wait_peer, 1000 * MS);
	expect_end(sv_wait_peer, 2000 * MS);
}

/* A living process may be slow: five seconds, or as long as the queue pair has patience. */
static void test_answers(void **state)
{
	(void)state;
	expect_step(sv_wait_answer, 5000 * MS - 1, 1);
	expect_end(sv_wait_answer, 5000 * MS);
	qp.awaits_link = true;
	expect_step(sv_wait_peer, 5000 * MS - 1, 1);
	expect_end(sv_wait_peer, 5000 * MS);
	qp.budget_ns = 6000 * MS;
	expect_step(sv_wait_answer, 6000 * MS - 1, 1);
	expect_end(sv_wait_answer, 6000 * MS);
	qp.awaits_link = false;
	expect_end(sv_wait_peer, 6000 * MS);
}

static void test_counted(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(sv_wait(&qp, SV_BLOCK_RNR, 77), SV_WAIT);
	assert_true(qp.block == SV_BLOCK_RNR && cq.nblocked == 1 && wake_at == now_ns + 77);
	qp.first_ns = 1;
	sv_unblock_locked(&qp);
	assert_true(!qp.block && !qp.first_ns && !cq.nblocked && !proc.blocked[INDEX / 64]);
	qp.first_ns = 1;
	qp.block = SV_BLOCK_ROOM;
	sv_unblock_locked(&qp);
	assert_true(!qp.block && !qp.first_ns && !cq.nblocked && !qp.counted);
}

/* ---- the peer ---- */

static void test_no_link(void **state)
{
	static const uint32_t states[] = { SV_PEER_NEW, SV_PEER_ASKED, SV_PEER_GONE };

	(void)state;
	for (int i = 0; i < 3; i++) {
		peer.state = states[i];
		qp.awaits_link = i == 2;
		assert_false(sv_peer_ready(&qp));
		assert_true(pokes == i + 1 && qp.awaits_link == (i < 2));
	}
}

/* What it waited for the link doesn't count when that is there; nor does it where it waited for
 * something else. */
static void test_link_there(void **state)
{
	(void)state;
	qp.awaits_link = true;
	qp.first_ns = 9;
	ro.qp[9].state = IBV_QPS_INIT;
	assert_false(sv_peer_ready(&qp));
	assert_true(!qp.awaits_link && !qp.first_ns && !pokes);
	qp.first_ns = 9;
	assert_false(sv_peer_ready(&qp));
	assert_int_equal(qp.first_ns, 9);
	ro.qp[9].state = IBV_QPS_RTS;
	qp.block = SV_BLOCK_ROOM;
	assert_true(sv_peer_ready(&qp));
	assert_true(qp.first_ns == 9 && qp.block == SV_BLOCK_ROOM);
	qp.block = SV_BLOCK_LINK; /* it answers again */
	assert_true(sv_peer_ready(&qp));
	assert_true(qp.first_ns == 0 && qp.block == SV_BLOCK_NONE);
}

static void test_states(void **state)
{
	(void)state;
	for (uint32_t i = IBV_QPS_RESET; i <= IBV_QPS_ERR; i++) {
		ro.qp[9].state = i;
		assert_int_equal(sv_peer_ready(&qp), i >= IBV_QPS_RTR && i <= IBV_QPS_SQE);
	}
	ro.qp[9].state = IBV_QPS_RTS;
	ro.qp[9].dest_qpn = OWN_QPN + 1; /* connected to another */
	assert_false(sv_peer_ready(&qp));
}

/* The first that is seen is it; a later one is another. */
static void test_first_sight(void **state)
{
	(void)state;
	qp.pay_tail = qp.pay_head = qp.tx_tail = qp.tx_head = 8;
	ro.qp[9].gen = 0;
	qp.block = SV_BLOCK_LINK;
	assert_false(sv_peer_ready(&qp));
	assert_true(qp.tx_tail == 8 && qp.pay_tail == 8 && qp.block == SV_BLOCK_LINK);
	ro.qp[9].gen = 5;
	assert_true(sv_peer_ready(&qp));
	assert_true(qp.peer_gen == 5 && qp.tx_tail == 33 && qp.tx_head == 33);
	assert_true(qp.pay_tail == 0 && qp.pay_head == 0);
	qp.tx_tail = qp.pay_tail = 40;
	assert_true(sv_peer_ready(&qp));
	assert_true(qp.tx_tail == 40 && qp.pay_tail == 40);
	ro.qp[9].gen = 6;
	assert_false(sv_peer_ready(&qp));
	assert_true(qp.peer_gen == 5 && qp.tx_tail == 40);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(steps),	  TEST(answers), TEST(counted),	    TEST(no_link),
		TEST(link_there), TEST(states),	 TEST(first_sight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
