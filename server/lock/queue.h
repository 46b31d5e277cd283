/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.h -- who waits for which stripe, in order; the locker's thread only.
 */
#ifndef SERVER_LOCK_QUEUE_H
#define SERVER_LOCK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

#define QUEUES 4096u /* buckets of the map from stripe to queue */

struct conn;

struct waiter {
	struct waiter *next;
	struct conn *conn;
	struct wire_request request;
	uint64_t end_ns;
};

/* A stripe that the locker looks after, and what it knows of its holder. */
struct queue {
	struct queue *next;
	uint64_t stripe;
	struct waiter *first, **end;
	uint64_t seen;     /* the word, without WAIT, since since_ns */
	uint64_t since_ns;
	uint64_t looked_ns;
	uint64_t asked;    /* looks from this number on know of `seen` */
	uint64_t watched_ns; /* a change waits too, until then */
	uint64_t opened_ns;  /* the last turn of changes */
};

struct queues {
	struct queue *at[QUEUES];
	unsigned count;
	unsigned waiters;
};

/* NULL: nobody waits there; with _get: no memory. */
struct queue *queue_find(struct queues *queues, uint64_t stripe);
struct queue *queue_get(struct queues *queues, uint64_t stripe);
void queue_drop(struct queues *queues, struct queue *queue);

/* Waits for as long as the request says.  False: no memory, or too many wait. */
bool queue_push(struct queues *queues, struct queue *queue, struct conn *conn,
		const struct wire_request *request, uint64_t now);
/* Taken out, to be freed by the caller: the first; one whose time is over, or NULL. */
struct waiter *queue_pop(struct queues *queues, struct queue *queue);
struct waiter *queue_expired(struct queues *queues, struct queue *queue, uint64_t now);

/* The connection waits for nothing any more. */
void queues_forget(struct queues *queues, const struct conn *conn);
void queues_clear(struct queues *queues);

#endif
