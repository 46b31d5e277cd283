/* SPDX-License-Identifier: BSD-2-Clause */
/* A member's worker: its table and disk, records out and in, copies, and orders. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/server/cluster/walk/walk.h"

/* ------------------------------------------------------------------------ changes */
static struct change *copy_of(const struct change *c)
{
	struct change *copy = malloc(sizeof *copy);

	assert(copy);
	*copy = *c;
	copy->r.stripes = copy->stripes;
	if (c->has_effect) {
		copy->has_effect = malloc(OPS_MAX);
		assert(copy->has_effect);
		memcpy(copy->has_effect, c->has_effect, OPS_MAX);
	}
	return copy;
}

static void change_free(struct change *c)
{
	free(c->has_effect);
	free(c);
}

static void on_apply(void *arg, struct record *r)
{
	struct proc *p = arg;
	struct change *c = (struct change *)r;

	if (!r->is_copy) {
		for (unsigned i = 0; i < c->count; i++) {
			judge_applied(p, c->keys[i], p->items[c->keys[i]].value, c->values[i]);
			p->items[c->keys[i]] = (struct item){ c->values[i], c->op };
		}
		p->has_effect[c->op] = true;
		if (p->records.role == RECORDS_PRIMARY && p->records.is_shown)
			judge_visible(c->op, c->count, c->keys, c->values);
	}
	change_free(c);
}

static void on_drop(void *arg, struct record *r)
{
	(void)arg;
	w.seen.resolved_drops += !r->is_copy;
	change_free((struct change *)r);
}

/* --------------------------------------------------------------------- starts, ends */
void worker_begin(struct proc *p)
{
	struct record *r = p->records.open.next, *next;
	const struct records_hooks hooks = { on_apply, on_drop, p };
	struct record_slot slots[STRIPES];
	struct record list = { .next = NULL };
	bool is_first = !p->records.slots;

	memcpy(slots, p->slots, sizeof slots);
	memset(p->slots, 0, sizeof p->slots);
	/* What was on the disk as open, is. */
	for (; !is_first && r != &p->records.open; r = next) {
		struct change *c = (struct change *)r;

		next = r->next;
		if (c->is_on_disk && !r->is_copy) {
			r->next = list.next;
			list.next = r;
		} else {
			change_free(c);
		}
	}
	records_init(&p->records, p->slots, STRIPES, &hooks);
	for (unsigned i = 0; i < STRIPES; i++)
		records_restore_applied(&p->records, i, slots[i].applied);
	for (r = list.next; r; r = next) {
		next = r->next;
		records_restore(&p->records, r);
	}
	p->serves = p->holding = 0;
	p->is_held = false;
	p->copying = 0;
	p->orders = NULL;
	p->orders_end = &p->orders;
	memset(p->peers, 0, sizeof p->peers);
}

void worker_end(struct proc *p, bool is_wiped)
{
	struct order *next;

	for (struct order *o = p->orders; o; o = next) {
		next = o->next;
		free(o);
	}
	p->orders = NULL;
	if (!is_wiped)
		return;
	if (p->records.slots)
		records_empty(&p->records);
	memset(p->items, 0, sizeof p->items);
	memset(p->has_effect, 0, sizeof p->has_effect);
	p->lock = 0;
	p->incarnation = draw(~0ull) | 1;
	p->versions = 0;
}

void worker_note(struct proc *p, int kind, uint64_t number)
{
	struct note *n = calloc(1, sizeof *n);

	assert(n);
	n->kind = (unsigned)kind;
	n->number = number;
	*p->notes_end = n;
	p->notes_end = &n->next;
}

/* ---------------------------------------------------------------------- records out */
static void send_record(struct proc *p, const struct record *r, unsigned place)
{
	const struct member_peer *peer = &p->peers[place];
	struct letter *l = post(p, (unsigned)(peer->id.name[0] - 'a'), true);

	l->change = copy_of((const struct change *)r);
	l->epoch = p->records.epoch;
	l->number = r->number;
	l->to = peer->id.incarnation;
}

static void send_to_all(struct proc *p, const struct record *r)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (p->records.begun >> i & 1 && records_lacks(r, 1u << i))
			send_record(p, r, i);
}

static void send_lacking(struct proc *p, uint32_t members)
{
	for (struct record *r = p->records.open.next; r != &p->records.open; r = r->next)
		for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
			if (members & p->records.begun & (1u << i) && records_lacks(r, 1u << i))
				send_record(p, r, i);
}

static uint64_t draw_version(struct proc *p)
{
	return ++p->versions;
}

static void saw_version(struct proc *p, uint64_t version)
{
	if (version > p->versions)
		p->versions = version;
}

