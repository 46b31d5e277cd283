/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parked.h -- records that came to a backup and found no memory for their items: kept as they came,
 * in their order, until there is some.
 *
 * A backup finds some in time: what is open frees the items before it when the next heartbeat says
 * that it is visible, and compaction goes on.  While one waits what comes behind it waits too, of
 * other workers as well, or small ones would take what a long one waits for.  The worker that found
 * none first has the turn, until it has found some.
 *
 * Bounded: a primary's worker has STORE_COMMITS_MAX under way, a worker keeps twice that.
 */
#ifndef SERVER_CLUSTER_REPLICA_PARKED_H
#define SERVER_CLUSTER_REPLICA_PARKED_H

#include "server/cluster/replica/impl.h"

struct replica_parked {
	struct replica_parked *next;
	uint64_t epoch, incarnation; /* that it was sent to */
	uint64_t clock_ms;           /* the store's, as it came: its time to live begins there */
	uint64_t since_ns;           /* it has the turn; 0: it has not had it */
	uint32_t bytes;
	uint8_t record[] __attribute__((aligned(8))); /* struct link_record */
};

/* Whether what comes now is to be parked, whatever there is. */
bool replica_must_park(const struct replica_peer *peer);
/* False: there is no memory for that either, or more came than a primary has under way. */
bool replica_park(struct replica_peer *peer, const struct link_record *record, uint64_t epoch);
/* The one that is to be tried; NULL: there is none, or another worker has the turn. */
struct replica_parked *replica_first_parked(struct replica_peer *peer);
/* It found no memory.  Since when it has had the turn; `now_ns`: it has it only now, or has not. */
uint64_t replica_starves(struct replica_peer *peer, uint64_t now_ns);
/* The first one has its memory, or is not wanted. */
void replica_unpark(struct replica_peer *peer);
void replica_drop_parked(struct replica_peer *peer);

#endif
