/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receiver of datagrams, call by call: which of them is next, what stands in a receive and in its
 * completion, which chunks are free afterwards, and what a sender that is gone leaves.
 *
 * Which records are believed is in pool.c.
 */
#include <arpa/inet.h>
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/object/group.h" /* its parameters have names of receiver.h */
#include "receiver.h"

#define QKEY 0x11223344u
#define GEN 0x4711u
#define GRH 40u
#define SOURCE 0x123456u
#define IMM 0x99887766u
#define OWNER (77ull << 24 | 5)

static const uint8_t unicast[SV_GID_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
static const uint8_t group_gid[SV_GID_BYTES] = { 0xff, 14, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
static struct sv_pool pool;
static struct sv_attached group;

static struct sv_qp *sitting[SV_QPS];
static int refs, yields;

void __real_sv_gid_get(uint32_t device, uint32_t index, uint8_t gid[SV_GID_BYTES]);
void __wrap_sv_gid_get(uint32_t device, uint32_t index, uint8_t gid[SV_GID_BYTES]);
struct sv_qp *__wrap_sv_qp_get(uint32_t index);
void __wrap_sv_qp_put(struct sv_qp *of);
int __wrap_sched_yield(void);

void __wrap_sv_gid_get(uint32_t device, uint32_t index, uint8_t gid[SV_GID_BYTES])
{
	assert_true(device < SV_DEVICES && index < SV_GIDS);
	__real_sv_gid_get(device, index, gid);
}

struct sv_qp *__wrap_sv_qp_get(uint32_t index)
{
	assert_true(index > 0 && index < SV_QPS);
	if (sitting[index])
		refs++;
	return sitting[index];
}

void __wrap_sv_qp_put(struct sv_qp *of)
{
	assert_true(of && !cq.lock.held);
	refs--;
}

/* Who has the lock lets go of it; nothing was freed before. */
int __wrap_sched_yield(void)
{
	assert_int_equal(atomic_load(&pool.owner[0]), OWNER);
	yields++;
	cq.lock.held = 0;
	return 0;
}

static int begin(void **state)
{
	(void)state;
	receiver_begin(IBV_QPT_UD);
	memset(&pool, 0, sizeof(pool));
	memset(sitting, 0, sizeof(sitting));
	memset(&group, 0, sizeof(group));
	for (uint32_t i = 0; i < sizeof(pool.payload); i++)
		pool.payload[i] = (uint8_t)(i * 7 + i / 256 + 1);
	qp.pool = &pool;
	atomic_store(&qp.ro->gen, GEN);
	atomic_store(&qp.ro->qkey, QKEY);
	atomic_store(&ro.rq[INDEX].posted, 20);
	refs = yields = 0;
	return 0;
}

static void put(uint32_t at, uint32_t len, uint32_t ticket, uint32_t flags, const uint8_t *dgid)
{
	struct sv_dgram *dgram = &pool.dgram[at];
	uint64_t words[2];

	memcpy(words, dgid, sizeof(words));
	atomic_store(&dgram->gen, GEN);
	atomic_store(&dgram->len, len);
	atomic_store(&dgram->src_qpn, SOURCE);
	atomic_store(&dgram->qkey, QKEY);
	atomic_store(&dgram->imm, IMM);
	atomic_store(&dgram->flags, flags);
	atomic_store(&dgram->ticket, ticket);
	atomic_store(&dgram->dgid[0], words[0]);
	atomic_store(&dgram->dgid[1], words[1]);
	atomic_fetch_or(&pool.full, 1ull << at);
}

static void own_all(void)
{
	for (uint32_t i = 0; i < SV_CHUNKS; i++)
		atomic_store(&pool.owner[i], OWNER);
}

static void expect_free(uint32_t at, uint32_t n)
{
	for (uint32_t i = 0; i < SV_CHUNKS; i++)
		assert_int_equal(atomic_load(&pool.owner[i]), i - at < n ? 0 : OWNER);
}

/* ---- what a receive gets ---- */

static void expect_completion(uint64_t wr_id, uint32_t bytes, unsigned int flags)
{
	const struct ibv_wc *wc = &wcs[completions - 1];

	assert_true(wc->wr_id == wr_id && wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV);
	assert_true(wc->byte_len == bytes && wc->qp_num == OWN_QPN && wc->src_qp == SOURCE);
	assert_true(wc->wc_flags == (IBV_WC_GRH | flags));
	assert_int_equal(wc->imm_data, flags ? IMM : 0);
}

/* What it begins with; from the address that it was sent to, or from one of the port's. */
static void expect_grh(uint32_t bytes, const uint8_t *dgid, const uint8_t *sgid)
{
	struct ibv_grh grh = { .version_tclass_flow = htonl(0x60000000), .paylen = htons((uint16_t)bytes),
			       .next_hdr = 0x1b, .hop_limit = 64 };

	memcpy(grh.dgid.raw, dgid, SV_GID_BYTES);
	memcpy(grh.sgid.raw, sgid, SV_GID_BYTES);
	assert_memory_equal(mem, &grh, GRH);
}

static void test_taken(void **state)
{
	(void)state;
	own_all();
	put(7, 3 * SV_CHUNK_BYTES - 1, 5, 0, unicast);
	assert_int_equal(drain(9, true), 1);
	assert_true(!again && completions == 1 && received() == 1 && faults == 0);
	expect_completion(1, GRH + 3 * SV_CHUNK_BYTES - 1, 0);
	expect_grh(3 * SV_CHUNK_BYTES - 1, unicast, unicast);
	assert_memory_equal(mem + GRH, pool.payload + 7 * (size_t)SV_CHUNK_BYTES, 3 * SV_CHUNK_BYTES - 1);
	assert_int_equal(mem[GRH + 3 * SV_CHUNK_BYTES - 1], 0);
	expect_free(7, 3);
	assert_true(atomic_load(&pool.full) == 0 && atomic_load(&qp.rw->head) == 1);
	assert_int_equal(atomic_load(&qp.rw->claimed), 1);
	put(1, 0, 6, SV_DGRAM_IMM, unicast);
	assert_int_equal(drain(9, true), 1);
	expect_completion(2, GRH, IBV_WC_WITH_IMM);
	expect_grh(0, unicast, unicast);
	assert_true(received() == 2 && atomic_load(&qp.rw->head) == 2);
}

/* A receive that is just long enough. */
static void test_length(void **state)
{
	(void)state;
	receive_bytes = GRH + 100;
	put(0, 100, 0, 0, unicast);
	assert_int_equal(drain(9, true), 1);
	expect_completion(1, GRH + 100, 0);
	assert_int_equal(faults, 0);
}

static void test_group(void **state)
{
	uint8_t sgid[SV_GID_BYTES];

	(void)state;
	put(0, 8, 0, SV_DGRAM_GID1, group_gid); /* it isn't in it */
	assert_int_equal(drain(9, true), 0);
	assert_true(!again && received() == 0 && atomic_load(&qp.rw->head) == 1);
	assert_int_equal(atomic_load(&qp.rw->claimed), 0);
	memcpy(group.gid, group_gid, SV_GID_BYTES);
	qp.groups = &group;
	for (uint32_t index = 0; index < SV_GIDS; index++) {
		put(0, 8, 0, index ? SV_DGRAM_GID1 : 0, group_gid);
		assert_int_equal(drain(9, true), 1);
		sv_gid_get(0, index, sgid);
		expect_grh(8, group_gid, sgid);
	}
	/* Only groups have that flag. */
	put(0, 8, 0, SV_DGRAM_GID1, unicast);
	assert_int_equal(drain(9, true), 1);
	expect_grh(8, unicast, unicast);
}

static void test_qkey(void **state)
{
	(void)state;
	own_all();
	put(3, 8, 0, 0, unicast);
	atomic_store(&pool.dgram[3].qkey, QKEY + 1);
	assert_int_equal(drain(9, true), 0);
	assert_true(received() == 0 && atomic_load(&proc.bad_qkeys) == 1);
	expect_free(3, 1);
}

/* ---- which is next ---- */

static void expect_order(const uint32_t *lens, int n)
{
	assert_int_equal(drain(n, false), n);
	for (int i = 0; i < n; i++)
		assert_int_equal(wcs[i].byte_len, GRH + lens[i]);
}

static void test_order(void **state)
{
	const uint32_t lens[] = { 1, 2, 3, 4 };

	(void)state;
	put(3, 4, 7, 0, unicast);
	put(5, 1, 1, 0, unicast);
	put(9, 3, 5, 0, unicast);
	put(20, 2, 3, 0, unicast);
	expect_order(lens, 4);
}

static void test_order_from_start(void **state)
{
	const uint32_t lens[] = { 1, 2, 3 };

	(void)state;
	put(0, 3, 4, 0, unicast);
	put(1, 1, 2, 0, unicast);
	put(2, 2, 3, 0, unicast);
	expect_order(lens, 3);
}

static void test_max(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		put(i, 8, i, 0, unicast);
	put(10, 8, 1, 0, unicast);
	atomic_store(&pool.dgram[10].gen, GEN + 1); /* not for this one, and no completion */
	assert_int_equal(drain(2, false), 2);
	assert_true(again && completions == 2);
	assert_int_equal(drain(2, true), 1);
	assert_true(!again && completions == 3);
	assert_int_equal(drain(2, true), 0);
	assert_false(again);
}

/* Of one that can't be, the chunks that there are: what stands behind them is others'. */
static void test_beyond(void **state)
{
	const uint32_t lens[] = { 8 };

	(void)state;
	own_all();
	put(SV_CHUNKS - 2, SV_DGRAM_BYTES, 0, 0, unicast);
	put(0, 8, 1, 0, unicast);
	expect_order(lens, 1);
	for (uint32_t i = 0; i < SV_CHUNKS; i++)
		assert_int_equal(atomic_load(&pool.owner[i]), i && i < SV_CHUNKS - 2 ? OWNER : 0);
}

/* ---- those that can't be taken ---- */

static void test_no_receive(void **state)
{
	(void)state;
	atomic_store(&ro.rq[INDEX].posted, 1);
	put(0, 8, 0, 0, unicast);
	put(1, 8, 1, 0, unicast);
	assert_int_equal(drain(9, true), 1);
	assert_true(completions == 1 && received() == 1 && faults == 0);
	assert_int_equal(atomic_load(&qp.rw->dropped), 1);
	put(1, 8, 1, 0, unicast);
	assert_int_equal(drain(9, true), 0);
	assert_int_equal(atomic_load(&qp.rw->dropped), 2);
}

/* A credit without its receive. */
static void test_receive_lost(void **state)
{
	(void)state;
	receives = 0;
	put(0, 8, 0, 0, unicast);
	assert_int_equal(drain(9, true), 0);
	assert_true(completions == 0 && received() == 1);
}

/* Nothing is taken from now on. */
static void expect_closed(void)
{
	const uint64_t full = atomic_load(&pool.full);

	assert_int_equal(drain(9, true), 0);
	assert_true(!again && atomic_load(&pool.full) == full && full);
}

static void check_unusable(uint32_t bytes, bool rights, enum ibv_wc_status status)
{
	valid = rights;
	own_all();
	put(2, bytes, 0, 0, unicast);
	put(9, 8, 1, 0, unicast);
	assert_int_equal(drain(9, true), 1);
	assert_true(!again && completions == 1 && wcs[0].status == status && wcs[0].wr_id == 1);
	assert_true(mem[0] == 0 && mem[GRH] == 0);
	expect_free(2, 1);
	expect_failed(SV_FAULT_QUIET);
	expect_closed();
}

static void test_too_long(void **state)
{
	(void)state;
	receive_bytes = GRH + 99;
	check_unusable(100, true, IBV_WC_LOC_LEN_ERR);
}

static void test_no_rights(void **state)
{
	(void)state;
	check_unusable(100, false, IBV_WC_LOC_PROT_ERR);
}

static void test_no_room(void **state)
{
	(void)state;
	room = 1;
	for (uint32_t i = 0; i < 3; i++)
		put(i, 8, i, 0, unicast);
	assert_int_equal(drain(9, true), 1);
	assert_true(!again && completions == 1);
	expect_failed(SV_FAULT_FATAL);
	expect_closed();
}

/* ---- senders that are gone ---- */

/* What it had taken and not filled is free; its datagrams stay, and what others have. */
static void test_gone(void **state)
{
	const uint64_t gone = OWNER >> 24;

	(void)state;
	own_all();
	cq.lock.held = 0;
	sitting[1] = sitting[SV_QPS - 1] = &qp;
	put(0, 8, 0, 0, unicast);
	put(58, 2 * SV_CHUNK_BYTES, 0, 0, unicast);
	atomic_store(&pool.owner[20], gone + 1);
	sv_dgram_sender_gone(gone);
	assert_true(refs == 0 && !cq.lock.held);
	for (uint32_t i = 0; i < SV_CHUNKS; i++) {
		bool stays = i == 0 || i >= 58;

		assert_int_equal(atomic_load(&pool.owner[i]), i == 20 ? gone + 1 : stays ? OWNER : 0);
	}
}

/* What is said of the first datagram stands behind the owners: it stays, even if it looks like one. */
static void test_gone_beyond(void **state)
{
	const uint64_t as_owner = (uint64_t)8 << 32 | GEN;

	(void)state;
	cq.lock.held = 0;
	sitting[1] = &qp;
	put(0, 8, 0, 0, unicast);
	atomic_store(&pool.owner[1], as_owner);
	sv_dgram_sender_gone(as_owner >> 24);
	assert_int_equal(atomic_load(&pool.owner[1]), 0);
	assert_int_equal(atomic_load(&pool.dgram[0].gen), GEN);
	assert_int_equal(atomic_load(&pool.dgram[0].len), 8);
}

/* Not while somebody takes datagrams; and no pool is there but of those that take them. */
static void test_gone_lock(void **state)
{
	static struct sv_qp other;

	(void)state;
	own_all();
	other.ib.qp_type = IBV_QPT_RC;
	other.ib.recv_cq = &cq.ib;
	sitting[INDEX] = &qp;
	sitting[INDEX + 1] = &other;
	sv_dgram_sender_gone(OWNER >> 24);
	assert_true(yields == 1 && refs == 0 && !cq.lock.held);
	expect_free(0, SV_CHUNKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_taken, begin),
		cmocka_unit_test_setup(test_length, begin),
		cmocka_unit_test_setup(test_group, begin),
		cmocka_unit_test_setup(test_qkey, begin),
		cmocka_unit_test_setup(test_order, begin),
		cmocka_unit_test_setup(test_order_from_start, begin),
		cmocka_unit_test_setup(test_max, begin),
		cmocka_unit_test_setup(test_beyond, begin),
		cmocka_unit_test_setup(test_no_receive, begin),
		cmocka_unit_test_setup(test_receive_lost, begin),
		cmocka_unit_test_setup(test_too_long, begin),
		cmocka_unit_test_setup(test_no_rights, begin),
		cmocka_unit_test_setup(test_no_room, begin),
		cmocka_unit_test_setup(test_gone, begin),
		cmocka_unit_test_setup(test_gone_beyond, begin),
		cmocka_unit_test_setup(test_gone_lock, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
