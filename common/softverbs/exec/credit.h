/* SPDX-License-Identifier: BSD-2-Clause */
/* credit.h -- receive credits that a peer claimed and will not use; see wire.c. */
#ifndef COMMON_SOFTVERBS_EXEC_CREDIT_H
#define COMMON_SOFTVERBS_EXEC_CREDIT_H

#include <stdint.h>
#include "common/softverbs/object/qp.h"

/* Gives back the credits that its peer claimed and will not use; receive CQ's lock held. */
void sv_qp_reclaim_locked(struct sv_qp *qp);
/* The same of a seat that may have been left: a peer gave up a claim when it saw that. */
void sv_seat_reclaim(uint32_t index);

#endif
