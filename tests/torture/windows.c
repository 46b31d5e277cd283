/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * windows -- what it costs to take a right to memory back: registering the region anew,
 * or invalidating a connection's memory window (type 2), on a device of libibverbs.
 *
 *	windows DEVICE GID_INDEX
 *
 * Two queue pairs of this process are connected through the device; one is kvd's end,
 * and binds the windows, the other a client's.  Times are medians.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <infiniband/verbs.h>

#define ROUNDS 31
#define REMOTE (IBV_ACCESS_REMOTE_READ)

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct end server, client;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	fputs("windows: ", stderr);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof *v, compare);
	return v[n / 2];
}

/* ------------------------------------------------------------------- the device */

static void open_device(const char *name)
{
	struct ibv_device_attr attr;
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_device **d = list; d && *d; d++)
		if (!strcmp(ibv_get_device_name(*d), name))
			ctx = ibv_open_device(*d);
	ibv_free_device_list(list);
	if (!ctx || ibv_query_device(ctx, &attr))
		die("no device %s", name);
	if (!(attr.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B))) {
		printf("%s has no memory windows of type 2\n", name);
		exit(77);
	}
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		die("no protection domain");
}

static void make(struct end *e)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 64, 4, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = REMOTE };

	e->cq = ibv_create_cq(ctx, 128, NULL, NULL, 0);
	init.send_cq = init.recv_cq = e->cq;
	e->qp = e->cq ? ibv_create_qp(pd, &init) : NULL;
	if (!e->qp || ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
							  IBV_QP_ACCESS_FLAGS))
		die("no queue pair");
}

static void join(struct end *e, uint32_t peer, int gid_index)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = peer, .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 12 };

	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	if (ibv_query_gid(ctx, 1, gid_index, &attr.ah_attr.grh.dgid) ||
	    ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
						IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
						IBV_QP_MIN_RNR_TIMER))
		die("a queue pair does not get ready to receive");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 6;
	attr.max_rd_atomic = 4;
	if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC))
		die("a queue pair does not get ready to send");
}

static enum ibv_wc_status post(struct end *e, struct ibv_send_wr *wr)
{
	double end = now_us() + 5e6;
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->send_flags |= IBV_SEND_SIGNALED;
	if (ibv_post_send(e->qp, wr, &bad))
		die("can't post");
	while (ibv_poll_cq(e->cq, 1, &wc) == 0)
		if (now_us() > end)
			die("no completion");
	return wc.status;
}

static enum ibv_wc_status read_remote(struct ibv_mr *to, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)to->addr, 64, to->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1,
				  .wr.rdma = { .remote_addr = addr, .rkey = rkey } };

	return post(&client, &wr);
}

/* ------------------------------------------------------------------ what it costs */

static struct ibv_mr *reg(void *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND);

	if (!mr)
		die("can't register %zu MiB (see 'ulimit -l')", bytes >> 20);
	return mr;
}

/* As revocation does it: the new one is made first. */
static double reregister_us(void *at, size_t bytes)
{
	struct ibv_mr *old = reg(at, bytes);
	double took[7];

	for (unsigned i = 0; i < 7; i++) {
		double begin = now_us();
		struct ibv_mr *new = reg(at, bytes);
		ibv_dereg_mr(old);
		took[i] = now_us() - begin;
		old = new;
	}
	ibv_dereg_mr(old);
	return median(took, 7);
}

static uint32_t bind_window(struct ibv_mw *mw, struct ibv_mr *mr)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ .mr = mr, .addr = (uintptr_t)mr->addr,
							  .length = mr->length,
							  .mw_access_flags = REMOTE };
	if (post(&server, &wr) != IBV_WC_SUCCESS)
		die("a window can't be bound");
	mw->rkey = rkey;
	return rkey;
}

static void try_windows(struct ibv_mr *mr, struct ibv_mr *to)
{
	double bind[ROUNDS], drop[ROUNDS], plain[ROUNDS], through[ROUNDS];
	uint64_t addr = (uintptr_t)mr->addr;
	uint32_t rkey = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		double t0 = now_us();
		struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		if (!mw)
			die("no window");
		rkey = bind_window(mw, mr);
		double t1 = now_us();
		if (read_remote(to, addr, mr->rkey))
			die("a READ fails");
		double t2 = now_us();
		if (read_remote(to, addr, rkey))
			die("a READ through a window fails");
		double t3 = now_us();
		struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey };
		if (post(&server, &wr))
			die("a window can't be invalidated");
		double t4 = now_us();
		ibv_dealloc_mw(mw);
		bind[i] = t1 - t0;
		plain[i] = t2 - t1;
		through[i] = t3 - t2;
		drop[i] = t4 - t3;
	}
	printf("window: made and bound in %.0f us, invalidated in %.0f us\n", median(bind, ROUNDS),
	       median(drop, ROUNDS));
	printf("READ of 64 bytes: %.1f us by the region's rkey, %.1f us by a window's\n",
	       median(plain, ROUNDS), median(through, ROUNDS));
	if (read_remote(to, addr, rkey) == IBV_WC_SUCCESS)
		die("a READ succeeds through a window that is gone");
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 1 << 20, 16 << 20, 64 << 20, 256 << 20 };
	static uint8_t local[4096] __attribute__((aligned(4096)));

	if (argc != 3)
		return 2;
	open_device(argv[1]);
	make(&server);
	make(&client);
	join(&server, client.qp->qp_num, atoi(argv[2]));
	join(&client, server.qp->qp_num, atoi(argv[2]));
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		void *at = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (at == MAP_FAILED)
			die("no memory");
		printf("region of %zu MiB: registered anew in %.0f us\n", sizes[i] >> 20,
		       reregister_us(at, sizes[i]));
		fflush(stdout);
		if (i == 1)
			try_windows(reg(at, sizes[i]), ibv_reg_mr(pd, local, sizeof local,
								  IBV_ACCESS_LOCAL_WRITE));
		else
			munmap(at, sizes[i]);
	}
	return 0;
}
