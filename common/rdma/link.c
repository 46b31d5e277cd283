/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/rdma/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* 4.096 us * 2^14 = 67 ms for an acknowledgement, then again, at most 6 times (7
 * is for ever on some devices). */
#define ACK_TIMEOUT 14
#define RETRY_COUNT 6
/* 0.64 ms until a sender that met an empty receive queue tries again, without
 * end: credits make it an exception, and a dead receiver ends it. */
#define RNR_TIMER 12
#define RNR_RETRY 7

int link_query(const struct verbs *v, struct ibv_context *ctx, uint8_t port,
	       struct link_limits *limits, struct err *err)
{
	struct ibv_device_attr device;
	struct ibv_port_attr attr;
	int rc = v->query_device(ctx, &device);

	if (rc)
		return err_set_errno(err, -1, rc, "can't query the device %s", ctx->device->name);
	memset(&attr, 0, sizeof attr);
	rc = v->query_port(ctx, port, &attr);
	if (rc)
		return err_set_errno(err, -1, rc, "can't query port %u of %s", port,
				     ctx->device->name);
	int rd = device.max_qp_rd_atom < device.max_qp_init_rd_atom ? device.max_qp_rd_atom
								    : device.max_qp_init_rd_atom;
	*limits = (struct link_limits){
		.message_bytes_max = attr.max_msg_sz,
		.qp_wr_max = (uint32_t)device.max_qp_wr,
		.cqe_max = (uint32_t)device.max_cqe,
		.srq_wr_max = (uint32_t)device.max_srq_wr,
		.sge_max = (uint32_t)device.max_sge,
		.rd_atom = (uint8_t)(rd > 255 ? 255 : rd),
		.atomics = device.atomic_cap != IBV_ATOMIC_NONE,
	};
	return 0;
}

static uint8_t least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* An event tells of this end: it answers what the other issues. */
struct link_depths link_depths(const struct rdma_conn_param *asked, uint8_t most)
{
	return (struct link_depths){ .issues = least(asked->initiator_depth, most),
				     .answers = least(asked->responder_resources, most) };
}

struct ibv_qp *link_qp_new(const struct verbs *v, const struct link_config *config,
			   uint32_t *inline_bytes, struct err *err)
{
	uint32_t want = config->inline_bytes;

	for (;;) {
		struct ibv_qp_init_attr attr = {
			.qp_context = config->context,
			.send_cq = config->send_cq,
			.recv_cq = config->recv_cq,
			.srq = config->srq,
			.cap = { .max_send_wr = config->send_depth,
				 .max_recv_wr = config->srq ? 0 : config->recv_depth,
				 .max_send_sge = config->send_sge,
				 .max_recv_sge = config->srq ? 0 : 1,
				 .max_inline_data = want },
			.qp_type = config->type ? config->type : IBV_QPT_RC,
			.sq_sig_all = 0,
		};
		struct ibv_qp *qp = v->create_qp(config->pd, &attr);
		if (qp) {
			*inline_bytes = want;
			return qp;
		}
		/* A device says only by refusing how much it takes inline. */
		if (want < 16)
			break;
		want = want > 64 ? want / 2 : 0;
	}
	err_set_errno(err, -1, errno, "can't create a queue pair (%u sends, %u receives)",
		      config->send_depth, config->srq ? 0 : config->recv_depth);
	return NULL;
}

static int to_state(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *qp,
		    struct ibv_qp_attr *attr, int extra_mask, const char *name, struct err *err)
{
	int rc = v->modify_qp(qp, attr, extra_mask);
	(void)id;
	if (rc)
		return err_set_errno(err, -1, rc, "can't bring the queue pair to %s", name);
	return 0;
}

static int attr_for(const struct verbs *v, struct rdma_cm_id *id, enum ibv_qp_state state,
		    struct ibv_qp_attr *attr, int *mask)
{
	memset(attr, 0, sizeof *attr);
	attr->qp_state = state;
	return v->init_qp_attr(id, attr, mask);
}

/* The connection manager knows what a queue pair needs as long as there is a connection. */
static int ended(const char *name, struct err *err)
{
	return err_set_errno(err, LINK_ENDED, errno,
			     "the connection ended as it began: rdma_init_qp_attr for %s", name);
}

int link_qp_init(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *qp, int access,
		 struct err *err)
{
	struct ibv_qp_attr attr;
	int mask;

	if (attr_for(v, id, IBV_QPS_INIT, &attr, &mask))
		return err_set_errno(err, -1, errno, "rdma_init_qp_attr for INIT failed");
	attr.qp_access_flags = (unsigned)access;
	return to_state(v, id, qp, &attr, mask | IBV_QP_ACCESS_FLAGS, "INIT", err);
}

