/* SPDX-License-Identifier: BSD-2-Clause */
/* Members: their starts and ends, connections, and the cluster's thread of each. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/server/cluster/walk/walk.h"

static struct config now; /* as it stands in the register */

const struct config *config_now(void)
{
	return &now;
}

uint64_t clock_of(const struct proc *p)
{
	return p->base_ns + w.now_ns / 64 * p->rate;
}

/* ------------------------------------------------------------------- connections */
struct letter *post(struct proc *from, unsigned to, bool is_worker)
{
	struct proc *p = &w.procs[to];
	struct letters *l = is_worker ? &p->worker_inbox : &p->inbox;
	struct letter *letter = calloc(1, sizeof *letter);

	assert(letter);
	letter->from = from->index;
	letter->generation = w.generation[from->index][to];
	if (!p->is_up) {
		/* Its receiver is not there: kept until it is freed with its inbox. */
		letter->generation = ~0u;
	}
	*l->end = letter;
	l->end = &letter->next;
	return letter;
}

void letter_free(struct letter *l)
{
	if (l->change)
		free(l->change->has_effect);
	free(l->change);
	free(l);
}

/* In the order of their connection; of several connections' any, of a broken one's seldom. */
struct letter *next_letter(struct letters *l)
{
	unsigned count = 0;
	struct letter *letter, **at = &l->first;

	for (letter = l->first; letter; letter = letter->next)
		count++;
	if (!count)
		return NULL;
	letter = l->first;
	for (uint64_t i = draw(count); i; i--)
		letter = letter->next;
	if (letter->is_late && !chance(10))
		return NULL;
	while ((*at)->from != letter->from || (*at)->generation != letter->generation)
		at = &(*at)->next;
	letter = *at;
	*at = letter->next;
	if (!*at)
		l->end = at;
	letter->next = NULL;
	return letter;
}

/* Of generations below that. */
static void lose(struct letters *l, unsigned from, unsigned below)
{
	for (struct letter **at = &l->first; *at;) {
		struct letter *letter = *at;

		/* What has arrived already is looked at later, behind what a new one brings. */
		if (letter->from == from && letter->generation < below && chance(500)) {
			*at = letter->next;
			letter_free(letter);
		} else {
			letter->is_late = letter->is_late ||
					  (letter->from == from && letter->generation < below);
			at = &letter->next;
		}
	}
	l->end = &l->first;
	while (*l->end)
		l->end = &(*l->end)->next;
}

void procs_break(unsigned a, unsigned b, bool is_workers)
{
	w.seen.breaks++;
	w.generation[a][b]++;
	w.generation[b][a]++;
	for (unsigned i = 0; i < 2; i++) {
		struct proc *p = &w.procs[i ? b : a];
		unsigned from = i ? a : b;

		if (!p->is_up)
			continue;
		lose(&p->worker_inbox, from, ~0u);
		if (is_workers) {
			worker_resend(p);
			continue;
		}
		p->is_broken[from] = true;
		lose(&p->inbox, from, ~0u);
	}
}

void procs_double(unsigned a, unsigned b)
{
	w.seen.doubles++;
	w.generation[a][b]++;
	w.generation[b][a]++;
	w.procs[a].is_doubled[b] = w.procs[b].is_doubled[a] = true;
}

void procs_single(unsigned a, unsigned b)
{
	w.seen.singles++;
	lose(&w.procs[a].inbox, b, w.generation[b][a]);
	lose(&w.procs[b].inbox, a, w.generation[a][b]);
	w.procs[a].is_single[b] = w.procs[b].is_single[a] = true;
}

/* --------------------------------------------------------------------- the register */
static void perform(struct proc *p, const struct member_actions *actions);

static void on_config(void *arg, const struct config *c)
{
	struct proc *p = arg;
	static struct member_actions actions;

	actions.count = 0;
	member_config(&p->member, clock_of(p), c, &actions);
	perform(p, &actions);
}

