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

#include "common/clock.h"

struct conn;
struct fate_ring;
struct txbuf;

#define CREDITS_DEFAULT 32u
#define CREDITS_ORDINARY 33u /* of libkvd, unless a program asks for others */
#define CREDITS_MAX 129u /* of libkvd: 128 operations, and an unlock */

/*
 * Places of a send queue.  A request is begun only with a place for its reply: a reply that
 * is made can be posted.  A client has `credits` replies outstanding at the most; SLOTS_MORE
 * are those that it has, while kvd was not told yet: selective signalling, and
 * acknowledgements on their way.
 */
#define SENDQ_SLOTS_MORE 32u
#define SENDQ_PULL_READS 8u /* of values, under way at once */
#define SENDQ_HELD_READS 1u /* of the tokens that the client says it holds */
#define SENDQ_MARKERS 1u    /* of its end: drain.c */

static inline uint32_t sendq_slots(uint32_t credits)
{
	return credits + SENDQ_SLOTS_MORE;
}
/* So many work requests may be posted, and so many completions come of them: in an error each
 * has its own, signalled or not. */
static inline uint32_t sendq_depth(uint32_t credits)
{
	return sendq_slots(credits) + SENDQ_PULL_READS + SENDQ_HELD_READS + SENDQ_MARKERS;
}

struct sendq {
	struct conn *conn; /* whose it is */
	struct ibv_qp *qp;
	const char *peer; /* its address as text */
	uint64_t connection_id;
	uint64_t reign; /* of a member of a cluster: in which its requests are executed; 0: none yet */
	bool closing; /* the queue pair is in error: nothing is to be posted */

	uint32_t slots; /* for replies */
	uint32_t used;  /* of them, by replies that are made and not known to be sent */
	uint32_t inline_bytes;
	bool has_inline;     /* a reply without a long payload is copied when it is posted */
	uint32_t unsignaled; /* posted since the last that will complete */
	uint32_t outstanding; /* requests without a reply */
	uint32_t aside;   /* of them, those that are set aside: nothing was begun */
	uint32_t held;    /* buffers that it has */
	uint32_t waited;  /* signalled work requests, not yet completed */
	uint32_t reads;   /* of them, of values */
	uint32_t pulls;   /* under way */
	uint32_t commits; /* changes of it that wait for the disk */
	/* Since when the first of `waited` waits; 0: there is none.  Any thread reads it. */
	_Atomic uint64_t stuck_ns;

	struct txbuf *chain, **chain_end; /* replies of this round */
	struct sendq *dirty_next; /* of those with a chain */
	bool is_dirty;

	/* Of answers to changes. */
	struct fate_ring *fate; /* from its hello on */
	uint64_t news_seen;
};

/* A signalled one is posted, or has completed. */
static inline void sendq_wait(struct sendq *q)
{
	if (!q->waited++)
		atomic_store_explicit(&q->stuck_ns, clock_ns(), memory_order_relaxed);
}
static inline void sendq_waited(struct sendq *q)
{
	/* The main thread drops who takes nothing for a while. */
	atomic_store_explicit(&q->stuck_ns, --q->waited ? clock_ns() : 0, memory_order_relaxed);
}

/* A signalled work request's wr_id: a pointer, its kind, the places of replies it gives back
 * and one more. */
enum wr_kind { WR_NONE, WR_TX, WR_PULL, WR_HELD, WR_MARKER };
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