int link_qp_ready(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *qp, int access,
		  uint8_t rd_atom, uint8_t peer_rd_atom, struct err *err)
{
	return link_qp_ready_tuned(v, id, qp, access, rd_atom, peer_rd_atom, NULL, err);
}

static uint8_t or_else(int wanted, uint8_t otherwise)
{
	return wanted == DEVICE_UNSET ? otherwise : (uint8_t)wanted;
}

/* `told`: what the connection manager knows of both ends, if `mask` has the field. */
static uint8_t agreed(int mask, int field, uint8_t told, uint8_t own)
{
	return mask & field ? least(told, own) : own;
}

int link_qp_ready_tuned(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *qp, int access,
			uint8_t rd_atom, uint8_t peer_rd_atom, const struct device_tuning *tuning,
			struct err *err)
{
	static const struct device_tuning none = { DEVICE_UNSET, DEVICE_UNSET, DEVICE_UNSET,
						   DEVICE_UNSET };
	const struct device_tuning *t = tuning ? tuning : &none;
	struct ibv_qp_attr attr;
	int mask;

	if (attr_for(v, id, IBV_QPS_RTR, &attr, &mask))
		return ended("RTR", err);
	attr.min_rnr_timer = RNR_TIMER;
	attr.max_dest_rd_atomic = agreed(mask, IBV_QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic,
					 peer_rd_atom);
	attr.qp_access_flags = (unsigned)access;
	attr.ah_attr.sl = or_else(t->service_level, attr.ah_attr.sl);
	attr.ah_attr.grh.traffic_class = or_else(t->traffic_class, attr.ah_attr.grh.traffic_class);
	mask |= IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS;
	if (to_state(v, id, qp, &attr, mask, "RTR", err))
		return -1;
	if (attr_for(v, id, IBV_QPS_RTS, &attr, &mask))
		return ended("RTS", err);
	attr.timeout = or_else(t->ack_timeout, ACK_TIMEOUT);
	attr.retry_cnt = or_else(t->retries, RETRY_COUNT);
	attr.rnr_retry = RNR_RETRY;
	attr.max_rd_atomic = agreed(mask, IBV_QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic, rd_atom);
	attr.qp_access_flags = (unsigned)access;
	mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
		IBV_QP_ACCESS_FLAGS;
	return to_state(v, id, qp, &attr, mask, "RTS", err);
}

int link_qp_set_access(const struct verbs *v, struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = { .qp_access_flags = (unsigned)access };

	return v->modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS);
}

int link_qp_access(const struct verbs *v, struct ibv_qp *qp)
{
	const int remote = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (v->query_qp(qp, &attr, IBV_QP_ACCESS_FLAGS, &init))
		return -1;
	return (int)attr.qp_access_flags & remote;
}

int link_qp_set_error(const struct verbs *v, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return v->modify_qp(qp, &attr, IBV_QP_STATE);
}

void link_conn_param(struct rdma_conn_param *param, const struct ibv_qp *qp,
		     const void *private_data, uint8_t private_bytes, uint8_t rd_atom,
		     uint8_t peer_rd_atom)
{
	*param = (struct rdma_conn_param){
		.private_data = private_data,
		.private_data_len = private_bytes,
		.responder_resources = peer_rd_atom,
		.initiator_depth = rd_atom,
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = RNR_RETRY,
		.qp_num = qp->qp_num,
		.srq = qp->srq != NULL,
	};
}

/* What it means to people; NULL: the event's name says it. */
static const char *event_reason(const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		return "no route to the address through an RDMA device";
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return "the address has no RDMA route";
	case RDMA_CM_EVENT_UNREACHABLE:
		return event->status == -ECONNREFUSED ? "nothing listens on that port: is kvd running?"
						      : "the host does not answer";
	case RDMA_CM_EVENT_REJECTED:
		return event->status == 8 ? "nothing listens on that port: is kvd running?"
					  : "the peer refused it";
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return "the connection failed while it was made";
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return "the RDMA device was taken away";
	default:
		return NULL;
	}
}

const char *link_event_words(const struct rdma_cm_event *event, char *buf, size_t buf_bytes)
{
	const char *reason = event_reason(event), *name = rdma_event_str(event->event);
	char status[128];

	if (event->status < 0)
		snprintf(status, sizeof status, "%s", strerror(-event->status));
	else
		snprintf(status, sizeof status, "status %d", event->status);
	if (reason)
		snprintf(buf, buf_bytes, "%s (%s, %s)", reason, name, status);
	else
		snprintf(buf, buf_bytes, "%s, %s", name, status);
	return buf;
}
