/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the control thread does for queue pairs: which call each bit of an attention word makes, what
 * a fault becomes, what is done for whom when a link ends or a mapping does, and under which lock.
 *
 * The program is linked with --wrap for all that is called: each leaves a letter.
 */
#include "kit.h"
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/attend.h"
#include "common/softverbs/exec/credit.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/fail.h"
#include "common/softverbs/exec/serve.h"
#include "common/softverbs/exec/wire_recv.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/peer/peer.h"

#define LAST (SV_QPS - 1)
#define MEM 5u

static struct sv_proc proc;
static struct sv_ro ro;
static struct sv_rw rw;
static struct sv_cq cq;
static struct sv_qp qps[SV_QPS];
static bool there[SV_QPS];
static struct sv_peer peer, other;
static char calls[64];
static enum ibv_event_type raised;
static int refs;
static void (*attend)(uint32_t index);
static uint64_t (*run_due)(void);
static const struct sv_peer_hooks *hooks;

static struct {
	uint32_t index, serial, status, bytes;
	uint64_t offset, result;
	void *data;
} answer;
static struct sv_peer *moved_on;

void __wrap_sv_peer_on_event(const struct sv_peer_hooks *to);
void __wrap_sv_ctl_on_attention(void (*to)(uint32_t index));
void __wrap_sv_ctl_on_timer(uint64_t (*run)(void));
struct sv_qp *__wrap_sv_qp_get(uint32_t index);
void __wrap_sv_qp_put(struct sv_qp *qp);
void __wrap_sv_qp_fail_locked(struct sv_qp *qp);
void __wrap_sv_async_raise(struct ibv_context *context, enum ibv_event_type type, void *obj,
			   _Atomic unsigned int *got);
int __wrap_sv_wire_drain_locked(struct sv_qp *qp, int max, bool *again);
void __wrap_sv_qp_reclaim_locked(struct sv_qp *qp);
void __wrap_sv_seat_reclaim(uint32_t index);
void __wrap_sv_cq_ring_channel(struct sv_cq *of);
void __wrap_sv_serve_join_own(struct sv_qp *qp);
void __wrap_sv_progress(struct sv_qp *qp);
void __wrap_sv_progress_locked(struct sv_qp *qp);
void __wrap_sv_qp_close_ring_locked(struct sv_qp *qp);
uint64_t __wrap_sv_progress_blocked(struct sv_cq *of, struct sv_peer *to);
void __wrap_sv_slow_answer(uint32_t index, uint32_t serial, uint32_t status, uint64_t offset, uint64_t result,
			   void *data, uint32_t bytes);

void __wrap_sv_peer_on_event(const struct sv_peer_hooks *to)
{
	hooks = to;
}

void __wrap_sv_ctl_on_attention(void (*to)(uint32_t index))
{
	attend = to;
}

void __wrap_sv_ctl_on_timer(uint64_t (*run)(void))
{
	run_due = run;
}

static void called(char what, const struct sv_qp *qp, bool sends, bool receives)
{
	size_t n = strlen(calls);

	assert_true(n + 1 < sizeof(calls) && refs == 1);
	assert_true(qp->sq_lock.held == sends && cq.lock.held == receives);
	calls[n] = what;
}

struct sv_qp *__wrap_sv_qp_get(uint32_t index)
{
	assert_true(index && index < SV_QPS);
	refs += there[index];
	return there[index] ? &qps[index] : NULL;
}

void __wrap_sv_qp_put(struct sv_qp *qp)
{
	assert_true(!qp->sq_lock.held && !cq.lock.held);
	refs--;
}

void __wrap_sv_qp_fail_locked(struct sv_qp *qp)
{
	called('f', qp, true, false);
	qp->flushed = true;
}

void __wrap_sv_async_raise(struct ibv_context *context, enum ibv_event_type type, void *obj,
			   _Atomic unsigned int *got)
{
	struct sv_qp *qp = sv_qp_of(obj);

	assert_true(context == qp->ib.context && got == &qp->async_got);
	called('e', qp, false, false);
	raised = type;
}

int __wrap_sv_wire_drain_locked(struct sv_qp *qp, int max, bool *again)
{
	assert_true(max == SV_DESCS && again);
	called('d', qp, false, true);
	return 0;
}

void __wrap_sv_qp_reclaim_locked(struct sv_qp *qp)
{
	called('r', qp, false, true);
}

void __wrap_sv_seat_reclaim(uint32_t index)
{
	assert_true(index == 7 && !refs);
	strcat(calls, "s");
}

void __wrap_sv_cq_ring_channel(struct sv_cq *of)
{
	assert_ptr_equal(of, &cq);
	strcat(calls, "n");
}

void __wrap_sv_serve_join_own(struct sv_qp *qp)
{
	called('j', qp, false, false);
}

