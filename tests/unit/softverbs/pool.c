/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair's pool of datagrams is memory that anybody writes: which of them are taken from it,
 * what is free afterwards, and what a sender that died has left there.
 */
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/object/qp.h"
#include "tests/unit/softverbs/ud.h"

#define OWNER (77ull << 24 | 5)
#define SOURCE 0x123456u

/* The queue pair's own if 0. */
struct forged {
	uint32_t at, len, gen, qkey, ticket, dgid;
};

static struct sv_pool *pool_of(struct end *e)
{
	return sv_qp_of(e->qp)->pool;
}

static uint32_t heads(struct end *e)
{
	return atomic_load(&sv_qp_of(e->qp)->rw->head);
}

static void put(struct end *e, const struct forged *f)
{
	struct sv_dgram *dgram = &pool_of(e)->dgram[f->at];
	uint32_t gen = atomic_load(&sv_qp_of(e->qp)->ro->gen);

	atomic_store(&dgram->gen, f->gen ? f->gen : gen);
	atomic_store(&dgram->len, f->len);
	atomic_store(&dgram->src_qpn, SOURCE);
	atomic_store(&dgram->qkey, f->qkey ? f->qkey : QKEY);
	atomic_store(&dgram->imm, 99);
	atomic_store(&dgram->flags, SV_DGRAM_IMM);
	atomic_store(&dgram->ticket, f->ticket);
	atomic_store(&dgram->dgid[0], f->dgid);
	atomic_store(&dgram->dgid[1], 0);
	atomic_fetch_or(&pool_of(e)->full, 1ull << f->at);
	sv_set_add(&sv_proc->rw->cq[sv_cq_of(e->rcq)->index].ready, sv_qp_of(e->qp)->index);
}

static void own_all(struct end *e)
{
	for (uint32_t i = 0; i < SV_CHUNKS; i++)
		atomic_store(&pool_of(e)->owner[i], OWNER);
}

/* These chunks are free, and no others. */
static void check_free(struct end *e, uint32_t at, uint32_t n)
{
	for (uint32_t i = 0; i < SV_CHUNKS; i++)
		CHECK(atomic_load(&pool_of(e)->owner[i]) == (i - at < n ? 0 : OWNER));
}

static uint32_t bad_qkeys(void)
{
	return atomic_load(&sv_proc->bad_qkeys);
}

/* ---- which are taken ---- */

static void check_taken(struct end *e, const struct forged *f)
{
	uint8_t *mem = e->mem, payload = (uint8_t)(f->at + 1);
	struct ibv_wc wc;

	memset(mem, 0, SLOT_BYTES);
	memset(pool_of(e)->payload + f->at * SV_CHUNK_BYTES, payload, f->len);
	own_all(e);
	post_recv(e, 0, GRH + f->len);
	put(e, f);
	CHECK(ibv_poll_cq(e->rcq, 1, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == 0);
	CHECK(wc.byte_len == GRH + f->len && wc.src_qp == SOURCE && wc.qp_num == e->qp->qp_num);
	CHECK(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && wc.imm_data == 99);
	for (uint32_t b = 0; b < f->len; b++)
		CHECK(mem[GRH + b] == payload);
	CHECK(mem[GRH + f->len] == 0);
	check_free(e, f->at, f->len ? (f->len + SV_CHUNK_BYTES - 1) / SV_CHUNK_BYTES : 1);
}

static void taken(int sock)
{
	static const struct forged cases[] = {
		{ .at = 0, .len = 0 },
		{ .at = 3, .len = 1 },
		{ .at = 7, .len = SV_CHUNK_BYTES },
		{ .at = 8, .len = SV_CHUNK_BYTES + 1 },
		{ .at = SV_CHUNKS - 1, .len = SV_CHUNK_BYTES },
		{ .at = SV_CHUNKS - 4, .len = SV_DGRAM_BYTES },
	};
	struct end e;

	(void)sock;
	open_end(&e);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		check_taken(&e, &cases[i]);
		CHECK(heads(&e) == i + 1);
	}
	CHECK(!sv_dropped(e.qp) && !bad_qkeys());
	close_end(&e);
}

