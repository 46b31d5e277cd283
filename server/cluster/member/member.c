/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a member, as configurations make them. */
#include "server/cluster/member/member.h"

#include <string.h>

#include "server/cluster/member/act.h"
#include "server/cluster/member/backup.h"
#include "server/cluster/member/command.h"
#include "server/cluster/member/join.h"
#include "server/cluster/member/peers.h"
#include "server/cluster/member/primary.h"

void member_start(struct member *m, const struct config_member *self, uint64_t life,
		  uint64_t now_ns, struct member_actions *actions)
{
	*m = (struct member){ .self = *self, .life = life, .numbers = life, .joiner = -1 };
	/* A life before this one may have promised just now. */
	promise_make(&m->promise, now_ns);
	member_act(actions, MEMBER_READ);
}

static void be_out(struct member *m, struct member_actions *actions)
{
	member_end_reign(m, actions);
	m->state = MEMBER_OUT;
	m->epoch_order = member_order(m, MEMBER_EPOCH, MEMBER_NONE, actions);
}

static void be_backup(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	member_end_reign(m, actions);
	if (m->is_unfit) {
		member_seal(m, actions); /* it would promise, and acknowledge nothing */
		return;
	}
	m->state = MEMBER_BACKING;
	m->ailing_ns = 0;
	m->heard_ns = now_ns;
	m->is_gone = false;
	m->asked = m->asks = 0;
	m->is_ready = false;
	m->seal_order = m->resolve_order = 0;
	m->epoch_order = member_order(m, MEMBER_EPOCH, MEMBER_BACKUP, actions);
}

/*
 * It is named as primary of a reign that begins there: by itself in this life, or by the one
 * before, while it was a backup in this life.  Otherwise an earlier life of its may have
 * reigned already.
 */
static bool may_begin(const struct member *m, enum member_state was, uint64_t before)
{
	const struct config *c = &m->known;
	bool is_handed = c->is_handed && before + 1 == c->epoch &&
			 (was == MEMBER_BACKING || was == MEMBER_SEALED);

	return c->reign == c->epoch && (c->writer == m->life || is_handed);
}

static void be_primary(struct member *m, enum member_state was, uint64_t before,
		       struct member_actions *actions)
{
	if (m->reign && m->reign == m->known.reign) {
		member_go_on(m, actions);
	} else if (may_begin(m, was, before)) {
		member_end_reign(m, actions);
		member_take_over(m, m->known.is_handed, actions);
	} else {
		member_end_reign(m, actions);
		member_seal(m, actions);
	}
}

void member_config(struct member *m, uint64_t now_ns, const struct config *c,
		   struct member_actions *actions)
{
	uint64_t before = m->known.epoch;

	if (c->epoch == before && m->suspects) {
		m->is_answered = true;
		member_tick_backup(m, now_ns, actions);
	}
	if (c->epoch <= before)
		return;
	m->suspects = false;
	m->known = *c;
	m->write_ns = 0;
	m->is_forced = m->is_next = false;
	member_give_up_joiner(m, NULL);
	member_seat_peers(m, now_ns);
	int mine = config_find(c, &m->self);
	if (mine < 0)
		be_out(m, actions);
	else if (mine == 0)
		be_primary(m, m->state, before, actions);
	else
		be_backup(m, now_ns, actions);
}

void member_wrote(struct member *m, uint64_t now_ns, const struct config *c,
		  struct member_actions *actions)
{
	m->is_writing = false;
	if (c)
		member_config(m, now_ns, c, actions);
	else
		member_act(actions, MEMBER_READ);
}

void member_reached(struct member *m, bool is_reached)
{
	m->is_reached = is_reached;
}

static void be_unfit(struct member *m, bool may_heal, uint64_t now_ns)
{
	uint64_t longer_ns = m->ailing_ns ? 2 * m->ailing_ns : MEMBER_HEAL_NS;

	m->is_unfit = true;
	m->ailing_ns = longer_ns < MEMBER_HEAL_NS_MAX ? longer_ns : MEMBER_HEAL_NS_MAX;
	m->heal_ns = may_heal ? now_ns + m->ailing_ns : UINT64_MAX;
}

