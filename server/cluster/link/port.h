/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port.h -- a thread's connections with other members.
 *
 * A port is of one thread, which polls it; only link_port_adopt() is another's, the door's
 * (door.h).  All memory and all queues are of fixed size, for each connection.
 *
 * Happy path: the door hands a connection over; the two ends prove themselves; `up`; messages;
 * `down`.  A message takes a receive of the other end, and says how many of its own have been
 * taken in all: so an end never sends what finds no receive (credits).  Where there is nothing to
 * send, an empty message says it.
 *
 * Failure: what a peer sends that is no message, proves nothing, or grants what was not sent,
 * ends the connection.  So does one that takes nothing for LINK_STALL_NS, and one that proves
 * nothing for LINK_PROVE_NS.  `down` says why.
 *
 * Teardown: the queue pair goes to error; when all that was posted is flushed, or after
 * LINK_DRAIN_NS, it is destroyed, and the door gets the rest.
 */
#ifndef SERVER_CLUSTER_LINK_PORT_H
#define SERVER_CLUSTER_LINK_PORT_H

#include "server/cluster/link/options.h"

struct link_peer;
struct link_port;

/* 0, or -1 after setting err. */
int link_port_new(const struct link_port_options *options, struct link_port **port,
		  struct err *err);
/* None of its connections is left.  Takes NULL. */
void link_port_delete(struct link_port **port);

/* What there is; whether there was something. */
bool link_port_poll(struct link_port *port, uint64_t now_ns);
/* An event of the channel will tell of the next one: then it is polled once more. */
void link_port_arm(struct link_port *port);
/* The channel was readable: takes its event, which does not block. */
void link_port_woken(struct link_port *port);
/* Ends all; polled until link_port_is_empty(). */
void link_port_end(struct link_port *port, const char *why);
bool link_port_is_empty(struct link_port *port);

/* The door's: a connection that is the port's from now on. */
void link_port_adopt(struct link_port *port, struct link_peer *peer);

#endif
