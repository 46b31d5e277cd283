/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mcast.c -- multicast groups: queue pairs enter and leave them.
 *
 * From the moment that the queue pair itself knows it is in a group it takes what is sent there
 * (exec/dgram_recv.c); then senders get to know it (peer/group.c).  The other way round when it
 * leaves.
 */
#include <errno.h>
#include <stdlib.h>
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/group.h"
#include "common/softverbs/peer/group.h"
#include "common/softverbs/softverbs.h"

/* All with sv_proc.grouping held. */

static uint32_t count(const struct sv_qp *qp)
{
	uint32_t n = 0;

	for (const struct sv_attached *a = qp->groups; a; a = a->next)
		n++;
	return n;
}

static struct sv_attached *put_in(struct sv_qp *qp, const uint8_t *gid)
{
	struct sv_attached *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	memcpy(a->gid, gid, sizeof(a->gid));
	sv_qp_lock_receive(qp);
	a->next = qp->groups;
	qp->groups = a;
	sv_qp_unlock_receive(qp);
	return a;
}

static void take_out(struct sv_qp *qp, struct sv_attached *a)
{
	struct sv_attached **at = sv_attached_find(qp, a->gid);

	sv_qp_lock_receive(qp);
	*at = a->next;
	sv_qp_unlock_receive(qp);
	free(a);
}

static int attach(struct sv_qp *qp, const uint8_t *gid)
{
	struct sv_attached *a;
	int ret;

	if (*sv_attached_find(qp, gid))
		return 0;
	if (count(qp) >= SV_MAX_QP_GROUPS)
		return ENOMEM;
	a = put_in(qp, gid);
	if (!a)
		return ENOMEM;
	ret = sv_group_enter(gid, qp->qpn, &a->fd);
	if (ret)
		take_out(qp, a);
	return ret;
}

static int detach(struct sv_qp *qp, const uint8_t *gid)
{
	struct sv_attached *a = *sv_attached_find(qp, gid);

	if (!a)
		return EINVAL;
	sv_group_leave(a->fd);
	take_out(qp, a);
	return 0;
}

static int change(struct ibv_qp *ibqp, const union ibv_gid *gid,
		  int (*how)(struct sv_qp *qp, const uint8_t *gid))
{
	struct sv_qp *qp = sv_qp_of(ibqp);
	int ret;

	if (!sv_qp_datagram(qp) || !sv_gid_is_group(gid->raw))
		return EINVAL;
	pthread_mutex_lock(&sv_proc->grouping);
	ret = how(qp, gid->raw);
	pthread_mutex_unlock(&sv_proc->grouping);
	return ret;
}

int sv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return change(qp, gid, attach);
}

int sv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return change(qp, gid, detach);
}
