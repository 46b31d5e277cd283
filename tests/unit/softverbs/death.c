/* SPDX-License-Identifier: BSD-2-Clause */
/* death.c -- peers that die, freeze, or leave. */
#include <sched.h>
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED

static void sleep_for_ever(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	memset(k.mem, 0x42, 4096);
	kit_connect(&k);
	kit_meet(&k);
	for (;;)
		pause();
}

/* ---- the target is killed ---- */

static void bereaved(int sock)
{
	struct kit_opts opts = kit_defaults;
	uint64_t begin, took;
	struct kit k;

	opts.timeout = 14; /* 67 ms */
	opts.retry_cnt = 2;
	kit_open(&k, &opts, sock);
	for (uint64_t i = 0; i < 2; i++)
		CHECK(!kit_post_recv(&k, 0, 64, i));
	kit_connect(&k);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_meet(&k);
	/* One that waits for a receive when the peer dies. */
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 2, 0));
	kill(k.pid, SIGKILL);
	begin = kit_now_ns();
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 3, 0));
	kit_expect(k.scq, 2, IBV_WC_RETRY_EXC_ERR);
	took = kit_now_ns() - begin;
	CHECK(took > 150000000 && took < 20000000000);
	kit_expect(k.scq, 3, IBV_WC_WR_FLUSH_ERR);
	kit_expect(k.rcq, 0, IBV_WC_WR_FLUSH_ERR);
	kit_expect(k.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	kit_close(&k);
}

static void test_killed_target(void **state)
{
	(void)state;
	kit_run_two(bereaved, sleep_for_ever, true);
}

/* ---- the target is killed, and a child that it forked lives ---- */

/* The child has nothing of the device, and ends with the other side. */
static void leave_a_child(int sock)
{
	uint64_t word;
	struct kit k;
	pid_t pid;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		alarm(KIT_LIMIT_S * 2);
		kit_say(sock, 1);
		while (read(sock, &word, sizeof(word)) > 0)
			;
		_exit(0);
	}
	for (;;)
		pause();
}

/* What is left of it answers nothing: a child that kept its descriptors would do so in its place. */
static void bereaved_by_a_parent(int sock)
{
	uint64_t until;
	struct ibv_wc wc;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	CHECK(kit_hear(sock) == 1); /* the child is there */
	kill(k.pid, SIGKILL);
	until = kit_now_ns() + 20000000000;
	do {
		CHECK(kit_now_ns() < until);
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, S));
		wc = kit_wait(k.scq);
	} while (wc.status == IBV_WC_SUCCESS);
	CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
	kit_close(&k);
}

static void test_killed_parent(void **state)
{
	(void)state;
	kit_run_two(bereaved_by_a_parent, leave_a_child, true);
}

/* ---- the target is frozen: one-sided operations go on ---- */

static void patient(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_meet(&k);
	/* The link is up, and nothing was read yet. */
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 0, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_stop(k.pid);
	/* The first access of all comes when nobody is there to answer. */
	for (uint64_t i = 0; i < 1000; i++) {
		k.mem[0] = 0;
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 64, 64, i, S));
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
		CHECK(k.mem[0] == 0x42);
		CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8192, 1, 0, i));
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
		CHECK(*(uint64_t *)(void *)k.mem == i);
	}
	kill(k.pid, SIGKILL);
	kit_close(&k);
}

static void test_frozen_target(void **state)
{
	(void)state;
	kit_run_two(patient, sleep_for_ever, true);
}

/* ---- the peer's QP is destroyed, its process lives ---- */

static void leaver(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_meet(&k);
	kit_close(&k);
	kit_say(sock, 1);
	CHECK(kit_hear(sock) == 1);
}

static void left(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_meet(&k);
	CHECK(kit_hear(sock) == 1);
	CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_RETRY_EXC_ERR);
	kit_say(sock, 1);
	kit_close(&k);
}

static void test_destroyed_peer(void **state)
{
	(void)state;
	kit_run(left, leaver);
}

/* ---- credits of a shared receive queue, claimed by senders that die ---- */

#define CREDITS 256
#define VICTIMS 40

static void doomed_sender(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_wc wc[16];
	struct kit k;

	opts.inline_bytes = 64;
	CHECK(kit_hear(sock) == 1);
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	for (uint64_t i = 0;; i++) {
		if (kit_post(&k, IBV_WR_SEND, 0, (uint32_t)(8 + i % 50), 0, i, S | IBV_SEND_INLINE))
			sched_yield();
		ibv_poll_cq(k.scq, 16, wc);
	}
}

static pid_t start_doomed(int *sock)
{
	int pair[2];
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(pair[0]);
		alarm(KIT_LIMIT_S * 2);
		doomed_sender(pair[1]);
	}
	close(pair[1]);
	*sock = pair[0];
	return pid;
}

