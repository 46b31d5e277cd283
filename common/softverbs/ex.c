/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ex.c -- the extended verbs: requests that are built call by call, completions
 * that are read field by field, and the attributes that came later.
 *
 * A queue pair of sv_create_qp_ex() has a draft: the requests begun since
 * ibv_wr_start(), as ibv_post_send() would take them.  ibv_wr_complete() posts
 * all of it or nothing.  The draft has a lock of its own, held from start to
 * complete as the interface wants it, so the queue itself goes on meanwhile.
 *
 * A queue of sv_create_cq_ex() copies the completion under way into the queue's
 * object; its lock is held from a successful start_poll to end_poll.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/sv.h"

/* ---- attributes ---- */

static void copy_out(void *to, size_t to_bytes, const void *from, size_t bytes)
{
	memset(to, 0, to_bytes);
	memcpy(to, from, bytes < to_bytes ? bytes : to_bytes);
}

int sv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_bytes)
{
	struct ibv_device_attr_ex all = { 0 };

	if (input && input->comp_mask)
		return EINVAL;
	if (attr_bytes < sizeof(all.orig_attr))
		return EINVAL;
	sv_query_device(context, &all.orig_attr);
	all.completion_timestamp_mask = UINT64_MAX;
	all.hca_core_clock = 1000000; /* kHz: nanoseconds */
	all.device_cap_flags_ex = (uint64_t)all.orig_attr.device_cap_flags;
	all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
	copy_out(attr, attr_bytes, &all, sizeof(all));
	return 0;
}

int sv_query_port_ex(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		     size_t attr_bytes)
{
	struct ibv_port_attr all;
	int ret = sv_query_port(context, port, &all);

	if (!ret)
		copy_out(attr, attr_bytes, &all, sizeof(all));
	return ret;
}

int sv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	(void)context;
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EOPNOTSUPP;
	clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
	return 0;
}

/* ---- the draft ---- */

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
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

void sv_draft_free(struct sv_draft *draft)
{
	if (!draft)
		return;
	free(draft->wr);
	free(draft->sge);
	free(draft->data);
	free(draft);
}

/* Not cleared: pages that no request ever used cost nothing. */
static struct sv_draft *new_draft(const struct ibv_qp_cap *cap)
{
	struct sv_draft *draft = calloc(1, sizeof(*draft));
	size_t slots = (size_t)cap->max_send_wr + 1;

	if (!draft)
		return NULL;
	draft->max_wr = cap->max_send_wr;
	draft->max_sge = cap->max_send_sge;
	draft->max_inline = cap->max_inline_data;
	draft->wr = malloc(slots * sizeof(*draft->wr));
	draft->sge = malloc(slots * draft->max_sge * sizeof(*draft->sge));
	draft->data = malloc(slots * draft->max_inline + 1);
	if (draft->wr && draft->sge && draft->data)
		return draft;
	sv_draft_free(draft);
	return NULL;
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
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
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
	if (init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && init->create_flags)
		return EOPNOTSUPP;
	if (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    init->send_ops_flags & ~(uint64_t)SEND_OPS)
		return EOPNOTSUPP;
	return 0;
}

struct ibv_qp *sv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
	/* It begins with the members of struct ibv_qp_init_attr. */
	struct ibv_qp_init_attr *plain = (struct ibv_qp_init_attr *)(void *)init;
	int ret = check_ex(init);
	struct ibv_qp *ibqp;
	struct sv_qp *qp;

	(void)context;
	if (ret) {
		errno = ret;
		return NULL;
	}
	ibqp = sv_create_qp(init->pd, plain);
	if (!ibqp || !(init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return ibqp;
	qp = sv_qp_of(ibqp);
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

/* ---- completion queues ---- */

static struct sv_cq *of_ex(struct ibv_cq_ex *ex)
{
	return SV_CONTAINER(ex, struct sv_cq, ex);
}

static int take_one(struct sv_cq *cq)
{
	int n = sv_poll_cq(&cq->ib, 1, &cq->wc);

	if (n < 1)
		return n ? -n : ENOENT;
	cq->ex.wr_id = cq->wc.wr_id;
	cq->ex.status = cq->wc.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct sv_cq *cq = of_ex(ex);
	int ret;

	if (attr->comp_mask)
		return EINVAL;
	sv_spin_lock(&cq->poll_lock);
	ret = take_one(cq);
	if (ret)
		sv_spin_unlock(&cq->poll_lock);
	return ret;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return take_one(of_ex(ex));
}

static void end_poll(struct ibv_cq_ex *ex)
{
	sv_spin_unlock(&of_ex(ex)->poll_lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->wc.dlid_path_bits;
}

/* The time of the poll: completions carry none. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	(void)ex;
	return sv_now_ns();
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	struct timespec ts;

	(void)ex;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#define WC_FIELDS                                                                             \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                          \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static void set_readers(struct ibv_cq_ex *ex, uint64_t fields)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (fields & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (fields & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (fields & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = read_qp_num;
	if (fields & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
	if (fields & IBV_WC_EX_WITH_SLID)
		ex->read_slid = read_slid;
	if (fields & IBV_WC_EX_WITH_SL)
		ex->read_sl = read_sl;
	if (fields & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = read_dlid_path_bits;
	if (fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
	if (fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

struct ibv_cq_ex *sv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init)
{
	struct ibv_cq *ibcq;

	if (init->wc_flags & ~(uint64_t)WC_FIELDS ||
	    init->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS ||
	    (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	     init->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	ibcq = sv_create_cq(context, init->cqe > INT32_MAX ? INT32_MAX : (int)init->cqe,
			    init->cq_context, init->channel, (int)init->comp_vector);
	if (!ibcq)
		return NULL;
	set_readers(&sv_cq_of(ibcq)->ex, init->wc_flags);
	return &sv_cq_of(ibcq)->ex;
}
