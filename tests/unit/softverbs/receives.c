/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receiver of messages, call by call: what it makes of records, what its completions say, whom it
 * wakes, and what becomes of it when a message can't be taken.
 *
 * Which records are believed is in ring.c.
 */
#include "receiver.h"

#define FIRST SV_DESC_FIRST
#define LAST SV_DESC_LAST
#define WHOLE (SV_DESC_FIRST | SV_DESC_LAST)
#define IMM 0x12345678u

static struct sv_wire ring;
static bool ends; /* a window may be ended */

int __wrap_sv_mw_invalidate(uint32_t rkey, uint32_t of, uint32_t qpn);

int __wrap_sv_mw_invalidate(uint32_t rkey, uint32_t of, uint32_t qpn)
{
	assert_true(rkey == IMM && of == OWN_PD && qpn == OWN_QPN);
	return ends ? 0 : EINVAL;
}

static int begin(void **state)
{
	(void)state;
	receiver_begin(IBV_QPT_RC);
	memset(&ring, 0, sizeof(ring));
	for (uint32_t i = 0; i < SV_PAYLOAD_BYTES; i++)
		ring.payload[i] = (uint8_t)(i * 7 + i / 256 + 1);
	qp.rx = &ring;
	ends = true;
	return 0;
}

static void put(uint32_t flags, uint32_t at, uint32_t len, uint32_t total)
{
	struct sv_desc *desc = &ring.desc[atomic_load(&qp.rw->tail) % SV_DESCS];

	atomic_store(&desc->place, at | flags << 16);
	atomic_store(&desc->len, len);
	atomic_store(&desc->total, total);
	atomic_store(&desc->imm, IMM);
	atomic_fetch_add(&qp.rw->tail, 1);
}

static void expect_head(uint32_t head)
{
	assert_true(qp.rx_head == head && atomic_load(&qp.rw->head) == head);
}

/* Nothing of what is there is taken any more. */
static void expect_closed(void)
{
	uint32_t head = qp.rx_head;
	int before = completions;

	assert_int_equal(drain(9, true), 0);
	assert_false(again);
	assert_true(qp.rx_head == head && completions == before && faults == 1);
}

/* ---- messages ---- */

static void expect_message(uint64_t wr_id, enum ibv_wc_opcode opcode, uint32_t bytes, unsigned int flags)
{
	const struct ibv_wc *wc = &wcs[completions - 1];

	assert_true(wc->wr_id == wr_id && wc->status == IBV_WC_SUCCESS && wc->opcode == opcode);
	assert_true(wc->byte_len == bytes && wc->qp_num == SHOWN_QPN && wc->src_qp == PEER_QPN);
	assert_true(wc->wc_flags == flags && wc->imm_data == (flags ? IMM : 0));
}

static void test_whole(void **state)
{
	(void)state;
	put(WHOLE, 100, 64, 64);
	assert_int_equal(drain(9, true), 1);
	assert_true(!again && completions == 1 && received() == 1);
	expect_message(1, IBV_WC_RECV, 64, 0);
	assert_memory_equal(mem, ring.payload + 100, 64);
	assert_int_equal(mem[64], 0);
	expect_head(1);
	put(WHOLE | SV_DESC_IMM, 0, 0, 0);
	assert_int_equal(drain(9, true), 1);
	expect_message(2, IBV_WC_RECV, 0, IBV_WC_WITH_IMM);
	put(WHOLE | SV_DESC_IMM | SV_DESC_WRITE, 0, 0, SV_MAX_MSG_BYTES); /* not into the receive */
	valid = false;
	assert_int_equal(drain(9, true), 1);
	expect_message(3, IBV_WC_RECV_RDMA_WITH_IMM, SV_MAX_MSG_BYTES, IBV_WC_WITH_IMM);
	assert_true(completions == 3 && received() == 3 && faults == 0 && notices == 0);
	expect_head(3);
}

