/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A key has a value, a version, a time when it expires and perhaps a lock.  A part of an
 * operation is done as kvd does it; what kvd would have answered has to be what it answered.
 *
 * Versions of one key grow.  Not every answer tells one: of a change that doesn't, the version
 * is only known to be above the one before, until an answer tells it.
 *
 * kvd counts a time to live from when it got the message, in whole milliseconds: so it may be
 * up to one short.
 */
#include "tests/lib/order_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES_MAX 24

/* --------------------------------------------------------------------- texts */

static uint64_t hash_of(const unsigned char *bytes, size_t n)
{
	uint64_t h = 14695981039346656037ull;

	for (size_t i = 0; i < n; i++)
		h = (h ^ bytes[i]) * 1099511628211ull;
	return h;
}

static bool is_text(const struct order_text *t, const void *bytes, size_t n, uint64_t hash)
{
	return t->hash == hash && t->n == n && !memcmp(t->bytes, bytes, n);
}

uint32_t order_texts_add(struct order_texts *texts, const void *bytes, size_t n)
{
	uint64_t hash = hash_of(bytes, n);
	char *copy;

	for (uint32_t i = 0; i < texts->count; i++)
		if (is_text(&texts->at[i], bytes, n, hash))
			return i + 1;
	if (texts->count == ORDER_TEXTS_MAX || texts->bytes + n > ORDER_TEXT_BYTES_MAX ||
	    !(copy = malloc(n + 1))) {
		texts->is_full = true;
		return 0;
	}
	memcpy(copy, bytes, n);
	copy[n] = '\0';
	texts->at[texts->count] = (struct order_text){ copy, n, hash };
	texts->bytes += n;
	return ++texts->count;
}

void order_texts_clear(struct order_texts *texts)
{
	for (uint32_t i = 0; i < texts->count; i++)
		free(texts->at[i].bytes);
	texts->count = 0;
	texts->bytes = 0;
	texts->is_full = false;
}

static uint32_t join(struct order_texts *texts, uint32_t before, uint32_t after)
{
	const struct order_text *a = &texts->at[before - 1], *b = &texts->at[after - 1];
	char *both = malloc(a->n + b->n + 1);
	uint32_t text = 0;

	if (!both) {
		texts->is_full = true;
		return 0;
	}
	memcpy(both, a->bytes, a->n);
	memcpy(both + a->n, b->bytes, b->n);
	text = order_texts_add(texts, both, a->n + b->n);
	free(both);
	return text;
}

static bool to_number(const struct order_text *t, int64_t *number)
{
	char again[NUMBER_BYTES_MAX];

	if (t->n >= sizeof again)
		return false;
	*number = strtoll(t->bytes, NULL, 10);
	int n = snprintf(again, sizeof again, "%" PRId64, *number);
	return n == (int)t->n && !memcmp(again, t->bytes, t->n);
}

/* ---------------------------------------------------------- versions, expiry */

/* Whether the key may have this version, which it has from now on. */
static bool has_version(struct order_key *key, uint64_t version)
{
	if (key->is_told)
		return key->version == version;
	if (version <= key->version)
		return false;
	key->version = version;
	key->is_told = true;
	return true;
}

static bool is_told_right(struct order_key *key, const struct order_part *part)
{
	return !part->tells || has_version(key, part->version);
}

/* Every change has a version above the one before. */
static bool renew(struct order_key *key, const struct order_part *part, uint32_t value)
{
	key->value = value;
	key->is_told = part->tells && part->result == ORDER_OK;
	if (!key->is_told)
		return value != 0;
	if (part->version <= key->version)
		return false;
	key->version = part->version;
	return value != 0;
}

static void set_expiry(struct order_key *key, const struct order_part *part,
		       const struct order_op *op)
{
	uint64_t ttl_ns = part->ttl_ms * 1000000;

	key->soonest_ns = key->latest_ns = ORDER_OPEN;
	if (!part->ttl_ms)
		return;
	key->soonest_ns = op->start_ns + ttl_ns - 1000000;
	if (op->end_ns != ORDER_OPEN && !op->is_unknown)
		key->latest_ns = op->end_ns + ttl_ns;
}

