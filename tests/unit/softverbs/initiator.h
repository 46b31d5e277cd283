/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator.h -- a connected queue pair whose requests the test executes one by one: its peer's
 * tables and ring, the clock, and whether there is any waiting are the test's.
 *
 * The program is linked with --wrap for all that is called here.
 */
#ifndef TESTS_UNIT_SOFTVERBS_INITIATOR_H
#define TESTS_UNIT_SOFTVERBS_INITIATOR_H

#include "kit.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/object/qp.h"
#include "common/softverbs/peer/peer.h"

#define OWN_QPN 0xb005u
#define INDEX 9u
#define PEER_QPN (2u << 12 | INDEX)
#define PD 77u
#define GEN 0x4711u
#define MS 1000000ull
#define SECOND 1000000000ull

static struct sv_proc proc;
static struct sv_pd pd = { .id = PD };
static struct sv_qp qp;
static struct sv_ro ro;
static struct {
	struct sv_rw rw;
	struct sv_rw_cq behind; /* the table of queues */
} tables;
static struct sv_peer peer;
static struct ibv_context context;

static struct {
	struct sv_wqe wqe;
	uint8_t room[1024]; /* of inline data, of more elements */
} request;
static struct sv_wqe *const wqe = &request.wqe;
static uint8_t data[70000];

typedef enum sv_outcome execute_fn(struct sv_qp *of, struct sv_wqe *what, uint32_t *status);
static execute_fn *execute;

static bool ready, valid;
static int looks_left; /* after so many looks it is ready no more; below 0: it stays so */
static uint32_t local_right; /* that was asked for */
static uint64_t now_ns;
static void (*at_clock)(void); /* what others do, once, while the time is read */
static int peer_waits, answer_waits, waits;
static bool spent; /* there is no waiting for the peer any more */
static enum sv_block why;
static uint64_t for_ns;
static int told;
static uint32_t told_flags;

bool __wrap_sv_peer_ready(struct sv_qp *of);
enum sv_outcome __wrap_sv_wait_peer(struct sv_qp *of, uint32_t *status);
enum sv_outcome __wrap_sv_wait_answer(struct sv_qp *of, uint32_t *status);
enum sv_outcome __wrap_sv_wait(struct sv_qp *of, enum sv_block block, uint64_t ns);
void __wrap_sv_peer_attention(struct sv_peer *at, uint32_t index, uint32_t flags);
bool __wrap_sv_sge_check(uint32_t of, const struct ibv_sge *sge, int nsge, uint32_t access);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

bool __wrap_sv_peer_ready(struct sv_qp *of)
{
	assert_ptr_equal(of, &qp);
	return ready && looks_left-- != 0;
}

static inline enum sv_outcome wait_for_peer(uint32_t *status)
{
	if (!spent)
		return SV_WAIT;
	*status = IBV_WC_RETRY_EXC_ERR;
	return SV_DONE;
}

enum sv_outcome __wrap_sv_wait_peer(struct sv_qp *of, uint32_t *status)
{
	assert_ptr_equal(of, &qp);
	peer_waits++;
	return wait_for_peer(status);
}

enum sv_outcome __wrap_sv_wait_answer(struct sv_qp *of, uint32_t *status)
{
	assert_ptr_equal(of, &qp);
	answer_waits++;
	return wait_for_peer(status);
}

enum sv_outcome __wrap_sv_wait(struct sv_qp *of, enum sv_block block, uint64_t ns)
{
	assert_ptr_equal(of, &qp);
	waits++;
	why = qp.block = block;
	for_ns = ns;
	return SV_WAIT;
}

void __wrap_sv_peer_attention(struct sv_peer *at, uint32_t index, uint32_t flags)
{
	assert_true(at == &peer && index == INDEX);
	atomic_fetch_or(&tables.rw.qp[index].attention, flags);
	told++;
	told_flags = flags;
}

bool __wrap_sv_sge_check(uint32_t of, const struct ibv_sge *sge, int nsge, uint32_t access)
{
	assert_true(of == PD && sge == wqe->sge && nsge == wqe->nsge);
	local_right = access;
	return valid;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	void (*run)(void) = at_clock;

	assert_int_equal(clock, CLOCK_MONOTONIC);
	at_clock = NULL;
	if (run)
		run();
	ts->tv_sec = (time_t)(now_ns / SECOND);
	ts->tv_nsec = (long)(now_ns % SECOND);
	return 0;
}

/* A request of one element, as it begins. */
static inline void set_request(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	memset(&request, 0, sizeof(request));
	wqe->opcode = (uint16_t)opcode;
	wqe->len = bytes;
	wqe->nsge = 1;
	wqe->sge[0] = (struct ibv_sge){ (uintptr_t)data, bytes, 0 };
}

static inline void initiator_begin(execute_fn *with)
{
	execute = with;
	memset(&qp, 0, sizeof(qp));
	memset(&tables.rw.qp[INDEX], 0, sizeof(tables.rw.qp[INDEX]));
	memset(&ro.qp[INDEX], 0, sizeof(ro.qp[INDEX]));
	peer = (struct sv_peer){ .state = SV_PEER_UP, .ro = &ro, .rw = &tables.rw };
	sv_proc = &proc;
	context.device = sv_device_at(0);
	qp.ib.context = &context;
	qp.ib.pd = &pd.ib;
	qp.ib.qp_type = IBV_QPT_RC;
	qp.qpn = OWN_QPN;
	qp.peer = &peer;
	qp.peer_qpn = PEER_QPN;
	qp.peer_gen = GEN;
	ro.qp[INDEX].gen = GEN;
	ready = valid = true;
	looks_left = -1;
	now_ns = 1000 * SECOND;
	at_clock = NULL;
	peer_waits = answer_waits = waits = told = 0;
	told_flags = local_right = 0;
	spent = false;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256 + 1);
}

static inline void expect(uint32_t expected)
{
	uint32_t status = 99;

	assert_int_equal(execute(&qp, wqe, &status), SV_DONE);
	assert_int_equal(status, expected);
}

static inline void expect_wait(enum sv_block block, uint64_t ns)
{
	int before = waits;
	uint32_t status = 99;

	assert_int_equal(execute(&qp, wqe, &status), SV_WAIT);
	assert_true(status == 0 && waits == before + 1 && why == block && for_ns == ns);
}

/* It waits for the peer as long as there is patience. */
static inline void expect_peer_wait(void)
{
	int before = peer_waits;
	uint32_t status = 99;

	assert_int_equal(execute(&qp, wqe, &status), SV_WAIT);
	assert_true(status == 0 && peer_waits == before + 1 && waits == 0);
	spent = true;
	expect(IBV_WC_RETRY_EXC_ERR);
	spent = false;
}

#endif
