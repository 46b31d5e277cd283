/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp.h -- queue pairs: what they are, and how they are found in the process's table.
 *
 * How their requests are executed: exec/.  How they are made, changed and taken apart:
 * verbs/qp.c, verbs/qp_state.c.
 */
#ifndef COMMON_SOFTVERBS_OBJECT_QP_H
#define COMMON_SOFTVERBS_OBJECT_QP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/device.h"
#include "common/softverbs/base/fault.h"
#include "common/softverbs/base/lock.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/object/mw.h"
#include "common/softverbs/object/rq.h"
#include "common/softverbs/peer/map.h"

struct sv_attached;
struct sv_branch;
struct sv_branches;
struct sv_dest;
struct sv_draft;
struct sv_peer;

/* How far a request was executed. */
enum sv_stage {
	SV_STAGE_START,
	SV_STAGE_ASKED,	  /* RDMA: the peer's control thread is at it */
	SV_STAGE_WRITTEN, /* WRITE with immediate: data is there */
	SV_STAGE_CLAIMED, /* SEND: has its credit */
	SV_STAGE_PUSHED,  /* SEND: all in the ring, waits until it is taken */
};

/* A send work request while it waits in the queue. */
struct sv_wqe {
	uint64_t wr_id;
	uint64_t number; /* of this request since the QP was made, from 1 */
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	uint64_t len;
	uint64_t done; /* bytes staged or copied so far */
	uint32_t rkey;
	uint32_t imm;
	uint16_t opcode; /* enum ibv_wr_opcode */
	uint16_t flags;	 /* enum ibv_send_flags, SV_SEND_... */
	uint16_t nsge;
	uint8_t stage; /* enum sv_stage */
	uint8_t rnr_tries;
	union {
		struct sv_mw_bind bind; /* IBV_WR_BIND_MW */
		struct ibv_sge sge[1];
		uint8_t data[16]; /* with IBV_SEND_INLINE */
	};
};

#define SV_MAP_HINTS 4
/* A SEND that may be longer than the receive that it gets: done when taken. */
#define SV_SEND_ACKED 0x8000
/* A datagram from the port's second address. */
#define SV_SEND_GID1 0x4000
/* XRC: 8 bits of the number of the branch that it goes to. */
#define SV_SEND_BRANCH_SHIFT 6
/* Those that are the program's. */
#define SV_SEND_FLAGS 0x3fu

enum sv_block {
	SV_BLOCK_NONE,
	SV_BLOCK_DELAY,	 /* fault injection */
	SV_BLOCK_LINK,	 /* peer not there, or not ready */
	SV_BLOCK_RNR,	 /* no receive posted */
	SV_BLOCK_ROOM,	 /* ring full, or waiting to be taken */
	SV_BLOCK_REPLY,	 /* the peer's control thread owes an answer */
};

struct sv_qp {
	union {
		struct ibv_qp ib;
		struct ibv_qp_ex ex; /* begins with it */
	};
	struct sv_draft *draft; /* NULL: not of sv_create_qp_ex() */
	uint32_t index;
	uint32_t qpn;
	_Atomic unsigned int refs; /* taken under the seat's lock */
	_Atomic unsigned int async_got;
	struct sv_ro_qp *ro;
	struct sv_rw_qp *rw;
	struct ibv_qp_attr attr; /* under sq_lock */
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	/* Copies that the data path reads under sq_lock. */
	uint64_t budget_ns; /* how long an unanswered request lasts */
	uint64_t rng;

	struct sv_spin sq_lock;
	uint8_t *sq; /* requests that wait, in order; both 0 when there are none */
	uint32_t wqe_bytes;
	uint32_t sq_head, sq_count;
	uint64_t posted;
	_Atomic uint64_t polled; /* release after the poll, acquire by post */
	bool flushed; /* entered error, and flushed */
	enum sv_block block;
	bool draining;	   /* in state SQD, with a request that has begun */
	bool tell_drained; /* by an event */
	bool counted; /* in send_cq.nblocked and sv_proc.blocked */
	bool delayed; /* the request's injected delay has begun */
	uint32_t fault_number; /* of the request, as sv_fault_request() counts */
	uint32_t serial;       /* of this queue pair in its process, from 1 */
	_Atomic uint64_t deadline_ns;
	uint64_t first_ns; /* since when the peer does not answer; 0 */
	bool to_wake;      /* the receiver of messages that were sent */
	bool to_wake_solicited;
	bool awaits_link;  /* the peer's process has not answered at all yet */

	/* The peer; under sq_lock, and changed under that of the receive CQ too. */
	struct sv_peer *peer;
	uint32_t peer_qpn;
	uint32_t peer_gen; /* 0: not seen ready yet */
	struct sv_map_hint hint[SV_MAP_HINTS];
	uint32_t next_hint;

