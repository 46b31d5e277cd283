/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listener.h -- the addresses that kvd serves.
 *
 * Each is on a device: on a rail (rails.h), and perhaps several on one.  Main thread.
 */
#ifndef SERVER_HOST_LISTENER_H
#define SERVER_HOST_LISTENER_H

#include <rdma/rdma_cma.h>
#include <stddef.h>

#include "common/err.h"

struct addr;
struct host;
struct server;

/* "ADDR[:PORT][,ADDR...]": into the host and its first server.  0, or -1 after setting err. */
int listeners_parse(struct host *host, const char *list, struct err *err);
/* Whether a list is well-formed. */
int listeners_check(const char *list, struct err *err);
/* The channel, and an id bound to each address; sets the first server's rails. */
int listeners_open(struct host *host, struct err *err);
int listeners_listen(struct host *host, struct err *err);
void listeners_close(struct host *host);
/* Those whose device is lost. */
void listeners_close_lost(struct host *host);
/* Which of them, by its number, the id of a request came by. */
unsigned listeners_find(const struct host *host, struct rdma_cm_id *id);
/* The first that is not this machine's alone; where each is, the first. */
const struct addr *listeners_widest(const struct host *host);
/* "192.0.2.10:7480, [2001:db8::1]:7480" */
const char *listeners_text(const struct host *host, char *buf, size_t buf_bytes);

#endif