bool worker_change(struct proc *p, unsigned op, unsigned count, const unsigned *keys)
{
	struct change new = { .op = op, .count = count }, *c;

	for (unsigned i = 0; i < count; i++) {
		new.keys[i] = keys[i];
		new.stripes[i] = keys[i] % STRIPES;
		new.values[i] = p->items[keys[i]].value + 1;
	}
	new.r.count = count;
	new.r.stripes = new.stripes;
	if (!records_is_free(&p->records, &new.r) || p->is_held || p->holding)
		return false;
	c = copy_of(&new);
	c->r.version = draw_version(p);
	records_add(&p->records, &c->r, p->has_disk ? RECORDS_SELF : 0);
	/* It is gone already, if there is nobody to wait for. */
	for (struct record *r = p->records.open.next; r != &p->records.open; r = r->next)
		if (r == &c->r)
			send_to_all(p, r);
	return true;
}

/* -------------------------------------------------------------------------- copies */
static void copy_next(struct proc *p)
{
	struct change *c, new = { .stripes = { p->copy_stripe } };

	new.r.count = 1;
	new.r.stripes = new.stripes;
	if (p->copy_stripe == STRIPES) {
		for (struct record *r = p->records.open.next; r != &p->records.open; r = r->next)
			if (r->is_copy)
				return;
		p->copying = 0;
		worker_note(p, NOTE_COPIED, p->copy_number);
		return;
	}
	if (!records_is_free(&p->records, &new.r))
		return;
	memcpy(new.items, p->items, sizeof new.items);
	new.has_effect = p->has_effect;
	c = copy_of(&new);
	p->copy_stripe++;
	records_add_copy(&p->records, &c->r, p->copying);
	send_to_all(p, &c->r);
}

/* Fates are kept by operation here: those of the stripe's keys are of the copy. */
static void put_copy(struct proc *p, const struct change *c)
{
	for (unsigned k = c->stripes[0]; k < KEYS; k += STRIPES)
		p->items[k] = c->items[k];
	for (unsigned i = 0; i < OPS_MAX; i++)
		p->has_effect[i] = p->has_effect[i] || c->has_effect[i];
}

/* ------------------------------------------------------------------------ letters */
static void acknowledge(struct proc *p, const struct letter *record)
{
	struct letter *l = post(p, record->from, true);

	l->epoch = record->epoch;
	l->number = record->number;
	l->to = 0;
	l->from_incarnation = p->incarnation;
}

static void put_on_disk(struct proc *p, uint32_t stripe)
{
	struct record *r = p->slots[stripe].open;

	if (!r)
		return;
	((struct change *)r)->is_on_disk = true;
	r->has |= RECORDS_SELF;
}

static void take_record(struct proc *p, struct letter *l)
{
	struct change *c = l->change;
	enum records_taken taken;

	if (l->to != p->incarnation)
		return;
	c->r.number = l->number;
	taken = c->r.is_copy ? records_take_copy(&p->records, l->epoch, &c->r) :
			       records_take(&p->records, l->epoch, &c->r);
	if (taken == RECORDS_REFUSED)
		return;
	saw_version(p, c->r.version);
	if (taken == RECORDS_TAKEN && c->r.is_copy) {
		put_copy(p, c);
	} else if (taken == RECORDS_TAKEN) {
		l->change = NULL;
	}
	/* Before it is acknowledged. */
	if (!c->r.is_copy)
		put_on_disk(p, c->stripes[0]);
	acknowledge(p, l);
}

static void take_ack(struct proc *p, const struct letter *l)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (p->peers[i].id.name[0] == (char)('a' + l->from) &&
		    p->peers[i].id.incarnation == l->from_incarnation)
			records_acked(&p->records, 1u << i, l->epoch, l->number);
}

/* Its own disk has one of those that are under way. */
static void disk(struct proc *p)
{
	for (struct record *r = p->records.open.next; r != &p->records.open; r = r->next) {
		struct change *c = (struct change *)r;

		if (c->is_on_disk || r->is_copy || chance(850))
			continue;
		put_on_disk(p, c->stripes[0]);
		if (p->records.role == RECORDS_PRIMARY)
			records_acked(&p->records, RECORDS_SELF, p->records.epoch, r->number);
		return;
	}
}

