/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq_ex.c -- extended completion queues, whose completions are read field by field.
 *
 * A queue of sv_create_cq_ex() copies the completion under way into the queue's
 * object; its lock is held from a successful start_poll to end_poll.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include "common/softverbs/exec/poll.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/softverbs.h"

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
