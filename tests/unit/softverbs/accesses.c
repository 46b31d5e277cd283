/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses that the control thread does for another process: which bytes, under which lock, what is
 * refused, and whose queue pair fails.
 */
#include "asked.h"

/* The question, with what came of it. */
static void check_answer(int fd, const struct sv_msg *msg, uint32_t status, uint64_t result)
{
	struct sv_msg expected = *msg, answer;

	expected.type = SV_MSG_ACCESS_OK;
	expected.status = status;
	expected.swap = result;
	assert_int_equal(ask(fd, msg, &answer), 0);
	assert_memory_equal(&answer, &expected, sizeof(answer));
}

static void check_copy(int fd, uint32_t opcode, uint32_t number, uint32_t bytes)
{
	struct sv_msg msg = question(SV_MSG_ACCESS, opcode);
	uint8_t *part_of = stage + (size_t)number * SV_STAGE_BYTES, *here = memory + sizeof(memory) - bytes;
	bool read = opcode == IBV_WR_RDMA_READ;

	msg.stage = number;
	msg.bytes = bytes;
	msg.addr = (uintptr_t)here;
	memset(memory, 1, sizeof(memory));
	memset(stage, 2, SV_STAGES * SV_STAGE_BYTES);
	check_answer(fd, &msg, 0, 0);
	check_calls(read ? "r" : "w");
	for (uint32_t i = 0; i < bytes; i++)
		assert_true(here[i] == part_of[i] && here[i] == (read ? 1 : 2));
	assert_true(bytes == sizeof(memory) || here[-1] == 1);
	assert_true(bytes == SV_STAGE_BYTES || part_of[bytes] == 2);
	assert_true(number == 0 || stage[0] == 2);
}

static void test_copies(void **state)
{
	int fd = greet_staged();

	(void)state;
	check_copy(fd, IBV_WR_RDMA_READ, 0, 8);
	check_copy(fd, IBV_WR_RDMA_READ, SV_STAGES - 1, SV_STAGE_BYTES);
	check_copy(fd, IBV_WR_RDMA_WRITE, 1, 9);
	check_copy(fd, IBV_WR_RDMA_WRITE_WITH_IMM, SV_STAGES - 1, SV_STAGE_BYTES);
	close(fd);
}

static void test_atomics(void **state)
{
	static const uint32_t opcodes[] = { IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct sv_msg msg;
	int fd = greet_staged();

	(void)state;
	for (int i = 0; i < 2; i++) {
		msg = question(SV_MSG_ACCESS, opcodes[i]);
		msg.addr += 8;
		msg.compare_add = 5;
		msg.swap = 6;
		check_answer(fd, &msg, 0, WAS);
		check_calls("a");
		assert_true(asked_last.addr == msg.addr && asked_last.opcode == opcodes[i]);
		assert_true(asked_last.compare_add == 5 && asked_last.swap == 6);
		assert_int_equal(device, DEVICE);
	}
	bare_proc.seat[INDEX].qp = NULL; /* it is being destroyed */
	check_answer(fd, &msg, 0, WAS);
	check_calls("a");
	assert_int_equal(device, 0);
	close(fd);
}

/* No stage, none of that number, more than one takes. */
static void test_beside_stages(void **state)
{
	struct sv_msg msg = question(SV_MSG_ACCESS, IBV_WR_RDMA_READ);

	(void)state;
	check_cut(greet(INCARNATION), &msg, 0, "gA");
	msg.stage = SV_STAGES;
	check_cut(greet_staged(), &msg, 0, "gA");
	msg.stage = 0;
	msg.bytes = SV_STAGE_BYTES + 1;
	check_cut(greet_staged(), &msg, 0, "gA");
}

/* ---- refusals ---- */

static int asker; /* with a stage */

static void check_refused(const struct sv_msg *msg, uint32_t status)
{
	uint32_t code = status == IBV_WC_REM_ACCESS_ERR ? SV_FAULT_ACCESS : SV_FAULT_REQUEST;

	fault = 0;
	check_answer(asker, msg, status, msg->swap);
	check_calls(status == IBV_WC_REM_ABORT_ERR ? "" : "F");
	assert_int_equal(fault, status == IBV_WC_REM_ABORT_ERR ? 0 : code);
	fill_tables();
}

static void check_allowed(uint32_t opcode)
{
	struct sv_msg msg = question(SV_MSG_ACCESS, opcode);

	check_copy(asker, opcode, 0, msg.bytes);
	fill_tables();
}

/* The queue pair isn't connected to the asker's, or not any more. */
static void test_not_connected(void **state)
{
	struct sv_msg msg = question(SV_MSG_ACCESS, IBV_WR_RDMA_WRITE);

	(void)state;
	asker = greet_staged();
	for (uint32_t to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
		ro->state = to;
		if (to >= IBV_QPS_RTR && to <= IBV_QPS_SQE)
			check_allowed(IBV_WR_RDMA_WRITE);
		else
			check_refused(&msg, IBV_WC_REM_ABORT_ERR);
	}
	msg.src_qpn++;
	check_refused(&msg, IBV_WC_REM_ABORT_ERR);
	msg.src_qpn = sv_qpn(OTHER + 1, 12);
	ro->dest_qpn = msg.src_qpn; /* another process's */
	check_refused(&msg, IBV_WC_REM_ABORT_ERR);
	msg = question(SV_MSG_ACCESS, IBV_WR_RDMA_WRITE);
	bare_ro.qp[0] = *ro;
	msg.index = SV_QPS;
	check_refused(&msg, IBV_WC_REM_ABORT_ERR);
	msg.index = INDEX + SV_QPS;
	check_refused(&msg, IBV_WC_REM_ABORT_ERR);
	close(asker);
}

/* ---- rights ---- */

/* What lets it: the queue pair, and the region. */
static void test_rights(void **state)
{
	static const uint32_t rights[] = { READ, WRITE, WRITE, ATOMIC, ATOMIC };
	static const uint32_t opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
					    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };

	(void)state;
	asker = greet_staged();
	for (int i = 0; i < 5; i++) {
		struct sv_msg msg = question(SV_MSG_ACCESS, opcodes[i]);

		ro->access = ~rights[i];
		check_refused(&msg, IBV_WC_REM_ACCESS_ERR);
		mr->access = ~rights[i];
		check_refused(&msg, IBV_WC_REM_ACCESS_ERR);
		ro->rd_atomic = 0;
		if (rights[i] == WRITE)
			check_allowed(opcodes[i]);
		else
			check_refused(&msg, IBV_WC_REM_INV_REQ_ERR);
	}
	ro->access = mr->access = READ;
	check_allowed(IBV_WR_RDMA_READ);
	ro->access = mr->access = WRITE;
	check_allowed(IBV_WR_RDMA_WRITE);
	close(asker);
}

