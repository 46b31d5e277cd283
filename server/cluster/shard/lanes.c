/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A primary's connections to the others: one for each of its workers, and one for the shard's
 * thread.  A member's name is where it listens.  What ended is asked for again, after a while.
 */
#include <string.h>

#include "common/log.h"
#include "server/cluster/shard/lanes.h"

#define AGAIN_NS 50000000ull

static struct lanes *find(struct shard *s, const char *name)
{
	for (unsigned i = 0; i < SHARD_OTHERS; i++)
		if (!strcmp(s->lanes[i].name, name))
			return &s->lanes[i];
	return NULL;
}

static void set(struct shard *s, const char *name, uint32_t lane, enum lane_state state)
{
	struct lanes *l;

	pthread_mutex_lock(&s->lock);
	l = *name && lane < SHARD_LANES ? find(s, name) : NULL;
	if (l)
		l->of[lane].state = state;
	pthread_mutex_unlock(&s->lock);
}

void lanes_are(struct shard *s, const struct link_peer *p, enum lane_state state)
{
	const char *name = link_peer_name(p);

	/* It ended before it said who it is: asked for again when that is late. */
	set(s, name, link_peer_lane(p)->number, state);
}

void lanes_failed(struct shard *s, const struct addr *to, const struct link_lane *lane)
{
	set(s, to->text, lane->number, LANE_NONE);
}

/* One that was asked for and never came up is given up by the link's own time-outs. */
static bool is_over(const struct lanes *l, unsigned lane, uint64_t now_ns)
{
	uint64_t patience_ns = l->of[lane].state == LANE_ASKED
				       ? LINK_CONNECT_NS + LINK_PROVE_NS + AGAIN_NS : AGAIN_NS;

	return l->of[lane].state != LANE_UP && now_ns >= l->of[lane].asked_ns + patience_ns;
}

static bool is_to_be_asked(struct lanes *l, unsigned lane, uint64_t now_ns)
{
	if (!is_over(l, lane, now_ns))
		return false;
	l->of[lane].state = LANE_ASKED;
	l->of[lane].asked_ns = now_ns;
	return true;
}

static void ask(struct shard *s, struct lanes *l, unsigned lane, uint64_t now_ns)
{
	const struct link_lane what = { 0, lane };
	struct addr to;
	struct err err;
	bool is_due;

	pthread_mutex_lock(&s->lock);
	is_due = is_to_be_asked(l, lane, now_ns);
	pthread_mutex_unlock(&s->lock);
	if (!is_due)
		return;
	if (addr_parse(&to, l->name, &err) || link_door_connect(s->door, &to, &what, now_ns, &err)) {
		log_info("%s", err.text);
		set(s, l->name, lane, LANE_NONE);
	}
}

bool lanes_are_up(struct shard *s, const char *name)
{
	struct lanes *l = find(s, name);
	bool are_up = l;

	pthread_mutex_lock(&s->lock);
	for (unsigned lane = 0; are_up && lane <= s->options.worker_count; lane++)
		are_up = l->of[lane].state == LANE_UP;
	pthread_mutex_unlock(&s->lock);
	return are_up;
}

/* -------------------------------------------------------------------- to whom */
static bool is_needed(const struct shard *s, const char *name)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (!strcmp(s->member.peers[i].id.name, name))
			return true;
	return !strcmp(s->member.wanted, name);
}

static void need(struct shard *s, const char *name)
{
	struct lanes *l;

	if (!*name || find(s, name))
		return;
	pthread_mutex_lock(&s->lock);
	l = find(s, "");
	if (l)
		strcpy(l->name, name);
	pthread_mutex_unlock(&s->lock);
}

/*
 * Before its workers are of the epoch a primary can't answer what it is asked at once.  Who is next
 * connects while the leases of the last one run out: changes don't wait for that.
 */
static bool may_ask(const struct shard *s)
{
	const struct member *m = &s->member;

	return member_is_primary(m) ? !m->epoch_order : m->is_next;
}

/*
 * The workers end theirs by themselves; then its place is another's.  Of one that ended before it
 * said who it is nobody hears that.
 */
static void let_go(struct shard *s, struct lanes *l, uint64_t now_ns)
{
	struct link_peer *p = shard_peer(s, l->name);
	bool is_free = true;

	if (p && link_peer_is_asker(p))
		link_peer_close(p, "it is no member any more");
	pthread_mutex_lock(&s->lock);
	for (unsigned lane = 0; lane < SHARD_LANES; lane++)
		is_free = is_free && (l->of[lane].state == LANE_NONE || is_over(l, lane, now_ns));
	if (is_free)
		memset(l, 0, sizeof *l);
	pthread_mutex_unlock(&s->lock);
}

void lanes_keep(struct shard *s, uint64_t now_ns)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		need(s, s->member.peers[i].id.name);
	need(s, s->member.wanted);
	for (unsigned i = 0; i < SHARD_OTHERS; i++) {
		struct lanes *l = &s->lanes[i];

		if (!l->name[0])
			continue;
		if (!is_needed(s, l->name)) {
			let_go(s, l, now_ns);
			continue;
		}
		for (unsigned lane = 0; may_ask(s) && lane <= s->options.worker_count; lane++)
			ask(s, l, lane, now_ns);
	}
}