/* One behind it is there at the same poll, and has the receive. */
static void check_passed(struct end *e, const struct forged *f, uint32_t nfree)
{
	struct ibv_wc wc;

	own_all(e);
	put(e, f);
	CHECK(ibv_poll_cq(e->rcq, 1, &wc) == 0);
	check_free(e, f->at, nfree);
	put(e, f);
	put(e, &(struct forged){ .at = 30, .len = 8, .ticket = f->ticket + 1 });
	CHECK(ibv_poll_cq(e->rcq, 1, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == GRH + 8);
	CHECK(atomic_load(&pool_of(e)->full) == 0);
}

static void passed(int sock)
{
	static const struct {
		struct forged forged;
		uint32_t nfree, counted; /* as one that was taken */
	} cases[] = {
		{ { .at = 2, .len = SV_DGRAM_BYTES + 1 }, 1, 0 },
		{ { .at = 3, .len = UINT32_MAX }, 1, 0 },
		{ { .at = SV_CHUNKS - 3, .len = SV_DGRAM_BYTES }, 3, 0 },
		{ { .at = 4, .len = 8, .gen = UINT32_MAX }, 1, 0 },
		{ { .at = 5, .len = SV_DGRAM_BYTES, .gen = UINT32_MAX }, 4, 0 },
		{ { .at = 6, .len = SV_CHUNK_BYTES + 1, .qkey = QKEY + 1 }, 2, 1 },
		{ { .at = 9, .len = 8, .dgid = 0xff }, 1, 1 }, /* a group's */
	};
	uint32_t head = 0;
	struct end e;

	(void)sock;
	open_end(&e);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		post_recv(&e, 0, GRH + 8);
		check_passed(&e, &cases[i].forged, cases[i].nfree);
		head += 1 + 2 * cases[i].counted;
		CHECK(heads(&e) == head);
	}
	CHECK(bad_qkeys() == 2 && !sv_dropped(e.qp));
	close_end(&e);
}

static void test_records(void **state)
{
	(void)state;
	kit_run(taken, passed);
}

/* The lowest ticket first, also where the number begins again; bits that no chunk has say nothing. */
static void in_order(int sock)
{
	static const struct forged forged[] = {
		{ .at = 3, .len = 1, .ticket = 0 },
		{ .at = 5, .len = 2, .ticket = 1 },
		{ .at = 9, .len = 3, .ticket = UINT32_MAX },
		{ .at = 50, .len = 4, .ticket = UINT32_MAX - 1 },
	};
	static const uint32_t lens[] = { 4, 3, 1, 2 };
	struct ibv_wc wc[4];
	struct end e;

	(void)sock;
	open_end(&e);
	atomic_store(&pool_of(&e)->full, ~((1ull << SV_CHUNKS) - 1));
	for (uint32_t i = 0; i < 4; i++) {
		post_recv(&e, i, SLOT_BYTES);
		put(&e, &forged[i]);
	}
	CHECK(ibv_poll_cq(e.rcq, 4, wc) == 4);
	for (uint32_t i = 0; i < 4; i++)
		CHECK(wc[i].wr_id == i && wc[i].byte_len == GRH + lens[i]);
	CHECK(ibv_poll_cq(e.rcq, 4, wc) == 0);
	CHECK(atomic_load(&pool_of(&e)->full) == ~((1ull << SV_CHUNKS) - 1));
	close_end(&e);
}

static void without_receive(int sock)
{
	struct ibv_wc wc;
	struct end e;

	(void)sock;
	open_end(&e);
	own_all(&e);
	put(&e, &(struct forged){ .at = 1, .len = SV_CHUNK_BYTES });
	put(&e, &(struct forged){ .at = 2, .len = 8, .ticket = 1 });
	CHECK(ibv_poll_cq(e.rcq, 1, &wc) == 0);
	CHECK(sv_dropped(e.qp) == 2 && heads(&e) == 2);
	check_free(&e, 1, 2);
	close_end(&e);
}

static void test_turns(void **state)
{
	(void)state;
	kit_run(in_order, without_receive);
}

/* ---- receives that can't be used ---- */

