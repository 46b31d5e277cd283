/* SPDX-License-Identifier: BSD-2-Clause */
/* GETs by message: where READs lead nowhere.  Long values are pinned, not copied. */
#include "server/store/get.h"

#include <string.h>

#include "server/store/item/heat.h"
#include "server/store/item/item.h"
#include "server/store/item/stripe.h"
#include "server/table/index.h"

/*
 * A reader needs the stripe's mark, so that the item stays while it is looked
 * at, but no permission: a locked key is readable.  False: the mark is taken.
 */
static bool enter_reader(struct store_worker *w, const struct store_change *c, struct work *k)
{
	struct store *s = w->store;

	k->stripe = layout_stripe(c->hash.b, s->table->stripes);
	if (!stripe_mark(s, k->stripe))
		return false;
	index_lock(s->index, c->hash, &k->spot);
	k->old = NULL;
	if (index_find(s->index, &k->spot, c->key, c->key_bytes, &k->entry))
		k->old = item_at(s, k->entry.word);
	index_unlock(s->index, &k->spot);
	if (k->old && item_is_expired(s, k->old))
		k->old = NULL;
	return true;
}

static void leave_reader(const struct store_worker *w, const struct work *k)
{
	stripe_unmark(w->store, k->stripe);
}

int store_head(struct store_worker *w, const struct store_change *c, struct store_result *r)
{
	struct work k;

	if (!enter_reader(w, c, &k))
		return STORE_ASIDE;
	if (k.old) {
		work_tell(w->store, &k, r);
		r->with = item_attributes(k.old);
	}
	leave_reader(w, &k);
	return k.old ? WIRE_OK : WIRE_NOT_FOUND;
}

int store_get(struct store_worker *w, const struct store_change *c, void *buf, size_t buf_bytes,
	      struct store_result *r)
{
	struct work k;

	if (!enter_reader(w, c, &k))
		return STORE_ASIDE;
	if (k.old) {
		work_tell(w->store, &k, r);
		r->with = item_attributes(k.old);
		heat_note(w->store->heat, table_offset(w->store->table, k.old));
		if (r->value_bytes <= buf_bytes)
			memcpy(buf, k.old->data + c->key_bytes, r->value_bytes);
	}
	leave_reader(w, &k);
	return k.old ? WIRE_OK : WIRE_NOT_FOUND;
}

int store_pin(struct store_worker *w, const struct store_change *c, struct store_result *r,
	      struct pin *pin)
{
	struct work k;
	int status = WIRE_NOT_FOUND;

	if (!enter_reader(w, c, &k))
		return STORE_ASIDE;
	if (k.old) {
		work_tell(w->store, &k, r);
		status = pin_take(w->store->pins, pin, k.old, PIN_READER) ? WIRE_OK : STORE_ASIDE;
	}
	leave_reader(w, &k);
	return status;
}
