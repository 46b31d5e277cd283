/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slot locks.
 *
 * Happy path: compare-and-swap of the stripe's word from 0 to a fresh token, and in
 * the same doorbell the READ of the item that the mirror knows: one round trip.
 * Unlock: a compare-and-swap back to 0, posted and not waited for.
 *
 * Lost: ask kvd to wait in its queue (WIRE_LOCK); the answer is the grant.  From
 * then on the word has WAIT, our unlock's compare-and-swap fails, and when its
 * completion is seen the lock is handed over with WIRE_UNLOCK.  Should this thread
 * do something else by then: kvd READs session->held, where the token is gone.
 *
 * The token is put into `held` before the compare-and-swap and taken out before the
 * unlock, so that kvd never takes a lock from somebody who holds it.  A broken
 * connection ends all of its locks: kvd releases them after it destroyed the queue
 * pair, and nothing of ours takes effect then (protocols.md, 7).
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

struct kvd_lock {
	struct kvd_session *session;
	uint64_t connection_id; /* of the connection that it was taken on */
	unsigned count;
	struct {
		uint64_t stripe;
		uint64_t token;
	} part[];
};

/* ------------------------------------------------------------------- held */

static bool held_add(struct kvd_session *s, uint64_t stripe, uint64_t token)
{
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++) {
		if (!s->held[i].token) {
			s->held[i].stripe = stripe;
			__atomic_store_n(&s->held[i].token, token, __ATOMIC_RELEASE);
			return true;
		}
	}
	return false;
}

static void held_remove(struct kvd_session *s, uint64_t token)
{
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++)
		if (s->held[i].token == token)
			__atomic_store_n(&s->held[i].token, 0, __ATOMIC_RELEASE);
}

/* --------------------------------------------------------------- operations */

static void post_cas(struct op *op, uint64_t stripe, uint64_t expected, uint64_t desired)
{
	op->phase = PHASE_CAS;
	op->stripe = stripe;
	op->token = expected ? expected : desired;
	op_cas(op, op->session->welcome.lock_addr + stripe * 8, op->session->welcome.lock_rkey,
	       expected, desired);
}

/* Answers of detached unlocks: there is nobody to tell. */
void lock_advance(struct op *op)
{
	uint64_t was = op->memory->small[0];

	if (op->kind == OP_UNLOCK && was == (op->token | LAYOUT_LOCK_WAIT)) {
		/* Its completion may have lain there for as long as nobody looked. */
		op->deadline_ns = session_deadline_ns(op->session);
		change_start(op, &(struct wire_request){ .op = WIRE_UNLOCK, .token = op->token,
							 .version = op->stripe });
		return;
	}
	if (op->kind == OP_UNLOCK)
		op_free(op);
	else
		op_done(op, KVD_OK);
}

/* Takes one stripe, as far as a compare-and-swap does it; op->memory->small[0]. */
static struct op *start_cas(struct kvd_session *s, uint64_t stripe, uint64_t token)
{
	struct op *op = op_new(s, OP_LOCK, NULL, 0);

	post_cas(op, stripe, 0, token);
	return op;
}

struct op *lock_resume(struct kvd_session *s, uint64_t stripe, uint64_t token, bool complete)
{
	struct op *op = op_new(s, OP_LOCK, NULL, 0);

	op->phase = PHASE_CAS;
	op->stripe = stripe;
	op->token = token;
	if (complete)
		lock_advance(op);
	else
		op->reads = 1;
	return op;
}

static int wait_in_queue(struct kvd_session *s, uint64_t stripe, uint64_t token, int timeout_ms)
{
	struct op *op = op_new(s, OP_CALL, NULL, 0);
	int rc;

	op->deadline_ns += (uint64_t)timeout_ms * 1000000;
	rc = change_start(op, &(struct wire_request){ .op = WIRE_LOCK, .token = token,
						      .ttl_ms = (uint64_t)timeout_ms,
						      .version = stripe });
	if (!rc)
		rc = flight_run(op);
	if (rc)
		return rc;
	if (op->reply.status == WIRE_OK)
		return KVD_OK;
	return op->reply.status == WIRE_EBUSY
		       ? err_set(&s->err, KVD_EBUSY, "the lock was not free within %d ms", timeout_ms)
		       : err_set(&s->err, KVD_EPROTOCOL, "kvd at %s has no locks (its device has no atomics)",
				 s->client->addr.text);
}

/* Completes what start_cas() began. */
static int take(struct kvd_session *s, struct op *op, int timeout_ms)
{
	uint64_t stripe = op->stripe, token = op->token;
	int rc = flight_run(op);

	if (rc)
		return rc;
	if (op->memory->small[0] == 0)
		return KVD_OK;
	rc = timeout_ms ? wait_in_queue(s, stripe, token, timeout_ms)
			: err_set(&s->err, KVD_EBUSY, "somebody else holds the lock");
	if (rc)
		held_remove(s, token);
	return rc;
}

