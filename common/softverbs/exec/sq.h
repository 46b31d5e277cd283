/* SPDX-License-Identifier: BSD-2-Clause */
/* sq.h -- the send queue: how its requests end.  sq_lock held for all. */
#ifndef COMMON_SOFTVERBS_EXEC_SQ_H
#define COMMON_SOFTVERBS_EXEC_SQ_H

#include <stdint.h>
#include "common/softverbs/object/qp.h"

/* The first request ends with a status of enum ibv_wc_status: its completion, if it is to
 * have one, is in the send CQ, and the next request may begin. */
void sv_sq_finish(struct sv_qp *qp, uint32_t status);
/* Completes every waiting request as flushed. */
void sv_sq_flush(struct sv_qp *qp);

#endif
