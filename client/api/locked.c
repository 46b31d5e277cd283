/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is read and changed under a lock.
 *
 * A change carries the token of its stripe: kvd applies it if the word is exactly that
 * one (protocols.md, 6).  A GET under a lock takes no item that a change under way shows
 * in, and READs it again (4).
 *
 * Failure: the connection breaks and the lock is gone with it; kvd is asked for the fate
 * of a change whose answer is lost.
 */
#include "client/again/fate.h"
#include "client/api/kvd_lock.h"
#include "client/get/get.h"
#include "client/op/engine.h"
#include "client/op/lockword.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/session.h"
#include "client/session/wait.h"
#include "common/hash.h"

/* The connection broke, for this reason, and the lock is gone with it. */
static int lost(struct kvd_session *s, const struct err *why)
{
	return err_set(session_err(s), KVD_ELOST,
		       "the lock was lost with its connection, and nothing was "
		       "done: %s",
		       why->text);
}

/* What became of a change whose answer is lost with the connection. */
static int lost_change(struct kvd_session *s, const struct sent *sent, uint64_t *version)
{
	const struct err why = *session_err(s);
	struct changed changed;
	int result = KVD_EUNKNOWN;
	int rc = fate_ask(s, sent, call_deadline_ns(&session_engine(s)->time), &result, &changed);

	if (rc == KVD_NOT_FOUND)
		return lost(s, &why);
	if (rc == KVD_OK)
		*version = changed.version;
	else
		*session_err(s) = why;
	return result;
}

static int gone(struct kvd_session *s)
{
	return err_set(session_err(s), KVD_ELOST,
		       "the connection was lost, and the lock with it: nothing was done");
}

/* The token of the key's stripe, with nothing else in flight. */
static int part_of(struct kvd_lock *l, const void *key, size_t key_bytes, uint64_t *token)
{
	struct engine *e = session_engine(l->session);
	const struct wire_welcome *w = &e->table.welcome;
	int rc = check_key(&e->health.err, key, key_bytes);

	if (!rc)
		rc = session_alone(l->session);
	if (rc)
		return rc;
	if (!lock_is_connected(l))
		return gone(l->session);
	uint64_t stripe = layout_stripe(hash_key(w->hash_seed, key, key_bytes).b, w->stripes);
	for (unsigned i = 0; i < l->count; i++) {
		if (l->part[i].stripe == stripe) {
			*token = l->part[i].token;
			return 0;
		}
	}
	return err_set(&e->health.err, KVD_EINVAL, "the key is not among those of the lock");
}

/* Looks at the word, or has kvd look. */
static int look_at(struct kvd_session *s, uint64_t stripe, uint64_t token, bool *held)
{
	struct engine *e = session_engine(s);

	if (stripes_are_asked(e))
		return lock_ask(s, stripe, token, held);
	struct op *op = stripe_ask(e, stripe, token);
	session_run_both(s, op, NULL);
	int rc = op_outcome(op)->result;
	*held = !rc && stripe_is_held(op, token);
	op_free(op);
	return rc;
}

int kvd_lock_check(kvd_lock_t *l)
{
	struct kvd_session *s = l->session;
	struct engine *e = session_engine(s);
	int rc = session_alone(s);

	if (rc)
		return rc;
	if (!lock_is_connected(l))
		return gone(s);
	for (unsigned i = 0; i < l->count && !rc; i++) {
		uint64_t reign = grant_reign(&e->table.grant);
		bool held = false;
		rc = look_at(s, l->part[i].stripe, l->part[i].token, &held);
		if (!rc && !held)
			return err_set(session_err(s), KVD_ELOST,
				       "somebody who may write broke the lock by changing its "
				       "word: others may have had it meanwhile");
		if (!rc && !lock_counts(e, reign))
			rc = lock_confirm(s);
	}
	if (rc == KVD_EBUSY)
		l->connection = 0; /* nobody knows: it is given up */
	if (rc && !lock_is_connected(l)) {
		const struct err why = *session_err(s);
		return lost(s, &why);
	}
	return rc;
}

int kvd_locked_get(kvd_lock_t *l, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, size_t *value_bytes, uint64_t *version)
{
	struct kvd_session *s = l->session;
	const struct iovec to = { value, value_bytes_max };
	const struct outcome *out;
	uint64_t token;
	int rc = part_of(l, key, key_bytes, &token);

	if (rc)
		return rc;
	struct op *op = op_new(session_engine(s), &get_class, key, key_bytes);
	get_start(op, GET_LOCKED, &to, 1);
	rc = session_run(s, op, &out);
	if (rc < 0 && !lock_is_connected(l)) {
		const struct err why = *session_err(s);
		return lost(s, &why);
	}
	if (rc == KVD_OK || rc == KVD_ESPACE)
		*value_bytes = out->bytes;
	if (rc == KVD_OK && version)
		*version = out->version;
	return rc;
}

static int locked_change(kvd_lock_t *l, enum wire_op wire, const void *key, size_t key_bytes,
			 const void *value, size_t value_bytes, uint64_t *version)
{
	struct kvd_session *s = l->session;
	const struct iovec all = { (void *)(uintptr_t)value, value_bytes };
	struct wire_request ask = { .op = (uint8_t)wire };
	const struct outcome *out;
	int rc = part_of(l, key, key_bytes, &ask.token);

	if (rc)
		return rc;
	struct op *op = op_new(session_engine(s), &change_class, key, key_bytes);
	rc = request_start(op, &ask, &all, 1);
	if (rc)
		return rc;
	rc = session_run(s, op, &out);
	uint64_t done = out->version;
	const struct sent sent = out->sent;
	if (rc == KVD_EUNKNOWN)
		rc = lost_change(s, &sent, &done);
	if (rc == KVD_ECONNECT && !lock_is_connected(l)) {
		const struct err why = *session_err(s);
		return lost(s, &why);
	}
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
