/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/put.h"

#include "server/store/change/commit.h"
#include "server/store/change/effect.h"
#include "server/store/change/rmw.h"
#include "server/store/item/item.h"
#include "server/store/reclaim/room.h"
#include "server/table/index.h"

/*
 * Makes the change's value from the old one.  That may take long, so the buckets
 * are let go meanwhile: the mark keeps the item, but an expansion may move its
 * entry.
 */
static int complete(struct store_worker *w, struct store_change *c, struct work *k,
		    const struct layout_item *old)
{
	struct store *s = w->store;

	index_unlock(s->index, &k->spot);
	int status = compute_run(w, c, old);
	work_lock(w, k);
	return status;
}

/* What of the old item a change that brings its own value keeps. */
static void keep(struct store_change *c, const struct layout_item *old)
{
	struct layout_attributes was = item_attributes(old);

	c->with.expiry_ms = was.expiry_ms;
	if (change_is_late(c, old))
		c->with.signs |= LAYOUT_STALE | (was.signs & LAYOUT_CLAIMED);
}

/* The same where the item is made already. */
static void keep_in_item(struct store_worker *w, struct store_change *c, struct work *k)
{
	index_unlock(w->store->index, &k->spot);
	item_set_head(c->item, c->key_bytes, c->value_bytes, &c->with);
	state_store(c->item, 0); /* what was hashed ahead was another head */
	store_item_seal(w, c->item);
	work_lock(w, k);
}

static int put_once(struct store_worker *w, const struct store_change *asked,
		    struct store_result *r)
{
	struct store *s = w->store;
	struct store_change change = *asked, *c = &change;
	struct work k;
	int status = WIRE_OK;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	const struct layout_item *old = work_unexpired(s, &k);
	*r = (struct store_result){ .bucket = ~0ull };
	if (!change_holds(c, old)) {
		if (old)
			work_tell(s, &k, r);
		work_leave_unchanged(w, &k);
		return WIRE_CONDITION;
	}
	if (!k.old && !index_has_place(s->index, &k.spot))
		status = WIRE_ECROWDED;
	else if (c->compute)
		status = complete(w, c, &k, old);
	else if (old && ((c->flags & WIRE_KEEP_TTL) || change_is_late(c, old)))
		keep(c, old);
	if (status == WIRE_OK && c->item && c->item == asked->item && !c->compute &&
	    (c->flags & (WIRE_KEEP_TTL | WIRE_OR_STALE)))
		keep_in_item(w, c, &k);
	if (status == WIRE_OK)
		status = s->waits ? commit_put(w, c, &k)
				    : work_put(w, c, NULL, &k, r);
	if (status == WIRE_OK || status == STORE_COMMIT)
		return status;
	work_leave_unchanged(w, &k);
	if (c->item && c->item != asked->item)
		store_item_delete(w, c->item);
	return status;
}

int store_put(struct store_worker *w, const struct store_change *c, struct store_result *r)
{
	int status;

	for (unsigned tries = 0;; tries++) {
		status = put_once(w, c, r);
		if ((status != WIRE_EMEMORY && status != WIRE_ECROWDED) ||
		    !store_make_room(w, c->hash, tries, &status))
			return status;
	}
}
