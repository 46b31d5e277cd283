/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A primary's side of a join: JOIN until it is answered, the copy, the wait, the write.  All of
 * it is of one epoch: with the next the copy is given up.
 */
#include "server/cluster/member/join.h"

#include <string.h>

#include "server/cluster/member/act.h"
#include "server/cluster/member/peers.h"

bool member_invite(struct member *m, const char *name, uint64_t now_ns)
{
	if (m->state != MEMBER_SERVING || m->wanted[0] || m->joiner >= 0 || m->epoch_order ||
	    m->known.count == CONFIG_MEMBERS_MAX || !config_is_name(name))
		return false;
	for (unsigned i = 0; i < m->known.count; i++)
		if (!strcmp(m->known.set[i].name, name))
			return false;
	strcpy(m->wanted, name);
	m->wanted_ns = now_ns;
	m->copy = member_number(m);
	return true;
}

void member_give_up_joiner(struct member *m, struct member_actions *actions)
{
	int place = m->joiner;

	m->wanted[0] = 0;
	m->joiner = -1;
	m->is_copied = m->is_naming = false;
	round_include(&m->round, 0, 0);
	if (place < 0 || !actions)
		return;
	m->peers[place] = (struct member_peer){ 0 };
	member_act(actions, MEMBER_AWAIT)->bits = member_set_bits(m);
}

void member_joined(struct member *m, uint64_t now_ns, const char *from,
		   const struct member_message *msg, struct member_actions *actions)
{
	unsigned place;

	if (m->state != MEMBER_SERVING || m->joiner >= 0 || strcmp(m->wanted, from) ||
	    msg->number != m->copy || !msg->from)
		return;
	place = member_free_place(m);
	m->peers[place] = (struct member_peer){ .heard_ns = now_ns };
	strcpy(m->peers[place].id.name, from);
	m->peers[place].id.incarnation = msg->from;
	m->joiner = (int)place;
	round_include(&m->round, 1u << place, now_ns);
	member_act(actions, MEMBER_AWAIT)->bits = member_set_bits(m);
	member_act(actions, MEMBER_BEGUN_BY)->bits = 1u << place;
	struct member_action *a = member_act(actions, MEMBER_COPY);
	a->bits = 1u << place;
	a->number = m->copy;
}

void member_copied(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	if (m->joiner < 0)
		return;
	m->is_copied = true;
	member_tick_joiner(m, now_ns, actions);
}

/* The joiner in the set, or what takes the version that it might yet be named by. */
static void propose(struct member *m, bool is_naming, uint64_t now_ns,
		    struct member_actions *actions)
{
	struct config c = m->known;

	if (is_naming)
		c.set[c.count++] = m->peers[m->joiner].id;
	c.is_handed = false;
	m->is_naming = true;
	member_propose(m, &c, now_ns, actions);
}

void member_tick_joiner(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	if (m->joiner >= 0) {
		const struct member_peer *p = &m->peers[m->joiner];
		bool is_lost = p->is_gone || member_is_silent(m, p->heard_ns, now_ns);

		if (is_lost && !m->is_naming)
			member_give_up_joiner(m, actions);
		else if (member_may_propose(m, now_ns) && (m->is_naming || (m->is_copied &&
			 round_may_grow(&m->round, now_ns))))
			propose(m, !is_lost, now_ns, actions);
	} else if (m->wanted[0] && now_ns >= m->wanted_ns + MEMBER_JOIN_NS) {
		m->wanted[0] = 0;
	} else if (m->wanted[0] && m->round.raised_ns == now_ns) {
		struct config_member to = { .incarnation = 0 };

		strcpy(to.name, m->wanted);
		member_send(m, &to, &(struct member_message){ .kind = MEMBER_JOIN,
			    .number = m->copy }, actions);
	}
}
