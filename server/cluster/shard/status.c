/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a shard tells of itself: figures as JSON, and where its members are.  Any thread: all of it
 * is what the shard's thread noted at its last round.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/cluster/replica/lag.h"
#include "server/cluster/shard/impl.h"
#include "server/cluster/shard/join.h"
#include "server/cluster/shard/shard.h"
#include "server/cluster/shard/roster.h"

static const char *const states[] = { "out", "joining", "backup", "sealed", "taking over", "primary",
				      "leaving" };

struct out {
	char *buf;
	size_t used, bytes;
};

static void add(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct out *o, const char *format, ...)
{
	va_list ap;

	if (o->used >= o->bytes)
		return;
	va_start(ap, format);
	o->used += (size_t)vsnprintf(o->buf + o->used, o->bytes - o->used, format, ap);
	va_end(ap);
}

static const char *yes(bool is)
{
	return is ? "true" : "false";
}

/* ------------------------------------------------------------------ one member, as this one sees it */
static const struct member_peer *peer_of(const struct member *m, const char *name)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (!strcmp(m->peers[i].id.name, name))
			return &m->peers[i];
	return NULL;
}

static int place_in_set(const struct config *c, const char *name)
{
	for (unsigned i = 0; i < c->count; i++)
		if (!strcmp(c->set[i].name, name))
			return (int)i;
	return -1;
}

static const char *role_of(const struct member *m, const char *name)
{
	int place = place_in_set(&m->known, name);

	if (place >= 0)
		return place ? "backup" : "primary";
	return m->joiner >= 0 && !strcmp(m->peers[m->joiner].id.name, name) ? "joining" : "out";
}

/* Since it was heard of, in milliseconds; -1: this one does not hear of it. */
static int64_t silent_ms(const struct shard *s, const char *name, uint64_t now_ns)
{
	const struct member *m = &s->seen;
	const struct member_peer *p = peer_of(m, name);
	bool is_mine = !strcmp(name, s->name);
	bool is_my_primary = m->state == MEMBER_BACKING && place_in_set(&m->known, name) == 0;
	uint64_t heard_ns = is_my_primary ? m->heard_ns : p && member_is_primary(m) ? p->heard_ns : 0;

	if (is_mine || !heard_ns)
		return is_mine ? 0 : -1;
	return now_ns > heard_ns ? (int64_t)((now_ns - heard_ns) / 1000000) : 0;
}

static void add_member(struct out *o, const struct shard *s, const char *name,
		       const uint32_t *lag, uint64_t now_ns)
{
	const struct roster_member *r = roster_find(&s->roster, name);
	const struct member_peer *p = peer_of(&s->seen, name);
	int64_t silent = silent_ms(s, name, now_ns);

	add(o, "{\"name\":\"%s\",\"clients\":\"%s\",\"role\":\"%s\",\"there\":%s", name,
	    r ? r->clients : "", role_of(&s->seen, name), yes(r && r->is_there));
	if (silent >= 0)
		add(o, ",\"silent_ms\":%" PRId64, silent);
	if (p && member_is_primary(&s->seen))
		add(o, ",\"lag_records\":%u", lag[p - s->seen.peers]);
	add(o, "}");
}

static void add_members(struct out *o, const struct shard *s, const uint32_t *lag, uint64_t now_ns)
{
	const struct config *c = &s->seen.known;
	const char *comma = "";

	add(o, ",\"members\":[");
	for (unsigned i = 0; i < c->count; i++, comma = ",") {
		add(o, "%s", comma);
		add_member(o, s, c->set[i].name, lag, now_ns);
	}
	for (unsigned i = 0; i < s->roster.count; i++) {
		if (place_in_set(c, s->roster.of[i].name) >= 0)
			continue;
		add(o, "%s", comma);
		add_member(o, s, s->roster.of[i].name, lag, now_ns);
		comma = ",";
	}
	add(o, "]");
}

