/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that wait: one operation at a time. */
#include <string.h>

#include "client/get/fast.h"
#include "client/get/get.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/fate.h"
#include "client/session/ready.h"
#include "client/session/session.h"
#include "client/session/wait.h"

static int finish_get(struct kvd_session *s, struct op *op, struct got *got)
{
	const struct outcome *out;
	int rc = session_run(s, op, &out);

	*got = (struct got){ out->allocated, out->bytes, out->version };
	return rc;
}

static int get_once(struct kvd_session *s, const void *key, size_t key_bytes,
		    const struct iovec *iov, int count, struct got *got)
{
	int rc = session_begin(s, key, key_bytes);

	if (rc)
		return rc;
	struct op *op = op_new(session_engine(s), &get_class, key, key_bytes);
	rc = get_start(op, iov ? GET_PLAIN : GET_ALLOCATES, iov, count);
	return rc ? rc : finish_get(s, op, got);
}

/* Without an iov the value is allocated.  A GET that lost its connection is asked
 * again on a new one, as long as a call may take. */
static int run_get(struct kvd_session *s, const void *key, size_t key_bytes,
		   const struct iovec *iov, int count, struct got *got)
{
	struct engine *e = session_engine(s);
	struct op *op;
	int rc;
	enum fast fast = iov && count == 1 ? fast_get(e, key, key_bytes, iov, got, &op, &rc)
					   : FAST_NOT;

	if (fast == FAST_DONE)
		return rc;
	bool outermost = call_begin(&e->time);
	rc = fast == FAST_BEGUN ? finish_get(s, op, got)
				: get_once(s, key, key_bytes, iov, count, got);
	while (rc == KVD_ECONNECT && clock_ns() < e->time.end_ns)
		rc = get_once(s, key, key_bytes, iov, count, got);
	call_end(&e->time, outermost);
	return rc;
}

int kvd_getv(kvd_session *s, const void *key, size_t key_bytes, const struct iovec *iov,
	     int iov_count, size_t *value_bytes, uint64_t *version)
{
	static const struct iovec none;
	struct got got;
	int rc = run_get(s, key, key_bytes, iov ? iov : &none, iov_count, &got);

	if (rc == KVD_OK || rc == KVD_ESPACE)
		*value_bytes = got.bytes;
	if (rc == KVD_OK && version)
		*version = got.version;
	if (rc == KVD_ESPACE)
		err_set(session_err(s), rc, "the value has %zu bytes: the buffer is too short",
			got.bytes);
	return rc;
}

int kvd_get(kvd_session *s, const void *key, size_t key_bytes, void *value, size_t value_bytes_max,
	    size_t *value_bytes, uint64_t *version)
{
	struct iovec all = { value, value_bytes_max };

	return kvd_getv(s, key, key_bytes, &all, 1, value_bytes, version);
}

int kvd_get_alloc(kvd_session *s, const void *key, size_t key_bytes, void **value,
		  size_t *value_bytes, uint64_t *version)
{
	struct got got;
	int rc = run_get(s, key, key_bytes, NULL, 0, &got);

	if (rc == KVD_ENOMEM)
		err_set(session_err(s), rc, "no memory for a value of %zu bytes", got.bytes);
	if (rc)
		return rc;
	*value = got.allocated;
	*value_bytes = got.bytes;
	if (version)
		*version = got.version;
	return KVD_OK;
}

int kvd_exists(kvd_session *s, const void *key, size_t key_bytes, size_t *value_bytes)
{
	size_t bytes;
	int rc = kvd_getv(s, key, key_bytes, NULL, 0, &bytes, NULL);

	if (rc != KVD_OK && rc != KVD_ESPACE)
		return rc;
	if (value_bytes)
		*value_bytes = bytes;
	return KVD_OK;
}

int kvd_fate(kvd_session *s, const struct kvd_receipt *receipt, int *result, uint64_t *version)
{
	struct call_time *t = &session_engine(s)->time;
	struct changed changed;
	int rc = session_alone(s);

	if (rc)
		return rc;
	bool outermost = call_begin(t);
	rc = fate_ask(s, receipt, t->end_ns, result, &changed);
	call_end(t, outermost);
	if (rc == KVD_OK && version)
		*version = changed.version;
	return rc;
}

