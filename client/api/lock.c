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
 *
 * A session on another device than the first of kvd's has no right to the words: kvd is asked for
 * each lock, and says who gets it (doc/decisions.md, "Several devices").
 *
 * In a cluster a frozen primary's card still swaps words.  So a swap counts only while the
 * session's lease is good; otherwise the primary is asked, which looks at its own
 * (cluster.md, 8).  A call that takes a lock goes on with the next primary.
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
	l->connection = e->connections;
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

/* Whether this client may have locks of this kvd, as far as it knows. */
static int check_locks(struct kvd_session *s, struct engine *e)
{
	const struct wire_welcome *w = &e->table.welcome;

	if (w->role < ROLE_WRITE)
		return health_denied(&e->health); /* its queue pair has no atomics */
	if (!stripes_are_asked(e) && !session_has_atomics(s))
		return err_set(&e->health.err, KVD_EDEVICE,
			       "%s has no atomic operations, of which locks "
			       "are made: it reads and changes, but locks want another device",
			       e->health.ctx->device->name);
	return 0;
}

static int begin(struct kvd_session *s)
{
	struct engine *e = session_engine(s);
	int rc = session_ready_alone(s);

	/* Who does not serve gives no locks: the next attempt finds out who does. */
	if (!rc && e->table.grant.is_needed && !e->reign)
		return request_result(e, 0, WIRE_EELSEWHERE);
	return rc ? rc : check_locks(s, e);
}

/* How long a call waits for locks, from when the first one is not free; and goes on with the next
 * primary.  No clock is asked before. */
struct patience {
	int timeout_ms;    /* as the call has it; -1: the client's */
	uint64_t since_ns; /* 0: it has not waited */
};

static int passed_ms(struct patience *p)
{
	uint64_t now_ns = clock_ns();

	if (!p->since_ns)
		p->since_ns = now_ns;
	return (int)((now_ns - p->since_ns) / 1000000);
}

static int wait_ms(const struct engine *e, struct patience *p)
{
	int limit = p->timeout_ms < 0 ? e->options->timeout_ms : p->timeout_ms, passed = passed_ms(p);

	return passed < limit ? limit - passed : 0;
}

/*
 * A stripe's compare-and-swap is complete, and did not win, or was none.  The word `was_free`, and kvd is asked
 * whether that counts; or somebody holds it, and kvd is asked for it, if there is time.
 */
static int settle(struct kvd_session *s, uint64_t stripe, uint64_t token, bool was_free,
		  struct patience *p)
{
	struct engine *e = session_engine(s);
	int rc, timeout_ms;

	if (was_free)
		rc = lock_confirm(s);
	else if ((timeout_ms = wait_ms(e, p)) || stripes_are_asked(e))
		rc = lock_wait(s, stripe, token, timeout_ms);
	else
		rc = err_set(&e->health.err, KVD_EBUSY, "somebody else holds the lock");
	if (rc && was_free)
		stripe_release(e, stripe, token);
	else if (rc)
		held_say_free(&e->held, token);
	return rc;
}

static int take(struct kvd_session *s, uint64_t stripe, uint64_t token, struct patience *p)
{
	struct engine *e = session_engine(s);
	uint64_t reign = grant_reign(&e->table.grant);

	if (!held_say(&e->held, stripe, token))
		return err_set(&e->health.err, KVD_EINVAL, "too many locks");
	if (stripes_are_asked(e))
		return settle(s, stripe, token, false, p);
	struct op *cas = stripe_start(e, stripe, token);
	session_run_both(s, cas, NULL);
	int rc = op_outcome(cas)->result;
	bool was_free = !rc && stripe_was_free(cas);
	op_free(cas);
	if (rc)
		held_say_free(&e->held, token);
	else if (!was_free || !lock_counts(e, reign))
		rc = settle(s, stripe, token, was_free, p);
	return rc;
}

/* Whatever was taken ended with its connection. */
static bool goes_on(struct kvd_session *s, int rc, struct patience *p)
{
	if (rc != KVD_ECONNECT && rc != KVD_ELOST)
		return false;
	int call_ms = session_engine(s)->options->timeout_ms;
	return session_is_of_cluster(s) &&
	       passed_ms(p) < (p->timeout_ms > call_ms ? p->timeout_ms : call_ms);
}

/* Takes the stripes in order. */
static int take_all(struct kvd_lock *l, struct patience *p)
{
	struct engine *e = session_engine(l->session);

	for (unsigned i = 0; i < l->count; i++) {
		int rc = take(l->session, l->part[i].stripe, l->part[i].token, p);
		if (rc) {
			undo(l, i);
			return rc;
		}
		note_held(&e->held, l->part[i].stripe);
	}
	return KVD_OK;
}

