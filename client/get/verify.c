/* SPDX-License-Identifier: BSD-2-Clause */
/* What a READ brought: is it an item, and what does it say? */
#include <string.h>

#include "client/get/get.h"

/* The value behind the item's key; NULL: it went into the caller's memory. */
const uint8_t *verify_value(const struct op *op, const struct layout_item *item)
{
	return op->direct ? NULL : item->data + op->key_bytes;
}

static uint64_t checksum(const struct op *op, const struct layout_item *item, uint64_t version,
			 uint64_t offset)
{
	uint64_t value_bytes = layout_value_bytes(item->lengths);

	if (op->direct)
		return pieces_checksum(&op->value, value_bytes, item, op->key_bytes, version, offset);
	return hash_item(item, layout_item_bytes(layout_key_bytes(item->lengths), value_bytes),
			 version, offset);
}

/* Of a whole item of the key, by its kind; ITEM_TORN if there is no such kind. */
static enum verdict verify_kind(enum layout_kind kind)
{
	switch (kind) {
	case LAYOUT_DEAD:
		return ITEM_DEAD;
	case LAYOUT_LIVE:
		return ITEM_LIVE;
	case LAYOUT_DELETED:
		return ITEM_DELETED;
	case LAYOUT_UPDATING:
		return ITEM_UPDATING;
	case LAYOUT_PREPARED:
		return ITEM_PREPARED;
	case LAYOUT_OLD:
		return ITEM_OLD;
	case LAYOUT_NEW:
		return ITEM_NEW;
	case LAYOUT_INSERTING:
		return ITEM_INSERTING;
	case LAYOUT_COPY:
		return ITEM_COPY;
	}
	return ITEM_TORN;
}

/*
 * `item` is `length` bytes that were READ from `offset` of the table.  Nothing in
 * them is believed before the checksum over all of it is right; but for the
 * kinds that only say "look elsewhere".
 */
enum verdict verify_item(const struct op *op, const struct layout_item *item, uint64_t length,
			   uint64_t offset)
{
	uint64_t state = item->state;
	enum layout_kind kind = layout_state_kind(state);
	unsigned key_bytes = layout_key_bytes(item->lengths);
	uint64_t bytes = layout_item_bytes(key_bytes, layout_value_bytes(item->lengths));

	if (kind == LAYOUT_DEAD)
		return ITEM_DEAD;
	if (kind == LAYOUT_UPDATING)
		return ITEM_UPDATING;
	if (verify_kind(kind) == ITEM_TORN || bytes > length)
		return ITEM_TORN;
	bool mine = key_bytes == op->key_bytes && !memcmp(item->data, op->key, key_bytes);
	if (key_bytes != op->key_bytes && op->direct)
		return ITEM_UNTOLD;
	if (checksum(op, item, layout_state_version(state), offset) != item->checksum)
		return ITEM_TORN;
	if (!mine)
		return ITEM_OTHER;
	return verify_kind(kind);
}

/* The caller's buffer is too short for this long value: there is no checksum of it.
 * One that would fit was taken for longer by a wrong entry: it was not READ. */
bool verify_is_cut(const struct op *op, const struct layout_item *item)
{
	uint64_t value_bytes = layout_value_bytes(item->lengths);
	uint64_t bytes = layout_item_bytes(layout_key_bytes(item->lengths), value_bytes);

	return op->direct && !op->allocate && value_bytes > op->value.bytes && bytes > op->length &&
	       bytes <= layout_len_decode(layout_word_len_code(op->word)) &&
	       layout_key_bytes(item->lengths) == op->key_bytes &&
	       !memcmp(item->data, op->key, op->key_bytes);
}

/* A head without its value only says where to look, or how long the value is. */
enum verdict verify_cut_kind(enum layout_kind kind)
{
	enum verdict v = verify_kind(kind);

	return v == ITEM_LIVE || v == ITEM_DELETED ? ITEM_TORN : v;
}

/*
 * Whether the entry can have been this other key's when it was READ.  If not, the
 * memory was freed and used again since: the entry was ours, perhaps, and our
 * item stands elsewhere now.
 */
bool verify_is_collision(const struct op *op, const struct layout_item *item)
{
	struct hash h = hash_key(op->session->table.welcome.hash_seed, item->data,
				 layout_key_bytes(item->lengths));

	return layout_fp(h.a, op->session->table.unit_mask) == fp_of(op);
}