static void test_region(void **state)
{
	struct sv_msg msg = question(SV_MSG_ACCESS, IBV_WR_RDMA_READ);

	(void)state;
	asker = greet_staged();
	ro->pd++;
	check_refused(&msg, IBV_WC_REM_ACCESS_ERR);
	msg.rkey++;
	check_refused(&msg, IBV_WC_REM_ACCESS_ERR);
	msg.rkey--;
	mr->window = sv_qpn(BARE_SLOT, INDEX + 1); /* another queue pair's */
	check_refused(&msg, IBV_WC_REM_ACCESS_ERR);
	mr->window = sv_qpn(BARE_SLOT, INDEX);
	check_allowed(IBV_WR_RDMA_READ);
	mr->length = 8;
	mr->addr += sizeof(memory) - 8;
	check_allowed(IBV_WR_RDMA_READ);
	mr->length = 7;
	check_refused(&msg, IBV_WC_REM_ACCESS_ERR);
	close(asker);
}

static void test_words(void **state)
{
	struct sv_msg msg = question(SV_MSG_ACCESS, IBV_WR_ATOMIC_FETCH_AND_ADD);

	(void)state;
	asker = greet_staged();
	msg.addr++;
	check_refused(&msg, IBV_WC_REM_INV_REQ_ERR);
	msg.addr += 7;
	msg.bytes = 7;
	check_refused(&msg, IBV_WC_REM_INV_REQ_ERR);
	msg.bytes = 16;
	check_refused(&msg, IBV_WC_REM_INV_REQ_ERR);
	msg.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	check_refused(&msg, IBV_WC_REM_INV_REQ_ERR);
	close(asker);
}

/* A reliable one that is still there. */
static void test_who_fails(void **state)
{
	struct sv_msg msg = question(SV_MSG_ACCESS, IBV_WR_RDMA_READ);

	(void)state;
	asker = greet_staged();
	msg.rkey++;
	qp.ib.qp_type = IBV_QPT_UC;
	check_answer(asker, &msg, IBV_WC_REM_ACCESS_ERR, 0);
	qp.ib.qp_type = IBV_QPT_XRC_RECV;
	check_refused(&msg, IBV_WC_REM_ACCESS_ERR);
	bare_proc.seat[INDEX].qp = NULL;
	check_answer(asker, &msg, IBV_WC_REM_ACCESS_ERR, 0);
	close(asker);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(copies), TEST(atomics), TEST(beside_stages), TEST(not_connected),
		TEST(rights), TEST(region),  TEST(words),	  TEST(who_fails),
	};

	sv_accept_bounded(-1); /* it opens its reserve */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
