/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kit.h -- what the tests of the software device share.
 *
 * A test runs its two sides in two forked children, so that each is a process of
 * its own with the device; they exchange what they must over a socket pair.  A
 * side that fails a CHECK says so and exits with 1.
 */
#ifndef TESTS_UNIT_SOFTVERBS_KIT_H
#define TESTS_UNIT_SOFTVERBS_KIT_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/softverbs.h"
#include "tests/unit/stopped.h"

#undef ibv_reg_mr
#undef ibv_query_port

#define CHECK(what)                                                                         \
	do {                                                                                \
		if (!(what)) {                                                              \
			fprintf(stderr, "%s:%d: %s: %s (errno %d)\n", __FILE__, __LINE__,   \
				__func__, #what, errno);                                    \
			fflush(stderr);                                                     \
			_exit(1);                                                           \
		}                                                                           \
	} while (0)

#define KIT_LIMIT_S 60

struct kit_opts {
	uint32_t send_wr, recv_wr, inline_bytes, max_sge;
	int cqe;
	size_t mem_bytes;
	int mem_flags; /* of sv_mem_alloc(); -1: malloc */
	int mr_access;
	unsigned int qp_access;
	uint8_t rd_atomic, dest_rd_atomic;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	bool events, srq, all_signaled;
};

static const struct kit_opts kit_defaults = {
	.send_wr = 64, .recv_wr = 64, .inline_bytes = 256, .max_sge = 4, .cqe = 256,
	.mem_bytes = 1 << 20, .mem_flags = 0,
	.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
	.qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	.rd_atomic = 16, .dest_rd_atomic = 16,
	.timeout = 10, .retry_cnt = 3, .rnr_retry = 7, .min_rnr_timer = 1,
};

/* One side. */
struct kit {
	struct kit_opts opts;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *chan;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *mem;
	int sock;
	/* The other side. */
	uint32_t qpn, rkey;
	uint64_t addr;
	pid_t pid;
};

static inline uint64_t kit_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Until each thread of the process stands still. */
static inline void kit_wait_stopped(pid_t pid)
{
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;

	while (!is_stopped(pid)) {
		CHECK(kit_now_ns() < until);
		sched_yield();
	}
}

/* The signal is no more than sent when kill() returns. */
static inline void kit_stop(pid_t pid)
{
	CHECK(!kill(pid, SIGSTOP));
	kit_wait_stopped(pid);
}

static inline void kit_say(int sock, uint64_t word)
{
	CHECK(write(sock, &word, sizeof(word)) == sizeof(word));
}

static inline uint64_t kit_hear(int sock)
{
	uint64_t word;

	CHECK(read(sock, &word, sizeof(word)) == sizeof(word));
	return word;
}

/* Both sides are here. */
static inline void kit_meet(struct kit *k)
{
	kit_say(k->sock, 1);
	CHECK(kit_hear(k->sock) == 1);
}

static inline struct ibv_context *kit_open_device(void)
{
	int n;
	struct ibv_device **list = sv_get_device_list(&n);
	struct ibv_context *ctx;

	CHECK(list && n == 1 && sv_is_soft(list[0]));
	ctx = sv_open_device(list[0]);
	sv_free_device_list(list);
	CHECK(ctx);
	return ctx;
}

static inline struct ibv_qp *kit_new_qp(struct kit *k)
{
	struct ibv_qp_init_attr init = {
		.send_cq = k->scq, .recv_cq = k->rcq, .srq = k->srq, .qp_type = IBV_QPT_RC,
		.sq_sig_all = k->opts.all_signaled,
		.cap = { .max_send_wr = k->opts.send_wr, .max_recv_wr = k->opts.recv_wr,
			 .max_send_sge = k->opts.max_sge, .max_recv_sge = k->opts.max_sge,
			 .max_inline_data = k->opts.inline_bytes },
	};
	struct ibv_qp *qp = sv_create_qp(k->pd, &init);

	CHECK(qp);
	return qp;
}

static inline void kit_to_init(struct kit *k, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = k->opts.qp_access };

	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS));
}

