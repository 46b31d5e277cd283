/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ah.c -- address handles.
 *
 * All GIDs are those of this host, and the process is in the number of the queue pair.  So a
 * handle finds nothing; it has what the receiver is told, and is checked as a NIC's driver
 * would.  A group's address is the exception: with it, queue pair 0xffffff is the group's members.
 * One without a GRH goes by the port's LID, which is 0: to this host (qperf does so).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/base/device.h"
#include "common/softverbs/object/ah.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/softverbs.h"

struct ibv_ah *sv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct sv_ah *ah;

	if (attr->port_num != 1 || (attr->is_global && attr->grh.sgid_index >= SV_GIDS) ||
	    (!attr->is_global && attr->dlid)) {
		errno = EINVAL;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->ib.context = pd->context;
	ah->ib.pd = pd;
	ah->attr = *attr;
	if (!attr->is_global)
		sv_query_gid(pd->context, 1, 0, &ah->attr.grh.dgid);
	atomic_fetch_add(&sv_pd_of(pd)->users, 1);
	return &ah->ib;
}

int sv_destroy_ah(struct ibv_ah *ibah)
{
	atomic_fetch_sub(&sv_pd_of(ibah->pd)->users, 1);
	free(sv_ah_of(ibah));
	return 0;
}

int sv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
		       struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	union ibv_gid own;

	if (port != 1 || !(wc->wc_flags & IBV_WC_GRH))
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->is_global = 1;
	attr->port_num = port;
	attr->sl = wc->sl;
	attr->grh.dgid = grh->sgid;
	attr->grh.hop_limit = 0xff;
	for (int i = 0; i < (int)SV_GIDS; i++) {
		if (!sv_query_gid(context, port, i, &own) && !memcmp(&own, &grh->dgid, sizeof(own)))
			attr->grh.sgid_index = (uint8_t)i;
	}
	return 0;
}

struct ibv_ah *sv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				    uint8_t port)
{
	struct ibv_ah_attr attr;
	int ret = sv_init_ah_from_wc(pd->context, port, wc, grh, &attr);

	if (!ret)
		return sv_create_ah(pd, &attr);
	errno = ret;
	return NULL;
}
