/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Just-in-time linearization: the calls and returns of a key's operations are
 * gone through in order of time with the set of configurations that the store may
 * be in: the key's value, and which of the operations under way took effect
 * already.  At a return every configuration in which that operation did not yet
 * is extended in all possible ways until it did.  None left: a violation.
 *
 * What keeps the sets small:
 * - Versions, where they are known, tell the order of the puts.
 * - A read that fits a configuration takes effect at once: it changes nothing.
 * - A put of unknown result whose value was read by someone took effect before
 *   that read returned: this is its return.
 * - Any other operation of unknown result serves only to make the key present
 *   (for a delete that found it), or absent.  They are interchangeable, so only
 *   how many of them were used counts, and to have used fewer is always better.
 */
#include "tests/lib/linear.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 64u
#define CONFIGS_MAX (1u << 18)
/* The value that nobody has read of a put of unknown result. */
#define UNREAD UINT64_MAX

struct config {
	uint64_t value;
	uint64_t done; /* the operations under way that took effect, by slot */
	uint64_t version; /* of the last put whose version is known */
	uint32_t puts; /* of unknown result that were used */
	uint32_t dels;
};

struct configs {
	struct config *at;
	uint32_t n, room;
	uint32_t *table; /* index + 1, by hash of value and done */
	uint32_t table_room;
};

struct event {
	uint64_t at_ns;
	struct linear_op *op;
	bool is_return;
};

struct check {
	struct configs now, next, todo;
	const struct linear_op *slot[SLOTS]; /* NULL: free */
	uint32_t puts, dels;                 /* of unknown result, called by now */
	struct linear_report *report;
};

/* ------------------------------------------------------------- configurations */

static uint64_t hash_config(const struct config *c)
{
	uint64_t h = (c->value ^ c->done * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;

	return h ^ h >> 32;
}

static void clear(struct configs *s)
{
	/* The table only where it was used: sets are small, and emptied often. */
	if (s->n < s->table_room / 8) {
		for (uint32_t i = 0; i < s->n; i++)
			for (uint32_t k = (uint32_t)hash_config(&s->at[i]) & (s->table_room - 1);
			     s->table[k]; k = (k + 1) & (s->table_room - 1))
				s->table[k] = 0;
	} else if (s->table_room) {
		memset(s->table, 0, s->table_room * sizeof *s->table);
	}
	s->n = 0;
}

static void rehash(struct configs *s)
{
	memset(s->table, 0, s->table_room * sizeof *s->table);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t k = (uint32_t)hash_config(&s->at[i]) & (s->table_room - 1);
		while (s->table[k])
			k = (k + 1) & (s->table_room - 1);
		s->table[k] = i + 1;
	}
}

static bool grow(struct configs *s)
{
	uint32_t room = s->room ? 2 * s->room : 64;
	struct config *at = realloc(s->at, room * sizeof *at);
	uint32_t *table = at ? realloc(s->table, 4 * room * sizeof *table) : NULL;

	if (at)
		s->at = at;
	if (!table || room > CONFIGS_MAX) {
		s->table = table ? table : s->table;
		return false;
	}
	s->table = table;
	s->room = room;
	s->table_room = 4 * room;
	rehash(s);
	return true;
}

static bool is_covered(const struct config *a, const struct config *by)
{
	return by->value == a->value && by->done == a->done && by->puts <= a->puts &&
	       by->dels <= a->dels && by->version <= a->version;
}

/*
 * Adds a configuration unless one as good is there; `replace`: in the place of
 * one that is not as good.  False: no room.
 */
static bool insert(struct configs *s, const struct config *c, bool replace)
{
	if (s->n == s->room && !grow(s))
		return false;
	uint32_t k = (uint32_t)hash_config(c) & (s->table_room - 1);
	for (; s->table[k]; k = (k + 1) & (s->table_room - 1)) {
		struct config *old = &s->at[s->table[k] - 1];
		if (is_covered(c, old))
			return true;
		if (replace && is_covered(old, c)) {
			*old = *c;
			return true;
		}
	}
	s->table[k] = s->n + 1;
	s->at[s->n++] = *c;
	return true;
}

static void free_configs(struct configs *s)
{
	free(s->at);
	free(s->table);
}

/* --------------------------------------------------------------------- steps */

static bool changes_nothing(const struct linear_op *op)
{
	return op->kind == LINEAR_GET || op->result == LINEAR_NOT_FOUND;
}

/* Lets an operation take effect; false if what it returned does not fit. */
static bool apply(const struct linear_op *op, struct config *c)
{
	if (op->kind == LINEAR_PUT) {
		if (op->version && op->version < c->version)
			return false;
		c->version = op->version ? op->version : c->version;
		c->value = op->value;
		return true;
	}
	if (op->result == LINEAR_NOT_FOUND)
		return c->value == 0;
	if (op->kind == LINEAR_GET)
		return c->value == op->value;
	if (c->value == 0)
		return false;
	c->value = 0;
	return true;
}

