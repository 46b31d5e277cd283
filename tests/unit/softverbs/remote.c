/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * READ, WRITE and atomics: what is refused and whom that accuses, which mapping of the target's
 * memory is used, what the target's process is asked where there is none, injected faults.
 */
#include "initiator.h"
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/fault.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/exec/remote.h"

#define KEY 0x1234u
#define MEM 5u
#define AT 0x7000u /* address in the target's process */
#define OFFSET 64u /* of that in its memory */
#define PEER_PD 33u
#define ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define SERIAL 40u
#define PARTS 4

static uint8_t memory[70000] __attribute__((aligned(8)));
static uint8_t stages[SV_STAGES][SV_STAGE_BYTES];
static struct sv_msg asked;
static struct sv_target target;
static int checks, finds, find_ret, asks, ask_ret, stages_taken, stages_there, tears;
static uint32_t right;
static bool refused, find_write;
static uint32_t find_mem;
static uint64_t mapping_bytes;

int __wrap_sv_mr_check(const struct sv_ro *of, uint32_t rkey, uint32_t domain, uint32_t qpn, uint64_t addr,
		       uint64_t length, uint32_t access, struct sv_target *to);
int __wrap_sv_maps_find(struct sv_maps *maps, int fd, const struct sv_msg *ask, uint32_t mem, bool write,
			struct sv_map_hint *hint);
int __wrap_sv_peer_stage_get(struct sv_peer *at, uint8_t **to);
void __wrap_sv_peer_stage_put(struct sv_peer *at, uint32_t stage);
int __wrap_sv_peer_ask(struct sv_peer *at, const struct sv_msg *msg);
void __wrap_sv_fault_copy(void *dst, const void *src, size_t bytes, uint64_t *rng);

int __wrap_sv_mr_check(const struct sv_ro *of, uint32_t rkey, uint32_t domain, uint32_t qpn, uint64_t addr,
		       uint64_t length, uint32_t access, struct sv_target *to)
{
	assert_true(of == &ro && rkey == KEY && domain == PEER_PD && qpn == PEER_QPN);
	assert_true(addr == wqe->remote_addr && length == wqe->len && length);
	checks++;
	right = access;
	*to = target;
	return refused ? EACCES : 0;
}

/* What every message about the request says of it. */
static void check_asked(const struct sv_msg *msg, uint64_t addr)
{
	assert_true(msg->index == INDEX && msg->src_qpn == OWN_QPN && msg->opcode == wqe->opcode);
	assert_true(msg->rkey == KEY && msg->addr == addr && msg->serial == qp.slow_serial);
	assert_true(msg->bytes64 == wqe->len && msg->compare_add == 7 && msg->swap == 8);
}

int __wrap_sv_maps_find(struct sv_maps *maps, int fd, const struct sv_msg *ask, uint32_t mem, bool write,
			struct sv_map_hint *hint)
{
	assert_true(maps == &peer.maps && fd == 99);
	check_asked(ask, wqe->remote_addr);
	finds++;
	find_mem = mem;
	find_write = write;
	if (!find_ret)
		*hint = (struct sv_map_hint){ mem, write, memory, mapping_bytes };
	return find_ret;
}

int __wrap_sv_peer_stage_get(struct sv_peer *at, uint8_t **to)
{
	assert_ptr_equal(at, &peer);
	if (stages_taken == stages_there)
		return -1;
	*to = stages[stages_taken];
	return stages_taken++;
}

void __wrap_sv_peer_stage_put(struct sv_peer *at, uint32_t stage)
{
	stages_taken--;
	assert_true(at == &peer && (int)stage == stages_taken);
}

int __wrap_sv_peer_ask(struct sv_peer *at, const struct sv_msg *msg)
{
	assert_ptr_equal(at, &peer);
	asked = *msg;
	asks += !ask_ret;
	return ask_ret;
}

void __wrap_sv_fault_copy(void *dst, const void *src, size_t bytes, uint64_t *rng)
{
	assert_ptr_equal(rng, &qp.rng);
	tears++;
	memcpy(dst, src, bytes);
}

