/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients: READs, GETs by message, leases, changes, what became of them, and a lock. */
#include <string.h>

#include "common/lease.h"
#include "tests/unit/server/cluster/walk/walk.h"

#define REQUESTS 24u

struct reading {
	bool is_posted, has_item, has_words;
	unsigned key;
	uint64_t posted_ns, reign, floor;
	struct item item;
	struct lease_words words;
};

struct client {
	uint64_t base_ns, frozen_ns;
	unsigned rate;
	struct proc *target; /* NULL: not connected */
	unsigned life;
	uint64_t reign;
	struct lease lease;
	struct reading reading;

	/* A GET by message, between sample and look; a question for the lease. */
	bool is_sampled;
	unsigned sampled_key;
	struct item sampled;
	uint64_t sampled_floor, sampled_reign;
	uint64_t asked_ns, told_ns, told_reign; /* asked: 0: nothing */

	unsigned op; /* a change whose fate is not known; 0 */
	uint64_t op_reign;

	unsigned token;      /* of the lock that it asked for; 0 */
	bool has_won, holds, is_lost;
	uint64_t lock_reign, saw;
	unsigned lock_op;
};

/* What lies in receive queues. */
struct request {
	unsigned op, count; /* op 0: none */
	unsigned keys[2];
	uint64_t reign, saw;
	unsigned token;
};

static struct client clients[CLIENTS];
static struct request requests[REQUESTS];
static unsigned ops, tokens;

void clients_begin(void)
{
	memset(clients, 0, sizeof clients);
	memset(requests, 0, sizeof requests);
	ops = tokens = 0;
	for (unsigned i = 0; i < CLIENTS; i++) {
		clients[i].base_ns = draw(1000000 * MS) + 1;
		clients[i].rate = (unsigned)(56 + draw(17));
	}
}

static uint64_t clock_now(const struct client *c)
{
	return c->base_ns + w.now_ns / 64 * c->rate;
}

static bool is_connected(const struct client *c)
{
	return c->target && c->target->is_up && c->target->life == c->life;
}

static bool is_trusted(const struct client *c)
{
	return lease_is_good(&c->lease, c->reign, clock_now(c));
}

uint64_t client_trusts(unsigned i)
{
	return is_connected(&clients[i]) && is_trusted(&clients[i]) ? clients[i].reign : 0;
}

bool client_holds(unsigned i)
{
	const struct client *c = &clients[i];

	return c->holds && !c->is_lost && is_connected(c) && c->reign == c->lock_reign && is_trusted(c);
}

/* -------------------------------------------------------------------- connections */
static void give_up(struct client *c)
{
	c->target = NULL;
	c->reading.is_posted = false;
	c->is_sampled = false;
	c->asked_ns = c->told_ns = 0;
	c->lease = (struct lease){ 0 };
	c->token = 0;
	c->holds = c->has_won = c->is_lost = false;
	c->lock_op = 0;
}

static void connect(struct client *c)
{
	struct proc *p = &w.procs[draw(MEMBERS)];

	give_up(c);
	/* By its header, which the cluster's thread shows. */
	if (!p->is_up || p->member.state != MEMBER_SERVING)
		return;
	c->target = p;
	c->life = p->life;
	c->reign = p->member.reign;
}

/* ------------------------------------------------------------------------ READs */
static void complete(struct client *c)
{
	struct reading *r = &c->reading;

	r->is_posted = false;
	if (r->has_words)
		lease_sampled(&c->lease, &r->words, r->posted_ns);
	if (!lease_is_good(&c->lease, r->reign, clock_now(c))) {
		w.seen.no_lease++;
		return;
	}
	w.seen.gets++;
	judge_read("READ", r->key, &r->item, r->floor);
}

static void read_on(struct client *c)
{
	struct reading *r = &c->reading;

	if (!r->is_posted) {
		unsigned key = (unsigned)draw(KEYS);

		*r = (struct reading){ true, false, false, key, clock_now(c), c->reign,
				       judge_floor(key), { 0 }, { 0 } };
	} else if (!r->has_words && chance(400)) {
		r->words = c->target->words;
		r->has_words = r->words.reign != 0;
	} else if (!r->has_item) {
		r->item = c->target->items[r->key];
		r->has_item = true;
	} else {
		complete(c);
	}
}

/* -------------------------------------------------------------------- by message */
static void get_by_message(struct client *c)
{
	struct proc *p = c->target;

	if (!c->is_sampled) {
		if (w.now_ns < p->worker_frozen_ns || p->serves != c->reign)
			return;
		c->is_sampled = true;
		c->sampled_key = (unsigned)draw(KEYS);
		c->sampled_floor = judge_floor(c->sampled_key);
		c->sampled = p->items[c->sampled_key];
		c->sampled_reign = p->serves;
		return;
	}
	c->is_sampled = false;
	if (p->member.reign != c->sampled_reign || !member_may_answer(&p->member, clock_of(p)))
		return;
	w.seen.gets_by_message++;
	judge_read("message", c->sampled_key, &c->sampled, c->sampled_floor);
}

