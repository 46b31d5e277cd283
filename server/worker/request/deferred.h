/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deferred.h -- requests that are set aside with their buffer, to be tried again: another
 * worker or a lock holder is in their way, or their reply has no place yet, or they are slow and
 * wait for their turn.
 *
 * A worker's thread, all of it.
 */
#ifndef SERVER_WORKER_REQUEST_DEFERRED_H
#define SERVER_WORKER_REQUEST_DEFERRED_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct locker;

enum request_fate {
	REQUEST_DONE,  /* the buffer may be used again */
	REQUEST_ASIDE, /* try again later */
};

struct deferred_request {
	struct conn *conn; /* NULL: it was forgotten */
	uint32_t buffer;
	uint32_t bytes;
	uint64_t since_ns;
	uint64_t report_ns; /* when to tell the locker of a lock in its way */
	bool is_slow; /* as long as many others: one is executed a round */
};

struct deferred {
	struct deferred_request *request;
	uint32_t count, max;
	uint32_t slow; /* of them */
	bool is_trying; /* within deferred_retry() */
};

/* 0 or an errno value. */
int deferred_init(struct deferred *deferred, uint32_t max);
void deferred_fini(struct deferred *deferred);

/* False: too many are aside. */
bool deferred_add(struct deferred *deferred, struct conn *conn, uint32_t buffer, uint32_t bytes,
		  bool is_slow, uint64_t now_ns);

/* Nothing of the connection is aside any more: gives its buffers to `release`.  Not from
 * within deferred_retry(). */
void deferred_forget(struct deferred *deferred, const struct conn *conn,
		     void (*release)(void *arg, uint32_t buffer), void *arg);

/* Tries each: `again` is true if the request is through, and its buffer is the caller's. */
void deferred_retry(struct deferred *deferred,
		    bool (*again)(void *arg, struct deferred_request *request), void *arg);

/*
 * After a change was tried again: if the lock of a stripe was in its way (`blocked`, or
 * STORE_NOT_BLOCKED), and *report_ns is over, the locker is told, and *report_ns is put
 * off.  locker: may be NULL.
 */
void deferred_report(struct locker *locker, uint64_t blocked, uint64_t *report_ns,
		     uint64_t now_ns);
#define REPORT_FIRST_NS 5000000ull

#endif