static inline void kit_open(struct kit *k, const struct kit_opts *opts, int sock)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = opts->recv_wr,
						   .max_sge = opts->max_sge } };

	memset(k, 0, sizeof(*k));
	k->opts = *opts;
	k->sock = sock;
	k->ctx = kit_open_device();
	k->pd = sv_alloc_pd(k->ctx);
	CHECK(k->pd);
	if (opts->events)
		CHECK((k->chan = sv_create_comp_channel(k->ctx)) != NULL);
	k->scq = sv_create_cq(k->ctx, opts->cqe, k, k->chan, 0);
	k->rcq = sv_create_cq(k->ctx, opts->cqe, k, k->chan, 0);
	CHECK(k->scq && k->rcq);
	if (opts->srq)
		CHECK((k->srq = sv_create_srq(k->pd, &srq)) != NULL);
	if (opts->mem_flags < 0)
		CHECK((k->mem = calloc(1, opts->mem_bytes)) != NULL);
	else
		CHECK(!sv_mem_alloc(opts->mem_bytes, opts->mem_flags, (void **)&k->mem));
	k->mr = sv_reg_mr(k->pd, k->mem, opts->mem_bytes, opts->mr_access);
	CHECK(k->mr);
	k->qp = kit_new_qp(k);
	kit_to_init(k, k->qp);
}

static inline void kit_to_rts(struct kit *k, struct ibv_qp *qp, uint32_t qpn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096,
				    .dest_qp_num = qpn,
				    .max_dest_rd_atomic = k->opts.dest_rd_atomic,
				    .min_rnr_timer = k->opts.min_rnr_timer };

	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = k->opts.timeout,
				     .retry_cnt = k->opts.retry_cnt,
				     .rnr_retry = k->opts.rnr_retry,
				     .max_rd_atomic = k->opts.rd_atomic };
	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC));
}

/* What each end has to know of the other. */
static inline void kit_exchange(struct kit *k)
{
	kit_say(k->sock, k->qp->qp_num);
	kit_say(k->sock, k->mr->rkey);
	kit_say(k->sock, (uintptr_t)k->mem);
	kit_say(k->sock, (uint64_t)getpid());
	k->qpn = (uint32_t)kit_hear(k->sock);
	k->rkey = (uint32_t)kit_hear(k->sock);
	k->addr = kit_hear(k->sock);
	k->pid = (pid_t)kit_hear(k->sock);
}

static inline void kit_connect(struct kit *k)
{
	kit_exchange(k);
	kit_to_rts(k, k->qp, k->qpn);
	kit_meet(k);
}

/* One side is all: a queue pair that is connected to itself. */
static inline void kit_open_self(struct kit *k, const struct kit_opts *opts)
{
	kit_open(k, opts, -1);
	kit_to_rts(k, k->qp, k->qp->qp_num);
	k->rkey = k->mr->rkey;
	k->addr = (uintptr_t)k->mem;
}

/* Such a one with events, whose waits spin for so long. */
static inline void kit_open_spinning(struct kit *k, const char *spin_us)
{
	struct kit_opts opts = kit_defaults;

	CHECK(!setenv("SOFTVERBS_SPIN_US", spin_us, 1));
	opts.events = true;
	kit_open_self(k, &opts);
}

static inline void kit_close(struct kit *k)
{
	CHECK(!sv_destroy_qp(k->qp));
	if (k->srq)
		CHECK(!sv_destroy_srq(k->srq));
	CHECK(!sv_destroy_cq(k->scq));
	CHECK(!sv_destroy_cq(k->rcq));
	if (k->chan)
		CHECK(!sv_destroy_comp_channel(k->chan));
	CHECK(!sv_dereg_mr(k->mr));
	if (k->opts.mem_flags < 0)
		free(k->mem);
	else
		CHECK(!sv_mem_free(k->mem));
	CHECK(!sv_dealloc_pd(k->pd));
	CHECK(!sv_close_device(k->ctx));
}

/* ---- work requests on k->mem ---- */

