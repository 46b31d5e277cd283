/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dgram_recv.c -- datagrams: how they are taken from a queue pair's pool.
 *
 * dgram.c has the protocol.  Nothing in the pool is believed: senders may be any process of
 * the user.  What is not for this queue pair (an earlier one of its number, another Q_Key, a group
 * that it is not in) is dropped.
 *
 * A receive begins with a GRH that says where the datagram came from.  (RoCE v2 between addresses
 * of IPv4 has an IPv4 header in the GRH's last 20 bytes.  There is no IP here, and UCX takes a
 * GRH for what it is only.)
 */
#include <arpa/inet.h>
#include <string.h>
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/credit.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/object/group.h"
#include "common/softverbs/object/mr.h"

#define GRH_BYTES 40u
#define HOP_LIMIT 64
#define NEXT_IS_BTH 0x1b

_Static_assert(sizeof(struct ibv_grh) == GRH_BYTES, "GRH size");

struct record {
	uint32_t len, src_qpn, qkey, imm, flags;
	union ibv_gid dgid;
};

/* ---- the pool ---- */

static void free_chunks(struct sv_pool *pool, uint32_t at, uint32_t n)
{
	for (uint32_t i = 0; i < n && at + i < SV_CHUNKS; i++)
		atomic_store(&pool->owner[at + i], 0);
}

/* Which of them came first. */
static uint32_t oldest(const struct sv_pool *pool, uint64_t full)
{
	uint32_t best = (uint32_t)__builtin_ctzll(full);
	uint32_t ticket = atomic_load_explicit(&pool->dgram[best].ticket, memory_order_relaxed);

	for (uint64_t rest = full & (full - 1); rest; rest &= rest - 1) {
		uint32_t at = (uint32_t)__builtin_ctzll(rest);
		uint32_t its = atomic_load_explicit(&pool->dgram[at].ticket, memory_order_relaxed);

		if ((int32_t)(its - ticket) < 0) {
			best = at;
			ticket = its;
		}
	}
	return best;
}

/* False: it is not for this queue pair, or makes no sense. */
static bool read_record(const struct sv_qp *qp, uint32_t at, struct record *rec)
{
	struct sv_dgram *dgram = &qp->pool->dgram[at];
	uint64_t dgid[2] = { atomic_load_explicit(&dgram->dgid[0], memory_order_relaxed),
			     atomic_load_explicit(&dgram->dgid[1], memory_order_relaxed) };

	rec->len = atomic_load_explicit(&dgram->len, memory_order_relaxed);
	rec->src_qpn = atomic_load_explicit(&dgram->src_qpn, memory_order_relaxed);
	rec->qkey = atomic_load_explicit(&dgram->qkey, memory_order_relaxed);
	rec->imm = atomic_load_explicit(&dgram->imm, memory_order_relaxed);
	rec->flags = atomic_load_explicit(&dgram->flags, memory_order_relaxed);
	memcpy(rec->dgid.raw, dgid, sizeof(rec->dgid.raw));
	return rec->len <= SV_DGRAM_BYTES && at + sv_chunks(rec->len) <= SV_CHUNKS &&
	       atomic_load_explicit(&dgram->gen, memory_order_relaxed) ==
		       atomic_load_explicit(&qp->ro->gen, memory_order_relaxed);
}

/* ---- receives ---- */

static void fill_grh(const struct record *rec, struct ibv_grh *grh)
{
	*grh = (struct ibv_grh){ .version_tclass_flow = htonl(6u << 28),
				 .paylen = htons((uint16_t)rec->len),
				 .next_hdr = NEXT_IS_BTH,
				 .hop_limit = HOP_LIMIT,
				 .dgid = rec->dgid };
	/* The sender is of this host, and so has that address too. */
	grh->sgid = rec->dgid;
	if (sv_gid_is_group(rec->dgid.raw))
		sv_gid_get(0, rec->flags & SV_DGRAM_GID1 ? 1 : 0, grh->sgid.raw);
}

static bool complete(struct sv_qp *qp, const struct record *rec, uint32_t status)
{
	struct sv_cq *cq = sv_cq_of(qp->ib.recv_cq);
	struct ibv_wc *wc = sv_cq_slot_locked(cq, qp, 0);

	if (!wc)
		return false;
	wc->wr_id = qp->rx_wqe->wr_id;
	wc->status = (enum ibv_wc_status)status;
	wc->opcode = IBV_WC_RECV;
	wc->byte_len = rec->len + GRH_BYTES;
	wc->qp_num = qp->qpn;
	wc->src_qp = rec->src_qpn;
	wc->wc_flags = IBV_WC_GRH;
	if (rec->flags & SV_DGRAM_IMM) {
		wc->imm_data = rec->imm;
		wc->wc_flags |= IBV_WC_WITH_IMM;
	}
	sv_cq_push_locked(cq);
	return true;
}

static void fail(struct sv_qp *qp, enum sv_fault_code code)
{
	qp->rx_closed = true;
	sv_qp_fail_later(qp, code);
}

