/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.c -- messages: SEND, and the immediate of a WRITE.  Here is how they are sent,
 * in wire_recv.c how they are taken.
 *
 * Sender:	claim a receive credit, copy the payload into the receiver's ring,
 *		move its tail, mark the queue pair ready in its receive CQ, wake it if
 *		armed.  Then the request is done: the receiver need not run.
 * Receiver:	take records from the ring when its CQ is polled; each is checked
 *		against limits, since it is in memory that peers write.
 *
 * Credits.  The claim word of a receive queue holds how many receives were ever
 * claimed, and the last claimant with the number of its claim.  A claim is a CAS
 * on it, made only after the claim that it replaces was counted in its
 * claimant's own counter (sv_rw_qp.claimed), by the claimant or by the next one.
 * So counter and word together always say how many credits a sender has claimed,
 * also when it died between any two instructions; less what was received from it
 * they are lost, and given back (credit.c).  The counter goes up by compare-and-swap
 * from the number before, so help that comes late does nothing.
 *
 * After a claim the sender looks at the receiver's state again, and the receiver
 * counts after it changed its state (all seq_cst): a claim is either counted, or
 * given up and reported.
 *
 * No credit: receiver not ready; the request waits for the receiver's time and
 * tries as often as it may.  No room in the ring: the receiver's control thread is
 * asked to take messages, so a receiver that does not poll delays nobody; one that
 * is frozen holds up to 60 KiB or 256 messages per sender, then the sender waits,
 * for ever if rnr_retry is 7, or ROOM_BUDGET_NS.
 *
 * Message too long for the receive: the posted receives' smallest size is public.
 * A message that is no longer is done when pushed; a longer one when it was taken,
 * and until then the receiver can refuse it (sv_ro_qp.nak).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/fault.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/exec/credit.h"
#include "common/softverbs/exec/wire.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/peer/peer.h"

#define ROOM_STEP_NS 20000000u
#define ROOM_BUDGET_NS 5000000000u
#define RNR_STEADY_TRIES 16
#define RNR_MAX_NS 20000000u