void order_expire(struct order_key *key)
{
	key->value = 0;
	key->soonest_ns = key->latest_ns = ORDER_OPEN;
}

/* ---------------------------------------------------------------- conditions */

/* Of a version that nobody told: the answer says whether it was this one. */
static bool is_version(struct order_key *key, const struct order_part *part)
{
	if (!key->value || key->is_told)
		return key->value && key->version == part->if_version;
	return part->result != ORDER_CONDITION && has_version(key, part->if_version);
}

static bool is_true(struct order_key *key, const struct order_part *part)
{
	switch (part->condition) {
	case ORDER_IF_ABSENT:
		return !key->value;
	case ORDER_IF_PRESENT:
		return key->value;
	case ORDER_IF_VERSION:
		return is_version(key, part);
	default:
		return true;
	}
}

/* A false condition tells the version of what is there, 0 of an absent key. */
static bool is_refused_right(struct order_key *key, const struct order_part *part)
{
	if (!part->tells)
		return true;
	if (!key->value)
		return part->version == 0;
	if (part->condition == ORDER_IF_VERSION && part->version == part->if_version)
		return false;
	return has_version(key, part->version);
}

/* -------------------------------------------------------------------- changes */

static bool gives(const struct order_part *part, enum order_result result)
{
	return part->result == result || part->result == ORDER_ANY;
}

static bool get(struct order_key *key, const struct order_part *part)
{
	if (!key->value)
		return gives(part, ORDER_NOT_FOUND);
	return gives(part, ORDER_OK) && key->value == part->value && is_told_right(key, part);
}

static bool refuse(struct order_key *key, const struct order_part *part)
{
	return gives(part, ORDER_CONDITION) && is_refused_right(key, part);
}

static bool put(struct order_key *key, const struct order_part *part, const struct order_op *op)
{
	bool keeps = part->keeps_ttl && key->value;

	if (!is_true(key, part))
		return refuse(key, part);
	if (!keeps)
		set_expiry(key, part, op);
	return gives(part, ORDER_OK) && renew(key, part, part->value);
}

/* Of a key that is absent the condition is not asked. */
static bool del(struct order_key *key, const struct order_part *part)
{
	if (!key->value)
		return gives(part, ORDER_NOT_FOUND);
	if (!is_true(key, part))
		return refuse(key, part);
	if (!gives(part, ORDER_OK) || !is_told_right(key, part))
		return false;
	key->is_told = false;
	order_expire(key);
	return true;
}

static bool touch(struct order_key *key, const struct order_part *part, const struct order_op *op)
{
	if (!is_true(key, part))
		return refuse(key, part);
	if (!key->value)
		return gives(part, ORDER_NOT_FOUND);
	if (!part->keeps_ttl)
		set_expiry(key, part, op);
	return gives(part, ORDER_OK) && renew(key, part, key->value);
}

static bool append(struct order_texts *texts, struct order_key *key, const struct order_part *part,
		   const struct order_op *op)
{
	bool prepends = part->kind == ORDER_PREPEND;
	uint32_t value = part->value;

	if (!is_true(key, part))
		return refuse(key, part);
	if (key->value)
		value = join(texts, prepends ? value : key->value, prepends ? key->value : value);
	else
		set_expiry(key, part, op);
	if (!value || (part->bytes && texts->at[value - 1].n != part->bytes))
		return false;
	return gives(part, ORDER_OK) && renew(key, part, value);
}

static bool incr(struct order_texts *texts, struct order_key *key, const struct order_part *part,
		 const struct order_op *op)
{
	int64_t number = part->initial;
	char text[NUMBER_BYTES_MAX];

	if (!is_true(key, part))
		return refuse(key, part);
	if (!key->value && !part->has_initial)
		return gives(part, ORDER_NOT_FOUND);
	if (key->value && !to_number(&texts->at[key->value - 1], &number))
		return gives(part, ORDER_ENUMBER);
	number += part->delta;
	if (!gives(part, ORDER_OK) || (part->result == ORDER_OK && number != part->number))
		return false;
	if (!key->value)
		set_expiry(key, part, op);
	int n = snprintf(text, sizeof text, "%" PRId64, number);
	return renew(key, part, order_texts_add(texts, text, (size_t)n));
}

