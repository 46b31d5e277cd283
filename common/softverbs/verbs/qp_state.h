/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_state.h -- queue pairs: how they leave their peer. */
#ifndef COMMON_SOFTVERBS_VERBS_QP_STATE_H
#define COMMON_SOFTVERBS_VERBS_QP_STATE_H

#include "common/softverbs/object/qp.h"

/* Leaves the peer, which is the caller's to put; sq_lock held. */
struct sv_peer *sv_qp_detach(struct sv_qp *qp);

#endif
