/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Happy path: the old item is looked up under the mark of its stripe, as for any change, and
 * pinned.  The new item is made, or for a new header only hashed, in steps without a mark.
 * Then store_put() puts it into the old one's place if that is still the key's.
 *
 * Failure: the key has another item by then.  It is begun again, some times.  So a change of a
 * long value ends, and never holds up another.
 */
#include "server/store/rewrite.h"

#include <string.h>

#include "server/store/item/item.h"
#include "server/store/put.h"
#include "server/store/reclaim/room.h"

void rewrite_init(struct rewrite *x, enum wire_op op, const struct store_change *c)
{
	x->change = *c;
	x->change.compute = &x->compute;
	x->compute.op = op;
	x->made = (struct rewritten){ 0 };
	x->pin = (struct pin){ 0 };
	x->tries = 0;
	x->begun = false;
}

void rewrite_drop(struct store_worker *w, struct rewrite *x)
{
	store_item_unpin(w, &x->pin);
	if (x->made.item)
		store_item_delete(w, x->made.item);
	x->made.item = NULL;
	x->begun = false;
}

/* Another change was faster. */
static int again(struct store_worker *w, struct rewrite *x)
{
	rewrite_drop(w, x);
	return ++x->tries < REWRITE_TRIES_MAX ? STORE_LONG : WIRE_EBUSY;
}

/* Keeps what is needed of the old item: a short one may be overwritten, so it is copied. */
static bool keep_old(struct store_worker *w, struct rewrite *x, struct layout_item *old)
{
	if (item_bytes(old) >= PIN_ITEM_BYTES_MIN) {
		memcpy(x->compute.buf, old, sizeof *old + x->change.key_bytes);
		return pin_take(w->store->pins, &x->pin, old, PIN_WRITER);
	}
	memcpy(x->compute.buf, old, item_bytes(old));
	x->made.version = layout_state_version(old->state);
	return true;
}

/* Under the mark. */
static int plan(struct store_worker *w, struct rewrite *x, struct layout_item *old)
{
	bool joins = compute_joins(x->compute.op);

	if (!old && !joins)
		return WIRE_NOT_FOUND;
	x->before = old ? layout_value_bytes(old->lengths) : 0;
	x->all = x->before + (joins ? x->change.value_bytes : 0);
	x->done = 0;
	if (x->all > LAYOUT_VALUE_BYTES_MAX)
		return WIRE_ETOOBIG;
	x->made.with = compute_attributes(&x->change, old);
	x->made.from = old;
	x->made.version = 0;
	return !old || keep_old(w, x, old) ? WIRE_OK : STORE_ASIDE;
}

static int look(struct store_worker *w, struct rewrite *x, struct store_result *r)
{
	struct work k;

	if (!work_enter(w, &x->change, &k))
		return STORE_ASIDE;
	struct layout_item *old = work_unexpired(w->store, &k) ? k.old : NULL;
	int status = WIRE_CONDITION;
	*r = (struct store_result){ .bucket = ~0ull };
	if (change_holds(&x->change, old))
		status = plan(w, x, old);
	else if (old)
		work_tell(w->store, &k, r);
	work_leave_unchanged(w, &k);
	return status;
}

/* The new item, without its value as yet. */
static int make_item(struct store_worker *w, struct rewrite *x)
{
	const struct store_change *c = &x->change;
	int status = WIRE_EMEMORY;
	unsigned tries = 0;

	do
		x->made.item = store_item_new(w, c->key, c->key_bytes, x->all, &x->made.with);
	while (!x->made.item && store_make_room(w, c->hash, tries++, &status));
	return x->made.item ? WIRE_OK : status;
}

static int begin(struct store_worker *w, struct rewrite *x, struct store_result *r)
{
	struct layout_item *head = (struct layout_item *)x->compute.buf;
	int status = look(w, x, r);

	if (status != WIRE_OK)
		return status;
	if (compute_joins(x->compute.op)) {
		status = make_item(w, x);
		head = x->made.item;
	} else {
		head->expiry = layout_expiry(&x->made.with);
	}
	if (status != WIRE_OK) {
		rewrite_drop(w, x);
		return status;
	}
	hash_item_begin(&x->hash, head, x->change.key_bytes);
	x->begun = true;
	return STORE_LONG;
}

/* Where the byte `at` of the new value comes from; *bytes: so many of them, at the most. */
static const uint8_t *source(const struct rewrite *x, uint64_t at, uint64_t *bytes)
{
	const struct layout_item *old = x->made.version ? (const struct layout_item *)x->compute.buf
							: x->made.from;

	uint64_t joined = x->all - x->before, first = x->before;
	const uint8_t *part[2] = { old ? old->data + x->change.key_bytes : NULL, x->change.value };

	if (x->compute.op == WIRE_PREPEND) {
		first = joined;
		part[1] = part[0];
		part[0] = x->change.value;
	}
	if (at >= first)
		return part[1] + (at - first);
	if (*bytes > first - at)
		*bytes = first - at;
	return part[0] + at;
}

static void go_on(struct rewrite *x)
{
	uint64_t end = x->done + REWRITE_STEP_BYTES;

	if (end > x->all)
		end = x->all;
	while (x->done < end) {
		uint64_t bytes = end - x->done;
		const uint8_t *from = source(x, x->done, &bytes);
		if (x->made.item)
			memcpy(x->made.item->data + x->change.key_bytes + x->done, from, bytes);
		hash_add(&x->hash, from, bytes);
		x->done += bytes;
	}
}

/* All bytes are there. */
static int end(struct store_worker *w, struct rewrite *x, struct store_result *r)
{
	struct store_change c = x->change;

	if (x->made.item)
		store_item_hash_stream(x->made.item, &x->hash);
	x->made.hash = hash_bytes_end(&x->hash);
	x->compute.made = &x->made;
	c.compute = &x->compute;
	c.item = x->made.item;
	int status = store_put(w, &c, r);
	if (status == STORE_ASIDE)
		return status;
	if (status == STORE_LONG)
		return again(w, x);
	if (status == WIRE_OK || status == STORE_COMMIT)
		x->made.item = NULL; /* the store's */
	rewrite_drop(w, x);
	return status;
}

int rewrite_step(struct store_worker *w, struct rewrite *x, struct store_result *r)
{
	if (!x->begun)
		return begin(w, x, r);
	if (x->made.from && !x->made.version && pin_is_lost(w->store->pins, &x->pin))
		return again(w, x);
	if (x->done < x->all) {
		go_on(x);
		return STORE_LONG;
	}
	return end(w, x, r);
}
