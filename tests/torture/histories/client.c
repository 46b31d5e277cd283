/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a client does: so many operations of all kinds on the episode's keys, each noted when it
 * begins and when it ends.
 */
#include "tests/torture/histories/histories.h"

#define BATCH_MAX 4
#define KEY_BYTES 64
#define TXN_KEYS 3
#define TTL_MS_MAX 8
#define ROOM_BYTES 600 /* most values fit; without room for a large one libkvd READs otherwise */
#define POLLS_MAX 10 /* that fail, one after the other */

/* One call: what it asks, and where its value goes. */
struct ask {
	struct note *note;
	struct kvd_change change;
	struct kvd_change *with; /* NULL: none */
	size_t bytes; /* of a GET: the room that it has */
	int64_t initial;
	char value[VALUE_BYTES_MAX];
};

struct answer {
	int rc;
	uint64_t version;
	size_t bytes;
	int64_t number;
};

struct me {
	struct board *board;
	struct desk *desk;
	uint32_t number; /* no other process's */
	unsigned episode;
	uint32_t values, locks;
	uint64_t random;
	uint64_t version[ORDER_KEYS_MAX]; /* that it last saw; 0: none */
	kvd_session *session;
};

static uint64_t roll(struct me *me, uint64_t n)
{
	me->random ^= me->random << 13;
	me->random ^= me->random >> 7;
	me->random ^= me->random << 17;
	return me->random % n;
}

static size_t key_name(const struct me *me, unsigned key, char name[KEY_BYTES])
{
	return (size_t)snprintf(name, KEY_BYTES, "%llu episode %u key %u",
				(unsigned long long)me->board->seed, me->episode, key);
}

/* ---------------------------------------------------------------------- notes */

static struct note *begin(struct me *me, enum order_kind kind, unsigned key)
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

static struct order_part *add(struct note *n, enum order_kind kind, unsigned key)
{
	n->op.parts[n->op.count] = (struct order_part){ .kind = (uint8_t)kind, .key = (uint8_t)key };
	return &n->op.parts[n->op.count++];
}

static void keep(struct me *me, struct note *n, unsigned part, const void *value, size_t bytes)
{
	if (me->desk->used + bytes > BYTES_MAX)
		die("notes", "the values are too long");
	n->from[part] = me->desk->used;
	n->bytes[part] = (uint32_t)bytes;
	memcpy(me->desk->bytes + me->desk->used, value, bytes);
	me->desk->used += (uint32_t)bytes;
}

static enum order_result result_of(int rc)
{
	return rc == KVD_NOT_FOUND ? ORDER_NOT_FOUND : rc == KVD_CONDITION ? ORDER_CONDITION :
	       rc == KVD_ENUMBER ? ORDER_ENUMBER : ORDER_OK;
}

/* Errors that a kvd that lives on, with others at the same keys, may give. */
static bool is_error(struct me *me, int rc)
{
	if (rc >= 0 || rc == KVD_ENUMBER)
		return false;
	me->desk->counts[COUNT_ERRORS]++;
	if (rc != KVD_EUNKNOWN && rc != KVD_ECONNECT && rc != KVD_ETIMEDOUT && rc != KVD_EBUSY &&
	    rc != KVD_ELOST)
		die(kvd_strerror(rc), kvd_session_error(me->session));
	return true;
}

/* With this the operation is known: last. */
static void ended(struct note *n, uint64_t end_ns)
{
	n->op.end_ns = end_ns;
	__atomic_store_n(&n->op.is_unknown, false, __ATOMIC_RELEASE);
}

/* False: it failed, which is noted. */
static bool settle(struct me *me, struct note *n, int rc)
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

static void complete(struct me *me, struct ask *a, const struct answer *answer)
{
	struct note *n = a->note;
	struct order_part *part = &n->op.parts[0];
	bool is_put = part->kind == ORDER_PUT || part->kind == ORDER_TOUCH;

	n->is_nothing = answer->rc == KVD_ESPACE;
	if (n->is_nothing || !settle(me, n, answer->rc))
		return;
	part->result = result_of(answer->rc);
	part->tells = answer->version || (is_put && answer->rc == KVD_CONDITION);
	part->version = answer->version;
	part->number = answer->number;
	if (part->kind == ORDER_GET && answer->rc == KVD_OK)
		keep(me, n, 0, a->value, answer->bytes);
	if ((part->kind == ORDER_APPEND || part->kind == ORDER_PREPEND) && answer->rc == KVD_OK)
		part->bytes = answer->bytes;
	if (part->tells)
		me->version[part->key] = answer->version;
	ended(n, n->op.end_ns);
}

/* ------------------------------------------------------------- what is asked */

