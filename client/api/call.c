/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that wait: one operation at a time.
 *
 * What a call may take is fixed when it begins: connecting again, asking again and what
 * became of a change are all of that time, not of one of their own.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/get/get.h"
#include "client/op/session.h"

bool session_call_begin(struct kvd_session *s)
{
	if (s->call_end_ns)
		return false;
	s->call_begun_ns = clock_coarse_ns();
	s->call_end_ns = s->call_begun_ns + s->client->clock_tick_ns +
			 (uint64_t)s->client->options.timeout_ms * 1000000;
	return true;
}

void session_call_end(struct kvd_session *s, bool outermost)
{
	if (outermost)
		s->call_end_ns = 0;
}

static int fail_busy(struct kvd_session *s)
{
	return err_set(&s->err, KVD_EINVAL,
		       "operations are in flight: take their completions with kvd_poll first");
}

int session_begin(struct kvd_session *s, const void *key, size_t key_bytes)
{
	int rc = check_key(s, key, key_bytes);

	if (rc)
		return rc;
	return session_settle(s) ? fail_busy(s) : session_ready(s);
}

int session_set_value(struct kvd_session *s, struct pieces *value, const struct iovec *iov,
		      int count)
{
	if (pieces_set(value, iov, count))
		return err_set(&s->err, KVD_EINVAL, "a value has 0 to %d pieces, not %d", KVD_IOV_MAX,
			       count);
	return 0;
}

static int finish_get(struct op *op, struct got *got)
{
	int rc = session_run(op);

	*got = (struct got){ op->allocated, op->result_bytes, op->result_version };
	return rc;
}

static int get_once(struct kvd_session *s, const void *key, size_t key_bytes,
		    const struct iovec *iov, int count, struct got *got)
{
	int rc = session_begin(s, key, key_bytes);

	if (rc)
		return rc;
	struct op *op = op_new(s, &get_class, key, key_bytes);
	rc = session_set_value(s, &op->value, iov, count);
	if (rc) {
		op_free(op);
		return rc;
	}
	get_start(op, iov ? GET_PLAIN : GET_ALLOCATES);
	return finish_get(op, got);
}

/* Without an iov the value is allocated.  A GET that lost its connection is asked
 * again on a new one, as long as a call may take. */
static int run_get(struct kvd_session *s, const void *key, size_t key_bytes,
		   const struct iovec *iov, int count, struct got *got)
{
	struct op *op;
	int rc;
	enum quick quick = iov && count == 1 ? quick_get(s, key, key_bytes, iov, got, &op, &rc)
					     : QUICK_NOT;

	if (quick == QUICK_DONE)
		return rc;
	bool outermost = session_call_begin(s);
	rc = quick == QUICK_BEGUN ? finish_get(op, got)
				  : get_once(s, key, key_bytes, iov, count, got);
	while (rc == KVD_ECONNECT && clock_ns() < s->call_end_ns)
		rc = get_once(s, key, key_bytes, iov, count, got);
	session_call_end(s, outermost);
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
		err_set(&s->err, rc, "the value has %zu bytes: the buffer is too short", got.bytes);
	return rc;
}

int kvd_get(kvd_session *s, const void *key, size_t key_bytes, void *value,
	    size_t value_bytes_max, size_t *value_bytes, uint64_t *version)
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
		err_set(&s->err, rc, "no memory for a value of %zu bytes", got.bytes);
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
	struct changed changed;

	if (session_settle(s))
		return fail_busy(s);
	bool outermost = session_call_begin(s);
	int rc = fate_ask(s, receipt, s->call_end_ns, result, &changed);
	session_call_end(s, outermost);
	if (rc == KVD_OK && version)
		*version = changed.version;
	return rc;
}

void kvd_session_receipt(kvd_session *s, struct kvd_receipt *receipt)
{
	s->receipt = receipt;
}

static int ask_kvd(struct kvd_session *s, enum wire_op wire, const void *key, size_t key_bytes,
		   uint64_t arg, struct op **op)
{
	int rc = session_settle(s) ? fail_busy(s) : session_ready(s);

	if (rc)
		return rc;
	*op = op_new(s, &call_class, key, key_bytes);
	request_send(*op, &(struct wire_request){ .op = (uint8_t)wire, .version = arg }, 0);
	return session_run(*op);
}

