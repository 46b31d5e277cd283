/* SPDX-License-Identifier: BSD-2-Clause */
/* send.c -- messages: order, sizes, RNR, events, SRQ, credits. */
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED

static void wait_recv(struct kit *k, uint64_t wr_id, uint32_t bytes)
{
	struct ibv_wc wc = kit_wait(k->rcq);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
	CHECK(wc.wr_id == wr_id && wc.byte_len == bytes && wc.qp_num == k->qp->qp_num);
}

/* ---- ping-pong with growing sizes ---- */

static const uint32_t sizes[] = { 0,	 1,	8,     64,    100,   1000,
				  4096, 16384, 16385, 60000, 70000, 1 << 20 };
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static void pattern(uint8_t *at, uint32_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(seed + i * 13 + i / 256);
}

static bool is_pattern(const uint8_t *at, uint32_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes; i++) {
		if (at[i] != (uint8_t)(seed + i * 13 + i / 256))
			return false;
	}
	return true;
}

static void ping_pong(int sock, bool first, bool events)
{
	struct kit_opts opts = kit_defaults;
	const uint32_t half = 2 << 20;
	struct kit k;
	struct ibv_cq *cq;
	void *context;

	opts.mem_bytes = 4 << 20;
	opts.events = events;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	for (uint32_t round = 0; round < 20 * NSIZES; round++) {
		uint32_t bytes = sizes[round % NSIZES];
		struct ibv_wc wc;

		CHECK(!kit_post_recv(&k, half, half, round));
		if (events)
			CHECK(!ibv_req_notify_cq(k.rcq, 0));
		kit_meet(&k);
		if (first) {
			pattern(k.mem, bytes, round);
			CHECK(!kit_post(&k, IBV_WR_SEND, 0, bytes, 0, round,
					S | (bytes && bytes < 100 ? IBV_SEND_INLINE : 0)));
			kit_expect(k.scq, round, IBV_WC_SUCCESS);
		}
		if (events) {
			CHECK(!sv_get_cq_event(k.chan, &cq, &context));
			CHECK(cq == k.rcq && context == &k);
			sv_ack_cq_events(cq, 1);
		}
		wc = kit_wait(k.rcq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == round && wc.byte_len == bytes);
		CHECK(is_pattern(k.mem + half, bytes, round));
		if (!first) {
			memcpy(k.mem, k.mem + half, bytes);
			CHECK(!kit_post(&k, IBV_WR_SEND, 0, bytes, 0, round, S));
			kit_expect(k.scq, round, IBV_WC_SUCCESS);
		}
	}
	kit_meet(&k);
	kit_close(&k);
}

static void ping(int sock)
{
	ping_pong(sock, true, false);
}
static void pong(int sock)
{
	ping_pong(sock, false, false);
}
static void ping_events(int sock)
{
	ping_pong(sock, true, true);
}
static void pong_events(int sock)
{
	ping_pong(sock, false, true);
}

static void test_ping_pong(void **state)
{
	(void)state;
	kit_run(ping, pong);
}

static void test_events(void **state)
{
	(void)state;
	kit_run(ping_events, pong_events);
}

/* ---- order, immediate, gather, WRITE with immediate ---- */

#define STREAM 20000

static void stream_sender(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	for (uint32_t i = 0; i < STREAM; i++) {
		uint64_t *word = (uint64_t *)(void *)(k.mem + i % 32 * 256);
		struct ibv_sge sge[2] = { { (uintptr_t)word, 8, k.mr->lkey },
					  { (uintptr_t)word + 128, 8 * (i % 5), k.mr->lkey } };
		struct ibv_send_wr wr = { .wr_id = i, .sg_list = sge, .num_sge = 2,
					  .opcode = IBV_WR_SEND_WITH_IMM,
					  .send_flags = i % 16 == 15 ? S : 0 }, *bad;

		word[0] = i;
		word[16] = i + 1;
		wr.imm_data = i;
		CHECK(!ibv_post_send(k.qp, &wr, &bad));
		if (i % 16 == 15)
			kit_expect(k.scq, i, IBV_WC_SUCCESS);
	}
	kit_meet(&k);
	CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 64, 8192, 5, S));
	kit_expect(k.scq, 5, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_close(&k);
}

static void stream_receiver(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_wc wc;
	struct kit k;

	opts.srq = true;
	kit_open(&k, &opts, sock);
	for (uint32_t i = 0; i < 64; i++)
		CHECK(!kit_post_recv(&k, i * 128, 128, i));
	kit_connect(&k);
	for (uint32_t i = 0; i < STREAM; i++) {
		uint64_t *word;

		wc = kit_wait(k.rcq);
		word = (uint64_t *)(void *)(k.mem + wc.wr_id * 128);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i % 64);
		CHECK(wc.byte_len == 8 + 8 * (i % 5) && wc.imm_data == i);
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
		CHECK(word[0] == i && (i % 5 == 0 || word[1] == i + 1));
		CHECK(!kit_post_recv(&k, wc.wr_id * 128, 128, wc.wr_id));
	}
	k.mem[8192] = 0xff;
	kit_meet(&k);
	wc = kit_wait(k.rcq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK(wc.imm_data == 15 && wc.byte_len == 64);
	CHECK(k.mem[8192] != 0xff);
	kit_meet(&k);
	kit_close(&k);
}

static void test_stream(void **state)
{
	(void)state;
	kit_run(stream_sender, stream_receiver);
}

/* ---- a receiver that never polls ---- */

static void silent_sender(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	/* 1.3 MB, much more than the ring has. */
	for (uint32_t i = 0; i < 64; i++) {
		memset(k.mem, (int)i, 20000);
		CHECK(!kit_post(&k, IBV_WR_SEND, 0, 20000, 0, i, S));
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
	}
	kit_meet(&k);
	kit_meet(&k);
	kit_close(&k);
}

