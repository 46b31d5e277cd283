/* SPDX-License-Identifier: BSD-2-Clause */
/* opcodes [DEVICE] -- every operation of a reliable connection, and what it does. */
#include "doc/examples/example.h"

static struct end a, b;

static uint64_t *word(struct end *end)
{
	return (uint64_t *)(void *)end->mem;
}

/* a's request, and if it makes one a completion at b too. */
static void run(enum ibv_wr_opcode opcode, int completes_at_b)
{
	struct ibv_wc wc;

	if (completes_at_b)
		post_receive(&b, 0);
	post(&a, &b, opcode, 8);
	next_completion(a.cq);
	if (!completes_at_b)
		return;
	wc = next_completion(b.cq);
	printf("  b: %u bytes%s\n", wc.byte_len, wc.wc_flags & IBV_WC_WITH_IMM ? ", immediate" : "");
}

static void run_atomic(enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = { .addr = (uintptr_t)a.mem, .length = 8, .lkey = a.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;

	wr.wr.atomic.remote_addr = (uintptr_t)b.mem;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	NEED_0(ibv_post_send(a.qp, &wr, &bad));
	next_completion(a.cq);
}

/* Shows both words, which have to be these. */
static void show(const char *what, uint64_t at_a, uint64_t at_b)
{
	printf("%-22s a %2d, b %2d\n", what, (int)*word(&a), (int)*word(&b));
	NEED(*word(&a) == at_a && *word(&b) == at_b);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);

	open_end(&a, context, NULL, NULL);
	open_end(&b, context, NULL, NULL);
	connect_ends(&a, &b);
	*word(&a) = 1;
	run(IBV_WR_SEND, 1);
	show("SEND", 1, 1);
	*word(&a) = 2;
	run(IBV_WR_SEND_WITH_IMM, 1);
	show("SEND with immediate", 2, 2);
	*word(&a) = 3;
	run(IBV_WR_RDMA_WRITE, 0); /* b doesn't learn of it */
	show("WRITE", 3, 3);
	*word(&a) = 4;
	run(IBV_WR_RDMA_WRITE_WITH_IMM, 1);
	show("WRITE with immediate", 4, 4);
	*word(&b) = 5;
	run(IBV_WR_RDMA_READ, 0);
	show("READ", 5, 5);
	run_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 5, 6); /* a gets what was there */
	show("compare-and-swap", 5, 6);
	run_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 5, 9); /* it isn't 5 any more */
	show("compare-and-swap, no", 6, 6);
	run_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0);
	show("fetch-and-add", 6, 10);
	close_end(&a);
	close_end(&b);
	NEED_0(ibv_close_device(context));
	return 0;
}
