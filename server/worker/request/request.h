/* SPDX-License-Identifier: BSD-2-Clause */
/* request.h -- one request is checked, executed and answered.  Its worker's thread. */
#ifndef SERVER_WORKER_REQUEST_REQUEST_H
#define SERVER_WORKER_REQUEST_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "server/worker/request/deferred.h"

struct commit;
struct conn;
struct hash;
struct index_spot;
struct worker;

/* hash: that of request_prefetch()'s spot, or NULL. */
enum request_fate request_handle(struct worker *worker, struct conn *conn, const uint8_t *message,
				 uint32_t bytes, const struct hash *hash);
/* Fetches into the cache what the request will look at, for those that were received
 * together, and hashes its key; false: it has none.  Nothing of the message is believed. */
bool request_prefetch(const struct worker *worker, const uint8_t *message, uint32_t bytes,
		      struct index_spot *spot);
/* Of one that was set aside: it takes as long as many others, and waits for its turn. */
bool request_is_slow(const uint8_t *message);
/* False: there is no place for the answer. */
bool request_answer_busy(struct worker *worker, struct conn *conn, const uint8_t *message);
/* A change's record came back from the disk.  Caller: has seen that there is a tx buffer. */
void request_committed(struct worker *worker, struct commit *commit);

#endif
