/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC sender at its branches: what of a connection stays with each of them, how it gets back to its
 * target, whose fault is told to that, and who hears of the end.
 */
#include "brancher.h"

/* ---- being at one ---- */

/* What the sender has there, other for each seed. */
static void use(uint32_t seed, struct sv_wire *wire)
{
	qp.tx = wire;
	qp.peer_gen = seed + 1;
	qp.tx_tail = seed + 2;
	qp.tx_head = seed + 3;
	qp.pay_tail = seed + 4;
	qp.pay_head = seed + 5;
	for (uint32_t i = 0; i < SV_DESCS; i++)
		qp.pay_end[i] = seed + 6 + i;
}

static void expect_use(uint32_t seed, const struct sv_wire *wire)
{
	assert_ptr_equal(qp.tx, wire);
	assert_int_equal(qp.peer_gen, seed + 1);
	assert_int_equal(qp.tx_tail, seed + 2);
	assert_int_equal(qp.tx_head, seed + 3);
	assert_int_equal(qp.pay_tail, seed + 4);
	assert_int_equal(qp.pay_head, seed + 5);
	for (uint32_t i = 0; i < SV_DESCS; i++)
		assert_int_equal(qp.pay_end[i], seed + 6 + i);
}

static void expect_unused(void)
{
	static const uint32_t none[SV_DESCS];

	assert_null(qp.tx);
	assert_true(!qp.peer_gen && !qp.tx_tail && !qp.tx_head && !qp.pay_tail && !qp.pay_head);
	assert_memory_equal(qp.pay_end, none, sizeof(none));
}

static void expect_at(uint32_t link, uint32_t qpn)
{
	static const struct sv_map_hint none[SV_MAP_HINTS];

	assert_true(qp.peer == &links[link] && qp.peer_qpn == qpn);
	assert_memory_equal(qp.hint, none, sizeof(none));
	assert_false(qp.awaits_link);
	assert_int_equal(rcq.lock.held, 0);
}

static void go(uint32_t number)
{
	memset(qp.hint, 0x77, sizeof(qp.hint));
	qp.awaits_link = true;
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_OPEN);
}

static void leave(void)
{
	memset(qp.hint, 0x77, sizeof(qp.hint));
	qp.awaits_link = true;
	sv_branch_leave(&qp);
}

/* Each branch has its own half of a connection, the target none. */
static void test_go(void **state)
{
	uint32_t first = join(SRQ(2, 1), 31), second = join(SRQ(3, 1), 32);

	(void)state;
	go(first);
	expect_at(2, SRQ(2, 31));
	expect_unused();
	use(1000, &wires[0]);
	go(second);
	expect_at(3, SRQ(3, 32));
	expect_unused();
	use(2000, &wires[1]);
	go(first);
	expect_at(2, SRQ(2, 31));
	expect_use(1000, &wires[0]);
	use(3000, &wires[0]);
	go(second);
	expect_use(2000, &wires[1]);
	go(first);
	expect_use(3000, &wires[0]);
	/* It is there already. */
	qp.hint[0].mem = 5;
	qp.tx_tail++;
	assert_int_equal(sv_branch_select(&qp, first), SV_WAY_OPEN);
	assert_int_equal(qp.hint[0].mem, 5);
	assert_int_equal(qp.tx_tail, 3003);
}

static void test_leave(void **state)
{
	uint32_t number = join(SRQ(2, 1), 31);

	(void)state;
	go(number);
	use(1000, &wires[0]);
	leave();
	expect_at(TARGET, TARGET_QPN);
	assert_null(qp.tx);
	go(number);
	expect_at(2, SRQ(2, 31));
	expect_use(1000, &wires[0]);
	leave();
	/* To another target, and one of any generation. */
	set_target(3, SRQ(3, 22), GEN + 1);
	go(number);
	expect_at(2, SRQ(2, 31));
	expect_use(1000, &wires[0]);
	leave();
	expect_at(3, SRQ(3, 22));
	leave(); /* it has no target by now */
	assert_true(qp.peer == &links[3] && qp.peer_qpn == SRQ(3, 22));
	assert_true(qp.awaits_link);
	set_target(TARGET, TARGET_QPN, GEN + 2);
	go(number);
	leave();
	expect_at(TARGET, TARGET_QPN);
}

/* Where it is at no branch there is nothing to put away. */
static void test_leave_target(void **state)
{
	(void)state;
	leave();
	assert_true(qp.peer == &links[TARGET] && qp.awaits_link);
	join(SRQ(2, 1), 31);
	use(1000, &wires[0]);
	leave();
	expect_at(TARGET, TARGET_QPN);
	assert_null(qp.tx);
}