/* As long as the receive, piece by piece; twice, since all of the first has to be over. */
static void test_pieces(void **state)
{
	(void)state;
	receive_bytes = 30000;
	for (uint32_t n = 1; n <= 2; n++) {
		memset(mem, 0, sizeof(mem));
		put(FIRST, 7, SV_PIECE_BYTES, 30000);
		assert_int_equal(drain(1, true), 0);
		assert_true(!again && completions == (int)n - 1 && received() == n);
		put(LAST, 20000, 30000 - SV_PIECE_BYTES, 30000);
		assert_int_equal(drain(1, true), 1);
		assert_true(!again && completions == (int)n && received() == n);
		expect_message(n, IBV_WC_RECV, 30000, 0);
		assert_memory_equal(mem, ring.payload + 7, SV_PIECE_BYTES);
		assert_memory_equal(mem + SV_PIECE_BYTES, ring.payload + 20000, 30000 - SV_PIECE_BYTES);
		assert_int_equal(mem[30000], 0);
		expect_head(2 * n);
	}
}

/* A piece that is no message yet doesn't count against how many are wanted. */
static void test_max(void **state)
{
	(void)state;
	put(WHOLE, 0, 8, 8);
	put(FIRST, 0, 8, 16);
	put(LAST, 8, 8, 16);
	put(FIRST, 0, 8, 16);
	put(LAST, 8, 8, 16);
	assert_int_equal(drain(2, false), 2);
	assert_true(again && completions == 2);
	expect_head(3);
	assert_int_equal(drain(2, true), 1);
	assert_true(!again && completions == 3);
	expect_head(5);
	assert_int_equal(drain(2, true), 0);
	assert_true(!again && completions == 3 && faults == 0);
}

/* Around the ring, where its numbers begin again. */
static void test_around(void **state)
{
	(void)state;
	qp.rx_head = UINT32_MAX - 1;
	atomic_store(&qp.rw->tail, UINT32_MAX - 1);
	receives = SV_DESCS;
	for (uint32_t i = 0; i < SV_DESCS; i++)
		put(WHOLE, i, 1, 1);
	for (uint32_t i = 0; i < SV_DESCS; i++) {
		assert_int_equal(drain(1, false), 1);
		assert_int_equal(again, i + 1 < SV_DESCS);
		assert_int_equal(mem[0], ring.payload[i]);
		completions = 0;
	}
	expect_head(SV_DESCS - 2);
	assert_int_equal(faults, 0);
}

static void test_window(void **state)
{
	(void)state;
	put(WHOLE | SV_DESC_INV, 0, 8, 8);
	assert_int_equal(drain(9, true), 1);
	assert_true(wcs[0].wc_flags == IBV_WC_WITH_INV && wcs[0].invalidated_rkey == IMM);
	assert_int_equal(faults, 0);
	put(WHOLE | SV_DESC_INV, 0, 8, 8);
	ends = false;
	assert_int_equal(drain(9, true), 0);
	assert_int_equal(completions, 1);
	expect_failed(SV_FAULT_FATAL);
	assert_int_equal(atomic_load(&qp.ro->nak), SV_NAK_LOCAL);
	expect_closed();
}

/* ---- messages that can't be taken ---- */

/* Behind one that could; the program is told by the receive's completion. */
static void check_unusable(uint32_t bytes, bool rights, enum ibv_wc_status status, uint32_t nak)
{
	put(WHOLE, 0, 0, 0);
	assert_int_equal(drain(9, true), 1);
	valid = rights;
	put(WHOLE, 0, bytes, bytes);
	put(WHOLE, 0, 0, 0);
	assert_int_equal(drain(9, true), 1);
	assert_true(completions == 2 && received() == 2);
	assert_true(wcs[1].wr_id == 2 && wcs[1].status == status && wcs[1].opcode == IBV_WC_RECV);
	assert_int_equal(mem[0], 0);
	assert_int_equal(atomic_load(&qp.ro->nak), nak);
	expect_failed(SV_FAULT_QUIET);
	assert_int_equal(notices, 1);
	expect_closed();
}

static void test_too_long(void **state)
{
	(void)state;
	check_unusable(5001, true, IBV_WC_LOC_LEN_ERR, SV_NAK_LENGTH);
}

static void test_no_rights(void **state)
{
	(void)state;
	check_unusable(5000, false, IBV_WC_LOC_PROT_ERR, SV_NAK_LOCAL);
}

