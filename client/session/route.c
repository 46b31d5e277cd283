/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/route.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

void route_init(struct route *r)
{
	pthread_mutex_init(&r->lock, NULL);
}

void route_fini(struct route *r)
{
	pthread_mutex_destroy(&r->lock);
}

static bool is_same(const struct addr *a, const struct addr *b)
{
	return !strcmp(a->text, b->text);
}

/* Its place, or count. */
static unsigned find(const struct route *r, const struct addr *addr)
{
	unsigned i = 0;

	while (i < r->count && !is_same(&r->of[i], addr))
		i++;
	return i;
}

bool route_add(struct route *r, const struct addr *addr)
{
	unsigned i;

	pthread_mutex_lock(&r->lock);
	i = find(r, addr);
	if (i == r->count && i < ROUTE_MAX)
		r->of[r->count++] = *addr;
	pthread_mutex_unlock(&r->lock);
	return i < ROUTE_MAX;
}

unsigned route_count(struct route *r)
{
	unsigned n;

	pthread_mutex_lock(&r->lock);
	n = r->count;
	pthread_mutex_unlock(&r->lock);
	return n;
}

/* ------------------------------------------------------------ a cluster's primary */

#define AWAY_NS 1000000000ull /* twice as long each time that nobody answers */
#define DOUBLED_MAX 6u        /* as long from the first time on, where another kvd does */

static_assert(ROUTE_MAX < 64, "a bit each");

/* Under the lock, as all of these. */
static bool is_its(const struct route *r, unsigned i)
{
	return i < r->count && r->primaries >> i & 1;
}

static bool has_ports(const struct route *r)
{
	return r->epoch && (r->primaries & (r->primaries - 1));
}

static void put_off(struct place *p, unsigned doubled, uint64_t now_ns)
{
	p->again_ns = now_ns + (AWAY_NS << (doubled < DOUBLED_MAX ? doubled : DOUBLED_MAX));
}

/* Another thread, or this one a moment ago, may have put it off. */
static void put_off_once(struct place *p, uint64_t now_ns)
{
	if (now_ns >= p->again_ns)
		put_off(p, p->misses++, now_ns);
}

static bool has_good_port(const struct route *r, uint64_t now_ns)
{
	for (unsigned i = 0; i < r->count; i++)
		if (is_its(r, i) && now_ns >= r->place[i].again_ns)
			return true;
	return false;
}

/* The first where somebody answered, or the one that is due first. */
static unsigned soonest_port(const struct route *r, uint64_t now_ns)
{
	unsigned best = r->primary;
	uint64_t best_ns = UINT64_MAX;

	for (unsigned i = 0; i < r->count; i++) {
		uint64_t due_ns = r->place[i].again_ns > now_ns ? r->place[i].again_ns : now_ns;

		if (!is_its(r, i) || due_ns >= best_ns)
			continue;
		best = i;
		best_ns = due_ns;
	}
	return best;
}

/* The next one is the present one: of another member, where that was the primary's. */
static void move_on(struct route *r, unsigned from)
{
	bool was_its = is_its(r, from);

	if (from != r->at && !(was_its && is_its(r, r->at)))
		return;
	for (unsigned left = r->count; left; left--) {
		r->at = (r->at + 1) % r->count;
		if (!was_its || !is_its(r, r->at))
			break;
	}
}

void route_failed(struct route *r, const struct addr *addr, uint64_t now_ns)
{
	pthread_mutex_lock(&r->lock);
	unsigned i = find(r, addr);
	bool stays = false;
	if (has_ports(r) && is_its(r, i)) {
		put_off_once(&r->place[i], now_ns);
		stays = has_good_port(r, now_ns);
	}
	if (!stays) {
		move_on(r, i);
		r->is_gone = r->epoch && is_its(r, i);
	}
	pthread_mutex_unlock(&r->lock);
}

void route_forget(struct route *r, const struct addr *addr)
{
	pthread_mutex_lock(&r->lock);
	unsigned i = find(r, addr);
	move_on(r, i);
	r->is_gone = r->epoch && is_its(r, i);
	pthread_mutex_unlock(&r->lock);
}

bool route_is_primary(struct route *r, const struct addr *addr)
{
	bool is;

	pthread_mutex_lock(&r->lock);
	is = is_its(r, find(r, addr));
	pthread_mutex_unlock(&r->lock);
	return is;
}

bool route_is_gone(struct route *r)
{
	bool is_gone;

	pthread_mutex_lock(&r->lock);
	is_gone = r->is_gone;
	pthread_mutex_unlock(&r->lock);
	return is_gone;
}

