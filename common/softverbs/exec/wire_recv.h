/* SPDX-License-Identifier: BSD-2-Clause */
/* wire_recv.h -- messages: how they are taken from a queue pair's ring. */
#ifndef COMMON_SOFTVERBS_EXEC_WIRE_RECV_H
#define COMMON_SOFTVERBS_EXEC_WIRE_RECV_H

#include <stdbool.h>
#include "common/softverbs/object/qp.h"

/* Takes up to max messages from the ring, or datagrams from the pool; receive CQ's lock held. Returns how
 * many completions it added. */
int sv_wire_drain_locked(struct sv_qp *qp, int max, bool *again);

#endif