/* ------------------------------------------------------------------ all */
/* The names, and what this one is; more of it than a line. */
static void add_self(struct out *o, const struct shard *s, uint64_t now_ns)
{
	const struct member *m = &s->seen;
	uint64_t until_ns = member_serves(m) ? m->round.until_ns : 0;

	add(o, "{\"member\":\"%s\",\"state\":\"%s\",\"epoch\":%" PRIu64 ",\"reign\":%" PRIu64
	       ",\"reached\":%s,\"agreement\":\"%s\",\"copies\":%u,\"in_sync\":%u,\"set\":\"", s->name,
	    states[m->state], m->known.epoch, m->known.reign, yes(m->is_reached), s->servers,
	    m->known.copies, m->known.count);
	for (unsigned i = 0; i < m->known.count; i++)
		add(o, "%s%s", i ? " " : "", m->known.set[i].name);
	add(o, "\",\"fit\":%s,\"lease_left_ms\":%" PRIu64 ",\"failovers\":%" PRIu64
	       ",\"failover_seconds\":%.3f", yes(!s->is_unfit),
	    until_ns > now_ns ? (until_ns - now_ns) / 1000000 : 0, s->failovers,
	    (double)s->failover_ns / 1e9);
}

size_t shard_status(struct shard *s, char *buf, size_t bytes)
{
	struct out o = { buf, 0, bytes };
	uint32_t lag[REPLICA_PEERS_MAX];
	uint64_t now_ns = shard_clock_ns();
	char copy[JOIN_STATUS_BYTES];

	replica_lag(s->replica, lag);
	join_status(s, copy);
	pthread_mutex_lock(&s->lock);
	add_self(&o, s, now_ns);
	if (*copy) /* it ends with a comma */
		add(&o, ",%.*s", (int)strlen(copy) - 1, copy);
	add_members(&o, s, lag, now_ns);
	add(&o, "}");
	pthread_mutex_unlock(&s->lock);
	return o.used < bytes ? o.used : 0;
}

void shard_figures(struct shard *s, struct shard_figures *f)
{
	const struct member *m = &s->seen;
	uint32_t lag[REPLICA_PEERS_MAX];
	uint64_t now_ns = shard_clock_ns();

	replica_lag(s->replica, lag);
	pthread_mutex_lock(&s->lock);
	*f = (struct shard_figures){ .epoch = m->known.epoch, .in_sync = m->known.count,
				     .copies = m->known.copies, .failovers = s->failovers,
				     .failover_ns = s->failover_ns, .serves = member_serves(m),
				     .is_reached = m->is_reached, .is_fit = !s->is_unfit };
	if (f->serves && m->round.until_ns > now_ns)
		f->lease_left_ns = m->round.until_ns - now_ns;
	pthread_mutex_unlock(&s->lock);
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++)
		f->lag_records = lag[i] > f->lag_records ? lag[i] : f->lag_records;
}

/* The lock is held. */
static uint32_t heard_us(const struct member *m)
{
	uint64_t now_ns = shard_clock_ns();

	if (m->is_gone || m->heard_ns > now_ns || now_ns - m->heard_ns >= UINT32_MAX * 1000ull)
		return UINT32_MAX;
	return (uint32_t)((now_ns - m->heard_ns) / 1000);
}

/* How many lines. */
static unsigned add_addresses(struct out *o, const struct roster_member *r)
{
	const char *text = r && *r->clients ? r->clients : "-";
	unsigned n = 0;

	for (size_t length; *text; text += length + (text[length] == ','), n++) {
		length = strcspn(text, ",");
		add(o, "%.*s\n", (int)length, text);
	}
	return n;
}

size_t shard_where(struct shard *s, struct shard_where *w, char *buf, size_t bytes)
{
	struct out o = { buf, 0, bytes };

	pthread_mutex_lock(&s->lock);
	*w = (struct shard_where){ .epoch = s->seen.known.epoch, .heard_us = heard_us(&s->seen) };
	for (unsigned i = 0; i < s->seen.known.count; i++) {
		unsigned n = add_addresses(&o, roster_find(&s->roster, s->seen.known.set[i].name));

		if (!i)
			w->ports = (uint16_t)n;
	}
	pthread_mutex_unlock(&s->lock);
	return o.used < bytes ? o.used : 0;
}
