/* SPDX-License-Identifier: BSD-2-Clause */
/* lag.h -- how far the others are behind a primary. */
#ifndef SERVER_CLUSTER_REPLICA_LAG_H
#define SERVER_CLUSTER_REPLICA_LAG_H

#include "server/cluster/replica/options.h"

struct replica;

/* Any thread: of each seat, the records under way that it has not acknowledged. */
void replica_lag(struct replica *replica, uint32_t lag[REPLICA_PEERS_MAX]);

#endif
