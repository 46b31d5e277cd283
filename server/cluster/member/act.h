/* SPDX-License-Identifier: BSD-2-Clause */
/* act.h -- what a member wants done. */
#ifndef SERVER_CLUSTER_MEMBER_ACT_H
#define SERVER_CLUSTER_MEMBER_ACT_H

#include "server/cluster/member/state.h"

struct member_action *member_act(struct member_actions *actions, enum member_action_kind kind);
/* An order of the present epoch; its number. */
uint64_t member_order(struct member *m, enum member_action_kind kind, enum member_role role,
		      struct member_actions *actions);
void member_send(struct member *m, const struct config_member *to,
		 const struct member_message *message, struct member_actions *actions);
void member_show_words(struct member *m, struct member_actions *actions);
/* Whether the next epoch may be asked for: no answer is awaited, and it is not too soon. */
bool member_may_propose(const struct member *m, uint64_t now_ns);
void member_propose(struct member *m, struct config *c, uint64_t now_ns,
		    struct member_actions *actions);
uint64_t member_number(struct member *m);

#endif
