/* SPDX-License-Identifier: BSD-2-Clause */
/* group.h -- connection management: multicast groups that ids have joined. */
#ifndef COMMON_SOFTVERBS_CM_GROUP_H
#define COMMON_SOFTVERBS_CM_GROUP_H

#include <stdbool.h>
#include "common/softverbs/cm/event.h"
#include "common/softverbs/cm/id.h"

struct sv_cm_group {
	struct sv_cm_group *next; /* sv_id.groups */
	union ibv_gid gid;
	void *context;
	bool send_only; /* its queue pair stays outside */
};

/* Where it stands among the id's; NULL there: it hasn't joined.  sv_cm.lock held. */
struct sv_cm_group **sv_cm_group_find(struct sv_id *id, const union ibv_gid *gid);
/* The id ends; sv_cm.lock held. */
void sv_cm_forget_groups(struct sv_id *id);
/* The owner takes RDMA_CM_EVENT_MULTICAST_JOIN: its queue pair enters the group.  No lock held. */
void sv_cm_joined(struct sv_cm_event *event, struct sv_id *id);

#endif