void __wrap_sv_progress(struct sv_qp *qp)
{
	called('p', qp, false, false);
}

void __wrap_sv_progress_locked(struct sv_qp *qp)
{
	called('P', qp, true, false);
}

void __wrap_sv_qp_close_ring_locked(struct sv_qp *qp)
{
	assert_int_equal(qp->ro->dest_qpn, 0); /* nobody sends any more */
	called('c', qp, true, true);
}

uint64_t __wrap_sv_progress_blocked(struct sv_cq *of, struct sv_peer *to)
{
	assert_null(of);
	moved_on = to;
	strcat(calls, "b");
	return 12345;
}

void __wrap_sv_slow_answer(uint32_t index, uint32_t serial, uint32_t status, uint64_t offset, uint64_t result,
			   void *data, uint32_t bytes)
{
	answer.index = index;
	answer.serial = serial;
	answer.status = status;
	answer.offset = offset;
	answer.result = result;
	answer.data = data;
	answer.bytes = bytes;
}

static struct ibv_comp_channel channel;

static void add(uint32_t index, struct sv_peer *to)
{
	there[index] = true;
	qps[index] = (struct sv_qp){ .index = index, .ro = &ro.qp[index], .rw = &rw.qp[index], .peer = to };
	qps[index].ib.recv_cq = &cq.ib;
	qps[index].attr.qp_state = IBV_QPS_RTS;
	ro.qp[index].dest_qpn = 77;
}

static int begin(void **state)
{
	(void)state;
	memset(there, 0, sizeof(there));
	memset(&rw.qp[7], 0, sizeof(rw.qp[7]));
	memset(calls, 0, sizeof(calls));
	sv_proc = &proc;
	proc.ro = &ro;
	proc.rw = &rw;
	cq = (struct sv_cq){ .index = 4 };
	cq.ib.channel = &channel;
	rw.cq[4].armed = rw.cq[4].pending = 0;
	refs = 0;
	add(7, &peer);
	sv_attend_start();
	return 0;
}

/* These were called, in this order, and all is given back. */
static void check_calls(const char *expected)
{
	assert_string_equal(calls, expected);
	assert_true(refs == 0 && !cq.lock.held && !qps[7].sq_lock.held);
	memset(calls, 0, sizeof(calls));
}

/* ---- attention words ---- */

static void expect_calls(uint32_t flags, const char *expected)
{
	rw.qp[7].attention = flags;
	attend(7);
	assert_int_equal(rw.qp[7].attention, 0);
	check_calls(expected);
}

static void test_words(void **state)
{
	(void)state;
	expect_calls(0, "");
	expect_calls(SV_ATTN_DRAIN, "d");
	expect_calls(SV_ATTN_RECONCILE, "");
	expect_calls(SV_ATTN_NOTIFY, "n");
	expect_calls(SV_ATTN_JOIN, "j");
	expect_calls(SV_ATTN_PROGRESS, "p");
	expect_calls(SV_ATTN_FAULT, "");
	qps[7].rx_closed = true; /* what it claimed is counted */
	expect_calls(SV_ATTN_RECONCILE, "r");
	expect_calls(SV_ATTN_DRAIN, "dr");
	expect_calls(SV_ATTN_NOTIFY, "n");
	rw.qp[7].fault = SV_FAULT_ACCESS;
	expect_calls(63, "fedrnjp");
}

/* The queue pair has left: only claims are counted. */
static void test_empty_seat(void **state)
{
	(void)state;
	there[7] = false;
	expect_calls(63, "s");
	expect_calls(63 & ~(uint32_t)SV_ATTN_RECONCILE, "");
	expect_calls(SV_ATTN_RECONCILE, "s");
}

static void expect_fault(uint32_t code, const char *expected, enum ibv_event_type type)
{
	qps[7].flushed = false;
	rw.qp[7].fault = code;
	expect_calls(SV_ATTN_FAULT, expected);
	assert_int_equal(rw.qp[7].fault, SV_FAULT_NONE);
	assert_true(!strchr(expected, 'e') || raised == type);
}

static void test_faults(void **state)
{
	(void)state;
	expect_fault(SV_FAULT_ACCESS, "fe", IBV_EVENT_QP_ACCESS_ERR);
	expect_fault(SV_FAULT_REQUEST, "fe", IBV_EVENT_QP_REQ_ERR);
	expect_fault(SV_FAULT_FATAL, "fe", IBV_EVENT_QP_FATAL);
	expect_fault(999, "fe", IBV_EVENT_QP_FATAL);
	expect_fault(SV_FAULT_QUIET, "f", 0);
	qps[7].hidden = true; /* nobody knows it */
	expect_fault(SV_FAULT_ACCESS, "f", 0);
	qps[7].hidden = false;
	qps[7].attr.qp_state = IBV_QPS_RTR;
	expect_fault(SV_FAULT_ACCESS, "fe", IBV_EVENT_QP_ACCESS_ERR);
	qps[7].attr.qp_state = IBV_QPS_INIT; /* it was reset since */
	expect_fault(SV_FAULT_ACCESS, "", 0);
	qps[7].attr.qp_state = IBV_QPS_ERR;
	qps[7].flushed = true;
	rw.qp[7].fault = SV_FAULT_ACCESS;
	expect_calls(SV_ATTN_FAULT, "");
}

