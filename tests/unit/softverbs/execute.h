/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * execute.h -- a send queue: who executes its requests, what they wait for and who hears of it is
 * the test's.
 *
 * The program is linked with --wrap for all that is called here: each leaves a letter.
 */
#ifndef TESTS_UNIT_SOFTVERBS_EXECUTE_H
#define TESTS_UNIT_SOFTVERBS_EXECUTE_H

#include "kit.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/fail.h"
#include "common/softverbs/exec/remote.h"
#include "common/softverbs/exec/sq.h"
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/exec/wire.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/peer/peer.h"

#define REQUESTS 8u
#define INDEX 70u
#define US 1000ull
#define MS 1000000ull

static struct sv_proc proc;
static struct sv_ro_qp ro;
static struct sv_pd pd = { .id = 77 };
static struct sv_cq cq;
static struct sv_srq srq;
static struct sv_qp qp;
static struct sv_wqe wqes[REQUESTS];
static struct ibv_context context;
static struct sv_peer peer;

static char calls[64];
static enum sv_outcome outcome;
static uint32_t status, finished;
static bool spent, cut;
static int window_ret, refs;
static enum sv_branch_way way;
static uint32_t branch;
static uint64_t now_ns, waited_ns;
static enum ibv_event_type raised;
static void *raised_for;

static inline void called(char what)
{
	size_t n = strlen(calls);

	assert_true(n + 1 < sizeof(calls));
	assert_int_equal(qp.sq_lock.held, 1);
	calls[n] = what;
}

static inline enum sv_outcome executed(char what, struct sv_wqe *wqe, uint32_t *to)
{
	assert_ptr_equal(wqe, sv_wqe_at(&qp, qp.sq_head));
	assert_true(what == 'r' || wqe->opcode != IBV_WR_RDMA_WRITE_WITH_IMM ||
		    wqe->stage == SV_STAGE_WRITTEN);
	called(what);
	*to = outcome == SV_DONE ? status : 0;
	if (outcome == SV_WAIT)
		qp.block = SV_BLOCK_ROOM;
	return outcome;
}

static inline enum sv_outcome waited(char what, uint32_t *to)
{
	called(what);
	if (!spent)
		return SV_WAIT;
	*to = IBV_WC_RETRY_EXC_ERR;
	return SV_DONE;
}

enum sv_outcome __wrap_sv_exec_send(struct sv_qp *of, struct sv_wqe *wqe, uint32_t *to);
enum sv_outcome __wrap_sv_exec_dgram(struct sv_qp *of, struct sv_wqe *wqe, uint32_t *to);
enum sv_outcome __wrap_sv_exec_rdma(struct sv_qp *of, struct sv_wqe *wqe, uint32_t *to);
enum sv_outcome __wrap_sv_wait_peer(struct sv_qp *of, uint32_t *to);
enum sv_outcome __wrap_sv_wait_answer(struct sv_qp *of, uint32_t *to);
enum sv_outcome __wrap_sv_wait(struct sv_qp *of, enum sv_block block, uint64_t ns);
void __wrap_sv_sq_finish(struct sv_qp *of, uint32_t with);
void __wrap_sv_qp_fail_locked(struct sv_qp *of);
void __wrap_sv_wake_receiver(struct sv_qp *of);
void __wrap_sv_dgram_show(struct sv_dest *dest);
void __wrap_sv_async_raise(struct ibv_context *of, enum ibv_event_type type, void *obj,
			   _Atomic unsigned int *got);
void __wrap_sv_async_raise_device(struct ibv_context *of, enum ibv_event_type type);
enum sv_branch_way __wrap_sv_branch_select(struct sv_qp *of, uint32_t number);
void __wrap_sv_branch_accuse(struct sv_qp *of, uint32_t with);
int __wrap_sv_mw_bind(const struct sv_mw_bind *bind, uint32_t domain, uint32_t qpn);
int __wrap_sv_mw_invalidate(uint32_t rkey, uint32_t domain, uint32_t qpn);
bool __wrap_sv_device_is_cut(uint32_t index);
void __wrap_sv_fault_executed(uint32_t number);
struct sv_qp *__wrap_sv_qp_get(uint32_t index);
void __wrap_sv_qp_put(struct sv_qp *of);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

#define EXECUTE(name, letter)                                                                       \
	enum sv_outcome name(struct sv_qp *of, struct sv_wqe *wqe, uint32_t *to)                    \
	{                                                                                           \
		assert_ptr_equal(of, &qp);                                                          \
		return executed(letter, wqe, to);                                                   \
	}
EXECUTE(__wrap_sv_exec_send, 's')
EXECUTE(__wrap_sv_exec_dgram, 'd')
EXECUTE(__wrap_sv_exec_rdma, 'r')

#define WAIT(name, letter)                                                                          \
	enum sv_outcome name(struct sv_qp *of, uint32_t *to)                                        \
	{                                                                                           \
		assert_ptr_equal(of, &qp);                                                          \
		return waited(letter, to);                                                          \
	}
WAIT(__wrap_sv_wait_peer, 'p')
WAIT(__wrap_sv_wait_answer, 'a')

