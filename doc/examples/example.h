/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * example.h -- what the examples have in common, so that each shows its one thing.
 *
 * The first argument of each example that opens a device is the device's name;
 * without, it takes the first.
 */
#ifndef DOC_EXAMPLES_EXAMPLE_H
#define DOC_EXAMPLES_EXAMPLE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

/* Ends the program if a call failed: some return NULL, some an errno value, some -1. */
#define NEED(what) need((what) ? 1 : 0, #what, __FILE__, __LINE__)
#define NEED_0(what) need_0((what), #what, __FILE__, __LINE__)

static inline void need(int good, const char *what, const char *file, int line)
{
	if (good)
		return;
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, strerror(errno));
	exit(1);
}

static inline void need_0(int ret, const char *what, const char *file, int line)
{
	if (ret > 0)
		errno = ret;
	need(ret == 0, what, file, line);
}

static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	NEED(list);
	for (int i = 0; list[i] && !context; i++) {
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	}
	ibv_free_device_list(list);
	NEED(context);
	return context;
}

/* An end of a connection within the program, with memory to work on. */
struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *mem;
};

#define MEM_BYTES 4096

static inline void open_end(struct end *end, struct ibv_context *context,
			    struct ibv_comp_channel *channel, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .srq = srq, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	end->context = context;
	/* A shared receive queue brings its domain. */
	end->pd = srq ? srq->pd : ibv_alloc_pd(context);
	NEED(end->pd);
	end->cq = ibv_create_cq(context, 64, end, channel, 0);
	NEED(end->cq);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = ibv_create_qp(end->pd, &init);
	NEED(end->qp);
	NEED(!posix_memalign((void **)&end->mem, MEM_BYTES, MEM_BYTES));
	memset(end->mem, 0, MEM_BYTES);
	end->mr = ibv_reg_mr(end->pd, end->mem, MEM_BYTES,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	NEED(end->mr);
}

static inline void close_end(struct end *end)
{
	struct ibv_srq *srq = end->qp->srq;

	NEED_0(ibv_destroy_qp(end->qp));
	NEED_0(ibv_destroy_cq(end->cq));
	NEED_0(ibv_dereg_mr(end->mr));
	free(end->mem);
	if (!srq)
		NEED_0(ibv_dealloc_pd(end->pd));
}

/* The index of a GID that RoCE v2 can use, or 0. */
static inline uint8_t gid_index(struct ibv_context *context)
{
	struct ibv_gid_entry entry;

	for (uint32_t i = 0; i < 256 && !ibv_query_gid_ex(context, 1, i, &entry, 0); i++) {
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			return (uint8_t)i;
	}
	return 0;
}

/* The way from the port to an address. */
static inline void fill_address(struct ibv_ah_attr *attr, struct ibv_context *context,
				const union ibv_gid *gid, uint16_t lid)
{
	attr->port_num = 1;
	attr->dlid = lid;
	attr->is_global = 1;
	attr->grh.dgid = *gid;
	attr->grh.sgid_index = gid_index(context);
	attr->grh.hop_limit = 64;
}

/* Takes a queue pair to ready-to-send, connected to that one. */
static inline void connect_qp(struct ibv_context *context, struct ibv_qp *qp, uint32_t peer_qpn,
			      uint16_t peer_lid, const union ibv_gid *peer_gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};

	NEED_0(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS));
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = peer_qpn;
	attr.max_dest_rd_atomic = 4;
	attr.min_rnr_timer = 12;
	fill_address(&attr.ah_attr, context, peer_gid, peer_lid);
	NEED_0(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	NEED_0(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Both ends are here, so nothing need be exchanged. */
static inline void connect_ends(struct end *a, struct end *b)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	NEED_0(ibv_query_port(a->context, 1, &port));
	NEED_0(ibv_query_gid(a->context, 1, gid_index(a->context), &gid));
	connect_qp(a->context, a->qp, b->qp->qp_num, port.lid, &gid);
	connect_qp(b->context, b->qp, a->qp->qp_num, port.lid, &gid);
}

static inline void post_receive(struct end *end, uint64_t wr_id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->mem, .length = MEM_BYTES,
			       .lkey = end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	NEED_0(ibv_post_recv(end->qp, &wr, &bad));
}

/* A request on the first bytes of the memory of both ends. */
static inline void post(struct end *from, struct end *to, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from->mem, .length = bytes,
			       .lkey = from->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = opcode, .sg_list = &sge, .num_sge = 1,
				  .opcode = opcode }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)to->mem;
	wr.wr.rdma.rkey = to->mr->rkey;
	NEED_0(ibv_post_send(from->qp, &wr, &bad));
}

/* The next completion, which has to be good. */
static inline struct ibv_wc next_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (!n);
	if (n < 0 || wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "completion: %s\n", n < 0 ? "none" : ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}

#endif
