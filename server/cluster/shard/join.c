/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies.  The joiner may die, stand still or be slow: the primary's own clients wait for it no
 * longer than LACK_NS and what a long value takes.  Who was given up is not invited again at once.
 */
#include "server/cluster/shard/join.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "common/log.h"
#include "server/cluster/member/act.h"
#include "server/cluster/member/backup.h"
#include "server/cluster/member/join.h"
#include "server/cluster/shard/crew.h"
#include "server/durable/durable.h"
#include "server/table/index.h"

#define LACK_NS 1000000000ull     /* a record, or a copy, is with the joiner within that */
#define LACK_BYTES_S (32u << 20)  /* and so much longer if it is long */
#define PAUSE_NS 2000000000ull
#define TELL_NS 5000000000ull
#define INVITE_NS 300000000ull

uint64_t join_draw(void)
{
	uint64_t n = 0;

	if (getrandom(&n, sizeof n, 0) != sizeof n || !n)
		n = shard_clock_ns();
	return n;
}

static void wake(void *arg)
{
	shard_wake(arg);
}

void join_init(struct shard *s)
{
	durable_port_init(&s->joining.wiped, wake, s);
}

/* -------------------------------------------------------------------- the joiner's side */
void join_empty(struct shard *s)
{
	struct replica_order o = { .kind = REPLICA_EMPTY };

	/* Nothing was put in since: what is under way does for this copy, too. */
	if (s->joining.emptying)
		return;
	log_info("joining: %s copies the shard to this member, whose own %" PRIu64 " keys go",
		 s->member.known.set[0].name, index_keys(s->options.store->index));
	s->joining.emptying = member_number(&s->member);
	pthread_mutex_lock(&s->lock);
	s->is_unfit = false;
	pthread_mutex_unlock(&s->lock);
	crew_order(s, &o, s->joining.emptying);
}

static void begin_anew(struct shard *s, uint64_t incarnation, struct member_actions *actions)
{
	s->joining.emptying = 0;
	member_emptied(&s->member, incarnation, shard_clock_ns(), actions);
}

bool join_emptied(struct shard *s, uint64_t number, struct member_actions *actions)
{
	struct durable *d = s->options.store->durable;

	if (!number || number != s->joining.emptying)
		return false;
	if (!d) {
		begin_anew(s, join_draw(), actions);
		return true;
	}
	s->joining.wipe = (struct durable_op){ .port = &s->joining.wiped, .wipe = join_draw() };
	durable_submit(d, &s->joining.wipe);
	return true;
}

bool join_wiped(struct shard *s, struct member_actions *actions)
{
	struct durable_op *op = durable_port_take(&s->joining.wiped);

	if (!op)
		return false;
	if (op->result == DURABLE_WRITTEN) {
		begin_anew(s, op->wipe, actions);
		return true;
	}
	s->joining.emptying = 0;
	shard_say(s, "its disk can't be emptied for the copy");
	return true;
}

/* -------------------------------------------------------------------- who may join */
bool join_may_invite(const struct shard *s, uint64_t now_ns)
{
	const struct member *m = &s->member;

	return m->state == MEMBER_SERVING && m->known.count < m->known.copies &&
	       !m->wanted[0] && m->joiner < 0 && now_ns >= s->joining.pause_ns &&
	       now_ns >= s->joining.invited_ns + INVITE_NS;
}

static bool is_in_set(const struct shard *s, const char *name)
{
	for (unsigned i = 0; i < s->member.known.count; i++)
		if (!strcmp(s->member.known.set[i].name, name))
			return true;
	return false;
}

/* Each in turn: one that is dead, whose node is there still, is in nobody's way. */
void join_invite(struct shard *s, const struct config_member *there, unsigned count)
{
	struct joining *j = &s->joining;
	uint64_t now_ns = shard_clock_ns();

	if (!join_may_invite(s, now_ns))
		return;
	j->invited_ns = now_ns;
	for (unsigned i = 0; i < count; i++) {
		const char *name = there[(j->turn + i) % count].name;

		if (is_in_set(s, name))
			continue;
		j->turn = (j->turn + i + 1) % count;
		if (member_invite(&s->member, name, now_ns))
			log_debug("inviting member %s", name);
		return;
	}
}

