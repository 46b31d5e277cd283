/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * windows [DEVICE] -- a memory window: a key for a part of a region, given and taken back.
 *
 * Binding is a request on the queue pair, so it costs no system call, as registering does.  The
 * peer gets the key; SEND with invalidate lets the peer give it back, and local invalidate
 * takes it.
 */
#include "doc/examples/example.h"

#define FROM 1024
#define PART 64

static void bind(struct end *end, struct ibv_mw *mw, uint32_t key)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = key;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ .mr = end->mr, .addr = (uintptr_t)end->mem + FROM,
							  .length = PART,
							  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	NEED_0(ibv_post_send(end->qp, &wr, &bad));
	next_completion(end->cq);
}

/* A WRITE of so many bytes from the window's beginning on; how it ended. */
static enum ibv_wc_status try_write(struct end *from, struct end *to, uint32_t key, uint32_t bytes)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from->mem, .length = bytes, .lkey = from->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = (uintptr_t)to->mem + FROM;
	wr.wr.rdma.rkey = key;
	NEED_0(ibv_post_send(from->qp, &wr, &bad));
	while (!ibv_poll_cq(from->cq, 1, &wc))
		;
	return wc.status;
}

static void give_back(struct end *from, struct end *to, uint32_t key)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = key }, *bad;
	struct ibv_wc wc;

	post_receive(to, 1);
	NEED_0(ibv_post_send(from->qp, &wr, &bad));
	next_completion(from->cq);
	wc = next_completion(to->cq);
	printf("given back: %s\n", wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == key ?
					   "the completion names the key" : "no");
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_mw *mw;
	struct end a, b;
	uint32_t key;

	open_end(&a, context, NULL, NULL);
	open_end(&b, context, NULL, NULL);
	NEED_0(ibv_dereg_mr(b.mr));
	b.mr = ibv_reg_mr(b.pd, b.mem, MEM_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	NEED(b.mr);
	connect_ends(&a, &b);
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	NEED(mw);
	key = ibv_inc_rkey(mw->rkey);
	bind(&b, mw, key);
	strcpy(a.mem, "through the window");
	printf("inside: %s\n", ibv_wc_status_str(try_write(&a, &b, key, PART)));
	printf("there: %s\n", b.mem + FROM);
	give_back(&a, &b, key);
	printf("afterwards: %s\n", ibv_wc_status_str(try_write(&a, &b, key, PART)));
	NEED_0(ibv_dealloc_mw(mw));
	close_end(&a);
	close_end(&b);
	NEED_0(ibv_close_device(context));
	return 0;
}
