/* SPDX-License-Identifier: BSD-2-Clause */
/* The READs of an item, and what follows from what they bring. */
#include <string.h>

#include "client/get/get.h"

#define TORN_MAX 8u
#define TORN_HINT_MAX 1u /* where only the mirror says that there is an item */
#define ITEM_BYTES_MAX (layout_len_decode(layout_len_encode(layout_item_bytes( \
	LAYOUT_KEY_BYTES_MAX, LAYOUT_VALUE_BYTES_MAX))))

/* Posts the next READs of an item whose value goes to the caller's memory, as far as
 * the send queue has room. */
void item_read_more(struct op *op)
{
	struct kvd_session *s = op->session;
	const struct wire_welcome *w = &s->table.welcome;
	uint64_t base = w->table_addr + offset_of(op, op->word);
	uint64_t max = client_of(op)->limits.message_bytes_max;

	while (op->posted < op->length && flight_room(s) > s->sq_depth / 2) {
		uint64_t left = op->length - op->posted;
		op->posted += op_read_item(op, base + op->posted, w->table_rkey, op->posted,
					   head_bytes(op), (uint32_t)(left < max ? left : max));
	}
}

/* What surely has no room is READ without its value. */
static void read_direct(struct op *op)
{
	unsigned code = layout_word_len_code(op->word);
	uint64_t room = op->length - head_bytes(op);

	op->direct = true;
	if (head_bytes(op) + op->value.bytes <= layout_len_decode(code - 1))
		op->length = head_bytes(op);
	else if (op->value.bytes < room)
		op->length = head_bytes(op) + op->value.bytes;
	op->posted = 0;
	item_read_more(op);
}

/* A long item: its value straight into the caller's memory. */
static void read_long(struct op *op)
{
	struct kvd_session *s = op->session;
	uint64_t room = op->length - head_bytes(op);

	if (op->allocate && op->value.bytes < room) {
		get_drop_allocated(op);
		if (!get_allocate(op, room))
			return;
	}
	int rc = pieces_register(&op->value, &s->registrar, IBV_ACCESS_LOCAL_WRITE);
	if (rc) {
		op_done(op, err_set_errno(&s->err, KVD_EDEVICE, rc,
					  "can't register a buffer of %zu bytes: the locked-memory limit "
					  "may be too low (see 'ulimit -l')", op->value.bytes));
		return;
	}
	read_direct(op);
}

void item_read(struct op *op, uint64_t word, enum phase phase)
{
	uint64_t offset = offset_of(op, word), table = op->session->table.welcome.table_bytes;

	op->word = word;
	op->phase = phase;
	op->direct = false;
	op->length = layout_len_decode(layout_word_len_code(word));
	if (offset >= table || op->length < sizeof(struct layout_item) ||
	    op->length > ITEM_BYTES_MAX) {
		get_start_over(op);
		return;
	}
	if (op->length > table - offset)
		op->length = table - offset;
	if (op->length > OP_ITEM_BYTES) {
		read_long(op);
	} else if (op->length >= SCATTER_BYTES_MIN && !op->allocate &&
		   op->value.bytes >= op->length - head_bytes(op) &&
		   pieces_find(&op->value, op->session->registrar.buffers)) {
		read_direct(op);
	} else {
		op->posted = op->length;
		read_table(op, offset, op->memory->item, (uint32_t)op->length, true);
	}
}

void item_read_again(struct op *op)
{
	op->session->counters.retries++;
	if (++op->torn > (op->from_mirror ? TORN_HINT_MAX : TORN_MAX))
		get_start_over(op);
	else
		item_read(op, op->word, op->phase == PHASE_COPY ? PHASE_COPY : PHASE_ITEM);
}

/* A live item: the key's value, unless its time is over (protocols.md, 14). */
void item_got_live(struct op *op, const struct layout_item *item)
{
	/* Of a copy kvd has looked already. */
	bool ends = item->expiry_ms && op->phase != PHASE_COPY;
	enum clock_verdict v = ends ? clock_judge(&op->session->table.clock, item->expiry_ms, op->begun_ns,
						  clock_ns())
				    : CLOCK_LIVE;

	if (v == CLOCK_LIVE)
		get_deliver(op, item, verify_value(op, item));
	else if (v == CLOCK_EXPIRED)
		get_not_found(op);
	else
		get_ask_server(op);
}

