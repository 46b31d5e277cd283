/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrc.h -- XRC: domains, shared receive queues that are found by number, and their queue pairs.
 *
 * ibv_open_xrcd() and the like find these through the context.
 */
#ifndef COMMON_SOFTVERBS_VERBS_XRC_H
#define COMMON_SOFTVERBS_VERBS_XRC_H

#include <infiniband/verbs.h>

struct ibv_xrcd *sv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int sv_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_srq *sv_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int sv_get_srq_num(struct ibv_srq *srq, uint32_t *number);
/* An XRC_RECV queue pair; NULL and errno. */
struct ibv_qp *sv_xrc_new_target(struct ibv_qp_init_attr_ex *init);
/* Before the device is seen by others. */
void sv_xrc_start(void);

#endif