static void set_remote(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	set_request(opcode, bytes);
	wqe->rkey = KEY;
	wqe->remote_addr = AT;
	wqe->compare_add = 7;
	wqe->swap = 8;
}

static int begin(void **state)
{
	struct sv_ro_qp *its = &ro.qp[INDEX];

	(void)state;
	initiator_begin(sv_exec_rdma);
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)(i * 13 + 5);
	qp.attr.max_rd_atomic = 1;
	qp.slow_serial = SERIAL;
	peer.watch.fd = 99;
	its->rd_atomic = 1;
	its->access = ACCESS;
	its->pd = PEER_PD;
	target = (struct sv_target){ MEM, OFFSET };
	mapping_bytes = sizeof(memory);
	checks = finds = find_ret = asks = ask_ret = stages_taken = tears = 0;
	stages_there = SV_STAGES;
	refused = false;
	set_remote(IBV_WR_RDMA_READ, 100);
	return 0;
}

/* ---- what is refused here ---- */

static void test_lengths(void **state)
{
	(void)state;
	wqe->len = SV_MAX_MSG_BYTES + 1ull;
	expect(IBV_WC_LOC_LEN_ERR);
	wqe->len = SV_MAX_MSG_BYTES;
	ready = false;
	expect_peer_wait();
	set_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, 7);
	expect(IBV_WC_LOC_LEN_ERR);
	set_remote(IBV_WR_ATOMIC_CMP_AND_SWP, 16);
	expect(IBV_WC_LOC_LEN_ERR);
	set_remote(IBV_WR_RDMA_WRITE, 8);
	wqe->len = SV_MAX_MSG_BYTES + 1ull;
	expect(IBV_WC_LOC_LEN_ERR);
	wqe->stage = SV_STAGE_ASKED; /* it was looked at before */
	expect_peer_wait();
	assert_true(!told && !checks);
}

static void test_no_reads(void **state)
{
	(void)state;
	qp.attr.max_rd_atomic = 0;
	expect(IBV_WC_LOC_QP_OP_ERR);
	set_remote(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	expect(IBV_WC_LOC_QP_OP_ERR);
	set_remote(IBV_WR_RDMA_WRITE, 8);
	expect(IBV_WC_SUCCESS);
	set_remote(IBV_WR_RDMA_WRITE_WITH_IMM, 8);
	expect(IBV_WC_SUCCESS);
}

static const struct {
	enum ibv_wr_opcode opcode;
	uint32_t local, remote;
} rights[] = {
	{ IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ },
	{ IBV_WR_RDMA_WRITE, 0, IBV_ACCESS_REMOTE_WRITE },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, 0, IBV_ACCESS_REMOTE_WRITE },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC },
};

static void test_rights(void **state)
{
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		begin(state);
		set_remote(rights[i].opcode, 8);
		expect(IBV_WC_SUCCESS);
		assert_true(local_right == rights[i].local && right == rights[i].remote);
		valid = false;
		expect(IBV_WC_LOC_PROT_ERR);
		valid = true;
		assert_int_equal(told, 0);
	}
}

/* ---- what the target's tables refuse ---- */

static void expect_accused(uint32_t status, uint32_t fault)
{
	struct sv_rw_qp *its = &tables.rw.qp[INDEX];

	told = 0;
	its->fault = SV_FAULT_NONE;
	expect(status);
	assert_true(its->fault == fault && told == 1 && told_flags == SV_ATTN_FAULT);
	its->fault = SV_FAULT_QUIET; /* the first says why */
	expect(status);
	assert_int_equal(its->fault, SV_FAULT_QUIET);
	its->fault = SV_FAULT_NONE;
	qp.ib.qp_type = IBV_QPT_UC; /* nobody is told */
	told = 0;
	expect(status);
	assert_true(its->fault == SV_FAULT_NONE && told == 0);
	qp.ib.qp_type = IBV_QPT_RC;
}

