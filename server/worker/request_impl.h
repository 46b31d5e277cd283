/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request_impl.h -- between the parts of a request's execution:
 *
 *   request.c   checks, and what is done to one key or a few
 *   hello.c     who a peer is, and what it may
 *   scan.c      pages of keys: to list, to delete
 *
 * A worker's thread, all of it.
 */
#ifndef SERVER_WORKER_REQUEST_IMPL_H
#define SERVER_WORKER_REQUEST_IMPL_H

#include "server/worker/server.h"

struct request {
	struct worker *worker;
	struct conn *conn;
	const struct wire_request *head;
	const uint8_t *key;
	const uint8_t *value;
	const struct hash *hash; /* of the key, if that is known; or NULL */
};

/* hello.c */
enum request_fate request_hello(struct request *request);

/* scan.c */
enum request_fate request_keys(struct request *request);
enum request_fate request_flush(struct request *request);
/* One of a flush's keys is off the disk, or not. */
void request_flushed(struct request *request, struct flush *flush, int status);

#endif
