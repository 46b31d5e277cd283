/* SPDX-License-Identifier: BSD-2-Clause */
/* remote.h -- RDMA READ, WRITE, compare-and-swap and fetch-and-add. */
#ifndef COMMON_SOFTVERBS_EXEC_REMOTE_H
#define COMMON_SOFTVERBS_EXEC_REMOTE_H

#include <stdint.h>
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/object/qp.h"

/* Moves a request on; sq_lock held.  SV_DONE: *status is its end. */
enum sv_outcome sv_exec_rdma(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status);

#endif
