/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slot locks: of one key or many, from grant to release.
 *
 * Happy path: the compare-and-swap of the stripe's word, and in the same doorbell the
 * READ of the item that the mirror knows: one round trip.  Several stripes are taken in
 * ascending order, one after the other.  How a word is taken, waited for and given back
 * stands in client/op/lockword.c, what is done meanwhile in locked.c.
 *
 * A broken connection ends all of its locks: kvd releases them after it destroyed the
 * queue pair, and nothing of ours takes effect then (protocols.md, 7).
 */
#include <stdlib.h>
#include <string.h>

#include "client/again/ready.h"
#include "client/api/kvd_lock.h"
#include "client/get/fast.h"
#include "client/get/get.h"
#include "client/op/engine.h"
#include "client/op/held.h"
#include "client/op/lockword.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/client.h"
#include "client/session/session.h"
#include "client/session/wait.h"
#include "common/hash.h"

static int compare_stripes(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int check_keys(struct kvd_session *s, const struct kvd_key *keys, size_t count)
{
	if (!count || count > KVD_LOCK_KEYS_MAX)
		return err_set(session_err(s), KVD_EINVAL, "%zu keys: a lock takes 1 to %d", count,
			       KVD_LOCK_KEYS_MAX);
	for (size_t i = 0; i < count; i++) {
		int rc = check_key(session_err(s), keys[i].data, keys[i].bytes);
		if (rc)
			return rc;
	}
	return 0;
}

static bool holds(const struct held *h, uint64_t stripe)
{
	for (unsigned i = 0; i < h->count; i++)
		if (h->stripe[i] == stripe)
			return true;
	return false;
}

/* The stripes of the keys, ascending: everybody takes them in this order, so nobody waits
 * in a circle. */
static void find_stripes(const struct wire_welcome *w, const struct kvd_key *keys, size_t count,
			 uint64_t *stripe)
{
	for (size_t i = 0; i < count; i++) {
		struct hash h = hash_key(w->hash_seed, keys[i].data, keys[i].bytes);
		stripe[i] = layout_stripe(h.b, w->stripes);
	}
	if (count > 1)
		qsort(stripe, count, sizeof stripe[0], compare_stripes);
}

/* Of these stripes, ascending, each once. */
static int new_lock(struct kvd_session *s, const uint64_t *stripe, size_t count,
		    struct kvd_lock **lock)
{
	struct engine *e = session_engine(s);
	const struct wire_welcome *w = &e->table.welcome;
	struct kvd_lock *l = malloc(sizeof *l + count * sizeof l->part[0]);

	if (!l)
		return err_set(&e->health.err, KVD_ENOMEM, "out of memory");
	l->session = s;
	l->connection_id = w->connection_id;
	l->count = 0;
	for (size_t i = 0; i < count; i++) {
		if (i && stripe[i] == stripe[i - 1])
			continue;
		if (holds(&e->held, stripe[i]) || e->held.count + l->count >= LAYOUT_HELD_MAX) {
			free(l);
			return err_set(
				&e->health.err, KVD_EINVAL,
				"this session holds the lock of one of the keys already (keys share "
				"locks), or %u locks",
				LAYOUT_HELD_MAX);
		}
		l->part[l->count].stripe = stripe[i];
		l->part[l->count++].token = layout_token(w->connection_id, ++e->held.counter);
	}
	*lock = l;
	return 0;
}

static void note_held(struct held *h, uint64_t stripe)
{
	h->stripe[h->count++] = stripe;
}

static void note_released(struct held *h, uint64_t stripe)
{
	for (unsigned i = 0; i < h->count; i++)
		if (h->stripe[i] == stripe)
			h->stripe[i] = h->stripe[--h->count];
}

static void undo(struct kvd_lock *l, unsigned taken)
{
	struct engine *e = session_engine(l->session);

	while (taken-- > 0) {
		note_released(&e->held, l->part[taken].stripe);
		stripe_release(e, l->part[taken].stripe, l->part[taken].token);
	}
	free(l);
}

/* Whether this client may have locks of this kvd. */
static int check_locks(struct kvd_session *s, struct engine *e)
{
	const struct kvd_client *c = session_client(s);
	const struct wire_welcome *w = &e->table.welcome;

	if (w->role < ROLE_WRITE)
		return health_denied(&e->health); /* its queue pair has no atomics */
	if (!c->limits.atomics)
		return err_set(&e->health.err, KVD_EDEVICE,
			       "%s has no atomic operations, of which locks "
			       "are made: it reads and changes, but locks want another device",
			       e->health.ctx->device->name);
	if (!w->lock_rkey)
		return err_set(&e->health.err, KVD_EDEVICE,
			       "kvd at %s has no locks: its device has no "
			       "atomic operations",
			       e->health.peer);
	return 0;
}

static int begin(struct kvd_session *s)
{
	int rc = session_ready_alone(s);

	return rc ? rc : check_locks(s, session_engine(s));
}

/* Waits in kvd's queue for up to timeout_ms.  KVD_OK or KVD_E*: then it is not held. */
static int wait_for(struct kvd_session *s, uint64_t stripe, uint64_t token, int timeout_ms)
{
	struct engine *e = session_engine(s);
	const struct wire_request ask = { .op = WIRE_LOCK,
					  .token = token,
					  .ttl_ms = (uint64_t)timeout_ms,
					  .version = stripe };
	struct op *op = op_new(e, &call_class, NULL, 0);
	const struct outcome *out;
	int rc;

	op_allow_ms(op, timeout_ms);
	rc = request_start(op, &ask, NULL, 0);
	if (!rc)
		rc = session_run(s, op, &out);
	if (rc || out->reply.status == WIRE_OK)
		return rc;
	if (out->reply.status == WIRE_EBUSY)
		return err_set(&e->health.err, KVD_EBUSY, "the lock was not free within %d ms",
			       timeout_ms);
	return err_set(&e->health.err, KVD_EPROTOCOL,
		       "kvd at %s has no locks (its device has no atomics)", e->health.peer);
}

/* The compare-and-swap was lost: waits, if there is time for it. */
static int wait_if(struct kvd_session *s, uint64_t stripe, uint64_t token, int timeout_ms)
{
	return timeout_ms ? wait_for(s, stripe, token, timeout_ms)
			  : err_set(session_err(s), KVD_EBUSY, "somebody else holds the lock");
}

static int take(struct kvd_session *s, uint64_t stripe, uint64_t token, int timeout_ms)
{
	struct engine *e = session_engine(s);

	if (!held_say(&e->held, stripe, token))
		return err_set(&e->health.err, KVD_EINVAL, "too many locks");
	struct op *cas = stripe_start(e, stripe, token);
	session_run_both(s, cas, NULL);
	int rc = op_outcome(cas)->result;
	bool won = !rc && stripe_was_free(cas);
	op_free(cas);
	if (!rc && !won)
		rc = wait_if(s, stripe, token, timeout_ms);
	if (rc)
		held_say_free(&e->held, token);
	return rc;
}

/* Takes the stripes in order. */
static int take_all(struct kvd_lock *l, int timeout_ms)
{
	struct engine *e = session_engine(l->session);

	for (unsigned i = 0; i < l->count; i++) {
		int rc = take(l->session, l->part[i].stripe, l->part[i].token, timeout_ms);
		if (rc) {
			undo(l, i);
			return rc;
		}
		note_held(&e->held, l->part[i].stripe);
	}
	return KVD_OK;
}

static int limit_of(struct kvd_session *s, int timeout_ms)
{
	return timeout_ms < 0 ? session_engine(s)->options->timeout_ms : timeout_ms;
}

int kvd_lock(kvd_session *s, const struct kvd_key *keys, size_t count, int timeout_ms,
	     kvd_lock_t **lock)
{
	uint64_t stripe[KVD_LOCK_KEYS_MAX];
	struct kvd_lock *l;
	int rc = check_keys(s, keys, count);

	*lock = NULL;
	if (!rc)
		rc = begin(s);
	if (rc)
		return rc;
	find_stripes(&session_engine(s)->table.welcome, keys, count, stripe);
	rc = new_lock(s, stripe, count, &l);
	if (!rc)
		rc = take_all(l, limit_of(s, timeout_ms));
	if (!rc)
		*lock = l;
	return rc;
}

/* The only stripe, with the READ behind it; a lost compare-and-swap makes the READ void. */
static int take_and_read(struct kvd_lock *l, const void *key, size_t key_bytes, struct hash hash,
			 const struct iovec *to, struct fast_lock *f)
{
	struct engine *e = session_engine(l->session);
	uint64_t stripe = l->part[0].stripe, token = l->part[0].token;

	held_say(&e->held, stripe, token);
	enum fast fast = fast_lock_get(e, key, key_bytes, hash, token, to, f);
	if (fast == FAST_DONE)
		return KVD_OK;
	if (fast == FAST_NOT) {
		f->cas = stripe_start(e, stripe, token);
		f->read = op_new(e, &get_class, key, key_bytes);
		get_start(f->read, GET_LOCKED, to, 1);
	}
	session_run_both(l->session, f->cas, f->read);
	int rc = op_outcome(f->cas)->result;
	const struct outcome *out = op_outcome(f->read);
	f->won = f->has_value = !rc && stripe_was_free(f->cas);
	f->result = out->result;
	f->got = (struct got){ .bytes = out->bytes, .version = out->version };
	op_free(f->read);
	op_free(f->cas);
	return rc;
}

int kvd_lock_get(kvd_session *s, const void *key, size_t key_bytes, int timeout_ms, void *value,
		 size_t value_bytes_max, size_t *value_bytes, uint64_t *version, kvd_lock_t **lock)
{
	const struct kvd_key one = { key, key_bytes };
	const struct iovec to = { value, value_bytes_max };
	int rc = check_keys(s, &one, 1), limit_ms = limit_of(s, timeout_ms);
	struct fast_lock f;
	struct kvd_lock *l;

	*lock = NULL;
	if (!rc)
		rc = begin(s);
	if (rc)
		return rc;
	const struct wire_welcome *w = &session_engine(s)->table.welcome;
	const struct hash hash = hash_key(w->hash_seed, key, key_bytes);
	rc = new_lock(s, &(uint64_t){ layout_stripe(hash.b, w->stripes) }, 1, &l);
	if (rc)
		return rc;
	rc = take_and_read(l, key, key_bytes, hash, &to, &f);
	if (!rc && !f.won)
		rc = wait_if(s, l->part[0].stripe, l->part[0].token, limit_ms);
	if (rc) {
		held_say_free(&session_engine(s)->held, l->part[0].token);
		free(l);
		return rc;
	}
	note_held(&session_engine(s)->held, l->part[0].stripe);
	*lock = l;
	if (!f.has_value)
		f.result = kvd_locked_get(l, key, key_bytes, value, value_bytes_max, value_bytes,
					  version);
	else if (!f.result || f.result == KVD_ESPACE)
		*value_bytes = f.got.bytes;
	if (f.has_value && !f.result && version)
		*version = f.got.version;
	if (f.result < 0 && f.result != KVD_ESPACE)
		kvd_unlock(lock);
	return f.result;
}

int kvd_unlock(kvd_lock_t **lock)
{
	struct kvd_lock *l = *lock;
	int rc = KVD_OK;

	if (!l)
		return KVD_OK;
	struct engine *e = session_engine(l->session);
	if (!health_is_good(&e->health) || e->table.welcome.connection_id != l->connection_id) {
		rc = err_set(
			&e->health.err, KVD_ELOST,
			"the connection was lost, and the lock with it: kvd gave it to others");
		free(l);
	} else {
		undo(l, l->count);
	}
	*lock = NULL;
	return rc;
}
