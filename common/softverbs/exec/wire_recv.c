/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire_recv.c -- messages: how they are taken from a queue pair's ring.
 *
 * wire.c has the protocol.  Nothing in the ring is believed: its sender may be any
 * process of the user, and may have died in the middle of it.
 */
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/exec/wire.h"
#include "common/softverbs/exec/wire_recv.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/peer/peer.h"

struct record {
	uint32_t at, flags, len, total, imm;
};

static void fail_receive(struct sv_qp *qp, uint32_t nak, enum sv_fault_code code)
{
	qp->rx_closed = true;
	atomic_store(&qp->ro->nak, nak);
	sv_qp_fail_later(qp, code);
	if (qp->peer && sv_peer_up(qp->peer))
		sv_peer_attention(qp->peer, sv_qpn_index(qp->peer_qpn), SV_ATTN_PROGRESS);
}

static bool push_receive(struct sv_qp *qp, const struct record *rec, uint32_t status)
{
	struct sv_cq *cq = sv_cq_of(qp->ib.recv_cq);
	struct ibv_wc *wc = sv_cq_slot_locked(cq, qp, 0);

	qp->rx_partial = false;
	if (!wc)
		return false;
	wc->wr_id = qp->rx_wqe->wr_id;
	wc->status = (enum ibv_wc_status)status;
	wc->opcode = rec->flags & SV_DESC_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	wc->byte_len = rec->total;
	wc->qp_num = qp->ib.qp_num; /* of a hidden one the target's */
	wc->src_qp = qp->peer_qpn;
	if (rec->flags & SV_DESC_IMM) {
		wc->imm_data = rec->imm;
		wc->wc_flags = IBV_WC_WITH_IMM;
	} else if (rec->flags & SV_DESC_INV) {
		wc->invalidated_rkey = rec->imm;
		wc->wc_flags = IBV_WC_WITH_INV;
	}
	sv_cq_push_locked(cq);
	return true;
}

static void read_record(const struct sv_desc *desc, struct record *rec)
{
	uint32_t place = atomic_load_explicit(&desc->place, memory_order_relaxed);

	rec->at = place & 0xffff;
	rec->flags = place >> 16;
	rec->len = atomic_load_explicit(&desc->len, memory_order_relaxed);
	rec->total = atomic_load_explicit(&desc->total, memory_order_relaxed);
	rec->imm = atomic_load_explicit(&desc->imm, memory_order_relaxed);
}

/* Everything that must hold of a record, whoever wrote it. */
static bool plausible(const struct sv_qp *qp, const struct record *rec)
{
	bool first = rec->flags & SV_DESC_FIRST;
	uint32_t done = first ? 0 : qp->rx_done;

	if (rec->len > SV_PIECE_BYTES || rec->at + rec->len > SV_PAYLOAD_BYTES ||
	    rec->total > SV_MAX_MSG_BYTES || first == qp->rx_partial)
		return false;
	if (rec->flags & SV_DESC_WRITE)
		return first && rec->flags & SV_DESC_LAST && !rec->len;
	if (!first && rec->total != qp->rx_total)
		return false;
	return rec->len <= rec->total - done &&
	       !(rec->flags & SV_DESC_LAST) == (rec->len < rec->total - done);
}

static bool begin_message(struct sv_qp *qp, const struct record *rec)
{
	if (!sv_rq_pop(qp->rq, qp->rx_wqe))
		return false;
	sv_proc->seat[qp->index].received++;
	qp->rx_partial = true;
	qp->rx_done = 0;
	qp->rx_total = rec->total;
	return true;
}

static uint32_t check_receive(struct sv_qp *qp, const struct record *rec)
{
	if (rec->flags & SV_DESC_WRITE)
		return IBV_WC_SUCCESS;
	if (rec->total > qp->rx_wqe->len)
		return IBV_WC_LOC_LEN_ERR;
	if (!sv_sge_check(qp->rx_pd, qp->rx_wqe->sge, (int)qp->rx_wqe->nsge,
			  IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	return IBV_WC_SUCCESS;
}

/* Behind the whole message.  False: it isn't the sender's to end. */
static bool invalidate(struct sv_qp *qp, const struct record *rec)
{
	return !(rec->flags & SV_DESC_INV) ||
	       !sv_mw_invalidate(rec->imm, sv_pd_of(qp->ib.pd)->id, qp->qpn);
}

/* Takes one record, or closes the ring; returns how many completions it added. */
static int take_record(struct sv_qp *qp)
{
	struct record rec;
	uint32_t status;

	read_record(&qp->rx->desc[qp->rx_head % SV_DESCS], &rec);
	if (!plausible(qp, &rec) || (rec.flags & SV_DESC_FIRST && !begin_message(qp, &rec))) {
		fail_receive(qp, SV_NAK_LOCAL, SV_FAULT_FATAL);
		return 0;
	}
	if (rec.flags & SV_DESC_FIRST) {
		status = check_receive(qp, &rec);
		if (status) {
			bool pushed = push_receive(qp, &rec, status);
			fail_receive(qp, status == IBV_WC_LOC_LEN_ERR ? SV_NAK_LENGTH : SV_NAK_LOCAL,
				     SV_FAULT_QUIET);
			return pushed;
		}
	}
	if (!(rec.flags & SV_DESC_WRITE))
		sv_scatter(qp->rx_wqe->sge, (int)qp->rx_wqe->nsge, qp->rx_done,
			   qp->rx->payload + rec.at, rec.len, sv_copy_plain);
	qp->rx_done += rec.len;
	qp->rx_head++;
	if (!(rec.flags & SV_DESC_LAST))
		return 0;
	if (invalidate(qp, &rec) && push_receive(qp, &rec, IBV_WC_SUCCESS))
		return 1;
	fail_receive(qp, SV_NAK_LOCAL, SV_FAULT_FATAL);
	return 0;
}

int sv_wire_drain_locked(struct sv_qp *qp, int max, bool *again)
{
	/* acquire: partner write_desc(). */
	uint32_t tail = atomic_load_explicit(&qp->rw->tail, memory_order_acquire);
	int added = 0;

	if (sv_qp_datagram(qp))
		return sv_dgram_drain_locked(qp, max, again);
	SV_CAME_FROM_PEER(qp);
	*again = false;
	if (qp->rx_closed)
		return 0;
	if (tail - qp->rx_head > SV_DESCS) {
		fail_receive(qp, SV_NAK_LOCAL, SV_FAULT_FATAL);
		return 0;
	}
	while (qp->rx_head != tail && added < max) {
		added += take_record(qp);
		if (qp->rx_closed)
			return added;
	}
	*again = qp->rx_head != tail;
	/* seq_cst, against wait_room(): moved, then looks if the sender waits. */
	atomic_store(&qp->rw->head, qp->rx_head);
	if (atomic_load(&qp->rw->tx_wait) && atomic_exchange(&qp->rw->tx_wait, 0) && qp->peer &&
	    sv_peer_up(qp->peer))
		sv_peer_attention(qp->peer, sv_qpn_index(qp->peer_qpn), SV_ATTN_PROGRESS);
	return added;
}
