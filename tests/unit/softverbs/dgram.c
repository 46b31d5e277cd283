/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram on its way: which are lost and which counted, what each waits for and how long, which
 * chunks it takes, what the receiver finds there and when it is told.
 */
#include "sender.h"

#define SLOT 2u
#define INDEX 9u
#define QPN (SLOT << 12 | INDEX)
#define RQ 300u
#define CQ 17u
#define GEN 0x4711u
#define OWNER (OWN_INCARNATION << 24 | OWN_QPN)
#define BEGIN (OWN_SLOT * 7 % SV_CHUNKS) /* this process's first chunk */
#define MS 1000000ull

static uint8_t data[SV_DGRAM_BYTES];
static struct sv_wqe wqe;
static struct sv_dest *dest;

static struct sv_ro_qp *their(uint32_t slot)
{
	return &ros[slot].qp[INDEX];
}

static struct sv_rw_qp *shared(uint32_t slot)
{
	return &rws[slot].qp[INDEX];
}

/* A receiver with so many receives. */
static void set_receiver(uint32_t slot, uint32_t receives)
{
	struct sv_ro_qp *ro = their(slot);

	ro->state = IBV_QPS_RTS;
	ro->type = IBV_QPT_UD;
	ro->gen = GEN;
	ro->rq = RQ;
	ro->cq = CQ;
	ros[slot].rq[RQ].posted = receives;
	rws[slot].rq[RQ].claim = 0xfffff;
	memset(shared(slot), 0, sizeof(*shared(slot)));
	memset(&rws[slot].cq[CQ], 0, sizeof(rws[slot].cq[CQ]));
}

static void set_wqe(uint32_t bytes)
{
	wqe = (struct sv_wqe){ .opcode = IBV_WR_SEND, .len = bytes, .nsge = 1, .rkey = 0x1234,
			       .remote_addr = (uintptr_t)dest,
			       .sge = { { (uintptr_t)data, bytes, 0 } } };
}

static int begin(void **state)
{
	int ret = sender_begin(state);

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256 + 1);
	for (uint32_t slot = 1; slot < PROCESSES; slot++)
		set_receiver(slot, 1000);
	dest = to(QPN);
	set_wqe(100);
	return ret;
}

static enum sv_outcome run(void)
{
	uint32_t status = 99;
	enum sv_outcome ret = sv_exec_dgram(&qp, &wqe, &status);

	assert_int_equal(status, IBV_WC_SUCCESS);
	return ret;
}

/* Sent or lost at once; it begins at this chunk, none if it is lost. */
static void expect_at(int32_t at)
{
	uint32_t before = pools[SLOT].ticket;
	uint64_t full = pools[SLOT].full;

	qp.first_ns = 0;
	assert_int_equal(run(), SV_DONE);
	assert_int_equal(pools[SLOT].ticket, before + (at >= 0));
	sv_dgram_show(dest);
	assert_true(pools[SLOT].full == (at >= 0 ? full | 1ull << at : full));
}

static void expect_lost(uint32_t dropped)
{
	uint32_t before = shared(SLOT)->dropped;

	expect_at(-1);
	assert_int_equal(shared(SLOT)->dropped, before + dropped);
}

static void expect_wait(enum sv_block why, uint64_t for_ns)
{
	int before = waits.n;

	assert_int_equal(run(), SV_WAIT);
	assert_true(waits.n == before + 1 && waits.why == why && waits.for_ns == for_ns);
}

/* ---- what can't be sent ---- */

static void expect_status(uint32_t expected)
{
	uint32_t status = 99;

	assert_int_equal(sv_exec_dgram(&qp, &wqe, &status), SV_DONE);
	assert_int_equal(status, expected);
	assert_true(!pools[SLOT].ticket && !shared(SLOT)->dropped && !waits.n);
}

static void test_refused(void **state)
{
	(void)state;
	set_wqe(SV_DGRAM_BYTES + 1);
	expect_status(IBV_WC_LOC_LEN_ERR);
	set_wqe(8);
	valid = false;
	expect_status(IBV_WC_LOC_PROT_ERR);
	valid = true;
	set_wqe(SV_DGRAM_BYTES);
	expect_at((int32_t)BEGIN);
}

