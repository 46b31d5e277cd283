/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rails.h -- the RDMA devices that kvd serves: one for each that an address of --listen is on,
 * in their order, RAILS_MAX at the most.
 *
 * The first one's end is kvd's.  Another's ends its connections; its workers rest, and kvd serves
 * on until somebody starts it again.
 */
#ifndef SERVER_HOST_RAILS_H
#define SERVER_HOST_RAILS_H

#include "common/err.h"
#include "server/worker/context.h"

struct host;
struct listener;
struct server;

/* Main thread: sets the rail of a listener whose id is bound, which may be a new one.  0, or -1
 * after setting err. */
int rails_add(struct host *host, struct listener *listener, struct err *err);
/* Main thread: what the devices can do.  0, or -1 after setting err. */
int rails_query(struct host *host, struct err *err);
/* A namespace's on that device; NULL: none. */
struct rail *rails_find(struct server *server, const struct ibv_context *ctx);
/* Any thread, not the first one's number: ends what came by it, and says so.  `why`: static. */
void rails_lose(struct host *host, unsigned number, const char *why);

/* "soft0, soft1" */
const char *rails_text(const struct server *server, char *buf, size_t buf_bytes);

#endif
