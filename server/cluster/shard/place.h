/* SPDX-License-Identifier: BSD-2-Clause */
/* place.h -- a member's place in the agreement. */
#ifndef SERVER_CLUSTER_SHARD_PLACE_H
#define SERVER_CLUSTER_SHARD_PLACE_H

#include "server/cluster/shard/impl.h"

int place_open(struct shard *s, struct err *err);
void place_close(struct shard *s);
/* Every some milliseconds. */
void place_look(struct shard *s, uint64_t now_ns);

#endif