/* Only a UD queue pair that is ready takes any; nobody counts what is sent to others. */
static void test_no_receiver(void **state)
{
	struct sv_ro_qp *ro = their(SLOT);

	(void)state;
	for (uint32_t type = IBV_QPT_RC; type < IBV_QPT_UD; type++) {
		ro->type = type;
		expect_lost(0);
	}
	ro->type = IBV_QPT_UD;
	for (uint32_t i = IBV_QPS_RESET; i <= IBV_QPS_ERR; i++) {
		ro->state = i;
		if (i < IBV_QPS_RTR || i > IBV_QPS_SQE)
			expect_lost(0);
		else
			expect_at((int32_t)(BEGIN + i - IBV_QPS_RTR));
	}
	ro->state = IBV_QPS_RTS;
	ro->gen = 0;
	expect_lost(0);
	assert_int_equal(waits.n, 0);
}

static void test_not_mapped(void **state)
{
	(void)state;
	no_mappings = true;
	expect_lost(1);
	no_mappings = false;
	expect_at((int32_t)BEGIN);
	expect_at((int32_t)BEGIN + 1);
	assert_int_equal(mapped[SLOT], 1); /* once */
}

/* As many are sent as there are receives, those counted that wait for theirs. */
static void test_receives(void **state)
{
	struct sv_ro_rq *rq = &ros[SLOT].rq[RQ];

	(void)state;
	rws[SLOT].rq[RQ].claim = 40ull << 32 | 0xffffffff;
	rq->posted = 40;
	expect_lost(1);
	rq->posted = 39; /* more claimed than posted: some were given back */
	expect_lost(1);
	rq->posted = 42;
	expect_at((int32_t)BEGIN);
	expect_at((int32_t)BEGIN + 1);
	expect_lost(1);
	rws[SLOT].rq[RQ].claim = (uint64_t)(UINT32_MAX - 1) << 32; /* numbers begin anew */
	rq->posted = 0;
	expect_lost(1);
	rq->posted = 1;
	expect_at((int32_t)BEGIN + 2);
	rq->posted = 1000;
	their(SLOT)->rq = SV_RQS - 1;
	ros[SLOT].rq[SV_RQS - 1].posted = 1000;
	expect_at((int32_t)BEGIN + 3);
	their(SLOT)->rq = SV_RQS;
	ros[SLOT].cq[0].channel = 1000; /* what is behind the table */
	expect_lost(1);
}

/* ---- links ---- */

static void test_link_made(void **state)
{
	(void)state;
	peers[SLOT].state = SV_PEER_NEW;
	expect_wait(SV_BLOCK_LINK, 200000);
	assert_true(pokes == 1 && qp.first_ns == now_ns);
	now_ns += SECOND;
	expect_wait(SV_BLOCK_LINK, 200000);
	assert_true(pokes == 2 && qp.first_ns == now_ns - SECOND);
	comes_up = true;
	assert_int_equal(run(), SV_DONE);
	sv_dgram_show(dest);
	assert_true(pools[SLOT].full == 1ull << BEGIN && waits.n == 2);
}

/* After a second it is lost, and those behind it don't wait. */
static void test_link_late(void **state)
{
	(void)state;
	peers[SLOT].state = SV_PEER_ASKED;
	qp.first_ns = now_ns - SECOND;
	expect_wait(SV_BLOCK_LINK, 200000);
	now_ns++;
	assert_int_equal(run(), SV_DONE);
	expect_lost(0);
	expect_lost(0);
	assert_true(waits.n == 1 && pokes == 4);
	peers[SLOT].state = SV_PEER_UP;
	expect_at((int32_t)BEGIN);
	assert_int_equal(pokes, 4);
}

static void test_link_gone(void **state)
{
	(void)state;
	peers[SLOT].state = SV_PEER_GONE;
	expect_lost(0);
	assert_true(waits.n == 0 && qp.first_ns == 0 && !mapped[SLOT]);
}

