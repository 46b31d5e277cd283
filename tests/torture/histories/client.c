/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a client does: so many operations of all kinds on the episode's keys, each noted when it
 * begins and when it ends.  Transactions: txn.c; what is done under locks: locked.c.
 */
#include "tests/torture/histories/client.h"

#define BATCH_MAX 4
#define TTL_MS_MAX 8
#define ROOM_BYTES 600 /* most values fit; without room for a large one libkvd READs otherwise */
#define POLLS_MAX 10 /* that fail, one after the other */

uint64_t roll(struct me *me, uint64_t n)
{
	me->random ^= me->random << 13;
	me->random ^= me->random >> 7;
	me->random ^= me->random << 17;
	return me->random % n;
}

size_t key_name(const struct me *me, unsigned key, char name[KEY_BYTES])
{
	return (size_t)snprintf(name, KEY_BYTES, "%llu episode %u key %u",
				(unsigned long long)me->board->seed, me->episode, key);
}

/* ---------------------------------------------------------------------- notes */

struct note *note_begin(struct me *me, enum order_kind kind, unsigned key)
{
	struct note *n = &me->desk->notes[me->desk->count];

	if (me->desk->count == NOTES_MAX)
		die("notes", "too many");
	memset(n, 0, sizeof *n);
	n->op.client = me->number;
	n->op.is_unknown = true;
	n->op.end_ns = ORDER_OPEN;
	n->op.count = 1;
	n->op.parts[0] = (struct order_part){ .kind = (uint8_t)kind, .key = (uint8_t)key };
	n->op.start_ns = now_ns();
	__atomic_store_n(&me->desk->count, me->desk->count + 1, __ATOMIC_RELEASE);
	return n;
}

struct order_part *note_add(struct note *n, enum order_kind kind, unsigned key)
{
	n->op.parts[n->op.count] = (struct order_part){ .kind = (uint8_t)kind, .key = (uint8_t)key };
	return &n->op.parts[n->op.count++];
}

void note_keep(struct me *me, struct note *n, unsigned part, const void *value, size_t bytes)
{
	if (me->desk->used + bytes > BYTES_MAX)
		die("notes", "the values are too long");
	n->from[part] = me->desk->used;
	n->bytes[part] = (uint32_t)bytes;
	memcpy(me->desk->bytes + me->desk->used, value, bytes);
	me->desk->used += (uint32_t)bytes;
}

enum order_result result_of(int rc)
{
	return rc == KVD_NOT_FOUND ? ORDER_NOT_FOUND : rc == KVD_CONDITION ? ORDER_CONDITION :
	       rc == KVD_ENUMBER ? ORDER_ENUMBER : ORDER_OK;
}

bool is_error(struct me *me, int rc)
{
	if (rc >= 0 || rc == KVD_ENUMBER)
		return false;
	me->desk->counts[COUNT_ERRORS]++;
	if (rc != KVD_EUNKNOWN && rc != KVD_ECONNECT && rc != KVD_ETIMEDOUT && rc != KVD_EBUSY &&
	    rc != KVD_ELOST)
		die(kvd_strerror(rc), kvd_session_error(me->session));
	return true;
}

void note_end(struct note *n, uint64_t end_ns)
{
	n->op.end_ns = end_ns;
	__atomic_store_n(&n->op.is_unknown, false, __ATOMIC_RELEASE);
}

bool note_settle(struct me *me, struct note *n, int rc)
{
	uint64_t end_ns = now_ns();

	if (is_error(me, rc)) {
		if (rc != KVD_EUNKNOWN)
			n->is_nothing = true;
		return false;
	}
	n->op.end_ns = end_ns;
	return true;
}

void complete(struct me *me, struct ask *a, const struct answer *answer)
{
	struct note *n = a->note;
	struct order_part *part = &n->op.parts[0];
	bool is_put = part->kind == ORDER_PUT || part->kind == ORDER_TOUCH;

	n->is_nothing = answer->rc == KVD_ESPACE;
	if (n->is_nothing || !note_settle(me, n, answer->rc))
		return;
	part->result = result_of(answer->rc);
	part->tells = answer->version || (is_put && answer->rc == KVD_CONDITION);
	part->version = answer->version;
	part->number = answer->number;
	if (part->kind == ORDER_GET && answer->rc == KVD_OK)
		note_keep(me, n, 0, a->value, answer->bytes);
	if ((part->kind == ORDER_APPEND || part->kind == ORDER_PREPEND) && answer->rc == KVD_OK)
		part->bytes = answer->bytes;
	if (part->tells)
		me->version[part->key] = answer->version;
	note_end(n, n->op.end_ns);
}

