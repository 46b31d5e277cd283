/* SPDX-License-Identifier: BSD-2-Clause */
/* ah.h -- address handles, as datagrams use them. */
#ifndef COMMON_SOFTVERBS_OBJECT_AH_H
#define COMMON_SOFTVERBS_OBJECT_AH_H

#include <infiniband/verbs.h>
#include "common/softverbs/base/compiler.h"

struct sv_ah {
	struct ibv_ah ib;
	struct ibv_ah_attr attr; /* never changes */
};

static inline struct sv_ah *sv_ah_of(struct ibv_ah *ah)
{
	return SV_CONTAINER(ah, struct sv_ah, ib);
}

#endif
