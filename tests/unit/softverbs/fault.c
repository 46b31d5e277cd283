/* SPDX-License-Identifier: BSD-2-Clause */
/* fault.c -- injected faults, and what else a process may do. */
#include <stdatomic.h>
#include <sys/mman.h>
#include "common/softverbs/base/device.h"
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED
#define WORDS 64

static void serve_until_told(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	memset(k.mem, 0x42, 4096);
	for (uint64_t i = 0; i < 8; i++)
		CHECK(!kit_post_recv(&k, 8192, 64, i));
	kit_connect(&k);
	kit_meet(&k);
	kit_close(&k);
}

static void open_user(struct kit *k, int sock, uint8_t timeout)
{
	struct kit_opts opts = kit_defaults;

	opts.timeout = timeout;
	kit_open(k, &opts, sock);
	kit_connect(k);
}

static void close_user(struct kit *k)
{
	CHECK(!sv_fault_set(NULL));
	kit_meet(k);
	kit_close(k);
}

/* ---- torn reads, of an area that its owner fills again and again ---- */

static void painter(int sock)
{
	struct pollfd pfd = { .fd = sock, .events = POLLIN };
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	for (uint64_t n = 0; n % 64 || !poll(&pfd, 1, 0); n++) {
		_Atomic uint64_t *word = (_Atomic uint64_t *)(void *)k.mem;

		for (int i = 0; i < WORDS; i++)
			atomic_store_explicit(&word[i], (n & 0xff) * 0x0101010101010101ull,
					      memory_order_relaxed);
	}
	kit_meet(&k);
	kit_close(&k);
}

static void viewer(int sock)
{
	uint64_t torn = 0, rounds = 0;
	uint64_t until = kit_now_ns() + 20000000000u;
	struct kit k;

	open_user(&k, sock, 10);
	CHECK(!sv_fault_set("seed=7,torn=1000"));
	while (torn < 100 && kit_now_ns() < until) {
		uint64_t *word = (uint64_t *)(void *)k.mem;

		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, WORDS * 8, 0, rounds, S));
		kit_expect(k.scq, rounds++, IBV_WC_SUCCESS);
		for (int i = 0; i < WORDS; i++) {
			/* Never within a word. */
			CHECK(word[i] == (word[i] & 0xff) * 0x0101010101010101ull);
			if (i && word[i] != word[i - 1])
				torn++;
		}
	}
	CHECK(torn >= 100);
	close_user(&k);
}

static void test_torn(void **state)
{
	(void)state;
	kit_run(viewer, painter);
}

/* ---- single faults ---- */

static void flipped(int sock)
{
	int bits = 0;
	struct kit k;

	open_user(&k, sock, 10);
	CHECK(!sv_fault_set("flip=1000"));
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 4096, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 4096; i++)
		bits += __builtin_popcount(k.mem[i] ^ 0x42u);
	CHECK(bits == 1);
	close_user(&k);
}

static void test_flip(void **state)
{
	(void)state;
	kit_run(flipped, serve_until_told);
}

static void lost_ack(int sock)
{
	struct kit k;

	open_user(&k, sock, 10);
	CHECK(!sv_fault_set("ack_lost=1000"));
	CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 1, 0, 1));
	kit_expect(k.scq, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK(k.mem[0] == 0 && kit_state(k.qp) == IBV_QPS_ERR);
	close_user(&k);
}

static void counter(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_meet(&k);
	CHECK(*(uint64_t *)(void *)k.mem == 1); /* applied */
	kit_close(&k);
}

static void test_ack_lost(void **state)
{
	(void)state;
	kit_run(lost_ack, counter);
}

static void delayed(int sock)
{
	uint64_t begin;
	struct ibv_wc wc;
	struct kit k;

	open_user(&k, sock, 10);
	CHECK(!sv_fault_set("delay_us=20000"));
	begin = kit_now_ns();
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, S));
	CHECK(!ibv_poll_cq(k.scq, 1, &wc));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	CHECK(kit_now_ns() - begin >= 20000000);
	CHECK(!sv_fault_set("rnr=1000"));
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 2, S));
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	CHECK(!sv_fault_set("error=1000"));
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 3, S));
	kit_expect(k.scq, 3, IBV_WC_GENERAL_ERR);
	close_user(&k);
}

