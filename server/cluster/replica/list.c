/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/replica/list.h"

#include <stdlib.h>
#include <string.h>

struct replica_record *replica_record_new(unsigned items, size_t bytes)
{
	size_t all = items * sizeof(struct replica_item);
	struct replica_record *o = malloc(sizeof *o + all + bytes);

	if (!o)
		return NULL;
	memset(o, 0, offsetof(struct replica_record, stripes));
	memset(o->items, 0, all);
	return o;
}

void replica_append(struct replica_worker *w, struct replica_record *o)
{
	o->is_listed = true;
	o->number = o->base.number;
	o->to = o->base.need;
	o->next = NULL;
	o->prev = w->last;
	*(w->last ? &w->last->next : &w->first) = o;
	w->last = o;
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++)
		if (!w->peers[i].cursor)
			w->peers[i].cursor = o;
}

void replica_unlist(struct replica_worker *w, struct replica_record *o)
{
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++)
		if (w->peers[i].cursor == o)
			w->peers[i].cursor = o->next;
	*(o->prev ? &o->prev->next : &w->first) = o->next;
	*(o->next ? &o->next->prev : &w->last) = o->prev;
	o->is_listed = false;
}
