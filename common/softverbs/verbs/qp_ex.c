/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp_ex.c -- extended queue pairs, whose requests are built call by call.
 *
 * A queue pair of sv_create_qp_ex() has a draft: the requests begun since
 * ibv_wr_start(), as ibv_post_send() would take them.  ibv_wr_complete() posts
 * all of it or nothing.  The draft has a lock of its own, held from start to
 * complete as the interface wants it, so the queue itself goes on meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/object/qp.h"
#include "common/softverbs/softverbs.h"
#include "common/softverbs/verbs/xrc.h"
#include "common/softverbs/verbs/post.h"

struct sv_draft {
	struct sv_spin lock;
	uint32_t begun;
	int err; /* of the first call that failed */
	uint32_t max_wr, max_sge, max_inline;
	struct ibv_send_wr *wr; /* max_wr, and one for what is too much */
	struct ibv_sge *sge;	/* max_sge for each */
	uint8_t *data;		/* max_inline for each */
};

static struct sv_draft *draft_of(struct ibv_qp_ex *ex)
{
	return sv_qp_of(&ex->qp_base)->draft;
}

static void fail(struct sv_draft *draft, int err)
{
	if (!draft->err)
		draft->err = err;
}

static struct ibv_send_wr *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct sv_draft *draft = draft_of(ex);
	struct ibv_send_wr *wr;

	if (draft->begun >= draft->max_wr) {
		fail(draft, ENOMEM);
		draft->begun = draft->max_wr;
	}
	wr = &draft->wr[draft->begun++];
	wr->wr_id = ex->wr_id;
	wr->next = NULL;
	wr->num_sge = 0;
	wr->wr.ud.ah = NULL;
	wr->opcode = opcode;
	wr->send_flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE;
	return wr;
}

/* The request that the setters are about; NULL: there is none. */
static struct ibv_send_wr *current(struct sv_draft *draft)
{
	if (!draft->begun) {
		fail(draft, EINVAL);
		return NULL;
	}
	return &draft->wr[draft->begun - 1];
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct sv_draft *draft = draft_of(ex);

	sv_spin_lock(&draft->lock);
	draft->begun = 0;
	draft->err = 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct sv_draft *draft = draft_of(ex);
	int ret = draft->err;

	if (!ret && draft->begun)
		ret = sv_post_all(sv_qp_of(&ex->qp_base), draft->wr, draft->begun);
	sv_spin_unlock(&draft->lock);
	return ret;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	sv_spin_unlock(&draft_of(ex)->lock);
}

static void wr_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
		    uint64_t remote_addr, __be32 imm)
{
	struct ibv_send_wr *wr = begin(ex, opcode);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = remote_addr;
	wr->imm_data = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm)
{
	wr_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	begin(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_ATOMIC_CMP_AND_SWP);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = add;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct ibv_send_wr *wr = current(draft_of(ex));

	if (!wr)
		return;
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = remote_qpn;
	wr->wr.ud.remote_qkey = remote_qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct ibv_send_wr *wr = current(draft_of(ex));

	if (wr)
		wr->qp_type.xrc.remote_srqn = remote_srqn;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct sv_draft *draft = draft_of(ex);
	struct ibv_send_wr *wr = current(draft);

	if (!wr)
		return;
	if (n > draft->max_sge) {
		fail(draft, EINVAL);
		return;
	}
	wr->sg_list = draft->sge + (size_t)(wr - draft->wr) * draft->max_sge;
	wr->num_sge = (int)n;
	if (n)
		memcpy(wr->sg_list, list, n * sizeof(*list));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct sv_draft *draft = draft_of(ex);
	struct ibv_send_wr *wr = current(draft);
	size_t bytes = 0;
	uint8_t *data;

	if (!wr)
		return;
	data = draft->data + (size_t)(wr - draft->wr) * draft->max_inline;
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > draft->max_inline - bytes) {
			fail(draft, EINVAL);
			return;
		}
		memcpy(data + bytes, list[i].addr, list[i].length);
		bytes += list[i].length;
	}
	wr->send_flags |= IBV_SEND_INLINE;
	wr->sg_list = draft->sge + (size_t)(wr - draft->wr) * draft->max_sge;
	wr->sg_list[0] = (struct ibv_sge){ .addr = (uintptr_t)data, .length = (uint32_t)bytes };
	wr->num_sge = 1;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

