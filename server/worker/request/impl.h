/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * impl.h -- between the parts of a request's execution:
 *
 *   request.c   checks, and what is done to one key or a few
 *   hello.c     who a peer is, and what it may
 *   scan.c      pages of keys: to list, to delete
 *   cluster.c   what a member of a cluster may execute, and is told
 *
 * A worker's thread, all of it.
 */
#ifndef SERVER_WORKER_REQUEST_IMPL_H
#define SERVER_WORKER_REQUEST_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "server/worker/request/deferred.h"

struct conn;
struct flush;
struct hash;
struct sendq;
struct user;
struct wire_request;
struct worker;

struct request {
	struct worker *worker;
	struct conn *conn;
	struct sendq *to; /* the same one's */
	const struct user *user; /* and its user */
	const struct wire_request *head;
	const uint8_t *key;
	const uint8_t *value;
	const struct hash *hash; /* of the key, if that is known; or NULL */
};

/* hello.c */
enum request_fate request_hello(struct request *request);

/* cluster.c */
enum request_fate request_where(struct request *request);
enum request_fate request_cluster(struct request *request);
/* Of a member of a cluster; false: it is to be executed. */
bool request_as_member(struct request *request, bool is_change, enum request_fate *fate);

/* scan.c */
enum request_fate request_keys(struct request *request);
enum request_fate request_flush(struct request *request);
/* One of a flush's keys is off the disk, or not. */
void request_flushed(struct worker *worker, struct sendq *to, const struct wire_request *request,
		     struct flush *flush, int status);

#endif