static void release(struct kvd_session *s, uint64_t stripe, uint64_t token)
{
	struct op *op;

	held_remove(s, token);
	if (!s->connected || s->broken)
		return;
	/* One operation is kept for it: it is free, or an earlier unlock's. */
	while (!(op = op_new(s, OP_UNLOCK, NULL, 0)) && !flight_look(s))
		sched_yield();
	if (!op)
		return;
	post_cas(op, stripe, token, 0);
	flight_flush(s);
}

/* -------------------------------------------------------------------- locks */

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
		struct hash h = hash_key(s->welcome.hash_seed, keys[i].data, keys[i].bytes);
		stripe[i] = layout_stripe(h.b, s->welcome.stripes);
	}
	if (count > 1)
		qsort(stripe, count, sizeof stripe[0], compare_stripes);
	l->session = s;
	l->connection_id = s->welcome.connection_id;
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
			layout_token(s->welcome.connection_id, ++s->lock_counter);
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
		release(l->session, l->part[taken].stripe, l->part[taken].token);
	}
	free(l);
}

static int begin(struct kvd_session *s)
{
	int rc;

	if (flight_settle(s))
		return err_set(&s->err, KVD_EINVAL,
			       "operations are in flight: take their completions with kvd_poll first");
	rc = session_ready(s);
	if (!rc && s->welcome.role < ROLE_WRITE)
		rc = session_denied(s); /* its queue pair has no atomics */
	if (!rc && !s->client->limits.atomics)
		rc = err_set(&s->err, KVD_EDEVICE, "%s has no atomic operations, of which locks are made: it "
			     "reads and changes, but locks want another device",
			     s->client->ctx->device->name);
	if (!rc && !s->welcome.lock_rkey)
		rc = err_set(&s->err, KVD_EDEVICE, "kvd at %s has no locks: its device has no atomic operations",
			     s->client->addr.text);
	return rc;
}

/*
 * Takes the stripes in order.  `read`, if not NULL, is a GET under the lock of the
 * only stripe: posted right behind the compare-and-swap.
 */
