/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/change/rmw.h"

#include <stdio.h>
#include <string.h>

#include "server/store/item/item.h"

#define TEXT_BYTES_MAX 64u /* of a number with blanks behind it */
#define NUMBER_BYTES_MAX 20u /* "-9223372036854775808" */

bool compute_parse(const uint8_t *text, uint64_t bytes, int64_t *number)
{
	bool negative = bytes && text[0] == '-';
	uint64_t at = negative, n = 0;

	if (bytes == at || bytes > NUMBER_BYTES_MAX)
		return false;
	if (text[at] == '0' && bytes > 1)
		return false;
	for (; at < bytes; at++) {
		unsigned digit = (unsigned)text[at] - '0';
		if (digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, digit, &n))
			return false;
	}
	if (n > (uint64_t)INT64_MAX + negative)
		return false;
	*number = negative ? (int64_t)(0 - n) : (int64_t)n;
	return true;
}

/* Of WIRE_UNSIGNED: digits, then blanks. */
static bool parse_unsigned(const uint8_t *text, uint64_t bytes, uint64_t *number)
{
	uint64_t at = 0, n = 0;

	if (bytes > TEXT_BYTES_MAX)
		return false;
	for (; at < bytes && text[at] >= '0' && text[at] <= '9'; at++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text[at] - '0', &n))
			return false;
	*number = n;
	for (uint64_t digits = at; at < bytes; at++)
		if (text[at] != ' ' || !digits)
			return false;
	return at;
}

struct layout_attributes compute_attributes(const struct store_change *c,
					    const struct layout_item *old)
{
	struct layout_attributes with = c->with;

	if (!old)
		return with;
	with = item_attributes(old);
	if (c->compute->op == WIRE_TOUCH && !(c->flags & WIRE_KEEP_TTL))
		with.expiry_ms = c->with.expiry_ms;
	if (c->compute->op == WIRE_TOUCH && (c->flags & WIRE_SIGNS))
		with.signs = c->with.signs;
	return with;
}

bool compute_init(struct compute *x, const struct wire_request *q, const void *value)
{
	x->op = (enum wire_op)q->op;
	x->made = NULL;
	if (x->op != WIRE_INCR)
		return true;
	if (q->value_bytes != sizeof x->incr)
		return false;
	memcpy(&x->incr, value, sizeof x->incr);
	x->has_initial = q->flags & WIRE_INITIAL;
	return true;
}

static const uint8_t *value_of(const struct layout_item *item)
{
	return item->data + layout_key_bytes(item->lengths);
}

static int incr(struct compute *x, struct store_change *c, const struct layout_item *old)
{
	int64_t from = x->incr.initial;

	if (!old && !x->has_initial)
		return WIRE_NOT_FOUND;
	if (old && !compute_parse(value_of(old), layout_value_bytes(old->lengths), &from))
		return WIRE_ENUMBER;
	if (__builtin_add_overflow(from, x->incr.delta, &x->number))
		return WIRE_ERANGE;
	c->value_bytes = (uint64_t)snprintf((char *)x->buf, sizeof x->buf, "%lld",
					    (long long)x->number);
	c->value = x->buf;
	return WIRE_OK;
}

/* The text is never shorter than it was: blanks behind it stand for the digits that went. */
static int incr_unsigned(struct compute *x, struct store_change *c, const struct layout_item *old)
{
	uint64_t number = (uint64_t)x->incr.initial, delta = (uint64_t)x->incr.delta;
	uint64_t bytes = old ? layout_value_bytes(old->lengths) : 0;

	if (!old && !x->has_initial)
		return WIRE_NOT_FOUND;
	if (old && !parse_unsigned(value_of(old), bytes, &number))
		return WIRE_ENUMBER;
	if (old && (c->flags & WIRE_DOWN))
		number = number > delta ? number - delta : 0;
	else if (old)
		number += delta;
	x->number = (int64_t)number;
	c->value_bytes = (uint64_t)snprintf((char *)x->buf, sizeof x->buf, "%-*llu", (int)bytes,
					    (unsigned long long)number);
	c->value = x->buf;
	return WIRE_OK;
}

