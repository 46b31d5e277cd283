/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair's ring is memory that peers write: which records are taken from it, what becomes of
 * a queue pair whose records or counters make no sense, and how long a sender waits for room.
 */
#include "kit.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/qp.h"

#define RECV_BYTES 20000u
#define FIRST SV_DESC_FIRST
#define LAST SV_DESC_LAST
#define WHOLE (SV_DESC_FIRST | SV_DESC_LAST)
#define IMM 0x12345678u

struct piece {
	uint32_t flags, at, len, total;
};

static struct sv_rw_qp *shared(struct kit *k)
{
	return sv_qp_of(k->qp)->rw;
}

/* As a peer that writes whatever it likes. */
static void put(struct kit *k, const struct piece *piece, uint32_t imm)
{
	uint32_t tail = atomic_load(&shared(k)->tail);
	struct sv_desc *desc = &sv_qp_of(k->qp)->rx->desc[tail % SV_DESCS];

	atomic_store(&desc->place, piece->at | piece->flags << 16);
	atomic_store(&desc->len, piece->len);
	atomic_store(&desc->total, piece->total);
	atomic_store(&desc->imm, imm);
	atomic_store(&shared(k)->tail, tail + 1);
}

static void tell(struct kit *k)
{
	sv_set_add(&sv_proc->rw->cq[sv_cq_of(k->rcq)->index].ready, sv_qp_of(k->qp)->index);
}

static void open_ring(struct kit *k, uint32_t receives)
{
	struct kit_opts opts = kit_defaults;

	opts.send_wr = opts.recv_wr = 400;
	opts.cqe = 1024;
	opts.rnr_retry = 3;
	kit_open_self(k, &opts);
	for (uint32_t i = 1; i <= receives; i++)
		CHECK(!kit_post_recv(k, 0, RECV_BYTES, i));
}

/* ---- records ---- */

static void expect_refused(struct kit *k, uint32_t receives)
{
	struct ibv_wc wc;

	for (uint32_t i = 1; i <= receives; i++)
		kit_expect(k->rcq, i, IBV_WC_WR_FLUSH_ERR);
	CHECK(kit_async(k) == IBV_EVENT_QP_FATAL);
	CHECK(kit_state(k->qp) == IBV_QPS_ERR);
	CHECK(atomic_load(&sv_qp_of(k->qp)->ro->nak) == SV_NAK_LOCAL);
	CHECK(!ibv_poll_cq(k->rcq, 1, &wc));
}

static void expect_taken(struct kit *k, const struct piece *piece)
{
	struct ibv_wc wc = kit_wait(k->rcq);
	bool write = piece->flags & SV_DESC_WRITE;

	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 1 && wc.byte_len == piece->total);
	CHECK(wc.opcode == (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
	CHECK(wc.wc_flags == (piece->flags & SV_DESC_IMM ? IBV_WC_WITH_IMM : 0));
	CHECK(!(piece->flags & SV_DESC_IMM) || wc.imm_data == IMM);
	CHECK(wc.qp_num == k->qp->qp_num && wc.src_qp == k->qp->qp_num);
	CHECK(kit_state(k->qp) == IBV_QPS_RTS);
	CHECK(!ibv_poll_cq(k->rcq, 1, &wc));
}

static void taken(int sock)
{
	static const struct piece cases[][2] = {
		{ { WHOLE, 0, 0, 0 } },
		{ { WHOLE | SV_DESC_IMM, 0, 8, 8 } },
		{ { WHOLE, 0, SV_PIECE_BYTES, SV_PIECE_BYTES } },
		{ { WHOLE, SV_PAYLOAD_BYTES - 8, 8, 8 } },
		{ { WHOLE | SV_DESC_WRITE | SV_DESC_IMM, 0, 0, 50 } },
		{ { FIRST, 0, 8, 9 }, { LAST, 100, 1, 9 } },
		{ { FIRST, 0, 0, 9 }, { LAST, 100, 9, 9 } },
	};
	struct kit k;

	(void)sock;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct piece *first = &cases[i][0], *second = &cases[i][1];

		open_ring(&k, 2);
		memset(sv_qp_of(k.qp)->rx->payload, 0x5a, SV_PAYLOAD_BYTES);
		put(&k, first, IMM);
		if (second->flags)
			put(&k, second, IMM);
		tell(&k);
		expect_taken(&k, second->flags ? second : first);
		for (uint32_t b = 0; b < first->len + second->len; b++)
			CHECK(k.mem[b] == 0x5a);
		CHECK(k.mem[first->len + second->len] == 0);
		CHECK(atomic_load(&shared(&k)->head) == (second->flags ? 2 : 1));
		kit_close(&k);
	}
}

