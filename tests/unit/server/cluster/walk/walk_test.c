/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random walks of three members of a shard, each of a seed: what they reach, and that each
 * rule of doc/cluster.md holds at each step.
 *
 *   walk_test [--seed N] [--seeds N] [--steps N] [--loud]
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/server/cluster/walk/walk.h"

#define CLIENT_TURNS 3 /* leases are short */
#define CALM_STEPS 100000u /* 20 s */

struct walk w;

uint64_t draw(uint64_t below)
{
	w.random += 0x9e3779b97f4a7c15ull;
	uint64_t z = w.random;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) % below;
}

bool chance(unsigned in_thousand)
{
	return draw(1000) < in_thousand;
}

void broken(const char *rule, const char *format, ...)
{
	va_list args;

	printf("rule %s: ", rule);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\nseed %lu, step %u, %lu ms; again: walk_test --seed %lu --steps %u\n",
	       (unsigned long)w.seed, w.step, (unsigned long)(w.now_ns / MS),
	       (unsigned long)w.seed, w.steps);
	exit(1);
}

void loud(const char *format, ...)
{
	va_list args;

	if (!w.is_loud)
		return;
	printf("%7.1f ", (double)w.now_ns / 1e6);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

/* ------------------------------------------------------------------------- faults */
static uint64_t some_time(void)
{
	return chance(700) ? draw(60 * MS) : draw(900 * MS);
}

static void freeze(struct proc *p)
{
	w.seen.freezes++;
	if (chance(600))
		p->frozen_ns = w.now_ns + some_time();
	if (chance(600))
		p->worker_frozen_ns = w.now_ns + some_time();
	/* Cut off too: the others don't wait until it is silent. */
	if (chance(400))
		for (unsigned i = 1; i < MEMBERS; i++)
			procs_break(p->index, (p->index + i) % MEMBERS, false);
}

/* Whether what was answered is somewhere else, too. */
static bool may_lose(const struct proc *p)
{
	const struct config *c = config_now();
	unsigned others = 0;

	for (unsigned i = 0; i < c->count; i++) {
		const struct proc *o = &w.procs[c->set[i].name[0] - 'a'];

		others += o != p && o->incarnation == c->set[i].incarnation &&
			  (o->is_up || o->has_disk);
	}
	return others > 0;
}

static void stop(struct proc *p)
{
	bool is_wiped = !p->has_disk || chance(100);

	if (is_wiped && !may_lose(p))
		return;
	w.seen.restarts++;
	proc_stop(p, is_wiped);
	p->up_ns = w.now_ns + some_time();
	p->frozen_ns = p->worker_frozen_ns = 0;
}

static void fault(struct proc *p)
{
	if (!p->is_up) {
		if (w.now_ns >= p->up_ns) {
			proc_start(p);
			w.is_shaken = chance(300);
		}
		return;
	}
	switch (draw(16)) {
	case 0: stop(p); break;
	case 13:
		if (chance(200))
			proc_fail(p);
		break;
	case 1: procs_break(p->index, (p->index + 1) % MEMBERS, false); break;
	case 12: procs_break(p->index, (p->index + 1) % MEMBERS, true); break;
	case 14: procs_double(p->index, (p->index + 1) % MEMBERS); break;
	case 15: procs_single(p->index, (p->index + 1) % MEMBERS); break;
	case 2: p->away_ns = w.now_ns + some_time(); break;
	case 3:
	case 4:
	case 5: freeze(p); break;
	default: agree_register_carry_out(w.reg);
	}
}

/* --------------------------------------------------------------------------- walks */
static void go_on(void)
{
	if (chance(450))
		proc_turn(&w.procs[draw(MEMBERS)]);
	else if (chance(600))
		worker_turn(&w.procs[draw(MEMBERS)]);
	else
		for (unsigned i = 0; i < CLIENT_TURNS; i++)
			client_turn();
}

/* Everybody is back, and nothing fails any more: it does not stand still for ever. */
static void end_well(void)
{
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct proc *p = &w.procs[i];

		p->frozen_ns = p->worker_frozen_ns = p->away_ns = 0;
		if (!p->is_up)
			proc_start(p);
	}
	for (unsigned i = 0; !procs_are_well(); i++) {
		HOLDS(i < CALM_STEPS, "-", "it stands still: nobody serves, or one of the set does not begin");
		w.now_ns += draw(400000);
		w.step++;
		agree_register_carry_out(w.reg);
		go_on();
		judge();
	}
}

static void walk(uint64_t seed)
{
	w.seed = w.random = seed;
	w.now_ns = MS;
	w.faults = (unsigned)(2 + draw(10));
	w.letters = (unsigned)(150 + draw(700));
	judge_begin();
	procs_begin();
	clients_begin();
	for (w.step = 0; w.step < w.steps; w.step++) {
		w.now_ns += draw(400000);
		if (w.is_shaken) {
			struct proc *p = &w.procs[config_now()->set[0].name[0] - 'a'];

			w.is_shaken = false;
			if (p->is_up && chance(500))
				freeze(p);
			else
				fault(p);
		}
		if (chance(w.faults))
			fault(&w.procs[draw(MEMBERS)]);
		else
			go_on();
		judge();
	}
	end_well();
	procs_end();
}

static int say(const char *what, unsigned count)
{
	printf("%-22s %u\n", what, count);
	return count > 0;
}

/* All that a walk is about was there. */
static bool has_seen(void)
{
	const struct seen *s = &w.seen;

	return say("epochs", s->epochs) & say("fail-overs", s->take_overs) &
	       say("hand-overs", s->hand_overs) & say("joins", s->joins) & say("drops", s->drops) &
	       say("restarts", s->restarts) & say("failed disks", s->failures) & say("emptied", s->wipes) & say("freezes", s->freezes) &
	       say("broken connections", s->breaks) & say("second connections", s->doubles) &
	       say("ends of one of two", s->singles) & say("lost or late writes", s->late_writes) &
	       say("changes", s->changes) & say("transactions", s->transactions) &
	       say("READs that count", s->gets) & say("READs without lease", s->no_lease) &
	       say("GETs by message", s->gets_by_message) & say("leases told", s->told) &
	       say("requests refused", s->refused) & say("changes denied", s->denied) &
	       say("open records dropped", s->resolved_drops) &
	       say("open records applied", s->resolved_applies) & say("locks", s->locks) &
	       say("changes under a lock", s->locked_changes);
}

int main(int argc, char **argv)
{
	uint64_t first = 1, seeds = 100;

	w.steps = 30000;
	if (argc > 1 && !strcmp(argv[argc - 1], "--loud")) {
		w.is_loud = true;
		argc--;
	}
	for (int i = 1; i + 1 < argc; i += 2) {
		uint64_t n = strtoull(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--seed"))
			first = n, seeds = 1;
		else if (!strcmp(argv[i], "--seeds"))
			seeds = n;
		else if (!strcmp(argv[i], "--steps"))
			w.steps = (unsigned)n;
	}
	for (uint64_t seed = first; seed < first + seeds; seed++)
		walk(seed);
	printf("%lu walks of %u steps\n", (unsigned long)seeds, w.steps);
	return has_seen() || seeds < 10 ? 0 : 1;
}
