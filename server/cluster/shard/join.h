/* SPDX-License-Identifier: BSD-2-Clause */
/* join.h -- a copy of the shard, made for another member or got from the primary. */
#ifndef SERVER_CLUSTER_SHARD_JOIN_H
#define SERVER_CLUSTER_SHARD_JOIN_H

#include "server/cluster/shard/impl.h"

#define JOIN_STATUS_BYTES 256u

/* A number that is not 0: of a life, an incarnation. */
uint64_t join_draw(void);

void join_init(struct shard *s);
/* The joiner's: its table and its records go; when they have, the member is told. */
void join_empty(struct shard *s);
/* Whether that order was it. */
bool join_emptied(struct shard *s, uint64_t number, struct member_actions *actions);
/* Whether its disk was emptied, behind that. */
bool join_wiped(struct shard *s, struct member_actions *actions);

/* A primary's: whether somebody more is to be of its set; then one of those who are there joins. */
bool join_may_invite(const struct shard *s, uint64_t now_ns);
void join_invite(struct shard *s, const struct config_member *there, unsigned count);

/*
 * Every some milliseconds, before the member's tick.  A primary's: whether all is copied; a joiner
 * that takes nothing is given up; what is made, and how far it is, is logged.
 */
void join_tick(struct shard *s, uint64_t now_ns, struct member_actions *actions);
/* "copy":{…}, or nothing.  Any thread. */
void join_status(struct shard *s, char text[JOIN_STATUS_BYTES]);

#endif