void route_found(struct route *r)
{
	pthread_mutex_lock(&r->lock);
	r->is_gone = false;
	r->at = r->primary;
	pthread_mutex_unlock(&r->lock);
}

static void meet(struct place *p, uint64_t instance)
{
	p->instance = instance;
	p->again_ns = 0;
	p->misses = 0;
}

void route_settled(struct route *r, const struct addr *addr, uint64_t instance)
{
	pthread_mutex_lock(&r->lock);
	unsigned i = find(r, addr);
	if (i < r->count)
		meet(&r->place[i], instance);
	r->instance = instance;
	if (!r->is_list && r->count > 1) {
		r->of[0] = *addr;
		meet(&r->place[0], instance);
		r->count = 1;
		r->at = 0;
	}
	r->is_gone = r->is_gone && !is_its(r, find(r, addr));
	pthread_mutex_unlock(&r->lock);
}

/* A member's line as an address; "-": it is not known. */
static bool parse(const struct route *r, const char *line, struct addr *addr)
{
	struct err ignored;
	size_t bytes;

	if (!strcmp(line, "-") || addr_parse(addr, line, &ignored))
		return false;
	bytes = strlen(addr->text);
	snprintf(addr->text + bytes, sizeof addr->text - bytes, "%s", r->suffix);
	return true;
}

/* Its place, a new one if need be; ROUTE_MAX: it is none, or there is no room. */
static unsigned learn_line(struct route *r, const char *line)
{
	struct addr addr;
	unsigned i = parse(r, line, &addr) ? find(r, &addr) : ROUTE_MAX;

	if (i == r->count && i < ROUTE_MAX)
		r->of[r->count++] = addr;
	return i;
}

/* Where nobody answered may be where it is now. */
static void is_led_by(struct route *r, unsigned primary, uint64_t primaries)
{
	for (unsigned i = 0; i < r->count && r->primary != primary; i++)
		if (primaries >> i & 1)
			r->place[i].again_ns = 0;
	r->primary = primary;
	r->primaries = primaries;
}

bool route_learn(struct route *r, uint64_t epoch, char *lines, unsigned ports, bool goes)
{
	unsigned n = 0, primary = ROUTE_MAX;
	uint64_t primaries = 0;
	char *save = NULL;

	pthread_mutex_lock(&r->lock);
	r->is_list = true;
	for (char *line = strtok_r(lines, "\n", &save); line && epoch && epoch >= r->epoch;
	     line = strtok_r(NULL, "\n", &save), n++) {
		unsigned i = learn_line(r, line);

		if (!n)
			primary = i;
		if (i < ROUTE_MAX && (!n || n < ports))
			primaries |= 1ull << i;
	}
	if (primary < ROUTE_MAX) {
		r->is_gone = r->is_gone && epoch == r->epoch && primary == r->primary;
		is_led_by(r, primary, primaries);
		r->at = goes && !r->is_gone ? primary : r->at;
	}
	if (epoch > r->epoch)
		r->epoch = epoch;
	pthread_mutex_unlock(&r->lock);
	return primary < ROUTE_MAX;
}

/* ------------------------------------------------------------ dealing out */

/* Under the lock.  Of a cluster over those of its primary, while sessions go there. */
static bool may_deal(const struct route *r)
{
	return r->deals && r->is_list &&
	       (r->epoch ? has_ports(r) && is_its(r, r->at) : r->count > 1);
}

/* Whether it is known whose they are. */
static bool is_met(const struct route *r)
{
	return r->epoch || r->instance;
}

static void aim(const struct route *r, unsigned i, struct goal *goal)
{
	*goal = (struct goal){ r->of[i], r->place[i].instance == r->instance ? 0 : r->instance };
}

bool route_has_others(struct route *r)
{
	bool has;

	pthread_mutex_lock(&r->lock);
	has = r->epoch ? has_ports(r) : may_deal(r);
	pthread_mutex_unlock(&r->lock);
	return has;
}

static bool is_of_another(const struct route *r, unsigned i, uint64_t now_ns)
{
	const struct place *p = &r->place[i];

	if (r->epoch)
		return !is_its(r, i);
	return p->instance && p->instance != r->instance && now_ns < p->again_ns;
}

/*
 * One with the fewest sessions; of several each in turn, so that who makes two for each thread, one for
 * each kind of work, has both kinds everywhere: the order is A B B A A B B A.
 */
