/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pull.h -- values that are larger than a message: kvd READs them from the client's memory.
 *
 * A worker's thread, all of it.
 */
#ifndef SERVER_WORKER_REQUEST_PULL_H
#define SERVER_WORKER_REQUEST_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "server/worker/request/deferred.h"
#include "server/worker/request/parts.h"

#define PULLS 64u

struct ibv_wc;
struct pull;
struct sendq;

struct pulls {
	struct request_parts parts;
	struct pull *all, *free;
	uint32_t free_count;
};

/* 0 or an errno value. */
int pulls_init(struct pulls *pulls, const struct request_parts *parts);
void pulls_fini(struct pulls *pulls);

/* `segments`: of the request, not aligned.  REQUEST_DONE: it answers.  REQUEST_ASIDE: the
 * connection has as many as are left for others, or there is no memory for now. */
enum request_fate pull_start(struct pulls *pulls, struct sendq *to,
			     const struct wire_request *request, const uint8_t *key,
			     const void *segments);
/* A READ of it, which has not ended, completed. */
void pull_completed(struct pulls *pulls, struct pull *pull, const struct ibv_wc *wc);
struct sendq *pull_sendq(const struct pull *pull);
/* Pulls that are complete but were in the way of a lock: try again. */
void pulls_retry(struct pulls *pulls);
bool pulls_waiting(const struct pulls *pulls);
/* Ends those of a connection whose queue pair is destroyed: no completion comes. */
void pulls_forget(struct pulls *pulls, const struct sendq *to);

#endif