static void look_at(const struct config *c)
{
	unsigned was = now.count;

	if (c->epoch <= now.epoch)
		return;
	HOLDS(c->epoch == now.epoch + 1 || !now.epoch, "4", "an epoch was not seen");
	w.seen.epochs++;
	loud("epoch %lu, reign %lu: %s with %u%s", (unsigned long)c->epoch, (unsigned long)c->reign,
	     c->set[0].name, c->count - 1, c->is_handed ? ", handed" : "");
	if (c->reign == c->epoch && now.epoch)
		c->is_handed ? w.seen.hand_overs++ : w.seen.take_overs++;
	w.seen.joins += c->count > was && was;
	w.seen.drops += c->count < was && c->reign != c->epoch;
	now = *c;
	w.is_shaken = chance(150);
}

static void on_wrote(void *arg, enum keeper_outcome outcome, const struct config *c)
{
	struct proc *p = arg;
	static struct member_actions actions;

	(void)outcome;
	actions.count = 0;
	member_wrote(&p->member, clock_of(p), c, &actions);
	perform(p, &actions);
}

static void on_reached(void *arg, bool is_reached)
{
	member_reached(&((struct proc *)arg)->member, is_reached);
}

static void on_failed(void *arg, const char *why)
{
	(void)arg;
	(void)why;
}

/* What the register has, as nobody of the members may know yet. */
static void spy_done(void *arg, const struct agree_answer *a)
{
	struct config c;
	const char *why;

	(void)arg;
	if (a->status == AGREE_DONE && !config_parse(a->bytes, a->length, a->version, &c, &why))
		look_at(&c);
}

static struct agree *spy;

static void spy_changed(void *arg, const char *path)
{
	(void)arg;
	(void)path;
}

static void spy_session(void *arg, enum agree_session session)
{
	(void)arg;
	(void)session;
}

static void look(void)
{
	agree_read(spy, PATH, false, spy_done, NULL);
	agree_poll(spy);
}

static void write_config(struct proc *p, const struct config *c)
{
	if (chance(250)) {
		w.seen.late_writes++;
		agree_register_fault(w.reg, (enum agree_fault)(1 + draw(3)));
	}
	if (!keeper_write(&p->keeper, c))
		broken("-", "a write while one is under way");
	look();
}

/* -------------------------------------------------------------------------- actions */
static unsigned index_of(const char *name)
{
	return (unsigned)(name[0] - 'a');
}

static struct letter *answering; /* the OPEN that is being answered */

static void send_message(struct proc *p, const struct member_action *a)
{
	struct letter *l = post(p, index_of(a->peer), false);

	l->message = a->message;
	if (a->message.kind == MEMBER_OPEN) {
		for (struct record *r = p->records.open.next; r != &p->records.open; r = r->next)
			l->entries[l->count++] = (struct open_entry){
				.stripe = r->stripes[0], .version = r->version, .reign = r->reign };
	} else if (a->message.kind == MEMBER_BEGIN) {
		l->count = answering->count;
		for (unsigned i = 0; i < l->count; i++) {
			l->entries[i] = answering->entries[i];
			l->entries[i].fate = records_fate(&p->records, l->entries[i].stripe,
							  l->entries[i].version, l->entries[i].reign);
		}
	}
}

static void act(struct proc *p, const struct member_action *a)
{
	switch (a->kind) {
	case MEMBER_READ: keeper_read(&p->keeper); break;
	case MEMBER_WRITE: write_config(p, &a->config); break;
	case MEMBER_SEND: send_message(p, a); break;
	case MEMBER_WORDS: p->words = a->words; break;
	default: worker_order(p, a, answering); break;
	}
}

/* What it was about to do when it was frozen. */
static void go_on(struct proc *p)
{
	while (p->todo_next < p->todo.count)
		act(p, &p->todo.of[p->todo_next++]);
}

static void perform(struct proc *p, const struct member_actions *actions)
{
	static const char *const names[] = { "OUT", "JOINING", "BACKUP", "SEALED", "TAKING", "SERVING",
					     "LEAVING" };
	static enum member_state told[MEMBERS];

	if (told[p->index] != p->member.state)
		loud("%s: %s, epoch %lu", p->name, names[p->member.state],
		     (unsigned long)p->member.known.epoch);
	told[p->index] = p->member.state;
	go_on(p);
	for (unsigned i = 0; i < actions->count; i++) {
		/* What follows of a letter is done before that is freed. */
		if (!answering && chance(2)) {
			p->todo = *actions;
			p->todo_next = i;
			p->frozen_ns = w.now_ns + draw(400 * MS);
			return;
		}
		act(p, &actions->of[i]);
	}
}

