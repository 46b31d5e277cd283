/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * branch.h -- where an XRC queue pair sends: to shared receive queues, each by its number.
 *
 * An XRC_SEND queue pair is connected to one XRC_RECV queue pair, its target, and each of its
 * requests names a shared receive queue of the target's domain, in whatever process that is.  A
 * branch is the way to one of them: a queue pair that the process of the receive queue makes for it
 * (verbs/xrc.c) and that nobody sees.  To it the sender is an ordinary connection, whose half
 * of the state is the branch's.
 *
 * The queue pair is at one branch at a time, or at its target while none was used.  All with
 * sq_lock held, except where said.
 */
#ifndef COMMON_SOFTVERBS_OBJECT_BRANCH_H
#define COMMON_SOFTVERBS_OBJECT_BRANCH_H

#include <stdint.h>
#include "common/softverbs/object/qp.h"
#include "common/softverbs/peer/msg.h"

#define SV_BRANCHES 256u

enum sv_branch_state {
	SV_BRANCH_NEW,
	SV_BRANCH_ASKED,
	SV_BRANCH_JOINED,
	SV_BRANCH_REFUSED,
};

enum sv_branch_way {
	SV_WAY_OPEN,	/* the queue pair is at it */
	SV_WAY_ASKED,	/* a process owes an answer */
	SV_WAY_DOWN,	/* the target, or the process of the receive queue, is not there */
	SV_WAY_REFUSED, /* no such receive queue in the target's domain */
};

/* Sets *branch to that of a receive queue, a new one if need be, for which the lock is given up for a
 * moment.  0 or an errno value: ENOMEM with more than SV_BRANCHES. */
int sv_branch_find(struct sv_qp *qp, uint32_t srqn, struct sv_branch **branch);
uint32_t sv_branch_number(const struct sv_branch *branch);
/* The queue pair is at that branch from now on, if the way is open. */
enum sv_branch_way sv_branch_select(struct sv_qp *qp, uint32_t number);
/* The peer refused a request: the target fails, too. */
void sv_branch_accuse(struct sv_qp *qp, uint32_t status);
/* Back to the target, before the queue pair leaves that. */
void sv_branch_leave(struct sv_qp *qp);

/* No lock held; control thread.  What the process of the receive queue says; its number. */
void sv_branch_answered(const struct sv_msg *msg);
/* No lock held.  A request to this process itself that nobody has answered; false: none. */
bool sv_branch_own_request(struct sv_qp *qp, struct sv_msg *msg);
/* No lock held.  All branches end; a queue pair of another type has none. */
void sv_branch_forget(struct sv_qp *qp);
/* Who ends the queue pair of a branch to this process itself; before there is any. */
void sv_branch_on_part(void (*part)(uint32_t sender_qpn, uint32_t index));

#endif