/* ---- room ---- */

static void take_all(uint32_t slot)
{
	for (uint32_t i = 0; i < SV_CHUNKS; i++)
		pools[slot].owner[i] = 1;
}

static void test_no_room(void **state)
{
	(void)state;
	take_all(SLOT);
	expect_wait(SV_BLOCK_ROOM, MS);
	assert_int_equal(qp.first_ns, now_ns);
	now_ns += 100 * MS;
	expect_wait(SV_BLOCK_ROOM, MS);
	assert_int_equal(asked, 0);
	now_ns++;
	expect_wait(SV_BLOCK_ROOM, MS);
	assert_true(asked == 1 && shared(SLOT)->attention == SV_ATTN_DRAIN);
	expect_wait(SV_BLOCK_ROOM, MS); /* it was asked already */
	assert_int_equal(asked, 1);
	shared(SLOT)->attention = SV_ATTN_FAULT | SV_ATTN_PROGRESS;
	now_ns += 900 * MS - 1;
	expect_wait(SV_BLOCK_ROOM, MS);
	assert_int_equal(asked, 2);
	pools[SLOT].owner[20] = 0;
	assert_int_equal(run(), SV_DONE);
	sv_dgram_show(dest);
	assert_true(pools[SLOT].full == 1ull << 20 && !shared(SLOT)->dropped);
}

/* After a second it is dropped, and those behind it at once, until it has taken one. */
static void test_stuck(void **state)
{
	(void)state;
	take_all(SLOT);
	shared(SLOT)->head = 7;
	expect_wait(SV_BLOCK_ROOM, MS);
	now_ns += SECOND + 1;
	assert_int_equal(run(), SV_DONE);
	assert_int_equal(shared(SLOT)->dropped, 1);
	expect_lost(1);
	expect_lost(1);
	assert_true(waits.n == 1 && asked == 0);
	shared(SLOT)->head = 8;
	qp.first_ns = 0;
	expect_wait(SV_BLOCK_ROOM, MS);
	shared(SLOT)->head = 7; /* it is stuck no more, whatever the number */
	expect_wait(SV_BLOCK_ROOM, MS);
	now_ns += SECOND + 1;
	assert_int_equal(run(), SV_DONE);
	expect_lost(1);
	assert_int_equal(shared(SLOT)->dropped, 5);
	pools[SLOT].owner[59] = 0; /* room is room */
	expect_at(59);
}

/* ---- chunks ---- */

/* Those before and behind n free ones are others'. */
static void set_owners(uint32_t at, uint32_t n)
{
	for (uint32_t i = 0; i < SV_CHUNKS; i++)
		pools[SLOT].owner[i] = i - at < n ? 0 : i + 1;
}

static void check_owners(uint32_t at, uint32_t n, uint64_t owner)
{
	for (uint32_t i = 0; i < SV_CHUNKS; i++)
		assert_true(pools[SLOT].owner[i] == (i - at < n ? owner : i + 1));
}

/* Where just as many are free as it needs, one behind the other, it is. */
static void check_run(uint32_t at, uint32_t n)
{
	memset(&pools[SLOT], 0, sizeof(pools[SLOT]));
	set_owners(at, n);
	set_wqe(n * SV_CHUNK_BYTES);
	expect_at((int32_t)at);
	check_owners(at, n, OWNER);
	assert_memory_equal(pools[SLOT].payload + at * SV_CHUNK_BYTES, data, n * SV_CHUNK_BYTES);
}

static void test_runs(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 4; n++) {
		for (uint32_t at = 0; at + n <= SV_CHUNKS; at++)
			check_run(at, n);
	}
}

/* What is too short stays free, also at the end. */
static void test_no_run(void **state)
{
	(void)state;
	for (uint32_t at = 0; at + 3 <= SV_CHUNKS; at++) {
		set_owners(at, 3);
		set_wqe(SV_DGRAM_BYTES);
		expect_wait(SV_BLOCK_ROOM, MS);
		check_owners(at, 3, 0);
	}
}

