/* SPDX-License-Identifier: BSD-2-Clause */
/* verify.h -- what a READ brought: is it an item, and what does it say? */
#ifndef CLIENT_GET_VERIFY_H
#define CLIENT_GET_VERIFY_H

#include "client/get/state.h"

enum verdict {
	ITEM_LIVE,
	ITEM_OTHER,  /* a whole item, of another key */
	ITEM_UNTOLD, /* perhaps one of another key: it was READ as if it were ours */
	ITEM_TORN,   /* or not an item at all */
	ITEM_DEAD,
	ITEM_DELETED,
	ITEM_UPDATING,
	ITEM_PREPARED,
	ITEM_INSERTING,
	ITEM_OLD, /* of a transaction under way: the scratch decides */
	ITEM_NEW,
};

/*
 * Of the g->length bytes that were READ from where g->word says.  Nothing in them is
 * believed before the checksum over all of it is right; but for the kinds that only say
 * "look elsewhere".
 */
enum verdict verify_item(const struct get *g);
/*
 * Of the item that kvd pinned at g->held_version: that one, or what the key has there now.
 * ITEM_LIVE, ITEM_TORN, or ITEM_DEAD: it is not there any more.  Of its kind only LAYOUT_LIVE
 * is looked at: it was the key's when kvd answered, and may have been replaced since.
 */
enum verdict verify_pinned(const struct get *g);
/* The value behind the item's key; NULL: it went into the caller's memory. */
const uint8_t *verify_value(const struct get *g);
/* The caller's buffer is too short for this long value: there is no checksum of it. */
bool verify_is_cut(const struct get *g);
/* A head without its value only says where to look, or how long the value is. */
enum verdict verify_cut_kind(enum layout_kind kind);
/* Whether the entry can have been this other key's when it was READ. */
bool verify_is_collision(const struct get *g);

#endif
