/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A message on its way: credits, the records and bytes that the receiver finds, what it waits for
 * and how long, and whom it wakes.
 */
#include "initiator.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/exec/wire.h"

#define RQ 300u
#define CQ 17u
#define FIRST SV_DESC_FIRST
#define LAST SV_DESC_LAST
#define WHOLE (SV_DESC_FIRST | SV_DESC_LAST)
#define IMM 0xfeedu
#define ROOM_STEP (20 * MS)
#define ROOM_BUDGET (5 * SECOND)

static struct sv_wire wire;
static bool no_mapping;
static int mapped, notified;

struct sv_wire *__wrap_sv_peer_wire(struct sv_peer *at, uint32_t index);
void __wrap_sv_peer_notify(struct sv_peer *at, uint32_t index, uint32_t cq);
int __wrap_munmap(void *at, size_t bytes);

struct sv_wire *__wrap_sv_peer_wire(struct sv_peer *at, uint32_t index)
{
	assert_true(at == &peer && index == INDEX);
	mapped += !no_mapping;
	return no_mapping ? NULL : &wire;
}

void __wrap_sv_peer_notify(struct sv_peer *at, uint32_t index, uint32_t cq)
{
	assert_true(at == &peer && index == INDEX && cq <= SV_CQS);
	notified++;
}

int __wrap_munmap(void *at, size_t bytes)
{
	assert_true(at == &wire && bytes == SV_WIRE_BYTES);
	mapped--;
	return 0;
}

static struct sv_rw_qp *shared(void)
{
	return &tables.rw.qp[INDEX];
}

static int begin(void **state)
{
	(void)state;
	initiator_begin(sv_exec_send);
	memset(&wire, 0, sizeof(wire));
	memset(&tables.rw.cq[CQ], 0, sizeof(tables.rw.cq[CQ]));
	ro.qp[INDEX].rq = RQ;
	ro.qp[INDEX].cq = CQ;
	ro.qp[INDEX].rnr_timer = 1;
	ro.rq[RQ].posted = 1000;
	ro.rq[RQ].min_len = UINT32_MAX;
	tables.rw.rq[RQ].claim = 0;
	no_mapping = false;
	mapped = notified = 0;
	set_request(IBV_WR_SEND, 100);
	return 0;
}

static void send_new(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	set_request(opcode, bytes);
	expect(IBV_WC_SUCCESS);
}

/* ---- before it is sent ---- */

static void test_refused(void **state)
{
	(void)state;
	wqe->len = SV_MAX_MSG_BYTES + 1ull;
	expect(IBV_WC_LOC_LEN_ERR);
	set_request(IBV_WR_SEND, 8);
	valid = false;
	expect(IBV_WC_LOC_PROT_ERR);
	assert_int_equal(local_right, 0);
	wqe->stage = SV_STAGE_WRITTEN; /* that was looked at as it was written */
	wqe->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	expect(IBV_WC_SUCCESS);
	valid = true;
	ready = false;
	set_request(IBV_WR_SEND, 8);
	wqe->len = SV_MAX_MSG_BYTES;
	expect_peer_wait();
}

static void test_not_ready(void **state)
{
	(void)state;
	ready = false;
	expect_peer_wait();
	ro.qp[INDEX].nak = SV_NAK_LENGTH;
	expect(IBV_WC_REM_INV_REQ_ERR);
	ro.qp[INDEX].nak = SV_NAK_LOCAL;
	expect(IBV_WC_REM_OP_ERR);
	qp.peer_gen = 0; /* it was never seen: it says that of another */
	expect_peer_wait();
	qp.peer_gen = GEN;
	peer.state = SV_PEER_GONE;
	expect_peer_wait();
	assert_int_equal(mapped, 0);
}

static void test_mapping(void **state)
{
	(void)state;
	no_mapping = true;
	expect_peer_wait();
	no_mapping = false;
	send_new(IBV_WR_SEND, 1);
	send_new(IBV_WR_SEND, 1);
	assert_int_equal(mapped, 1);
	sv_wire_detach(&qp);
	sv_wire_detach(&qp);
	assert_true(mapped == 0 && !qp.tx);
}

/* ---- credits ---- */

static void test_claim(void **state)
{
	(void)state;
	send_new(IBV_WR_SEND, 1);
	assert_true(tables.rw.rq[RQ].claim == (1ull << 32 | INDEX << 20 | 1) && shared()->claimed == 1);
	ro.qp[INDEX].rq = SV_RQS;
	ro.cq[0].channel = 1000; /* what is behind the table */
	set_request(IBV_WR_SEND, 1);
	expect_peer_wait();
	assert_int_equal(shared()->claimed, 1);
}