/* ------------------------------------------------------------------------- orders */
void worker_order(struct proc *p, const struct member_action *a, const struct letter *letter)
{
	struct order *o;

	/* It is a hint: nothing unsafe comes of not knowing that something is visible. */
	if (a->kind == MEMBER_VISIBLE && chance(700))
		return;
	o = calloc(1, sizeof *o);
	assert(o);
	o->action = *a;
	memcpy(o->peers, p->member.peers, sizeof o->peers);
	if (letter && letter->message.kind == MEMBER_BEGIN && a->kind == MEMBER_RESOLVE) {
		o->count = letter->count;
		memcpy(o->entries, letter->entries, sizeof o->entries);
	}
	*p->orders_end = o;
	p->orders_end = &o->next;
}

void worker_resend(struct proc *p)
{
	struct order *o = calloc(1, sizeof *o);

	assert(o);
	o->is_reconnect = true;
	*p->orders_end = o;
	p->orders_end = &o->next;
}

static void resolve(struct proc *p, const struct order *o)
{
	for (unsigned i = 0; i < o->count; i++) {
		w.seen.resolved_applies += o->entries[i].fate == RECORDS_APPLIED;
		records_resolve(&p->records, o->entries[i].stripe, o->entries[i].version,
				o->entries[i].fate);
	}
	records_ready(&p->records);
}

static void be_of_epoch(struct proc *p, const struct order *o)
{
	const struct member_action *a = &o->action;
	enum records_role role = a->role == MEMBER_PRIMARY ? RECORDS_PRIMARY :
				 a->role == MEMBER_BACKUP ? RECORDS_BACKUP : RECORDS_OUT;

	memcpy(p->peers, o->peers, sizeof p->peers);
	p->copying = 0;
	p->holding = 0;
	p->is_held = false;
	if (role != RECORDS_PRIMARY)
		p->serves = 0;
	for (struct record *r = p->records.open.next; r != &p->records.open; r = r->next)
		saw_version(p, r->version);
	records_epoch(&p->records, a->epoch, a->reign, role, a->bits);
}

static void become_empty(struct proc *p)
{
	w.seen.wipes++;
	records_empty(&p->records);
	memset(p->items, 0, sizeof p->items);
	memset(p->has_effect, 0, sizeof p->has_effect);
	p->incarnation = draw(~0ull) | 1;
	worker_note(p, NOTE_EMPTIED, p->incarnation);
}

static bool obey(struct proc *p, const struct order *o)
{
	const struct member_action *a = &o->action;

	switch (a->kind) {
	case MEMBER_EPOCH: be_of_epoch(p, o); return true;
	case MEMBER_SEAL:
		records_seal(&p->records);
		p->serves = 0;
		return true;
	case MEMBER_RESOLVE: resolve(p, o); return true;
	case MEMBER_BEGUN_BY:
		records_begun(&p->records, a->bits);
		send_lacking(p, a->bits);
		return false;
	case MEMBER_AWAIT:
		memcpy(p->peers, o->peers, sizeof p->peers);
		p->copying &= a->bits;
		records_await(&p->records, a->bits);
		return false;
	case MEMBER_SERVE:
		p->lock = 0;
		records_show(&p->records);
		p->serves = a->reign;
		return true;
	case MEMBER_HOLD: p->holding = a->order; return false;
	case MEMBER_STOP: p->serves = 0; return false;
	case MEMBER_EMPTY: become_empty(p); return false;
	case MEMBER_COPY:
		p->copying = a->bits;
		p->copy_number = a->number;
		p->copy_stripe = 0;
		return false;
	case MEMBER_VISIBLE: records_seen(&p->records, a->epoch, a->number); return false;
	default: broken("-", "an action that nobody knows");
	}
}

static void take_order(struct proc *p)
{
	struct order *o = p->orders;

	p->orders = o->next;
	if (!p->orders)
		p->orders_end = &p->orders;
	if (o->is_reconnect)
		send_lacking(p, ~0u);
	else if (obey(p, o))
		worker_note(p, NOTE_OBEYED, o->action.order);
	free(o);
}

void worker_turn(struct proc *p)
{
	struct letter *l;

	if (!p->is_up || w.now_ns < p->worker_frozen_ns)
		return;
	if (p->orders && chance(700))
		take_order(p);
	l = chance(w.letters) ? next_letter(&p->worker_inbox) : NULL;
	if (l) {
		if (l->change)
			take_record(p, l);
		else
			take_ack(p, l);
		letter_free(l);
	}
	if (p->has_disk)
		disk(p);
	if (p->copying)
		copy_next(p);
	if (p->holding && p->records.open.next == &p->records.open) {
		worker_note(p, NOTE_OBEYED, p->holding);
		p->holding = 0;
		p->is_held = true;
	}
	if (p->records.role == RECORDS_PRIMARY && p->member.state == MEMBER_TAKING && !p->orders &&
	    !p->notes && records_is_settled(&p->records))
		worker_note(p, NOTE_SETTLED, p->records.epoch);
}
