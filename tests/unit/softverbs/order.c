/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.c -- what the requests of one queue pair promise each other: order,
 * the fence, inline data, and which of them complete visibly.
 */
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED
#define ROUNDS 300
#define EVERY 4

static int target_flags; /* of sv_mem_alloc(), or -1: malloc */

static void open_target(struct kit *k, int sock)
{
	struct kit_opts opts = kit_defaults;

	opts.mem_flags = target_flags;
	kit_open(k, &opts, sock);
}

static void passive(int sock)
{
	struct kit k;

	open_target(&k, sock);
	kit_connect(&k);
	kit_meet(&k);
	kit_close(&k);
}

static void run_both_kinds(kit_side *a, kit_side *b)
{
	for (target_flags = 0; target_flags >= -1; target_flags--)
		kit_run(a, b);
}

/* ---- fence: what a READ brought is what the WRITE behind it takes ---- */

static void fencing(int sock)
{
	uint64_t *word;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	word = (uint64_t *)(void *)k.mem;
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		word[0] = i;
		CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0));
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 8, 8, 0, 2, 0));
		CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 8, 8, 4096, 3, IBV_SEND_FENCE));
		CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 16, 4096, 5, 0, 4));
		kit_expect(k.scq, 4, IBV_WC_SUCCESS);
		CHECK(word[1] == i && word[2] == i);
	}
	kit_meet(&k);
	kit_close(&k);
}

static void test_fence(void **state)
{
	(void)state;
	run_both_kinds(fencing, passive);
}

/* ---- a message tells of the WRITE before it ---- */

static void writer(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		memset(k.mem, (int)i, 3000);
		CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 0, 3000, 0, i, 0));
		CHECK(!kit_post(&k, IBV_WR_SEND, 0, 1, 0, i, S | IBV_SEND_INLINE));
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
		CHECK(kit_hear(sock) == i); /* looked at */
	}
	kit_meet(&k);
	kit_close(&k);
}

static void looker(int sock)
{
	struct kit k;

	open_target(&k, sock);
	for (uint64_t i = 1; i <= 8; i++)
		CHECK(!kit_post_recv(&k, 8192, 64, i));
	kit_connect(&k);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		CHECK(kit_wait(k.rcq).status == IBV_WC_SUCCESS);
		CHECK(k.mem[8192] == (uint8_t)i);
		for (int at = 0; at < 3000; at++)
			CHECK(k.mem[at] == (uint8_t)i);
		CHECK(!kit_post_recv(&k, 8192, 64, i));
		kit_say(sock, i);
	}
	kit_meet(&k);
	kit_close(&k);
}

static void test_write_then_send(void **state)
{
	(void)state;
	run_both_kinds(writer, looker);
}

/* ---- inline: the caller's buffer is free at once, and needs no region ---- */

static void inline_sender(int sock)
{
	struct kit_opts opts = kit_defaults;
	char text[32] = "before";
	struct ibv_sge sge = { (uintptr_t)text, sizeof(text), 0xbad };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = S | IBV_SEND_INLINE }, *bad;
	struct ibv_wc wc;
	struct kit k;

	kit_open(&k, &opts, sock);
	kit_connect(&k);
	/* Nobody has posted a receive: the request waits in the queue. */
	CHECK(!ibv_post_send(k.qp, &wr, &bad));
	memcpy(text, "behind", 7);
	CHECK(!ibv_poll_cq(k.scq, 1, &wc));
	kit_meet(&k);
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	/* The same buffer without the flag is in no region. */
	wr.send_flags = S;
	CHECK(!ibv_post_send(k.qp, &wr, &bad));
	kit_expect(k.scq, 1, IBV_WC_LOC_PROT_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void inline_receiver(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_meet(&k);
	CHECK(!kit_post_recv(&k, 0, 64, 1));
	kit_expect(k.rcq, 1, IBV_WC_SUCCESS);
	CHECK(!strcmp((char *)k.mem, "before"));
	kit_meet(&k);
	kit_close(&k);
}

static void test_inline(void **state)
{
	(void)state;
	kit_run(inline_sender, inline_receiver);
}

/* ---- signalling ---- */

static void selective(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_wc wc;
	struct kit k;

	kit_open(&k, &opts, sock);
	kit_connect(&k);
	/* Far more than the queue has slots: each polled one frees those before it. */
	for (uint64_t i = 1; i <= opts.send_wr * EVERY; i++) {
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, i, i % EVERY ? 0 : S));
		if (i % EVERY == 0)
			kit_expect(k.scq, i, IBV_WC_SUCCESS);
	}
	CHECK(!ibv_poll_cq(k.scq, 1, &wc));
	/* Unsignalled or not, an error is told. */
	k.rkey ^= 0x100000;
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 7, 0));
	kit_expect(k.scq, 7, IBV_WC_REM_ACCESS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void all_of_them(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct kit k;

	opts.all_signaled = true;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	for (uint64_t i = 1; i <= 20; i++)
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, i, 0));
	for (uint64_t i = 1; i <= 20; i++)
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_close(&k);
}

static void test_signalling(void **state)
{
	(void)state;
	run_both_kinds(selective, passive);
	run_both_kinds(all_of_them, passive);
}

/* ---- the send queue is drained: what is posted then waits ---- */

static void drained(int sock)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_wc wc;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	CHECK(!sv_modify_qp(k.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	CHECK(kit_async(&k) == IBV_EVENT_SQ_DRAINED);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, S));
	for (int i = 0; i < 1000; i++)
		CHECK(!ibv_poll_cq(k.scq, 1, &wc));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!sv_modify_qp(k.qp, &attr, IBV_QP_STATE));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_close(&k);
}

static void test_drained(void **state)
{
	(void)state;
	run_both_kinds(drained, passive);
}

/* ---- an empty poll that gave the CPU away looks again ---- */

static _Thread_local struct kit *sender; /* who has its turn at the next yield, once; or NULL */

/* Libc's, for this program. */
int sched_yield(void)
{
	struct kit *k = sender;

	sender = NULL;
	if (k)
		CHECK(!kit_post(k, IBV_WR_SEND, 0, 8, 0, 2, 0));
	return 0;
}

/* What a peer sent meanwhile is told by this poll, not by the next: a program may look elsewhere
 * first, at the peer's disconnect. */
static void test_yield(void **state)
{
	struct ibv_wc wc;
	struct kit k;
	int n = 0;

	(void)state;
	kit_open(&k, &kit_defaults, -1);
	CHECK(!k.rcq->channel);
	kit_to_rts(&k, k.qp, k.qp->qp_num);
	CHECK(!kit_post_recv(&k, 4096, 8, 1));
	sender = &k;
	for (int i = 0; i < 1000 && sender && !n; i++)
		n = ibv_poll_cq(k.rcq, 1, &wc);
	CHECK(!sender);
	CHECK(n == 1 && wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fence),	   cmocka_unit_test(test_write_then_send),
		cmocka_unit_test(test_inline),	   cmocka_unit_test(test_signalling),
		cmocka_unit_test(test_drained),	   cmocka_unit_test(test_yield),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