void member_failed(struct member *m, bool may_heal, uint64_t now_ns,
		   struct member_actions *actions)
{
	be_unfit(m, may_heal, now_ns);
	if (m->state == MEMBER_OUT || m->state == MEMBER_SEALED)
		return;
	if (m->state == MEMBER_JOINING) {
		be_out(m, actions);
		return;
	}
	member_end_reign(m, actions);
	member_seal(m, actions);
}

void member_expect(struct member *m, uint64_t now_ns)
{
	m->heard_ns = now_ns + MEMBER_CONNECT_NS;
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		m->peers[i].heard_ns = now_ns + MEMBER_CONNECT_NS;
}

bool member_misses(const struct member *m, uint64_t now_ns)
{
	uint64_t half_ns = MEMBER_SILENCE_NS / 2;

	if (m->state == MEMBER_BACKING || m->state == MEMBER_SEALED)
		return m->is_gone || now_ns >= m->heard_ns + half_ns;
	for (unsigned i = 0; member_is_primary(m) && i < MEMBER_PEERS_MAX; i++)
		if (m->peers[i].id.name[0] &&
		    (m->peers[i].is_gone || now_ns >= m->peers[i].heard_ns + half_ns))
			return true;
	return false;
}

void member_cut(struct member *m, bool is_cut, uint64_t now_ns)
{
	if (m->is_cut == is_cut)
		return;
	m->is_cut = is_cut;
	if (is_cut)
		return;
	m->is_gone = false;
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		m->peers[i].is_gone = false;
	member_expect(m, now_ns);
}

void member_polled(struct member *m, uint64_t polled_ns)
{
	m->polled_ns = polled_ns;
}

void member_connected(struct member *m, const char *name)
{
	m->round.raised_ns = 0;
	/* What was asked before went nowhere. */
	if (m->known.count && !strcmp(m->known.set[0].name, name))
		m->asked = 0;
}

void member_lost(struct member *m, const char *name)
{
	if (!m->known.count || strcmp(m->known.set[0].name, name) != 0)
		return;
	/* What it said last may be lost: it asks again. */
	m->is_ready = false;
	m->asked = 0;
}

void member_gone(struct member *m, const char *name)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (!strcmp(m->peers[i].id.name, name))
			m->peers[i].is_gone = true;
	if (m->known.count && !strcmp(m->known.set[0].name, name))
		m->is_gone = true;
	member_lost(m, name);
}

void member_tick(struct member *m, uint64_t now_ns, uint64_t visible,
		 struct member_actions *actions)
{
	if (member_is_primary(m))
		member_tick_primary(m, now_ns, visible, actions);
	else if (m->state == MEMBER_JOINING && m->self.incarnation &&
		 now_ns >= m->heard_ns + MEMBER_JOIN_NS)
		be_out(m, actions);
	else if (m->state == MEMBER_SEALED && m->is_forced)
		member_tick_forced(m, now_ns, actions);
	else
		member_tick_backup(m, now_ns, actions);
}

void member_heard(struct member *m, uint64_t now_ns, const char *from,
		  const struct member_message *msg, struct member_actions *actions)
{
	if (msg->epoch > m->known.epoch) {
		member_act(actions, MEMBER_READ);
		return;
	}
	if (msg->kind != MEMBER_JOIN && msg->to != m->self.incarnation)
		return;
	switch (msg->kind) {
	case MEMBER_HEARTBEAT:
	case MEMBER_BEGIN:
	case MEMBER_JOIN:
		member_heard_backup(m, now_ns, from, msg, actions);
		break;
	case MEMBER_PROMISE:
	case MEMBER_OPEN:
	case MEMBER_BEGUN:
	case MEMBER_JOINED:
		member_heard_primary(m, now_ns, from, msg, actions);
		break;
	}
}

void member_obeyed(struct member *m, uint64_t order, uint64_t now_ns,
		   struct member_actions *actions)
{
	if (order == m->hold_order && order) {
		m->hold_order = 0;
		m->is_held = true;
	} else if (order == m->serve_order && order) {
		member_serve(m, actions);
	} else if (order == m->epoch_order && member_is_primary(m)) {
		m->epoch_order = 0;
		m->round.raised_ns = 0; /* the others may ask now */
	} else {
		member_obeyed_backup(m, order, now_ns, actions);
		if (m->state == MEMBER_SEALED && m->is_forced && !m->seal_order)
			member_tick_forced(m, now_ns, actions);
	}
}
