/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bootstrap.h -- connections whose queue pairs are introduced over TCP.
 *
 * For fabrics whose RDMA interfaces have no IP address, so that rdma_cm has nothing
 * to resolve.  The functions of rdma_cm that the store uses are done here over a TCP
 * connection: it carries queue pair number, GID or LID, packet sequence number, MTU
 * and the private data (struct wire_bootstrap), stays open as long as the connection,
 * and its end is the connection's.  All else is the device's own.  Addresses and
 * rkeys are not among it: those come over the queue pair, after the hello.
 *
 * Nothing blocks but get_cm_event() of a blocking channel; time-outs are the caller's.
 * What a peer sends is bounded and checked: one message of fixed length each way and one
 * word that it is ready.  Peers that have not yet sent theirs are HALF_OPEN_MAX at the
 * most: the eldest makes room.
 *
 * Threads: a channel and its ids belong to one thread at a time, unlike rdma_cm's.
 */
#ifndef COMMON_BOOTSTRAP_BOOTSTRAP_H
#define COMMON_BOOTSTRAP_BOOTSTRAP_H

#include "common/bootstrap/path.h"
#include "common/verbs/verbs.h"

/* `base` with rdma_cm's part done over TCP; static. */
const struct verbs *bootstrap_verbs(const struct verbs *base);

#endif
