/* SPDX-License-Identifier: BSD-2-Clause */
/* mw.h -- memory windows: keys for a part of a region, with rights of their own. */
#ifndef COMMON_SOFTVERBS_OBJECT_MW_H
#define COMMON_SOFTVERBS_OBJECT_MW_H

#include <stdint.h>
#include <infiniband/verbs.h>

/* What a window is to be bound to, as a request of the send queue carries it. */
struct sv_mw_bind {
	struct ibv_mw *mw;
	uint32_t rkey; /* the new one */
	uint32_t lkey; /* of the region */
	uint32_t access;
	uint64_t addr, length; /* 0: to nothing */
};

/* By way of the queue pair qpn, in domain pd.  0, or EINVAL: the domains, the region's rights and
 * bounds, or the window's state forbid it. */
int sv_mw_bind(const struct sv_mw_bind *bind, uint32_t pd, uint32_t qpn);
/* A window of type 2 of this process, bound by way of the queue pair, ends.  0, or EINVAL. */
int sv_mw_invalidate(uint32_t rkey, uint32_t pd, uint32_t qpn);

#endif
