/* SPDX-License-Identifier: BSD-2-Clause */
/* A member that is not primary: promises, beginnings, the seal, and the way in by a copy. */
#include "server/cluster/member/backup.h"

#include <string.h>

#include "server/cluster/member/act.h"
#include "server/cluster/member/peers.h"

static const struct config_member *primary(const struct member *m)
{
	return &m->known.set[0];
}

/* ---------------------------------------------------------------- taking over */
void member_seal(struct member *m, struct member_actions *actions)
{
	m->state = MEMBER_SEALED;
	m->suspects = false;
	m->epoch_order = m->resolve_order = 0;
	m->seal_order = member_order(m, MEMBER_SEAL, MEMBER_NONE, actions);
}

/* Itself, and all of the set but the one that is gone. */
static void propose_self(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	struct config c = m->known;

	c.reign = m->known.epoch + 1;
	c.is_handed = false;
	c.count = 1;
	c.set[0] = m->self;
	for (unsigned i = 1; i < m->known.count; i++)
		if (!config_is_same(&m->known.set[i], &m->self))
			c.set[c.count++] = m->known.set[i];
	member_propose(m, &c, now_ns, actions);
}

static void ask(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	m->asked = member_number(m);
	m->asked_ns = now_ns;
	m->asks++;
	member_send(m, primary(m), &(struct member_message){ .kind = MEMBER_OPEN,
		    .number = m->asked }, actions);
}

/* After some times twice as long each: of who asks faster than it is answered each answer is too late. */
static bool is_late(const struct member *m, uint64_t least_ns, uint64_t now_ns)
{
	uint64_t ns = m->asks < 4 ? 0 : m->asks > 12 ? MEMBER_ASK_NS_MAX : 1000000ull << (m->asks - 4);

	return now_ns >= m->asked_ns + (ns < least_ns ? least_ns : ns);
}

/*
 * Who seals can't go back, and without the agreement not forth either.  So that is asked first,
 * which may be away though nobody has noticed yet.
 */
static bool is_to_seal(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	bool is_bad = m->is_gone || member_is_silent(m, m->heard_ns, now_ns);

	if (!m->is_reached || m->is_unfit || m->is_cut || !is_bad) {
		m->suspects = false;
		return false;
	}
	if (!m->suspects) {
		m->suspects = true;
		m->is_answered = false;
		member_act(actions, MEMBER_READ);
	}
	return m->is_answered;
}

void member_tick_backup(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	if (m->state == MEMBER_SEALED) {
		if (!m->seal_order && !m->is_forced && m->is_reached && member_may_propose(m, now_ns))
			propose_self(m, now_ns, actions);
		return;
	}
	if (m->state != MEMBER_BACKING || m->epoch_order)
		return;
	if (is_to_seal(m, now_ns, actions))
		member_seal(m, actions);
	else if (!m->is_ready && !m->resolve_order &&
		 (!m->asked || is_late(m, MEMBER_ASK_NS, now_ns)))
		ask(m, now_ns, actions);
}

/* --------------------------------------------------------------------- events */
static void promise(struct member *m, uint64_t number, uint64_t now_ns,
		    const struct config_member *to, struct member_actions *actions)
{
	if (number)
		promise_make(&m->promise, now_ns);
	member_send(m, to, &(struct member_message){ .kind = MEMBER_PROMISE, .number = number },
		    actions);
}

/* It is there, and of no use to this primary: who hears of nothing else leaves it out. */
static void refuse(struct member *m, const struct config_member *to, struct member_actions *actions)
{
	member_send(m, to, &(struct member_message){ .kind = MEMBER_PROMISE, .number = MEMBER_REFUSED },
		    actions);
}

/* Who takes over says that its workers know; a question that came before that has no answer. */
static void ask_again(struct member *m, uint64_t now_ns, const struct member_message *msg,
		      struct member_actions *actions)
{
	if (!msg->number && m->state == MEMBER_BACKING && m->asked && !m->epoch_order && is_late(m, 0, now_ns))
		ask(m, now_ns, actions);
}