	/* Of a UD queue pair: where it has sent to, the last first; exec/dgram.c. */
	struct sv_dest *dests;
	uint32_t ndests;
	/* Multicast groups that it is in; changed under the receive CQ's lock. */
	struct sv_attached *groups;
	bool not_to_self; /* what it sends to a group doesn't come back to it */

	/* XRC_SEND: where it sends to; object/branch.h.  Under sq_lock. */
	struct sv_branches *branches;
	_Atomic unsigned int *domain_users; /* XRC_RECV: it is one of them */
	bool hidden; /* made for a branch: the program doesn't know it */

	/* Sending into the peer's ring; under sq_lock. */
	struct sv_wire *tx;
	uint32_t tx_tail;
	uint32_t tx_head;
	uint32_t pay_tail, pay_head;
	uint32_t pay_end[SV_DESCS];

	/* Remote access by the peer's control thread; under sq_lock. */
	uint32_t slow_serial; /* of the request under way */
	uint64_t slow_issued;
	uint32_t slow_open; /* parts sent and not answered */

	/* Receive side; under the lock of the receive CQ. */
	union {
		struct sv_wire *rx;
		struct sv_pool *pool; /* UD */
	};
	uint32_t rx_head;
	bool rx_closed;	 /* nothing more is taken from the ring */
	bool rx_partial; /* rx_wqe is half filled */
	uint32_t rx_done;
	uint32_t rx_total;
	uint32_t rx_pd;
	struct sv_rwqe *rx_wqe;
	struct sv_rq *rq;
	struct sv_rq own_rq;
};

static inline struct sv_qp *sv_qp_of(struct ibv_qp *qp)
{
	return SV_CONTAINER(qp, struct sv_qp, ib);
}
/* Slot n of the send queue; sq_lock held. */
static inline struct sv_wqe *sv_wqe_at(struct sv_qp *qp, uint32_t n)
{
	return (struct sv_wqe *)(void *)(qp->sq + (size_t)n * qp->wqe_bytes);
}
/* Nobody acknowledges: what is lost on the way, or refused, is lost in silence. */
static inline bool sv_qp_unreliable(const struct sv_qp *qp)
{
	return (uint32_t)qp->ib.qp_type - IBV_QPT_UC <= IBV_QPT_UD - IBV_QPT_UC;
}
/* Each of its messages says where it goes. */
static inline bool sv_qp_datagram(const struct sv_qp *qp)
{
	return qp->ib.qp_type == IBV_QPT_UD;
}
/* Each of its requests says where it goes: to a queue pair, or to a shared receive queue. */
static inline bool sv_qp_addressed(const struct sv_qp *qp)
{
	return qp->ib.qp_type >= IBV_QPT_UD;
}
static inline bool sv_qp_xrc_sender(const struct sv_qp *qp)
{
	return qp->ib.qp_type == IBV_QPT_XRC_SEND;
}
static inline bool sv_qp_xrc(const struct sv_qp *qp)
{
	return qp->ib.qp_type >= IBV_QPT_XRC_SEND;
}
static inline uint32_t sv_qp_state(const struct sv_qp *qp)
{
	return atomic_load_explicit(&qp->ro->state, memory_order_acquire);
}

/* Faults are injected into this queue pair's requests. */
static inline bool sv_qp_faulty(const struct sv_qp *qp)
{
	/* acquire: partner sv_fault_set(). */
	return atomic_load_explicit(&sv_faults_on, memory_order_acquire) &&
	       (!sv_faults.qp || sv_faults.qp == qp->serial) &&
	       (sv_faults.device == SV_FAULT_ALL ||
		sv_faults.device == sv_device_index(qp->ib.context->device));
}

/* The QP in seat index, with a reference; NULL. */
struct sv_qp *sv_qp_get(uint32_t index);
void sv_qp_put(struct sv_qp *qp);
/* From anywhere: error state at once, the rest by the control thread. */
void sv_qp_fail_later(struct sv_qp *qp, enum sv_fault_code code);
/* Whoever was connected to an earlier life of the QP, or of its index, sees that
 * this is another. */
void sv_qp_renew(struct sv_qp *qp);
/* The ring and what is counted of it, as new; receive CQ's lock held. */
void sv_qp_reset_shared(struct sv_qp *qp);

/* The receive side's lock is that of its CQ. */
static inline void sv_qp_lock_receive(struct sv_qp *qp)
{
	sv_spin_lock(&sv_cq_of(qp->ib.recv_cq)->lock);
}

static inline void sv_qp_unlock_receive(struct sv_qp *qp)
{
	sv_spin_unlock(&sv_cq_of(qp->ib.recv_cq)->lock);
}

/* sq_lock held. */
static inline void sv_qp_set_state(struct sv_qp *qp, enum ibv_qp_state state)
{
	qp->attr.qp_state = qp->ib.state = state;
	/* seq_cst: before credits are counted; partner in claim(), exec/wire.c. */
	atomic_store(&qp->ro->state, state);
}

#endif