static uint64_t rnr_ns(uint32_t timer)
{
	static const uint32_t hundredth_ms[32] = {
		65536, 1,   2,	 3,   4,    6,	  8,	12,   16,   24,	  32,
		48,    64,  96,	 128, 192,  256,  384,	512,  768,  1024, 1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return hundredth_ms[timer & 31] * 10000ull;
}

static enum sv_outcome wait_receiver(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t timer,
				     uint32_t *status)
{
	uint64_t ns = rnr_ns(timer);

	if (qp->attr.rnr_retry != 7 && wqe->rnr_tries >= qp->attr.rnr_retry) {
		*status = IBV_WC_RNR_RETRY_EXC_ERR;
		return SV_DONE;
	}
	if (wqe->rnr_tries < UINT8_MAX)
		wqe->rnr_tries++;
	/* For ever need not mean often. */
	for (int n = wqe->rnr_tries; n > RNR_STEADY_TRIES && ns < RNR_MAX_NS; n--)
		ns *= 2;
	return sv_wait(qp, SV_BLOCK_RNR, ns);
}

/* Looks how far the receiver is.  False: its counter can't be right. */
static bool update_room(struct sv_qp *qp)
{
	struct sv_rw_qp *rw = &qp->peer->rw->qp[sv_qpn_index(qp->peer_qpn)];
	/* acquire: what it has read may be written over; partner drain. */
	uint32_t head = atomic_load_explicit(&rw->head, memory_order_acquire);

	if (qp->tx_tail - head > SV_DESCS || qp->tx_tail - head > qp->tx_tail - qp->tx_head)
		return false;
	if (head != qp->tx_head) {
		qp->first_ns = 0;
		qp->pay_head = qp->pay_end[(head - 1) % SV_DESCS];
	}
	qp->tx_head = head;
	if (head == qp->tx_tail) /* start over: the first pages stay in the cache */
		qp->pay_head = qp->pay_tail = 0;
	return true;
}

/* Where a piece of that size goes: an offset, or -1. */
static int32_t find_room(struct sv_qp *qp, uint32_t bytes)
{
	uint32_t at = qp->pay_tail % SV_PAYLOAD_BYTES;
	uint32_t skip = at + bytes > SV_PAYLOAD_BYTES ? SV_PAYLOAD_BYTES - at : 0;

	if (qp->tx_tail - qp->tx_head >= SV_DESCS ||
	    qp->pay_tail + skip + bytes - qp->pay_head > SV_PAYLOAD_BYTES)
		return -1;
	qp->pay_tail += skip;
	return (int32_t)(qp->pay_tail % SV_PAYLOAD_BYTES);
}

static void ask_to_take(struct sv_qp *qp)
{
	uint32_t index = sv_qpn_index(qp->peer_qpn);
	_Atomic uint32_t *attention = &qp->peer->rw->qp[index].attention;

	if (!(atomic_load(attention) & SV_ATTN_DRAIN))
		sv_peer_attention(qp->peer, index, SV_ATTN_DRAIN);
}

/* Waits until the receiver takes something; it will ring.  SV_DONE with success:
 * it has, look again. */
static enum sv_outcome wait_room(struct sv_qp *qp, uint32_t *status)
{
	struct sv_rw_qp *rw = &qp->peer->rw->qp[sv_qpn_index(qp->peer_qpn)];
	uint64_t now = sv_now_ns();

	if (!qp->first_ns)
		qp->first_ns = now;
	if (qp->attr.rnr_retry != 7 && now - qp->first_ns > ROOM_BUDGET_NS) {
		*status = IBV_WC_RNR_RETRY_EXC_ERR;
		return SV_DONE;
	}
	atomic_store(&rw->tx_wait, 1);
	/* seq_cst: it took something before it could see that we wait. */
	if (atomic_load(&rw->head) != qp->tx_head)
		return SV_DONE;
	ask_to_take(qp);
	return sv_wait(qp, SV_BLOCK_ROOM, ROOM_STEP_NS);
}

static void fill_piece(struct sv_wqe *wqe, uint8_t *to, uint32_t bytes)
{
	if (wqe->flags & IBV_SEND_INLINE)
		memcpy(to, wqe->data + wqe->done, bytes);
	else
		sv_gather(wqe->sge, wqe->nsge, wqe->done, to, bytes, sv_copy_plain);
}

static void write_desc(struct sv_qp *qp, const struct sv_wqe *wqe, uint32_t place, uint32_t len)
{
	struct sv_desc *desc = &qp->tx->desc[qp->tx_tail % SV_DESCS];

	atomic_store_explicit(&desc->place, place, memory_order_relaxed);
	atomic_store_explicit(&desc->len, len, memory_order_relaxed);
	atomic_store_explicit(&desc->total, (uint32_t)wqe->len, memory_order_relaxed);
	atomic_store_explicit(&desc->imm, wqe->imm, memory_order_relaxed);
	qp->pay_end[qp->tx_tail % SV_DESCS] = qp->pay_tail;
	qp->tx_tail++;
	SV_SENT_TO_PEER(qp);
	/* release: the record and its payload; partner in drain. */
	atomic_store_explicit(&qp->peer->rw->qp[sv_qpn_index(qp->peer_qpn)].tail, qp->tx_tail,
			      memory_order_release);
}

/* Pushes one record.  False: no room. */
static bool push_piece(struct sv_qp *qp, struct sv_wqe *wqe, bool *last)
{
	bool write = wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	uint64_t left = write ? 0 : wqe->len - wqe->done;
	uint32_t bytes = left < SV_PIECE_BYTES ? (uint32_t)left : SV_PIECE_BYTES;
	uint32_t flags = 0;
	int32_t at = find_room(qp, bytes);

	if (at < 0)
		return false;
	if (!wqe->done)
		flags |= SV_DESC_FIRST;
	*last = left == bytes;
	if (*last)
		flags |= SV_DESC_LAST;
	if (wqe->opcode == IBV_WR_SEND_WITH_INV)
		flags |= SV_DESC_INV;
	else if (wqe->opcode != IBV_WR_SEND)
		flags |= SV_DESC_IMM;
	if (write)
		flags |= SV_DESC_WRITE;
	fill_piece(wqe, qp->tx->payload + at, bytes);
	qp->pay_tail += bytes;
	wqe->done += bytes;
	write_desc(qp, wqe, (uint32_t)at | flags << 16, bytes);
	return true;
}

/* Whoever polls finds it at once; who sleeps is woken behind the last of a doorbell's
 * messages, and not once for each of them, where it has to share a core. */
static void tell_receiver(struct sv_qp *qp, bool last, bool solicited)
{
	uint32_t index = sv_qpn_index(qp->peer_qpn);
	uint32_t cq = atomic_load_explicit(&qp->peer->ro->qp[index].cq, memory_order_relaxed);

	if (cq >= SV_CQS)
		return;
	sv_set_add(&qp->peer->rw->cq[cq].ready, index);
	qp->to_wake |= last;
	qp->to_wake_solicited |= last && solicited;
}

void sv_wake_peer(struct sv_peer *peer, uint32_t index, bool solicited)
{
	uint32_t cq = atomic_load_explicit(&peer->ro->qp[index].cq, memory_order_relaxed);
	struct sv_rw_cq *rw;
	uint32_t taken;

	if (cq >= SV_CQS)
		return;
	rw = &peer->rw->cq[cq];
	/* seq_cst: after the message is visible; partner sv_req_notify_cq(). */
	if (!sv_armed_take(rw, atomic_load(&rw->armed), solicited, &taken))
		return;
	sv_peer_notify(peer, index, cq);
	sv_armed_done(rw, taken);
}

void sv_wake_receiver(struct sv_qp *qp)
{
	bool solicited = qp->to_wake_solicited;

	qp->to_wake = qp->to_wake_solicited = false;
	sv_wake_peer(qp->peer, sv_qpn_index(qp->peer_qpn), solicited);
}

static uint32_t nak_status(struct sv_qp *qp)
{
	switch (atomic_load(&qp->peer->ro->qp[sv_qpn_index(qp->peer_qpn)].nak)) {
	case SV_NAK_LENGTH:
		return IBV_WC_REM_INV_REQ_ERR;
	case SV_NAK_LOCAL:
		return IBV_WC_REM_OP_ERR;
	default:
		return IBV_WC_SUCCESS;
	}
}

static uint32_t check_send(struct sv_qp *qp, const struct sv_wqe *wqe)
{
	uint32_t pd = sv_pd_of(qp->ib.pd)->id;

	if (wqe->len > SV_MAX_MSG_BYTES)
		return IBV_WC_LOC_LEN_ERR;
	return sv_sge_check(pd, wqe->sge, wqe->nsge, 0) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

static bool map_wire(struct sv_qp *qp)
{
	if (!qp->tx)
		qp->tx = sv_peer_wire(qp->peer, sv_qpn_index(qp->peer_qpn));
	return qp->tx;
}

/* From START (or WRITTEN) to CLAIMED; SV_DONE with success: claimed. */
static enum sv_outcome get_credit(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	uint32_t index = sv_qpn_index(qp->peer_qpn);
	const struct sv_ro_qp *ro = &qp->peer->ro->qp[index];
	uint32_t rq = atomic_load_explicit(&ro->rq, memory_order_relaxed);
	bool rnr = sv_qp_faulty(qp) && !wqe->rnr_tries &&
		   sv_fault_roll(&qp->rng, sv_faults.rnr, "rnr");

	if (rq >= SV_RQS)
		return sv_wait_peer(qp, status);
	if (rnr || !sv_credit_claim(qp->peer->ro, qp->peer->rw, rq, index))
		return wait_receiver(qp, wqe, atomic_load(&ro->rnr_timer), status);
	if (!sv_peer_ready(qp)) {
		sv_peer_attention(qp->peer, index, SV_ATTN_RECONCILE);
		return sv_wait_peer(qp, status);
	}
	if (wqe->len > atomic_load_explicit(&qp->peer->ro->rq[rq].min_len, memory_order_relaxed) &&
	    wqe->opcode != IBV_WR_RDMA_WRITE_WITH_IMM && !sv_qp_unreliable(qp))
		wqe->flags |= SV_SEND_ACKED;
	wqe->done = 0;
	wqe->stage = SV_STAGE_CLAIMED;
	return SV_DONE;
}

/* Makes room, or waits for it. */
static enum sv_outcome make_room(struct sv_qp *qp, uint32_t *status)
{
	uint32_t before = qp->tx_head;

	if (!update_room(qp)) {
		*status = IBV_WC_FATAL_ERR;
		return SV_DONE;
	}
	return qp->tx_head != before ? SV_DONE : wait_room(qp, status);
}

/* From CLAIMED to PUSHED. */
static enum sv_outcome push(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	bool last = false;

	while (!last) {
		if (push_piece(qp, wqe, &last))
			tell_receiver(qp, last, wqe->flags & IBV_SEND_SOLICITED);
		else if (make_room(qp, status) == SV_WAIT || *status)
			return *status ? SV_DONE : SV_WAIT;
	}
	wqe->stage = SV_STAGE_PUSHED;
	return SV_DONE;
}

/* The receiver was reset, or its index used again: its counters say nothing. */
static bool is_another(const struct sv_qp *qp)
{
	uint32_t gen = atomic_load(&qp->peer->ro->qp[sv_qpn_index(qp->peer_qpn)].gen);

	return gen && gen != qp->peer_gen;
}

/* From PUSHED until the receiver took it, or refused it. */
static enum sv_outcome until_taken(struct sv_qp *qp, uint32_t *status)
{
	while (!*status) {
		if (!sv_peer_up(qp->peer) || is_another(qp))
			return sv_wait_peer(qp, status);
		*status = update_room(qp) ? nak_status(qp) : IBV_WC_FATAL_ERR;
		if (*status || qp->tx_head == qp->tx_tail)
			break;
		if (!sv_peer_ready(qp))
			return sv_wait_peer(qp, status);
		if (wait_room(qp, status) == SV_WAIT)
			return SV_WAIT;
	}
	return SV_DONE;
}

/* The key that the peer is to invalidate, as its tables say: it has to be a window bound by way of
 * its queue pair.  The peer itself looks once more. */
static uint32_t check_invalidate(struct sv_qp *qp, uint32_t rkey)
{
	const struct sv_ro_mr *entry = &qp->peer->ro->mr[sv_key_place(rkey)];
	uint32_t index = sv_qpn_index(qp->peer_qpn), none = SV_FAULT_NONE;

	if (rkey && atomic_load_explicit(&entry->rkey, memory_order_acquire) == rkey &&
	    atomic_load_explicit(&entry->window, memory_order_acquire) == qp->peer_qpn)
		return IBV_WC_SUCCESS;
	atomic_compare_exchange_strong(&qp->peer->rw->qp[index].fault, &none, SV_FAULT_ACCESS);
	sv_peer_attention(qp->peer, index, SV_ATTN_FAULT);
	return IBV_WC_REM_ACCESS_ERR;
}

/* Up to PUSHED. */
static enum sv_outcome send_message(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	if (!sv_peer_ready(qp)) {
		if (sv_peer_up(qp->peer) && qp->peer_gen)
			*status = nak_status(qp);
		return *status ? SV_DONE : sv_wait_peer(qp, status);
	}
	if (!map_wire(qp))
		return sv_wait_peer(qp, status);
	if (wqe->opcode == IBV_WR_SEND_WITH_INV && wqe->stage < SV_STAGE_CLAIMED)
		*status = check_invalidate(qp, wqe->imm);
	if (*status)
		return SV_DONE;
	if (wqe->stage < SV_STAGE_CLAIMED && (get_credit(qp, wqe, status) == SV_WAIT || *status))
		return *status ? SV_DONE : SV_WAIT;
	return push(qp, wqe, status);
}

enum sv_outcome sv_exec_send(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	*status = wqe->stage == SV_STAGE_START ? check_send(qp, wqe) : IBV_WC_SUCCESS;
	if (*status)
		return SV_DONE;
	if (wqe->stage < SV_STAGE_PUSHED &&
	    (send_message(qp, wqe, status) == SV_WAIT || *status))
		return *status ? SV_DONE : SV_WAIT;
	return wqe->flags & SV_SEND_ACKED ? until_taken(qp, status) : SV_DONE;
}

void sv_wire_detach(struct sv_qp *qp)
{
	if (qp->tx)
		munmap(qp->tx, SV_WIRE_BYTES);
	qp->tx = NULL;
}
