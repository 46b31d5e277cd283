/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worker_impl.h -- a worker, and what its parts have of each other:
 *
 *   worker.c   its thread: what was polled, waiting, beginning and end
 *   drain.c    its connections
 *   obey.c     what other threads asked of it
 *   recv.c     what it received, and what was set aside
 *
 * All of it runs in the worker's thread.
 */
#ifndef SERVER_WORKER_WORKER_IMPL_H
#define SERVER_WORKER_WORKER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/spin.h"
#include "server/store/store.h"
#include "server/worker/commands.h"
#include "server/worker/conn_set.h"
#include "server/worker/request/deferred.h"
#include "server/worker/request/owed.h"
#include "server/worker/request/pinned.h"
#include "server/worker/request/pull.h"
#include "server/worker/request/rewrites.h"
#include "server/worker/reply.h"
#include "server/worker/rx.h"
#include "server/worker/stats.h"
#include "server/worker/timing.h"

struct rail;
struct server;
struct worker_guest; /* worker.h */

struct worker {
	struct server *server;
	struct rail *rail; /* whose device has its queues */
	unsigned id;
	pthread_t thread;
	struct store_worker store;
	struct worker_stats stats;
	struct timings timings;
	_Atomic uint64_t beat; /* counts rounds; partner: worker_stuck_ns */
	uint64_t seen_beat, seen_ns; /* of the thread that asks for that */

	const struct worker_guest *guest; /* NULL: none */
	struct worker_queues queues;
	uint64_t reign; /* of a cluster: as it was looked at last */
	unsigned events; /* to be acknowledged */
	bool is_deaf;    /* its device is gone, whose channel is readable for ever */
	uint64_t polled; /* completions */
	uint64_t room_ns; /* when it was last looked who has too much */
	uint8_t *memory; /* of rx and tx buffers */
	size_t memory_bytes;
	struct ibv_mr *mr;
	struct spin spin;

	struct rx rx;
	struct tx tx;
	struct commands commands;
	struct conn_set conns;
	struct deferred deferred;
	struct pulls pulls;
	struct pinned_list pinned;
	struct rewrites rewrites;
	struct owed_list owed;
	struct durable_op *committed, **committed_end; /* for which there was no tx buffer yet */
};

/* drain.c */
void worker_adopt(struct worker *worker, struct conn *conn);
/* By its queue pair's number; by its id: NULL if it is not there, or
 * not ready. */
struct conn *worker_find(struct worker *worker, uint32_t qp_num);
struct conn *worker_find_id(struct worker *worker, uint64_t connection);
/* Closes those that other threads want closed. */
void drain_look(struct worker *worker);
/* The closing ones that are drained, linked by `next`.  `idle`: the completion queue was empty.
 * Not from within a batch of completions. */
struct conn *drain_collect(struct worker *worker, bool idle);
/* Where there is no buffer for a reply, or no room to set a request aside: ends the connection
 * that has the most of them and took no reply for a while.  Any time; it looks now and then. */
void drain_room(struct worker *worker);
/* A connection's marker has come. */
void drain_marked(struct conn *conn);
/* Gives collected ones to the main thread.  After worker_take_commands(), which may have had
 * the locker's last answers to them. */
void drain_bury(struct worker *worker, struct conn *drained);
void worker_close_all(struct worker *worker, const char *why);
/* Those of a reign that is over; of no cluster: none. */
void worker_close_former(struct worker *worker);

/* recv.c; hash: of the request's key, or NULL. */
void intake_received(struct worker *worker, const struct ibv_wc *wc, const struct hash *hash);
/* Tries what was set aside again. */
void intake_retry(struct worker *worker);
/* Changes whose records are on disk. */
void intake_committed(struct worker *worker);

/* obey.c */
void worker_take_commands(struct worker *worker);
/* A client's tokens were READ. */
void worker_got_held(struct worker *worker, struct txbuf *buf, const struct ibv_wc *wc);

#endif
