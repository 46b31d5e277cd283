/* SPDX-License-Identifier: BSD-2-Clause */
/* backup.h -- a member that is not primary. */
#ifndef SERVER_CLUSTER_MEMBER_BACKUP_H
#define SERVER_CLUSTER_MEMBER_BACKUP_H

#include "server/cluster/member/state.h"

/* Its table is, and has that incarnation. */
void member_emptied(struct member *m, uint64_t incarnation, uint64_t now_ns,
		    struct member_actions *actions);

void member_seal(struct member *m, struct member_actions *actions);
void member_tick_backup(struct member *m, uint64_t now_ns, struct member_actions *actions);
void member_heard_backup(struct member *m, uint64_t now_ns, const char *from,
			 const struct member_message *message, struct member_actions *actions);
void member_obeyed_backup(struct member *m, uint64_t order, uint64_t now_ns,
			  struct member_actions *actions);

#endif
