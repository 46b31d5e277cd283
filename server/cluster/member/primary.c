/* SPDX-License-Identifier: BSD-2-Clause */
/* Taking over, rounds, leaving somebody out, handing over. */
#include "server/cluster/member/primary.h"

#include <string.h>

#include "server/cluster/member/act.h"
#include "server/cluster/member/join.h"
#include "server/cluster/member/peers.h"

/* ---------------------------------------------------------------- beginning */
static void begin_epoch(struct member *m, struct member_actions *actions)
{
	m->round.raised_ns = 0;
	m->is_settled = false;
	m->is_handing = false;
	m->is_held = false;
	m->hold_order = m->seal_order = m->resolve_order = m->serve_order = 0;
	m->wanted[0] = m->unwanted[0] = 0;
	m->epoch_order = member_order(m, MEMBER_EPOCH, MEMBER_PRIMARY, actions);
}


void member_take_over(struct member *m, bool is_handed, struct member_actions *actions)
{
	m->state = MEMBER_TAKING;
	m->reign = m->known.reign;
	m->wait_ns = is_handed ? 0 : m->promise.until_ns;
	round_reign(&m->round, m->reign);
	begin_epoch(m, actions);
}

void member_go_on(struct member *m, struct member_actions *actions)
{
	if (m->state == MEMBER_LEAVING) {
		m->state = MEMBER_SERVING;
		round_show(&m->round);
	}
	begin_epoch(m, actions);
}

void member_end_reign(struct member *m, struct member_actions *actions)
{
	if (!m->reign)
		return;
	m->reign = 0;
	m->is_handing = m->is_held = false;
	m->hold_order = m->serve_order = 0;
	m->wanted[0] = m->unwanted[0] = 0;
	member_give_up_joiner(m, NULL);
	member_act(actions, MEMBER_STOP);
}

static bool have_all_begun(const struct member *m)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (m->peers[i].id.name[0] && !m->peers[i].is_begun)
			return false;
	return true;
}

static void try_to_serve(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	if (m->state != MEMBER_TAKING || m->epoch_order || m->serve_order || !m->is_settled ||
	    !have_all_begun(m) || now_ns < m->wait_ns)
		return;
	m->serve_order = member_order(m, MEMBER_SERVE, MEMBER_PRIMARY, actions);
}

void member_serve(struct member *m, struct member_actions *actions)
{
	m->serve_order = 0;
	m->state = MEMBER_SERVING;
	m->round.raised_ns = 0;
	member_show_words(m, actions);
}

void member_settled(struct member *m, uint64_t epoch, uint64_t now_ns,
		    struct member_actions *actions)
{
	if (!member_is_primary(m) || epoch != m->known.epoch)
		return;
	m->is_settled = true;
	try_to_serve(m, now_ns, actions);
}

/* ------------------------------------------------------------------- rounds */
/* Whom it is handed to; 0: nobody. */
static uint64_t successor(const struct member *m)
{
	for (unsigned i = 1; m->state == MEMBER_LEAVING && i < m->known.count; i++)
		if (!strcmp(m->known.set[i].name, m->wanted))
			return m->known.set[i].incarnation;
	return 0;
}

static void send_heartbeats(struct member *m, uint64_t number, uint64_t visible,
			    struct member_actions *actions)
{
	const struct member_message msg = { .kind = MEMBER_HEARTBEAT, .number = number,
					    .visible = visible, .next = successor(m) };

	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (m->peers[i].id.name[0])
			member_send(m, &m->peers[i].id, &msg, actions);
}

static void tick_round(struct member *m, uint64_t now_ns, uint64_t visible,
		       struct member_actions *actions)
{
	if (now_ns < m->round.raised_ns + ROUND_NS)
		return;
	if (m->state == MEMBER_TAKING || m->is_handing) {
		m->round.raised_ns = now_ns;
		send_heartbeats(m, 0, visible, actions);
		return;
	}
	round_raise(&m->round, member_set_bits(m), now_ns);
	member_show_words(m, actions);
	send_heartbeats(m, m->round.number, visible, actions);
}

static bool is_silent(const struct member *m, const struct member_peer *p, uint64_t now_ns)
{
	return p->is_gone || member_is_silent(m, p->heard_ns, now_ns);
}

/* All of the several others went at once.  Who hears of anybody, also of a joiner, is not cut off. */
static bool is_alone_too_soon(const struct member *m, uint64_t now_ns)
{
	uint64_t heard_ns = 0;

	if (m->known.count < 3)
		return false;
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++) {
		const struct member_peer *p = &m->peers[i];

		if (p->id.name[0] && !is_silent(m, p, now_ns))
			return false;
		if (p->heard_ns > heard_ns)
			heard_ns = p->heard_ns;
	}
	return !member_is_silent(m, heard_ns + MEMBER_ALONE_NS, now_ns);
}

