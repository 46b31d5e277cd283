/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_state.h -- queue pairs: how they leave their peer. */
#ifndef COMMON_SOFTVERBS_VERBS_QP_STATE_H
#define COMMON_SOFTVERBS_VERBS_QP_STATE_H

#include "common/softverbs/object/qp.h"

/* Of any type that the device has; RC also to a shared receive queue of XRC.  NULL and errno. */
struct ibv_qp *sv_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
/* Leaves the peer, which is the caller's to put; sq_lock held. */
struct sv_peer *sv_qp_detach(struct sv_qp *qp);

#endif
