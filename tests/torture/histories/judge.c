/* SPDX-License-Identifier: BSD-2-Clause */
/* What clients noted, as a history that tests/lib/order.h judges; and what there was of it. */
#include "tests/torture/histories/histories.h"

#define STATES_MAX 2000000

static bool changes(const struct note *n)
{
	for (unsigned i = 0; i < n->op.count; i++)
		if (n->op.parts[i].kind != ORDER_GET)
			return true;
	return false;
}

/* A read that never ended says nothing. */
static bool counts(const struct note *n)
{
	return n->op.count && !n->is_nothing && (changes(n) || !n->op.is_unknown);
}

static bool has_value(const struct note *n, unsigned part)
{
	const struct order_part *p = &n->op.parts[part];

	if (p->kind == ORDER_GET)
		return p->result == ORDER_OK;
	return p->kind == ORDER_PUT || p->kind == ORDER_APPEND || p->kind == ORDER_PREPEND;
}

static void add_note(struct order *order, const struct desk *desk, const struct note *n)
{
	struct order_op *op = order_add(order, 0, 0, 0);

	if (!op)
		die("history", "too many operations");
	*op = n->op;
	for (unsigned i = 0; i < op->count; i++)
		if (has_value(n, i))
			op->parts[i].value = order_text(order, desk->bytes + n->from[i], n->bytes[i]);
}

static bool is_unlock(const struct note *n)
{
	return n->op.parts[0].kind == ORDER_UNLOCK;
}

/* Whether a later note is of the lock, and the key, of this one. */
static bool is_of_lock(const struct note *later, const struct note *lock)
{
	const struct order_part *a = &later->op.parts[0], *b = &lock->op.parts[0];

	return a->lock == b->lock && a->key == b->key && !later->is_nothing;
}

/* Whether the lock that a note took is given back by a later one. */
static bool is_given_back(const struct desk *desk, const struct note *n)
{
	for (const struct note *later = n + 1; later < desk->notes + desk->count; later++)
		if (is_unlock(later) && is_of_lock(later, n))
			return true;
	return false;
}

/*
 * A change that was under way at the grant may take effect after it, but before what is done
 * under the lock.  So a lock without a read holds from the end of the first call under it,
 * and is of no matter to the others without one.
 */
static void add_lock(struct order *order, const struct desk *desk, const struct note *n)
{
	const struct note *end = desk->notes + desk->count, *later = n + 1;
	struct note lock = *n;

	while (later < end && (is_unlock(later) || !is_of_lock(later, n)))
		later++;
	if (n->op.count == 1 && !n->op.is_unknown) {
		lock.op.is_unknown = later == end || later->op.is_unknown;
		lock.op.end_ns = later == end ? ORDER_OPEN : later->op.end_ns;
	}
	add_note(order, desk, &lock);
}

/* A lock that was lost, or whose holder was killed, ends at some time.  So does each where kvd
 * is started again, which its holder may learn late. */
static void add_end_of_lock(struct order *order, const struct note *n)
{
	struct order_op *op = order_add(order, n->op.client, n->op.start_ns, ORDER_OPEN);

	if (!op)
		die("history", "too many operations");
	op->is_unknown = true;
	op->count = 1;
	op->parts[0] = (struct order_part){ .kind = ORDER_UNLOCK, .key = n->op.parts[0].key,
					    .lock = n->op.parts[0].lock };
}

static unsigned keys_of(const struct note *n)
{
	unsigned keys = 0;

	for (unsigned i = 0; i < n->op.count; i++)
		keys |= 1u << n->op.parts[i].key;
	return keys;
}

/* Whether another client is at one of its keys at the same time. */
static bool overlaps(const struct board *board, unsigned clients, unsigned own,
		     const struct note *n)
{
	for (unsigned c = 0; c < clients; c++) {
		const struct desk *desk = &board->desks[c];
		for (unsigned i = 0; c != own && i < desk->count; i++) {
			const struct note *other = &desk->notes[i];
			if (counts(other) && (keys_of(other) & keys_of(n)) &&
			    other->op.start_ns < n->op.end_ns && n->op.start_ns < other->op.end_ns)
				return true;
		}
	}
	return false;
}

static void count_note(struct totals *totals, const struct note *n)
{
	totals->ops++;
	totals->submitted += n->is_submitted;
	totals->unknown += n->op.is_unknown && !is_unlock(n);
	for (unsigned i = 0; i < n->op.count && !n->op.is_unknown; i++)
		if (n->op.parts[i].result < ORDER_ANY)
			totals->results[n->op.parts[i].kind][n->op.parts[i].result]++;
}

static void add_desk(struct order *order, const struct board *board, unsigned clients,
		     unsigned own, struct totals *totals)
{
	const struct desk *desk = &board->desks[own];

	for (unsigned i = 0; i < desk->count; i++) {
		const struct note *n = &desk->notes[i];
		if (!counts(n) || (board->restarts && is_unlock(n)))
			continue;
		count_note(totals, n);
		totals->overlaps += overlaps(board, clients, own, n);
		if (n->op.parts[0].kind != ORDER_LOCK) {
			add_note(order, desk, n);
			continue;
		}
		add_lock(order, desk, n);
		if (board->restarts || !is_given_back(desk, n))
			add_end_of_lock(order, n);
	}
}

static void tell(const struct order *order, const struct order_report *report,
		 const struct board *board, const char *what)
{
	fprintf(stderr, "histories: seed %llu, episode %u: %s (%llu states)\n",
		(unsigned long long)board->seed, board->episode, what,
		(unsigned long long)report->states);
	order_print(order, report, stderr);
}

bool judge(struct order *order, const struct board *board, unsigned clients, struct totals *totals)
{
	struct order_report report;

	order_clear(order);
	for (unsigned c = 0; c < clients; c++)
		add_desk(order, board, clients, c, totals);
	enum order_verdict verdict = order_check(order, STATES_MAX, &report);
	totals->episodes++;
	totals->expired += report.expired;
	totals->undecided += verdict == ORDER_UNDECIDED;
	if (report.states > totals->states_most)
		totals->states_most = report.states;
	if (verdict == ORDER_BROKEN)
		tell(order, &report, board, "no order of the operations explains the answers");
	return verdict != ORDER_BROKEN;
}