static int lock_once(struct kvd_session *s, const struct kvd_key *keys, size_t count,
		     struct patience *p, struct kvd_lock **lock)
{
	uint64_t stripe[KVD_LOCK_KEYS_MAX];
	struct kvd_lock *l;
	int rc = begin(s);

	if (rc)
		return rc;
	find_stripes(&session_engine(s)->table.welcome, keys, count, stripe);
	rc = new_lock(s, stripe, count, &l);
	if (!rc)
		rc = take_all(l, p);
	if (!rc)
		*lock = l;
	return rc;
}

int kvd_lock(kvd_session *s, const struct kvd_key *keys, size_t count, int timeout_ms,
	     kvd_lock_t **lock)
{
	struct patience p = { .timeout_ms = timeout_ms };
	int rc = check_keys(s, keys, count);

	*lock = NULL;
	if (rc)
		return rc;
	do {
		rc = lock_once(s, keys, count, &p, lock);
	} while (goes_on(s, rc, &p));
	return rc;
}

/* The only stripe, with the READ behind it; a lost compare-and-swap makes the READ void. */
static int take_and_read(struct kvd_lock *l, const void *key, size_t key_bytes, struct hash hash,
			 const struct iovec *to, struct fast_lock *f)
{
	struct engine *e = session_engine(l->session);
	uint64_t stripe = l->part[0].stripe, token = l->part[0].token;
	uint64_t reign = grant_reign(&e->table.grant);

	held_say(&e->held, stripe, token);
	if (stripes_are_asked(e)) {
		*f = (struct fast_lock){ .won = false };
		return KVD_OK;
	}
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
	f->was_free = !rc && stripe_was_free(f->cas);
	f->won = f->has_value = f->was_free && lock_counts(e, reign);
	f->result = out->result;
	f->got = (struct got){ .bytes = out->bytes, .version = out->version };
	op_free(f->read);
	op_free(f->cas);
	if (rc)
		held_say_free(&e->held, token);
	return rc;
}

/* Where a value goes, and what is told of it. */
struct into {
	void *value;
	size_t bytes_max, *bytes;
	uint64_t *version;
};

static int get_locked(struct kvd_lock *l, const void *key, size_t key_bytes, const struct fast_lock *f,
		      const struct into *to)
{
	if (!f->has_value)
		return kvd_locked_get(l, key, key_bytes, to->value, to->bytes_max, to->bytes,
				      to->version);
	if (!f->result || f->result == KVD_ESPACE)
		*to->bytes = f->got.bytes;
	if (!f->result && to->version)
		*to->version = f->got.version;
	return f->result;
}

static int lock_get_once(struct kvd_session *s, const void *key, size_t key_bytes,
			 struct patience *p, const struct into *to, struct kvd_lock **lock)
{
	const struct iovec iov = { to->value, to->bytes_max };
	struct fast_lock f;
	struct kvd_lock *l;
	int rc = begin(s);

	if (rc)
		return rc;
	const struct wire_welcome *w = &session_engine(s)->table.welcome;
	const struct hash hash = hash_key(w->hash_seed, key, key_bytes);
	rc = new_lock(s, &(uint64_t){ layout_stripe(hash.b, w->stripes) }, 1, &l);
	if (rc)
		return rc;
	rc = take_and_read(l, key, key_bytes, hash, &iov, &f);
	if (!rc && !f.won)
		rc = settle(s, l->part[0].stripe, l->part[0].token, f.was_free, p);
	if (rc) {
		free(l);
		return rc;
	}
	note_held(&session_engine(s)->held, l->part[0].stripe);
	rc = get_locked(l, key, key_bytes, &f, to);
	if (rc >= 0 || rc == KVD_ESPACE)
		*lock = l;
	else if (lock_is_connected(l))
		undo(l, l->count);
	else
		free(l); /* lost, which the error says */
	return rc;
}

int kvd_lock_get(kvd_session *s, const void *key, size_t key_bytes, int timeout_ms, void *value,
		 size_t value_bytes_max, size_t *value_bytes, uint64_t *version, kvd_lock_t **lock)
{
	struct patience p = { .timeout_ms = timeout_ms };
	const struct into to = { value, value_bytes_max, value_bytes, version };
	int rc = check_keys(s, &(struct kvd_key){ key, key_bytes }, 1);

	*lock = NULL;
	if (rc)
		return rc;
	do {
		rc = lock_get_once(s, key, key_bytes, &p, &to, lock);
	} while (goes_on(s, rc, &p));
	return rc;
}

int kvd_unlock(kvd_lock_t **lock)
{
	struct kvd_lock *l = *lock;
	int rc = KVD_OK;

	if (!l)
		return KVD_OK;
	if (!lock_is_connected(l)) {
		rc = err_set(
			session_err(l->session), KVD_ELOST,
			"the connection was lost, and the lock with it: kvd gave it to others");
		free(l);
	} else {
		undo(l, l->count);
	}
	*lock = NULL;
	return rc;
}
