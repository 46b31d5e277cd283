/* SPDX-License-Identifier: BSD-2-Clause */
/* ud.h -- an end of datagrams, for the tests of what they do. */
#ifndef TESTS_UNIT_SOFTVERBS_UD_H
#define TESTS_UNIT_SOFTVERBS_UD_H

#include "tests/unit/softverbs/kit.h"

#define QKEY 0x11223344u
#define GRH 40u
#define SLOTS 256u
#define SLOT_BYTES (GRH + 4096u)
#define LIMIT_NS (KIT_LIMIT_S * 1000000000ull)

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct ibv_ah *ah;
};

static inline void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	CHECK(sv_modify_qp(qp, &attr, init) == EINVAL);
	CHECK(sv_modify_qp(qp, &attr, init | IBV_QP_ACCESS_FLAGS | IBV_QP_QKEY) == EINVAL);
	CHECK(!sv_modify_qp(qp, &attr, init | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(sv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN) == EINVAL);
	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(sv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static inline struct ibv_ah *new_ah(struct end *e)
{
	struct ibv_ah_attr attr = { .port_num = 1, .dlid = 7 };
	struct ibv_ah *ah;

	CHECK(!sv_query_gid(e->ctx, 1, 0, &attr.grh.dgid));
	CHECK(!sv_create_ah(e->pd, &attr) && errno == EINVAL);
	attr.dlid = 0;
	CHECK((ah = sv_create_ah(e->pd, &attr)) != NULL); /* the port's own LID */
	CHECK(!sv_destroy_ah(ah));
	attr.is_global = 1;
	attr.grh.sgid_index = 2;
	CHECK(!sv_create_ah(e->pd, &attr) && errno == EINVAL);
	attr.grh.sgid_index = 0;
	CHECK((ah = sv_create_ah(e->pd, &attr)) != NULL);
	return ah;
}

static inline struct ibv_qp *new_qp(struct end *e)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .send_cq = e->scq, .recv_cq = e->rcq,
					 .cap = { .max_send_wr = 64, .max_recv_wr = SLOTS,
						  .max_send_sge = 2, .max_recv_sge = 2 } };
	struct ibv_qp *qp;

	CHECK((qp = sv_create_qp(e->pd, &init)) != NULL);
	to_rts(qp);
	return qp;
}

static inline void open_end(struct end *e)
{
	memset(e, 0, sizeof(*e));
	e->ctx = kit_open_device();
	CHECK((e->pd = sv_alloc_pd(e->ctx)) != NULL);
	CHECK((e->scq = sv_create_cq(e->ctx, 64, NULL, NULL, 0)) != NULL);
	CHECK((e->rcq = sv_create_cq(e->ctx, SLOTS, NULL, NULL, 0)) != NULL);
	CHECK((e->mem = malloc(SLOTS * SLOT_BYTES)) != NULL);
	CHECK((e->mr = sv_reg_mr(e->pd, e->mem, SLOTS * SLOT_BYTES, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	e->qp = new_qp(e);
	e->ah = new_ah(e);
}

static inline void close_end(struct end *e)
{
	CHECK(sv_dealloc_pd(e->pd) == EBUSY);
	CHECK(!sv_destroy_ah(e->ah));
	CHECK(!sv_destroy_qp(e->qp));
	CHECK(!sv_destroy_cq(e->scq) && !sv_destroy_cq(e->rcq));
	CHECK(!sv_dereg_mr(e->mr));
	CHECK(!sv_dealloc_pd(e->pd));
	CHECK(!sv_close_device(e->ctx));
	free(e->mem);
}

static inline void post_recv(struct end *e, uint32_t slot, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)e->mem + slot * SLOT_BYTES, bytes, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(e->qp, &wr, &bad));
}

static inline int try_send(struct end *e, uint32_t slot, uint32_t bytes, uint32_t qpn, uint32_t qkey,
		    enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)e->mem + slot * SLOT_BYTES, bytes, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED, .imm_data = 77 }, *bad;

	wr.wr.ud.ah = e->ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	return ibv_post_send(e->qp, &wr, &bad);
}

static inline void send_one(struct end *e, uint32_t slot, uint32_t bytes, uint32_t qpn, uint32_t qkey)
{
	CHECK(!try_send(e, slot, bytes, qpn, qkey, IBV_WR_SEND_WITH_IMM));
	kit_expect(e->scq, slot, IBV_WC_SUCCESS);
}

#endif