static void take_note(struct proc *p, struct member_actions *actions)
{
	struct note *n = p->notes;
	uint64_t t = clock_of(p);

	p->notes = n->next;
	if (!p->notes)
		p->notes_end = &p->notes;
	switch (n->kind) {
	case NOTE_OBEYED: member_obeyed(&p->member, n->number, t, actions); break;
	case NOTE_SETTLED: member_settled(&p->member, n->number, t, actions); break;
	case NOTE_EMPTIED: member_emptied(&p->member, n->number, t, actions); break;
	case NOTE_COPIED:
		/* Of an earlier copy, which was given up meanwhile, it says nothing. */
		if (n->number == p->member.copy)
			member_copied(&p->member, t, actions);
		break;
	}
	free(n);
}

static void take_letter(struct proc *p, struct letter *l, struct member_actions *actions)
{
	const char from[2] = { (char)('a' + l->from), 0 };

	member_heard(&p->member, clock_of(p), from, &l->message, actions);
}

static void what_users_want(struct proc *p)
{
	char name[2] = { (char)('a' + draw(MEMBERS)), 0 };

	if (chance(20) && w.procs[index_of(name)].is_up)
		member_invite(&p->member, name, clock_of(p));
	else if (chance(2))
		member_promote(&p->member, name, clock_of(p));
}

static void hear_of_connections(struct proc *p, unsigned with)
{
	const char name[2] = { (char)('a' + with), 0 };

	if (p->is_doubled[with])
		member_connected(&p->member, name);
	if (p->is_single[with])
		member_lost(&p->member, name);
	if (p->is_broken[with]) {
		member_gone(&p->member, name);
		worker_resend(p);
	}
	p->is_doubled[with] = p->is_single[with] = p->is_broken[with] = false;
}

void proc_turn(struct proc *p)
{
	static struct member_actions actions;
	struct letter *l;

	if (!p->is_up || w.now_ns < p->frozen_ns)
		return;
	go_on(p);
	actions.count = 0;
	for (unsigned i = 0; i < MEMBERS; i++)
		hear_of_connections(p, i);
	if (w.now_ns >= p->away_ns) {
		keeper_tick(&p->keeper);
		agree_poll(p->keeper.agree);
		look();
	}
	if (p->notes)
		take_note(p, &actions);
	perform(p, &actions);
	if (w.now_ns < p->frozen_ns)
		return;
	actions.count = 0;
	l = chance(w.letters) ? next_letter(&p->inbox) : NULL;
	answering = l;
	if (l)
		take_letter(p, l, &actions);
	perform(p, &actions);
	if (l)
		letter_free(l);
	answering = NULL;
	actions.count = 0;
	what_users_want(p);
	member_tick(&p->member, clock_of(p), records_visible(&p->records), &actions);
	perform(p, &actions);
}

void proc_fail(struct proc *p)
{
	static struct member_actions actions;

	if (!p->has_disk || w.now_ns < p->frozen_ns)
		return;
	go_on(p);
	loud("%s: its disk fails", p->name);
	actions.count = 0;
	member_failed(&p->member, false, w.now_ns, &actions);
	perform(p, &actions);
	w.seen.failures++;
}

/* ------------------------------------------------------------------ starts and ends */
static void empty(struct letters *l)
{
	struct letter *next;

	for (struct letter *i = l->first; i; i = next) {
		next = i->next;
		letter_free(i);
	}
	*l = (struct letters){ NULL, &l->first };
}