/* ------------------------------------------------------------- what is asked */

size_t make_value(struct me *me, char *value, size_t bytes_max)
{
	unsigned size = (unsigned)roll(me, 10);
	size_t bytes = size < 7 ? 0 : size < 9 ? 500 + roll(me, 3000) : 16000 + roll(me, 8000);
	size_t n;

	me->values++;
	if (roll(me, 3) == 0)
		return (size_t)snprintf(value, 40, "%u", me->number * 1000 + me->values * 10);
	n = (size_t)snprintf(value, 40, "c%u.%u;", me->number, me->values);
	for (size_t word = n; n < bytes && n < bytes_max; n++)
		value[n] = value[n - word];
	return n;
}

static void make_change(struct me *me, struct ask *a, unsigned key)
{
	struct order_part *part = &a->note->op.parts[0];
	bool is_conditional = part->kind == ORDER_PUT || part->kind == ORDER_DEL ||
			      part->kind == ORDER_TOUCH;

	a->change = (struct kvd_change){ .size = sizeof a->change };
	if (part->kind != ORDER_DEL && roll(me, 3) == 0)
		a->change.ttl_ms = 1 + roll(me, TTL_MS_MAX);
	if (part->kind == ORDER_PUT && roll(me, 8) == 0)
		a->change.options = KVD_KEEP_TTL;
	if (is_conditional && roll(me, 2)) {
		a->change.condition = 1 + (int)roll(me, 3);
		if (part->kind == ORDER_DEL && a->change.condition == KVD_IF_ABSENT)
			a->change.condition = KVD_IF_VERSION;
	}
	if (a->change.condition == KVD_IF_VERSION)
		a->change.version = me->version[key] ? me->version[key] : 1;
	part->condition = (uint8_t)a->change.condition;
	part->if_version = a->change.version;
	part->ttl_ms = a->change.ttl_ms;
	part->keeps_ttl = a->change.options;
	a->with = &a->change;
}

/* A call of any kind; what it notes is all before it begins. */
static void prepare(struct me *me, struct ask *a)
{
	static const enum order_kind kinds[] = {
		ORDER_GET, ORDER_GET, ORDER_GET, ORDER_GET, ORDER_PUT, ORDER_PUT, ORDER_PUT,
		ORDER_DEL, ORDER_INCR, ORDER_INCR, ORDER_APPEND, ORDER_PREPEND, ORDER_TOUCH,
	};
	enum order_kind kind = kinds[roll(me, sizeof kinds / sizeof *kinds)];
	unsigned key = (unsigned)roll(me, me->board->keys);

	a->note = note_begin(me, kind, key);
	struct order_part *part = &a->note->op.parts[0];
	a->bytes = 0;
	if (kind == ORDER_GET) {
		a->bytes = roll(me, 4) ? ROOM_BYTES : sizeof a->value;
		return;
	}
	make_change(me, a, key);
	if (kind == ORDER_PUT)
		a->bytes = make_value(me, a->value, sizeof a->value);
	if (kind == ORDER_APPEND || kind == ORDER_PREPEND)
		a->bytes = (size_t)sprintf(a->value, "+%u.%u", me->number, ++me->values);
	if (a->bytes)
		note_keep(me, a->note, 0, a->value, a->bytes);
	if (kind == ORDER_INCR) {
		part->delta = 1 + (int64_t)roll(me, 9);
		part->has_initial = roll(me, 2);
		a->initial = part->initial = (int64_t)(me->number * 1000);
	}
}

static int call(struct me *me, struct ask *a, struct answer *answer)
{
	const struct order_part *part = &a->note->op.parts[0];
	const int64_t *initial = part->has_initial ? &a->initial : NULL;
	kvd_session *s = me->session;
	char key[KEY_BYTES];
	size_t n = key_name(me, part->key, key);

	switch (part->kind) {
	case ORDER_GET:
		return kvd_get(s, key, n, a->value, a->bytes, &answer->bytes, &answer->version);
	case ORDER_PUT:
		return kvd_put_with(s, key, n, a->value, a->bytes, a->with, &answer->version);
	case ORDER_DEL:
		return kvd_del_with(s, key, n, a->with, &answer->version);
	case ORDER_INCR:
		return kvd_incr(s, key, n, part->delta, initial, a->with, &answer->number);
	case ORDER_APPEND:
		return kvd_append(s, key, n, a->value, a->bytes, a->with, &answer->bytes);
	case ORDER_PREPEND:
		return kvd_prepend(s, key, n, a->value, a->bytes, a->with, &answer->bytes);
	default:
		return kvd_touch_with(s, key, n, a->with, &answer->version);
	}
}

