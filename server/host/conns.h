/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conns.h -- a connection's way through the main thread: it arrives (accept.c), is listed
 * (conns.c), and is ended and buried (reap.c).  All main thread, but where said.
 */
#ifndef SERVER_HOST_CONNS_H
#define SERVER_HOST_CONNS_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct host;
struct rdma_cm_event;
struct server;

/* conns.c; the worker may change what the first says, which only delays what follows. */
bool conn_is_pending(const struct conn *conn); /* it has not said a good hello */
uint64_t conns_count(const struct host *host);
uint64_t conns_count_pending(const struct host *host);
/* Of a namespace, or of all (NULL): how many end, and the eldest of those that have not said
 * a good hello and don't end, or NULL. */
unsigned conns_look(const struct host *host, const struct server *server, struct conn **eldest);
void conns_add(struct server *server, struct conn *conn);
void conns_remove(struct conn *conn);
/* The hook: whether a connection is not yet destroyed.  Any thread. */
bool conns_know(struct server *server, uint64_t connection_id);
/* Of a namespace, by the listener that they came by: LISTENERS_MAX counts.  Any thread. */
void conns_count_by(struct server *server, unsigned *counts);
/* Each of a namespace's, with its handshake.  Main thread, or any that has conns_lock. */
struct handshake;
void conns_each(struct server *server,
		void (*see)(void *arg, struct conn *conn, const struct handshake *handshake),
		void *arg);

/* accept.c: takes the id of the CONNECT_REQUEST, and acknowledges the event. */
void arrival_asked(struct host *host, struct rdma_cm_event *event);
/* Those that waited and for whom there is room now. */
void arrivals_go_on(struct host *host);
/* Those that waited for too long, or all, as kvd stops. */
void arrivals_refuse(struct host *host, bool all);

/* reap.c */
/* The hook: its worker gives a connection back.  Any thread. */
void burial_order(struct conn *conn);
/* Its queue pair and all that it had.  Nothing that it sent takes effect afterwards. */
void burial_one(struct conn *conn);
/* Those that their workers are done with. */
void burial_all(struct host *host);
/* Every LOOK_NS: ends those that are silent, slow, or to be told what they are. */
#define LOOK_NS 250000000ull
void burial_look(struct host *host);

#endif
