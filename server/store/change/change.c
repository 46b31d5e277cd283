/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/dma.h"
#include "server/store/change/change.h"

#include <stdatomic.h>

#include "server/store/item/item.h"
#include "server/store/item/stripe.h"
#include "server/table/index.h"

/*
 * Free, or held with exactly the change's token (6): a change under a lock that was
 * lost must not take effect, not even if the word is free.
 */
static bool is_permitted(struct store_worker *w, const struct store_change *c)
{
	uint64_t stripe = layout_stripe(c->hash.b, w->store->table->stripes);

	if (c->is_decided || stripe_word(w->store, stripe) == c->token)
		return true;
	w->blocked = stripe;
	return false;
}

void work_lock(struct store_worker *w, struct work *k)
{
	const struct layout_item *old = k->old;

	index_lock(w->store->index, k->spot.hash, &k->spot);
	if (old)
		index_find_again(w->store->index, &k->spot, old->data,
				 layout_key_bytes(old->lengths), &k->entry);
}

void work_leave(struct store_worker *w, struct work *k)
{
	index_unlock(w->store->index, &k->spot);
	stripe_unmark(w->store, k->stripe);
}

/* It looks at the lock word before the mark and after it (3). */
bool work_enter(struct store_worker *w, const struct store_change *c, struct work *k)
{
	struct store *s = w->store;

	if (!is_permitted(w, c) || (!c->is_decided && commits_are_full(w)))
		return false;
	k->stripe = layout_stripe(c->hash.b, s->table->stripes);
	if (!stripe_mark(s, k->stripe))
		return false;
	index_lock(s->index, c->hash, &k->spot);
	k->old = NULL;
	k->is_promised = false;
	if (index_find(s->index, &k->spot, c->key, c->key_bytes, &k->entry))
		k->old = item_at(s, k->entry.word);
	/* The mark shows in the item, where a lock holder's one READ sees it (4). */
	if (k->old)
		state_store(k->old, k->old->state | LAYOUT_PENDING);
	dma_fence();
	if (is_permitted(w, c))
		return true;
	if (k->old)
		state_store(k->old, k->old->state & ~LAYOUT_PENDING);
	work_leave(w, k);
	return false;
}

void work_leave_unchanged(struct store_worker *w, struct work *k)
{
	if (k->old)
		state_store(k->old, k->old->state & ~LAYOUT_PENDING);
	work_leave(w, k);
}

bool change_holds(const struct store_change *c, const struct layout_item *old)
{
	if ((c->flags & WIRE_IF_ABSENT) && old)
		return false;
	if ((c->flags & WIRE_IF_PRESENT) && !old)
		return false;
	if (c->flags & WIRE_IF_VERSION)
		return old && (layout_state_version(old->state) == c->version ||
			       change_is_late(c, old));
	return true;
}

void work_tell(const struct store *s, const struct work *k, struct store_result *r)
{
	const struct layout_item *item = item_at(s, k->entry.word);

	r->version = layout_state_version(item->state);
	r->value_bytes = layout_value_bytes(item->lengths);
	r->bucket = k->entry.bucket;
	r->slot = k->entry.slot;
	r->word = k->entry.word;
}
