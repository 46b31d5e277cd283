/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * srq [DEVICE] -- a shared receive queue: one stock of buffers for many connections.
 *
 * Receives are used in the order of arrival, whichever connection it is on; the
 * completion's queue pair number tells.
 */
#include "doc/examples/example.h"

#define CONNECTIONS 3
#define SLOT_BYTES 64

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct end senders[CONNECTIONS], receivers[CONNECTIONS];
	struct ibv_srq *srq;
	int bad = 0;

	NEED(pd);
	srq = ibv_create_srq(pd, &init);
	NEED(srq);
	for (int i = 0; i < CONNECTIONS; i++) {
		open_end(&senders[i], context, NULL, NULL);
		open_end(&receivers[i], context, NULL, srq);
		connect_ends(&senders[i], &receivers[i]);
	}
	/* All buffers are in the first receiver's memory: they have one domain. */
	for (uint64_t i = 0; i < CONNECTIONS; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)receivers[0].mem + i * SLOT_BYTES,
				       .length = SLOT_BYTES, .lkey = receivers[0].mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *wrong;

		NEED_0(ibv_post_srq_recv(srq, &wr, &wrong));
	}
	for (int i = CONNECTIONS - 1; i >= 0; i--) {
		struct ibv_wc wc;

		snprintf(senders[i].mem, SLOT_BYTES, "from %d", i);
		post(&senders[i], &receivers[i], IBV_WR_SEND, SLOT_BYTES);
		next_completion(senders[i].cq);
		wc = next_completion(receivers[i].cq);
		printf("buffer %d, connection %d: %s\n", (int)wc.wr_id, i,
		       receivers[0].mem + wc.wr_id * SLOT_BYTES);
		bad |= wc.wr_id != (uint64_t)(CONNECTIONS - 1 - i);
		bad |= wc.qp_num != receivers[i].qp->qp_num;
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		close_end(&senders[i]);
		close_end(&receivers[i]);
	}
	NEED_0(ibv_destroy_srq(srq));
	NEED_0(ibv_dealloc_pd(pd));
	NEED_0(ibv_close_device(context));
	return bad;
}