/* ---- queue pairs ---- */

#define SEND_OPS                                                                              \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                             \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |              \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)

/* One block, which goes with the queue pair.  Its requests are not cleared: pages that none
 * ever used cost nothing. */
static struct sv_draft *new_draft(const struct ibv_qp_cap *cap)
{
	size_t slots = (size_t)cap->max_send_wr + 1;
	size_t wr_bytes = slots * sizeof(struct ibv_send_wr);
	size_t sge_bytes = slots * cap->max_send_sge * sizeof(struct ibv_sge);
	struct sv_draft *draft;

	draft = malloc(sizeof(*draft) + wr_bytes + sge_bytes + slots * cap->max_inline_data);
	if (!draft)
		return NULL;
	memset(draft, 0, sizeof(*draft));
	draft->max_wr = cap->max_send_wr;
	draft->max_sge = cap->max_send_sge;
	draft->max_inline = cap->max_inline_data;
	draft->wr = (struct ibv_send_wr *)(void *)(draft + 1);
	draft->sge = (struct ibv_sge *)(void *)((uint8_t *)draft->wr + wr_bytes);
	draft->data = (uint8_t *)draft->sge + sge_bytes;
	return draft;
}

/* Those that were asked for; the others stay NULL, as the interface has it. */
static void set_calls(struct ibv_qp_ex *ex, uint64_t ops)
{
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = wr_send_inv;
	if (ops & IBV_QP_EX_WITH_LOCAL_INV)
		ex->wr_local_inv = wr_local_inv;
	if (ops & IBV_QP_EX_WITH_BIND_MW)
		ex->wr_bind_mw = wr_bind_mw;
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	if (ex->qp_base.qp_type == IBV_QPT_UD)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	if (ex->qp_base.qp_type == IBV_QPT_XRC_SEND)
		ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}

static int check_ex(const struct ibv_qp_init_attr_ex *init)
{
	if (!(init->comp_mask & IBV_QP_INIT_ATTR_PD) || !init->pd)
		return EINVAL;
	if (init->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
					  IBV_QP_INIT_ATTR_CREATE_FLAGS))
		return EOPNOTSUPP;
	if (init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && init->create_flags &&
	    (init->create_flags != IBV_QP_CREATE_BLOCK_SELF_MCAST_LB || init->qp_type != IBV_QPT_UD))
		return EOPNOTSUPP;
	if (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    init->send_ops_flags & ~(uint64_t)SEND_OPS)
		return EOPNOTSUPP;
	return 0;
}

/* It has a domain, and none of what others have. */
static struct ibv_qp *new_target(struct ibv_qp_init_attr_ex *init)
{
	if (init->comp_mask == IBV_QP_INIT_ATTR_XRCD && init->xrcd)
		return sv_xrc_new_target(init);
	errno = EINVAL;
	return NULL;
}

struct ibv_qp *sv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
	/* It begins with the members of struct ibv_qp_init_attr. */
	struct ibv_qp_init_attr *plain = (struct ibv_qp_init_attr *)(void *)init;
	struct ibv_qp *ibqp;
	struct sv_qp *qp;
	int ret;

	(void)context;
	if (init->qp_type == IBV_QPT_XRC_RECV)
		return new_target(init);
	ret = check_ex(init);
	if (ret) {
		errno = ret;
		return NULL;
	}
	ibqp = sv_create_qp(init->pd, plain);
	if (!ibqp)
		return NULL;
	qp = sv_qp_of(ibqp);
	qp->not_to_self = init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && init->create_flags;
	if (!(init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return ibqp;
	qp->draft = new_draft(&qp->cap);
	if (!qp->draft) {
		sv_destroy_qp(ibqp);
		errno = ENOMEM;
		return NULL;
	}
	set_calls(&qp->ex, init->send_ops_flags);
	return ibqp;
}

struct ibv_qp_ex *sv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return sv_qp_of(qp)->draft ? &sv_qp_of(qp)->ex : NULL;
}
