/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pin.h -- items that somebody reads where they stand, without the mark of their stripe.
 *
 * A long item (PIN_ITEM_BYTES_MIN) is never overwritten: a change puts another into its
 * place, or gives it a new header.  So who reads it needs no copy, but only that its memory
 * is not used again meanwhile.  A pinned item that its key has no more stays as it is, dead,
 * until its last pin is gone.
 *
 *   PIN_READER  a peer READs it.  Dead items that only readers pin have a sixteenth of the
 *               table together; over that a pin ends, and its memory is free.  The reader
 *               finds out: version and checksum are not the ones that it was told.
 *   PIN_WRITER  a worker makes a new value of it.  It never ends by itself; one an item.
 *
 * Any worker at any time; a mutex (doc/threads.md), which no delete of a short item takes.
 */
#ifndef SERVER_STORE_ITEM_PIN_H
#define SERVER_STORE_ITEM_PIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"

#define PIN_ITEM_BYTES_MIN (LAYOUT_INPLACE_BYTES_MAX + 1u)
#define PIN_DEAD_PART 16u /* of the heap */

enum pin_kind { PIN_READER, PIN_WRITER };

struct pins;

/* Its owner's memory; zeros: it pins nothing. */
struct pin {
	struct layout_item *item;
	struct pin *next;
	enum pin_kind kind;
	bool dead; /* the key has it no more */
};

/* 0 or an errno value. */
int pins_new(uint64_t heap_bytes, struct pins **pins);
void pins_delete(struct pins **pins);
/* Of dead items. */
uint64_t pins_dead_bytes(const struct pins *pins);

/*
 * Pins an item of at least PIN_ITEM_BYTES_MIN.  Caller: has its stripe marked, and it is its
 * key's.  False: another PIN_WRITER has it; or its memory is too short, and nothing is pinned.
 */
bool pin_take(struct pins *pins, struct pin *pin, struct layout_item *item, enum pin_kind kind);
/* Ends a pin, if it pins something.  An item that is the caller's to be freed, or NULL. */
struct layout_item *pin_end(struct pins *pins, struct pin *pin);
/* Whether its key has another item now, or it ended. */
bool pin_is_lost(struct pins *pins, const struct pin *pin);
/* Whether somebody pins it.  Caller: has its stripe marked. */
bool pin_has(struct pins *pins, const struct layout_item *item);
/* The key has the item no more: true if its memory has to stay.  It is freed later then. */
bool pin_keeps(struct pins *pins, const struct layout_item *item, uint64_t bytes);

#endif