/* A receive for it is in rx_wqe.  Completions added. */
static int deliver(struct sv_qp *qp, uint32_t at, const struct record *rec)
{
	const struct sv_rwqe *rwqe = qp->rx_wqe;
	uint32_t status = IBV_WC_SUCCESS;
	struct ibv_grh grh;

	if (rec->len + GRH_BYTES > rwqe->len)
		status = IBV_WC_LOC_LEN_ERR;
	else if (!sv_sge_check(qp->rx_pd, rwqe->sge, (int)rwqe->nsge, IBV_ACCESS_LOCAL_WRITE))
		status = IBV_WC_LOC_PROT_ERR;
	if (!status) {
		fill_grh(rec, &grh);
		sv_scatter(rwqe->sge, (int)rwqe->nsge, 0, &grh, GRH_BYTES, sv_copy_plain);
		sv_scatter(rwqe->sge, (int)rwqe->nsge, GRH_BYTES,
			   qp->pool->payload + (size_t)at * SV_CHUNK_BYTES, rec->len, sv_copy_plain);
	}
	if (!complete(qp, rec, status)) {
		fail(qp, SV_FAULT_FATAL);
		return 0;
	}
	if (status)
		fail(qp, SV_FAULT_QUIET);
	return 1;
}

/* False: it was sent to a group that the queue pair has left. */
static bool is_addressed(struct sv_qp *qp, const struct record *rec)
{
	return !sv_gid_is_group(rec->dgid.raw) || *sv_attached_find(qp, rec->dgid.raw);
}

static int use_receive(struct sv_qp *qp, uint32_t at, const struct record *rec)
{
	if (!sv_credit_claim(sv_proc->ro, sv_proc->rw, qp->rq->index, qp->index)) {
		atomic_fetch_add(&qp->rw->dropped, 1);
		return 0;
	}
	sv_proc->seat[qp->index].received++;
	return sv_rq_pop(qp->rq, qp->rx_wqe) ? deliver(qp, at, rec) : 0;
}

/* Takes the one at this chunk; completions added. */
static int take(struct sv_qp *qp, uint32_t at)
{
	struct record rec;
	int added = 0;

	/* Before the chunks are free, and before a receive is claimed: partner has_receive(). */
	atomic_fetch_and(&qp->pool->full, ~(1ull << at));
	if (!read_record(qp, at, &rec)) {
		free_chunks(qp->pool, at, sv_chunks(rec.len > SV_DGRAM_BYTES ? 0 : rec.len));
		return 0;
	}
	if (rec.qkey != atomic_load_explicit(&qp->ro->qkey, memory_order_relaxed))
		atomic_fetch_add(&sv_proc->bad_qkeys, 1);
	else if (is_addressed(qp, &rec))
		added = use_receive(qp, at, &rec);
	free_chunks(qp->pool, at, sv_chunks(rec.len));
	atomic_fetch_add(&qp->rw->head, 1);
	return added;
}

int sv_dgram_drain_locked(struct sv_qp *qp, int max, bool *again)
{
	/* seq_cst, acquire: partner show_one() in dgram.c. */
	uint64_t full = atomic_load(&qp->pool->full) & ((1ull << SV_CHUNKS) - 1);
	int added = 0;

	while (full && added < max && !qp->rx_closed) {
		uint32_t at = oldest(qp->pool, full);

		full &= ~(1ull << at);
		added += take(qp, at);
	}
	*again = full && !qp->rx_closed;
	return added;
}

/* ---- senders that are gone ---- */

/* The chunks of datagrams that are there. */
static uint64_t chunks_in_use(const struct sv_pool *pool)
{
	uint64_t full = atomic_load(&pool->full), used = 0;

	for (; full; full &= full - 1) {
		uint32_t at = (uint32_t)__builtin_ctzll(full);
		uint32_t len = at < SV_CHUNKS ? atomic_load(&pool->dgram[at].len) : 0;

		for (uint32_t i = 0; i < sv_chunks(len < SV_DGRAM_BYTES ? len : SV_DGRAM_BYTES); i++)
			used |= at + i < 64 ? 1ull << (at + i) : 0;
	}
	return used;
}

static void free_of(struct sv_pool *pool, uint64_t incarnation)
{
	uint64_t used = chunks_in_use(pool);

	for (uint32_t i = 0; i < SV_CHUNKS; i++) {
		uint64_t owner = atomic_load(&pool->owner[i]);

		if (owner && owner >> 24 == (incarnation & (UINT64_MAX >> 24)) && !(used >> i & 1))
			atomic_compare_exchange_strong(&pool->owner[i], &owner, 0);
	}
}

void sv_dgram_sender_gone(uint64_t incarnation)
{
	for (uint32_t i = 1; i < SV_QPS; i++) {
		struct sv_qp *qp = sv_qp_get(i);

		if (!qp)
			continue;
		if (sv_qp_datagram(qp)) {
			sv_qp_lock_receive(qp);
			free_of(qp->pool, incarnation);
			sv_qp_unlock_receive(qp);
		}
		sv_qp_put(qp);
	}
}