/* Nobody else's: a number, or a text of some length. */
static size_t make_value(struct me *me, char *value, size_t bytes_max)
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

	a->note = begin(me, kind, key);
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
		keep(me, a->note, 0, a->value, a->bytes);
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

	for (unsigned i = 0; i < count; i++) {
		prepare(me, &asks[i]);
		int rc = submit(me, &asks[i]);
		if (rc == KVD_OK)
			flying++;
		else
			asks[i].note->is_nothing = is_error(me, rc);
	}
	while (flying) {
		int n = kvd_poll(me->session, c, BATCH_MAX, -1);
		if (n < 0 && ++failed > POLLS_MAX)
			die("poll", kvd_session_error(me->session));
		for (int i = 0; i < n; i++)
			take_completion(me, &c[i]);
		flying -= n > 0 ? (unsigned)n : 0;
	}
}

/* --------------------------------------------------------------- transactions */

struct txn {
	kvd_txn_t *txn;
	struct note reads; /* parts of what it read, before it is known whether that was all at once */
	uint64_t start_ns;
};

/* A transaction reads as a GET does; *value is of the last one that was there. */
static int txn_read(struct me *me, struct txn *t, unsigned key)
{
	struct note *n = begin(me, ORDER_GET, key);
	char name[KEY_BYTES], *value = asks[0].value;
	size_t bytes = 0, name_bytes = key_name(me, key, name);
	int rc = kvd_txn_get(t->txn, name, name_bytes, value, VALUE_BYTES_MAX, &bytes);

	if (!settle(me, n, rc) || rc == KVD_CONDITION) {
		n->is_nothing = true;
		return rc < 0 ? rc : KVD_CONDITION;
	}
	n->op.parts[0].result = result_of(rc);
	if (rc == KVD_OK)
		keep(me, n, 0, value, bytes);
	struct order_part *part = add(&t->reads, ORDER_GET, key);
	*part = n->op.parts[0];
	t->reads.from[t->reads.op.count - 1] = n->from[0];
	t->reads.bytes[t->reads.op.count - 1] = n->bytes[0];
	ended(n, n->op.end_ns);
	return KVD_OK;
}

/* Into the transaction, and into its note. */
static void txn_write(struct me *me, struct txn *t, struct note *n, unsigned key)
{
	char name[KEY_BYTES], *value = asks[0].value;
	size_t name_bytes = key_name(me, key, name);
	bool is_put = roll(me, 5);
	struct order_part *part = add(n, is_put ? ORDER_PUT : ORDER_DEL, key);
	size_t bytes = is_put ? make_value(me, value, 1500) : 0;

	part->result = is_put ? ORDER_OK : ORDER_ANY;
	if (is_put)
		keep(me, n, n->op.count - 1u, value, bytes);
	if ((is_put ? kvd_txn_put(t->txn, name, name_bytes, value, bytes)
		    : kvd_txn_del(t->txn, name, name_bytes)) != KVD_OK)
		die("write in a transaction", kvd_session_error(me->session));
}

/* The puts' versions follow one by one. */
static void txn_committed(struct me *me, struct note *n, uint64_t version)
{
	for (unsigned i = 0; i < n->op.count; i++) {
		struct order_part *part = &n->op.parts[i];
		if (part->kind != ORDER_PUT)
			continue;
		part->tells = true;
		part->version = version++;
		me->version[part->key] = part->version;
	}
}

/* What it read is all there at the commit; of one that only reads, at some time since its begin. */
static void txn_commit(struct me *me, struct txn *t, unsigned first, unsigned writes)
{
	struct note *n = begin(me, ORDER_GET, 0);
	uint64_t version = 0, start_ns = n->op.start_ns;

	*n = t->reads;
	for (unsigned i = 0; i < writes; i++)
		txn_write(me, t, n, (first + i) % me->board->keys);
	n->op.start_ns = writes ? start_ns : t->start_ns;
	int rc = kvd_txn_commit(&t->txn, &version);
	if (!settle(me, n, rc))
		return;
	if (rc == KVD_CONDITION) {
		n->is_nothing = true;
		me->desk->counts[COUNT_TXN_LATE]++;
		return;
	}
	me->desk->counts[writes ? COUNT_TXN : COUNT_TXN_READS]++;
	if (writes)
		txn_committed(me, n, version);
	ended(n, n->op.end_ns);
}

/* Reads some keys that follow each other, and changes some, of which some are the same. */
static void do_transaction(struct me *me)
{
	unsigned keys = me->board->keys, first = (unsigned)roll(me, keys);
	unsigned reads = (unsigned)roll(me, TXN_KEYS + 1), writes = (unsigned)roll(me, TXN_KEYS);
	struct txn t = { .start_ns = now_ns() };

	t.reads.op = (struct order_op){ .client = me->number, .is_unknown = true,
					.end_ns = ORDER_OPEN };
	if (!reads && !writes)
		reads = 2;
	if (is_error(me, kvd_txn_new(me->session, &t.txn)))
		return;
	for (unsigned i = 0; i < reads; i++) {
		if (txn_read(me, &t, (first + i) % keys) != KVD_OK) {
			me->desk->counts[COUNT_TXN_LATE]++;
			kvd_txn_delete(&t.txn);
			return;
		}
	}
	txn_commit(me, &t, first, writes);
}