/* Takes what there is; returns how many. */
static int take(struct kit *k, bool repost)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(k->rcq, 16, wc);

	CHECK(n >= 0);
	for (int i = 0; i < n; i++) {
		CHECK(wc[i].status == IBV_WC_SUCCESS);
		if (repost)
			CHECK(!kit_post_recv(k, wc[i].wr_id * 64, 64, wc[i].wr_id));
	}
	return n;
}

/* A QP of its own for each of the senders; all share the SRQ. */
static void kill_one(struct kit *k, pid_t pid, unsigned int seed)
{
	uint64_t until = 300000 + seed * 7919 % 3000000;

	k->qp = kit_new_qp(k);
	kit_to_init(k, k->qp);
	kit_say(k->sock, 1);
	kit_connect(k);
	until += kit_now_ns();
	while (kit_now_ns() < until)
		take(k, true);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	close(k->sock);
}

/* All credits are there: that many messages arrive without a receive being
 * posted, and one more does not. */
static void count_credits(struct kit *k, int credits)
{
	struct ibv_qp *qp = kit_new_qp(k), *peer = kit_new_qp(k);
	struct ibv_sge sge = kit_sge(k, 0, 8);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = S }, *bad;

	k->opts.rnr_retry = 0;
	kit_to_init(k, qp);
	kit_to_init(k, peer);
	kit_to_rts(k, qp, peer->qp_num);
	kit_to_rts(k, peer, qp->qp_num);
	for (int i = 0; i < credits; i++) {
		CHECK(!ibv_post_send(qp, &wr, &bad));
		CHECK(kit_wait(k->scq).status == IBV_WC_SUCCESS);
	}
	CHECK(!ibv_post_send(qp, &wr, &bad));
	CHECK(kit_wait(k->scq).status == IBV_WC_RNR_RETRY_EXC_ERR);
	while (credits)
		credits -= take(k, false);
	CHECK(!sv_destroy_qp(qp) && !sv_destroy_qp(peer));
}

static void heir(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct ibv_qp *qps[VICTIMS];
	int socks[VICTIMS];
	pid_t pids[VICTIMS];
	struct ibv_wc wc;
	struct kit k;

	(void)sock;
	/* Before this process has threads, for the sake of ThreadSanitizer. */
	for (unsigned int i = 0; i < VICTIMS; i++)
		pids[i] = start_doomed(&socks[i]);
	opts.srq = true;
	opts.recv_wr = CREDITS;
	opts.cqe = 4096;
	kit_open(&k, &opts, -1);
	CHECK(!sv_destroy_qp(k.qp));
	for (uint64_t i = 0; i < CREDITS; i++)
		CHECK(!kit_post_recv(&k, i * 64, 64, i));
	for (unsigned int i = 0; i < VICTIMS; i++) {
		k.sock = socks[i];
		kill_one(&k, pids[i], i);
		qps[i] = k.qp;
	}
	for (unsigned int i = 0; i < VICTIMS; i++) {
		/* Until the death of the peer is known, which a send tells. */
		k.qp = qps[i];
		while (take(&k, true))
			;
		CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, i, S));
		CHECK(kit_wait(k.scq).status == IBV_WC_RETRY_EXC_ERR);
		while (take(&k, true))
			;
	}
	while (ibv_poll_cq(k.rcq, 1, &wc))
		CHECK(!kit_post_recv(&k, wc.wr_id * 64, 64, wc.wr_id));
	count_credits(&k, CREDITS);
	for (unsigned int i = 1; i < VICTIMS; i++)
		CHECK(!sv_destroy_qp(qps[i]));
	k.qp = qps[0];
	kit_close(&k);
}

static void test_credits_of_the_dead(void **state)
{
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = kit_fork(heir, -1, -1);
	assert_int_equal(kit_status(pid), 0);
}

/* ---- a receiver that sleeps on events when its senders die ---- */

static void sleeper(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct pollfd pfd = { .events = POLLIN };
	struct kit k;

	opts.events = true;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	CHECK(!ibv_req_notify_cq(k.rcq, 0));
	kit_meet(&k);
	kill(k.pid, SIGKILL);
	pfd.fd = k.chan->fd;
	CHECK(poll(&pfd, 1, 10000) == 1); /* an event, in case one was lost */
	kit_close(&k);
}

static void test_event_of_the_dead(void **state)
{
	(void)state;
	kit_run_two(sleeper, sleep_for_ever, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_target),	    cmocka_unit_test(test_killed_parent),
		cmocka_unit_test(test_frozen_target),	    cmocka_unit_test(test_destroyed_peer),
		cmocka_unit_test(test_credits_of_the_dead), cmocka_unit_test(test_event_of_the_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