static void refused(int sock)
{
	static const struct piece cases[][2] = {
		/* Longer than pieces are, beyond the ring, longer than messages are. */
		{ { WHOLE, 0, SV_PIECE_BYTES + 1, SV_PIECE_BYTES + 1 } },
		{ { WHOLE, SV_PAYLOAD_BYTES - 7, 8, 8 } },
		{ { FIRST, 0, SV_PIECE_BYTES, SV_MAX_MSG_BYTES + 1 } },
		/* The second where there is no first, a first where there is one. */
		{ { LAST, 0, 8, 8 } },
		{ { FIRST, 0, 8, 16 }, { WHOLE, 0, 8, 8 } },
		/* Not the last although all is there, the last although it isn't, too much. */
		{ { FIRST, 0, 8, 8 } },
		{ { WHOLE, 0, 7, 8 } },
		{ { WHOLE, 0, 9, 8 } },
		{ { FIRST, 0, 8, 16 }, { LAST, 0, 7, 16 } },
		{ { FIRST, 0, 8, 16 }, { LAST, 0, 9, 16 } },
		{ { FIRST, 0, 8, 16 }, { 0x20, 0, 8, 16 } },
		/* The message has another length now. */
		{ { FIRST, 0, 8, 16 }, { LAST, 0, 9, 17 } },
		/* What is written has one record, without bytes. */
		{ { FIRST | SV_DESC_WRITE, 0, 0, 8 } },
		{ { WHOLE | SV_DESC_WRITE, 0, 8, 8 } },
		{ { FIRST, 0, 8, 16 }, { LAST | SV_DESC_WRITE, 0, 0, 16 } },
		/* The key of no window. */
		{ { WHOLE | SV_DESC_INV, 0, 8, 8 } },
	};
	struct kit k;

	(void)sock;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_ring(&k, 2);
		put(&k, &cases[i][0], IMM);
		if (cases[i][1].flags)
			put(&k, &cases[i][1], IMM);
		tell(&k);
		expect_refused(&k, 2);
		kit_close(&k);
	}
}

static void test_records(void **state)
{
	(void)state;
	kit_run(taken, refused);
}

/* As long as messages may be, but not as the receive: its program's fault, of which it is told by
 * a completion and by no event. */
static void too_long(int sock)
{
	const struct piece piece = { FIRST, 0, SV_PIECE_BYTES, SV_MAX_MSG_BYTES };
	struct kit k;

	(void)sock;
	open_ring(&k, 2);
	put(&k, &piece, 0);
	tell(&k);
	kit_expect(k.rcq, 1, IBV_WC_LOC_LEN_ERR);
	kit_expect(k.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK(atomic_load(&sv_qp_of(k.qp)->ro->nak) == SV_NAK_LENGTH);
	CHECK(poll(&(struct pollfd){ .fd = k.ctx->async_fd, .events = POLLIN }, 1, 0) == 0);
	CHECK(k.mem[0] == 0);
	kit_close(&k);
}

static void without_receive(int sock)
{
	const struct piece piece = { WHOLE, 0, 8, 8 };
	struct kit k;

	(void)sock;
	open_ring(&k, 0);
	put(&k, &piece, 0);
	tell(&k);
	for (struct ibv_wc wc; kit_state(k.qp) != IBV_QPS_ERR;)
		CHECK(!ibv_poll_cq(k.rcq, 1, &wc));
	expect_refused(&k, 0);
	kit_close(&k);
}

static void test_receives(void **state)
{
	(void)state;
	kit_run(too_long, without_receive);
}

/* The tail may be as far ahead as there are records. */
static void tails(int sock)
{
	const struct piece piece = { WHOLE, 0, 0, 0 };
	struct kit k;

	(void)sock;
	open_ring(&k, 300);
	for (uint32_t i = 0; i < SV_DESCS; i++)
		put(&k, &piece, 0);
	tell(&k);
	for (uint32_t i = 1; i <= SV_DESCS; i++)
		kit_expect(k.rcq, i, IBV_WC_SUCCESS);
	kit_close(&k);

	open_ring(&k, 300);
	for (uint32_t i = 0; i <= SV_DESCS; i++)
		put(&k, &piece, 0);
	tell(&k);
	expect_refused(&k, 300);
	kit_close(&k);
}

/* Taken by the control thread, for which the queue has no room. */
static void overrun(int sock)
{
	const struct piece piece = { WHOLE, 0, 0, 0 };
	struct kit_opts opts = kit_defaults;
	bool fatal = false, full = false;
	struct ibv_wc wc;
	struct kit k;

	(void)sock;
	opts.cqe = 4;
	kit_open_self(&k, &opts);
	for (uint32_t i = 0; i < 64; i++)
		CHECK(!kit_post_recv(&k, 0, 8, i));
	for (uint32_t i = 0; i < 64; i++)
		put(&k, &piece, 0);
	sv_attention(sv_qp_of(k.qp)->index, SV_ATTN_DRAIN);
	for (int i = 0; i < 2; i++) {
		enum ibv_event_type type = kit_async(&k);

		fatal |= type == IBV_EVENT_QP_FATAL;
		full |= type == IBV_EVENT_CQ_ERR;
	}
	CHECK(fatal && full);
	kit_wait_state(k.qp, IBV_QPS_ERR);
	for (int i = 0; i < k.rcq->cqe; i++)
		kit_expect(k.rcq, (uint64_t)i, IBV_WC_SUCCESS);
	CHECK(ibv_poll_cq(k.rcq, 1, &wc) == -EIO);
	kit_close(&k);
}

static void test_too_many(void **state)
{
	(void)state;
	kit_run(tails, overrun);
}

/* ---- what the sender is told ---- */

static void send_some(struct kit *k, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		CHECK(!kit_post(k, IBV_WR_SEND, 4096, 8, 0, 7, IBV_SEND_SIGNALED));
		kit_expect(k->scq, 7, IBV_WC_SUCCESS);
	}
}

