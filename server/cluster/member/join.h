/* SPDX-License-Identifier: BSD-2-Clause */
/* join.h -- a primary's side of a join. */
#ifndef SERVER_CLUSTER_MEMBER_JOIN_H
#define SERVER_CLUSTER_MEMBER_JOIN_H

#include "server/cluster/member/state.h"

/* A copy of the shard is made on that one; false: not now. */
bool member_invite(struct member *m, const char *name, uint64_t now_ns);
/* Each stripe is at the joiner, by the copy of that number: m->copy. */
void member_copied(struct member *m, uint64_t now_ns, struct member_actions *actions);

/* Without `actions`: a new epoch, or the reign's end, says so to all. */
void member_give_up_joiner(struct member *m, struct member_actions *actions);
void member_tick_joiner(struct member *m, uint64_t now_ns, struct member_actions *actions);
void member_joined(struct member *m, uint64_t now_ns, const char *from,
		   const struct member_message *message, struct member_actions *actions);

#endif
