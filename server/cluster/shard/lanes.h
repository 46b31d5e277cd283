/* SPDX-License-Identifier: BSD-2-Clause */
/* lanes.h -- a primary's connections to the others. */
#ifndef SERVER_CLUSTER_SHARD_LANES_H
#define SERVER_CLUSTER_SHARD_LANES_H

#include "server/cluster/shard/impl.h"

/* The shard's thread: asks for those that are not there. */
void lanes_keep(struct shard *s, uint64_t now_ns);
/* Any thread: one that this member asked for is up, or has ended. */
void lanes_are(struct shard *s, const struct link_peer *p, enum lane_state state);
/* Whether all of them to that one are there.  The shard's thread. */
bool lanes_are_up(struct shard *s, const char *name);
void lanes_failed(struct shard *s, const struct addr *to, const struct link_lane *lane);

#endif
