/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/conn/submit.h"

#include <time.h>

/* Up to a month an exptime counts from now, above it is Unix time. */
#define RELATIVE_S_MAX (60 * 60 * 24 * 30)
#define UNIX_S_MAX ((int64_t)(KVD_UNIX_MS_MAX / 1000))

int64_t submit_seconds_left(int64_t exptime)
{
	int64_t left = exptime;

	if (exptime > RELATIVE_S_MAX)
		left -= (int64_t)time(NULL);
	return exptime == 0 ? -1 : left < 0 ? 0 : left;
}

uint64_t submit_unix_ms(int64_t exptime)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (exptime <= 0 || (exptime > RELATIVE_S_MAX && exptime <= (int64_t)now.tv_sec))
		return 0;
	if (exptime > RELATIVE_S_MAX)
		return (uint64_t)(exptime < UNIX_S_MAX ? exptime : UNIX_S_MAX) * 1000;
	return (uint64_t)(exptime + now.tv_sec) * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void set_condition(struct kvd_change *change, const struct request *r)
{
	const struct command *c = &r->command;

	switch (c->verb) {
	case VERB_ADD:
		change->condition = KVD_IF_ABSENT;
		break;
	case VERB_REPLACE:
	case VERB_APPEND:
	case VERB_PREPEND:
		change->condition = KVD_IF_PRESENT;
		break;
	case VERB_CAS:
		change->condition = KVD_IF_VERSION;
		break;
	case VERB_META_SET:
		if (c->meta.mode == 'E')
			change->condition = KVD_IF_ABSENT;
		else if (c->meta.mode == 'R' ||
			 ((c->meta.mode == 'A' || c->meta.mode == 'P') && !c->meta.has_vivify))
			change->condition = KVD_IF_PRESENT;
		break;
	default:
		break;
	}
	if (c->meta.has_cas)
		change->condition = KVD_IF_VERSION;
	change->version = c->cas;
}

/* An exptime as kvd has it; one that is negative is over. */
static void set_expiry(struct kvd_change *change, int64_t exptime)
{
	if (exptime < 0)
		change->expires_unix_ms = 1;
	else if (exptime <= RELATIVE_S_MAX)
		change->ttl_ms = (uint64_t)exptime * 1000;
	else
		change->expires_unix_ms =
			(uint64_t)(exptime < UNIX_S_MAX ? exptime : UNIX_S_MAX) * 1000;
}

static int put(kvd_session *s, struct request *r, struct kvd_change *change)
{
	set_condition(change, r);
	set_expiry(change, r->command.exptime);
	change->flags = r->command.flags;
	if (r->command.meta.invalidates && r->command.meta.has_cas)
		change->options = KVD_OR_STALE;
	return kvd_submit_put_with(s, r->key, r->key_bytes, r->value.at, r->value_bytes, change, r);
}

static int add_to(kvd_session *s, struct request *r, struct kvd_change *change)
{
	bool before = r->command.verb == VERB_PREPEND || r->command.meta.mode == 'P';

	set_condition(change, r);
	if (r->command.meta.has_vivify)
		set_expiry(change, r->command.meta.vivify);
	return (before ? kvd_submit_prepend : kvd_submit_append)(
		s, r->key, r->key_bytes, r->value.at, r->value_bytes, change, r);
}

static int add_number(kvd_session *s, struct request *r, struct kvd_change *change)
{
	const struct command *c = &r->command;
	bool down = c->verb == VERB_DECR || c->meta.mode == 'D';

	set_condition(change, r);
	if (c->meta.has_vivify)
		set_expiry(change, c->meta.vivify);
	return (down ? kvd_submit_decr_u64 : kvd_submit_incr_u64)(
		s, r->key, r->key_bytes, c->delta, c->meta.has_vivify ? &c->meta.initial : NULL,
		change, r);
}

/* A new time to live, or a stale mark, or both. */
static int touch(kvd_session *s, struct request *r, struct kvd_change *change)
{
	const struct command *c = &r->command;
	bool is_delete = c->verb == VERB_META_DELETE;

	if (is_delete) {
		set_condition(change, r);
		change->options = KVD_SET_SIGNS;
		change->signs = KVD_STALE;
	}
	if (is_delete && !c->meta.has_ttl)
		change->options |= KVD_KEEP_TTL;
	else
		set_expiry(change, c->exptime);
	return kvd_submit_touch_with(s, r->key, r->key_bytes, change, r);
}

static int claim(kvd_session *s, struct request *r, struct kvd_change *change)
{
	change->condition = KVD_IF_VERSION;
	change->version = r->version;
	change->options = KVD_KEEP_TTL | KVD_SET_SIGNS;
	change->signs = r->signs | KVD_CLAIMED;
	return kvd_submit_touch_with(s, r->key, r->key_bytes, change, r);
}

static int vivify(kvd_session *s, struct request *r, struct kvd_change *change)
{
	const struct meta *m = &r->command.meta;

	change->condition = KVD_IF_ABSENT;
	change->signs = KVD_CLAIMED;
	set_expiry(change, m->has_ttl ? r->command.exptime : m->vivify);
	return kvd_submit_put_with(s, r->key, r->key_bytes, "", 0, change, r);
}

static int delete(kvd_session *s, struct request *r, struct kvd_change *change)
{
	set_condition(change, r);
	return kvd_submit_del_with(s, r->key, r->key_bytes, change, r);
}

int submit_step(kvd_session *s, struct ticket *ticket)
{
	struct request *r = (struct request *)ticket;
	struct kvd_change change = { .size = sizeof change };

	switch (r->step) {
	case STEP_GET:
	case STEP_LONG:
		return kvd_submit_get(s, r->key, r->key_bytes, r->value.at, r->value.bytes, r);
	case STEP_LOOK:
		return kvd_submit_get(s, r->key, r->key_bytes, NULL, 0, r);
	case STEP_TOUCH:
		return touch(s, r, &change);
	case STEP_CLAIM:
		return claim(s, r, &change);
	case STEP_VIVIFY:
		return vivify(s, r, &change);
	case STEP_PUT:
		return put(s, r, &change);
	case STEP_ADD_TO:
		return add_to(s, r, &change);
	case STEP_COUNT:
		return add_number(s, r, &change);
	case STEP_DELETE:
		return delete(s, r, &change);
	}
	return KVD_EINVAL;
}
