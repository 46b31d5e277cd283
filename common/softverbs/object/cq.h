/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.h -- completion queues: their ring, and their events.
 *
 * What polls them, and takes messages of queue pairs meanwhile, is exec/poll.c.
 */
#ifndef COMMON_SOFTVERBS_OBJECT_CQ_H
#define COMMON_SOFTVERBS_OBJECT_CQ_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/lock.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/object/channel.h"

struct sv_qp;

struct sv_cqe {
	struct ibv_wc wc;
	struct sv_qp *qp;
	uint64_t sq_upto; /* send slots that polling this frees; 0: a receive */
};

struct sv_cq {
	union {
		struct ibv_cq ib;
		struct ibv_cq_ex ex; /* begins with the same members */
	};
	struct sv_spin poll_lock; /* outside of all others; verbs/cq_ex.c */
	struct ibv_wc wc;	  /* the one under way */
	uint32_t index;
	struct sv_spin lock;
	struct sv_cqe *ring;
	uint32_t mask;
	uint32_t first; /* the number that stands in ring[0]; under lock */
	_Atomic uint32_t head; /* next to poll; under lock, peeked at without */
	_Atomic uint32_t tail;
	_Atomic bool overrun;
	uint32_t next; /* queue pair whose turn it is to be received from; under lock */
	_Atomic unsigned int nblocked; /* QPs with this send CQ that wait */
	_Atomic unsigned int empty_polls;
	_Atomic unsigned int users;
	_Atomic unsigned int async_got;
	_Atomic uint32_t armings; /* in steps of SV_ARMED_MASK + 1 */
	struct sv_chan_cq events;
};

static inline struct sv_cq *sv_cq_of(struct ibv_cq *cq)
{
	return SV_CONTAINER(cq, struct sv_cq, ib);
}

/* Completion n; lock held. */
static inline struct sv_cqe *sv_cqe_at(struct sv_cq *cq, uint32_t n)
{
	return &cq->ring[(n - cq->first) & cq->mask];
}

int sv_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
/* The CQ is full, and useless from now on; cq->lock held. */
void sv_cq_overrun_locked(struct sv_cq *cq);
/* A completion, zeroed, to be filled in where it stays and then pushed; NULL: overrun.
 * cq->lock held for both. */
struct ibv_wc *sv_cq_slot_locked(struct sv_cq *cq, struct sv_qp *qp, uint64_t sq_upto);
void sv_cq_push_locked(struct sv_cq *cq);
/* Wakes the channel if the CQ is armed for such a completion. */
void sv_cq_notify(struct sv_cq *cq, bool solicited);
/*
 * After a completion was added: whether to write an event, which is pending then; with
 * what is to be said once it is written.  armed: the word as it was seen.
 */
bool sv_armed_take(struct sv_rw_cq *rw, uint32_t armed, bool solicited, uint32_t *taken);
void sv_armed_done(struct sv_rw_cq *rw, uint32_t taken);
/* Writes the channel's descriptor: an event is pending. */
void sv_cq_ring_channel(struct sv_cq *cq);
/* Whether it has completions of the QP; cq->lock held. */
bool sv_cq_holds_locked(struct sv_cq *cq, const struct sv_qp *qp);
/* Takes the QP's completions out; any lock but leaves must be free. */
void sv_cq_clean(struct sv_cq *cq, struct sv_qp *qp);

#endif