static void test_delay_rnr_error(void **state)
{
	(void)state;
	kit_run(delayed, serve_until_told);
}

static void parted(int sock)
{
	uint64_t begin;
	struct kit k;

	open_user(&k, sock, 14); /* 4 tries of 67 ms */
	CHECK(!sv_fault_set("partition=1"));
	begin = kit_now_ns();
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK(kit_now_ns() - begin >= 260000000);
	close_user(&k);
}

static void test_partition(void **state)
{
	(void)state;
	kit_run(parted, serve_until_told);
}

/* ---- atomics of a NIC that does not know the CPU's ---- */


static void cpu_adder(int sock)
{
	struct kit k;

	CHECK(!sv_fault_set("noncoherent=1"));
	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	/* Until the other side's adds are through. */
	for (struct pollfd pfd = { .fd = sock, .events = POLLIN }; !poll(&pfd, 1, 0);) {
		for (int i = 0; i < 1000; i++)
			atomic_fetch_add((_Atomic uint64_t *)(void *)k.mem, 1ull << 32);
		((uint64_t *)(void *)k.mem)[1] += 1000;
	}
	kit_meet(&k);
	/* The two words tell if an add of the CPU was lost. */
	CHECK(*(uint64_t *)(void *)k.mem >> 32 < ((uint64_t *)(void *)k.mem)[1]);
	kit_close(&k);
}

static void nic_adder(int sock)
{
	struct kit k;

	CHECK(!sv_fault_set("noncoherent=1"));
	open_user(&k, sock, 10);
	for (uint64_t i = 0; i < 2000; i++) {
		CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 1, 0, i));
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
	}
	close_user(&k);
}

static void test_noncoherent(void **state)
{
	(void)state;
	kit_run(nic_adder, cpu_adder);
}

static void test_specs(void **state)
{
	/* Of a thousand; microseconds; an index, a count; one of the kernel's events; a device. */
	static const struct {
		const char *name;
		unsigned long long most;
	} limits[] = {
		{ "torn", 1000 }, { "ack_lost", 1000 }, { "flip", 1000 }, { "error", 1000 }, { "rnr", 1000 },
		{ "overrun", 1000 }, { "delay_us", 10000000 }, { "qp", UINT32_MAX }, { "kill_at", UINT32_MAX },
		{ "kill_after", UINT32_MAX }, { "freeze_at", UINT32_MAX }, { "event_at", UINT32_MAX },
		{ "event", IBV_EVENT_WQ_FATAL }, { "device", SV_DEVICES - 1 },
	};

	(void)state;
	assert_int_equal(sv_fault_set("seed=1,torn=5,flip=0x10"), 0);
	assert_int_equal(sv_fault_set("torn=1001"), EINVAL);
	assert_int_equal(sv_fault_set("nonsense=1"), EINVAL);
	assert_int_equal(sv_fault_set("torn"), EINVAL);
	assert_int_equal(sv_fault_set("torn="), EINVAL);
	assert_int_equal(sv_fault_set("torn=x"), EINVAL);
	for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		char spec[48];

		snprintf(spec, sizeof spec, "%s=%llu", limits[i].name, limits[i].most);
		assert_int_equal(sv_fault_set(spec), 0);
		snprintf(spec, sizeof spec, "%s=%llu", limits[i].name, limits[i].most + 1);
		assert_int_equal(sv_fault_set(spec), EINVAL);
	}
	assert_int_equal(sv_fault_set(""), 0);
}

/* ---- faults of one process, its queue pair connected to itself ---- */

static void open_alone(struct kit *k)
{
	kit_open(k, &kit_defaults, -1);
	kit_to_rts(k, k->qp, k->qp->qp_num);
	k->rkey = k->mr->rkey;
	k->addr = (uintptr_t)k->mem;
}

static void add_one(struct kit *k, uint64_t wr_id)
{
	CHECK(!kit_post_atomic(k, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, 1, 0, wr_id));
}