static unsigned fewest(struct route *r, uint64_t now_ns)
{
	unsigned least = UINT_MAX, ties = 0, i;

	for (i = 0; i < r->count; i++) {
		if (is_of_another(r, i, now_ns) || r->place[i].sessions > least)
			continue;
		ties = r->place[i].sessions < least ? 1 : ties + 1;
		least = r->place[i].sessions;
	}
	unsigned nth = ties > 1 ? r->draws++ % ties : 0;
	for (i = 0; i < r->count; i++)
		if (!is_of_another(r, i, now_ns) && r->place[i].sessions == least && !nth--)
			break;
	return i < r->count ? i : ROUTE_NOWHERE;
}

static void belong(struct route *r, unsigned *own, unsigned to)
{
	if (*own < ROUTE_MAX)
		r->place[*own].sessions--;
	*own = to;
	if (to < ROUTE_MAX)
		r->place[to].sessions++;
}

/* The session's own, where sessions are dealt out and somebody answered there. */
static unsigned choose_port(struct route *r, unsigned *own, uint64_t now_ns)
{
	if (may_deal(r) && !is_its(r, *own))
		belong(r, own, fewest(r, now_ns));
	if (may_deal(r) && now_ns >= r->place[*own].again_ns)
		return *own;
	return soonest_port(r, now_ns);
}

void route_present(struct route *r, unsigned *own, uint64_t now_ns, struct addr *addr)
{
	pthread_mutex_lock(&r->lock);
	unsigned i = r->at;
	if (has_ports(r) && is_its(r, i))
		i = choose_port(r, own, now_ns);
	*addr = r->of[i];
	pthread_mutex_unlock(&r->lock);
}

bool route_deal(struct route *r, unsigned *own, uint64_t now_ns, struct goal *goal)
{
	bool is_due = false;

	pthread_mutex_lock(&r->lock);
	if (may_deal(r) && is_met(r)) {
		if (*own == ROUTE_NOWHERE || is_of_another(r, *own, now_ns))
			belong(r, own, fewest(r, now_ns));
		is_due = *own < r->count && now_ns >= r->place[*own].again_ns;
		if (is_due)
			aim(r, *own, goal);
	}
	pthread_mutex_unlock(&r->lock);
	return is_due;
}

void route_stay(struct route *r, unsigned *own, const struct addr *there)
{
	pthread_mutex_lock(&r->lock);
	unsigned i = find(r, there);
	if (*own == ROUTE_NOWHERE && may_deal(r) && is_met(r) && i < r->count &&
	    (!r->epoch || is_its(r, i)))
		belong(r, own, i);
	pthread_mutex_unlock(&r->lock);
}

void route_undeal(struct route *r, unsigned *own)
{
	pthread_mutex_lock(&r->lock);
	belong(r, own, ROUTE_NOWHERE);
	pthread_mutex_unlock(&r->lock);
}

bool route_is_home(struct route *r, unsigned own, const struct addr *there)
{
	bool is_home;

	pthread_mutex_lock(&r->lock);
	is_home = own >= r->count || !may_deal(r) || (r->epoch && !is_its(r, own)) ||
		  is_same(there, &r->of[own]);
	pthread_mutex_unlock(&r->lock);
	return is_home;
}

bool route_other(struct route *r, const struct addr *there, uint64_t now_ns, struct goal *goal)
{
	bool is_found = false;

	pthread_mutex_lock(&r->lock);
	unsigned from = find(r, there);
	for (unsigned k = 1; may_deal(r) && r->instance && k < r->count && !is_found; k++) {
		unsigned i = (from + k) % r->count;
		is_found = now_ns >= r->place[i].again_ns;
		if (is_found)
			aim(r, i, goal);
	}
	pthread_mutex_unlock(&r->lock);
	return is_found;
}

bool route_met(struct route *r, const struct goal *goal, uint64_t instance, uint64_t now_ns)
{
	bool is_it = !goal->instance || goal->instance == instance;

	pthread_mutex_lock(&r->lock);
	unsigned i = find(r, &goal->addr);
	if (i < r->count) {
		meet(&r->place[i], instance);
		if (!is_it)
			put_off(&r->place[i], DOUBLED_MAX, now_ns);
	}
	/* It was started again. */
	if (is_it)
		r->instance = instance;
	pthread_mutex_unlock(&r->lock);
	return is_it;
}

void route_missed(struct route *r, const struct addr *addr, uint64_t now_ns)
{
	pthread_mutex_lock(&r->lock);
	unsigned i = find(r, addr);
	if (i < r->count)
		put_off(&r->place[i], r->place[i].misses++, now_ns);
	pthread_mutex_unlock(&r->lock);
}
