/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stuck.h -- members of a primary's set that are there, and take nothing.
 *
 * Their disk hangs, or a worker of theirs: heartbeats are answered, and changes would wait for ever.
 * After STUCK_NS they are as good as gone.  A joiner has less time: join.c.
 */
#ifndef SERVER_CLUSTER_SHARD_STUCK_H
#define SERVER_CLUSTER_SHARD_STUCK_H

#include "server/cluster/shard/impl.h"

/* The shard's thread: every some milliseconds, right before the member's tick. */
void stuck_look(struct shard *s, uint64_t now_ns);

#endif