/* A call that kvd answers with a payload: in *out until the next call. */
static int ask_kvd(struct kvd_session *s, enum wire_op wire, const void *key, size_t key_bytes,
		   uint64_t arg, const struct outcome **out)
{
	const struct wire_request ask = { .op = (uint8_t)wire, .version = arg };
	int rc = session_ready_alone(s);

	if (rc)
		return rc;
	struct op *op = op_new(session_engine(s), &call_class, key, key_bytes);
	rc = request_start(op, &ask, NULL, 0);
	return rc ? rc : session_run(s, op, out);
}

static int run_call(struct kvd_session *s, enum wire_op wire, const void *key, size_t key_bytes,
		    uint64_t arg, const struct outcome **out)
{
	struct engine *e = session_engine(s);
	bool outermost = call_begin(&e->time);
	int rc = ask_kvd(s, wire, key, key_bytes, arg, out);

	call_end(&e->time, outermost);
	if (rc)
		return rc;
	switch ((enum wire_status)(*out)->reply.status) {
	case WIRE_OK:
	case WIRE_EBUSY:
		return KVD_OK;
	case WIRE_EDENIED:
		return health_denied(&e->health);
	case WIRE_EDISK:
	case WIRE_EUNKNOWN:
		return err_set(&e->health.err, KVD_EDISK,
			       "the disk of kvd at %s is full or broken "
			       "(its log says more)",
			       e->health.peer);
	default:
		return err_set(&e->health.err, KVD_EPROTOCOL, "%s answered with status %u",
			       e->health.peer, (*out)->reply.status);
	}
}

int kvd_ping(kvd_session *s, uint64_t *round_trip_ns)
{
	struct call_time *t = &session_engine(s)->time;
	const struct outcome *out;
	bool outermost = call_begin(t);
	int rc = session_ready(s);
	uint64_t start = clock_ns();

	if (!rc)
		rc = run_call(s, WIRE_PING, NULL, 0, 0, &out);
	if (rc == KVD_OK)
		*round_trip_ns = clock_ns() - start;
	call_end(t, outermost);
	return rc;
}

int kvd_stats(kvd_session *s, char **json)
{
	const struct outcome *out;
	int rc = run_call(s, WIRE_STATS, NULL, 0, 0, &out);

	if (rc)
		return rc;
	*json = strndup((const char *)out->payload, out->payload_bytes);
	return *json ? KVD_OK : err_set(session_err(s), KVD_ENOMEM, "out of memory");
}

int kvd_flush(kvd_session *s)
{
	uint64_t limit_ns = session_engine(s)->time.limit_ns, deadline = clock_ns() + limit_ns;
	const struct outcome *out;
	uint64_t from = 0;

	for (;;) {
		int rc = run_call(s, WIRE_FLUSH, NULL, 0, from, &out);
		if (rc)
			return rc;
		bool busy = out->reply.status == WIRE_EBUSY;
		from = out->reply.version;
		if (!busy && !from)
			return KVD_OK;
		if (busy && clock_ns() > deadline)
			return err_set(session_err(s), KVD_EBUSY,
				       "a key stayed locked: not all keys were deleted");
		if (busy)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		else
			deadline = clock_ns() + limit_ns;
	}
}

int kvd_keys(kvd_session *s, const void *prefix, size_t prefix_bytes,
	     int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
	     void *arg)
{
	const struct outcome *out;
	uint64_t from = 0;

	if (prefix_bytes > KVD_KEY_BYTES_MAX)
		return err_set(session_err(s), KVD_ETOOBIG,
			       "the prefix is longer than a key may be");
	do {
		int rc = run_call(s, WIRE_KEYS, prefix, prefix_bytes, from, &out);
		if (rc)
			return rc;
		from = out->reply.version;
		const uint8_t *payload = out->payload;
		size_t bytes = out->payload_bytes;
		for (size_t at = 0; at + sizeof(struct wire_key) <= bytes;) {
			const struct wire_key *k = (const struct wire_key *)(payload + at);
			at += sizeof *k + k->key_bytes;
			if (at > bytes)
				return err_set(session_err(s), KVD_EPROTOCOL,
					       "malformed page of keys");
			if (each(arg, k->key, k->key_bytes, k->value_bytes))
				return KVD_OK;
		}
	} while (from);
	return KVD_OK;
}
