/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rx.h -- a worker's queues, and the buffers that messages come to.
 *
 * Its thread, all of the functions, but those that make and end the queues.
 */
#ifndef SERVER_WORKER_RX_H
#define SERVER_WORKER_RX_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "common/wire.h"

/* An odd number of cache lines from one buffer to the next: at multiples of 8 KiB all
 * messages would share a few sets of the cache. */
#define BUFFER_STRIDE_BYTES (WIRE_MESSAGE_BYTES_MAX + 5 * 64)

/* A worker's completion queue and receive queue, which its connections share. */
struct worker_queues {
	unsigned number; /* of the worker, counted through all namespaces */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* its context is the worker */
	uint32_t rx_count;   /* receives, at the most */
	uint32_t places;     /* in cq, for sends: a connection takes as many as it can post */
};

#define RX_COUNT_MAX 1024u

struct err;
struct rail;
struct server;
struct verbs;
struct worker;

/* On the rail's device.  0, or -1 after setting err; they are to be deleted then too. */
int queues_new(struct worker_queues *queues, struct worker *worker, const struct server *server,
	       const struct rail *rail, struct err *err);
/* events: that were taken and not acknowledged. */
void queues_delete(struct worker_queues *queues, const struct verbs *verbs, unsigned events);

/* How many connections of ordinary depth the longest completion queues that the devices have offer
 * places for, by whichever device they come; of all workers. */
unsigned queues_conns_fit(const struct server *server);

/* How many of its workers are of the rail: worker w is of rail w mod rails. */
unsigned queues_workers(const struct server *server, const struct rail *rail);

struct rx {
	struct ibv_srq *srq;
	uint8_t *memory;
	uint32_t lkey;
	uint32_t count;
	uint32_t *free; /* buffers to be posted */
	uint32_t free_count;
	uint32_t posted;
};

/* Memory of `count` buffers, which stays the caller's.  0 or an errno value. */
int rx_init(struct rx *rx, struct ibv_srq *srq, uint32_t count, uint8_t *memory, uint32_t lkey);
void rx_fini(struct rx *rx);

/* Buffer 0 is never used: a wr_id of 0 is a flushed send. */
static inline uint8_t *rx_buffer(const struct rx *rx, uint32_t i)
{
	return rx->memory + (size_t)i * BUFFER_STRIDE_BYTES;
}

/* The buffer's message is done with. */
static inline void rx_release(struct rx *rx, uint32_t i)
{
	rx->free[rx->free_count++] = i;
}

/* Posts receives for what may come: peers that have as many credits.  0 or an errno value. */
int rx_refill(struct rx *rx, uint32_t credits);

#endif