/* Behind the last, around, and none twice. */
static void test_around(void **state)
{
	(void)state;
	set_wqe(SV_DGRAM_BYTES);
	for (uint32_t at = BEGIN; at + 4 <= SV_CHUNKS; at += 4)
		expect_at((int32_t)at);
	expect_at(0);
	for (uint32_t at = 4; at + 4 <= BEGIN; at += 4)
		expect_at((int32_t)at);
	set_wqe(0);
	for (uint32_t at = BEGIN / 4 * 4; at < BEGIN; at++)
		expect_at((int32_t)at);
	for (uint32_t at = BEGIN + (SV_CHUNKS - BEGIN) / 4 * 4; at < SV_CHUNKS; at++)
		expect_at((int32_t)at);
	qp.first_ns = 0;
	expect_wait(SV_BLOCK_ROOM, MS);
	for (uint32_t i = 0; i < SV_CHUNKS; i++)
		assert_true(pools[SLOT].owner[i] == OWNER);
}

/* ---- what is there ---- */

static void test_described(void **state)
{
	struct sv_dgram *dgram = &pools[SLOT].dgram[BEGIN];

	(void)state;
	pools[SLOT].ticket = 55;
	qp.attr.qkey = 0x80000001;
	wqe.opcode = IBV_WR_SEND_WITH_IMM;
	wqe.imm = 0xfeed;
	wqe.compare_add = 0x1122334455667788;
	wqe.swap = 0x99aabbccddeeff00;
	expect_at((int32_t)BEGIN);
	assert_true(dgram->gen == GEN && dgram->len == 100 && dgram->src_qpn == OWN_QPN);
	assert_true(dgram->qkey == 0x1234 && dgram->imm == 0xfeed && dgram->flags == SV_DGRAM_IMM);
	assert_true(dgram->ticket == 55 && dgram->dgid[0] == wqe.compare_add);
	assert_int_equal(dgram->dgid[1], wqe.swap);
	wqe.opcode = IBV_WR_SEND;
	wqe.flags = SV_SEND_GID1;
	wqe.rkey = 1u << 31; /* the queue pair's own */
	expect_at((int32_t)BEGIN + 1);
	assert_true(dgram[1].flags == SV_DGRAM_GID1 && dgram[1].qkey == 0x80000001);
	assert_int_equal(dgram[1].ticket, 56);
	wqe.flags = 0;
	wqe.rkey = (1u << 31) - 1;
	expect_at((int32_t)BEGIN + 2);
	assert_true(dgram[2].flags == 0 && dgram[2].qkey == (1u << 31) - 1);
	assert_int_equal(pools[SLOT].ticket, 58);
}

static void test_payload(void **state)
{
	uint8_t *there = pools[SLOT].payload + BEGIN * SV_CHUNK_BYTES;

	(void)state;
	set_wqe(3000);
	expect_at((int32_t)BEGIN);
	assert_memory_equal(there, data, 3000);
	assert_true(there[3000] == 0 && there[-1] == 0);
	set_wqe(12);
	wqe.flags = IBV_SEND_INLINE;
	memcpy(wqe.data, "twelve bytes", 12);
	there += 3 * SV_CHUNK_BYTES;
	expect_at((int32_t)BEGIN + 3);
	assert_memory_equal(there, "twelve bytes", 13);
}

/* It is there when it is shown, not before; its receiver is told once. */
static void test_shown(void **state)
{
	struct sv_set *ready = &rws[SLOT].cq[CQ].ready;

	(void)state;
	sv_dgram_show(dest);
	assert_int_equal(wakes.n, 0);
	wqe.flags = IBV_SEND_SOLICITED;
	assert_int_equal(run(), SV_DONE);
	assert_true(!pools[SLOT].full && !ready->top && !wakes.n);
	sv_dgram_show(dest);
	assert_true(pools[SLOT].full == 1ull << BEGIN);
	assert_true(ready->top == 1 && ready->word[0] == 1ull << INDEX);
	assert_true(wakes.n == 1 && wakes.peer == &peers[SLOT] && wakes.index == INDEX);
	assert_true(wakes.solicited);
	sv_dgram_show(dest);
	assert_int_equal(wakes.n, 1);
	wqe.flags = 0;
	expect_at((int32_t)BEGIN + 1);
	assert_true(wakes.n == 2 && !wakes.solicited);
}

