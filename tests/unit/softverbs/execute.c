/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send queue's requests one after the other: who executes which, what the sender is told of its
 * end, when one may not begin, faults before it, and the way of an XRC request.
 */
#include "execute.h"

/* ---- who executes what ---- */

static void test_opcodes(void **state)
{
	(void)state;
	expect_one(IBV_WR_SEND, "s.", 0);
	expect_one(IBV_WR_SEND_WITH_IMM, "s.", 0);
	expect_one(IBV_WR_SEND_WITH_INV, "s.", 0);
	expect_one(IBV_WR_RDMA_READ, "r.", 0);
	expect_one(IBV_WR_ATOMIC_CMP_AND_SWP, "r.", 0);
	expect_one(IBV_WR_RDMA_WRITE_WITH_IMM, "rs.", 0);
	expect_one(IBV_WR_BIND_MW, "B.", 0);
	expect_one(IBV_WR_LOCAL_INV, "I.", 0);
	window_ret = EINVAL;
	expect_one(IBV_WR_BIND_MW, "B.F", IBV_WC_MW_BIND_ERR);
	expect_one(IBV_WR_LOCAL_INV, "I.F", IBV_WC_MW_BIND_ERR);
	qp.ib.qp_type = IBV_QPT_UD;
	expect_one(IBV_WR_SEND, "d.S", 0);
	status = IBV_WC_LOC_LEN_ERR;
	expect_one(IBV_WR_RDMA_WRITE_WITH_IMM, "r.FS", IBV_WC_LOC_LEN_ERR);
}

static void test_order(void **state)
{
	(void)state;
	add(IBV_WR_SEND);
	add(IBV_WR_RDMA_READ);
	add(IBV_WR_SEND);
	qp.to_wake = true;
	expect("s.r.s.W");
	add(IBV_WR_RDMA_WRITE_WITH_IMM);
	add(IBV_WR_SEND);
	outcome = SV_WAIT;
	expect("r");
	assert_int_equal(wqes[3].stage, SV_STAGE_START);
	outcome = SV_DONE;
	wqes[3].stage = SV_STAGE_WRITTEN;
	expect("s.s.");
	add(IBV_WR_SEND);
	add(IBV_WR_SEND);
	status = IBV_WC_REM_OP_ERR;
	expect("s.F");
}

/* Nobody tells the sender of an unreliable connection what became of it. */
static void test_told(void **state)
{
	static const uint32_t unknown[] = { IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR,
					    IBV_WC_REM_OP_ERR, IBV_WC_RNR_RETRY_EXC_ERR };

	(void)state;
	for (int i = 0; i < 5; i++) {
		status = unknown[i];
		qp.ib.qp_type = IBV_QPT_UC;
		expect_one(IBV_WR_SEND, "s.", 0);
		qp.ib.qp_type = IBV_QPT_RC;
		expect_one(IBV_WR_SEND, "s.F", status);
	}
	qp.ib.qp_type = IBV_QPT_UC;
	ro.state = IBV_QPS_RTS;
	for (uint8_t stage = SV_STAGE_WRITTEN; stage <= SV_STAGE_CLAIMED; stage++) {
		qp.sq_head = 0;
		add(IBV_WR_SEND);
		wqes[0].stage = stage; /* half of it may be there */
		expect(stage == SV_STAGE_CLAIMED ? "s.F" : "s.");
	}
	status = IBV_WC_LOC_PROT_ERR;
	expect_one(IBV_WR_SEND, "s.F", status);
}

/* ---- states ---- */

static void test_drained(void **state)
{
	(void)state;
	add(IBV_WR_SEND);
	ro.state = IBV_QPS_SQD;
	expect("");
	qp.draining = qp.tell_drained = true;
	qp.block = SV_BLOCK_ROOM; /* it has begun: it ends, and the next doesn't begin */
	add(IBV_WR_SEND);
	outcome = SV_WAIT;
	expect("s");
	assert_true(qp.draining);
	outcome = SV_DONE;
	expect("s.e");
	assert_true(raised == IBV_EVENT_SQ_DRAINED && raised_for == &qp.ib);
	assert_true(!qp.draining && !qp.tell_drained && qp.sq_count == 1);
	qp.draining = true;
	expect("");
	assert_false(qp.draining);
	qp.draining = true;
	ro.state = IBV_QPS_ERR;
	expect("");
	assert_true(qp.draining);
}

/* ---- XRC ---- */