/* ---- links ---- */

static void expect_event(uint32_t armed, uint32_t pending, uint32_t then)
{
	rw.cq[4].armed = armed;
	rw.cq[4].pending = pending;
	hooks->gone(&peer);
	check_calls("cnP");
	assert_true(rw.cq[4].armed == 0 && rw.cq[4].pending == then);
}

/* Who died may have taken the armed word, and counted no event or rung none. */
static void test_gone(void **state)
{
	(void)state;
	expect_event(SV_ARMED_ANY, 0, 1);
	expect_event(SV_ARMED_TAKEN | 1024, 1, 2);
	expect_event(1024, 1, 1);
	expect_event(0, 0, 1);
	assert_int_equal(ro.qp[7].dest_qpn, 0);
	cq.ib.channel = NULL;
	rw.cq[4].armed = SV_ARMED_ANY;
	hooks->gone(&peer);
	check_calls("cP");
	assert_true(rw.cq[4].armed == SV_ARMED_ANY && rw.cq[4].pending == 1);
}

/* All that were connected to it, and no others. */
static void test_whose(void **state)
{
	(void)state;
	add(1, &peer);
	add(6, &other);
	add(8, NULL);
	add(LAST, &peer);
	hooks->gone(&peer);
	check_calls("cnPcnPcnP");
	assert_true(!ro.qp[1].dest_qpn && !ro.qp[7].dest_qpn && !ro.qp[LAST].dest_qpn);
	assert_true(ro.qp[6].dest_qpn == 77 && ro.qp[8].dest_qpn == 77);
}

static void set_hints(struct sv_qp *qp)
{
	for (uint32_t h = 0; h < SV_MAP_HINTS; h++)
		qp->hint[h] = (struct sv_map_hint){ h % 2 ? MEM + h : MEM, true, (uint8_t *)qp, 9 };
	qp->next_hint = MEM; /* behind the last */
}

static void check_hints(const struct sv_qp *qp, bool forgotten)
{
	for (uint32_t h = 0; h < SV_MAP_HINTS; h++) {
		const struct sv_map_hint *hint = &qp->hint[h];

		if (forgotten && h % 2 == 0)
			assert_true(!hint->mem && !hint->write && !hint->base && !hint->size_bytes);
		else
			assert_true(hint->mem == (h % 2 ? MEM + h : MEM) && hint->base);
	}
	assert_int_equal(qp->next_hint, MEM);
}

static struct sv_qp *held;
static int yields;

int __wrap_sched_yield(void);

/* Who uses the mapping lets go of the lock. */
int __wrap_sched_yield(void)
{
	assert_non_null(held);
	check_hints(held, false);
	held->sq_lock.held = 0;
	yields++;
	return 0;
}

static void test_unmapped(void **state)
{
	static const uint32_t indices[] = { 1, 6, 7, LAST };

	(void)state;
	add(1, &peer);
	add(6, &other);
	add(LAST, &peer);
	for (int i = 0; i < 4; i++)
		set_hints(&qps[indices[i]]);
	held = &qps[7];
	held->sq_lock.held = 1; /* one is in use: it is waited for */
	yields = 0;
	hooks->unmapped(&peer, MEM);
	assert_int_equal(yields, 1);
	for (int i = 0; i < 4; i++)
		check_hints(&qps[indices[i]], indices[i] != 6);
	check_calls("");
}

/* ---- what is passed on ---- */

static void test_passed_on(void **state)
{
	struct sv_msg msg = { .src_qpn = 0x5007, .serial = 3, .status = 4, .offset = 5, .swap = 6, .bytes = 8 };

	(void)state;
	hooks->answered(&msg, &msg);
	assert_true(answer.index == 7 && answer.serial == 3 && answer.status == 4 && answer.offset == 5);
	assert_true(answer.result == 6 && answer.bytes == 8 && answer.data == &msg);
	hooks->progress(&peer);
	assert_ptr_equal(moved_on, &peer);
	check_calls("b");
	assert_int_equal(run_due(), 12345);
	assert_null(moved_on);
	check_calls("b");
	assert_true(hooks->joined == sv_branch_answered);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(words), TEST(empty_seat), TEST(faults),	TEST(gone),
		TEST(whose), TEST(unmapped),   TEST(passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