static void send_one_more(struct kit *k, enum ibv_wc_status status)
{
	CHECK(!kit_post(k, IBV_WR_SEND, 4096, 8, 0, 8, IBV_SEND_SIGNALED));
	kit_expect(k->scq, 8, status);
	CHECK(kit_state(k->qp) == (status ? IBV_QPS_ERR : IBV_QPS_RTS));
}

/* The receiver can't have taken what was not sent, nor give back what it took. */
static void heads(int sock)
{
	struct kit k;

	(void)sock;
	open_ring(&k, 300);
	send_some(&k, SV_DESCS);
	atomic_store(&shared(&k)->head, SV_DESCS + 1);
	send_one_more(&k, IBV_WC_FATAL_ERR);
	kit_close(&k);

	open_ring(&k, 300);
	send_some(&k, SV_DESCS);
	for (uint32_t i = 1; i <= 10; i++)
		kit_expect(k.rcq, i, IBV_WC_SUCCESS);
	CHECK(atomic_load(&shared(&k)->head) == 10);
	send_some(&k, 10);
	atomic_store(&shared(&k)->head, 9);
	send_one_more(&k, IBV_WC_FATAL_ERR);
	kit_close(&k);

	open_ring(&k, 300);
	send_some(&k, SV_DESCS);
	atomic_store(&shared(&k)->head, 1);
	send_one_more(&k, IBV_WC_SUCCESS);
	kit_close(&k);
}

/* The same of a message that is done when it was taken. */
static void head_of_acked(int sock)
{
	struct kit k;

	(void)sock;
	open_ring(&k, 0);
	CHECK(!kit_post_recv(&k, 0, 128, 1) && !kit_post_recv(&k, 0, 64, 2));
	atomic_store(&shared(&k)->head, 5);
	CHECK(!kit_post(&k, IBV_WR_SEND, 4096, 100, 0, 8, IBV_SEND_SIGNALED));
	kit_expect(k.scq, 8, IBV_WC_FATAL_ERR);
	kit_close(&k);
}

static void test_heads(void **state)
{
	(void)state;
	kit_run(heads, head_of_acked);
}

/* Who has waited that long already finds no room. */
static void waited(uint8_t rnr_retry, uint64_t waited_ms, enum ibv_wc_status status)
{
	struct kit k;

	open_ring(&k, 300);
	sv_qp_of(k.qp)->attr.rnr_retry = rnr_retry;
	send_some(&k, SV_DESCS);
	sv_qp_of(k.qp)->first_ns = kit_now_ns() - waited_ms * 1000000;
	send_one_more(&k, status);
	kit_close(&k);
}

/* A receiver that takes nothing is given up after five seconds, by those who don't wait for ever. */
static void patience(int sock)
{
	(void)sock;
	waited(3, 5001, IBV_WC_RNR_RETRY_EXC_ERR);
	waited(0, 5001, IBV_WC_RNR_RETRY_EXC_ERR);
	waited(3, 3000, IBV_WC_SUCCESS);
	waited(7, 60000, IBV_WC_SUCCESS);
}

static void test_patience(void **state)
{
	(void)state;
	kit_run(patience, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),	 cmocka_unit_test(test_receives),
		cmocka_unit_test(test_too_many), cmocka_unit_test(test_heads),
		cmocka_unit_test(test_patience),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