static bool is_under_its_lock(const struct order_key *key, const struct order_part *part)
{
	/* Reads need none. */
	return key->lock == part->lock || (part->kind == ORDER_GET && !part->lock);
}

static bool step(struct order_texts *texts, struct order_key *key, const struct order_part *part,
		 const struct order_op *op)
{
	if (part->kind == ORDER_LOCK) {
		bool is_free = !key->lock;
		key->lock = part->lock;
		return is_free;
	}
	if (!is_under_its_lock(key, part))
		return false;
	switch (part->kind) {
	case ORDER_GET:
		return get(key, part);
	case ORDER_PUT:
		return put(key, part, op);
	case ORDER_DEL:
		return del(key, part);
	case ORDER_INCR:
		return incr(texts, key, part, op);
	case ORDER_TOUCH:
		return touch(key, part, op);
	case ORDER_UNLOCK:
		key->lock = 0;
		return true;
	default:
		return append(texts, key, part, op);
	}
}

bool order_step(struct order_texts *texts, struct order_state *state, const struct order_op *op)
{
	for (unsigned i = 0; i < op->count; i++) {
		struct order_part part = op->parts[i];
		/* What it read it did read. */
		if (op->is_unknown && part.kind != ORDER_GET) {
			part.result = ORDER_ANY;
			part.tells = false;
			part.bytes = 0;
		}
		if (!step(texts, &state->keys[part.key], &part, op))
			return false;
	}
	return true;
}

/* ---------------------------------------------------------------------- words */

static void say_text(const struct order_texts *texts, uint32_t text, FILE *to)
{
	const struct order_text *t = text ? &texts->at[text - 1] : NULL;

	if (!t)
		fputs(" nothing", to);
	else if (t->n <= 60)
		fprintf(to, " \"%s\"", t->bytes);
	else
		fprintf(to, " \"%.24s...%s\" (%zu bytes)", t->bytes, t->bytes + t->n - 24, t->n);
}

static void say_asked(const struct order_texts *texts, const struct order_part *part, FILE *to)
{
	static const char *const kinds[] = { "GET", "PUT", "DEL", "INCR", "APPEND", "PREPEND",
					     "TOUCH", "LOCK", "UNLOCK" };

	fprintf(to, "%s k%u", kinds[part->kind], part->key);
	if (part->kind == ORDER_PUT || part->kind == ORDER_APPEND || part->kind == ORDER_PREPEND)
		say_text(texts, part->value, to);
	if (part->kind == ORDER_INCR)
		fprintf(to, " by %" PRId64, part->delta);
	if (part->has_initial)
		fprintf(to, " from %" PRId64, part->initial);
	if (part->condition == ORDER_IF_ABSENT)
		fputs(" if absent", to);
	if (part->condition == ORDER_IF_PRESENT)
		fputs(" if present", to);
	if (part->condition == ORDER_IF_VERSION)
		fprintf(to, " if version %" PRIu64, part->if_version);
	if (part->ttl_ms)
		fprintf(to, " for %" PRIu64 " ms", part->ttl_ms);
	if (part->keeps_ttl)
		fputs(" with the expiry that is there", to);
	if (part->lock)
		fprintf(to, " (lock %" PRIu32 ")", part->lock);
}

void order_say(const struct order_texts *texts, const struct order_op *op,
	       const struct order_part *part, FILE *to)
{
	static const char *const results[] = { "OK", "not found", "condition false",
					       "not a number", "not known" };

	say_asked(texts, part, to);
	if (op->is_unknown) {
		fputs(" -> not known", to);
		return;
	}
	fprintf(to, " -> %s", results[part->result]);
	if (part->kind == ORDER_GET && part->result == ORDER_OK)
		say_text(texts, part->value, to);
	if (part->kind == ORDER_INCR && part->result == ORDER_OK)
		fprintf(to, " %" PRId64, part->number);
	if (part->bytes)
		fprintf(to, ", %" PRIu64 " bytes", part->bytes);
	if (part->tells)
		fprintf(to, ", version %" PRIu64, part->version);
}
