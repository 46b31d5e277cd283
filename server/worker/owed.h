/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owed.h -- answers that wait for the disk: to whom, and to which request.
 *
 * A change that returned STORE_COMMIT is answered when its record comes back.  Its commit
 * points to a struct owed, which stays valid until owed_release().  The worker's thread only.
 */
#ifndef SERVER_WORKER_OWED_H
#define SERVER_WORKER_OWED_H

#include <stdint.h>

#include "common/wire.h"
#include "server/worker/timing.h"

struct conn;
struct flush;
struct worker;

struct owed {
	struct owed *next; /* of the free ones */
	struct conn *conn;
	struct flush *flush;  /* that the key is deleted for; NULL: none */
	struct wire_request request;
	int64_t number;       /* the new one, of a WIRE_INCR */
	uint64_t begun_ns;    /* 0: the request is not timed */
	uint8_t key[TIMING_KEY_BYTES]; /* of a timed one */
};

/* Memory for as many as the store has commits.  0 or an errno value. */
int owed_new(struct worker *worker);
void owed_delete(struct worker *worker);

/*
 * Remembers what is to be answered when the worker's last commit ends: the request, which is
 * copied, and what timing_keep() gave.
 */
struct owed *owed_add(struct worker *worker, struct conn *conn, const struct wire_request *request,
		      const uint8_t *key, uint64_t begun_ns);
void owed_release(struct worker *worker, struct owed *owed);

#endif