/* WIRE_APPEND, WIRE_PREPEND */
static int join(struct store_worker *w, struct compute *x, struct store_change *c,
		const struct layout_item *old)
{
	uint64_t before = old ? layout_value_bytes(old->lengths) : 0;
	uint64_t after = before + c->value_bytes;
	bool prepends = x->op == WIRE_PREPEND;
	uint8_t *to = x->buf;

	if (after > LAYOUT_VALUE_BYTES_MAX)
		return WIRE_ETOOBIG;
	if (!old)
		return WIRE_OK;
	if (layout_item_bytes(c->key_bytes, after) > LAYOUT_INPLACE_BYTES_MAX) {
		c->item = store_item_new(w, c->key, c->key_bytes, after, &c->with);
		if (!c->item)
			return WIRE_EMEMORY;
		to = c->item->data + c->key_bytes;
	}
	memcpy(to + (prepends ? c->value_bytes : 0), value_of(old), before);
	memcpy(to + (prepends ? 0 : before), c->value, c->value_bytes);
	c->value = to;
	c->value_bytes = after;
	if (c->item)
		store_item_seal(w, c->item);
	return WIRE_OK;
}

/* Only the header changes, whose checksum is over all of the item. */
static int touch(struct store_worker *w, struct compute *x, struct store_change *c,
		 const struct layout_item *old)
{
	struct layout_item *head = (struct layout_item *)x->buf;

	if (!old)
		return WIRE_NOT_FOUND;
	uint64_t version = next_version(w->store);
	memcpy(head, old, sizeof *head + c->key_bytes);
	head->state = layout_state(version, LAYOUT_LIVE, 0);
	head->expiry = layout_expiry(&c->with);
	c->value_bytes = layout_value_bytes(old->lengths);
	uint64_t offset = table_offset(w->store->table, old);
	head->checksum = x->made ? hash_item_of(x->made->hash, version, offset)
				 : hash_item_split(head, c->key_bytes, value_of(old),
						   c->value_bytes, version, offset);
	c->head = head;
	return WIRE_OK;
}

static bool is_long(const struct store_change *c, const struct layout_item *old)
{
	const struct compute *x = c->compute;
	uint64_t bytes = old ? layout_value_bytes(old->lengths) : 0;

	if (compute_joins(x->op))
		bytes += c->value_bytes;
	return x->op != WIRE_INCR && bytes > COMPUTE_BYTES_MAX;
}

static bool is_same(const struct layout_attributes *a, const struct layout_attributes *b)
{
	return a->expiry_ms == b->expiry_ms && a->flags == b->flags && a->signs == b->signs;
}

/* Whether what was made is of just this item, and with what the new one is to have. */
static bool is_made_of(const struct rewritten *m, const struct store_change *c,
		       const struct layout_item *old)
{
	if (old != m->from || !is_same(&m->with, &c->with))
		return false;
	return !old || !m->version || layout_state_version(old->state) == m->version;
}

static int take_made(struct store_worker *w, struct compute *x, struct store_change *c,
		     const struct layout_item *old)
{
	if (!is_made_of(x->made, c, old))
		return STORE_LONG;
	if (x->op == WIRE_TOUCH)
		return touch(w, x, c, old);
	c->value_bytes = layout_value_bytes(x->made->item->lengths);
	return WIRE_OK;
}

int compute_run(struct store_worker *w, struct store_change *c, const struct layout_item *old)
{
	struct compute *x = c->compute;

	c->with = compute_attributes(c, old);
	if (x->made)
		return take_made(w, x, c, old);
	if (is_long(c, old))
		return STORE_LONG;
	if (x->op == WIRE_TOUCH)
		return touch(w, x, c, old);
	if (x->op != WIRE_INCR)
		return join(w, x, c, old);
	return c->flags & WIRE_UNSIGNED ? incr_unsigned(x, c, old) : incr(x, c, old);
}
