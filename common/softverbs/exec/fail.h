/* SPDX-License-Identifier: BSD-2-Clause */
/* fail.h -- queue pairs: their failure. */
#ifndef COMMON_SOFTVERBS_EXEC_FAIL_H
#define COMMON_SOFTVERBS_EXEC_FAIL_H

#include "common/softverbs/object/qp.h"

/* Enters the error state and flushes both queues; sq_lock held. */
void sv_qp_fail_locked(struct sv_qp *qp);
/* After a receive was posted to a QP in error. */
void sv_qp_flush_rq(struct sv_qp *qp);
/* Takes what has arrived, then nothing more; receive CQ's lock held. */
void sv_qp_close_ring_locked(struct sv_qp *qp);

#endif
