/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h -- queue pairs of rdma_cm connections, brought up by hand.
 *
 * rdma_accept() and rdma_connect() would leave a queue pair that they manage
 * with remote READ, WRITE and ATOMIC rights.  So the id is given none: the queue
 * pair is made with verbs, goes through its states here with the access flags
 * that the caller names, and rdma_cm only learns its number.
 */
#ifndef COMMON_RDMA_LINK_H
#define COMMON_RDMA_LINK_H

#include "common/rdma/device.h"
#include "common/err.h"
#include "common/verbs/verbs.h"

struct link_config {
	enum ibv_qp_type type; /* 0: RC */
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq; /* or NULL */
	void *context;
	uint32_t send_depth;
	uint32_t recv_depth; /* without an SRQ */
	uint32_t send_sge;
	uint32_t inline_bytes; /* wanted; less if the device has less */
};

/* What a device lets one queue pair do, asked once. */
struct link_limits {
	uint64_t message_bytes_max;
	uint32_t qp_wr_max;
	uint32_t cqe_max;
	uint32_t srq_wr_max;
	uint32_t sge_max;
	uint8_t rd_atom; /* READs and atomics outstanding, either way */
	bool atomics;
};

/* As many as one queue pair has a use for: READs of a long value's parts. */
#define LINK_RD_ATOM_MAX 16

/* READs and atomics under way at once: those that this end issues, those that it answers. */
struct link_depths {
	uint8_t issues;
	uint8_t answers;
};

/* What both ends can do, at who is asked for a connection: `asked` is of the event, `most` of this end. */
struct link_depths link_depths(const struct rdma_conn_param *asked, uint8_t most);

int link_query(const struct verbs *v, struct ibv_context *ctx, uint8_t port,
	       struct link_limits *limits, struct err *err);

/* Sets *inline_bytes to what the queue pair got.  NULL after setting err. */
struct ibv_qp *link_qp_new(const struct verbs *v, const struct link_config *config,
			   uint32_t *inline_bytes, struct err *err);

#define LINK_ENDED (-2) /* there is no connection any more */

/* The transitions; access: IBV_ACCESS_REMOTE_*.  0, or -1 after setting err. */
int link_qp_init(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *qp, int access,
		 struct err *err);
/* For a connection: 0; LINK_ENDED if it is there no more, which is no fault of the device; or -1.
 * `rd_atom`, `peer_rd_atom`: what this end can issue and answer; the queue pair does no more than the
 * other end told the connection manager.
 * `tuning`: NULL, or what the user wants of the device's queue pairs. */
int link_qp_ready_tuned(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *qp, int access,
			uint8_t rd_atom, uint8_t peer_rd_atom, const struct device_tuning *tuning,
			struct err *err);
int link_qp_ready(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *qp, int access,
		  uint8_t rd_atom, uint8_t peer_rd_atom, struct err *err);

/* Changes the remote rights of a connected queue pair.  0 or an errno value. */
int link_qp_set_access(const struct verbs *v, struct ibv_qp *qp, int access);
/* The remote rights that it has (IBV_ACCESS_REMOTE_*), as the device says; -1: it does
 * not say. */
int link_qp_access(const struct verbs *v, struct ibv_qp *qp);
int link_qp_set_error(const struct verbs *v, struct ibv_qp *qp);

/* What rdma_cm needs to know of a queue pair that it does not manage. */
void link_conn_param(struct rdma_conn_param *param, const struct ibv_qp *qp,
		     const void *private_data, uint8_t private_bytes, uint8_t rd_atom,
		     uint8_t peer_rd_atom);

/* An rdma_cm event in words, with what to look at. */
const char *link_event_words(const struct rdma_cm_event *event, char *buf, size_t buf_bytes);

#endif