static void is_at_target(void)
{
	assert_true(qp.peer == &links[TARGET] && qp.peer_qpn == TARGET_QPN);
}

/* Who receives sees the one peer or the other. */
static void test_receive_lock(void **state)
{
	uint32_t number = join(SRQ(2, 1), 31);

	(void)state;
	at_yield = is_at_target;
	hold(&rcq.lock);
	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_OPEN);
	assert_int_equal(yields, 1);
	expect_at(2, SRQ(2, 31));
}

/* ---- the target's fault ---- */

static void accuse(uint32_t status, uint32_t fault)
{
	_Atomic uint32_t *at = &rws[TARGET].qp[sv_qpn_index(TARGET_QPN)].fault;

	atomic_store(at, SV_FAULT_NONE);
	notices.n = 0;
	sv_branch_accuse(&qp, status);
	assert_int_equal(atomic_load(at), fault);
}

static void test_accuse(void **state)
{
	const uint32_t index = sv_qpn_index(TARGET_QPN);

	(void)state;
	accuse(IBV_WC_REM_ACCESS_ERR, SV_FAULT_NONE); /* it knows no branch */
	find(SRQ(2, 1));
	accuse(IBV_WC_REM_ACCESS_ERR, SV_FAULT_NONE); /* and has asked for none */
	assert_int_equal(notices.n, 0);
	go(join(SRQ(2, 1), 31));
	accuse(IBV_WC_REM_ACCESS_ERR, SV_FAULT_ACCESS);
	expect_notice(&links[TARGET], index, SV_ATTN_FAULT);
	accuse(IBV_WC_REM_INV_REQ_ERR, SV_FAULT_REQUEST);
	expect_notice(&links[TARGET], index, SV_ATTN_FAULT);
	sv_branch_accuse(&qp, IBV_WC_REM_ACCESS_ERR); /* it has failed already */
	assert_int_equal(atomic_load(&rws[TARGET].qp[index].fault), SV_FAULT_REQUEST);
	links[TARGET].state = SV_PEER_GONE;
	accuse(IBV_WC_REM_ACCESS_ERR, SV_FAULT_NONE);
	assert_int_equal(notices.n, 0);
}

/* ---- the end ---- */

static void forget(void)
{
	qp.sq_lock.held = 0;
	asks.n = 0;
	sv_branch_forget(&qp);
	assert_true(!qp.branches && !qp.sq_lock.held);
	for (uint32_t i = 0; i < LINKS; i++)
		assert_int_equal(refs[i], 0);
	assert_int_equal(blocks, 0);
	qp.sq_lock.held = 1;
}

/* Who made a queue pair for it is told, and the rings are mapped no more. */
static void test_forget(void **state)
{
	const struct sv_msg expected = { .type = SV_MSG_PART, .src_qpn = OWN_QPN, .index = 31 };
	uint32_t first = join(SRQ(2, 1), 31), second = join(OWN_SRQ(1), 32);

	(void)state;
	go(first);
	use(1000, &wires[0]);
	go(second);
	use(2000, &wires[1]);
	leave();
	forget();
	assert_int_equal(asks.n, 1);
	assert_ptr_equal(asks.peer, &links[2]);
	assert_memory_equal(&asks.msg, &expected, sizeof(expected));
	assert_true(parts.n == 1 && parts.sender_qpn == OWN_QPN && parts.index == 32);
	assert_true(unmapped[0] == 1 && unmapped[1] == 1 && unmapped[2] == 0);
	forget(); /* there is none any more */
	assert_true(asks.n == 0 && parts.n == 1);
}

/* Who made none has nothing to end, nor has one that is gone. */
static void test_forget_unmade(void **state)
{
	uint32_t asked = find(OWN_SRQ(1)), refused = find(OWN_SRQ(2));

	(void)state;
	find(OWN_SRQ(3));
	assert_int_equal(sv_branch_select(&qp, asked), SV_WAY_ASKED);
	assert_int_equal(sv_branch_select(&qp, refused), SV_WAY_ASKED);
	answer(refused, 7, EINVAL);
	join(SRQ(3, 1), 33);
	links[3].state = SV_PEER_GONE;
	forget();
	assert_true(asks.n == 0 && parts.n == 0);
	assert_true(!unmapped[0] && !unmapped[1] && !unmapped[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_go, begin, end),
		cmocka_unit_test_setup_teardown(test_leave, begin, end),
		cmocka_unit_test_setup_teardown(test_leave_target, begin, end),
		cmocka_unit_test_setup_teardown(test_receive_lock, begin, end),
		cmocka_unit_test_setup_teardown(test_accuse, begin, end),
		cmocka_unit_test_setup_teardown(test_forget, begin, end),
		cmocka_unit_test_setup_teardown(test_forget_unmade, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
