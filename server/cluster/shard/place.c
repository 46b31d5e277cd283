/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member's place in the agreement: BASE/members/NAME says that it is there, as long as it is;
 * BASE/shard-0 is the configuration, which is made by command (admin.h).
 *
 * A primary with fewer in its set than the configuration says invites who is there and not in it,
 * one after the other (server/cluster/member/join.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "server/cluster/agree/zookeeper.h"
#include "server/cluster/link/key.h"
#include "server/cluster/shard/join.h"
#include "server/cluster/shard/place.h"
#include "server/cluster/shard/roster.h"
#include "server/table/index.h"

#define SESSION_MS 4000u
#define TELL_NS 500000000ull  /* between attempts */
#define OPEN_NS 500000000ull  /* the same, of a session behind one that is over */
#define NAME_MAX_BYTES 40u    /* of a cluster, with its slash: paths are limited */
#define LOOK_NS 100000000ull
#define WARN_NS 60000000000ull
#define MEMBER_TEXT "kvd-member 1\nclients %.*s\nincarnation %016" PRIx64 "\nstripes %" PRIu64 "\n" \
		    "keys %" PRIu64 "\n%s%s%s" /* "also", and the other addresses, if any */

/* -------------------------------------------------------------------- that it is there */
static void on_told(void *arg, const struct agree_answer *a)
{
	(void)arg;
	if (a->status != AGREE_DONE && a->status != AGREE_EXISTS && a->status != AGREE_VERSION)
		log_warn("%s", a->why);
}

static void create(struct shard *s, const char *below, const char *text, bool is_ephemeral)
{
	char path[SHARD_PATH_BYTES + CONFIG_NAME_BYTES + 16];

	snprintf(path, sizeof path, "%s%s", s->base, below);
	agree_create(s->keeper.agree, path, text, strlen(text), is_ephemeral, on_told, s);
}

/* What is there already stays, but what a former life of this one said. */
static void tell(struct shard *s)
{
	const struct roster_member *mine = roster_find(&s->roster, s->name);
	char below[CONFIG_NAME_BYTES + 16], path[SHARD_PATH_BYTES + CONFIG_NAME_BYTES + 16], text[512];
	const char *clients = s->options.clients, *also = strchr(clients, ',');
	int first = (int)strcspn(clients, ",");
	int length = snprintf(text, sizeof text, MEMBER_TEXT, first, clients,
			      s->member.self.incarnation, s->options.store->table->stripes,
			      index_keys(s->options.store->index), also ? "also " : "",
			      also ? also + 1 : "", also ? "\n" : "");

	snprintf(below, sizeof below, "/members/%s", s->name);
	if (mine && mine->is_there) {
		snprintf(path, sizeof path, "%s%s", s->base, below);
		agree_write(s->keeper.agree, path, text, (size_t)length, mine->version, on_told, s);
	} else {
		create(s, "", "", false);
		create(s, "/members", "", false);
		create(s, below, text, true);
	}
	roster_want(s);
}

static bool is_told(const struct shard *s)
{
	const struct roster_member *mine = roster_find(&s->roster, s->name);

	return mine && mine->is_there && mine->incarnation == s->member.self.incarnation;
}

/* -------------------------------------------------------------------- the session */
static void on_changed(void *arg, const char *path)
{
	struct shard *s = arg;
	struct agree_events e = keeper_agree_events(&s->keeper);

	e.changed(e.arg, path);
}

static void on_session(void *arg, enum agree_session session)
{
	struct shard *s = arg;
	struct agree_events e = keeper_agree_events(&s->keeper);

	log_info("ZooKeeper at %s: %s", s->servers,
		 session == AGREE_CONNECTED ? "connected" :
		 session == AGREE_OVER ? "the session is over" : "away");
	s->is_over = session == AGREE_OVER;
	s->told_ns = 0;
	roster_want(s);
	e.session(e.arg, session);
}

static int open_session(struct shard *s, struct err *err)
{
	const struct agree_events events = { on_changed, on_session, s };
	const struct agree_zookeeper o = { s->servers, SESSION_MS, s->digest };

	s->is_over = agree_zookeeper_open(&o, &events, &s->keeper.agree, err);
	return s->is_over ? -1 : 0;
}

static int parse(struct shard *s, struct err *err)
{
	const char *all = s->options.agreement, *base = strchr(all, '/');

	if (!base || base == all || !base[1] || strchr(base + 1, '/') ||
	    (size_t)(base - all) >= sizeof s->servers || strlen(base) > NAME_MAX_BYTES)
		return err_set(err, -1, "--cluster %s: give ZooKeeper's addresses and the cluster's name, "
			       "as zk1:2181,zk2:2181/prod", all);
	memcpy(s->servers, all, (size_t)(base - all));
	strcpy(s->base, base);
	snprintf(s->path, sizeof s->path, "%.100s/shard-0", base);
	return 0;
}

int place_open(struct shard *s, struct err *err)
{
	if (parse(s, err))
		return -1;
	key_digest(&s->options.key, s->digest);
	return open_session(s, err);
}

void place_close(struct shard *s)
{
	agree_close(&s->keeper.agree);
}

/* What was not answered: a write is of unknown outcome. */
static void forget_calls(struct shard *s)
{
	const struct keeper_events *e = &s->keeper.events;
	bool was_writing = s->keeper.is_writing;

	s->keeper.is_reading = s->keeper.is_writing = false;
	roster_forget(s);
	if (was_writing)
		e->wrote(e->arg, KEEPER_UNKNOWN, NULL);
}

/* ------------------------------------------------------------------ who may join */
static void warn_of_others(struct shard *s, uint64_t now_ns)
{
	if (now_ns < s->warned_ns + WARN_NS)
		return;
	for (unsigned i = 0; i < s->roster.count; i++)
		if (s->roster.of[i].is_there &&
		    s->roster.of[i].stripes != s->options.store->table->stripes) {
			s->warned_ns = now_ns;
			log_warn("member %s is left out: it has another table: give all the same --memory",
				 s->roster.of[i].name);
		}
}

/* Who was removed by command is not asked, unless it was started again. */
static void invite(struct shard *s, uint64_t now_ns)
{
	const struct roster_member *fit[ROSTER_MAX];
	struct config_member there[ROSTER_MAX];
	unsigned n = roster_fit(s, fit, ROSTER_MAX), count = 0;

	for (unsigned i = 0; i < n; i++) {
		struct config_member *m = &there[count];

		*m = (struct config_member){ .incarnation = fit[i]->incarnation };
		strcpy(m->name, fit[i]->name);
		count += !config_is_same(m, &s->member.known.removed);
	}
	warn_of_others(s, now_ns);
	join_invite(s, there, count);
}

/* Names may have no address for a while: it is tried until there is one. */
static void open_again(struct shard *s, uint64_t now_ns)
{
	struct err err;

	s->opened_ns = now_ns;
	place_close(s);
	forget_calls(s);
	if (open_session(s, &err))
		log_error("%s", err.text);
}

void place_look(struct shard *s, uint64_t now_ns)
{
	if (s->is_over && now_ns >= s->opened_ns + OPEN_NS)
		open_again(s, now_ns);
	if (!s->keeper.agree || now_ns < s->looked_ns + LOOK_NS)
		return;
	s->looked_ns = now_ns;
	keeper_tick(&s->keeper);
	roster_look(s, now_ns);
	if (s->member.is_reached && s->member.self.incarnation && !is_told(s) &&
	    now_ns >= s->told_ns + TELL_NS) {
		s->told_ns = now_ns;
		tell(s);
	}
	if (s->member.is_reached && join_may_invite(s, now_ns))
		invite(s, now_ns);
}
