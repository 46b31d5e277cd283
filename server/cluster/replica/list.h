/* SPDX-License-Identifier: BSD-2-Clause */
/* list.h -- what a worker has under way, in the order in which it is sent.  The lock is held. */
#ifndef SERVER_CLUSTER_REPLICA_LIST_H
#define SERVER_CLUSTER_REPLICA_LIST_H

#include "server/cluster/replica/impl.h"

/* Of so many items, and as many bytes behind them; zero but for stripes and bytes.  NULL: there
 * is no memory. */
struct replica_record *replica_record_new(unsigned items, size_t bytes);
/* At its end: its number and who awaits it are there. */
void replica_append(struct replica_worker *w, struct replica_record *o);
void replica_unlist(struct replica_worker *w, struct replica_record *o);

#endif
