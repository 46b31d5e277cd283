/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/request/owed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/store.h"
#include "server/worker/fate.h"
#include "server/worker/sendq.h"

int owed_init(struct owed_list *l, unsigned count)
{
	l->all = calloc(count, sizeof *l->all);
	if (!l->all)
		return ENOMEM;
	for (unsigned i = count; i-- > 0;)
		owed_release(l, &l->all[i]);
	return 0;
}

void owed_fini(struct owed_list *l)
{
	free(l->all);
}

struct owed *owed_add(struct owed_list *l, struct commit *commit, struct sendq *to,
		      const struct wire_request *q, const uint8_t *key, uint64_t begun_ns)
{
	struct owed *o = l->free;

	l->free = o->next;
	o->to = to;
	o->flush = NULL;
	o->request = *q;
	o->begun_ns = begun_ns;
	if (begun_ns)
		memcpy(o->key, key, q->key_bytes < sizeof o->key ? q->key_bytes : sizeof o->key);
	to->commits++;
	commit->caller = o;
	commit->op.fate.connection = to->connection_id;
	commit->op.fate.secret = fate_secret(to->fate);
	commit->op.fate.kept = fate_kept(to->fate);
	commit->op.fate.request = q->request_id;
	return o;
}

void owed_release(struct owed_list *l, struct owed *o)
{
	o->next = l->free;
	l->free = o;
}
