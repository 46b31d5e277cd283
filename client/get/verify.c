/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "client/get/verify.h"

const uint8_t *verify_value(const struct get *g)
{
	return g->direct ? NULL : get_item(g)->data + g->key_bytes;
}

static uint64_t checksum(const struct get *g)
{
	const struct layout_item *item = get_item(g);
	uint64_t version = layout_state_version(item->state), offset = get_offset(g, g->word);
	uint64_t value_bytes = layout_value_bytes(item->lengths);

	if (g->direct && g->summed)
		return hash_item_sum(&g->sum.sum, version, offset);
	if (g->direct)
		return pieces_checksum(g->value, value_bytes, item, g->key_bytes, version, offset);
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
	}
	return ITEM_TORN;
}

enum verdict verify_item(const struct get *g)
{
	const struct layout_item *item = get_item(g);
	enum layout_kind kind = layout_state_kind(item->state);
	unsigned key_bytes = layout_key_bytes(item->lengths);
	uint64_t bytes = layout_item_bytes(key_bytes, layout_value_bytes(item->lengths));

	if (kind == LAYOUT_DEAD)
		return ITEM_DEAD;
	if (kind == LAYOUT_UPDATING)
		return ITEM_UPDATING;
	if (verify_kind(kind) == ITEM_TORN || bytes > g->length)
		return ITEM_TORN;
	bool mine = key_bytes == g->key_bytes && !memcmp(item->data, g->key, key_bytes);
	if (key_bytes != g->key_bytes && g->direct)
		return ITEM_UNTOLD;
	if (checksum(g) != item->checksum)
		return ITEM_TORN;
	if (!mine)
		return ITEM_OTHER;
	return verify_kind(kind);
}

enum verdict verify_pinned(const struct get *g)
{
	const struct layout_item *item = get_item(g);
	unsigned key_bytes = layout_key_bytes(item->lengths);
	uint64_t bytes = layout_item_bytes(key_bytes, layout_value_bytes(item->lengths));

	/* A new header is written over the old one, with a new version. */
	if (layout_state_version(item->state) != g->held_version &&
	    layout_state_kind(item->state) != LAYOUT_LIVE)
		return layout_state_kind(item->state) == LAYOUT_UPDATING ? ITEM_TORN : ITEM_DEAD;
	if (key_bytes != g->key_bytes || memcmp(item->data, g->key, key_bytes) ||
	    bytes > g->length || checksum(g) != item->checksum)
		return ITEM_TORN;
	return ITEM_LIVE;
}

/* One that would fit was taken for longer by a wrong entry: it was not READ. */
bool verify_is_cut(const struct get *g)
{
	const struct layout_item *item = get_item(g);
	uint64_t value_bytes = layout_value_bytes(item->lengths);
	uint64_t bytes = layout_item_bytes(layout_key_bytes(item->lengths), value_bytes);

	return g->direct && !g->allocate && value_bytes > g->value->bytes && bytes > g->length &&
	       bytes <= layout_len_decode(layout_word_len_code(g->word)) &&
	       layout_key_bytes(item->lengths) == g->key_bytes &&
	       !memcmp(item->data, g->key, g->key_bytes);
}

enum verdict verify_cut_kind(enum layout_kind kind)
{
	enum verdict v = verify_kind(kind);

	return v == ITEM_LIVE || v == ITEM_DELETED ? ITEM_TORN : v;
}

/*
 * The fingerprint tells.  If it is another, the
 * memory was freed and used again since: the entry was ours, perhaps, and our
 * item stands elsewhere now.
 */
bool verify_is_collision(const struct get *g)
{
	const struct layout_item *item = get_item(g);
	struct hash h =
		hash_key(g->table->welcome.hash_seed, item->data, layout_key_bytes(item->lengths));

	return layout_fp(h.a, g->table->unit_mask) == get_fp(g);
}
