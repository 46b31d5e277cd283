/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An item that a change or a transaction is about to replace: what the worker's scratch
 * says of it, and the item that counts until then.
 */
#include "client/get/pending.h"

#include <stddef.h>

#include "client/get/item.h"
#include "client/get/verify.h"

/* The old item of one that is being overwritten.  Of a long one only the header is: the
 * value is what was READ already. */
static void plan_updating(struct get *g, uint64_t scratch)
{
	bool whole = layout_len_decode(layout_word_len_code(g->word)) <= LAYOUT_INPLACE_BYTES_MAX;

	if (whole)
		g->direct = false;
	g->summed = false; /* it was with another head */
	get_add_read(g, scratch + offsetof(struct layout_scratch, item), g->memory->item,
		     whole ? (uint32_t)g->length : get_head_bytes(g));
}

bool pending_plan(struct get *g, enum step step)
{
	const struct wire_welcome *w = &g->table->welcome;
	unsigned worker = layout_state_worker(get_item(g)->state);
	uint64_t scratch = w->scratch_offset + worker * sizeof(struct layout_scratch);

	if (worker >= w->workers)
		return false;
	g->held_version = layout_state_version(get_item(g)->state);
	if (step == READ_UPDATING)
		plan_updating(g, scratch);
	else if (step == READ_PREPARED)
		get_add_read(g, scratch, g->memory->small, sizeof g->memory->small);
	else
		get_add_read(g, scratch, g->memory->scratch, sizeof g->memory->scratch);
	return true;
}

/* The old item, whole, of just the version that was being overwritten: current
 * when the item was seen UPDATING. */
enum step pending_got_updating(struct get *g)
{
	const struct layout_item *item = get_item(g);
	enum verdict v = verify_item(g);

	if (layout_state_version(item->state) != g->held_version)
		return item_again(g);
	if (v == ITEM_LIVE)
		return item_got_live(g);
	if (v == ITEM_OTHER)
		return item_got_other(g, g->held_version);
	if (v == ITEM_UNTOLD)
		return item_got_untold(g);
	if (verify_is_cut(g) && layout_state_kind(item->state) == LAYOUT_LIVE)
		return item_got_cut(g);
	return item_again(g);
}

enum step pending_got_prepared(struct get *g)
{
	const uint64_t *scratch = g->memory->small;

	if (scratch[0] != g->held_version)
		return item_again(g); /* that change is through */
	g->held_word = g->word;
	g->word = scratch[1];
	return READ_OLD;
}

/* While the old item is live it is the value; when it is not, the prepared one is. */
enum step pending_got_old(struct get *g)
{
	const struct layout_item *item = get_item(g);
	bool same = layout_state_version(item->state) == g->memory->small[2];

	if (same && verify_item(g) == ITEM_LIVE)
		return item_got_live(g);
	if (same && layout_state_kind(item->state) == LAYOUT_LIVE)
		return item_again(g); /* live, but torn, or longer than the caller's buffer */
	g->accept_prepared = true;
	g->counters->retries++;
	g->word = g->held_word;
	return READ_ITEM;
}

/* What the scratch says of the item's transaction, or NULL: it is over. */
static const struct layout_txn *find_txn(const struct get *g)
{
	const struct layout_item *item = get_item(g);
	const struct layout_txn *e =
		(const struct layout_txn *)((const uint8_t *)g->memory->scratch +
					    offsetof(struct layout_scratch, txn));
	uint64_t mask = g->table->unit_mask, unit = layout_word_unit(g->word, mask);
	uint64_t version = layout_state_version(item->state);
	bool new = layout_state_kind(item->state) == LAYOUT_NEW;

	for (unsigned i = 0; i < LAYOUT_TXN_KEYS_MAX; i++, e++) {
		bool mine = new ? e->new_unit == unit && e->version == version
				: layout_word_unit(e->old_word, mask) == unit &&
					    e->old_version == version;
		if (mine && e->seal == hash_txn(e))
			return e;
	}
	return NULL;
}

/* The transaction has taken effect, and is not over. */
static enum step committed(struct get *g, const struct layout_txn *e, bool new)
{
	if (new) {
		/* Still there, of the same version: it was not taken back. */
		g->accept_prepared = true;
		return READ_ITEM;
	}
	/* Replaced; or deleted, when the item was READ or a moment later. */
	return e->new_unit ? START_OVER : ABSENT;
}

/* It has not. */
static enum step uncommitted(struct get *g, const struct layout_txn *e, bool new)
{
	if (!new)
		return item_got_live(g);
	if (!e->old_word)
		return ABSENT;
	g->held_version = e->old_version;
	g->word = e->old_word;
	return READ_TXN_OLD;
}

/* `committed` only grows, so what was sampled of it was true at that instant. */
enum step pending_got_txn(struct get *g)
{
	const struct layout_txn *e = find_txn(g);
	bool new = layout_state_kind(get_item(g)->state) == LAYOUT_NEW;
	uint64_t last = g->memory->scratch[offsetof(struct layout_scratch, committed) / 8];

	if (!e)
		return item_again(g);
	if (last > e->commit)
		return START_OVER; /* that transaction is over */
	return last == e->commit ? committed(g, e, new) : uncommitted(g, e, new);
}

enum step pending_got_txn_old(struct get *g)
{
	enum verdict v = verify_item(g);

	if ((v == ITEM_LIVE || v == ITEM_OLD) &&
	    layout_state_version(get_item(g)->state) == g->held_version)
		return item_got_live(g);
	return START_OVER;
}
