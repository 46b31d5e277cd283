/* SPDX-License-Identifier: BSD-2-Clause */
/* primary.h -- a reign, from taking over to its end. */
#ifndef SERVER_CLUSTER_MEMBER_PRIMARY_H
#define SERVER_CLUSTER_MEMBER_PRIMARY_H

#include "server/cluster/member/state.h"

/* All records that were under way as of that epoch are acknowledged by all. */
void member_settled(struct member *m, uint64_t epoch, uint64_t now_ns,
		    struct member_actions *actions);
/* That one of the set is to be primary; false: not now. */
bool member_promote(struct member *m, const char *name, uint64_t now_ns);

/* Whether an answer without a change may leave: asked after what it says was sampled. */
bool member_may_answer(const struct member *m, uint64_t now_ns);
/* What a reader may count from when it asked. */
uint64_t member_left_ns(const struct member *m, uint64_t now_ns);

static inline bool member_is_primary(const struct member *m)
{
	return m->state == MEMBER_TAKING || m->state == MEMBER_SERVING || m->state == MEMBER_LEAVING;
}
/* Whether requests are executed: until what names another one is sent. */
static inline bool member_serves(const struct member *m)
{
	return m->state == MEMBER_SERVING || (m->state == MEMBER_LEAVING && !m->is_handing);
}
void member_take_over(struct member *m, bool is_handed, struct member_actions *actions);
/* A later epoch of the same reign. */
void member_go_on(struct member *m, struct member_actions *actions);
void member_end_reign(struct member *m, struct member_actions *actions);
/* What was open is visible: readers may have leases from now on. */
void member_serve(struct member *m, struct member_actions *actions);
void member_tick_primary(struct member *m, uint64_t now_ns, uint64_t visible,
			 struct member_actions *actions);
void member_heard_primary(struct member *m, uint64_t now_ns, const char *from,
			  const struct member_message *message, struct member_actions *actions);

#endif