/* A call that kvd answers with a payload: in *payload until the next call. */
static int run_call(struct kvd_session *s, enum wire_op wire, const void *key, size_t key_bytes,
		    uint64_t arg, struct wire_reply *reply, const uint8_t **payload,
		    size_t *payload_bytes)
{
	bool outermost = session_call_begin(s);
	struct op *op;
	int rc = ask_kvd(s, wire, key, key_bytes, arg, &op);

	session_call_end(s, outermost);
	if (rc)
		return rc;
	*reply = op->reply;
	*payload = op->memory->message;
	*payload_bytes = op->payload_bytes;
	if (reply->status == WIRE_OK || reply->status == WIRE_EBUSY)
		return KVD_OK;
	if (reply->status == WIRE_EDENIED)
		return session_denied(s);
	if (reply->status == WIRE_EDISK || reply->status == WIRE_EUNKNOWN)
		return err_set(&s->err, KVD_EDISK, "the disk of kvd at %s is full or broken (its log says "
			       "more)", s->client->addr.text);
	return err_set(&s->err, KVD_EPROTOCOL, "%s answered with status %u", s->client->addr.text,
		       reply->status);
}

int kvd_ping(kvd_session *s, uint64_t *round_trip_ns)
{
	struct wire_reply reply;
	const uint8_t *payload;
	size_t bytes;
	bool outermost = session_call_begin(s);
	int rc = session_ready(s);
	uint64_t start = clock_ns();

	if (!rc)
		rc = run_call(s, WIRE_PING, NULL, 0, 0, &reply, &payload, &bytes);
	if (rc == KVD_OK)
		*round_trip_ns = clock_ns() - start;
	session_call_end(s, outermost);
	return rc;
}

int kvd_stats(kvd_session *s, char **json)
{
	struct wire_reply reply;
	const uint8_t *payload;
	size_t bytes;
	int rc = run_call(s, WIRE_STATS, NULL, 0, 0, &reply, &payload, &bytes);

	if (rc)
		return rc;
	*json = strndup((const char *)payload, bytes);
	return *json ? KVD_OK : err_set(&s->err, KVD_ENOMEM, "out of memory");
}

int kvd_flush(kvd_session *s)
{
	uint64_t deadline = clock_ns() + (uint64_t)s->client->options.timeout_ms * 1000000;
	struct wire_reply reply = { 0 };
	const uint8_t *payload;
	size_t bytes;

	do {
		int rc = run_call(s, WIRE_FLUSH, NULL, 0, reply.version, &reply, &payload, &bytes);
		if (rc)
			return rc;
		if (reply.status == WIRE_EBUSY && clock_ns() > deadline)
			return err_set(&s->err, KVD_EBUSY,
				       "a key stayed locked: not all keys were deleted");
		if (reply.status == WIRE_OK)
			deadline = clock_ns() +
				   (uint64_t)s->client->options.timeout_ms * 1000000;
		else
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	} while (reply.status == WIRE_EBUSY || reply.version);
	return KVD_OK;
}

int kvd_keys(kvd_session *s, const void *prefix, size_t prefix_bytes,
	     int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
	     void *arg)
{
	struct wire_reply reply = { 0 };
	const uint8_t *payload;
	size_t bytes;

	if (prefix_bytes > KVD_KEY_BYTES_MAX)
		return err_set(&s->err, KVD_ETOOBIG, "the prefix is longer than a key may be");
	do {
		int rc = run_call(s, WIRE_KEYS, prefix, prefix_bytes, reply.version, &reply, &payload,
				  &bytes);
		if (rc)
			return rc;
		for (size_t at = 0; at + sizeof(struct wire_key) <= bytes;) {
			const struct wire_key *k = (const struct wire_key *)(payload + at);
			at += sizeof *k + k->key_bytes;
			if (at > bytes)
				return err_set(&s->err, KVD_EPROTOCOL, "malformed page of keys");
			if (each(arg, k->key, k->key_bytes, k->value_bytes))
				return KVD_OK;
		}
	} while (reply.version);
	return KVD_OK;
}
