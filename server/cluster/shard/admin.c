/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/shard/admin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "server/cluster/member/command.h"
#include "server/cluster/shard/impl.h"
#include "server/cluster/shard/roster.h"
#include "server/table/index.h"

#define MEMBERS_NS 4000000000ull /* for members to come */
#define LIMIT_NS 10000000000ull
#define COPIES_DEFAULT 2u

static const char *name_of(enum admin_what what)
{
	static const char *const names[] = { "", "init", "promote", "remove", "force" };

	return names[what];
}

static void end(struct shard *s, enum admin_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void end(struct shard *s, enum admin_state state, const char *format, ...)
{
	struct admin *a = &s->admin;
	va_list ap;

	pthread_mutex_lock(&s->lock);
	va_start(ap, format);
	vsnprintf(a->text, sizeof a->text, format, ap);
	va_end(ap);
	a->state = state;
	pthread_mutex_unlock(&s->lock);
	log_info("cluster %s: %s", name_of(a->command.what), a->text);
}

static void run(struct shard *s)
{
	pthread_mutex_lock(&s->lock);
	s->admin.state = ADMIN_RUNNING;
	pthread_mutex_unlock(&s->lock);
}

/* ------------------------------------------------------------------ init */
static void on_made(void *arg, const struct agree_answer *answer)
{
	struct shard *s = arg;

	if (answer->status == AGREE_DENIED)
		end(s, ADMIN_FAILED, "ZooKeeper denied it: another key made this cluster's name: %s",
		    answer->why);
	else if (answer->status == AGREE_UNKNOWN)
		log_warn("%s", answer->why); /* the configuration, when it is read, says more */
	keeper_read(&s->keeper);
}

static void lack(struct shard *s, unsigned copies, unsigned fit)
{
	char names[300] = "";
	size_t n = 0;

	for (unsigned i = 0; i < s->roster.count && n < sizeof names; i++)
		n += (size_t)snprintf(names + n, sizeof names - n, "%s %s", i ? "," : "",
				      s->roster.of[i].name);
	end(s, ADMIN_FAILED, "%u copies need as many members with the same --memory, and %u are there "
	    "(those that ZooKeeper lists:%s): start another one, or make it with fewer --copies",
	    copies, fit, names);
}

/* Another one that has keys, of a cluster of before: its disk kept them. */
static const struct roster_member *with_keys(const struct shard *s, const struct roster_member **fit,
					     unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (fit[i]->keys && strcmp(fit[i]->name, s->name))
			return fit[i];
	return NULL;
}

/* Members of one set have the same keys.  Who has any is alone in it: the others are copied to. */
static void make(struct shard *s, unsigned copies, uint64_t now_ns)
{
	const struct roster_member *fit[ROSTER_MAX], *other;
	unsigned n = roster_fit(s, fit, ROSTER_MAX);
	bool has_keys = index_keys(s->options.store->index);
	struct config c = { .epoch = 1, .reign = 1, .writer = s->life, .copies = copies, .count = 1,
			    .set = { s->member.self } };
	char text[CONFIG_TEXT_BYTES];

	if (n < copies && now_ns < s->admin.begun_ns + MEMBERS_NS) {
		roster_want(s);
		return;
	}
	if (n < copies || !roster_find(&s->roster, s->name)) {
		lack(s, copies, n);
		return;
	}
	other = with_keys(s, fit, n);
	if (other && !has_keys) {
		end(s, ADMIN_FAILED, "%s has no keys, and %s has %" PRIu64 " on its disk, which would go: give "
		    "the command to that one (kvcli -s %s cluster init), or empty its folder", s->name,
		    other->name, other->keys, other->clients);
		return;
	}
	for (unsigned i = 0; i < n && c.count < copies && !has_keys; i++) {
		if (!strcmp(fit[i]->name, s->name))
			continue;
		strcpy(c.set[c.count].name, fit[i]->name);
		c.set[c.count++].incarnation = fit[i]->incarnation;
	}
	if (!agree_create(s->keeper.agree, s->path, text, config_print(&c, text), false, on_made, s))
		run(s);
}

/* Tables are empty then, or have what their disks kept: nobody takes a change without a
 * configuration. */
static void init(struct shard *s, uint64_t now_ns)
{
	struct admin *a = &s->admin;
	unsigned copies = a->command.copies ? a->command.copies
			  : s->options.copies ? s->options.copies : COPIES_DEFAULT;
	const struct config *c = &s->member.known;

	if (c->epoch)
		end(s, ADMIN_FAILED, "the cluster is made already: epoch %" PRIu64 ", primary %s",
		    c->epoch, c->set[0].name);
	else if (!s->member.is_reached && now_ns >= a->begun_ns + MEMBERS_NS)
		end(s, ADMIN_FAILED, "ZooKeeper at %s can't be reached from %s: is it running?",
		    s->servers, s->name);
	else if (copies > CONFIG_MEMBERS_MAX)
		end(s, ADMIN_FAILED, "a shard has %u copies at the most", CONFIG_MEMBERS_MAX);
	else if (!s->member.is_reached || s->roster.begun_ns < a->begun_ns)
		roster_want(s);
	else
		make(s, copies, now_ns);
}

static void is_made(struct shard *s)
{
	const struct config *c = &s->member.known;

	if (!c->epoch)
		return;
	if (c->writer == s->life)
		end(s, ADMIN_DONE, "the cluster is made, of %u copies: primary %s%s", c->copies,
		    c->set[0].name, c->count < c->copies ? ", whose keys are copied to the others now" : "");
	else
		end(s, ADMIN_FAILED, "another one made the cluster meanwhile: primary %s",
		    c->set[0].name);
}

/* ------------------------------------------------------------------ promote, remove */
static bool is_in_set(const struct shard *s, const char *name)
{
	for (unsigned i = 0; i < s->member.known.count; i++)
		if (!strcmp(s->member.known.set[i].name, name))
			return true;
	return false;
}

/* False: it was refused. */
static bool may(struct shard *s)
{
	const char *name = s->admin.command.member;

	if (s->member.state != MEMBER_SERVING || s->member.joiner >= 0 || s->member.wanted[0])
		end(s, ADMIN_FAILED, "%s is %s: ask again when that is over", s->name,
		    s->member.state == MEMBER_SERVING ? "copying to a member that joins"
						      : "no primary that serves");
	else if (!s->member.is_reached)
		end(s, ADMIN_FAILED, "ZooKeeper at %s can't be reached from %s: without it nobody's part "
		    "changes", s->servers, s->name);
	else if (!is_in_set(s, name))
		end(s, ADMIN_FAILED, "%s is not in sync: \"kvcli cluster status\" shows who is", name);
	else
		return true;
	return false;
}

static void promote(struct shard *s, uint64_t now_ns)
{
	struct admin *a = &s->admin;

	if (!strcmp(a->command.member, s->name))
		end(s, ADMIN_DONE, "%s is primary as of epoch %" PRIu64, s->name, s->member.reign);
	else if (may(s) && member_promote(&s->member, a->command.member, now_ns))
		run(s);
}

static void remove_one(struct shard *s)
{
	struct admin *a = &s->admin;

	if (!strcmp(a->command.member, s->name))
		end(s, ADMIN_FAILED, "%s is the primary: promote another one first", s->name);
	else if (s->member.known.epoch && !is_in_set(s, a->command.member))
		end(s, ADMIN_DONE, "%s is not in the set", a->command.member);
	else if (may(s) && member_remove(&s->member, a->command.member))
		run(s);
}

static void is_promoted(struct shard *s)
{
	const struct config *c = &s->member.known;

	if (c->epoch == s->admin.epoch)
		return;
	if (!strcmp(c->set[0].name, s->admin.command.member))
		end(s, ADMIN_DONE, "%s is primary as of epoch %" PRIu64, c->set[0].name, c->epoch);
	else
		end(s, ADMIN_FAILED, "%s is not primary: the set changed meanwhile (epoch %" PRIu64
		    "): ask again", s->admin.command.member, c->epoch);
}

static void is_removed(struct shard *s)
{
	if (s->member.known.epoch != s->admin.epoch && !is_in_set(s, s->admin.command.member))
		end(s, ADMIN_DONE, "%s is left out as of epoch %" PRIu64 ", and is not asked in again: "
		    "stop it", s->admin.command.member, s->member.known.epoch);
}

/* ------------------------------------------------------------------ force */
static void force(struct shard *s, uint64_t now_ns)
{
	struct admin *a = &s->admin;
	static _Thread_local struct member_actions actions;

	actions.count = 0;
	if (strcmp(a->command.member, s->name))
		end(s, ADMIN_FAILED, "this is %s, and not %s", s->name, a->command.member);
	else if (!s->member.is_reached)
		end(s, ADMIN_FAILED, "ZooKeeper at %s can't be reached from %s: bring it back first",
		    s->servers, s->name);
	else if (!s->member.known.epoch)
		end(s, ADMIN_FAILED, "there is no configuration: \"kvcli cluster init\" makes one");
	else if (s->member.is_unfit || !s->member.self.incarnation)
		end(s, ADMIN_FAILED, "%s %s: force a member that has them", s->name,
		    s->member.is_unfit ? "lacks changes" : "has no keys");
	else if (!member_force(&s->member, now_ns, &actions))
		end(s, ADMIN_FAILED, "%s is in the set: it takes over by itself when it has to",
		    s->name);
	else
		run(s);
	s->act(s, &actions);
}

static void is_forced(struct shard *s)
{
	if (s->member.state == MEMBER_SERVING)
		end(s, ADMIN_DONE, "%s is primary as of epoch %" PRIu64 ", alone", s->name,
		    s->member.known.epoch);
}

/* ------------------------------------------------------------------ all */
static void begin(struct shard *s, uint64_t now_ns)
{
	struct admin *a = &s->admin;

	if (!a->begun_ns) {
		a->begun_ns = now_ns;
		a->epoch = s->member.known.epoch;
	}
	switch (a->command.what) {
	case ADMIN_INIT: init(s, now_ns); break;
	case ADMIN_PROMOTE: promote(s, now_ns); break;
	case ADMIN_REMOVE: remove_one(s); break;
	case ADMIN_FORCE: force(s, now_ns); break;
	}
}

static void go_on(struct shard *s)
{
	switch (s->admin.command.what) {
	case ADMIN_INIT: is_made(s); break;
	case ADMIN_PROMOTE: is_promoted(s); break;
	case ADMIN_REMOVE: is_removed(s); break;
	case ADMIN_FORCE: is_forced(s); break;
	}
}

static bool is_under_way(const struct admin *a)
{
	return a->state == ADMIN_ASKED || a->state == ADMIN_RUNNING;
}

void admin_look(struct shard *s, uint64_t now_ns)
{
	struct admin *a = &s->admin;
	enum admin_state state;

	pthread_mutex_lock(&s->lock);
	state = a->state;
	pthread_mutex_unlock(&s->lock);
	if (state == ADMIN_ASKED)
		begin(s, now_ns);
	else if (state == ADMIN_RUNNING)
		go_on(s);
	else
		return; /* one may be asked for meanwhile: in the next round */
	if (is_under_way(a) && now_ns >= a->begun_ns + LIMIT_NS)
		end(s, ADMIN_FAILED, "it is not done after %llu s, and may be yet: \"kvcli cluster "
		    "status\" says what became of it", LIMIT_NS / 1000000000ull);
}

/* Only a primary knows who has what: others don't write for it. */
static bool is_for_primary(const struct shard *s, const struct admin_command *c)
{
	return (c->what == ADMIN_PROMOTE || c->what == ADMIN_REMOVE) &&
	       !member_is_primary(&s->seen) && s->seen.known.epoch;
}

enum admin_state admin_command(struct shard *s, const struct admin_command *c, char *text,
			       size_t text_bytes)
{
	struct admin *a = &s->admin;
	enum admin_state state = ADMIN_RUNNING;

	*text = 0;
	pthread_mutex_lock(&s->lock);
	if (a->command.id == c->id && a->state != ADMIN_NONE) {
		state = a->state == ADMIN_ASKED ? ADMIN_RUNNING : a->state;
		snprintf(text, text_bytes, "%s", a->text);
	} else if (is_for_primary(s, c)) {
		state = ADMIN_NONE;
	} else if (is_under_way(a)) {
		state = ADMIN_FAILED;
		snprintf(text, text_bytes, "\"cluster %s\" is under way: wait for it",
			 name_of(a->command.what));
	} else {
		*a = (struct admin){ .command = *c, .state = ADMIN_ASKED };
	}
	pthread_mutex_unlock(&s->lock);
	shard_wake(s);
	return state;
}