static void ask_for_lease(struct client *c)
{
	const struct proc *p = c->target;

	if (c->told_ns) {
		lease_told(&c->lease, c->told_reign, c->told_ns, c->asked_ns);
		c->asked_ns = c->told_ns = 0;
		w.seen.told++;
	} else if (!c->asked_ns) {
		c->asked_ns = clock_now(c);
	} else if (w.now_ns >= p->frozen_ns) {
		c->told_ns = member_left_ns(&p->member, clock_of(p));
		c->told_reign = p->member.reign;
		if (!c->told_ns)
			c->asked_ns = 0;
	}
}

/* ------------------------------------------------------------------------ changes */
static unsigned new_request(const struct request *r)
{
	unsigned i = (unsigned)draw(REQUESTS);

	if (requests[i].op || ops + 2 > OPS_MAX)
		return 0;
	requests[i] = *r;
	requests[i].op = ++ops;
	return ops;
}

static void change(struct client *c)
{
	struct request r = { .count = 1, .keys = { (unsigned)draw(KEYS) }, .reign = c->reign };

	if (c->op)
		return;
	if (chance(300)) {
		r.count = 2;
		r.keys[1] = (unsigned)draw(KEYS);
	}
	/* Two stripes, and not the one that has a lock. */
	if (r.keys[0] % STRIPES == LOCKED || (r.count == 2 && (r.keys[1] % STRIPES == LOCKED ||
	    r.keys[1] % STRIPES == r.keys[0] % STRIPES)))
		return;
	c->op = new_request(&r);
	c->op_reign = c->reign;
}

/* "Had it an effect?", of a primary of a later reign. */
static void ask_for_fate(struct client *c)
{
	const struct proc *p = &w.procs[draw(MEMBERS)];

	if (!c->op)
		return;
	if (p->is_up && w.now_ns >= p->worker_frozen_ns && p->serves > c->op_reign) {
		if (!p->has_effect[c->op])
			judge_denied(c->op);
		c->op = 0;
	}
}

static bool is_permitted(const struct proc *p, const struct request *r)
{
	return !r->token || p->lock == r->token;
}

static void execute(void)
{
	struct request *r = &requests[draw(REQUESTS)];
	struct proc *p = &w.procs[draw(MEMBERS)];

	if (!r->op || !p->is_up || w.now_ns < p->worker_frozen_ns || !p->serves)
		return;
	if (p->serves != r->reign) {
		w.seen.refused++;
		if (chance(20))
			r->op = 0;
		return;
	}
	if (!is_permitted(p, r)) {
		r->op = 0;
		return;
	}
	uint64_t value = p->items[r->keys[0]].value;
	if (!worker_change(p, r->op, r->count, r->keys))
		return;
	HOLDS(!r->token || value == r->saw, "8", "a change under the lock overwrites value %lu, and "
	      "saw %lu", (unsigned long)value, (unsigned long)r->saw);
	w.seen.changes++;
	w.seen.transactions += r->count == 2;
	w.seen.locked_changes += r->token != 0;
	r->op = 0;
}

/* ------------------------------------------------------------------------- a lock */
static void unlock(struct client *c)
{
	if (c->target->lock == c->token)
		c->target->lock = 0;
	c->token = 0;
	c->holds = c->has_won = c->is_lost = false;
	c->lock_op = 0;
}

static void lock_on(struct client *c)
{
	struct proc *p = c->target;

	if (!c->token) {
		/* The card does it, whatever its owner does. */
		c->token = ++tokens;
		c->lock_reign = c->reign;
		c->has_won = !p->lock;
		if (c->has_won)
			p->lock = c->token;
	} else if (!c->has_won) {
		c->token = 0;
	} else if (!c->holds) {
		c->holds = is_trusted(c);
		c->saw = p->items[LOCKED].value;
		if (!is_trusted(c) || !c->holds)
			unlock(c);
		else
			w.seen.locks++;
	} else if (c->is_lost || !is_trusted(c)) {
		/* Unlocking comes last: when what is under the token has an answer. */
		c->is_lost = true;
		if (!c->lock_op || p->has_effect[c->lock_op])
			unlock(c);
	} else if (!c->lock_op) {
		struct request r = { .count = 1, .keys = { LOCKED }, .reign = c->reign,
				     .saw = c->saw, .token = c->token };
		c->lock_op = new_request(&r);
	} else if (p->has_effect[c->lock_op]) {
		unlock(c);
	}
}

void client_turn(void)
{
	struct client *c = &clients[draw(CLIENTS)];

	execute();
	execute();
	if (w.now_ns < c->frozen_ns)
		return;
	if (chance(5))
		c->frozen_ns = w.now_ns + draw(600 * MS);
	if (c->op && is_connected(c) && c->target->serves == c->op_reign && c->target->has_effect[c->op])
		c->op = 0; /* answered */
	if (chance(100))
		ask_for_fate(c);
	if (!is_connected(c) || chance(is_trusted(c) ? 1 : 10)) {
		connect(c);
		return;
	}
	switch (draw(10)) {
	case 0: get_by_message(c); break;
	case 1: ask_for_lease(c); break;
	case 2:
	case 4:
	case 5: change(c); break;
	case 3: lock_on(c); break;
	default: read_on(c);
	}
}
