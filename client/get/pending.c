/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An item that a change or a transaction is about to replace: what the worker's scratch
 * says of it, and the item that counts until then.
 */
#include <string.h>

#include "client/get/get.h"

static void scratch_read(struct op *op, enum phase phase, void *to, uint32_t bytes,
			 uint64_t from)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	const struct wire_welcome *w = &op->session->table.welcome;
	unsigned worker = layout_state_worker(item->state);

	if (worker >= w->workers) {
		item_read_again(op);
		return;
	}
	op->held_version = layout_state_version(item->state);
	op->phase = phase;
	read_table(op, w->scratch_offset + worker * sizeof(struct layout_scratch) + from, to, bytes,
		   true);
}

/* The old item of one that is being overwritten.  Of a long one only the header
 * is: the value is what was READ already. */
void scratch_read_old(struct op *op)
{
	bool whole = layout_len_decode(layout_word_len_code(op->word)) <= LAYOUT_INPLACE_BYTES_MAX;

	if (whole)
		op->direct = false;
	scratch_read(op, PHASE_UPDATING, op->memory->item,
		     whole ? (uint32_t)op->length : head_bytes(op),
		     offsetof(struct layout_scratch, item));
}

void scratch_read_prepared(struct op *op)
{
	scratch_read(op, PHASE_PREPARED, op->memory->small, sizeof op->memory->small, 0);
}

void scratch_read_txn(struct op *op)
{
	scratch_read(op, PHASE_TXN, op->memory->scratch, sizeof op->memory->scratch, 0);
}

/* The old item, whole, of just the version that was being overwritten: current
 * when the item was seen UPDATING. */
void scratch_got_updating(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	enum verdict v = verify_item(op, item, op->length, offset_of(op, op->word));

	if (layout_state_version(item->state) != op->held_version)
		item_read_again(op);
	else if (v == ITEM_LIVE)
		item_got_live(op, item);
	else if (v == ITEM_OTHER)
		item_got_other(op, item, op->held_version);
	else if (v == ITEM_UNTOLD)
		item_got_untold(op);
	else if (verify_is_cut(op, item) && layout_state_kind(item->state) == LAYOUT_LIVE)
		item_got_cut(op, item);
	else
		item_read_again(op);
}

void scratch_got_prepared(struct op *op)
{
	const uint64_t *scratch = op->memory->small;

	if (scratch[0] != op->held_version) {
		item_read_again(op); /* that change is through */
		return;
	}
	op->held_word = op->word;
	item_read(op, scratch[1], PHASE_OLD);
}

/* While the old item is live it is the value; when it is not, the prepared one is. */
void scratch_got_old(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;

	if (verify_item(op, item, op->length, offset_of(op, op->word)) == ITEM_LIVE &&
	    layout_state_version(item->state) == op->memory->small[2]) {
		item_got_live(op, item);
		return;
	}
	if (layout_state_kind(item->state) == LAYOUT_LIVE &&
	    layout_state_version(item->state) == op->memory->small[2]) {
		item_read_again(op); /* live, but torn, or longer than the caller's buffer */
		return;
	}
	op->accept_prepared = true;
	op->session->counters.retries++;
	item_read(op, op->held_word, PHASE_ITEM);
}

/* What the scratch says of the item's transaction, or NULL: it is over. */
static const struct layout_txn *find_txn(const struct op *op, const struct layout_item *item)
{
	const struct layout_txn *e =
		(const struct layout_txn *)((const uint8_t *)op->memory->scratch +
					    offsetof(struct layout_scratch, txn));
	uint64_t mask = op->session->table.unit_mask, unit = layout_word_unit(op->word, mask);
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

/* `committed` only grows, so what was sampled of it was true at that instant. */
void scratch_got_txn(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	const struct layout_txn *e = find_txn(op, item);
	bool new = layout_state_kind(item->state) == LAYOUT_NEW;

	if (!e) {
		item_read_again(op);
		return;
	}
	uint64_t committed = op->memory->scratch[offsetof(struct layout_scratch, committed) / 8];

	if (committed > e->version) {
		get_start_over(op); /* that transaction is over */
	} else if (committed == e->version && new) {
		/* Still there, of the same version: it was not taken back. */
		op->accept_prepared = true;
		item_read(op, op->word, PHASE_ITEM);
	} else if (committed == e->version && e->new_unit) {
		get_start_over(op);
	} else if (committed == e->version) {
		/* Deleted, when the item was READ or a moment later. */
		get_not_found(op);
	} else if (!new) {
		item_got_live(op, item);
	} else if (!e->old_word) {
		get_not_found(op);
	} else {
		op->held_version = e->old_version;
		item_read(op, e->old_word, PHASE_TXN_OLD);
	}
}

void scratch_got_txn_old(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	enum verdict v = verify_item(op, item, op->length, offset_of(op, op->word));

	if ((v == ITEM_LIVE || v == ITEM_OLD) &&
	    layout_state_version(item->state) == op->held_version)
		item_got_live(op, item);
	else
		get_start_over(op);
}
