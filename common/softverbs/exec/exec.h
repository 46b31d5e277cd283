/* SPDX-License-Identifier: BSD-2-Clause */
/* exec.h -- the send queue: how its requests are executed. */
#ifndef COMMON_SOFTVERBS_EXEC_EXEC_H
#define COMMON_SOFTVERBS_EXEC_EXEC_H

#include <stdint.h>
#include "common/softverbs/object/cq.h"
#include "common/softverbs/object/qp.h"

/* Executes what can be executed; sq_lock held. */
void sv_progress_locked(struct sv_qp *qp);
/* The same if nobody else is at it. */
void sv_progress(struct sv_qp *qp);
/* Progress of QPs that wait: those of a CQ, those of a peer, or (both NULL) those
 * whose time has come; returns the earliest deadline of the rest. */
uint64_t sv_progress_blocked(struct sv_cq *cq, struct sv_peer *peer);
/* An answer from the peer's control thread: part of the request with this serial. */
void sv_slow_answer(uint32_t index, uint32_t serial, uint32_t status, uint64_t offset,
		    uint64_t result, void *data, uint32_t bytes);

#endif