static void heartbeat(struct member *m, uint64_t now_ns, const struct config_member *from,
		      const struct member_message *msg, struct member_actions *actions)
{
	struct member_action *a;

	if (m->state == MEMBER_SEALED) {
		refuse(m, from, actions);
		return;
	}
	if (msg->epoch < m->known.epoch) {
		promise(m, 0, now_ns, from, actions);
		return;
	}
	if ((m->state != MEMBER_BACKING && m->state != MEMBER_JOINING) ||
	    !config_is_same(from, primary(m)))
		return;
	m->heard_ns = now_ns;
	m->is_gone = false;
	m->is_next = msg->next && msg->next == m->self.incarnation && m->state == MEMBER_BACKING;
	promise(m, msg->number, now_ns, from, actions);
	ask_again(m, now_ns, msg, actions);
	if (!msg->visible)
		return;
	a = member_act(actions, MEMBER_VISIBLE);
	a->epoch = msg->epoch;
	a->number = msg->visible;
}

static void say_joined(struct member *m, struct member_actions *actions)
{
	member_send(m, primary(m), &(struct member_message){ .kind = MEMBER_JOINED,
		    .number = m->copy }, actions);
}

static void join(struct member *m, uint64_t now_ns, const struct member_message *msg,
		 struct member_actions *actions)
{
	if ((m->state != MEMBER_OUT && m->state != MEMBER_JOINING) ||
	    (m->is_unfit && now_ns < m->heal_ns))
		return;
	if (m->state == MEMBER_JOINING && msg->number == m->copy) {
		if (!m->resolve_order && m->self.incarnation)
			say_joined(m, actions);
		return;
	}
	m->state = MEMBER_JOINING;
	m->is_unfit = false;
	m->copy = msg->number;
	m->heard_ns = now_ns;
	m->is_gone = false;
	m->self.incarnation = 0;
	m->epoch_order = m->resolve_order = m->seal_order = 0;
	member_act(actions, MEMBER_EMPTY);
}

void member_emptied(struct member *m, uint64_t incarnation, uint64_t now_ns,
		    struct member_actions *actions)
{
	if (m->state != MEMBER_JOINING)
		return;
	m->self.incarnation = incarnation;
	m->heard_ns = now_ns;
	member_order(m, MEMBER_EPOCH, MEMBER_BACKUP, actions);
	m->resolve_order = member_order(m, MEMBER_RESOLVE, MEMBER_BACKUP, actions);
}

void member_heard_backup(struct member *m, uint64_t now_ns, const char *name,
			 const struct member_message *msg, struct member_actions *actions)
{
	struct config_member from = { .incarnation = msg->from };

	strncpy(from.name, name, sizeof from.name - 1);
	if (msg->kind == MEMBER_HEARTBEAT) {
		heartbeat(m, now_ns, &from, msg, actions);
		return;
	}
	if (msg->epoch != m->known.epoch || !m->known.count || !config_is_same(&from, primary(m)))
		return;
	if (msg->kind == MEMBER_JOIN) {
		join(m, now_ns, msg, actions);
	} else if (m->state == MEMBER_BACKING && m->asked && msg->number == m->asked) {
		m->asked = 0;
		m->begun = msg->number;
		m->heard_ns = now_ns;
		m->resolve_order = member_order(m, MEMBER_RESOLVE, MEMBER_BACKUP, actions);
		actions->of[actions->count - 1].number = msg->number;
	}
}

void member_obeyed_backup(struct member *m, uint64_t order, uint64_t now_ns,
			  struct member_actions *actions)
{
	if (order == m->epoch_order) {
		m->epoch_order = 0;
		if (m->state == MEMBER_BACKING)
			ask(m, now_ns, actions);
	} else if (order == m->seal_order) {
		m->seal_order = 0;
		member_tick_backup(m, now_ns, actions);
	} else if (order == m->resolve_order) {
		m->resolve_order = 0;
		if (m->state == MEMBER_JOINING) {
			say_joined(m, actions);
		} else if (m->state == MEMBER_BACKING) {
			m->is_ready = true;
			member_send(m, primary(m), &(struct member_message){ .kind = MEMBER_BEGUN,
				    .number = m->begun }, actions);
		}
	}
}
