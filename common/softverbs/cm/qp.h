/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h -- connection management: transitions of id->qp that connect and accept make by
 * themselves.  No lock held.  0 or an errno value. */
#ifndef COMMON_SOFTVERBS_CM_QP_H
#define COMMON_SOFTVERBS_CM_QP_H

#include "common/softverbs/cm/id.h"

int sv_cm_qp_to_rts(struct sv_id *id);
int sv_cm_qp_to_error(struct sv_id *id);

#endif
