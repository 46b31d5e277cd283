/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the shards' threads of two members say to each other, over lane 0.  A question (OPEN) is
 * sent in parts: the next one when the one before was answered.
 */
#include <string.h>

#include "common/log.h"
#include "server/cluster/shard/impl.h"
#include "server/cluster/shard/lanes.h"
#include "server/cluster/shard/speak.h"
#include "server/store/item/clock.h"

/* -------------------------------------------------------------------- who is there */
static void up(void *arg, struct link_peer *p)
{
	struct shard *s = arg;
	unsigned i = 0;

	while (i < LINK_PEERS_MAX && s->peers[i])
		i++;
	if (i == LINK_PEERS_MAX) {
		link_peer_close(p, "there are too many connections with other members");
		return;
	}
	s->peers[i] = p;
	log_info("connected with member %s", link_peer_name(p));
	if (link_peer_is_asker(p))
		lanes_are(s, p, LANE_UP);
	member_connected(&s->member, link_peer_name(p));
}

static void down(void *arg, struct link_peer *p, const char *why)
{
	struct shard *s = arg;

	log_info("%s", why);
	for (unsigned i = 0; i < LINK_PEERS_MAX; i++)
		if (s->peers[i] == p)
			s->peers[i] = NULL;
	if (link_peer_is_asker(p))
		lanes_are(s, p, LANE_NONE);
	if (!link_peer_name(p)[0])
		return;
	if (shard_peer(s, link_peer_name(p)))
		member_lost(&s->member, link_peer_name(p));
	else
		member_gone(&s->member, link_peer_name(p));
}

/* -------------------------------------------------------------------- out */
/* NULL: nobody is there, or too much waits: all of it is said again. */
static struct link_peer *begin(struct shard *s, const char *peer, struct link_writer *w,
			       const struct member_message *m)
{
	struct link_peer *p = shard_peer(s, peer);
	void *memory = p ? link_peer_reserve(p) : NULL;

	if (!memory)
		return NULL;
	link_begin(w, memory, (enum link_kind)m->kind, m->epoch, m->from, m->to, m->number);
	return p;
}

static void put_body(struct shard *s, struct link_writer *w, const struct member_message *m)
{
	const struct link_pulse pulse = { m->visible, store_clock_ms(s->options.store) };

	if (m->kind == MEMBER_HEARTBEAT || m->kind == MEMBER_PROMISE)
		link_put_pulse(w, &pulse);
	if (m->kind == MEMBER_HEARTBEAT && m->next)
		link_put_number(w, m->next);
	else if (m->kind == MEMBER_OPEN)
		replica_put_question(s->replica, w);
}

void speak_send(struct shard *s, const struct member_action *a)
{
	const struct member_message *m = &a->message;
	struct link_writer w;
	struct link_peer *p;

	if (m->kind == MEMBER_OPEN && !replica_ask(s->replica, m->number))
		return;
	/* Who joins is awaited at once: nobody waits for connections then. */
	if (m->kind == MEMBER_JOIN && !lanes_are_up(s, a->peer))
		return;
	p = begin(s, a->peer, &w, m);
	if (!p)
		return;
	put_body(s, &w, m);
	if (m->kind == MEMBER_BEGIN && !(s->asked && replica_answer(s->replica, s->asked, &w))) {
		link_peer_close(p, "it asked for what can't be: do both have the same --memory?");
		return;
	}
	link_peer_send(p, link_length(&w));
}

/* -------------------------------------------------------------------- in */
static void ask_on(struct shard *s, const struct link_peer *from, const struct member_message *m)
{
	const struct member_message next = { .kind = MEMBER_OPEN, .epoch = m->epoch, .from = m->to,
					     .to = m->from, .number = m->number };
	struct link_writer w;
	struct link_peer *p = begin(s, link_peer_name(from), &w, &next);

	if (!p)
		return;
	put_body(s, &w, &next);
	link_peer_send(p, link_length(&w));
	s->member.asked_ns = shard_clock_ns();
}

/* Whether it is one of the kinds, and whole. */
static bool take(struct member_message *m, struct link_reader *r)
{
	const struct link_header *h = r->header;
	const struct link_pulse *pulse;
	const uint64_t *next;

	*m = (struct member_message){ .kind = (enum member_message_kind)h->kind, .epoch = h->epoch,
				      .from = h->from, .to = h->to, .number = h->number };
	if (m->kind < MEMBER_HEARTBEAT || m->kind > MEMBER_JOINED)
		return false;
	if (m->kind != MEMBER_HEARTBEAT && m->kind != MEMBER_PROMISE)
		return true;
	pulse = link_next_pulse(r);
	if (pulse)
		m->visible = pulse->visible;
	next = m->kind == MEMBER_HEARTBEAT ? link_next_number(r) : NULL;
	if (next)
		m->next = *next;
	return pulse;
}

static void message(void *arg, struct link_peer *p, struct link_reader *r)
{
	struct shard *s = arg;
	static _Thread_local struct member_actions actions;
	struct member_message m;

	if (!take(&m, r)) {
		link_peer_close(p, "it sent a shard's thread what is not for one");
		return;
	}
	if (m.kind == MEMBER_BEGIN && m.epoch == s->member.known.epoch &&
	    m.number == s->member.asked) {
		enum replica_answered answered = replica_answered(s->replica, r);

		if (answered == REPLICA_ANSWERED_PART)
			ask_on(s, p, &m);
		if (answered != REPLICA_ANSWERED_WHOLE)
			return;
	}
	s->asked = m.kind == MEMBER_OPEN ? r : NULL;
	actions.count = 0;
	member_heard(&s->member, shard_clock_ns(), link_peer_name(p), &m, &actions);
	s->act(s, &actions);
	s->asked = NULL;
}

struct link_events speak_events(struct shard *s)
{
	return (struct link_events){ .up = up, .message = message, .down = down, .arg = s };
}