static void overrun(int sock)
{
	struct ibv_wc wc;
	struct kit k;

	(void)sock;
	open_alone(&k);
	CHECK(!sv_fault_set("overrun=1000"));
	add_one(&k, 1);
	CHECK(kit_async(&k) == IBV_EVENT_CQ_ERR);
	CHECK(kit_async(&k) == IBV_EVENT_QP_FATAL);
	CHECK(ibv_poll_cq(k.scq, 1, &wc) < 0 && kit_state(k.qp) == IBV_QPS_ERR);
	CHECK(!sv_fault_set(NULL));
	kit_close(&k);
}

/* Only the second queue pair of the process. */
static void one_queue_pair(int sock)
{
	struct ibv_qp *second;
	struct kit k;

	(void)sock;
	CHECK(!sv_fault_set("error=1000,qp=2"));
	open_alone(&k);
	add_one(&k, 1);
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	second = k.qp;
	k.qp = kit_new_qp(&k);
	kit_to_init(&k, k.qp);
	kit_to_rts(&k, k.qp, k.qp->qp_num);
	add_one(&k, 2);
	kit_expect(k.scq, 2, IBV_WC_GENERAL_ERR);
	CHECK(!sv_destroy_qp(second));
	kit_close(&k);
}

/* How many of the adds ended, as the parent sees it. */
static _Atomic uint64_t *adds;

static void adds_until(int sock)
{
	struct kit k;

	(void)sock;
	open_alone(&k);
	for (uint64_t i = 1; i <= 5; i++) {
		add_one(&k, i);
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
		atomic_fetch_add(adds, 1);
	}
	kit_close(&k);
}

/* Runs adds_until() with a fault; returns as waitpid(), stopped too. */
static int status_with(const char *faults, pid_t *pid)
{
	int status;

	atomic_store(adds, 0);
	setenv("SOFTVERBS_FAULT", faults, 1);
	fflush(NULL);
	*pid = kit_fork(adds_until, -1, -1);
	unsetenv("SOFTVERBS_FAULT");
	assert_int_equal(waitpid(*pid, &status, WUNTRACED), *pid);
	return status;
}

