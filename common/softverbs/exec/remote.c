/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote.c -- RDMA READ, WRITE, compare-and-swap and fetch-and-add.
 *
 * Fast path: the initiator checks what the target's tables say at this moment
 * (queue pair's access flags, region's key, domain, bounds, rights) and then
 * copies from or to its own mapping of the target's memory.  The target executes
 * nothing; it may be stopped.
 *
 * Slow path: the target's memory can't be mapped (it is not of sv_mem_alloc()).
 * Its control thread does the access, in parts of SV_STAGE_BYTES that go through
 * memory staged by the initiator, up to PARTS_MAX of them at a time; the answers
 * come to the initiator's control thread.
 *
 * Failure: the initiator finds the error itself, or is told by the target; its
 * request ends with it and the target's queue pair is put in error too.
 */
#include <errno.h>
#include "common/softverbs/base/atomic.h"
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/fault.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/exec/remote.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/peer/peer.h"

#define PARTS_MAX 4
#define REPLY_MIN_NS 10000000000u
#define NO_STAGE_NS 1000000u

static bool is_atomic(const struct sv_wqe *wqe)
{
	return wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_write(const struct sv_wqe *wqe)
{
	return wqe->opcode == IBV_WR_RDMA_WRITE || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static uint32_t remote_right(const struct sv_wqe *wqe)
{
	if (is_atomic(wqe))
		return IBV_ACCESS_REMOTE_ATOMIC;
	return is_write(wqe) ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
}

static uint32_t check_local(const struct sv_qp *qp, const struct sv_wqe *wqe)
{
	uint32_t pd = sv_pd_of(qp->ib.pd)->id;

	if (wqe->len > SV_MAX_MSG_BYTES || (is_atomic(wqe) && wqe->len != sizeof(uint64_t)))
		return IBV_WC_LOC_LEN_ERR;
	if (!is_write(wqe) && !qp->attr.max_rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR;
	if (!sv_sge_check(pd, wqe->sge, wqe->nsge, is_write(wqe) ? 0 : IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	return IBV_WC_SUCCESS;
}

/* What the target's tables say. */
static uint32_t check_remote(const struct sv_qp *qp, const struct sv_wqe *wqe,
			     struct sv_target *target)
{
	const struct sv_ro_qp *ro = &qp->peer->ro->qp[sv_qpn_index(qp->peer_qpn)];
	uint32_t right = remote_right(wqe);

	if (!is_write(wqe) && !atomic_load_explicit(&ro->rd_atomic, memory_order_relaxed))
		return IBV_WC_REM_INV_REQ_ERR;
	if (is_atomic(wqe) && wqe->remote_addr % 8)
		return IBV_WC_REM_INV_REQ_ERR;
	if (!(atomic_load_explicit(&ro->access, memory_order_acquire) & right))
		return IBV_WC_REM_ACCESS_ERR;
	if (wqe->len && sv_mr_check(qp->peer->ro, wqe->rkey,
				    atomic_load_explicit(&ro->pd, memory_order_relaxed),
				    qp->peer_qpn, wqe->remote_addr, wqe->len, right, target))
		return IBV_WC_REM_ACCESS_ERR;
	return IBV_WC_SUCCESS;
}

static uint32_t accuse(struct sv_qp *qp, uint32_t status)
{
	uint32_t index = sv_qpn_index(qp->peer_qpn);
	uint32_t none = SV_FAULT_NONE;

	atomic_compare_exchange_strong(&qp->peer->rw->qp[index].fault, &none,
				       status == IBV_WC_REM_ACCESS_ERR ? SV_FAULT_ACCESS :
									 SV_FAULT_REQUEST);
	sv_peer_attention(qp->peer, index, SV_ATTN_FAULT);
	return status;
}

/* ---- fast path ---- */

static void fill_ask(const struct sv_qp *qp, const struct sv_wqe *wqe, struct sv_msg *msg)
{
	*msg = (struct sv_msg){ .index = sv_qpn_index(qp->peer_qpn), .src_qpn = qp->qpn,
				.opcode = wqe->opcode, .rkey = wqe->rkey,
				.addr = wqe->remote_addr, .serial = qp->slow_serial,
				.bytes64 = wqe->len, .compare_add = wqe->compare_add,
				.swap = wqe->swap };
}

static int ask_mapping(struct sv_qp *qp, const struct sv_wqe *wqe, uint32_t mem, bool write,
		       struct sv_map_hint *hint)
{
	struct sv_msg msg;

	fill_ask(qp, wqe, &msg);
	return sv_maps_find(&qp->peer->maps, qp->peer->watch.fd, &msg, mem, write, hint);
}

/* Where the target's bytes are here.  0, EAGAIN (asked for), or ENOTSUP. */
static int locate(struct sv_qp *qp, const struct sv_wqe *wqe, const struct sv_target *target,
		  uint8_t **at)
{
	bool write = is_write(wqe) || is_atomic(wqe);
	struct sv_map_hint *hint = qp->hint;
	int i, ret;

	if (qp->peer->self) {
		*at = (uint8_t *)(uintptr_t)wqe->remote_addr;
		return 0;
	}
	if (!target->mem)
		return ENOTSUP;
	for (i = 0; i < SV_MAP_HINTS; i++, hint++) {
		if (hint->mem == target->mem && hint->write >= write)
			break;
	}
	if (i == SV_MAP_HINTS) {
		hint = &qp->hint[qp->next_hint++ % SV_MAP_HINTS];
		ret = ask_mapping(qp, wqe, target->mem, write, hint);
		if (ret)
			return ret;
	}
	if (target->mem_offset > hint->size_bytes ||
	    wqe->len > hint->size_bytes - target->mem_offset)
		return ENOTSUP; /* its tables contradict each other */
	*at = hint->base + target->mem_offset;
	return 0;
}

static _Thread_local uint64_t *torn_rng;

static void copy_torn(void *dst, const void *src, size_t bytes)
{
	sv_fault_copy(dst, src, bytes, torn_rng);
}

static void flip_bit(struct sv_qp *qp, struct sv_wqe *wqe)
{
	uint64_t bit = sv_rng(&qp->rng) % (wqe->len * 8);

	for (int i = 0; i < wqe->nsge; i++) {
		if (bit / 8 < wqe->sge[i].length) {
			((uint8_t *)(uintptr_t)wqe->sge[i].addr)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			return;
		}
		bit -= wqe->sge[i].length * 8ull;
	}
}

static void do_read(struct sv_qp *qp, struct sv_wqe *wqe, const uint8_t *at)
{
	sv_copy_fn *copy = sv_copy_from_shared;
	bool faulty = sv_qp_faulty(qp);

	if (faulty && sv_fault_roll(&qp->rng, sv_faults.torn, "torn")) {
		torn_rng = &qp->rng;
		copy = copy_torn;
	}
	sv_scatter(wqe->sge, wqe->nsge, 0, at, (size_t)wqe->len, copy);
	if (faulty && sv_fault_roll(&qp->rng, sv_faults.flip, "flip"))
		flip_bit(qp, wqe);
}

static void do_write(struct sv_wqe *wqe, uint8_t *at)
{
	if (wqe->flags & IBV_SEND_INLINE)
		sv_copy_to_shared(at, wqe->data, (size_t)wqe->len);
	else
		sv_gather(wqe->sge, wqe->nsge, 0, at, (size_t)wqe->len, sv_copy_to_shared);
}

static uint32_t do_atomic(struct sv_qp *qp, struct sv_wqe *wqe, uint8_t *at)
{
	uint32_t device = sv_device_index(qp->ib.context->device);
	uint64_t old = sv_atomic_execute(device, at, wqe->opcode, wqe->compare_add, wqe->swap);

	if (sv_qp_faulty(qp) && sv_fault_roll(&qp->rng, sv_faults.ack_lost, "ack_lost"))
		return IBV_WC_RETRY_EXC_ERR;
	sv_scatter(wqe->sge, wqe->nsge, 0, &old, sizeof(old), sv_copy_plain);
	return IBV_WC_SUCCESS;
}

static uint32_t access_at(struct sv_qp *qp, struct sv_wqe *wqe, uint8_t *at)
{
	if (is_atomic(wqe))
		return do_atomic(qp, wqe, at);
	if (is_write(wqe))
		do_write(wqe, at);
	else if (wqe->len)
		do_read(qp, wqe, at);
	return IBV_WC_SUCCESS;
}

/* ---- slow path ---- */

/* Sends one part; 0 or an errno value. */
static int ask_part(struct sv_qp *qp, struct sv_wqe *wqe)
{
	uint64_t left = wqe->len - qp->slow_issued;
	struct sv_msg msg;
	uint8_t *data;
	int stage = sv_peer_stage_get(qp->peer, &data), ret;

	if (stage < 0)
		return EAGAIN;
	fill_ask(qp, wqe, &msg);
	msg.type = SV_MSG_ACCESS;
	msg.stage = (uint32_t)stage;
	msg.offset = qp->slow_issued;
	msg.addr += qp->slow_issued;
	msg.bytes = left < SV_STAGE_BYTES ? (uint32_t)left : SV_STAGE_BYTES;
	if (is_write(wqe) && wqe->flags & IBV_SEND_INLINE)
		sv_copy_plain(data, wqe->data + qp->slow_issued, msg.bytes);
	else if (is_write(wqe))
		sv_gather(wqe->sge, wqe->nsge, qp->slow_issued, data, msg.bytes, sv_copy_plain);
	ret = sv_peer_ask(qp->peer, &msg);
	if (ret) {
		sv_peer_stage_put(qp->peer, (uint32_t)stage);
		return ret;
	}
	qp->slow_issued += msg.bytes;
	qp->slow_open++;
	return 0;
}

static enum sv_outcome ask_more(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	uint64_t patience = qp->budget_ns < REPLY_MIN_NS ? REPLY_MIN_NS : qp->budget_ns;

	if (wqe->done == wqe->len) {
		/* As on the fast path: applied, and nobody learns what was there. */
		if (is_atomic(wqe) && sv_qp_faulty(qp) &&
		    sv_fault_roll(&qp->rng, sv_faults.ack_lost, "ack_lost"))
			*status = IBV_WC_RETRY_EXC_ERR;
		return SV_DONE;
	}
	if (qp->slow_open && qp->block == SV_BLOCK_REPLY) { /* its time is over */
		qp->slow_serial++;
		*status = IBV_WC_RETRY_EXC_ERR;
		return SV_DONE;
	}
	while (qp->slow_issued < wqe->len && qp->slow_open < PARTS_MAX && !ask_part(qp, wqe))
		;
	if (!qp->slow_open)
		return sv_wait(qp, SV_BLOCK_ROOM, NO_STAGE_NS);
	return sv_wait(qp, SV_BLOCK_REPLY, patience);
}

static enum sv_outcome go_slow(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	qp->slow_serial++;
	qp->slow_issued = 0;
	qp->slow_open = 0;
	wqe->done = 0;
	wqe->stage = SV_STAGE_ASKED;
	return ask_more(qp, wqe, status);
}

/* ---- both ---- */

enum sv_outcome sv_exec_rdma(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	struct sv_target target;
	uint8_t *at = NULL;
	int ret = 0;

	*status = wqe->stage == SV_STAGE_START ? check_local(qp, wqe) : IBV_WC_SUCCESS;
	if (*status)
		return SV_DONE;
	if (!sv_peer_ready(qp))
		return sv_wait_peer(qp, status);
	if (wqe->stage == SV_STAGE_ASKED)
		return ask_more(qp, wqe, status);
	*status = check_remote(qp, wqe, &target);
	if (*status) {
		if (!sv_qp_unreliable(qp))
			accuse(qp, *status);
		return SV_DONE;
	}
	if (is_atomic(wqe) && !qp->peer->self &&
	    atomic_load_explicit(&sv_faults_on, memory_order_acquire) && sv_faults.noncoherent)
		ret = ENOTSUP;
	else if (wqe->len)
		ret = locate(qp, wqe, &target, &at);
	if (ret == ENOTSUP)
		return go_slow(qp, wqe, status);
	if (ret)
		return sv_wait_answer(qp, status);
	*status = access_at(qp, wqe, at);
	return SV_DONE;
}