static void test_ways(void **state)
{
	(void)state;
	qp.ib.qp_type = IBV_QPT_XRC_SEND;
	qp.to_wake = true;
	add(IBV_WR_SEND);
	wqes[0].flags = 0x1ab << SV_SEND_BRANCH_SHIFT & 0xffff;
	expect("Wbs.");
	assert_int_equal(branch, 0xab);
	expect_one(IBV_WR_BIND_MW, "B.", 0); /* goes nowhere */
	expect_one(IBV_WR_LOCAL_INV, "I.", 0);
	way = SV_WAY_ASKED;
	expect_one(IBV_WR_SEND, "ba", 999);
	way = SV_WAY_DOWN;
	expect_one(IBV_WR_SEND, "bp", 999);
	spent = true;
	expect_one(IBV_WR_SEND, "bp.F", IBV_WC_RETRY_EXC_ERR);
	way = SV_WAY_REFUSED;
	status = IBV_WC_REM_INV_REQ_ERR;
	expect_one(IBV_WR_SEND, "b.AF", status);
	way = SV_WAY_OPEN;
	status = IBV_WC_REM_ACCESS_ERR;
	expect_one(IBV_WR_RDMA_READ, "br.AF", status);
	status = IBV_WC_REM_OP_ERR;
	expect_one(IBV_WR_SEND, "bs.AF", status);
	status = IBV_WC_LOC_PROT_ERR;
	expect_one(IBV_WR_SEND, "bs.F", status);
}

/* ---- injected faults ---- */

static void expect_event(enum ibv_event_type type, void *object)
{
	char spec[48];

	snprintf(spec, sizeof(spec), "event=%d,event_at=1", (int)type);
	assert_int_equal(sv_fault_set(spec), 0);
	raised_for = &raised;
	expect_one(IBV_WR_SEND, "esx.", 0);
	assert_true(raised == type && raised_for == object);
	expect_one(IBV_WR_SEND, "sx.", 0);
}

static void test_events(void **state)
{
	(void)state;
	qp.ib.srq = &srq.ib;
	expect_event(IBV_EVENT_CQ_ERR, &cq.ib);
	expect_event(IBV_EVENT_QP_FATAL, &qp.ib);
	expect_event(IBV_EVENT_SRQ_ERR, &srq.ib);
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, &srq.ib);
	expect_event(IBV_EVENT_PORT_ERR, NULL);
	expect_event(IBV_EVENT_DEVICE_FATAL, NULL);
	qp.ib.srq = NULL;
	assert_int_equal(sv_fault_set("event=14,event_at=1"), 0); /* without a queue: of nothing */
	expect_one(IBV_WR_SEND, "sx.", 0);
	assert_int_equal(IBV_EVENT_SRQ_ERR, 14);
}

static void test_cut(void **state)
{
	(void)state;
	cut = true;
	expect_one(IBV_WR_SEND, "s.", 0); /* nobody looks */
	assert_int_equal(sv_fault_set("torn=1,qp=5"), 0);
	expect_one(IBV_WR_SEND, "p", 999);
	peer.self = true;
	expect_one(IBV_WR_SEND, "s.", 0);
	qp.peer = NULL;
	spent = true;
	expect_one(IBV_WR_SEND, "p.F", IBV_WC_RETRY_EXC_ERR);
	cut = spent = false;
	assert_int_equal(sv_fault_set("partition=1,qp=5"), 0);
	expect_one(IBV_WR_SEND, "s.", 0);
	assert_int_equal(sv_fault_set("partition=1"), 0);
	expect_one(IBV_WR_SEND, "p", 999);
}

static void test_delayed(void **state)
{
	(void)state;
	assert_int_equal(sv_fault_set("delay_us=7"), 0);
	expect_one(IBV_WR_SEND, "w", 999);
	assert_true(waited_ns == 7 * US && qp.block == SV_BLOCK_DELAY && qp.delayed);
	qp.deadline_ns = now_ns;
	expect("sx."); /* once, and counted once */
	assert_int_equal(qp.fault_number, 1);
	assert_int_equal(sv_fault_set("error=1000,delay_us=7"), 0);
	expect_one(IBV_WR_SEND, "x.F", IBV_WC_GENERAL_ERR);
	assert_int_equal(sv_fault_set("error=1000,qp=2"), 0);
	expect_one(IBV_WR_SEND, "s.", 0);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(opcodes), TEST(order),  TEST(told), TEST(drained),
		TEST(ways),    TEST(events), TEST(cut),  TEST(delayed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
