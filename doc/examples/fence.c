/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fence [DEVICE] -- two flags of a request: IBV_SEND_FENCE and IBV_SEND_SOLICITED.
 *
 * Fence: a request may begin while READs before it are still on their way, and it would send
 * what their memory held before.  With the flag it waits for them.
 * Solicited: a receiver that asked for solicited events only is woken by messages with that flag,
 * and by failures; the others wait in its queue until then.
 */
#include <poll.h>
#include "doc/examples/example.h"

static void send_flagged(struct end *from, uint32_t bytes, unsigned int flags)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from->mem, .length = bytes, .lkey = from->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = flags }, *bad;

	NEED_0(ibv_post_send(from->qp, &wr, &bad));
}

/* Whether the receiver is woken within so many milliseconds. */
static int is_woken(struct ibv_comp_channel *channel, int ms)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

	return poll(&fd, 1, ms) == 1;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq;
	struct end a, b;
	void *of;

	NEED(channel);
	open_end(&a, context, NULL, NULL);
	open_end(&b, context, channel, NULL);
	connect_ends(&a, &b);
	for (uint64_t i = 0; i < 3; i++)
		post_receive(&b, i);

	/* Reads b's words, and sends them back where b receives. */
	strcpy(b.mem, "what was read");
	post(&a, &b, IBV_WR_RDMA_READ, 16);
	send_flagged(&a, 16, IBV_SEND_FENCE);
	next_completion(a.cq);
	next_completion(a.cq);
	next_completion(b.cq);
	printf("behind the fence: %s\n", b.mem);

	NEED_0(ibv_req_notify_cq(b.cq, 1));
	send_flagged(&a, 16, 0);
	next_completion(a.cq);
	printf("an ordinary message %s the receiver\n", is_woken(channel, 100) ? "wakes" : "doesn't wake");
	send_flagged(&a, 16, IBV_SEND_SOLICITED);
	next_completion(a.cq);
	printf("a solicited one %s it\n", is_woken(channel, 5000) ? "wakes" : "doesn't wake");
	NEED_0(ibv_get_cq_event(channel, &cq, &of));
	ibv_ack_cq_events(cq, 1);
	next_completion(b.cq);
	next_completion(b.cq);
	printf("both messages are there\n");
	close_end(&a);
	close_end(&b);
	NEED_0(ibv_destroy_comp_channel(channel));
	NEED_0(ibv_close_device(context));
	return 0;
}
