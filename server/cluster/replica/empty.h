/* SPDX-License-Identifier: BSD-2-Clause */
/* empty.h -- the keys of a table that another one is copied into. */
#ifndef SERVER_CLUSTER_REPLICA_EMPTY_H
#define SERVER_CLUSTER_REPLICA_EMPTY_H

#include <stdbool.h>

struct replica_worker;

/* The worker, after a REPLICA_EMPTY, again and again: some keys go.  Whether the table is empty. */
bool replica_empty(struct replica_worker *worker);

#endif
