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

#include "client/api/lock.h"
#include "client/get/get.h"

static int compare_stripes(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int check_keys(struct kvd_session *s, const struct kvd_key *keys, size_t count)
{
	if (!count || count > KVD_LOCK_KEYS_MAX)
		return err_set(&s->err, KVD_EINVAL, "%zu keys: a lock takes 1 to %d", count,
			       KVD_LOCK_KEYS_MAX);
	for (size_t i = 0; i < count; i++) {
		int rc = check_key(s, keys[i].data, keys[i].bytes);
		if (rc)
			return rc;
	}
	return 0;
}

static bool holds(const struct kvd_session *s, uint64_t stripe)
{
	for (unsigned i = 0; i < s->lock_count; i++)
		if (s->lock_stripes[i] == stripe)
			return true;
	return false;
}

/* The stripes of the keys, ascending and each once: everybody takes them in this
 * order, so nobody waits in a circle. */
static int new_lock(struct kvd_session *s, const struct kvd_key *keys, size_t count,
		    struct kvd_lock **lock)
{
	uint64_t stripe[KVD_LOCK_KEYS_MAX];
	struct kvd_lock *l = malloc(sizeof *l + count * sizeof l->part[0]);

	if (!l)
		return err_set(&s->err, KVD_ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct hash h = hash_key(s->table.welcome.hash_seed, keys[i].data, keys[i].bytes);
		stripe[i] = layout_stripe(h.b, s->table.welcome.stripes);
	}
	if (count > 1)
		qsort(stripe, count, sizeof stripe[0], compare_stripes);
	l->session = s;
	l->connection_id = s->table.welcome.connection_id;
	l->count = 0;
	for (size_t i = 0; i < count; i++) {
		if (i && stripe[i] == stripe[i - 1])
			continue;
		if (holds(s, stripe[i]) || s->lock_count + l->count >= LAYOUT_HELD_MAX) {
			free(l);
			return err_set(&s->err, KVD_EINVAL,
				       "this session holds the lock of one of the keys already (keys share "
				       "locks), or %u locks", LAYOUT_HELD_MAX);
		}
		l->part[l->count].stripe = stripe[i];
		l->part[l->count++].token =
			layout_token(s->table.welcome.connection_id, ++s->lock_counter);
	}
	*lock = l;
	return 0;
}

static void note_held(struct kvd_session *s, uint64_t stripe)
{
	s->lock_stripes[s->lock_count++] = stripe;
}

static void note_released(struct kvd_session *s, uint64_t stripe)
{
	for (unsigned i = 0; i < s->lock_count; i++)
		if (s->lock_stripes[i] == stripe)
			s->lock_stripes[i] = s->lock_stripes[--s->lock_count];
}

static void undo(struct kvd_lock *l, unsigned taken)
{
	while (taken-- > 0) {
		note_released(l->session, l->part[taken].stripe);
		stripe_release(l->session, l->part[taken].stripe, l->part[taken].token);
	}
	free(l);
}

static int begin(struct kvd_session *s)
{
	int rc;

	if (session_settle(s))
		return err_set(&s->err, KVD_EINVAL,
			       "operations are in flight: take their completions with kvd_poll first");
	rc = session_ready(s);
	if (!rc && s->table.welcome.role < ROLE_WRITE)
		rc = session_denied(s); /* its queue pair has no atomics */
	if (!rc && !s->client->limits.atomics)
		rc = err_set(&s->err, KVD_EDEVICE, "%s has no atomic operations, of which locks are made: it "
			     "reads and changes, but locks want another device",
			     s->client->ctx->device->name);
	if (!rc && !s->table.welcome.lock_rkey)
		rc = err_set(&s->err, KVD_EDEVICE, "kvd at %s has no locks: its device has no atomic operations",
			     s->client->addr.text);
	return rc;
}

/* Waits in kvd's queue for up to timeout_ms.  KVD_OK or KVD_E*: then it is not held. */
static int wait_for(struct kvd_session *s, uint64_t stripe, uint64_t token, int timeout_ms)
{
	struct op *op = op_new(s, &call_class, NULL, 0);
	int rc;

	op->deadline_ns += (uint64_t)timeout_ms * 1000000;
	rc = request_send(op, &(struct wire_request){ .op = WIRE_LOCK, .token = token,
						      .ttl_ms = (uint64_t)timeout_ms,
						      .version = stripe }, 0);
	if (!rc)
		rc = session_run(op);
	if (rc)
		return rc;
	if (op->reply.status == WIRE_OK)
		return KVD_OK;
	return op->reply.status == WIRE_EBUSY
		       ? err_set(&s->err, KVD_EBUSY, "the lock was not free within %d ms", timeout_ms)
		       : err_set(&s->err, KVD_EPROTOCOL, "kvd at %s has no locks (its device has no atomics)",
				 s->client->addr.text);
}

/* Completes the compare-and-swap; waits where somebody else has the stripe. */
static int take(struct kvd_session *s, struct op *op, int timeout_ms)
{
	uint64_t stripe = op->stripe, token = op->token;
	int rc = session_run(op);

	if (rc)
		return rc;
	if (op->memory->small[0] == 0)
		return KVD_OK;
	rc = timeout_ms ? wait_for(s, stripe, token, timeout_ms)
			: err_set(&s->err, KVD_EBUSY, "somebody else holds the lock");
	if (rc)
		stripe_say_free(s, token);
	return rc;
}

/* Takes the stripes in order. */
static int take_all(struct kvd_lock *l, int timeout_ms)
{
	struct kvd_session *s = l->session;

	for (unsigned i = 0; i < l->count; i++) {
		if (!stripe_say_held(s, l->part[i].stripe, l->part[i].token)) {
			undo(l, i);
			return err_set(&s->err, KVD_EINVAL, "too many locks");
		}
		struct op *cas = stripe_start(s, l->part[i].stripe, l->part[i].token);
		int rc = take(s, cas, timeout_ms);
		if (rc) {
			undo(l, i);
			return rc;
		}
		note_held(s, l->part[i].stripe);
	}
	return KVD_OK;
}

static int limit_of(const struct kvd_session *s, int timeout_ms)
{
	return timeout_ms < 0 ? s->client->options.timeout_ms : timeout_ms;
}

int kvd_lock(kvd_session *s, const struct kvd_key *keys, size_t count, int timeout_ms,
	     kvd_lock_t **lock)
{
	struct kvd_lock *l;
	int rc = check_keys(s, keys, count);

	*lock = NULL;
	if (!rc)
		rc = begin(s);
	if (!rc)
		rc = new_lock(s, keys, count, &l);
	if (!rc)
		rc = take_all(l, limit_of(s, timeout_ms));
	if (!rc)
		*lock = l;
	return rc;
}

/* The only stripe, with the READ behind it; a lost compare-and-swap makes the READ void. */
static int take_and_read(struct kvd_lock *l, const void *key, size_t key_bytes,
			 const struct iovec *to, struct quick_lock *q)
{
	struct kvd_session *s = l->session;
	enum quick quick;

	stripe_say_held(s, l->part[0].stripe, l->part[0].token);
	quick = quick_lock_get(s, key, key_bytes, l->part[0].stripe, l->part[0].token, to, q);
	if (quick == QUICK_DONE)
		return KVD_OK;
	if (quick == QUICK_NOT) {
		q->cas = stripe_start(s, l->part[0].stripe, l->part[0].token);
		q->read = op_new(s, &get_class, key, key_bytes);
		pieces_set(&q->read->value, to, 1);
		get_start(q->read, GET_LOCKED);
	}
	session_wait(s, q->cas, q->read);
	int rc = q->cas->result;
	q->won = q->has_value = !rc && q->cas->memory->small[0] == 0;
	q->result = q->read->result;
	q->got = (struct got){ .bytes = q->read->result_bytes, .version = q->read->result_version };
	op_free(q->read);
	op_free(q->cas);
	return rc;
}

int kvd_lock_get(kvd_session *s, const void *key, size_t key_bytes, int timeout_ms, void *value,
		 size_t value_bytes_max, size_t *value_bytes, uint64_t *version,
		 kvd_lock_t **lock)
{
	const struct kvd_key one = { key, key_bytes };
	const struct iovec to = { value, value_bytes_max };
	int rc = check_keys(s, &one, 1), limit_ms = limit_of(s, timeout_ms);
	struct quick_lock q;
	struct kvd_lock *l;

	*lock = NULL;
	if (!rc)
		rc = begin(s);
	if (!rc)
		rc = new_lock(s, &one, 1, &l);
	if (rc)
		return rc;
	rc = take_and_read(l, key, key_bytes, &to, &q);
	if (!rc && !q.won)
		rc = limit_ms ? wait_for(s, l->part[0].stripe, l->part[0].token, limit_ms)
			      : err_set(&s->err, KVD_EBUSY, "somebody else holds the lock");
	if (rc) {
		stripe_say_free(s, l->part[0].token);
		free(l);
		return rc;
	}
	note_held(s, l->part[0].stripe);
	*lock = l;
	if (!q.has_value)
		q.result = kvd_locked_get(l, key, key_bytes, value, value_bytes_max, value_bytes,
					  version);
	else if (!q.result || q.result == KVD_ESPACE)
		*value_bytes = q.got.bytes;
	if (q.has_value && !q.result && version)
		*version = q.got.version;
	if (q.result < 0 && q.result != KVD_ESPACE)
		kvd_unlock(lock);
	return q.result;
}

int kvd_unlock(kvd_lock_t **lock)
{
	struct kvd_lock *l = *lock;
	int rc = KVD_OK;

	if (!l)
		return KVD_OK;
	struct kvd_session *s = l->session;
	if (!s->connected || s->broken || s->table.welcome.connection_id != l->connection_id) {
		rc = err_set(&s->err, KVD_ELOST,
			     "the connection was lost, and the lock with it: kvd gave it to others");
		free(l);
	} else {
		undo(l, l->count);
	}
	*lock = NULL;
	return rc;
}
