/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worker_impl.h -- between the parts of a worker:
 *
 *   worker.c        its thread: what was polled, waiting, beginning and end
 *   drain.c   its connections
 *   command.c  what other threads ask of it
 *   recv.c        what it received, and what was set aside
 *
 * All of it runs in the worker's thread, but what server.h says may be called by any.
 */
#ifndef SERVER_WORKER_WORKER_IMPL_H
#define SERVER_WORKER_WORKER_IMPL_H

#include "server/worker/server.h"

#define BATCH 32
#define RX_COUNT 1024u
#define TX_COUNT 512u
#define DEFERRED_MAX (RX_COUNT / 2)
#define CLOSE_NS_MAX 1000000000ull

/* drain.c */
void worker_adopt(struct worker *worker, struct conn *conn);
/* By its queue pair's number; by what a token has of its id: NULL if it is not there, or
 * not ready. */
struct conn *worker_find(struct worker *worker, uint32_t qp_num);
struct conn *worker_find_id(struct worker *worker, uint64_t connection);
/* Closes what has ended; those that are drained, linked by `next`.  `idle`: nothing was
 * polled, so that nothing of them is left in the completion queue. */
struct conn *drain_collect(struct worker *worker, bool idle);
/* Gives collected ones to the main thread.  After worker_take_inbox(), which may have had
 * the locker's last answers to them. */
void drain_bury(struct worker *worker, struct conn *drained);

/* recv.c */
/* An odd number of cache lines from one buffer to the next: at multiples of 8 KiB all
 * messages would share a few sets of the cache. */
#define BUFFER_STRIDE_BYTES (WIRE_MESSAGE_BYTES_MAX + 5 * 64)

static inline uint8_t *intake_buffer(const struct worker *w, uint32_t i)
{
	return w->memory + (size_t)i * BUFFER_STRIDE_BYTES;
}

/* Posts receives for what may come; 0 or an errno value. */
int intake_refill(struct worker *worker);
/* hash: of the request's key, or NULL. */
void intake_received(struct worker *worker, const struct ibv_wc *wc, const struct hash *hash);
/* Nothing of the connection is aside any more.  Not from within intake_retry(). */
void intake_forget(struct worker *worker, const struct conn *conn);
/* Tries what was set aside again. */
void intake_retry(struct worker *worker);
/* Changes whose records are on disk. */
void intake_committed(struct worker *worker);

/* command.c */
void worker_take_inbox(struct worker *worker);
/* A client's tokens were READ. */
void worker_got_held(struct worker *worker, struct tx *tx, const struct ibv_wc *wc);

#endif
