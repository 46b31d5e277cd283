/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mcast.c -- connection management: multicast groups are joined and left.
 *
 * There is nobody to be asked whether a group is there, so a join is answered at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/base/device.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/cm/event.h"
#include "common/softverbs/cm/group.h"
#include "common/softverbs/cm/sync.h"
#include "common/softverbs/softverbs.h"

#define HOP_LIMIT 64
#define JOIN_MASK (RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS)

/* ---- addresses ---- */

/* False: it is no group's. */
static bool gid_of(const struct sockaddr *addr, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (addr->sa_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr, sizeof(*gid));
	} else if (addr->sa_family == AF_INET) {
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &((const struct sockaddr_in *)(const void *)addr)->sin_addr, 4);
	}
	return sv_gid_is_group(gid->raw);
}

/* ---- joining; sv_cm.lock held ---- */

static void tell(struct sv_id *id, const struct sv_cm_group *group)
{
	struct rdma_ud_param ud = { .private_data = group->context, .qp_num = SV_QPN_GROUP,
				    .qkey = RDMA_UDP_QKEY };

	ud.ah_attr.is_global = 1;
	ud.ah_attr.port_num = 1;
	ud.ah_attr.grh.dgid = group->gid;
	ud.ah_attr.grh.hop_limit = HOP_LIMIT;
	ud.ah_attr.grh.traffic_class = id->tos;
	sv_cm_queue_ud(id, RDMA_CM_EVENT_MULTICAST_JOIN, &ud);
}

static int join(struct sv_id *id, const struct sockaddr *addr, bool send_only, void *context)
{
	struct sv_cm_group *group;
	union ibv_gid gid;

	if (!sv_id_datagram(id) || !id->id.verbs || !gid_of(addr, &gid))
		return EINVAL;
	if (*sv_cm_group_find(id, &gid))
		return EADDRINUSE;
	group = calloc(1, sizeof(*group));
	if (!group)
		return ENOMEM;
	group->gid = gid;
	group->context = context;
	group->send_only = send_only;
	group->next = id->groups;
	id->groups = group;
	tell(id, group);
	return 0;
}

/* ---- calls ---- */

int sv_join_multicast_ex(struct rdma_cm_id *cm_id, struct rdma_cm_join_mc_attr_ex *attr,
			 void *context)
{
	uint32_t flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;
	int ret;

	if (attr->comp_mask & ~(uint32_t)JOIN_MASK ||
	    !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !attr->addr)
		return sv_cm_fail(EINVAL);
	if (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS)
		flags = attr->join_flags;
	if (flags != RDMA_MC_JOIN_FLAG_FULLMEMBER && flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		return sv_cm_fail(EINVAL);
	pthread_mutex_lock(&sv_cm.lock);
	ret = join(sv_id_of(cm_id), attr->addr, flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		   context);
	pthread_mutex_unlock(&sv_cm.lock);
	return ret ? sv_cm_fail(ret) : sv_cm_complete(cm_id);
}

int sv_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS,
						.addr = addr };

	return sv_join_multicast_ex(id, &attr, context);
}

int sv_leave_multicast(struct rdma_cm_id *cm_id, struct sockaddr *addr)
{
	struct sv_cm_group *group = NULL, **at;
	union ibv_gid gid;

	if (!gid_of(addr, &gid))
		return sv_cm_fail(EINVAL);
	pthread_mutex_lock(&sv_cm.lock);
	at = sv_cm_group_find(sv_id_of(cm_id), &gid);
	group = *at;
	if (group)
		*at = group->next;
	pthread_mutex_unlock(&sv_cm.lock);
	if (!group)
		return sv_cm_fail(EADDRNOTAVAIL);
	/* EINVAL: the event was not taken yet. */
	if (cm_id->qp && !group->send_only)
		sv_detach_mcast(cm_id->qp, &gid, 0);
	free(group);
	return 0;
}
