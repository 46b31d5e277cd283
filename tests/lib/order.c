/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The search of Wing and Gong, as Lowe has it: take an operation that had begun before the first
 * of those without a place returned, let it take effect, go on; where nothing fits, take the
 * last one back.  What was once looked at in vain, operations done and the state that they left,
 * is remembered and not looked at again.
 *
 * What keeps it short:
 * - Keys that no operation joins are looked at apart.
 * - A read, or what was refused, takes place at once where it fits and tells nothing new.  So
 *   does an unlock after which nothing is under its lock: it only lets more happen.
 *
 * A key expires in between operations.  Each operation's instant is not before the start of any
 * that took place before it, and not after the return of any that takes place later: from these
 * follows whether a key's time may be over by now, and whether it must be.  One that is over
 * under a change is over behind it: the change looked at the key while it was there, and takes
 * effect when it is on disk.  Who asks in between is answered behind it, too.
 */
#include "tests/lib/order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/order_model.h"

#define NONE UINT32_MAX

struct order {
	struct order_op ops[ORDER_OPS_MAX];
	unsigned count;
	struct order_texts texts;
};

struct node {
	uint64_t done[ORDER_OPS_MAX / 64];
	unsigned left;            /* operations that have to take place yet */
	unsigned placed, expired;
	uint64_t latest_start_ns; /* of those that are done, and of what had to expire */
	struct order_state state;
};

struct mark {
	uint64_t a, b; /* a fingerprint of 128 bits: two that are the same don't meet by chance */
};

struct search {
	struct order *order;
	unsigned at[ORDER_OPS_MAX]; /* the operations, in the order of their returns */
	unsigned count;
	struct mark *marks;
	uint64_t room, used, states_max;
	bool is_over; /* no verdict: too many states, or no memory */
	struct node furthest;
};

/* -------------------------------------------------------------------- history */

static void *must_have(void *p)
{
	if (p)
		return p;
	fputs("order: no memory\n", stderr);
	exit(1);
}

struct order *order_new(void)
{
	return must_have(calloc(1, sizeof(struct order)));
}

void order_clear(struct order *o)
{
	order_texts_clear(&o->texts);
	o->count = 0;
}

void order_delete(struct order **o)
{
	if (!*o)
		return;
	order_clear(*o);
	free(*o);
	*o = NULL;
}

uint32_t order_text(struct order *o, const void *bytes, size_t n)
{
	return order_texts_add(&o->texts, bytes, n);
}

struct order_op *order_add(struct order *o, uint32_t client, uint64_t start_ns, uint64_t end_ns)
{
	if (o->count == ORDER_OPS_MAX)
		return NULL;
	o->ops[o->count] = (struct order_op){ .client = client, .start_ns = start_ns,
					      .end_ns = end_ns };
	return &o->ops[o->count++];
}

/* -------------------------------------------------------------- what was seen */

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
	return h ^ h >> 32;
}

static struct mark mark_of(const struct node *n)
{
	struct mark m = { mix(1, n->latest_start_ns), mix(2, ~n->latest_start_ns) };

	for (unsigned i = 0; i < ORDER_OPS_MAX / 64; i++) {
		m.a = mix(m.a, n->done[i]);
		m.b = mix(m.b, ~n->done[i]);
	}
	for (unsigned i = 0; i < ORDER_KEYS_MAX; i++) {
		const struct order_key *k = &n->state.keys[i];
		const uint64_t words[] = { (uint64_t)k->value << 32 | k->lock, k->version, k->is_told,
					   k->soonest_ns, k->latest_ns };
		for (unsigned w = 0; w < sizeof words / sizeof *words; w++) {
			m.a = mix(m.a, words[w]);
			m.b = mix(m.b, ~words[w]);
		}
	}
	m.a |= 1; /* 0 is an empty place */
	return m;
}

static struct mark *place_of(struct mark *marks, uint64_t room, const struct mark *m)
{
	uint64_t i = m->b & (room - 1);

	while (marks[i].a && (marks[i].a != m->a || marks[i].b != m->b))
		i = (i + 1) & (room - 1);
	return &marks[i];
}

