/* SPDX-License-Identifier: BSD-2-Clause */
/* sync.h -- connection management: synchronous mode. */
#ifndef COMMON_SOFTVERBS_CM_SYNC_H
#define COMMON_SOFTVERBS_CM_SYNC_H

#include <rdma/rdma_cma.h>

/* In synchronous mode: waits for the event of an operation, which the id then has.  0, or
 * -1 and errno.  No lock held. */
int sv_cm_complete(struct rdma_cm_id *id);

#endif