static void test_accused(void **state)
{
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		begin(state);
		set_remote(rights[i].opcode, 8);
		ro.qp[INDEX].access = ACCESS & ~rights[i].remote;
		expect_accused(IBV_WC_REM_ACCESS_ERR, SV_FAULT_ACCESS);
		ro.qp[INDEX].access = rights[i].remote;
		refused = true;
		expect_accused(IBV_WC_REM_ACCESS_ERR, SV_FAULT_ACCESS);
		refused = false;
		ro.qp[INDEX].rd_atomic = 0;
		if (rights[i].remote == IBV_ACCESS_REMOTE_WRITE)
			expect(IBV_WC_SUCCESS);
		else
			expect_accused(IBV_WC_REM_INV_REQ_ERR, SV_FAULT_REQUEST);
		ro.qp[INDEX].rd_atomic = 1;
		wqe->remote_addr = AT + 4;
		if (rights[i].remote == IBV_ACCESS_REMOTE_ATOMIC)
			expect_accused(IBV_WC_REM_INV_REQ_ERR, SV_FAULT_REQUEST);
		else
			expect(IBV_WC_SUCCESS);
	}
}

/* No bytes are in no region. */
static void test_no_bytes(void **state)
{
	(void)state;
	refused = true;
	set_remote(IBV_WR_RDMA_READ, 0);
	expect(IBV_WC_SUCCESS);
	set_remote(IBV_WR_RDMA_WRITE, 0);
	expect(IBV_WC_SUCCESS);
	assert_true(!checks && !finds && !asks);
}

/* ---- mappings ---- */

