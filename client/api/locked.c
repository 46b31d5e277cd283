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
#include "client/api/lock.h"
#include "client/get/get.h"

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
	if (session_settle(s))
		return err_set(&s->err, KVD_EINVAL,
			       "operations are in flight: take their completions with kvd_poll first");
	if (!s->connected || s->broken || s->table.welcome.connection_id != l->connection_id)
		return err_set(&s->err, KVD_ELOST,
			       "the connection was lost, and the lock with it: nothing was done");
	uint64_t stripe = layout_stripe(hash_key(s->table.welcome.hash_seed, key, key_bytes).b,
					s->table.welcome.stripes);
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
	struct op *op = op_new(s, &get_class, key, key_bytes);
	pieces_set(&op->value, &(struct iovec){ value, value_bytes_max }, 1);
	get_start(op, GET_LOCKED);
	rc = session_run(op);
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
	struct op *op = op_new(s, &change_class, key, key_bytes);
	s->counters.changes++;
	pieces_set(&op->value, &(struct iovec){ (void *)(uintptr_t)value, value_bytes }, 1);
	rc = request_send(op, &(struct wire_request){ .op = (uint8_t)wire, .token = token },
			  value_bytes);
	if (rc) {
		op_free(op);
		return rc;
	}
	rc = session_run(op);
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