/* One that could be taken was at the same call. */
static void test_too_long_behind(void **state)
{
	(void)state;
	put(WHOLE, 0, 8, 8);
	put(WHOLE, 0, 5001, 5001);
	assert_int_equal(drain(9, true), 2);
	assert_int_equal(completions, 2);
	expect_failed(SV_FAULT_QUIET);
}

static void expect_fatal(int done)
{
	assert_int_equal(completions, done);
	assert_int_equal(atomic_load(&qp.ro->nak), SV_NAK_LOCAL);
	expect_failed(SV_FAULT_FATAL);
	assert_int_equal(notices, 1);
	expect_closed();
}

static void test_no_receive(void **state)
{
	(void)state;
	receives = 0;
	put(WHOLE, 0, 8, 8);
	assert_int_equal(drain(9, true), 0);
	assert_int_equal(received(), 0);
	expect_fatal(0);
}

static void test_no_room(void **state)
{
	(void)state;
	room = 1;
	put(WHOLE, 0, 8, 8);
	put(WHOLE, 0, 8, 8);
	assert_int_equal(drain(9, true), 1);
	assert_int_equal(received(), 2);
	expect_fatal(1);
}

static void test_no_sense(void **state)
{
	(void)state;
	put(LAST, 0, 8, 8);
	assert_int_equal(drain(9, true), 0);
	assert_int_equal(received(), 0);
	expect_fatal(0);
}

static void test_tail(void **state)
{
	(void)state;
	for (uint32_t i = 0; i <= SV_DESCS; i++)
		put(WHOLE, 0, 0, 0);
	assert_int_equal(drain(9, true), 0);
	assert_false(again);
	expect_fatal(0);
}

/* ---- whom it wakes ---- */

/* Its sender, if that waits for room. */
static void test_room(void **state)
{
	(void)state;
	put(WHOLE, 0, 8, 8);
	assert_int_equal(drain(9, true), 1);
	assert_int_equal(notices, 0);
	atomic_store(&qp.rw->tx_wait, 1);
	put(WHOLE, 0, 8, 8);
	assert_int_equal(drain(9, true), 1);
	assert_true(notices == 1 && !atomic_load(&qp.rw->tx_wait));
	put(WHOLE, 0, 8, 8);
	assert_int_equal(drain(9, true), 1);
	assert_int_equal(notices, 1);
}

static void test_sender_gone(void **state)
{
	(void)state;
	peer.state = SV_PEER_GONE;
	for (int i = 0; i < 2; i++) {
		atomic_store(&qp.rw->tx_wait, 1);
		put(WHOLE, 0, 8, 8);
		assert_int_equal(drain(9, true), 1);
		qp.peer = NULL;
	}
	assert_int_equal(notices, 0);
}

/* A failure is its sender's, too, if it is there. */
static void test_failure_unheard(void **state)
{
	(void)state;
	peer.state = SV_PEER_GONE;
	put(LAST, 0, 8, 8);
	assert_int_equal(drain(9, true), 0);
	assert_int_equal(faults, 1);
	qp.rx_closed = false;
	qp.peer = NULL;
	assert_int_equal(drain(9, true), 0);
	assert_int_equal(faults, 2);
	assert_int_equal(notices, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_whole, begin),
		cmocka_unit_test_setup(test_pieces, begin),
		cmocka_unit_test_setup(test_max, begin),
		cmocka_unit_test_setup(test_around, begin),
		cmocka_unit_test_setup(test_window, begin),
		cmocka_unit_test_setup(test_too_long, begin),
		cmocka_unit_test_setup(test_no_rights, begin),
		cmocka_unit_test_setup(test_too_long_behind, begin),
		cmocka_unit_test_setup(test_no_receive, begin),
		cmocka_unit_test_setup(test_no_room, begin),
		cmocka_unit_test_setup(test_no_sense, begin),
		cmocka_unit_test_setup(test_tail, begin),
		cmocka_unit_test_setup(test_room, begin),
		cmocka_unit_test_setup(test_sender_gone, begin),
		cmocka_unit_test_setup(test_failure_unheard, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