static void check_failed(struct end *e, enum ibv_wc_status status)
{
	kit_expect(e->rcq, 1, status);
	kit_expect(e->rcq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK(kit_state(e->qp) == IBV_QPS_ERR);
	CHECK(poll(&(struct pollfd){ .fd = e->ctx->async_fd, .events = POLLIN }, 1, 0) == 0);
}

/* Too short by a byte; in a region that isn't registered any more. */
static void unusable(int sock)
{
	struct ibv_mr *mr, *first;
	struct end e;

	(void)sock;
	open_end(&e);
	post_recv(&e, 1, GRH + 8);
	post_recv(&e, 2, GRH + 8);
	put(&e, &(struct forged){ .at = 1, .len = 9 });
	check_failed(&e, IBV_WC_LOC_LEN_ERR);
	CHECK(e.mem[SLOT_BYTES + GRH] == 0);
	close_end(&e);

	open_end(&e);
	first = e.mr;
	CHECK((mr = sv_reg_mr(e.pd, e.mem, SLOT_BYTES * 4, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	e.mr = mr;
	post_recv(&e, 1, GRH + 8);
	e.mr = first;
	post_recv(&e, 2, GRH + 8);
	CHECK(!sv_dereg_mr(mr));
	put(&e, &(struct forged){ .at = 1, .len = 8 });
	check_failed(&e, IBV_WC_LOC_PROT_ERR);
	close_end(&e);
}

/* Taken by the control thread, for which the queue has no room. */
static void overrun(int sock)
{
	struct kit k = { 0 }; /* for its events */
	bool fatal = false, full = false;
	struct ibv_cq *other;
	struct end e;

	(void)sock;
	open_end(&e);
	CHECK(!sv_destroy_qp(e.qp));
	other = e.rcq;
	CHECK((e.rcq = sv_create_cq(e.ctx, 4, NULL, NULL, 0)) != NULL);
	e.qp = new_qp(&e);
	for (uint32_t i = 0; i < 40; i++) {
		post_recv(&e, i, SLOT_BYTES);
		atomic_store(&pool_of(&e)->dgram[i].gen, atomic_load(&sv_qp_of(e.qp)->ro->gen));
		atomic_store(&pool_of(&e)->dgram[i].qkey, QKEY);
		atomic_store(&pool_of(&e)->dgram[i].ticket, i);
	}
	atomic_store(&pool_of(&e)->full, (1ull << 40) - 1);
	sv_attention(sv_qp_of(e.qp)->index, SV_ATTN_DRAIN);
	k.ctx = e.ctx;
	for (int i = 0; i < 2; i++) {
		enum ibv_event_type type = kit_async(&k);

		fatal |= type == IBV_EVENT_QP_FATAL;
		full |= type == IBV_EVENT_CQ_ERR;
	}
	CHECK(fatal && full && kit_state(e.qp) == IBV_QPS_ERR);
	for (int i = 0; i < e.rcq->cqe; i++)
		kit_expect(e.rcq, (uint64_t)i, IBV_WC_SUCCESS);
	CHECK(!sv_destroy_cq(other));
	close_end(&e);
}

static void test_failures(void **state)
{
	(void)state;
	kit_run(unusable, overrun);
}

/* ---- senders that are gone ---- */

static void set_owner(struct end *e, uint32_t at, uint32_t n, uint64_t owner)
{
	for (uint32_t i = 0; i < n; i++)
		atomic_store(&pool_of(e)->owner[at + i], owner);
}

static void check_owner(struct end *e, uint32_t at, uint32_t n, uint64_t owner)
{
	for (uint32_t i = 0; i < n; i++)
		CHECK(atomic_load(&pool_of(e)->owner[at + i]) == owner);
}

static void fill_chunk(struct end *e, uint32_t at, uint32_t len)
{
	atomic_store(&pool_of(e)->dgram[at].len, len);
	atomic_fetch_or(&pool_of(e)->full, 1ull << at);
}

/* What it took and did not fill is free; its datagrams stay, as do the chunks of others. */
static void of_the_gone(int sock)
{
	const uint64_t gone = 0x99ull << 24 | SOURCE, other = 0x98ull << 24 | SOURCE;
	struct end e;

	(void)sock;
	open_end(&e);
	set_owner(&e, 0, SV_CHUNKS, gone);
	set_owner(&e, 5, 3, other);
	set_owner(&e, 8, 1, 0);
	fill_chunk(&e, 10, 2 * SV_CHUNK_BYTES);
	fill_chunk(&e, 20, UINT32_MAX);
	fill_chunk(&e, 30, 0);
	fill_chunk(&e, SV_CHUNKS - 1, SV_DGRAM_BYTES);
	atomic_fetch_or(&pool_of(&e)->full, ~((1ull << SV_CHUNKS) - 1));
	sv_dgram_sender_gone(1ull << 39 | 0x99);
	check_owner(&e, 0, 5, gone);
	sv_dgram_sender_gone(1ull << 40 | 0x99); /* owners have 40 bits of it */
	check_owner(&e, 0, 5, 0);
	check_owner(&e, 5, 3, other);
	check_owner(&e, 8, 2, 0);
	check_owner(&e, 10, 2, gone);
	check_owner(&e, 12, 8, 0);
	check_owner(&e, 20, 4, gone);
	check_owner(&e, 24, 6, 0);
	check_owner(&e, 30, 1, gone);
	check_owner(&e, 31, SV_CHUNKS - 32, 0);
	check_owner(&e, SV_CHUNKS - 1, 1, gone);
	close_end(&e);
}

static void test_gone(void **state)
{
	(void)state;
	kit_run(of_the_gone, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),	 cmocka_unit_test(test_turns),
		cmocka_unit_test(test_failures), cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