static void test_kill_and_freeze(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	status = status_with("kill_at=3", &pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(atomic_load(adds), 2);
	status = status_with("kill_after=3", &pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(atomic_load(adds), 2);
	status = status_with("freeze_at=4", &pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	assert_int_equal(atomic_load(adds), 3);
	kill(pid, SIGCONT);
	assert_int_equal(kit_status(pid), 0);
	assert_int_equal(atomic_load(adds), 5);
	status = status_with("kill_at=x", &pid); /* no device then */
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* An add of a process that dies before it knows: applied, or not. */
static void dies_at_add(int sock)
{
	struct kit k;

	open_user(&k, sock, 10);
	CHECK(!sv_fault_set(kit_hear(sock) ? "kill_after=1" : "kill_at=1"));
	add_one(&k, 1);
	kit_wait(k.scq); /* it waits for the link, if not posting already killed us */
	CHECK(!"alive");
}

static void sees_add(int sock, uint64_t after)
{
	struct pollfd pfd = { .fd = sock, .events = POLLIN };
	struct kit k;
	char byte;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	kit_say(sock, after);
	CHECK(poll(&pfd, 1, KIT_LIMIT_S * 1000) == 1 && read(sock, &byte, 1) == 0);
	CHECK(*(uint64_t *)(void *)k.mem == after);
	kit_close(&k);
}

static void sees_add_at(int sock)
{
	sees_add(sock, 0);
}

static void sees_add_after(int sock)
{
	sees_add(sock, 1);
}

static void test_death_at_add(void **state)
{
	(void)state;
	kit_run_two(sees_add_at, dies_at_add, true);
	kit_run_two(sees_add_after, dies_at_add, true);
}

static void run_alone(kit_side *side)
{
	pid_t pid;

	fflush(NULL);
	pid = kit_fork(side, -1, -1);
	assert_int_equal(kit_status(pid), 0);
}

static void test_overrun(void **state)
{
	(void)state;
	run_alone(overrun);
}

static void test_one_queue_pair(void **state)
{
	(void)state;
	run_alone(one_queue_pair);
}

/* ---- a forked child is a process of its own ---- */

static void forking(int sock)
{
	struct kit k, child;
	int status;
	pid_t pid;

	(void)sock;
	kit_open(&k, &kit_defaults, -1);
	kit_to_rts(&k, k.qp, k.qp->qp_num);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		kit_open(&child, &kit_defaults, -1);
		CHECK(child.qp->qp_num >> 12 != k.qp->qp_num >> 12);
		CHECK(sv_mem_free(k.mem) == EINVAL); /* it is memory as any other there */
		kit_to_rts(&child, child.qp, child.qp->qp_num);
		child.rkey = child.mr->rkey;
		child.addr = (uintptr_t)child.mem;
		CHECK(!kit_post(&child, IBV_WR_RDMA_READ, 0, 8, 8, 1, S));
		kit_expect(child.scq, 1, IBV_WC_SUCCESS);
		kit_close(&child);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	k.rkey = k.mr->rkey;
	k.addr = (uintptr_t)k.mem;
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 8, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_close(&k);
}

static void test_fork(void **state)
{
	pid_t pid;

	(void)state;
	kit_skip_in_tsan();
	fflush(NULL);
	pid = kit_fork(forking, -1, -1);
	assert_int_equal(kit_status(pid), 0);
}

/* ---- what the device says of itself ---- */

static void attributes(int sock)
{
	struct ibv_context *ctx = kit_open_device();
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;
	void *mem;

	(void)sock;
	CHECK(!sv_query_device(ctx, &attr));
	CHECK(attr.atomic_cap == IBV_ATOMIC_HCA && attr.max_qp_wr >= 16384 && attr.max_sge >= 16);
	CHECK(attr.max_cqe >= 262144 && attr.max_srq_wr >= 32768 && attr.phys_port_cnt == 1);
	CHECK(!sv_query_port(ctx, 1, &port) && port.state == IBV_PORT_ACTIVE);
	CHECK(port.link_layer == IBV_LINK_LAYER_ETHERNET && port.max_msg_sz == 1u << 30);
	CHECK(sv_query_port(ctx, 2, &port) == EINVAL);
	CHECK(!sv_query_gid(ctx, 1, 0, &gid) && gid.raw[12] == 127 && gid.raw[11] == 0xff);
	CHECK(!sv_query_gid(ctx, 1, 1, &gid) && gid.raw[15] == 1);
	CHECK(sv_query_gid(ctx, 1, 2, &gid) == -1);
	CHECK(!sv_query_pkey(ctx, 1, 0, &pkey) && pkey == 0xffff);
	CHECK(!strcmp(ctx->device->name, "soft0") && ctx->cmd_fd == -1);
	CHECK(ctx->device->node_type == IBV_NODE_CA && ctx->num_comp_vectors > 0);
	CHECK(sv_mem_alloc(0, 0, &mem) == EINVAL && sv_mem_alloc(1, 8, &mem) == EINVAL);
	CHECK(sv_mem_free(ctx) == EINVAL);
	{
		struct ibv_pd *pd = sv_alloc_pd(ctx);
		void *hole = (void *)(uintptr_t)4096;

		CHECK(pd && !sv_reg_mr(pd, hole, 4096, 0) && errno == EFAULT);
		CHECK(!sv_reg_mr(pd, &port, 8, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
		CHECK(!sv_reg_mr(pd, &port, 0, 0) && errno == EINVAL);
		CHECK(!sv_dealloc_pd(pd));
	}
	CHECK(!sv_close_device(ctx));
}

static void test_attributes(void **state)
{
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = kit_fork(attributes, -1, -1);
	assert_int_equal(kit_status(pid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_torn),	    cmocka_unit_test(test_flip),
		cmocka_unit_test(test_ack_lost),    cmocka_unit_test(test_delay_rnr_error),
		cmocka_unit_test(test_partition),   cmocka_unit_test(test_noncoherent),
		cmocka_unit_test(test_specs),	    cmocka_unit_test(test_overrun),
		cmocka_unit_test(test_one_queue_pair),
		cmocka_unit_test(test_kill_and_freeze),
		cmocka_unit_test(test_death_at_add), cmocka_unit_test(test_fork),
		cmocka_unit_test(test_attributes),
	};

	adds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return adds == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