/* ---------------------------------------------------------------------- locks */

struct held {
	kvd_lock_t *lock;
	uint32_t number;
	unsigned keys[2], count;
	bool is_lost;
};

static void lock_both(struct me *me, struct held *h)
{
	struct kvd_key keys[2];
	struct note *notes[2];
	char names[2][KEY_BYTES];

	for (unsigned i = 0; i < 2; i++) {
		notes[i] = begin(me, ORDER_LOCK, h->keys[i]);
		notes[i]->op.parts[0].lock = h->number;
		keys[i] = (struct kvd_key){ names[i], key_name(me, h->keys[i], names[i]) };
	}
	int rc = kvd_lock(me->session, keys, 2, -1, &h->lock);
	for (unsigned i = 0; i < 2; i++) {
		if (settle(me, notes[i], rc))
			ended(notes[i], notes[i]->op.end_ns);
		else
			h->lock = NULL;
	}
}

/* Grant and read are one instant: nobody changes the key in between. */
static void lock_one(struct me *me, struct held *h)
{
	struct note *n = begin(me, ORDER_LOCK, h->keys[0]);
	char name[KEY_BYTES], *value = asks[0].value;
	size_t bytes = 0, name_bytes = key_name(me, h->keys[0], name);
	uint64_t version = 0;

	n->op.parts[0].lock = h->number;
	n->op.start_ns = now_ns();
	int rc = kvd_lock_get(me->session, name, name_bytes, -1, value, VALUE_BYTES_MAX, &bytes,
			      &version, &h->lock);
	if (!settle(me, n, rc)) {
		h->lock = NULL;
		return;
	}
	struct order_part *part = add(n, ORDER_GET, h->keys[0]);
	part->lock = h->number;
	part->result = result_of(rc);
	part->tells = rc == KVD_OK;
	part->version = version;
	if (rc == KVD_OK)
		keep(me, n, 1, value, bytes);
	ended(n, n->op.end_ns);
}

static void change_under_lock(struct me *me, struct held *h, unsigned key, enum order_kind kind)
{
	struct ask *a = &asks[0];
	struct answer answer = { .rc = 0 };
	char name[KEY_BYTES];
	size_t n = key_name(me, key, name);

	a->note = begin(me, kind, key);
	a->note->op.parts[0].lock = h->number;
	if (kind == ORDER_PUT) {
		a->bytes = make_value(me, a->value, sizeof a->value);
		keep(me, a->note, 0, a->value, a->bytes);
	}
	a->note->op.start_ns = now_ns();
	if (kind == ORDER_GET)
		answer.rc = kvd_locked_get(h->lock, name, n, a->value, sizeof a->value, &answer.bytes,
					   &answer.version);
	else if (kind == ORDER_PUT)
		answer.rc = kvd_locked_put(h->lock, name, n, a->value, a->bytes, &answer.version);
	else
		answer.rc = kvd_locked_del(h->lock, name, n);
	h->is_lost = answer.rc < 0;
	if (answer.rc >= 0 && kind != ORDER_GET)
		me->desk->counts[COUNT_LOCKED]++;
	complete(me, a, &answer);
}

/* An unlock isn't waited for: it takes effect at some time after. */
static void give_back(struct me *me, struct held *h)
{
	struct note *notes[2];

	for (unsigned i = 0; i < h->count; i++) {
		notes[i] = begin(me, ORDER_UNLOCK, h->keys[i]);
		notes[i]->op.parts[0].lock = h->number;
	}
	/* One that was lost ended before. */
	bool is_lost = is_error(me, kvd_unlock(&h->lock)) || h->is_lost;
	for (unsigned i = 0; i < h->count; i++)
		notes[i]->is_nothing = is_lost;
}

static void do_locked(struct me *me)
{
	unsigned first = (unsigned)roll(me, me->board->keys);
	struct held h = { .number = me->number << 12 | ++me->locks % 4096,
			  .keys = { first, (first + 1) % me->board->keys }, .count = 1 };
	static const enum order_kind kinds[] = { ORDER_GET, ORDER_PUT, ORDER_PUT, ORDER_DEL };

	h.count += roll(me, 3) == 0;
	if (h.count == 2)
		lock_both(me, &h);
	else
		lock_one(me, &h);
	for (unsigned n = (unsigned)roll(me, 3); h.lock && n && !h.is_lost; n--)
		change_under_lock(me, &h, h.keys[roll(me, h.count)], kinds[roll(me, 4)]);
	if (h.lock)
		give_back(me, &h);
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