static void test_transfers(void **state)
{
	uint8_t *at = memory + OFFSET, *in = (uint8_t *)wqe + offsetof(struct sv_wqe, data);
	uint64_t *word = (uint64_t *)(void *)at, old;

	(void)state;
	expect(IBV_WC_SUCCESS);
	assert_memory_equal(data, at, 100);
	memset(data, 0x66, 50);
	set_remote(IBV_WR_RDMA_WRITE, 50);
	expect(IBV_WC_SUCCESS);
	assert_memory_equal(at, data, 50);
	assert_int_equal(at[50], (uint8_t)((OFFSET + 50) * 13 + 5));
	set_remote(IBV_WR_RDMA_WRITE_WITH_IMM, 12);
	wqe->flags = IBV_SEND_INLINE;
	memcpy(in, "twelve bytes", 12);
	expect(IBV_WC_SUCCESS);
	assert_memory_equal(at, "twelve bytesf", 13);
	*word = 40;
	set_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	expect(IBV_WC_SUCCESS);
	memcpy(&old, data, 8);
	assert_true(*word == 47 && old == 40);
	*word = 7;
	set_remote(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	expect(IBV_WC_SUCCESS);
	memcpy(&old, data, 8);
	assert_true(*word == 8 && old == 7 && waits == 0 && asks == 0);
}

/* Of this process itself no mapping is needed. */
static void test_self(void **state)
{
	(void)state;
	peer.self = true;
	target.mem = 0;
	wqe->remote_addr = (uintptr_t)memory + 8;
	assert_int_equal(sv_fault_set("noncoherent=1"), 0);
	expect(IBV_WC_SUCCESS);
	assert_memory_equal(data, memory + 8, 100);
	set_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	wqe->remote_addr = (uintptr_t)memory;
	expect(IBV_WC_SUCCESS);
	assert_int_equal(sv_fault_set(NULL), 0);
	assert_int_equal(finds, 0);
}

static void expect_finds(enum ibv_wr_opcode opcode, uint32_t mem, int n)
{
	set_remote(opcode, 8);
	target.mem = mem;
	finds = 0;
	expect(IBV_WC_SUCCESS);
	assert_int_equal(finds, n);
	assert_true(!n || (find_mem == mem && find_write == (opcode != IBV_WR_RDMA_READ)));
}

/* One that may be written does for reads; four are remembered, in turn. */
static void test_hints(void **state)
{
	(void)state;
	expect_finds(IBV_WR_RDMA_READ, 1, 1);
	expect_finds(IBV_WR_RDMA_READ, 1, 0);
	expect_finds(IBV_WR_RDMA_WRITE, 1, 1);
	expect_finds(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	expect_finds(IBV_WR_RDMA_READ, 1, 0);
	expect_finds(IBV_WR_ATOMIC_CMP_AND_SWP, 2, 1);
	expect_finds(IBV_WR_RDMA_READ, 2, 0);
	expect_finds(IBV_WR_RDMA_READ, 3, 1);
	expect_finds(IBV_WR_RDMA_READ, 3, 0);
	expect_finds(IBV_WR_RDMA_WRITE, 1, 0);
	expect_finds(IBV_WR_RDMA_READ, 4, 1); /* instead of the first */
	expect_finds(IBV_WR_RDMA_READ, 1, 0);
	expect_finds(IBV_WR_RDMA_READ, 5, 1);
	expect_finds(IBV_WR_RDMA_WRITE, 1, 1);
	expect_finds(IBV_WR_RDMA_READ, 4, 0);
}

static void test_mapping_asked(void **state)
{
	uint32_t status = 99;

	(void)state;
	find_ret = EAGAIN;
	assert_int_equal(sv_exec_rdma(&qp, wqe, &status), SV_WAIT);
	assert_true(status == 0 && answer_waits == 1 && waits == 0 && wqe->stage == SV_STAGE_START);
	spent = true;
	expect(IBV_WC_RETRY_EXC_ERR);
	find_ret = 0;
	expect(IBV_WC_SUCCESS);
}

/* ---- asked of the target's process ---- */

static void expect_reply_wait(uint64_t ns)
{
	uint32_t status = 99;

	waits = 0;
	assert_int_equal(sv_exec_rdma(&qp, wqe, &status), SV_WAIT);
	assert_true(status == 0 && waits == 1 && why == SV_BLOCK_REPLY && for_ns == ns);
	assert_int_equal(wqe->stage, SV_STAGE_ASKED);
}

static void expect_slow(void)
{
	asks = 0;
	expect_reply_wait(10 * SECOND);
	assert_int_equal(asks, 1);
	assert_int_equal(asked.type, SV_MSG_ACCESS);
}

/* Memory that can't be mapped; tables that contradict the mapping; atomics that are not coherent. */
static void test_slow(void **state)
{
	(void)state;
	target.mem = 0;
	expect_slow();
	assert_int_equal(finds, 0);
	begin(state);
	find_ret = ENOTSUP;
	expect_slow();
	begin(state);
	mapping_bytes = OFFSET - 1;
	expect_slow();
	begin(state);
	mapping_bytes = OFFSET + 99;
	expect_slow();
	begin(state);
	mapping_bytes = OFFSET + 100;
	expect(IBV_WC_SUCCESS);
	begin(state);
	assert_int_equal(sv_fault_set("noncoherent=1"), 0);
	expect(IBV_WC_SUCCESS);
	set_remote(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	expect_slow();
	assert_int_equal(sv_fault_set("torn=1"), 0);
	set_remote(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	expect(IBV_WC_SUCCESS);
	assert_int_equal(sv_fault_set(NULL), 0);
}

static void check_part(uint64_t offset, uint32_t bytes, uint32_t stage)
{
	check_asked(&asked, AT + offset);
	assert_true(asked.offset == offset && asked.bytes == bytes && asked.stage == stage);
	assert_memory_equal(stages[stage], data + offset, bytes);
}

/* In parts, so many at a time; one that is answered makes room for the next. */
static void test_parts(void **state)
{
	const uint32_t bytes = 5 * SV_STAGE_BYTES + 10;
	static uint8_t much[6 * SV_STAGE_BYTES];

	(void)state;
	for (uint32_t i = 0; i < sizeof(much); i++)
		much[i] = (uint8_t)(i / 3 + i);
	target.mem = 0;
	set_remote(IBV_WR_RDMA_WRITE, bytes);
	wqe->sge[0].addr = (uintptr_t)much;
	qp.slow_open = 3; /* of one before */
	qp.slow_issued = 9;
	wqe->done = 9;
	expect_reply_wait(10 * SECOND);
	assert_true(asks == PARTS && stages_taken == PARTS && qp.slow_open == PARTS);
	assert_true(qp.slow_serial == SERIAL + 1 && qp.slow_issued == PARTS * SV_STAGE_BYTES && !wqe->done);
	check_asked(&asked, AT + 3 * SV_STAGE_BYTES);
	assert_true(asked.offset == 3 * SV_STAGE_BYTES && asked.bytes == SV_STAGE_BYTES);
	for (uint32_t i = 0; i < PARTS; i++)
		assert_memory_equal(stages[i], much + i * SV_STAGE_BYTES, SV_STAGE_BYTES);
	qp.slow_open -= 2;
	wqe->done = 2 * SV_STAGE_BYTES;
	qp.block = SV_BLOCK_ROOM;
	stages_taken = 0;
	expect_reply_wait(10 * SECOND);
	assert_true(asks == PARTS + 2 && asked.stage == 1 && qp.slow_issued == bytes);
	assert_true(asked.offset == 5 * SV_STAGE_BYTES && asked.bytes == 10);
	assert_memory_equal(stages[1], much + 5 * SV_STAGE_BYTES, 10);
	qp.slow_open = 0;
	wqe->done = bytes;
	expect(IBV_WC_SUCCESS);
	assert_true(asks == PARTS + 2 && checks == 1);
}

static void test_staged(void **state)
{
	uint8_t *in = (uint8_t *)wqe + offsetof(struct sv_wqe, data);

	(void)state;
	target.mem = 0;
	memset(stages, 0, sizeof(stages));
	expect_slow(); /* a READ stages nothing */
	assert_true(asked.bytes == 100 && stages[0][0] == 0);
	set_remote(IBV_WR_RDMA_WRITE_WITH_IMM, 200);
	qp.block = SV_BLOCK_NONE;
	expect_slow();
	check_part(0, 200, 1);
	set_remote(IBV_WR_RDMA_WRITE, 12);
	wqe->flags = IBV_SEND_INLINE;
	memcpy(in, "twelve bytes", 12);
	expect_slow();
	assert_memory_equal(stages[2], "twelve bytes", 13);
	set_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	wqe->flags = IBV_SEND_INLINE;
	expect_slow();
	assert_int_equal(stages[3][0], 0);
}

static void test_patience(void **state)
{
	(void)state;
	target.mem = 0;
	qp.budget_ns = 10 * SECOND + 1;
	expect_reply_wait(10 * SECOND + 1);
	expect(IBV_WC_RETRY_EXC_ERR); /* that time is over */
	assert_true(qp.slow_serial == SERIAL + 2 && asks == 1);
	qp.block = SV_BLOCK_ROOM;
	expect_reply_wait(10 * SECOND + 1); /* as something else moves it on */
}

/* Without a stage, or as its process takes no message, it comes again soon. */
static void test_no_stage(void **state)
{
	(void)state;
	target.mem = 0;
	stages_there = 0;
	expect_wait(SV_BLOCK_ROOM, MS);
	stages_there = SV_STAGES;
	ask_ret = EAGAIN;
	expect_wait(SV_BLOCK_ROOM, MS);
	assert_true(stages_taken == 0 && qp.slow_issued == 0 && qp.slow_open == 0 && asks == 0);
	ask_ret = 0;
	stages_there = 1;
	wqe->len = SV_STAGE_BYTES + 1;
	expect_slow();
	assert_true(asked.offset == 0 && qp.slow_open == 1);
}

/* ---- injected faults ---- */

/* Byte i of three elements that don't touch. */
static uint8_t *apart(int i)
{
	return data + (i < 4 ? i : i == 4 ? 20 : 35 + i);
}

/* The only bit of those ten bytes that is another; nothing beside them has changed. */
static int find_flipped(void)
{
	int found = -1;

	for (int i = 0; i < 10; i++) {
		unsigned int wrong = *apart(i) ^ memory[OFFSET + i];

		assert_true(!wrong || (found < 0 && __builtin_popcount(wrong) == 1));
		found = wrong ? i * 8 + __builtin_ctz(wrong) : found;
		*apart(i) = 0;
	}
	for (int i = 0; i < 50; i++)
		assert_int_equal(data[i], 0);
	assert_true(found >= 0);
	return found;
}

/* Each bit of what was read may be it, in whatever element. */
static void test_flipped(void **state)
{
	struct ibv_sge *sge = (struct ibv_sge *)(void *)((uint8_t *)wqe + offsetof(struct sv_wqe, sge));
	bool met[80] = { false };

	(void)state;
	assert_int_equal(sv_fault_set("flip=1000"), 0);
	memset(data, 0, 50);
	for (int round = 0; round < 2000; round++) {
		set_remote(IBV_WR_RDMA_READ, 10);
		wqe->nsge = 3;
		sge[0].length = 4;
		sge[1] = (struct ibv_sge){ (uintptr_t)apart(4), 1, 0 };
		sge[2] = (struct ibv_sge){ (uintptr_t)apart(5), 5, 0 };
		expect(IBV_WC_SUCCESS);
		met[find_flipped()] = true;
	}
	for (int i = 0; i < 80; i++)
		assert_true(met[i]);
	set_remote(IBV_WR_RDMA_READ, 0);
	expect(IBV_WC_SUCCESS);
	assert_int_equal(sv_fault_set("flip=1000,qp=5"), 0);
	set_remote(IBV_WR_RDMA_READ, 100);
	expect(IBV_WC_SUCCESS);
	assert_true(tears == 0 && !memcmp(data, memory + OFFSET, 100));
	assert_int_equal(sv_fault_set(NULL), 0);
}

static void test_torn(void **state)
{
	(void)state;
	assert_int_equal(sv_fault_set("torn=1000"), 0);
	expect(IBV_WC_SUCCESS);
	assert_true(tears == 1 && !memcmp(data, memory + OFFSET, 100));
	assert_int_equal(sv_fault_set("torn=1000,qp=5"), 0);
	expect(IBV_WC_SUCCESS);
	assert_int_equal(tears, 1);
	assert_int_equal(sv_fault_set(NULL), 0);
}

/* Applied, and nobody learns what was there. */
static void test_ack_lost(void **state)
{
	uint64_t *word = (uint64_t *)(void *)(memory + OFFSET);
	uint8_t before = data[0];

	(void)state;
	assert_int_equal(sv_fault_set("ack_lost=1000"), 0);
	set_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	*word = 1;
	expect(IBV_WC_RETRY_EXC_ERR);
	assert_true(*word == 8 && data[0] == before);
	target.mem = 0;
	expect_slow();
	wqe->done = 8;
	expect(IBV_WC_RETRY_EXC_ERR);
	set_remote(IBV_WR_RDMA_READ, 8);
	wqe->stage = SV_STAGE_ASKED;
	wqe->done = 8;
	expect(IBV_WC_SUCCESS);
	set_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	wqe->stage = SV_STAGE_ASKED;
	wqe->done = 8;
	assert_int_equal(sv_fault_set("ack_lost=1000,qp=5"), 0);
	expect(IBV_WC_SUCCESS);
	assert_int_equal(sv_fault_set(NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lengths),	 TEST(no_reads), TEST(rights),	      TEST(accused), TEST(no_bytes),
		TEST(transfers), TEST(self),	 TEST(hints),	      TEST(mapping_asked),
		TEST(slow),	 TEST(parts),	 TEST(staged),	      TEST(patience), TEST(no_stage),
		TEST(flipped),	 TEST(torn),	 TEST(ack_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