/* A number that no queue has is told to nobody. */
static void test_no_queue(void **state)
{
	(void)state;
	their(SLOT)->cq = SV_CQS;
	expect_at((int32_t)BEGIN);
	assert_int_equal(wakes.n, 0);
	their(SLOT)->cq = SV_CQS - 1;
	expect_at((int32_t)BEGIN + 1);
	assert_int_equal(wakes.n, 1);
}

/* ---- groups ---- */

static const uint8_t gid[16] = { 0xff, 1 };
static const uint32_t all[] = { 1u << 12 | INDEX, 2u << 12 | INDEX, 3u << 12 | INDEX };

static void set_group(void)
{
	set_members(3, all);
	dest = to_group(gid);
	set_wqe(100);
}

/* Which of the processes see one there, of this one. */
static void expect_seen(bool first, bool second, bool third)
{
	const bool seen[] = { first, second, third };

	for (uint32_t i = 0; i < 3; i++) {
		assert_true(pools[i + 1].full == (seen[i] ? 1ull << BEGIN : 0));
		assert_int_equal(rws[i + 1].cq[CQ].ready.word[0], seen[i] ? 1ull << INDEX : 0);
	}
}

static void test_all_members(void **state)
{
	(void)state;
	set_group();
	assert_int_equal(run(), SV_DONE);
	expect_seen(false, false, false);
	sv_dgram_show(dest);
	expect_seen(true, true, true);
	assert_true(wqe.done == 3 && wakes.n == 3 && waits.n == 0);
	for (uint32_t i = 1; i <= 3; i++)
		assert_true(pools[i].ticket == 1 && pools[i].dgram[BEGIN].len == 100);
}

/* Each is waited for as if it were the only one; those before it see the datagram meanwhile. */
static void test_members_wait(void **state)
{
	(void)state;
	set_group();
	peers[1].state = SV_PEER_NEW;
	take_all(3);
	expect_wait(SV_BLOCK_LINK, 200000);
	expect_seen(false, false, false);
	now_ns += SECOND + 1;
	expect_wait(SV_BLOCK_ROOM, MS);
	expect_seen(false, true, false);
	assert_true(wqe.done == 2 && qp.first_ns == now_ns);
	now_ns += SECOND;
	expect_wait(SV_BLOCK_ROOM, MS);
	now_ns++;
	assert_int_equal(run(), SV_DONE);
	sv_dgram_show(dest);
	expect_seen(false, true, false);
	assert_true(shared(3)->dropped == 1 && pools[2].ticket == 1 && wakes.n == 1);
	assert_int_equal(qp.first_ns, 0);
}

static void test_not_to_self(void **state)
{
	(void)state;
	set_group();
	qp.qpn = all[1];
	qp.not_to_self = true;
	assert_int_equal(run(), SV_DONE);
	sv_dgram_show(dest);
	expect_seen(true, false, true);
	assert_int_equal(wqe.done, 3);
	memset(pools, 0, sizeof(pools));
	qp.not_to_self = false;
	set_group();
	assert_int_equal(run(), SV_DONE);
	sv_dgram_show(dest);
	assert_true(pools[2].ticket == 1);
}

static void test_nobody(void **state)
{
	(void)state;
	set_members(0, NULL);
	dest = to_group(gid);
	set_wqe(8);
	assert_int_equal(run(), SV_DONE);
	sv_dgram_show(dest);
	expect_seen(false, false, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, begin, sender_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(refused),	  TEST(no_receiver), TEST(not_mapped),	   TEST(receives),
		TEST(link_made),  TEST(link_late),   TEST(link_gone),	   TEST(no_room),
		TEST(stuck),	  TEST(runs),	     TEST(no_run),	   TEST(around),
		TEST(described),  TEST(payload),     TEST(shown),	   TEST(no_queue),
		TEST(all_members), TEST(members_wait), TEST(not_to_self), TEST(nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
