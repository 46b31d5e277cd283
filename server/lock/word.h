/* SPDX-License-Identifier: BSD-2-Clause */
/* word.h -- the lock words as the locker's thread sees and changes them, and what it
 * has for that.  The thread alone calls what is here. */
#ifndef SERVER_LOCK_WORD_H
#define SERVER_LOCK_WORD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/lock/inbox.h"
#include "server/lock/locker.h"
#include "server/lock/queue.h"
#include "server/lock/loopback.h"

struct locker {
	struct server *server;
	struct loopback *loopback;
	pthread_t thread;
	bool started;

	struct inbox inbox;

	/* The thread's own. */
	struct queues queues;
	uint64_t looks; /* at holders, counted */
	_Atomic uint8_t *alive; /* a bit for each connection id */
	_Atomic uint64_t waits, handovers, recovered, released, fenced;
};

uint64_t lockword_get(const struct locker *l, uint64_t stripe);
/* True if it was `expected`, and is `desired` now. */
bool lockword_swap(struct locker *l, uint64_t stripe, uint64_t expected, uint64_t desired);
/* Gives the lock to the first waiter, or frees it if there is none; false: it is not
 * `word` any more. */
bool lockword_hand_over(struct locker *l, struct queue *q, uint64_t word);
/* Goes on with one stripe; its queue is dropped when nobody waits and WAIT is off. */
void lockword_serve(struct locker *l, struct queue *q, uint64_t now);

#endif