static inline struct ibv_sge kit_sge(struct kit *k, size_t at, uint32_t bytes)
{
	return (struct ibv_sge){ (uintptr_t)k->mem + at, bytes, k->mr->lkey };
}

static inline int kit_post(struct kit *k, enum ibv_wr_opcode opcode, size_t at, uint32_t bytes,
			   size_t remote_at, uint64_t wr_id, unsigned int flags)
{
	struct ibv_sge sge = kit_sge(k, at, bytes);
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
				  .opcode = opcode, .send_flags = flags }, *bad;

	wr.imm_data = (__be32)(wr_id * 3);
	wr.wr.rdma.remote_addr = k->addr + remote_at;
	wr.wr.rdma.rkey = k->rkey;
	return ibv_post_send(k->qp, &wr, &bad);
}

/* Of one that is connected to itself. */
static inline void kit_complete(struct kit *k)
{
	CHECK(!kit_post(k, IBV_WR_RDMA_WRITE, 0, 8, 64, 1, IBV_SEND_SIGNALED));
}

static inline int kit_post_atomic(struct kit *k, enum ibv_wr_opcode opcode, size_t at,
				  size_t remote_at, uint64_t compare_add, uint64_t swap,
				  uint64_t wr_id)
{
	struct ibv_sge sge = kit_sge(k, at, 8);
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
				  .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.wr.atomic.remote_addr = k->addr + remote_at;
	wr.wr.atomic.rkey = k->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return ibv_post_send(k->qp, &wr, &bad);
}

static inline int kit_post_recv(struct kit *k, size_t at, uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge sge = kit_sge(k, at, bytes);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return k->srq ? ibv_post_srq_recv(k->srq, &wr, &bad) : ibv_post_recv(k->qp, &wr, &bad);
}

/* Polls until there is one. */
static inline struct ibv_wc kit_wait(struct ibv_cq *cq)
{
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		CHECK(kit_now_ns() < until);
	CHECK(n == 1);
	return wc;
}

static inline void kit_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = kit_wait(cq);

	if (wc.wr_id != wr_id || wc.status != status)
		fprintf(stderr, "wr_id %lu status %d, not %lu %d\n", (unsigned long)wc.wr_id,
			wc.status, (unsigned long)wr_id, status);
	CHECK(wc.wr_id == wr_id && wc.status == status);
}

static inline enum ibv_qp_state kit_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!sv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

static inline void kit_wait_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;

	while (kit_state(qp) != state) {
		CHECK(kit_now_ns() < until);
		sched_yield();
	}
}

static inline enum ibv_event_type kit_async(struct kit *k)
{
	struct pollfd pfd = { .fd = k->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK(poll(&pfd, 1, KIT_LIMIT_S * 1000) == 1);
	CHECK(!sv_get_async_event(k->ctx, &event));
	sv_ack_async_event(&event);
	return event.event_type;
}

/* ---- two sides ---- */

typedef void kit_side(int sock);

/* The other side of one that needs none. */
static inline void kit_nothing(int sock)
{
	(void)sock;
}

/* ThreadSanitizer refuses threads in a child of a threaded process: a test that needs them is skipped. */
static inline void kit_skip_in_tsan(void)
{
#ifdef SV_TSAN
	skip();
#endif
}

static inline pid_t kit_fork(kit_side *side, int sock, int other)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	close(other);
	alarm(KIT_LIMIT_S * 2);
	side(sock);
	exit(0);
}

static inline int kit_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Both have to end well; killed: b may be killed by a. */
static inline void kit_run_two(kit_side *a, kit_side *b, bool killed)
{
	int pair[2], status;
	pid_t pids[2];

	fflush(NULL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pids[0] = kit_fork(a, pair[0], pair[1]);
	pids[1] = kit_fork(b, pair[1], pair[0]);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(kit_status(pids[0]), 0);
	status = kit_status(pids[1]);
	if (killed)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	else
		assert_int_equal(status, 0);
}

static inline void kit_run(kit_side *a, kit_side *b)
{
	kit_run_two(a, b, false);
}

#endif
