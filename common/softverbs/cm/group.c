/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.c -- connection management: multicast groups that ids have joined.
 *
 * The queue pair of an id enters a group when its owner takes the event, by that thread, as
 * librdmacm does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/cm/group.h"
#include "common/softverbs/softverbs.h"

struct sv_cm_group **sv_cm_group_find(struct sv_id *id, const union ibv_gid *gid)
{
	struct sv_cm_group **at = &id->groups;

	while (*at && memcmp(&(*at)->gid, gid, sizeof(*gid)))
		at = &(*at)->next;
	return at;
}

void sv_cm_forget_groups(struct sv_id *id)
{
	while (id->groups) {
		struct sv_cm_group *group = id->groups;

		id->groups = group->next;
		free(group);
	}
}

void sv_cm_joined(struct sv_cm_event *event, struct sv_id *id)
{
	const union ibv_gid *gid = &event->ev.param.ud.ah_attr.grh.dgid;
	struct sv_cm_group *group;
	bool enter;
	int ret = 0;

	pthread_mutex_lock(&sv_cm.lock);
	group = *sv_cm_group_find(id, gid);
	enter = group && !group->send_only && id->id.qp;
	pthread_mutex_unlock(&sv_cm.lock);
	if (!group) /* left before */
		ret = ECANCELED;
	else if (enter)
		ret = sv_attach_mcast(id->id.qp, gid, 0);
	if (!ret)
		return;
	event->ev.event = RDMA_CM_EVENT_MULTICAST_ERROR;
	event->ev.status = -ret;
}
