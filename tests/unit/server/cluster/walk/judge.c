/* SPDX-License-Identifier: BSD-2-Clause */
/* What was answered, counted or denied, and what follows of it at each step. */
#include <string.h>

#include "tests/unit/server/cluster/walk/walk.h"

#define VALUES_MAX 4096u

static uint64_t floor_of[KEYS];             /* visible, or counted by a reader */
static unsigned made_by[KEYS][VALUES_MAX];  /* of visible values; 0: not yet */
static bool is_denied[OPS_MAX], is_visible[OPS_MAX];

void judge_begin(void)
{
	memset(floor_of, 0, sizeof floor_of);
	memset(made_by, 0, sizeof made_by);
	memset(is_denied, 0, sizeof is_denied);
	memset(is_visible, 0, sizeof is_visible);
}

uint64_t judge_floor(unsigned key)
{
	return floor_of[key];
}

static void see(unsigned op, unsigned key, uint64_t value)
{
	unsigned *made = &made_by[key][value % VALUES_MAX];

	HOLDS(!*made || *made == op, "6", "value %lu of key %u is of operation %u and of %u",
	      (unsigned long)value, key, *made, op);
	HOLDS(!is_denied[op], "7", "operation %u has an effect, which was denied", op);
	*made = op;
	is_visible[op] = true;
	if (value > floor_of[key])
		floor_of[key] = value;
}

void judge_visible(unsigned op, unsigned count, const unsigned *keys, const uint64_t *values)
{
	loud("visible: operation %u, key %u: %lu", op, keys[0], (unsigned long)values[0]);
	for (unsigned i = 0; i < count; i++) {
		/* The next primary shows again what was open. */
		HOLDS(values[i] > floor_of[keys[i]] || made_by[keys[i]][values[i] % VALUES_MAX] == op, "1", "operation %u makes value %lu of key %u, "
		      "whose %lu was visible", op, (unsigned long)values[i], keys[i],
		      (unsigned long)floor_of[keys[i]]);
		see(op, keys[i], values[i]);
	}
}

void judge_denied(unsigned op)
{
	HOLDS(!is_visible[op], "7", "operation %u is denied, and was visible", op);
	is_denied[op] = true;
	w.seen.denied++;
}

void judge_read(const char *how, unsigned key, const struct item *item, uint64_t floor)
{
	HOLDS(item->value >= floor, "10", "%s: key %u has value %lu, and had %lu before that",
	      how, key, (unsigned long)item->value, (unsigned long)floor);
	if (item->op)
		see(item->op, key, item->value);
}

void judge_applied(const struct proc *p, unsigned key, uint64_t before, uint64_t after)
{
	loud("%s: applies key %u: %lu", p->name, key, (unsigned long)after);
	HOLDS(after == before + 1 || (!before && after), "3",
	      "member %s applies value %lu of key %u on %lu", p->name, (unsigned long)after, key,
	      (unsigned long)before);
}

/* ------------------------------------------------------------- between two steps */
static bool has(const struct proc *p, unsigned key)
{
	const struct record *r = p->slots[key % STRIPES].open;
	const struct change *c = (const struct change *)r;

	if (p->items[key].value >= floor_of[key])
		return true;
	for (unsigned i = 0; r && !r->is_copy && i < c->count; i++)
		if (c->keys[i] == key && c->values[i] >= floor_of[key] &&
		    (p->is_up || c->is_on_disk))
			return true;
	return false;
}

/* All members of the configuration have what was answered. */
static void judge_members(void)
{
	const struct config *c = config_now();

	for (unsigned i = 0; i < c->count; i++) {
		const struct proc *p = &w.procs[c->set[i].name[0] - 'a'];

		if (p->incarnation != c->set[i].incarnation)
			continue;
		for (unsigned k = 0; k < KEYS; k++)
			HOLDS(has(p, k), "1", "member %s, of epoch %lu, lacks value %lu of key %u",
			      p->name, (unsigned long)c->epoch, (unsigned long)floor_of[k], k);
	}
}

static uint64_t serving_reign(void)
{
	uint64_t reign = 0;

	for (unsigned i = 0; i < MEMBERS; i++)
		if (w.procs[i].is_up && w.procs[i].serves > reign)
			reign = w.procs[i].serves;
	return reign;
}

/* Nobody serves while somebody trusts what an earlier reign shows. */
static void judge_leases(void)
{
	uint64_t reign = serving_reign();

	for (unsigned i = 0; i < CLIENTS; i++)
		HOLDS(!client_trusts(i) || client_trusts(i) >= reign, "9",
		      "client %u trusts reign %lu while %lu serves", i,
		      (unsigned long)client_trusts(i), (unsigned long)reign);
	for (unsigned i = 0; i < MEMBERS; i++) {
		const struct proc *p = &w.procs[i];

		HOLDS(!p->is_up || !member_may_answer(&p->member, clock_of(p)) ||
		      p->member.reign >= reign, "9", "member %s may answer in reign %lu while %lu "
		      "serves", p->name, (unsigned long)p->member.reign, (unsigned long)reign);
	}
}

static void judge_locks(void)
{
	unsigned holders = 0;

	for (unsigned i = 0; i < CLIENTS; i++)
		holders += client_holds(i);
	HOLDS(holders <= 1, "8", "%u clients hold the lock", holders);
}

void judge(void)
{
	judge_members();
	judge_leases();
	judge_locks();
}