static bool grow(struct search *s)
{
	uint64_t room = s->room ? 2 * s->room : 1024;
	struct mark *marks = calloc(room, sizeof *marks);

	if (!marks)
		return false;
	for (uint64_t i = 0; i < s->room; i++)
		if (s->marks[i].a)
			*place_of(marks, room, &s->marks[i]) = s->marks[i];
	free(s->marks);
	s->marks = marks;
	s->room = room;
	return true;
}

/* Whether a node needs no look: it was seen, or there were too many. */
static bool is_vain(struct search *s, const struct node *n)
{
	struct mark m = mark_of(n);

	if (s->used == s->states_max || s->order->texts.is_full ||
	    (2 * s->used >= s->room && !grow(s)))
		s->is_over = true;
	if (s->is_over)
		return true;
	struct mark *place = place_of(s->marks, s->room, &m);
	if (place->a)
		return true;
	*place = m;
	s->used++;
	return false;
}

/* --------------------------------------------------------------------- search */

static const struct order_op *op_at(const struct search *s, unsigned i)
{
	return &s->order->ops[s->at[i]];
}

static bool is_done(const struct node *n, unsigned i)
{
	return n->done[i / 64] >> i % 64 & 1;
}

/* Of those that have to take place yet the first return. */
static uint64_t first_return(const struct search *s, const struct node *n)
{
	for (unsigned i = 0; i < s->count; i++)
		if (!is_done(n, i))
			return op_at(s, i)->is_unknown ? ORDER_OPEN : op_at(s, i)->end_ns;
	return ORDER_OPEN;
}

static void expire(struct node *n, unsigned key)
{
	order_expire(&n->state.keys[key]);
	n->expired++;
}

/* Whatever the state, it leaves it as it is: a read, or what was refused. */
static bool never_changes(const struct order_op *op)
{
	for (unsigned i = 0; i < op->count; i++)
		if (op->parts[i].kind != ORDER_GET &&
		    (op->parts[i].result == ORDER_OK || op->parts[i].result == ORDER_ANY))
			return false;
	return !op->is_unknown;
}

static bool looks_at(const struct order_op *op, unsigned key)
{
	for (unsigned i = 0; i < op->count; i++)
		if (op->parts[i].key == key)
			return true;
	return false;
}

/* A change that has to take place yet may have looked at the key before its time was over. */
static bool is_held(const struct search *s, const struct node *n, unsigned key)
{
	for (unsigned i = 0; i < s->count; i++)
		if (!is_done(n, i) && op_at(s, i)->start_ns <= n->state.keys[key].latest_ns &&
		    looks_at(op_at(s, i), key) && !never_changes(op_at(s, i)))
			return true;
	return false;
}

static bool is_overdue(const struct node *n, unsigned key, uint64_t now_ns)
{
	return n->state.keys[key].value && n->state.keys[key].latest_ns < now_ns;
}

/* Keys whose time was over when the last of those that are done began. */
static void expire_overdue(const struct search *s, struct node *n)
{
	for (unsigned k = 0; k < ORDER_KEYS_MAX; k++)
		if (is_overdue(n, k, n->latest_start_ns) && !is_held(s, n, k))
			expire(n, k);
}

static void pass_time(const struct search *s, struct node *n, uint64_t start_ns)
{
	if (start_ns <= n->latest_start_ns)
		return;
	n->latest_start_ns = start_ns;
	expire_overdue(s, n);
}

/* It asks for a key whose time is over under a change. */
static bool has_to_wait(const struct node *n, const struct order_op *op)
{
	for (unsigned i = 0; i < op->count; i++)
		if (is_overdue(n, op->parts[i].key, op->start_ns))
			return true;
	return false;
}

static bool take(struct search *s, struct node *n, unsigned i)
{
	const struct order_op *op = op_at(s, i);

	pass_time(s, n, op->start_ns);
	if (has_to_wait(n, op))
		return false;
	struct order_state before = n->state;
	if (!order_step(&s->order->texts, &n->state, op))
		return false;
	/* One that may never have happened is needed only for what it does. */
	if (op->is_unknown && !memcmp(&before, &n->state, sizeof before))
		return false;
	n->done[i / 64] |= 1ull << i % 64;
	n->placed++;
	n->left -= !op->is_unknown;
	expire_overdue(s, n);
	return true;
}

