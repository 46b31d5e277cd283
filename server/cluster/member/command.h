/* SPDX-License-Identifier: BSD-2-Clause */
/* command.h -- what people have a member do; member_promote() is in primary.h. */
#ifndef SERVER_CLUSTER_MEMBER_COMMAND_H
#define SERVER_CLUSTER_MEMBER_COMMAND_H

#include "server/cluster/member/state.h"

/*
 * A primary: the next configuration is without that one of the set, by rule 4 of doc/cluster.md.
 * False: not now, or it is none of the set.
 */
bool member_remove(struct member *m, const char *name);

/*
 * A member that is out of the set begins a reign with what its table has.  What the set has beside
 * that is lost.  The wait for leases is as long as if it had promised just now.  False: it is of
 * the set, or knows of no configuration.
 */
bool member_force(struct member *m, uint64_t now_ns, struct member_actions *actions);
/* A tick of one that is forced: it writes, once its workers have sealed. */
void member_tick_forced(struct member *m, uint64_t now_ns, struct member_actions *actions);

#endif