static int submit(struct me *me, struct ask *a)
{
	const struct order_part *part = &a->note->op.parts[0];
	const int64_t *initial = part->has_initial ? &a->initial : NULL;
	kvd_session *s = me->session;
	char key[KEY_BYTES];
	size_t n = key_name(me, part->key, key);

	a->note->is_submitted = true;
	switch (part->kind) {
	case ORDER_GET:
		return kvd_submit_get(s, key, n, a->value, a->bytes, a);
	case ORDER_PUT:
		return kvd_submit_put_with(s, key, n, a->value, a->bytes, a->with, a);
	case ORDER_DEL:
		return kvd_submit_del_with(s, key, n, a->with, a);
	case ORDER_INCR:
		return kvd_submit_incr(s, key, n, part->delta, initial, a->with, a);
	case ORDER_APPEND:
		return kvd_submit_append(s, key, n, a->value, a->bytes, a->with, a);
	case ORDER_PREPEND:
		return kvd_submit_prepend(s, key, n, a->value, a->bytes, a->with, a);
	default:
		return kvd_submit_touch_with(s, key, n, a->with, a);
	}
}

/* ------------------------------------------------------------ single, several */

static struct ask asks[BATCH_MAX];

static void do_one(struct me *me)
{
	struct answer answer = { .rc = 0 };

	prepare(me, &asks[0]);
	asks[0].note->op.start_ns = now_ns();
	answer.rc = call(me, &asks[0], &answer);
	complete(me, &asks[0], &answer);
}

static void take_completion(struct me *me, const struct kvd_completion *c)
{
	struct ask *a = c->tag;
	struct answer answer = { c->result, 0, c->value_bytes, c->number };
	uint8_t kind = a->note->op.parts[0].kind;

	if (kind != ORDER_DEL && (c->result == KVD_OK || c->result == KVD_CONDITION))
		answer.version = c->version;
	complete(me, a, &answer);
}

static void do_several(struct me *me, unsigned count)
{
	struct kvd_completion c[BATCH_MAX];
	unsigned flying = 0, failed = 0;
	int wait_ms = roll(me, 2) ? -1 : 1; /* what is adrift goes on with either */

	for (unsigned i = 0; i < count; i++) {
		prepare(me, &asks[i]);
		int rc = submit(me, &asks[i]);
		if (rc == KVD_OK)
			flying++;
		else
			asks[i].note->is_nothing = is_error(me, rc);
	}
	while (flying) {
		int n = kvd_poll(me->session, c, BATCH_MAX, wait_ms);
		if (n < 0 && ++failed > POLLS_MAX)
			die("poll", kvd_session_error(me->session));
		for (int i = 0; i < n; i++)
			take_completion(me, &c[i]);
		flying -= n > 0 ? (unsigned)n : 0;
	}
}

/* ------------------------------------------------------------------- episodes */

static void do_any(struct me *me)
{
	unsigned what = (unsigned)roll(me, 20);

	if (what < 10)
		do_one(me);
	else if (what < 12)
		do_several(me, 2 + (unsigned)roll(me, BATCH_MAX - 1));
	else if (what < 15)
		do_transaction(me);
	else if (what < 18)
		do_locked(me);
	else
		nanosleep(&(struct timespec){ .tv_nsec = (long)(500000 * roll(me, 8)) }, NULL);
}

/* What an episode that was judged has left is in nobody's way, but takes memory. */
static void clear_away(struct me *me, unsigned episode)
{
	char name[KEY_BYTES];

	me->episode = episode;
	for (unsigned key = 0; key < KEYS_MAX; key++)
		kvd_del(me->session, name, key_name(me, key, name));
}

static void play(struct me *me, unsigned desk)
{
	if (desk == 0)
		clear_away(me, me->board->episode - 1);
	me->episode = me->board->episode;
	me->random = (me->board->seed * 1000003 + me->episode) * 31 + desk * 7919 + 1;
	for (unsigned i = 0; i < 8; i++)
		roll(me, 2);
	memset(me->version, 0, sizeof me->version);
	while (me->desk->count < me->board->ops)
		do_any(me);
	me->desk->done = me->episode;
}

void client_main(struct board *board, unsigned desk, uint32_t number)
{
	struct me me = { .board = board, .desk = &board->desks[desk], .number = number };
	const struct timespec moment = { .tv_nsec = 50000 };
	kvd_client *client;

	me.session = connect_to(&client);
	while (!board->is_over) {
		if (board->episode == me.desk->done)
			nanosleep(&moment, NULL);
		else
			play(&me, desk);
	}
	hang_up(&me.session, &client);
	fflush(NULL);
	_exit(0);
}