static void silent_receiver(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct kit k;

	opts.mem_bytes = 64 * 20000;
	kit_open(&k, &opts, sock);
	for (uint32_t i = 0; i < 64; i++)
		CHECK(!kit_post_recv(&k, i * 20000, 20000, i));
	kit_connect(&k);
	kit_meet(&k); /* all were sent before the first poll */
	for (uint32_t i = 0; i < 64; i++) {
		wait_recv(&k, i, 20000);
		CHECK(k.mem[i * 20000] == i && k.mem[i * 20000 + 19999] == i);
	}
	kit_meet(&k);
	kit_close(&k);
}

static void test_silent_receiver(void **state)
{
	(void)state;
	kit_run(silent_sender, silent_receiver);
}

/* ---- receiver not ready ---- */

static void rnr_sender(int sock)
{
	struct kit_opts opts = kit_defaults;
	uint64_t begin, took;
	struct kit k;

	opts.rnr_retry = 3;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	begin = kit_now_ns();
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 1, 0));
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 2, 0));
	kit_expect(k.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	took = kit_now_ns() - begin;
	CHECK(took >= 3 * 10240000ull); /* timer 20: 10.24 ms */
	kit_expect(k.scq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK(kit_state(k.qp) == IBV_QPS_ERR);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 3, 0));
	kit_expect(k.scq, 3, IBV_WC_WR_FLUSH_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void rnr_receiver(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct kit k;

	opts.min_rnr_timer = 20;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	kit_meet(&k);
	kit_close(&k);
}

static void test_rnr_exceeded(void **state)
{
	(void)state;
	kit_run(rnr_sender, rnr_receiver);
}

static void patient_sender(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_wc wc;
	struct kit k;

	opts.events = true;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 1, S));
	for (int i = 0; i < 1000; i++)
		CHECK(!ibv_poll_cq(k.scq, 1, &wc));
	/* Nobody polls any more: the control thread has to retry. */
	CHECK(!ibv_req_notify_cq(k.scq, 0));
	kit_meet(&k);
	{
		struct ibv_cq *cq;
		void *context;

		CHECK(!sv_get_cq_event(k.chan, &cq, &context) && cq == k.scq);
		sv_ack_cq_events(cq, 1);
	}
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_close(&k);
}

static void late_receiver(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_meet(&k);
	CHECK(!kit_post_recv(&k, 0, 64, 9));
	wait_recv(&k, 9, 8);
	kit_meet(&k);
	kit_close(&k);
}

static void test_rnr_infinite(void **state)
{
	(void)state;
	kit_run(patient_sender, late_receiver);
}

/* ---- message longer than its receive ---- */

static void long_sender(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 64, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 65, 0, 2, S));
	kit_expect(k.scq, 2, IBV_WC_REM_INV_REQ_ERR);
	CHECK(kit_state(k.qp) == IBV_QPS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void short_receiver(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	/* The last one would take it, but is not its turn. */
	for (uint64_t i = 0; i < 3; i++)
		CHECK(!kit_post_recv(&k, 64 * i, i < 2 ? 64 : 128, i));
	kit_connect(&k);
	kit_expect(k.rcq, 0, IBV_WC_SUCCESS);
	kit_expect(k.rcq, 1, IBV_WC_LOC_LEN_ERR);
	kit_expect(k.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK(kit_state(k.qp) == IBV_QPS_ERR);
	CHECK(!kit_post_recv(&k, 0, 64, 3));
	kit_expect(k.rcq, 3, IBV_WC_WR_FLUSH_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void test_too_long(void **state)
{
	(void)state;
	kit_run(long_sender, short_receiver);
}

/* ---- solicited events ---- */

static void soliciting_sender(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_meet(&k);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_meet(&k);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 2, S | IBV_SEND_SOLICITED));
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_close(&k);
}

static void solicited_receiver(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct pollfd pfd = { .events = POLLIN };
	struct ibv_cq *cq;
	void *context;
	struct kit k;

	opts.events = true;
	kit_open(&k, &opts, sock);
	for (uint64_t i = 0; i < 3; i++)
		CHECK(!kit_post_recv(&k, 64 * i, 64, i));
	kit_connect(&k);
	CHECK(!fcntl(k.chan->fd, F_SETFL, O_NONBLOCK));
	CHECK(sv_get_cq_event(k.chan, &cq, &context) == -1 && errno == EAGAIN);
	CHECK(!ibv_req_notify_cq(k.rcq, 1));
	kit_meet(&k);
	kit_meet(&k); /* the first was sent */
	wait_recv(&k, 0, 8);
	CHECK(sv_get_cq_event(k.chan, &cq, &context) == -1 && errno == EAGAIN);
	kit_meet(&k);
	pfd.fd = k.chan->fd;
	CHECK(poll(&pfd, 1, KIT_LIMIT_S * 1000) == 1);
	CHECK(!sv_get_cq_event(k.chan, &cq, &context) && cq == k.rcq);
	sv_ack_cq_events(cq, 1);
	wait_recv(&k, 1, 8);
	kit_meet(&k);
	kit_close(&k);
}

static void test_solicited(void **state)
{
	(void)state;
	kit_run(soliciting_sender, solicited_receiver);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ping_pong),	cmocka_unit_test(test_events),
		cmocka_unit_test(test_stream),		cmocka_unit_test(test_silent_receiver),
		cmocka_unit_test(test_rnr_exceeded),	cmocka_unit_test(test_rnr_infinite),
		cmocka_unit_test(test_too_long),	cmocka_unit_test(test_solicited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
