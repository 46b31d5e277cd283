/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * room.h -- room for one more connection, at the limits of --connections: of all, and of a
 * namespace.
 *
 * Who has proved who they are keeps their connection.  Of those who have not, the one that
 * is the eldest is ended, and the newcomer waits until that one is buried: so there are
 * never more queue pairs than the limit says.  Each that waits has one that ends for it,
 * which bounds how many wait.  Main thread.
 */
#ifndef SERVER_HOST_ROOM_H
#define SERVER_HOST_ROOM_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

struct host;
struct server;

/* A connection request that is not answered yet. */
struct arrival {
	struct arrival *next; /* of those that wait */
	struct server *server;
	struct rdma_cm_id *id;
	struct wire_connect request;
	struct rdma_conn_param asked; /* without its private data */
	uint64_t since_ns;
};

enum room {
	ROOM_THERE,
	ROOM_SOON, /* one that proved nothing is ended for it: room_wait() */
	ROOM_NONE, /* all have proved who they are, or are being ended for others */
};

/* For one more of this namespace; *limit: which limit is in the way. */
enum room room_make(struct host *host, struct server *server, uint32_t *limit);
/* Keeps a copy.  False: no memory. */
bool room_wait(struct host *host, const struct arrival *arrival);
/* The first of those that wait for whom there is room now, or NULL.  The caller frees it. */
struct arrival *room_next(struct host *host);
/* The same of those that have waited since before then, in vain. */
struct arrival *room_late(struct host *host, uint64_t before_ns);

#endif
