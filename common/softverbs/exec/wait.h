/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.h -- requests that can't go on: until when, and for whom.  sq_lock held for all. */
#ifndef COMMON_SOFTVERBS_EXEC_WAIT_H
#define COMMON_SOFTVERBS_EXEC_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include "common/softverbs/object/qp.h"

/* Outcomes of executing a request. */
enum sv_outcome { SV_DONE, SV_WAIT };

/* How often, and how long, a request waits for its peer. */
#define SV_WAIT_PEER_MIN_NS 200000u
#define SV_WAIT_PEER_MAX_NS 20000000u

/* The peer does not answer: waits, or gives up when the budget is spent. */
enum sv_outcome sv_wait_peer(struct sv_qp *qp, uint32_t *status);
/* The same, where the peer's control thread was asked, which may be slow. */
enum sv_outcome sv_wait_answer(struct sv_qp *qp, uint32_t *status);
enum sv_outcome sv_wait(struct sv_qp *qp, enum sv_block why, uint64_t for_ns);
/* Leaves the set of waiting QPs. */
void sv_unblock_locked(struct sv_qp *qp);
/* True if the peer's QP is connected to this one and takes requests. */
bool sv_peer_ready(struct sv_qp *qp);

#endif
