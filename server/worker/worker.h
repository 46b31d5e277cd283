/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worker.h -- a thread with its queues, which executes the requests of its connections.
 *
 * The main thread makes, starts and ends it.
 */
#ifndef SERVER_WORKER_WORKER_H
#define SERVER_WORKER_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct commands;
struct conn_set;
struct rail;
struct server;
struct store_worker;
struct timing;
struct worker;
struct worker_queues; /* rx.h */
struct worker_stats;

/*
 * What a worker does beside its own connections, where kvd is a member of a cluster: all of it
 * in the worker's thread.
 */
struct worker_guest {
	bool (*poll)(void *arg);  /* whether there was something */
	void (*flush)(void *arg); /* at the end of each round, before replies leave, and before it
				     sleeps */
	void (*ended)(void *arg); /* changes have ended, what waits for their stripes has not begun */
	void (*arm)(void *arg);   /* before it sleeps: the descriptor will be readable */
	void (*woken)(void *arg); /* it was */
	void (*leave)(void *arg); /* the worker ends */
	bool (*waits)(void *arg); /* for time to pass: the worker sleeps for a millisecond at most */
	int descriptor;
	void *arg;
};

/* Before the worker starts; the guest's memory is the caller's. */
void worker_invite(struct worker *worker, const struct worker_guest *guest);

/* 0, or -1 after setting err; *worker is to be deleted then too. */
int worker_new(struct server *server, unsigned id, struct worker **worker, struct err *err);
int worker_start(struct worker *worker, struct err *err);
/* Asks for an orderly end and waits for it. */
void worker_stop(struct worker *worker);
/* After every connection was destroyed. */
void worker_delete(struct worker **worker);

/* These stay as they are. */
const struct worker_queues *worker_queues(const struct worker *worker);
struct rail *worker_rail(const struct worker *worker);

/* What other threads may use of it. */
struct commands *worker_commands(struct worker *worker);
struct conn_set *worker_conn_set(struct worker *worker);
const struct worker_stats *worker_stats(const struct worker *worker);
const struct timing *worker_timing(const struct worker *worker, unsigned op);
/* Only while it does not run. */
struct store_worker *worker_store(struct worker *worker);
pthread_t worker_thread(const struct worker *worker);

/* Since when it made no round of its loop, as seen from the calls of this; 0: it did since
 * the last.  One thread at a time. */
uint64_t worker_stuck_ns(struct worker *worker, uint64_t now_ns);

#endif
