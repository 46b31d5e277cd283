/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.h -- what all workers of a replica are told, each between two messages.
 *
 * One thread gives orders; each worker obeys all of them in that order.  The first worker that
 * obeys one does what is of all; the others wait for that, and each does its own part.  So
 * nobody does anything by an order that is not yet in force.
 */
#ifndef SERVER_CLUSTER_REPLICA_ORDER_H
#define SERVER_CLUSTER_REPLICA_ORDER_H

#include "server/cluster/replica/options.h"

struct replica;
struct replica_worker;

/* The next order's serial; the thread that gives them. */
uint64_t replica_order_serial(struct replica *replica);
/*
 * The worker.  False: not yet, as something is on its way to the disk.  A REPLICA_RESOLVE is obeyed
 * when nothing is (replica_is_writing()); a REPLICA_EMPTY when replica_empty() says so.  After a
 * REPLICA_EPOCH that makes it no primary the worker's changes come back to its port, each with
 * DURABLE_UNKNOWN: the order is obeyed when the store has none under way.
 */
bool replica_obey(struct replica_worker *worker, const struct replica_order *order);

#endif