static int take_all(struct kvd_lock *l, int timeout_ms, struct op **read)
{
	struct kvd_session *s = l->session;

	for (unsigned i = 0; i < l->count; i++) {
		if (!held_add(s, l->part[i].stripe, l->part[i].token)) {
			undo(l, i);
			return err_set(&s->err, KVD_EINVAL, "too many locks");
		}
		struct op *cas = start_cas(s, l->part[i].stripe, l->part[i].token);
		if (read && *read)
			get_start(*read);
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
		rc = take_all(l, limit_of(s, timeout_ms), NULL);
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

	held_add(s, l->part[0].stripe, l->part[0].token);
	quick = quick_lock_get(s, key, key_bytes, l->part[0].stripe, l->part[0].token, to, q);
	if (quick == QUICK_DONE)
		return KVD_OK;
	if (quick == QUICK_NOT) {
		q->cas = start_cas(s, l->part[0].stripe, l->part[0].token);
		q->read = op_new(s, OP_GET, key, key_bytes);
		pieces_set(&q->read->value, to, 1);
		q->read->locked = true;
		get_start(q->read);
	}
	flight_wait(s, q->cas, q->read);
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
		rc = limit_ms ? wait_in_queue(s, l->part[0].stripe, l->part[0].token, limit_ms)
			      : err_set(&s->err, KVD_EBUSY, "somebody else holds the lock");
	if (rc) {
		held_remove(s, l->part[0].token);
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
	if (!s->connected || s->broken || s->welcome.connection_id != l->connection_id) {
		rc = err_set(&s->err, KVD_ELOST,
			     "the connection was lost, and the lock with it: kvd gave it to others");
		free(l);
	} else {
		undo(l, l->count);
	}
	*lock = NULL;
	return rc;
}

/* ------------------------------------------------------------ under a lock */

/* The connection broke, for this reason, and the lock is gone with it. */
static int lost(struct kvd_session *s, const struct err *why)
{
	return err_set(&s->err, KVD_ELOST, "the lock was lost with its connection, and nothing was "
					   "done: %s", why->text);
}

/* What became of a change whose answer is lost with the connection. */
static int lost_change(struct kvd_session *s, const struct kvd_receipt *sent, uint64_t *version)
{
	const struct err why = s->err;
	struct changed changed;
	int result = KVD_EUNKNOWN;
	int rc = fate_ask(s, sent, session_deadline_ns(s), &result, &changed);

	if (rc == KVD_NOT_FOUND)
		return lost(s, &why);
	if (rc == KVD_OK)
		*version = changed.version;
	else
		s->err = why;
	return result;
}

static int part_of(struct kvd_lock *l, const void *key, size_t key_bytes, uint64_t *token)
{
	struct kvd_session *s = l->session;
	int rc = check_key(s, key, key_bytes);

	if (rc)
		return rc;
	if (flight_settle(s))
		return err_set(&s->err, KVD_EINVAL,
			       "operations are in flight: take their completions with kvd_poll first");
	if (!s->connected || s->broken || s->welcome.connection_id != l->connection_id)
		return err_set(&s->err, KVD_ELOST,
			       "the connection was lost, and the lock with it: nothing was done");
	uint64_t stripe = layout_stripe(hash_key(s->welcome.hash_seed, key, key_bytes).b,
					s->welcome.stripes);
	for (unsigned i = 0; i < l->count; i++) {
		if (l->part[i].stripe == stripe) {
			*token = l->part[i].token;
			return 0;
		}
	}
	return err_set(&s->err, KVD_EINVAL, "the key is not among those of the lock");
}

int kvd_locked_get(kvd_lock_t *l, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, size_t *value_bytes, uint64_t *version)
{
	struct kvd_session *s = l->session;
	uint64_t token;
	int rc = part_of(l, key, key_bytes, &token);

	if (rc)
		return rc;
	struct op *op = op_new(s, OP_GET, key, key_bytes);
	pieces_set(&op->value, &(struct iovec){ value, value_bytes_max }, 1);
	op->locked = true;
	get_start(op);
	rc = flight_run(op);
	if (rc < 0 && s->broken) {
		const struct err why = s->err;
		return lost(s, &why);
	}
	if (rc == KVD_OK || rc == KVD_ESPACE)
		*value_bytes = op->result_bytes;
	if (rc == KVD_OK && version)
		*version = op->result_version;
	return rc;
}

static int locked_change(kvd_lock_t *l, enum wire_op wire, const void *key, size_t key_bytes,
			 const void *value, size_t value_bytes, uint64_t *version)
{
	struct kvd_session *s = l->session;
	uint64_t token;
	int rc = part_of(l, key, key_bytes, &token);

	if (rc)
		return rc;
	if (value_bytes > KVD_VALUE_BYTES_MAX)
		return err_set(&s->err, KVD_ETOOBIG, "the value has %zu bytes: the limit is %llu",
			       value_bytes, KVD_VALUE_BYTES_MAX);
	struct op *op = op_new(s, OP_CHANGE, key, key_bytes);
	s->counters.changes++;
	pieces_set(&op->value, &(struct iovec){ (void *)(uintptr_t)value, value_bytes }, 1);
	rc = change_start(op, &(struct wire_request){ .op = (uint8_t)wire, .token = token });
	if (rc) {
		op_free(op);
		return rc;
	}
	rc = flight_run(op);
	uint64_t done = op->result_version;
	const struct kvd_receipt sent = op->sent;
	if (rc == KVD_EUNKNOWN)
		rc = lost_change(s, &sent, &done);
	if (rc == KVD_OK && version)
		*version = done;
	return rc;
}

int kvd_locked_put(kvd_lock_t *l, const void *key, size_t key_bytes, const void *value,
		   size_t value_bytes, uint64_t *version)
{
	return locked_change(l, WIRE_PUT, key, key_bytes, value, value_bytes, version);
}

int kvd_locked_del(kvd_lock_t *l, const void *key, size_t key_bytes)
{
	return locked_change(l, WIRE_DELETE, key, key_bytes, NULL, 0, NULL);
}

int kvd_update(kvd_session *s, const void *key, size_t key_bytes,
	       int (*change)(void *arg, void *value, size_t *value_bytes), void *arg,
	       size_t value_bytes_max, int timeout_ms)
{
	kvd_lock_t *lock;
	size_t bytes = 0;
	void *value = malloc(value_bytes_max ? value_bytes_max : 1);
	int rc, verdict;

	if (!value)
		return err_set(&s->err, KVD_ENOMEM, "out of memory");
	rc = kvd_lock_get(s, key, key_bytes, timeout_ms, value, value_bytes_max, &bytes, NULL, &lock);
	if (rc == KVD_NOT_FOUND)
		bytes = SIZE_MAX;
	if (rc == KVD_OK || rc == KVD_NOT_FOUND) {
		verdict = change(arg, value, &bytes);
		rc = KVD_OK;
		if (verdict == 0 && bytes == SIZE_MAX)
			rc = kvd_locked_del(lock, key, key_bytes);
		else if (verdict == 0)
			rc = kvd_locked_put(lock, key, key_bytes, value, bytes, NULL);
		if (rc == KVD_NOT_FOUND)
			rc = KVD_OK;
		if (verdict)
			rc = KVD_CONDITION;
	}
	if (rc >= 0 || lock)
		kvd_unlock(&lock);
	free(value);
	return rc;
}