/* The receiver's state is looked at once more behind the claim: it is given up. */
static void test_claim_given_up(void **state)
{
	(void)state;
	looks_left = 1;
	spent = true;
	expect(IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(peer_waits, 1);
	assert_true(told == 1 && told_flags == SV_ATTN_RECONCILE && wqe->stage == SV_STAGE_START);
	assert_true(shared()->claimed == 1 && shared()->tail == 0);
}

/* As InfiniBand has them, in hundredths of milliseconds. */
static void test_rnr_times(void **state)
{
	static const uint32_t hundredths[] = {
		65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
		1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	(void)state;
	qp.attr.rnr_retry = 7;
	ro.rq[RQ].posted = 0;
	for (uint32_t i = 0; i < 64; i++) {
		ro.qp[INDEX].rnr_timer = i;
		set_request(IBV_WR_SEND, 1);
		expect_wait(SV_BLOCK_RNR, hundredths[i % 32] * 10000ull);
	}
}

static void test_rnr_tries(void **state)
{
	(void)state;
	qp.attr.rnr_retry = 3;
	ro.rq[RQ].posted = 0;
	for (int i = 0; i < 3; i++)
		expect_wait(SV_BLOCK_RNR, 10000);
	expect(IBV_WC_RNR_RETRY_EXC_ERR);
	ro.rq[RQ].posted = 1;
	expect(IBV_WC_SUCCESS);
	qp.attr.rnr_retry = 0;
	set_request(IBV_WR_SEND, 1);
	expect(IBV_WC_RNR_RETRY_EXC_ERR);
}

/* For ever, but after a while less and less often, and no less than every 20 ms or so. */
static void test_rnr_for_ever(void **state)
{
	uint64_t ns = 10000;

	(void)state;
	qp.attr.rnr_retry = 7;
	ro.rq[RQ].posted = 0;
	for (int i = 1; i <= 300; i++) {
		if (i > 16 && ns < 20 * MS)
			ns *= 2;
		expect_wait(SV_BLOCK_RNR, ns);
		assert_int_equal(wqe->rnr_tries, i < 255 ? i : 255);
	}
	ro.qp[INDEX].rnr_timer = 0; /* 655 ms: that is seldom enough */
	expect_wait(SV_BLOCK_RNR, 655360000);
}

static void test_injected_rnr(void **state)
{
	(void)state;
	qp.attr.rnr_retry = 7;
	assert_int_equal(sv_fault_set("rnr=1000"), 0);
	expect_wait(SV_BLOCK_RNR, 10000);
	assert_int_equal(shared()->claimed, 0);
	expect(IBV_WC_SUCCESS); /* once */
	assert_int_equal(sv_fault_set("rnr=1000,qp=5"), 0);
	send_new(IBV_WR_SEND, 1);
	assert_int_equal(sv_fault_set(NULL), 0);
}

/* ---- records ---- */

static void check_record(uint32_t n, uint32_t flags, uint32_t at, uint32_t len, uint32_t total)
{
	struct sv_desc *desc = &wire.desc[n % SV_DESCS];

	assert_true(desc->place == (at | flags << 16) && desc->imm == wqe->imm);
	assert_true(desc->len == len && desc->total == total);
}

static void send_key(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	set_request(opcode, bytes);
	wqe->imm = IMM;
	expect(IBV_WC_SUCCESS);
}

static void test_opcodes(void **state)
{
	struct sv_ro_mr *window = &ro.mr[sv_key_place(IMM)];

	(void)state;
	window->rkey = IMM;
	window->window = PEER_QPN;
	send_key(IBV_WR_SEND, 10);
	check_record(0, WHOLE, 0, 10, 10);
	send_key(IBV_WR_SEND_WITH_IMM, 0);
	check_record(1, WHOLE | SV_DESC_IMM, 10, 0, 0);
	send_key(IBV_WR_SEND_WITH_INV, 20);
	check_record(2, WHOLE | SV_DESC_INV, 10, 20, 20);
	set_request(IBV_WR_RDMA_WRITE_WITH_IMM, 5000);
	wqe->imm = IMM;
	wqe->stage = SV_STAGE_WRITTEN;
	wqe->done = 5000;
	expect(IBV_WC_SUCCESS);
	check_record(3, WHOLE | SV_DESC_IMM | SV_DESC_WRITE, 30, 0, 5000);
	assert_true(shared()->tail == 4 && qp.tx_tail == 4 && wqe->stage == SV_STAGE_PUSHED);
	assert_memory_equal(wire.payload, data, 10);
	assert_memory_equal(wire.payload + 10, data, 20);
	assert_int_equal(wire.payload[30], 0);
}

static void test_pieces(void **state)
{
	uint8_t *in = (uint8_t *)wqe + offsetof(struct sv_wqe, data);

	(void)state;
	send_new(IBV_WR_SEND, SV_PIECE_BYTES);
	check_record(0, WHOLE, 0, SV_PIECE_BYTES, SV_PIECE_BYTES);
	send_new(IBV_WR_SEND, 2 * SV_PIECE_BYTES + 1);
	check_record(1, FIRST, SV_PIECE_BYTES, SV_PIECE_BYTES, 2 * SV_PIECE_BYTES + 1);
	check_record(2, 0, 2 * SV_PIECE_BYTES, SV_PIECE_BYTES, 2 * SV_PIECE_BYTES + 1);
	check_record(3, LAST, 3 * SV_PIECE_BYTES, 1, 2 * SV_PIECE_BYTES + 1);
	assert_memory_equal(wire.payload, data, SV_PIECE_BYTES);
	assert_memory_equal(wire.payload + SV_PIECE_BYTES, data, 2 * SV_PIECE_BYTES + 1);
	set_request(IBV_WR_SEND, 300);
	wqe->flags = IBV_SEND_INLINE;
	for (int i = 0; i < 300; i++)
		in[i] = (uint8_t)(i * 3);
	expect(IBV_WC_SUCCESS);
	assert_memory_equal(wire.payload + 3 * SV_PIECE_BYTES + 1, in, 300);
	assert_int_equal(wire.payload[3 * SV_PIECE_BYTES + 301], 0);
}

/* ---- room ---- */

/* The receiver has taken so many in all. */
static void take(uint32_t n)
{
	shared()->head = n;
	shared()->tx_wait = shared()->attention = 0;
}

/* And one more. */
static void fill_ring(void)
{
	for (uint32_t i = 0; i < SV_DESCS; i++)
		send_new(IBV_WR_SEND, 1);
	set_request(IBV_WR_SEND, 1);
}

static void test_records_full(void **state)
{
	(void)state;
	fill_ring();
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	assert_true(shared()->tx_wait == 1 && told == 1 && told_flags == SV_ATTN_DRAIN);
	assert_true(qp.first_ns == now_ns && wqe->stage == SV_STAGE_CLAIMED);
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	assert_int_equal(told, 1); /* it is asked already */
	shared()->attention = SV_ATTN_FAULT | SV_ATTN_NOTIFY;
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	assert_int_equal(told, 2);
	take(1);
	expect(IBV_WC_SUCCESS);
	assert_true(qp.first_ns == 0 && shared()->tail == SV_DESCS + 1);
	check_record(SV_DESCS, WHOLE, SV_DESCS, 1, 1);
	assert_int_equal(shared()->claimed, SV_DESCS + 1); /* it kept its credit */
}

/* 60 KiB: the fourth piece needs what the first has. */
static void test_bytes_full(void **state)
{
	const uint32_t rest = SV_PAYLOAD_BYTES - 3 * SV_PIECE_BYTES;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		send_new(IBV_WR_SEND, SV_PIECE_BYTES);
	set_request(IBV_WR_SEND, rest + 1);
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	take(1); /* not at the end: what is there is too short */
	expect(IBV_WC_SUCCESS);
	check_record(3, WHOLE, 0, rest + 1, rest + 1);
	set_request(IBV_WR_SEND, SV_PIECE_BYTES - rest);
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	take(2);
	expect(IBV_WC_SUCCESS);
	check_record(4, WHOLE, rest + 1, SV_PIECE_BYTES - rest, SV_PIECE_BYTES - rest);
	set_request(IBV_WR_SEND, SV_PIECE_BYTES);
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	take(5); /* nothing is there any more: it starts over */
	expect(IBV_WC_SUCCESS);
	check_record(5, WHOLE, 0, SV_PIECE_BYTES, SV_PIECE_BYTES);
	for (uint32_t i = 0; i < (SV_PAYLOAD_BYTES - SV_PIECE_BYTES) / 4096; i++)
		send_new(IBV_WR_SEND, 4096);
	set_request(IBV_WR_SEND, 1); /* it is full to the last byte */
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	take(6);
	expect(IBV_WC_SUCCESS);
	check_record(shared()->tail - 1, WHOLE, 0, 1, 1);
}

/* A long one goes on behind what has been taken. */
static void test_long(void **state)
{
	(void)state;
	set_request(IBV_WR_SEND, 70000);
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	assert_true(shared()->tail == 3 && wqe->done == 3 * SV_PIECE_BYTES);
	take(3);
	expect(IBV_WC_SUCCESS);
	check_record(3, 0, 0, SV_PIECE_BYTES, 70000);
	check_record(4, LAST, SV_PIECE_BYTES, 70000 - 4 * SV_PIECE_BYTES, 70000);
	assert_memory_equal(wire.payload, data + 3 * SV_PIECE_BYTES, 70000 - 3 * SV_PIECE_BYTES);
}

/* Taken before the receiver could see that somebody waits. */
static void take_all(void)
{
	shared()->head = qp.tx_tail;
}

static void test_taken_meanwhile(void **state)
{
	(void)state;
	fill_ring();
	at_clock = take_all;
	expect(IBV_WC_SUCCESS);
	assert_true(waits == 0 && told == 0 && shared()->tail == SV_DESCS + 1);
}

static void test_room_budget(void **state)
{
	(void)state;
	qp.attr.rnr_retry = 6;
	fill_ring();
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	now_ns += ROOM_BUDGET;
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	now_ns++;
	expect(IBV_WC_RNR_RETRY_EXC_ERR);
	qp.attr.rnr_retry = 7;
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
}

static void test_bad_counters(void **state)
{
	static const uint32_t heads[] = { 9, 4, UINT32_MAX }; /* of 8, of which 5 were taken */

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		begin(state);
		for (uint32_t n = 0; n < 8; n++)
			send_new(IBV_WR_SEND, 3);
		qp.tx_head = 5;
		take(heads[i]);
		qp.pay_tail += SV_PAYLOAD_BYTES; /* it is full */
		set_request(IBV_WR_SEND, 1);
		expect(IBV_WC_FATAL_ERR);
	}
}

/* ---- until it is taken ---- */

static void set_acked(uint32_t bytes)
{
	ro.rq[RQ].min_len = 99;
	set_request(IBV_WR_SEND, bytes);
}

/* What may be too long for its receive is done when the receiver has it. */
static void test_until_taken(void **state)
{
	(void)state;
	set_acked(99);
	expect(IBV_WC_SUCCESS);
	take(1);
	set_acked(100);
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	assert_true(wqe->stage == SV_STAGE_PUSHED && shared()->tail == 2);
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	assert_int_equal(shared()->tail, 2);
	take(2);
	expect(IBV_WC_SUCCESS);
	set_acked(100);
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	shared()->head = 1;
	expect(IBV_WC_FATAL_ERR);
}

static void test_not_acked(void **state)
{
	(void)state;
	set_acked(100);
	wqe->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wqe->stage = SV_STAGE_WRITTEN;
	expect(IBV_WC_SUCCESS);
	qp.ib.qp_type = IBV_QPT_UC;
	set_acked(100);
	expect(IBV_WC_SUCCESS);
	qp.ib.qp_type = IBV_QPT_RC;
	set_acked(100);
	at_clock = take_all;
	expect(IBV_WC_SUCCESS);
	assert_true(waits == 0 && shared()->tail == 3);
}

static void test_taken_by_whom(void **state)
{
	(void)state;
	set_acked(100);
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	waits = 0;
	ro.qp[INDEX].nak = SV_NAK_LENGTH;
	expect(IBV_WC_REM_INV_REQ_ERR);
	ro.qp[INDEX].nak = SV_NAK_LOCAL;
	expect(IBV_WC_REM_OP_ERR);
	ro.qp[INDEX].gen = GEN + 1; /* it says nothing of this one */
	expect_peer_wait();
	ro.qp[INDEX].gen = GEN;
	peer.state = SV_PEER_GONE;
	expect_peer_wait();
	peer.state = SV_PEER_UP;
	ro.qp[INDEX].nak = SV_NAK_NONE;
	ready = false;
	expect_peer_wait();
	ro.qp[INDEX].gen = 0;
	take(1);
	expect(IBV_WC_SUCCESS); /* it had taken it */
}

/* ---- keys ---- */

static void expect_no_window(uint32_t key, uint32_t fault)
{
	set_request(IBV_WR_SEND_WITH_INV, 1);
	wqe->imm = key;
	told = 0;
	expect(IBV_WC_REM_ACCESS_ERR);
	assert_true(told == 1 && told_flags == SV_ATTN_FAULT && shared()->fault == fault);
	assert_true(shared()->tail == 0 && shared()->claimed == 0);
}

static void test_windows(void **state)
{
	struct sv_ro_mr *window = &ro.mr[sv_key_place(IMM)];

	(void)state;
	window->rkey = IMM;
	window->window = PEER_QPN + 1;
	expect_no_window(IMM, SV_FAULT_ACCESS);
	shared()->fault = SV_FAULT_FATAL;
	window->window = PEER_QPN;
	expect_no_window(IMM + 1, SV_FAULT_FATAL);
	ro.mr[0].window = PEER_QPN;
	expect_no_window(0, SV_FAULT_FATAL);
	ro.mr[0].window = 0;
	send_key(IBV_WR_SEND_WITH_INV, 1);
	set_request(IBV_WR_SEND_WITH_INV, 1); /* claimed before the window ended */
	wqe->stage = SV_STAGE_CLAIMED;
	wqe->imm = 5;
	expect(IBV_WC_SUCCESS);
}

/* ---- who is woken ---- */

static void test_told(void **state)
{
	struct sv_set *set = &tables.rw.cq[CQ].ready;

	(void)state;
	set_request(IBV_WR_SEND, 70000);
	wqe->flags = IBV_SEND_SOLICITED;
	expect_wait(SV_BLOCK_ROOM, ROOM_STEP);
	assert_true(set->top == 1 && set->word[0] == 1ull << INDEX); /* it may begin */
	assert_true(!qp.to_wake && !qp.to_wake_solicited);
	take(3);
	expect(IBV_WC_SUCCESS);
	assert_true(qp.to_wake && qp.to_wake_solicited);
	send_new(IBV_WR_SEND, 1);
	assert_true(qp.to_wake && qp.to_wake_solicited && !notified);
	sv_wake_receiver(&qp);
	assert_true(!qp.to_wake && !qp.to_wake_solicited && !notified);
	send_new(IBV_WR_SEND, 1);
	assert_true(qp.to_wake && !qp.to_wake_solicited);
	qp.to_wake = false;
	ro.qp[INDEX].cq = SV_CQS;
	set->top = 0;
	send_new(IBV_WR_SEND, 1);
	assert_true(!set->top && !qp.to_wake);
}

static void expect_woken(uint32_t armed, bool solicited, bool woken)
{
	tables.rw.cq[CQ].armed = armed;
	tables.rw.cq[CQ].pending = 0;
	notified = 0;
	qp.to_wake = true;
	qp.to_wake_solicited = solicited;
	sv_wake_receiver(&qp);
	assert_true(!qp.to_wake && !qp.to_wake_solicited && notified == woken);
	assert_int_equal(tables.rw.cq[CQ].pending, woken);
	assert_int_equal(tables.rw.cq[CQ].armed & SV_ARMED_MASK, woken ? SV_ARMED_NOT : armed);
}

static void test_woken(void **state)
{
	(void)state;
	expect_woken(SV_ARMED_NOT, true, false);
	expect_woken(SV_ARMED_ANY, false, true);
	expect_woken(SV_ARMED_ANY, true, true);
	expect_woken(SV_ARMED_SOLICITED, false, false);
	expect_woken(SV_ARMED_SOLICITED, true, true);
	ro.qp[INDEX].cq = SV_CQS;
	tables.rw.cq[CQ].armed = tables.behind.armed = SV_ARMED_ANY;
	notified = 0;
	sv_wake_peer(&peer, INDEX, true);
	assert_int_equal(notified, 0);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(refused),	    TEST(not_ready),	 TEST(mapping),	     TEST(claim),
		TEST(claim_given_up), TEST(rnr_times),	 TEST(rnr_tries),    TEST(rnr_for_ever),
		TEST(injected_rnr), TEST(opcodes),	 TEST(pieces),	     TEST(records_full),
		TEST(bytes_full),   TEST(long),		 TEST(taken_meanwhile), TEST(room_budget),
		TEST(bad_counters), TEST(until_taken),	 TEST(not_acked),    TEST(taken_by_whom),
		TEST(windows),	    TEST(told),		 TEST(woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
