/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fair.c -- one completion queue, many queue pairs with more messages than a poll takes:
 * each has its turn.  They are more than a word of the ready set, whose words have turns too.
 */
#include "tests/unit/softverbs/kit.h"

#define QPS 80
#define EACH 64 /* messages that wait for the first poll */
#define TURNS 8 /* of them taken: so many of each, or twice or half as many */
#define BATCH 32

static struct ibv_qp *qps[QPS];

static const struct kit_opts opts = {
	.send_wr = EACH, .recv_wr = EACH, .inline_bytes = 16, .max_sge = 1, .cqe = QPS * EACH,
	.mem_bytes = 4096, .mem_flags = 0, .mr_access = IBV_ACCESS_LOCAL_WRITE,
	.rd_atomic = 1, .dest_rd_atomic = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
	.min_rnr_timer = 1,
};

/* Receives are there before the other side sends. */
static void connect_all(struct kit *k, bool receives)
{
	kit_open(k, &opts, k->sock);
	qps[0] = k->qp;
	for (unsigned i = 1; i < QPS; i++) {
		qps[i] = kit_new_qp(k);
		kit_to_init(k, qps[i]);
	}
	for (unsigned i = 0; i < QPS; i++)
		kit_say(k->sock, qps[i]->qp_num);
	for (unsigned i = 0; i < QPS; i++) {
		kit_to_rts(k, qps[i], (uint32_t)kit_hear(k->sock));
		k->qp = qps[i];
		for (unsigned n = 0; receives && n < EACH; n++)
			CHECK(!kit_post_recv(k, 0, 64, n));
	}
	kit_meet(k);
}

static void close_all(struct kit *k)
{
	for (unsigned i = 1; i < QPS; i++)
		CHECK(!sv_destroy_qp(qps[i]));
	k->qp = qps[0];
	kit_close(k);
}

static void sender(int sock)
{
	struct kit k = { .sock = sock };

	connect_all(&k, false);
	for (unsigned i = 0; i < QPS; i++) {
		k.qp = qps[i];
		for (unsigned n = 0; n < EACH; n++)
			CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, n,
					IBV_SEND_INLINE | (n == EACH - 1 ? IBV_SEND_SIGNALED : 0)));
		kit_expect(k.scq, EACH - 1, IBV_WC_SUCCESS);
	}
	kit_meet(&k); /* all of them are there */
	kit_meet(&k);
	close_all(&k);
}

static unsigned seat_of(uint32_t qpn)
{
	unsigned i = 0;

	while (qps[i]->qp_num != qpn)
		CHECK(++i < QPS);
	return i;
}

static void receiver(int sock)
{
	unsigned got[QPS] = { 0 }, total = 0;
	struct kit k = { .sock = sock };
	struct ibv_wc wc[BATCH];

	connect_all(&k, true);
	kit_meet(&k);
	while (total < QPS * TURNS) {
		int n = ibv_poll_cq(k.rcq, BATCH, wc);

		CHECK(n == BATCH); /* there are always more */
		for (int i = 0; i < n; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS);
			got[seat_of(wc[i].qp_num)]++;
		}
		total += (unsigned)n;
	}
	for (unsigned i = 0; i < QPS; i++) {
		if (got[i] < TURNS / 2 || got[i] > TURNS * 2)
			fprintf(stderr, "queue pair %u: %u messages of %u\n", i, got[i], total);
		CHECK(got[i] >= TURNS / 2 && got[i] <= TURNS * 2);
	}
	kit_meet(&k);
	close_all(&k);
}

static void test_turns(void **state)
{
	(void)state;
	kit_run(sender, receiver);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_turns) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