/* It is believed if another READ finds the same head: same version, live or deleted. */
void item_got_cut(struct op *op, const struct layout_item *item)
{
	const uint64_t head[4] = { item->state & ~LAYOUT_PENDING, item->checksum, item->lengths,
				   item->expiry_ms };

	if (memcmp(head, op->cut, sizeof head)) {
		memcpy(op->cut, head, sizeof head);
		item_read_again(op);
		return;
	}
	if (layout_state_kind(item->state) != LAYOUT_DELETED)
		item_got_live(op, item);
	else if (op->from_mirror)
		get_start_over(op);
	else
		get_not_found(op);
}

/*
 * A whole item of another key, of this version, where the entry led.  The entry was
 * that key's if the item was there before the entry was READ, and still is: or else
 * the memory may have been used again in between, and the entry have been ours.
 */
void item_got_other(struct op *op, const struct layout_item *item, uint64_t version)
{
	uint64_t entry = lookup_entry(op->word);
	unsigned i = 0;

	if (op->from_mirror || op->tried_count == TRIED_MAX || !verify_is_collision(op, item)) {
		get_start_over(op);
		return;
	}
	while (i < op->other_count && op->other[i].entry != entry)
		i++;
	if (i == TRIED_MAX)
		i = entry % TRIED_MAX;
	else if (i == op->other_count)
		op->other[op->other_count++].entry = 0;
	if (op->other[i].entry != entry || op->other[i].version != version)
		op->doubt = true;
	op->other[i].entry = entry;
	op->other[i].version = version;
	op->tried[op->tried_count++] = entry;
	lookup_search(op);
}

/* The header of another key's item, perhaps: its value is not at hand. */
void item_got_untold(struct op *op)
{
	if (op->from_mirror || op->tried_count == TRIED_MAX) {
		get_start_over(op);
		return;
	}
	op->untold = true;
	op->tried[op->tried_count++] = lookup_entry(op->word);
	lookup_search(op);
}

void item_got(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	enum verdict v = verify_item(op, item, op->length, offset_of(op, op->word));
	bool cut = v == ITEM_TORN && verify_is_cut(op, item);

	if (cut)
		v = verify_cut_kind(layout_state_kind(item->state));
	if ((v == ITEM_PREPARED || v == ITEM_NEW) && op->accept_prepared &&
	    layout_state_version(item->state) == op->held_version)
		v = cut ? ITEM_TORN : ITEM_LIVE;
	if (v == ITEM_COPY && op->phase == PHASE_COPY)
		v = cut ? ITEM_TORN : ITEM_LIVE;
	/* The holder of the lock waits until what was under way is through (4). */
	if (op->locked && op->phase != PHASE_COPY &&
	    (v == ITEM_UPDATING || v == ITEM_PREPARED || v == ITEM_INSERTING || v == ITEM_OLD ||
	     v == ITEM_NEW || (v == ITEM_LIVE && (item->state & LAYOUT_PENDING))))
		v = ITEM_TORN;
	switch (v) {
	case ITEM_LIVE:
		item_got_live(op, item);
		return;
	case ITEM_UNTOLD:
		item_got_untold(op);
		return;
	case ITEM_OTHER:
		item_got_other(op, item, layout_state_version(item->state));
		return;
	case ITEM_TORN:
		if (cut)
			item_got_cut(op, item);
		else
			item_read_again(op);
		return;
	case ITEM_DEAD:
	case ITEM_COPY:
		get_start_over(op);
		return;
	case ITEM_INSERTING:
		get_not_found(op);
		return;
	case ITEM_DELETED:
		if (op->from_mirror)
			get_start_over(op);
		else
			get_not_found(op);
		return;
	case ITEM_UPDATING:
		scratch_read_old(op);
		return;
	case ITEM_PREPARED:
		scratch_read_prepared(op);
		return;
	case ITEM_OLD:
	case ITEM_NEW:
		scratch_read_txn(op);
		return;
	}
}
