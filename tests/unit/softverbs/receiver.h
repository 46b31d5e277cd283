/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * receiver.h -- a queue pair that receives: its receives, its completions, the rights to its memory and
 * what its peer is told are the test's.
 *
 * The program is linked with --wrap for all that is called here.
 */
#ifndef TESTS_UNIT_SOFTVERBS_RECEIVER_H
#define TESTS_UNIT_SOFTVERBS_RECEIVER_H

#include "kit.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/wire_recv.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/object/qp.h"
#include "common/softverbs/peer/peer.h"

#define INDEX 9u
#define OWN_QPN (11u << 12 | INDEX)
#define SHOWN_QPN (11u << 12 | 8u) /* the program's, of a hidden one */
#define PEER_INDEX 21u
#define PEER_QPN (2u << 12 | PEER_INDEX)
#define RECEIVE_PD 77u
#define OWN_PD 78u
#define LKEY 0x8899u
#define COMPLETIONS 64

static struct sv_proc proc;
static struct sv_ro ro;
static struct sv_rw rw;
static struct sv_peer peer;
static struct sv_pd pd = { .id = OWN_PD };
static struct sv_cq cq;
static struct sv_qp qp;
static alignas(8) uint8_t receive[sizeof(struct sv_rwqe) + SV_MAX_SGE * sizeof(struct ibv_sge)];
static struct sv_rwqe *const rwqe = (struct sv_rwqe *)(void *)receive;
static uint8_t mem[70000];

static uint64_t popped; /* receives are numbered from 1 */
static int receives;	/* so many are there */
static uint32_t receive_bytes;
static struct ibv_wc wcs[COMPLETIONS];
static int completions, room;
static bool valid, again;
static int faults, notices;
static enum sv_fault_code fault;

struct ibv_wc *__wrap_sv_cq_slot_locked(struct sv_cq *of, struct sv_qp *for_qp, uint64_t sq_upto);
void __wrap_sv_cq_push_locked(struct sv_cq *of);
void __wrap_sv_qp_fail_later(struct sv_qp *of, enum sv_fault_code code);
bool __wrap_sv_rq_pop(struct sv_rq *rq, struct sv_rwqe *out);
bool __wrap_sv_sge_check(uint32_t of, const struct ibv_sge *sge, int nsge, uint32_t access);
void __wrap_sv_peer_attention(struct sv_peer *at, uint32_t index, uint32_t flags);

struct ibv_wc *__wrap_sv_cq_slot_locked(struct sv_cq *of, struct sv_qp *for_qp, uint64_t sq_upto)
{
	assert_true(of == &cq && for_qp == &qp && sq_upto == 0 && cq.lock.held);
	if (completions == room)
		return NULL;
	memset(&wcs[completions], 0, sizeof(wcs[0]));
	return &wcs[completions];
}

void __wrap_sv_cq_push_locked(struct sv_cq *of)
{
	assert_ptr_equal(of, &cq);
	completions++;
}

void __wrap_sv_qp_fail_later(struct sv_qp *of, enum sv_fault_code code)
{
	assert_ptr_equal(of, &qp);
	faults++;
	fault = code;
}

bool __wrap_sv_rq_pop(struct sv_rq *rq, struct sv_rwqe *out)
{
	assert_true(rq == &qp.own_rq && out == rwqe);
	if (!receives)
		return false;
	receives--;
	out->wr_id = ++popped;
	out->len = receive_bytes;
	out->nsge = 1;
	out->sge[0] = (struct ibv_sge){ (uintptr_t)mem, receive_bytes, LKEY };
	return true;
}

bool __wrap_sv_sge_check(uint32_t of, const struct ibv_sge *sge, int nsge, uint32_t access)
{
	assert_true(of == RECEIVE_PD && sge == rwqe->sge && nsge == 1);
	assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE);
	return valid;
}

void __wrap_sv_peer_attention(struct sv_peer *at, uint32_t index, uint32_t flags)
{
	assert_true(at == &peer && index == PEER_INDEX && flags == SV_ATTN_PROGRESS);
	notices++;
}

static inline void receiver_begin(enum ibv_qp_type type)
{
	memset(&qp, 0, sizeof(qp));
	memset(&cq, 0, sizeof(cq));
	memset(&ro, 0, sizeof(ro));
	memset(&rw, 0, sizeof(rw));
	memset(receive, 0, sizeof(receive));
	memset(mem, 0, sizeof(mem));
	memset(&proc, 0, sizeof(proc));
	proc.ro = &ro;
	proc.rw = &rw;
	sv_proc = &proc;
	peer = (struct sv_peer){ .state = SV_PEER_UP };
	cq.lock.held = 1;
	qp.ib.qp_type = type;
	qp.ib.recv_cq = &cq.ib;
	qp.ib.pd = &pd.ib;
	qp.ib.qp_num = SHOWN_QPN;
	qp.index = INDEX;
	qp.qpn = OWN_QPN;
	qp.ro = &ro.qp[INDEX];
	qp.rw = &rw.qp[INDEX];
	qp.peer = &peer;
	qp.peer_qpn = PEER_QPN;
	qp.rx_pd = RECEIVE_PD;
	qp.rx_wqe = rwqe;
	qp.rq = &qp.own_rq;
	qp.own_rq.index = INDEX;
	popped = 0;
	receives = 20;
	receive_bytes = 5000;
	completions = faults = notices = 0;
	room = COMPLETIONS;
	valid = true;
}

/* Up to max of them; whether more are there is in `again`. */
static inline int drain(int max, bool before)
{
	again = before;
	return sv_wire_drain_locked(&qp, max, &again);
}

static inline uint32_t received(void)
{
	return proc.seat[INDEX].received;
}

/* It fails so, and takes nothing from now on. */
static inline void expect_failed(enum sv_fault_code code)
{
	assert_true(faults == 1 && fault == code);
	assert_true(qp.rx_closed);
}

#endif
