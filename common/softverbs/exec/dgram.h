/* SPDX-License-Identifier: BSD-2-Clause */
/* dgram.h -- datagrams: how they are sent, and taken (dgram_recv.c). */
#ifndef COMMON_SOFTVERBS_EXEC_DGRAM_H
#define COMMON_SOFTVERBS_EXEC_DGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/object/qp.h"

/*
 * Where a datagram for a queue pair's number goes, which *dest is then; it lasts as long as
 * requests wait.  sq_lock held, and given up for a moment where it is a new one: the caller
 * looks at the state again.  0 or an errno value.
 */
int sv_dest_find(struct sv_qp *qp, uint32_t qpn, struct sv_dest **dest);
/* The same for a multicast group, whose members *dest is then: those of now. */
int sv_dest_find_group(struct sv_qp *qp, const uint8_t *gid, struct sv_dest **dest);
/* The queue pair ends, and nobody else has it. */
void sv_dest_forget(struct sv_qp *qp);
/* Moves a SEND on, whose remote_addr is its destination; sq_lock held, until the datagram is shown. */
enum sv_outcome sv_exec_dgram(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status);
/* A SEND has completed: the receiver sees what it left there. */
void sv_dgram_show(struct sv_dest *dest);

/* Takes up to max datagrams; receive CQ's lock held.  Returns how many completions it added. */
int sv_dgram_drain_locked(struct sv_qp *qp, int max, bool *again);
/* A process whose link has ended: chunks that it took and never filled are free again.
 * Control thread. */
void sv_dgram_sender_gone(uint64_t incarnation);

#endif
