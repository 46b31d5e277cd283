/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls -- those calls of libibverbs and librdmacm that none of the programs makes which tests/conformance/check
 * runs, on the first device: an ordinary program, linked with both libraries.  Says "all calls".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define NEED(what)                                                                          \
	do {                                                                                \
		if (!(what)) {                                                              \
			printf("line %d: %s (errno %d)\n", __LINE__, #what, errno);         \
			exit(1);                                                            \
		}                                                                           \
	} while (0)
#define BYTES 4096
#define QKEY 7u

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;

	NEED(list && list[0]);
	NEED(ibv_get_device_index(list[0]) == -1); /* it is none of the kernel's */
	ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	NEED(ctx);
	return ctx;
}

static void look_at_port(struct ibv_context *ctx)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_gid_entry entry, table[16];

	NEED(ibv_get_pkey_index(ctx, 1, htons(0xffff)) == 0 && ibv_get_pkey_index(ctx, 1, htons(0x7ffe)) == -1);
	NEED(!ibv_query_gid_ex(ctx, 1, 0, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2);
	NEED(ibv_query_gid_ex(ctx, 1, 9, &entry, 0) == ENODATA);
	NEED(ibv_query_gid_table(ctx, table, 16, 0) == 2 && table[1].gid_index == 1);
	NEED(!ibv_query_rt_values_ex(ctx, &values) && values.raw_clock.tv_sec);
}

/* ---- one queue pair of datagrams, which sends to itself ---- */

static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq_ex *cq)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .send_cq = ibv_cq_ex_to_cq(cq),
					 .recv_cq = ibv_cq_ex_to_cq(cq), .sq_sig_all = 1,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	NEED(qp);
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	NEED(!ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_READ, 0)); /* it promises nothing */
	return qp;
}

static struct ibv_ah *to_itself(struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };
	struct ibv_ah *ah;

	NEED(!ibv_query_gid(pd->context, 1, 0, &attr.grh.dgid));
	NEED((ah = ibv_create_ah(pd, &attr)) != NULL);
	return ah;
}

static void send_to_itself(struct ibv_qp *qp, struct ibv_mr *mr, struct ibv_ah *ah)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 100, mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	NEED(!ibv_post_recv(qp, &recv, &bad_recv));
	sge.addr += BYTES / 2;
	sge.length = 60;
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = qp->qp_num;
	send.wr.ud.remote_qkey = QKEY;
	NEED(!ibv_post_send(qp, &send, &bad));
}

/* Both completions in one round. */
static void read_completions(struct ibv_cq_ex *cq, const struct ibv_qp *qp)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int n = 0, ret, received = 0;

	while ((ret = ibv_start_poll(cq, &attr)) == ENOENT)
		;
	for (; ret == 0; ret = ibv_next_poll(cq), n++) {
		NEED(cq->status == IBV_WC_SUCCESS && !ibv_wc_read_vendor_err(cq));
		NEED(ibv_wc_read_completion_wallclock_ns(cq) > 1000000000000000000ull);
		if (ibv_wc_read_opcode(cq) != IBV_WC_RECV)
			continue;
		received++;
		NEED(ibv_wc_read_byte_len(cq) == 100 && ibv_wc_read_src_qp(cq) == qp->qp_num);
		NEED(!ibv_wc_read_slid(cq) && !ibv_wc_read_sl(cq) && !ibv_wc_read_dlid_path_bits(cq));
	}
	NEED(ret == ENOENT && n == 2 && received == 1);
	ibv_end_poll(cq);
}

static void completions(struct ibv_context *ctx)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 8,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &init);
	struct ibv_qp *qp = new_qp(pd, cq);
	struct ibv_ah *ah = to_itself(pd);
	char *mem = calloc(1, BYTES);
	struct ibv_mr *mr;

	NEED(mem && !ibv_reg_mr_iova(pd, mem, BYTES, 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EOPNOTSUPP);
	mr = ibv_reg_mr_iova(pd, mem, BYTES, (uintptr_t)mem, IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	send_to_itself(qp, mr, ah);
	read_completions(cq, qp);
	NEED(!ibv_destroy_ah(ah) && !ibv_destroy_qp(qp) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	NEED(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
	free(mem);
}

/* ---- connection management ---- */

static struct rdma_cm_id *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	NEED(!rdma_get_cm_event(channel, &event));
	id = event->id;
	NEED(event->event == type);
	NEED(!rdma_ack_cm_event(event));
	return id;
}

static void rejected(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .retry_count = 1 };
	struct rdma_cm_id *listener, *client, *request;

	NEED(channel && !rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	NEED(!rdma_bind_addr(listener, (struct sockaddr *)&addr) && !rdma_listen(listener, 1));
	addr.sin_port = rdma_get_src_port(listener);
	NEED(!rdma_create_id(channel, &client, NULL, RDMA_PS_TCP));
	NEED(!rdma_resolve_addr(client, NULL, (struct sockaddr *)&addr, 1000));
	next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	NEED(rdma_get_dst_port(client) == addr.sin_port);
	NEED(((struct sockaddr_in *)(void *)rdma_get_local_addr(client))->sin_addr.s_addr == addr.sin_addr.s_addr);
	NEED(!rdma_resolve_route(client, 1000));
	next_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	NEED(!rdma_create_qp(client, NULL, &init) && !rdma_connect(client, &param));
	request = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	NEED(!rdma_notify(request, IBV_EVENT_COMM_EST));
	NEED(!rdma_reject_ece(request, NULL, 0));
	next_event(channel, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_qp(client);
	NEED(!rdma_destroy_id(request) && !rdma_destroy_id(client) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	struct ibv_context *ctx = open_first();

	look_at_port(ctx);
	completions(ctx);
	rejected();
	NEED(!ibv_close_device(ctx));
	puts("all calls");
	return 0;
}
