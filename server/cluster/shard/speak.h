/* SPDX-License-Identifier: BSD-2-Clause */
/* speak.h -- messages between the shards' threads of two members. */
#ifndef SERVER_CLUSTER_SHARD_SPEAK_H
#define SERVER_CLUSTER_SHARD_SPEAK_H

#include "server/cluster/shard/impl.h"

struct link_events speak_events(struct shard *s);
void speak_send(struct shard *s, const struct member_action *a);

#endif