static void apply_reads(const struct check *k, struct config *c)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (k->slot[i] && !(c->done >> i & 1) && changes_nothing(k->slot[i]) &&
		    apply(k->slot[i], c))
			c->done |= 1ull << i;
}

/* Puts a configuration with the one at `slot` done to the next set, others on the list. */
static bool sort_out(struct check *k, struct config c, unsigned slot)
{
	apply_reads(k, &c);
	if (!(c.done >> slot & 1))
		return insert(&k->todo, &c, false);
	c.done &= ~(1ull << slot);
	return insert(&k->next, &c, true);
}

/* Whether an operation of this kind and result is under way and did not take effect. */
static bool is_waiting(const struct check *k, const struct config *c, bool not_found)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct linear_op *op = k->slot[i];
		if (op && !(c->done >> i & 1) &&
		    (not_found ? op->result == LINEAR_NOT_FOUND
			       : op->kind == LINEAR_DEL && op->result == LINEAR_DONE))
			return true;
	}
	return false;
}

/* Puts take effect in the order of their versions, where those are known. */
static bool is_too_early(const struct check *k, const struct config *c, const struct linear_op *op)
{
	if (op->kind != LINEAR_PUT || !op->version)
		return false;
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct linear_op *other = k->slot[i];
		if (other && !(c->done >> i & 1) && other->kind == LINEAR_PUT && other->version &&
		    other->version < op->version)
			return true;
	}
	return false;
}

/* All that can happen next in a configuration. */
static bool extend(struct check *k, struct config c, unsigned slot)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct config next = c;
		if (!k->slot[i] || (c.done >> i & 1) || is_too_early(k, &c, k->slot[i]) ||
		    !apply(k->slot[i], &next))
			continue;
		next.done |= 1ull << i;
		if (!sort_out(k, next, slot))
			return false;
	}
	if (c.value == 0 && c.puts < k->puts && is_waiting(k, &c, false)) {
		struct config next = c;
		next.value = UNREAD;
		next.puts++;
		if (!sort_out(k, next, slot))
			return false;
	}
	if (c.value != 0 && c.dels < k->dels && is_waiting(k, &c, true)) {
		struct config next = c;
		next.value = 0;
		next.dels++;
		return sort_out(k, next, slot);
	}
	return true;
}

static enum linear_verdict fail(struct check *k, enum linear_verdict verdict,
				const struct linear_op *op, const char *why)
{
	k->report->op = *op;
	snprintf(k->report->why, sizeof k->report->why, "%s", why);
	return verdict;
}

static enum linear_verdict returned(struct check *k, const struct linear_op *op)
{
	unsigned slot = 0;

	while (k->slot[slot] != op)
		slot++;
	clear(&k->next);
	clear(&k->todo);
	for (uint32_t i = 0; i < k->now.n; i++)
		if (!sort_out(k, k->now.at[i], slot))
			return fail(k, LINEAR_UNDECIDED, op, "too many possibilities");
	for (uint32_t i = 0; i < k->todo.n; i++)
		if (!extend(k, k->todo.at[i], slot))
			return fail(k, LINEAR_UNDECIDED, op, "too many possibilities");
	struct configs old = k->now;
	k->now = k->next;
	k->next = old;
	k->slot[slot] = NULL;
	if (k->now.n)
		return LINEAR_OK;
	return fail(k, LINEAR_VIOLATION, op, "no order of the operations explains this result");
}

static enum linear_verdict invoked(struct check *k, const struct linear_op *op)
{
	if (op->result == LINEAR_UNKNOWN) {
		if (op->kind == LINEAR_PUT)
			k->puts++;
		else
			k->dels++;
		return LINEAR_OK;
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		if (!k->slot[i]) {
			k->slot[i] = op;
			return LINEAR_OK;
		}
	}
	return fail(k, LINEAR_UNDECIDED, op, "more than 64 operations at the same time");
}

/* ----------------------------------------------------------- one key's history */

static int by_value(const void *a, const void *b)
{
	const struct linear_op *x = *(struct linear_op *const *)a, *y = *(struct linear_op *const *)b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	/* Its put first, then by return. */
	if ((x->kind == LINEAR_PUT) != (y->kind == LINEAR_PUT))
		return x->kind == LINEAR_PUT ? -1 : 1;
	return x->return_ns < y->return_ns ? -1 : x->return_ns > y->return_ns;
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	/* At the same instant they are concurrent. */
	return (int)x->is_return - (int)y->is_return;
}

static bool has_value(const struct linear_op *op)
{
	return op->kind == LINEAR_PUT || (op->kind == LINEAR_GET && op->result == LINEAR_DONE);
}

/*
 * A put of unknown result whose value was read was done by then.  Finds values
 * that nobody put, or two did, and versions that don't belong to one value.
 */