/* -------------------------------------------------------------------- the primary's */
static unsigned percent(const struct replica_progress *p)
{
	return p->keys < p->of ? (unsigned)(p->keys * 100 / p->of) : 100;
}

static void tell_begun(struct shard *s, uint64_t now_ns)
{
	struct joining *j = &s->joining;

	strcpy(j->name, s->member.peers[s->member.joiner].id.name);
	j->is_told = true;
	j->began_ns = j->told_ns = now_ns;
	j->lacking = 0;
	log_info("copying the shard to member %s: about %" PRIu64 " keys", j->name,
		 index_keys(s->options.store->index));
}

/* It is of the set now, or was given up. */
static void tell_ended(struct shard *s, uint64_t now_ns)
{
	struct joining *j = &s->joining;
	bool is_in = false;

	j->is_told = false;
	for (unsigned i = 0; i < s->member.known.count; i++)
		is_in = is_in || !strcmp(s->member.known.set[i].name, j->name);
	if (is_in) {
		log_info("member %s is of the set, %" PRIu64 " ms after its copy was begun", j->name,
			 (now_ns - j->began_ns) / 1000000);
		return;
	}
	j->pause_ns = now_ns + PAUSE_NS;
	log_warn("the copy to member %s is given up: it is gone or too slow, or the set is another "
		 "now; it is made anew when that one is there", j->name);
}

static void tell_how_far(struct shard *s, uint64_t now_ns)
{
	struct joining *j = &s->joining;
	struct replica_progress p;

	if (now_ns < j->told_ns + TELL_NS || !replica_progress(s->replica, &p))
		return;
	j->told_ns = now_ns;
	log_info("copying to member %s: %" PRIu64 " of about %" PRIu64 " keys, %" PRIu64
		 " bytes, %u %%", j->name, p.keys, p.of, p.bytes, percent(&p));
}

/* What the joiner lacks, changes wait for. */
static void look_for_lack(struct shard *s, uint64_t now_ns)
{
	struct joining *j = &s->joining;
	uint64_t bytes = 0, number;

	number = replica_lacking(s->replica, 1u << s->member.joiner, &bytes);
	if (!number || number != j->lacking) {
		j->lacking = number;
		j->lacking_ns = now_ns;
	} else if (now_ns >= j->lacking_ns + LACK_NS + bytes * 1000000000 / LACK_BYTES_S) {
		log_warn("member %s takes nothing of the copy, which changes wait for", j->name);
		member_gone(&s->member, j->name);
	}
}

void join_tick(struct shard *s, uint64_t now_ns, struct member_actions *actions)
{
	struct member *m = &s->member;

	if (m->joiner < 0) {
		if (s->joining.is_told)
			tell_ended(s, now_ns);
		return;
	}
	if (!s->joining.is_told)
		tell_begun(s, now_ns);
	tell_how_far(s, now_ns);
	look_for_lack(s, now_ns);
	if (replica_is_spoiled(s->replica, m->copy)) {
		log_warn("the disk took no change that member %s has: its copy is given up", s->joining.name);
		member_gone(m, s->joining.name);
	}
	if (m->is_copied)
		return;
	if (replica_is_copied(s->replica, m->copy))
		member_copied(m, now_ns, actions);
	else
		crew_wake(s); /* what waits for its time, or for a stripe */
}

void join_status(struct shard *s, char text[JOIN_STATUS_BYTES])
{
	struct replica_progress p;
	bool is_made = replica_progress(s->replica, &p);

	*text = 0;
	pthread_mutex_lock(&s->lock);
	if (is_made && s->seen.joiner >= 0)
		snprintf(text, JOIN_STATUS_BYTES, "\"copy\":{\"to\":\"%s\",\"keys\":%" PRIu64
			 ",\"of\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"percent\":%u},",
			 s->seen.peers[s->seen.joiner].id.name, p.keys, p.of, p.bytes, percent(&p));
	pthread_mutex_unlock(&s->lock);
}