void proc_start(struct proc *p)
{
	static struct member_actions actions;
	struct config_member self = { .incarnation = p->incarnation };

	strcpy(self.name, p->name);
	loud("%s starts", p->name);
	p->is_up = true;
	p->life++;
	p->life_number = draw(~0ull) | 1;
	p->keeper = (struct keeper){ .path = PATH, .events = { on_config, on_wrote, on_reached,
							       on_failed, p } };
	struct agree_events events = keeper_agree_events(&p->keeper);
	HOLDS(!agree_register_open(w.reg, &events, &p->keeper.agree), "-", "no seat");
	empty(&p->inbox);
	empty(&p->worker_inbox);
	p->notes_end = &p->notes;
	p->words = (struct lease_words){ 0 };
	p->todo.count = p->todo_next = 0;
	worker_begin(p);
	actions.count = 0;
	member_start(&p->member, &self, p->life_number, clock_of(p), &actions);
	perform(p, &actions);
}

void proc_stop(struct proc *p, bool is_wiped)
{
	struct note *next;

	loud("%s ends%s", p->name, is_wiped ? ", and loses all" : "");
	p->is_up = false;
	agree_close(&p->keeper.agree);
	empty(&p->inbox);
	empty(&p->worker_inbox);
	for (struct note *n = p->notes; n; n = next) {
		next = n->next;
		free(n);
	}
	p->notes = NULL;
	worker_end(p, is_wiped);
	for (unsigned i = 0; i < MEMBERS; i++)
		if (i != p->index)
			procs_break(i, p->index, false);
	memset(p->is_broken, 0, sizeof p->is_broken);
	memset(p->is_doubled, 0, sizeof p->is_doubled);
	memset(p->is_single, 0, sizeof p->is_single);
}

/* Nobody of the set may go on: each lacks a change, or lost all, as with a write that came late. */
static bool is_lame(const struct config *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct proc *p = &w.procs[c->set[i].name[0] - 'a'];

		if (p->incarnation == c->set[i].incarnation && !p->member.is_unfit)
			return false;
	}
	return true;
}

bool procs_are_well(void)
{
	const struct config *c = config_now();
	const struct member *m = &w.procs[c->set[0].name[0] - 'a'].member;

	if (is_lame(c))
		return true;
	if (m->state != MEMBER_SERVING || m->known.epoch != c->epoch)
		return false;
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (m->peers[i].id.name[0] && (int)i != m->joiner && !m->peers[i].is_begun)
			return false;
	return true;
}

static void on_created(void *arg, const struct agree_answer *a)
{
	(void)arg;
	HOLDS(a->status == AGREE_DONE, "-", "the first configuration: %s", a->why);
}

/* The first configuration is as a reign before all of these lives. */
static void create_config(void)
{
	struct config c = { .epoch = 1, .reign = 1, .writer = 1, .count = MEMBERS };
	char text[CONFIG_TEXT_BYTES];
	const struct agree_events events = { spy_changed, spy_session, NULL };

	for (unsigned i = 0; i < MEMBERS; i++) {
		c.set[i].name[0] = (char)('a' + i);
		c.set[i].incarnation = w.procs[i].incarnation;
	}
	now = (struct config){ 0 };
	HOLDS(!agree_register_open(w.reg, &events, &spy), "-", "no seat");
	agree_create(spy, PATH, text, config_print(&c, text), false, on_created, NULL);
	look();
}

void procs_begin(void)
{
	w.reg = agree_register_new();
	HOLDS(w.reg, "-", "no memory");
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct proc *p = &w.procs[i];

		memset(p, 0, sizeof *p);
		p->index = i;
		p->name[0] = (char)('a' + i);
		p->has_disk = chance(500);
		p->rate = (unsigned)(56 + draw(17));
		p->base_ns = draw(1000000 * MS);
		p->incarnation = draw(~0ull) | 1;
	}
	create_config();
	for (unsigned i = 0; i < MEMBERS; i++)
		proc_start(&w.procs[i]);
}

void procs_end(void)
{
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (w.procs[i].is_up)
			proc_stop(&w.procs[i], true);
		else
			worker_end(&w.procs[i], true);
		empty(&w.procs[i].inbox);
		empty(&w.procs[i].worker_inbox);
	}
	agree_close(&spy);
	agree_register_delete(&w.reg);
}