static enum linear_verdict settle(struct linear_op *ops, size_t n, struct linear_op **refs,
				  struct check *k)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++)
		if (has_value(&ops[i]))
			refs[m++] = &ops[i];
	qsort(refs, m, sizeof *refs, by_value);
	struct linear_op *put = NULL;
	uint64_t version = 0;
	for (size_t i = 0; i < m; i++) {
		struct linear_op *op = refs[i];
		if (op->kind == LINEAR_PUT) {
			if (put && put->value == op->value)
				return fail(k, LINEAR_UNDECIDED, op, "the same value was put twice");
			put = op;
			version = op->version;
			continue;
		}
		if (!put || put->value != op->value)
			return fail(k, LINEAR_VIOLATION, op, "nobody put the value that was read");
		if (put->result == LINEAR_NOTHING)
			return fail(k, LINEAR_VIOLATION, op, "the value of a put that failed was read");
		if (version && op->version && version != op->version)
			return fail(k, LINEAR_VIOLATION, op, "a value was read with two versions");
		version = op->version ? op->version : version;
		if (put->result == LINEAR_UNKNOWN) {
			put->result = LINEAR_DONE;
			put->return_ns = op->return_ns;
			put->version = version;
		}
		if (op->return_ns < put->invoke_ns)
			return fail(k, LINEAR_VIOLATION, op, "a value was read before its put");
	}
	return LINEAR_OK;
}

static size_t make_events(struct linear_op *ops, size_t n, struct event *events)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		struct linear_op *op = &ops[i];
		if (op->result == LINEAR_NOTHING ||
		    (op->kind == LINEAR_GET && op->result == LINEAR_UNKNOWN))
			continue;
		events[m++] = (struct event){ op->invoke_ns, op, false };
		if (op->result != LINEAR_UNKNOWN)
			events[m++] = (struct event){ op->return_ns, op, true };
	}
	qsort(events, m, sizeof *events, by_time);
	return m;
}

/* Versions only grow: an operation has none under that of one that ended before. */
static enum linear_verdict check_versions(const struct event *events, size_t n, uint64_t *floors,
					  const struct linear_op *ops, struct check *k)
{
	uint64_t highest = 0;

	for (size_t i = 0; i < n; i++) {
		const struct linear_op *op = events[i].op;
		if (!events[i].is_return) {
			floors[op - ops] = highest;
			continue;
		}
		if (!op->version)
			continue;
		if (op->version < floors[op - ops])
			return fail(k, LINEAR_VIOLATION, op, "an older version after a newer one");
		highest = op->version > highest ? op->version : highest;
	}
	return LINEAR_OK;
}

static enum linear_verdict run(struct check *k, const struct event *events, size_t n)
{
	struct config first = { 0 };

	memset(k->slot, 0, sizeof k->slot);
	k->puts = k->dels = 0;
	clear(&k->now);
	if (!insert(&k->now, &first, true))
		return fail(k, LINEAR_UNDECIDED, events[0].op, "out of memory");
	for (size_t i = 0; i < n; i++) {
		enum linear_verdict v = events[i].is_return ? returned(k, events[i].op)
							    : invoked(k, events[i].op);
		if (v != LINEAR_OK)
			return v;
	}
	return LINEAR_OK;
}

static enum linear_verdict check_key(struct check *k, struct linear_op *ops, size_t n)
{
	struct linear_op **refs = calloc(n, sizeof *refs);
	struct event *events = calloc(2 * n, sizeof *events);
	uint64_t *floors = calloc(n, sizeof *floors);
	enum linear_verdict v = LINEAR_UNDECIDED;

	if (!refs || !events || !floors) {
		v = fail(k, LINEAR_UNDECIDED, ops, "out of memory");
		goto out;
	}
	v = settle(ops, n, refs, k);
	if (v != LINEAR_OK)
		goto out;
	size_t m = make_events(ops, n, events);
	v = run(k, events, m);
	if (v == LINEAR_OK)
		v = check_versions(events, m, floors, ops, k);
out:
	free(refs);
	free(events);
	free(floors);
	return v;
}

static int by_key(const void *a, const void *b)
{
	const struct linear_op *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->invoke_ns < y->invoke_ns ? -1 : x->invoke_ns > y->invoke_ns;
}

enum linear_verdict linear_check(struct linear_op *ops, size_t n, struct linear_report *report)
{
	struct check *k = calloc(1, sizeof *k);
	enum linear_verdict v = LINEAR_OK;
	size_t end;

	if (!k) {
		snprintf(report->why, sizeof report->why, "out of memory");
		return LINEAR_UNDECIDED;
	}
	k->report = report;
	qsort(ops, n, sizeof *ops, by_key);
	for (size_t i = 0; i < n && v == LINEAR_OK; i = end) {
		for (end = i + 1; end < n && ops[end].key == ops[i].key;)
			end++;
		v = check_key(k, ops + i, end - i);
	}
	free_configs(&k->now);
	free_configs(&k->next);
	free_configs(&k->todo);
	free(k);
	return v;
}
