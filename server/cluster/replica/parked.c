/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/replica/parked.h"

#include <stdlib.h>
#include <string.h>

#include "server/store/item/clock.h"

static bool is_anothers_turn(const struct replica_worker *w)
{
	const struct replica_worker *turn = atomic_load(&w->replica->starving);

	return turn && turn != w;
}

static void pass_on(struct replica_worker *w)
{
	struct replica_worker *turn = w;

	atomic_compare_exchange_strong(&w->replica->starving, &turn, NULL);
}

bool replica_must_park(const struct replica_peer *q)
{
	return q->parked || is_anothers_turn(q->worker);
}

bool replica_park(struct replica_peer *q, const struct link_record *record, uint64_t epoch)
{
	struct replica_parked *p;

	if (q->worker->parked == ACKS_MAX)
		return false;
	p = malloc(sizeof *p + record->bytes);
	if (!p)
		return false;
	*p = (struct replica_parked){ .epoch = epoch, .incarnation = q->worker->incarnation,
				      .clock_ms = store_clock_ms(q->worker->store->store),
				      .bytes = record->bytes };
	memcpy(p->record, record, record->bytes);
	*q->parked_end = p;
	q->parked_end = &p->next;
	q->worker->parked++;
	return true;
}

struct replica_parked *replica_first_parked(struct replica_peer *q)
{
	return is_anothers_turn(q->worker) ? NULL : q->parked;
}

uint64_t replica_starves(struct replica_peer *q, uint64_t now_ns)
{
	struct replica_worker *none = NULL;

	if (!atomic_compare_exchange_strong(&q->worker->replica->starving, &none, q->worker) &&
	    none != q->worker)
		return now_ns;
	if (!q->parked->since_ns)
		q->parked->since_ns = now_ns;
	return q->parked->since_ns;
}

void replica_unpark(struct replica_peer *q)
{
	struct replica_parked *p = q->parked;

	q->parked = p->next;
	if (!q->parked)
		q->parked_end = &q->parked;
	q->worker->parked--;
	free(p);
	pass_on(q->worker);
}

void replica_drop_parked(struct replica_peer *q)
{
	while (q->parked)
		replica_unpark(q);
}