enum sv_outcome __wrap_sv_wait(struct sv_qp *of, enum sv_block block, uint64_t ns)
{
	assert_ptr_equal(of, &qp);
	called('w');
	qp.block = block;
	waited_ns = ns;
	return SV_WAIT;
}

void __wrap_sv_sq_finish(struct sv_qp *of, uint32_t with)
{
	called('.');
	finished = with;
	of->sq_count--;
	of->sq_head++;
	of->delayed = false;
	of->block = SV_BLOCK_NONE;
}

void __wrap_sv_qp_fail_locked(struct sv_qp *of)
{
	called('F');
	of->sq_count = 0;
	ro.state = IBV_QPS_ERR;
}

void __wrap_sv_wake_receiver(struct sv_qp *of)
{
	called('W');
	of->to_wake = false;
}

void __wrap_sv_dgram_show(struct sv_dest *dest)
{
	assert_ptr_equal(dest, &peer);
	called('S');
}

void __wrap_sv_async_raise(struct ibv_context *of, enum ibv_event_type type, void *obj,
			   _Atomic unsigned int *got)
{
	assert_ptr_equal(of, &context);
	assert_true(got == (obj == &qp.ib ? &qp.async_got : obj == &cq.ib ? &cq.async_got : &srq.async_got));
	called('e');
	raised = type;
	raised_for = obj;
}

void __wrap_sv_async_raise_device(struct ibv_context *of, enum ibv_event_type type)
{
	assert_ptr_equal(of, &context);
	called('e');
	raised = type;
	raised_for = NULL;
}

enum sv_branch_way __wrap_sv_branch_select(struct sv_qp *of, uint32_t number)
{
	assert_ptr_equal(of, &qp);
	called('b');
	branch = number;
	return way;
}

void __wrap_sv_branch_accuse(struct sv_qp *of, uint32_t with)
{
	assert_true(of == &qp && with == status);
	called('A');
}

int __wrap_sv_mw_bind(const struct sv_mw_bind *bind, uint32_t domain, uint32_t qpn)
{
	assert_true(bind == &wqes[qp.sq_head].bind && domain == 77 && qpn == qp.qpn);
	called('B');
	return window_ret;
}

int __wrap_sv_mw_invalidate(uint32_t rkey, uint32_t domain, uint32_t qpn)
{
	assert_true(rkey == 99 && domain == 77 && qpn == qp.qpn);
	called('I');
	return window_ret;
}

bool __wrap_sv_device_is_cut(uint32_t index)
{
	assert_int_equal(index, 0);
	return cut;
}

void __wrap_sv_fault_executed(uint32_t number)
{
	assert_int_equal(number, qp.fault_number);
	called('x');
}

struct sv_qp *__wrap_sv_qp_get(uint32_t index)
{
	assert_true(index < SV_QPS);
	refs += index == qp.index;
	return index == qp.index ? &qp : NULL;
}

void __wrap_sv_qp_put(struct sv_qp *of)
{
	assert_ptr_equal(of, &qp);
	refs--;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	ts->tv_sec = (time_t)(now_ns / 1000000000);
	ts->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

static inline int begin(void **state)
{
	(void)state;
	memset(&qp, 0, sizeof(qp));
	memset(wqes, 0, sizeof(wqes));
	memset(&proc, 0, sizeof(proc));
	sv_proc = &proc;
	ro.state = IBV_QPS_RTS;
	context.device = sv_device_at(0);
	peer = (struct sv_peer){ .state = SV_PEER_UP };
	qp.ro = &ro;
	qp.index = INDEX;
	qp.qpn = 0xb046;
	qp.peer = &peer;
	qp.ib.context = &context;
	qp.ib.pd = &pd.ib;
	qp.ib.send_cq = &cq.ib;
	qp.ib.qp_type = IBV_QPT_RC;
	qp.sq = (uint8_t *)wqes;
	qp.wqe_bytes = sizeof(wqes[0]);
	qp.serial = 1;
	outcome = SV_DONE;
	status = finished = 0;
	spent = cut = false;
	window_ret = 0;
	way = SV_WAY_OPEN;
	now_ns = 5000 * MS;
	return sv_fault_set(NULL);
}

static inline void add(enum ibv_wr_opcode opcode)
{
	struct sv_wqe *wqe = &wqes[qp.sq_head + qp.sq_count++];

	*wqe = (struct sv_wqe){ .opcode = (uint16_t)opcode, .remote_addr = (uintptr_t)&peer, .imm = 99 };
}

/* All that can be executed: these were called. */
static inline void expect(const char *expected)
{
	memset(calls, 0, sizeof(calls));
	sv_progress(&qp);
	assert_string_equal(calls, expected);
	assert_int_equal(qp.sq_lock.held, 0);
}

static inline void expect_one(enum ibv_wr_opcode opcode, const char *expected, uint32_t end)
{
	ro.state = IBV_QPS_RTS;
	qp.sq_head = qp.sq_count = 0;
	qp.block = SV_BLOCK_NONE;
	finished = 999;
	add(opcode);
	expect(expected);
	assert_int_equal(finished, end);
}

#endif
