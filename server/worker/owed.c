/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/owed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/worker/server.h"

int owed_new(struct worker *w)
{
	w->owed = calloc(STORE_COMMITS_MAX, sizeof *w->owed);
	if (!w->owed)
		return ENOMEM;
	for (unsigned i = STORE_COMMITS_MAX; i-- > 0;)
		owed_release(w, &w->owed[i]);
	return 0;
}

void owed_delete(struct worker *w)
{
	free(w->owed);
}

struct owed *owed_add(struct worker *w, struct conn *c, const struct wire_request *q,
		      const uint8_t *key, uint64_t begun_ns)
{
	struct owed *o = w->owed_free; /* there is one: the store has no more commits than that */

	w->owed_free = o->next;
	o->conn = c;
	o->flush = NULL;
	o->request = *q;
	o->begun_ns = begun_ns;
	if (begun_ns)
		memcpy(o->key, key, q->key_bytes < sizeof o->key ? q->key_bytes : sizeof o->key);
	c->commits++;
	w->store.commit->caller = o;
	return o;
}

void owed_release(struct worker *w, struct owed *o)
{
	o->next = w->owed_free;
	w->owed_free = o;
}
