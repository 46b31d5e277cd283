/* SPDX-License-Identifier: BSD-2-Clause */
/* greet.h -- the two messages by which members prove themselves over a connection. */
#ifndef SERVER_CLUSTER_LINK_GREET_H
#define SERVER_CLUSTER_LINK_GREET_H

#include "server/cluster/link/impl.h"

/* Who connected says hello. */
void link_greet(struct link_peer *p);
/* A message of who has not proved itself: it is up then, or ends. */
void link_greeted(struct link_peer *p, struct link_reader *r);

#endif