static bool is_lock_used(const struct search *s, const struct node *n, unsigned unlock)
{
	const struct order_part *of = &op_at(s, unlock)->parts[0];

	for (unsigned i = 0; i < s->count; i++)
		if (i != unlock && !is_done(n, i) && op_at(s, i)->parts[0].lock == of->lock &&
		    op_at(s, i)->parts[0].key == of->key)
			return true;
	return false;
}

/* To take it now, where it fits, can't be wrong. */
static bool is_harmless(const struct search *s, const struct node *n, const struct node *after,
			unsigned i)
{
	if (op_at(s, i)->parts[0].kind == ORDER_UNLOCK)
		return !is_lock_used(s, n, i) && after->latest_start_ns == n->latest_start_ns;
	return never_changes(op_at(s, i)) && !memcmp(&n->state, &after->state, sizeof n->state);
}

static bool is_time_of_no_matter(const struct node *n, uint64_t start_ns)
{
	for (unsigned k = 0; k < ORDER_KEYS_MAX; k++)
		if (is_overdue(n, k, start_ns))
			return false;
	return true;
}

/* Takes one that is harmless; false: there is none. */
static bool take_harmless(struct search *s, struct node *n)
{
	uint64_t limit_ns = first_return(s, n);

	for (unsigned i = 0; i < s->count; i++) {
		const struct order_op *op = op_at(s, i);
		if (is_done(n, i) || op->start_ns > limit_ns ||
		    !is_time_of_no_matter(n, op->start_ns))
			continue;
		struct node after = *n;
		if (take(s, &after, i) && is_harmless(s, n, &after, i)) {
			*n = after;
			return true;
		}
	}
	return false;
}

static bool search(struct search *s, struct node *n);

static bool take_one(struct search *s, const struct node *n, uint64_t limit_ns)
{
	for (unsigned i = 0; i < s->count && !s->is_over; i++) {
		if (is_done(n, i) || op_at(s, i)->start_ns > limit_ns)
			continue;
		struct node after = *n;
		if (take(s, &after, i) && search(s, &after))
			return true;
	}
	return false;
}

static bool expire_one(struct search *s, const struct node *n, uint64_t limit_ns)
{
	for (unsigned k = 0; k < ORDER_KEYS_MAX && !s->is_over; k++) {
		const struct order_key *key = &n->state.keys[k];
		if (!key->value || key->soonest_ns == ORDER_OPEN || key->soonest_ns > limit_ns)
			continue;
		struct node after = *n;
		pass_time(s, &after, key->soonest_ns);
		expire(&after, k);
		if (search(s, &after))
			return true;
	}
	return false;
}

static bool search(struct search *s, struct node *n)
{
	while (take_harmless(s, n))
		;
	if (n->placed >= s->furthest.placed)
		s->furthest = *n;
	if (!n->left)
		return true;
	if (is_vain(s, n))
		return false;
	uint64_t limit_ns = first_return(s, n);
	return take_one(s, n, limit_ns) || expire_one(s, n, limit_ns);
}

/* --------------------------------------------------------------- keys, groups */

static unsigned keys_of(const struct order_op *op)
{
	unsigned keys = 0;

	for (unsigned i = 0; i < op->count; i++)
		keys |= 1u << op->parts[i].key;
	return keys;
}

/* The keys that operations join with this one. */
static unsigned group_of(const struct order *o, unsigned key)
{
	unsigned keys = 1u << key, before;

	do {
		before = keys;
		for (unsigned i = 0; i < o->count; i++)
			if (keys_of(&o->ops[i]) & keys)
				keys |= keys_of(&o->ops[i]);
	} while (keys != before);
	return keys;
}

static uint64_t return_of(const struct order_op *op)
{
	return op->is_unknown ? ORDER_OPEN : op->end_ns;
}

