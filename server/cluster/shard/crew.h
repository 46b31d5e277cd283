/* SPDX-License-Identifier: BSD-2-Clause */
/* crew.h -- orders to the workers; what a worker does stands in shard.h. */
#ifndef SERVER_CLUSTER_SHARD_CREW_H
#define SERVER_CLUSTER_SHARD_CREW_H

#include "server/cluster/shard/impl.h"

int crew_new(struct shard *s, unsigned index, struct err *err);
void crew_delete(struct crew *c);
/* To all workers; a number other than 0 comes back by crew_obeyed(). */
void crew_order(struct shard *s, struct replica_order *order, uint64_t number);
/* Each of them makes a round. */
void crew_wake(struct shard *s);
/* Numbers of orders that all have obeyed; 0: no more. */
uint64_t crew_obeyed(struct shard *s);
/* Whether all orders are, as crew_obeyed() told. */
bool crew_is_idle(struct shard *s);

#endif
