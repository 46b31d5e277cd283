/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A look: the names below BASE/members, then one record after the other.  What was asked is
 * answered, or the session ends.  A member of the set that is gone stays known, for those who ask
 * where it was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/cluster/shard/impl.h"
#include "server/cluster/shard/roster.h"

#define LOOK_NS 1000000000ull
#define MEMBER_SCAN "kvd-member 1 clients %63s incarnation %16" SCNx64 " stripes %" SCNu64 \
		    " keys %" SCNu64 " also %191s"
#define RECORD_BYTES 512u

const struct roster_member *roster_find(const struct roster *r, const char *name)
{
	for (unsigned i = 0; i < r->count; i++)
		if (!strcmp(r->of[i].name, name))
			return &r->of[i];
	return NULL;
}

unsigned roster_fit(const struct shard *s, const struct roster_member **fit, unsigned max)
{
	uint64_t stripes = s->options.store->table->stripes;
	unsigned n = 0;

	for (unsigned i = 0; i < s->roster.count && n < max; i++)
		if (s->roster.of[i].is_there && s->roster.of[i].stripes == stripes)
			fit[n++] = &s->roster.of[i];
	return n;
}

static bool is_of_set(const struct shard *s, const char *name)
{
	for (unsigned i = 0; i < s->member.known.count; i++)
		if (!strcmp(s->member.known.set[i].name, name))
			return true;
	return false;
}

/* ------------------------------------------------------------------ a look */
static void finish(struct shard *s)
{
	struct roster *next = &s->looking;

	for (unsigned i = 0; i < s->roster.count && next->count < ROSTER_MAX; i++) {
		const struct roster_member *m = &s->roster.of[i];

		if (!is_of_set(s, m->name) || roster_find(next, m->name))
			continue;
		next->of[next->count] = *m;
		next->of[next->count++].is_there = false;
	}
	pthread_mutex_lock(&s->lock);
	s->roster = *next;
	pthread_mutex_unlock(&s->lock);
	s->is_looking = false;
}

static void read_next(struct shard *s);

static bool take(struct roster_member *m, const struct agree_answer *a)
{
	char text[RECORD_BYTES], also[ROSTER_CLIENTS_BYTES] = "";
	size_t length;
	int n;

	if (a->status != AGREE_DONE || a->length >= sizeof text)
		return false;
	memcpy(text, a->bytes, a->length);
	text[a->length] = 0;
	m->version = a->version;
	m->is_there = true;
	/* Of an earlier version it does not say how many keys it has: its table began empty. */
	n = sscanf(text, MEMBER_SCAN, m->clients, &m->incarnation, &m->stripes, &m->keys, also);
	length = strlen(m->clients);
	if (*also)
		snprintf(m->clients + length, sizeof m->clients - length, ",%s", also);
	return n >= 3;
}

/* The next of the names is read into its place; what can't be used leaves it. */
static void on_member(void *arg, const struct agree_answer *a)
{
	struct shard *s = arg;
	struct roster *next = &s->looking;

	if (take(&next->of[next->count], a))
		next->count++;
	else
		next->of[next->count] = next->of[--s->names];
	read_next(s);
}

static void read_next(struct shard *s)
{
	char path[SHARD_PATH_BYTES + CONFIG_NAME_BYTES + 16];

	if (s->looking.count == s->names) {
		finish(s);
		return;
	}
	snprintf(path, sizeof path, "%s/members/%s", s->base, s->looking.of[s->looking.count].name);
	s->is_looking = !agree_read(s->keeper.agree, path, false, on_member, s);
}

static void on_names(void *arg, const struct agree_answer *a)
{
	struct shard *s = arg;

	s->names = 0;
	s->is_looking = a->status == AGREE_DONE;
	for (unsigned i = 0; s->is_looking && i < a->count && s->names < ROSTER_MAX; i++)
		if (config_is_name(a->names[i]))
			snprintf(s->looking.of[s->names++].name, CONFIG_NAME_BYTES, "%s", a->names[i]);
	if (s->is_looking)
		read_next(s);
}

void roster_look(struct shard *s, uint64_t now_ns)
{
	char path[SHARD_PATH_BYTES + 16];

	if (!s->keeper.agree || !s->member.is_reached || s->is_looking ||
	    now_ns < s->looking.begun_ns + LOOK_NS)
		return;
	memset(&s->looking, 0, sizeof s->looking);
	s->looking.begun_ns = now_ns;
	snprintf(path, sizeof path, "%s/members", s->base);
	s->is_looking = !agree_list(s->keeper.agree, path, on_names, s);
}

void roster_want(struct shard *s)
{
	if (!s->is_looking)
		s->looking.begun_ns = 0;
}

void roster_forget(struct shard *s)
{
	s->is_looking = false;
	s->looking.begun_ns = 0;
}
