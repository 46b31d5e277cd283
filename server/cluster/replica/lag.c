/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/replica/lag.h"

#include <string.h>

#include "server/cluster/replica/impl.h"

/* What is under way is at most a change for each of the workers' commits: a short list. */
void replica_lag(struct replica *r, uint32_t lag[REPLICA_PEERS_MAX])
{
	const struct records *rs = &r->records;

	memset(lag, 0, REPLICA_PEERS_MAX * sizeof *lag);
	replica_enter(r, NULL);
	for (const struct record *o = rs->open.next;
	     rs->role == RECORDS_PRIMARY && o != &rs->open; o = o->next)
		for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++)
			lag[i] += (o->need & ~o->has) >> i & 1;
	replica_leave(r);
}