/* The present configuration without those who are silent, or not wanted; false: there are none. */
static bool without_silent(const struct member *m, uint64_t now_ns, struct config *c)
{
	*c = m->known;
	c->count = 0;
	c->is_handed = false;
	for (unsigned i = 0; i < m->known.count; i++) {
		const struct config_member *id = &m->known.set[i];
		int place = member_place(m, id->name, id->incarnation);

		if (*m->unwanted && !strcmp(id->name, m->unwanted)) {
			c->removed = *id;
			continue;
		}
		if (place < 0 || !is_silent(m, &m->peers[place], now_ns))
			c->set[c->count++] = *id;
	}
	return c->count < m->known.count && !is_alone_too_soon(m, now_ns);
}

/* ------------------------------------------------------------------ handing */
static bool hand_over(const struct member *m, struct config *c)
{
	*c = m->known;
	for (unsigned i = 1; i < c->count; i++)
		if (!strcmp(c->set[i].name, m->wanted)) {
			c->set[0] = m->known.set[i];
			c->set[i] = m->self;
			c->reign = m->known.epoch + 1;
			c->is_handed = true;
			return true;
		}
	return false;
}

static void tick_leaving(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	struct config c;

	if (!m->is_held && !m->hold_order && round_is_forgotten(&m->round, now_ns))
		m->hold_order = member_order(m, MEMBER_HOLD, MEMBER_PRIMARY, actions);
	if (m->is_held && member_may_propose(m, now_ns) && hand_over(m, &c)) {
		m->is_handing = true;
		member_propose(m, &c, now_ns, actions);
	}
}

bool member_promote(struct member *m, const char *name, uint64_t now_ns)
{
	bool is_member = false;

	for (unsigned i = 1; i < m->known.count; i++)
		is_member = is_member || !strcmp(m->known.set[i].name, name);
	if (m->state != MEMBER_SERVING || m->wanted[0] || m->joiner >= 0 || !is_member)
		return false;
	strcpy(m->wanted, name);
	m->state = MEMBER_LEAVING;
	m->round.raised_ns = 0; /* it is told at once */
	round_hide(&m->round, now_ns);
	return true;
}

/* ------------------------------------------------------------------- events */
void member_tick_primary(struct member *m, uint64_t now_ns, uint64_t visible,
			 struct member_actions *actions)
{
	struct config c;

	try_to_serve(m, now_ns, actions);
	tick_round(m, now_ns, visible, actions);
	if (member_may_propose(m, now_ns) && without_silent(m, now_ns, &c)) {
		c.reign = m->reign;
		member_propose(m, &c, now_ns, actions);
	} else if (m->state == MEMBER_LEAVING) {
		tick_leaving(m, now_ns, actions);
	} else if (m->state == MEMBER_SERVING) {
		member_tick_joiner(m, now_ns, actions);
	}
}

/* Of one life: over another connection a question may come later than the next one. */
static bool is_older(uint64_t number, uint64_t than)
{
	return than && than - number - 1 < UINT32_MAX;
}

void member_heard_primary(struct member *m, uint64_t now_ns, const char *from,
			  const struct member_message *msg, struct member_actions *actions)
{
	int place = member_place(m, from, msg->from);

	if (!member_is_primary(m) || msg->epoch != m->known.epoch)
		return;
	if (msg->kind == MEMBER_JOINED) {
		member_joined(m, now_ns, from, msg, actions);
		return;
	}
	if (place < 0)
		return;
	struct member_peer *p = &m->peers[place];
	if (msg->kind == MEMBER_PROMISE && msg->number == MEMBER_REFUSED)
		return; /* as if it were silent: the shard stands still until it is left out */
	p->heard_ns = now_ns;
	p->is_gone = false;
	if (msg->kind == MEMBER_PROMISE) {
		if (msg->number && round_promised(&m->round, 1u << place, msg->number))
			member_show_words(m, actions);
	} else if (msg->kind == MEMBER_OPEN) {
		/* Before its workers have obeyed it does not know itself; it is asked again. */
		if (m->epoch_order || is_older(msg->number, p->question))
			return;
		p->question = msg->number;
		member_send(m, &p->id, &(struct member_message){ .kind = MEMBER_BEGIN,
			    .number = msg->number }, actions);
	} else if (msg->number == p->question && p->question) {
		p->is_begun = true;
		member_act(actions, MEMBER_BEGUN_BY)->bits = 1u << place;
		try_to_serve(m, now_ns, actions);
	}
}

/* ---------------------------------------------------------------- what it may */
bool member_may_answer(const struct member *m, uint64_t now_ns)
{
	return (m->state == MEMBER_SERVING || (m->state == MEMBER_LEAVING && !m->is_handing)) &&
	       round_is_good(&m->round, now_ns);
}

uint64_t member_left_ns(const struct member *m, uint64_t now_ns)
{
	return m->state == MEMBER_SERVING ? round_left_ns(&m->round, now_ns) : 0;
}
