/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel [DEVICE] -- sleep until a completion comes, instead of polling.
 *
 * Ask for an event, and only then look if something is there already: what comes
 * after the look makes the event.  Each event has to be acknowledged, or the queue
 * can't be destroyed.
 */
#include "doc/examples/example.h"

#define MESSAGES 3

static int wait_and_take(struct end *end, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int n, taken = 0;

	NEED_0(ibv_get_cq_event(channel, &cq, &context)); /* sleeps */
	ibv_ack_cq_events(cq, 1);
	NEED(cq == end->cq && context == end);
	NEED_0(ibv_req_notify_cq(cq, 0));
	while ((n = ibv_poll_cq(cq, 1, &wc)) > 0) {
		NEED(wc.status == IBV_WC_SUCCESS);
		printf("message %d: %s\n", (int)wc.wr_id, end->mem);
		taken++;
	}
	return taken;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct end sender, receiver;

	NEED(channel);
	open_end(&sender, context, NULL, NULL);
	open_end(&receiver, context, channel, NULL);
	connect_ends(&sender, &receiver);
	NEED_0(ibv_req_notify_cq(receiver.cq, 0));
	for (uint64_t i = 1; i <= MESSAGES; i++) {
		post_receive(&receiver, i);
		snprintf(sender.mem, MEM_BYTES, "hello %d", (int)i);
		post(&sender, &receiver, IBV_WR_SEND, 16);
		next_completion(sender.cq);
		while (!wait_and_take(&receiver, channel))
			;
	}
	close_end(&sender);
	close_end(&receiver);
	NEED_0(ibv_destroy_comp_channel(channel));
	NEED_0(ibv_close_device(context));
	return 0;
}
