/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * door.h -- how members connect to each other.
 *
 * A door is of one thread, which may be another than those of the ports.  It makes queue pairs
 * without any remote right, brings them up, and hands the connections to their ports, where both
 * ends prove themselves (port.h).  What a port has ended comes back, and is freed.
 *
 * At most LINK_PROVING_MAX have been let in and have proved nothing; others are turned away.
 */
#ifndef SERVER_CLUSTER_LINK_DOOR_H
#define SERVER_CLUSTER_LINK_DOOR_H

#include "server/cluster/link/options.h"

struct link_door;

/* 0, or -1 after setting err. */
int link_door_new(const struct link_door_options *options, struct link_door **door,
		  struct err *err);
/* All its ports are empty, and polled since.  Takes NULL. */
void link_door_delete(struct link_door **door);

/* Where it listens. */
const struct addr *link_door_addr(const struct link_door *door);
/* Readable when link_door_poll() has something to do. */
int link_door_fd(const struct link_door *door);
/* Also every some milliseconds, for time-outs. */
void link_door_poll(struct link_door *door, uint64_t now_ns);

/* Begins a connection of that lane.  0, or -1 after setting err. */
int link_door_connect(struct link_door *door, const struct addr *to, const struct link_lane *lane,
		      uint64_t now_ns, struct err *err);

#endif
