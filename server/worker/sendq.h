/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sendq.h -- the sending side of a connection: what is needed to answer it, and to READ
 * from its memory.  Its worker's thread, but where said.
 */
#ifndef SERVER_WORKER_SENDQ_H
#define SERVER_WORKER_SENDQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct conn;
struct fate_ring;
struct txbuf;

struct sendq {
	struct conn *conn; /* whose it is */
	struct ibv_qp *qp;
	const char *peer; /* its address as text */
	uint64_t connection_id;
	bool closing; /* the queue pair is in error: nothing is to be posted */

	uint32_t used, depth; /* work requests */
	uint32_t inline_bytes;
	uint32_t unsignaled; /* posted since the last that will complete */
	uint32_t outstanding; /* requests without a reply */
	uint32_t sends;   /* with a buffer, not yet completed */
	uint32_t pulls;   /* under way */
	uint32_t commits; /* changes of it that wait for the disk */
	/* Since when the first of `sends` waits; 0: there is none.  Any thread reads it. */
	_Atomic uint64_t stuck_ns;

	struct txbuf *chain, **chain_end; /* replies of this round */
	struct sendq *dirty_next; /* of those with a chain */
	bool is_dirty;

	/* Of answers to changes. */
	struct fate_ring *fate; /* from its hello on */
	uint64_t news_seen;
};

/* A signalled work request's wr_id: a pointer, its kind, the sends it reports. */
enum wr_kind { WR_NONE, WR_TX, WR_PULL, WR_HELD };
static inline uint64_t wr_pack(const void *ptr, enum wr_kind kind, uint32_t count)
{
	return (uint64_t)(uintptr_t)ptr | kind | (uint64_t)count << 48;
}
static inline void *wr_ptr(uint64_t wr_id)
{
	return (void *)(uintptr_t)(wr_id & 0xfffffffffff8ull);
}
static inline enum wr_kind wr_kind(uint64_t wr_id)
{
	return (enum wr_kind)(wr_id & 7);
}
static inline uint32_t wr_count(uint64_t wr_id)
{
	return (uint32_t)(wr_id >> 48);
}

#endif
