/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/store.h"

#include <stdlib.h>

#include "server/store/item/expiry.h"
#include "server/store/reclaim/clear.h"
#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/evict.h"
#include "server/store/reclaim/expire.h"
#include "server/table/heap.h"
#include "server/table/index.h"

int store_new(struct table *table, struct store **store, struct err *err)
{
	struct store *s = calloc(1, sizeof *s);

	if (!s)
		return err_set(err, -1, "out of memory");
	s->table = table;
	s->wipes = region_wipes(table->region);
	store_clock_start(s);
	int rc = expiry_new(&s->expiry);
	if (!rc)
		rc = expire_new(&s->expire);
	if (!rc)
		rc = clear_new(&s->clear);
	if (!rc)
		rc = compact_new(&s->compact);
	if (!rc)
		rc = pins_new(table->bytes - table->heap_offset, &s->pins);
	if (!rc)
		rc = index_new(table, &s->index);
	if (rc) {
		store_delete(&s);
		return err_set_errno(err, -1, rc, "can't make the index");
	}
	*store = s;
	return 0;
}

void store_delete(struct store **store)
{
	struct store *s = *store;

	if (!s)
		return;
	index_delete(&s->index);
	evict_delete(s);
	pins_delete(&s->pins);
	compact_delete(&s->compact);
	clear_delete(&s->clear);
	expire_delete(&s->expire);
	expiry_delete(&s->expiry);
	free(s);
	*store = NULL;
}

int store_worker_init(struct store_worker *w, struct store *store, unsigned id)
{
	*w = (struct store_worker){ .store = store, .id = id,
				    .scratch = &store->table->scratch[id] };
	return heap_new(store->table->region, store->table->slabs, &w->heap);
}

void store_worker_fini(struct store_worker *w)
{
	evict_leave(w);
	heap_delete(&w->heap);
}

bool store_fits(const struct store *s, uint64_t item_bytes)
{
	return item_bytes <= s->table->bytes - s->table->heap_offset;
}
