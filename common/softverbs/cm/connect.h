/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.h -- connection management: the active side's connection, and what is due. */
#ifndef COMMON_SOFTVERBS_CM_CONNECT_H
#define COMMON_SOFTVERBS_CM_CONNECT_H

#include <stdint.h>
#include "common/softverbs/cm/id.h"

/* One try; the next, if there is to be one, is made by sv_cm_run_timers().  sv_cm.lock held. */
void sv_cm_start_connect(struct sv_id *id);
/* Control thread, without a lock: what is due; returns when the next is. */
uint64_t sv_cm_run_timers(void);

#endif
