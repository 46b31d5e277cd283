/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owed.h -- answers that wait for the disk: to whom, and to which request.
 *
 * A change that returned STORE_COMMIT is answered when its record comes back.  Its commit
 * points to a struct owed, which stays valid until owed_release().  The worker's thread only.
 */
#ifndef SERVER_WORKER_REQUEST_OWED_H
#define SERVER_WORKER_REQUEST_OWED_H

#include <stdint.h>

#include "common/wire.h"
#include "server/worker/timing.h"

struct commit;
struct flush;
struct sendq;

struct owed {
	struct owed *next; /* of the free ones */
	struct sendq *to;
	struct flush *flush;  /* that the key is deleted for; NULL: none */
	struct wire_request request;
	int64_t number;       /* the new one, of a WIRE_INCR */
	uint64_t begun_ns;    /* 0: the request is not timed */
	uint8_t key[TIMING_KEY_BYTES]; /* of a timed one */
};

/* A worker's. */
struct owed_list {
	struct owed *all; /* NULL without a database */
	struct owed *free;
};

/* Memory for `count`.  0 or an errno value. */
int owed_init(struct owed_list *list, unsigned count);
void owed_fini(struct owed_list *list);

/*
 * Remembers what is to be answered when a commit ends: the request, which is copied with the
 * key if it is timed.  There has to be one: there are as many as the store has commits.
 */
struct owed *owed_add(struct owed_list *list, struct commit *commit, struct sendq *to,
		      const struct wire_request *request, const uint8_t *key, uint64_t begun_ns);
void owed_release(struct owed_list *list, struct owed *owed);

#endif
