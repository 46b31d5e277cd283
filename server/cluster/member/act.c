/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/member/act.h"

#include <assert.h>
#include <string.h>

#include "server/cluster/member/peers.h"

struct member_action *member_act(struct member_actions *actions, enum member_action_kind kind)
{
	assert(actions->count < MEMBER_ACTIONS_MAX);
	struct member_action *a = &actions->of[actions->count++];

	memset(a, 0, sizeof *a);
	a->kind = kind;
	return a;
}

uint64_t member_number(struct member *m)
{
	m->numbers += m->numbers == ~0ull ? 2 : 1; /* never 0 */
	return m->numbers;
}

uint64_t member_order(struct member *m, enum member_action_kind kind, enum member_role role,
		      struct member_actions *actions)
{
	struct member_action *a = member_act(actions, kind);

	a->order = member_number(m);
	a->epoch = m->known.epoch;
	a->reign = m->known.reign;
	a->role = role;
	a->bits = role == MEMBER_PRIMARY ? member_set_bits(m) : 0;
	return a->order;
}

void member_send(struct member *m, const struct config_member *to,
		 const struct member_message *message, struct member_actions *actions)
{
	struct member_action *a = member_act(actions, MEMBER_SEND);

	memcpy(a->peer, to->name, sizeof a->peer);
	a->message = *message;
	a->message.epoch = m->known.epoch;
	a->message.from = m->self.incarnation;
	a->message.to = message->kind == MEMBER_JOIN ? 0 : to->incarnation;
}

void member_show_words(struct member *m, struct member_actions *actions)
{
	member_act(actions, MEMBER_WORDS)->words = m->round.words;
}

bool member_may_propose(const struct member *m, uint64_t now_ns)
{
	return !m->is_writing && now_ns >= m->write_ns && !m->is_unfit && !m->is_cut &&
	       m->known.epoch < (uint64_t)INT32_MAX;
}

void member_propose(struct member *m, struct config *c, uint64_t now_ns,
		    struct member_actions *actions)
{
	c->epoch = m->known.epoch + 1;
	c->writer = m->life;
	m->is_writing = true;
	m->write_ns = now_ns + MEMBER_RETRY_NS;
	member_act(actions, MEMBER_WRITE)->config = *c;
}