/* Those of the keys by their returns, those without one last. */
static void choose(struct search *s, unsigned keys)
{
	s->count = 0;
	for (unsigned i = 0; i < s->order->count; i++) {
		unsigned to = s->count;
		if (!(keys_of(&s->order->ops[i]) & keys))
			continue;
		for (; to && return_of(op_at(s, to - 1)) > return_of(&s->order->ops[i]); to--)
			s->at[to] = s->at[to - 1];
		s->at[to] = i;
		s->count++;
	}
}

static void tell(const struct search *s, unsigned keys, struct order_report *report)
{
	report->keys = keys;
	report->stuck = NONE;
	memset(report->done, 0, sizeof report->done);
	for (unsigned i = 0; i < s->count; i++) {
		report->done[s->at[i]] = is_done(&s->furthest, i);
		if (report->stuck == NONE && !is_done(&s->furthest, i))
			report->stuck = s->at[i];
	}
}

static enum order_verdict check_group(struct order *o, unsigned keys, uint64_t states_max,
				      struct order_report *report)
{
	struct search s = { .order = o, .states_max = states_max };
	struct node first = { .left = 0 };
	enum order_verdict verdict = ORDER_EXPLAINED;

	choose(&s, keys);
	for (unsigned i = 0; i < s.count; i++)
		first.left += !op_at(&s, i)->is_unknown;
	for (unsigned k = 0; k < ORDER_KEYS_MAX; k++)
		order_expire(&first.state.keys[k]);
	if (!search(&s, &first))
		verdict = s.is_over || o->texts.is_full ? ORDER_UNDECIDED : ORDER_BROKEN;
	report->states += s.used;
	report->expired += verdict == ORDER_EXPLAINED ? s.furthest.expired : 0;
	if (verdict != ORDER_EXPLAINED)
		tell(&s, keys, report);
	free(s.marks);
	return verdict;
}

enum order_verdict order_check(struct order *o, uint64_t states_max, struct order_report *report)
{
	enum order_verdict worst = ORDER_EXPLAINED;
	unsigned seen = 0;

	*report = (struct order_report){ .stuck = NONE };
	for (unsigned key = 0; key < ORDER_KEYS_MAX && worst != ORDER_BROKEN; key++) {
		unsigned keys = group_of(o, key);
		if (seen & keys)
			continue;
		seen |= keys;
		enum order_verdict verdict = check_group(o, keys, states_max, report);
		if (verdict != ORDER_EXPLAINED)
			worst = verdict;
	}
	return worst;
}

/* ---------------------------------------------------------------------- print */

static uint64_t first_start(const struct order *o)
{
	uint64_t start_ns = ORDER_OPEN;

	for (unsigned i = 0; i < o->count; i++)
		if (o->ops[i].start_ns < start_ns)
			start_ns = o->ops[i].start_ns;
	return start_ns;
}

static void print_op(const struct order *o, unsigned i, uint64_t zero_ns, char sign, FILE *to)
{
	const struct order_op *op = &o->ops[i];

	fprintf(to, "%c %10.1f ", sign, (double)(op->start_ns - zero_ns) / 1e3);
	if (return_of(op) == ORDER_OPEN)
		fputs("         -", to);
	else
		fprintf(to, "%10.1f", (double)(op->end_ns - zero_ns) / 1e3);
	fprintf(to, " us  client %" PRIu32 ": ", op->client);
	for (unsigned p = 0; p < op->count; p++) {
		fputs(p ? "; " : "", to);
		order_say(&o->texts, op, &op->parts[p], to);
	}
	fputc('\n', to);
}

void order_print(const struct order *o, const struct order_report *report, FILE *to)
{
	struct search s = { .order = (struct order *)o };
	uint64_t zero_ns = first_start(o);

	choose(&s, report->keys);
	for (unsigned i = 0; i < s.count; i++) {
		bool is_placed = report->done[s.at[i]];
		print_op(o, s.at[i], zero_ns, is_placed ? '+' : s.at[i] == report->stuck ? '*' : ' ', to);
	}
}
