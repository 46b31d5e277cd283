/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * async [DEVICE] -- asynchronous events: what no completion tells.
 *
 * Here a shared receive queue falls below its limit.  The limit is spent by the
 * event and has to be set again.  Each event is acknowledged, or what it is about
 * can't be destroyed.
 */
#include "doc/examples/example.h"

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_async_event event;
	struct end sender, receiver;
	struct ibv_srq *srq;
	int same;

	NEED(pd);
	srq = ibv_create_srq(pd, &init);
	NEED(srq);
	open_end(&sender, context, NULL, NULL);
	open_end(&receiver, context, NULL, srq);
	connect_ends(&sender, &receiver);
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)receiver.mem, .length = MEM_BYTES,
				       .lkey = receiver.mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

		NEED_0(ibv_post_srq_recv(srq, &wr, &bad));
	}
	NEED_0(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	post(&sender, &receiver, IBV_WR_SEND, 8);
	next_completion(sender.cq);
	next_completion(receiver.cq);
	NEED_0(ibv_get_async_event(context, &event)); /* sleeps */
	printf("%s\n", ibv_event_type_str(event.event_type));
	same = event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq;
	ibv_ack_async_event(&event);
	close_end(&sender);
	close_end(&receiver);
	NEED_0(ibv_destroy_srq(srq));
	NEED_0(ibv_dealloc_pd(pd));
	NEED_0(ibv_close_device(context));
	return same ? 0 : 1;
}
