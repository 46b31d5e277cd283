/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.h -- messages: how they are sent. */
#ifndef COMMON_SOFTVERBS_EXEC_WIRE_H
#define COMMON_SOFTVERBS_EXEC_WIRE_H

#include <stdint.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/object/qp.h"

/*
 * What ThreadSanitizer can't see: a message that was gathered from the program's memory
 * by one thread is answered by the peer, and the thread that takes the answer uses that
 * memory again, with nothing but the peer's process between the two.  On a network card
 * that order holds: a message has left the memory before the peer has it.  Here: the
 * tail is moved (release) behind the gathering, the peer reads it (acquire), and what it
 * sends after that is taken behind its own release and our acquire of `rw->tail`.  Both
 * are on one queue pair, so that is what is annotated.  A program that takes a message
 * that is no answer for one would not be found out: that much is given up.
 */
#ifdef SV_TSAN
#include <sanitizer/tsan_interface.h>
#define SV_SENT_TO_PEER(qp) __tsan_release(&(qp)->tx)
#define SV_CAME_FROM_PEER(qp) __tsan_acquire(&(qp)->tx)
#else
#define SV_SENT_TO_PEER(qp) ((void)(qp))
#define SV_CAME_FROM_PEER(qp) ((void)(qp))
#endif

/* All with sq_lock held.  After messages: who sleeps is woken (qp->to_wake). */
void sv_wake_receiver(struct sv_qp *qp);
/* Whoever sleeps for the receive CQ of a peer's queue pair.  Any lock. */
void sv_wake_peer(struct sv_peer *peer, uint32_t index, bool solicited);
/* Moves a SEND, or the immediate of a WRITE, on.  SV_DONE: *status is its end. */
enum sv_outcome sv_exec_send(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status);
/* The peer's ring is the queue pair's no more. */
void sv_wire_detach(struct sv_qp *qp);

#endif
