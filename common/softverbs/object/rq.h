/* SPDX-License-Identifier: BSD-2-Clause */
/* rq.h -- receive queues: a queue pair's own, and shared ones. */
#ifndef COMMON_SOFTVERBS_OBJECT_RQ_H
#define COMMON_SOFTVERBS_OBJECT_RQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/lock.h"

struct sv_rwqe {
	uint64_t wr_id;
	uint32_t len;
	uint32_t nsge;
	struct ibv_sge sge[];
};

struct sv_rq {
	struct sv_spin lock;
	uint32_t index; /* in the tables of receive queues */
	uint32_t depth; /* entries, also the bound of tail - head */
	uint32_t max_sge;
	uint32_t stride_bytes;
	uint8_t *ring;
	uint32_t head; /* next to be used */
	uint32_t tail; /* next to be posted */
	uint32_t posted;
	uint32_t limit;
	struct sv_srq *srq;
};

struct sv_srq {
	struct ibv_srq ib;
	struct sv_rq rq;
	_Atomic unsigned int users;
	_Atomic unsigned int async_got;
	/* Of an XRC queue, else NULL; verbs/xrc.c. */
	struct ibv_xrcd *xrcd;
	struct ibv_cq *cq;
	bool closed;
	void (*ended)(struct sv_srq *srq);
};

static inline struct sv_srq *sv_srq_of(struct ibv_srq *srq)
{
	return SV_CONTAINER(srq, struct sv_srq, ib);
}

/* index: see SV_RQS.  0 or ENOMEM. */
int sv_rq_init(struct sv_rq *rq, uint32_t index, uint32_t depth, uint32_t max_sge);
void sv_rq_fini(struct sv_rq *rq);
int sv_rq_post(struct sv_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Takes the next receive; out has room for max_sge elements.  False: none. */
bool sv_rq_pop(struct sv_rq *rq, struct sv_rwqe *out);
void sv_rq_give_credits(struct sv_rq *rq, uint32_t n);
/* Forgets every receive, and every credit. */
void sv_rq_clear(struct sv_rq *rq);
int sv_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
