/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The changes of <kvd.h>: each is one message.  A change is described once, by a
 * struct ask; the synchronous calls run it and the submits start it.
 */
#include "client/api/async.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/fate.h"
#include "client/session/ready.h"
#include "client/session/session.h"
#include "client/session/wait.h"

struct ask {
	struct wire_request request;
	const struct iovec *iov;
	int iov_count;
};

static int check_change(struct kvd_session *s, const struct kvd_change *change,
			struct wire_request *q)
{
	static const uint8_t flags[] = { 0, WIRE_IF_ABSENT, WIRE_IF_PRESENT, WIRE_IF_VERSION };

	if (!change)
		return 0;
	if (change->size != sizeof *change)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.size is %zu: set it to sizeof(struct kvd_change)",
			       change->size);
	if (change->condition < KVD_ALWAYS || change->condition > KVD_IF_VERSION)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.condition is %d: it is a KVD_IF_* or "
			       "KVD_ALWAYS",
			       change->condition);
	if (change->ttl_ms > KVD_TTL_MS_MAX)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.ttl_ms is %llu: it counts from now, to a hundred years "
			       "(%llu), and 0 is for ever",
			       (unsigned long long)change->ttl_ms, KVD_TTL_MS_MAX);
	q->flags |= flags[change->condition];
	q->version = change->version;
	q->ttl_ms = change->ttl_ms;
	return 0;
}

static int run_once(struct kvd_session *s, const void *key, size_t key_bytes, const struct ask *ask,
		    struct changed *changed, struct kvd_receipt *sent)
{
	const struct outcome *out;
	int rc = session_begin(s, key, key_bytes);

	if (rc)
		return rc;
	struct op *op = op_new(session_engine(s), &change_class, key, key_bytes);
	rc = request_start(op, &ask->request, ask->iov, ask->iov_count);
	if (rc)
		return rc;
	rc = session_run(s, op, &out);
	*changed = (struct changed){ out->version, out->bytes, out->number };
	*sent = out->sent;
	return rc;
}

static int run(struct kvd_session *s, const void *key, size_t key_bytes, const struct ask *ask,
	       struct changed *changed)
{
	struct call_time *t = &session_engine(s)->time;
	bool outermost = call_begin(t);
	struct kvd_receipt sent;
	int rc;

	do {
		rc = run_once(s, key, key_bytes, ask, changed, &sent);
	} while (rc == KVD_EUNKNOWN && clock_ns() < t->end_ns &&
		 fate_resolve(s, &sent, t->end_ns, &rc, changed));
	call_end(t, outermost);
	return rc;
}

static int submit(struct kvd_session *s, const void *key, size_t key_bytes, const struct ask *ask,
		  void *tag)
{
	struct op *op;
	int rc = session_submit(s, &change_class, key, key_bytes, tag, &op);

	if (!rc)
		rc = request_start(op, &ask->request, ask->iov, ask->iov_count);
	if (!rc)
		request_submitted(op);
	return rc;
}

/* --------------------------------------------------------------------- put */

static int ask_put(struct kvd_session *s, const struct iovec *iov, int iov_count,
		   const struct kvd_change *change, struct ask *ask)
{
	*ask = (struct ask){ .request = { .op = WIRE_PUT }, .iov = iov, .iov_count = iov_count };
	return check_change(s, change, &ask->request);
}

int kvd_putv(kvd_session *s, const void *key, size_t key_bytes, const struct iovec *iov,
	     int iov_count, const struct kvd_change *change, uint64_t *version)
{
	struct changed done;
	struct ask ask;
	int rc = ask_put(s, iov, iov_count, change, &ask);

	if (!rc)
		rc = run(s, key, key_bytes, &ask, &done);
	if ((rc == KVD_OK || rc == KVD_CONDITION) && version)
		*version = done.version;
	return rc;
}

int kvd_put_with(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		 size_t value_bytes, const struct kvd_change *change, uint64_t *version)
{
	struct iovec all = { (void *)(uintptr_t)value, value_bytes };

	return kvd_putv(s, key, key_bytes, &all, 1, change, version);
}

int kvd_put(kvd_session *s, const void *key, size_t key_bytes, const void *value,
	    size_t value_bytes, uint64_t *version)
{
	return kvd_put_with(s, key, key_bytes, value, value_bytes, NULL, version);
}

int kvd_submit_putv(kvd_session *s, const void *key, size_t key_bytes, const struct iovec *iov,
		    int iov_count, const struct kvd_change *change, void *tag)
{
	struct ask ask;
	int rc = ask_put(s, iov, iov_count, change, &ask);

	return rc ? rc : submit(s, key, key_bytes, &ask, tag);
}

int kvd_submit_put_with(kvd_session *s, const void *key, size_t key_bytes, const void *value,
			size_t value_bytes, const struct kvd_change *change, void *tag)
{
	struct iovec all = { (void *)(uintptr_t)value, value_bytes };

	return kvd_submit_putv(s, key, key_bytes, &all, 1, change, tag);
}

int kvd_submit_put(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		   size_t value_bytes, void *tag)
{
	return kvd_submit_put_with(s, key, key_bytes, value, value_bytes, NULL, tag);
}

/* ------------------------------------------------------------------ delete */

static int ask_del(struct kvd_session *s, const struct kvd_change *change, struct ask *ask)
{
	*ask = (struct ask){ .request = { .op = WIRE_DELETE } };
	if (change && change->ttl_ms)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.ttl_ms is set: a deletion has none");
	return check_change(s, change, &ask->request);
}

int kvd_del_with(kvd_session *s, const void *key, size_t key_bytes, const struct kvd_change *change,
		 uint64_t *version)
{
	struct changed done;
	struct ask ask;
	int rc = ask_del(s, change, &ask);

	if (!rc)
		rc = run(s, key, key_bytes, &ask, &done);
	if ((rc == KVD_OK || rc == KVD_CONDITION) && version)
		*version = done.version;
	return rc;
}

int kvd_del(kvd_session *s, const void *key, size_t key_bytes)
{
	return kvd_del_with(s, key, key_bytes, NULL, NULL);
}

int kvd_submit_del_with(kvd_session *s, const void *key, size_t key_bytes,
			const struct kvd_change *change, void *tag)
{
	struct ask ask;
	int rc = ask_del(s, change, &ask);

	return rc ? rc : submit(s, key, key_bytes, &ask, tag);
}

int kvd_submit_del(kvd_session *s, const void *key, size_t key_bytes, void *tag)
{
	return kvd_submit_del_with(s, key, key_bytes, NULL, tag);
}

/* --------------------------------------------------- computed from the old */

/* `incr` and `iov` live in the caller. */
static int ask_incr(struct kvd_session *s, int64_t delta, const int64_t *initial,
		    const struct kvd_change *change, struct wire_incr *incr, struct iovec *iov,
		    struct ask *ask)
{
	*incr = (struct wire_incr){ .delta = delta, .initial = initial ? *initial : 0 };
	*iov = (struct iovec){ incr, sizeof *incr };
	*ask = (struct ask){ .request = { .op = WIRE_INCR, .flags = initial ? WIRE_INITIAL : 0 },
			     .iov = iov,
			     .iov_count = 1 };
	return check_change(s, change, &ask->request);
}

int kvd_incr(kvd_session *s, const void *key, size_t key_bytes, int64_t delta,
	     const int64_t *initial, const struct kvd_change *change, int64_t *number)
{
	struct wire_incr incr;
	struct iovec iov;
	struct changed done;
	struct ask ask;
	int rc = ask_incr(s, delta, initial, change, &incr, &iov, &ask);

	if (!rc)
		rc = run(s, key, key_bytes, &ask, &done);
	if (rc == KVD_OK && number)
		*number = done.number;
	return rc;
}

int kvd_submit_incr(kvd_session *s, const void *key, size_t key_bytes, int64_t delta,
		    const int64_t *initial, const struct kvd_change *change, void *tag)
{
	struct wire_incr incr;
	struct iovec iov;
	struct ask ask;
	int rc = ask_incr(s, delta, initial, change, &incr, &iov, &ask);

	return rc ? rc : submit(s, key, key_bytes, &ask, tag);
}

static int ask_append(struct kvd_session *s, const struct iovec *iov,
		      const struct kvd_change *change, struct ask *ask)
{
	*ask = (struct ask){ .request = { .op = WIRE_APPEND }, .iov = iov, .iov_count = 1 };
	return check_change(s, change, &ask->request);
}

int kvd_append(kvd_session *s, const void *key, size_t key_bytes, const void *value,
	       size_t value_bytes, const struct kvd_change *change, size_t *total_bytes)
{
	struct iovec iov = { (void *)(uintptr_t)value, value_bytes };
	struct changed done;
	struct ask ask;
	int rc = ask_append(s, &iov, change, &ask);

	if (!rc)
		rc = run(s, key, key_bytes, &ask, &done);
	if (rc == KVD_OK && total_bytes)
		*total_bytes = done.value_bytes;
	return rc;
}

int kvd_submit_append(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		      size_t value_bytes, const struct kvd_change *change, void *tag)
{
	struct iovec iov = { (void *)(uintptr_t)value, value_bytes };
	struct ask ask;
	int rc = ask_append(s, &iov, change, &ask);

	return rc ? rc : submit(s, key, key_bytes, &ask, tag);
}

static int ask_touch(struct kvd_session *s, uint64_t ttl_ms, struct ask *ask)
{
	struct kvd_change change = { .size = sizeof change, .ttl_ms = ttl_ms };

	*ask = (struct ask){ .request = { .op = WIRE_TOUCH } };
	return check_change(s, &change, &ask->request);
}

int kvd_touch(kvd_session *s, const void *key, size_t key_bytes, uint64_t ttl_ms)
{
	struct changed done;
	struct ask ask;
	int rc = ask_touch(s, ttl_ms, &ask);

	return rc ? rc : run(s, key, key_bytes, &ask, &done);
}

int kvd_submit_touch(kvd_session *s, const void *key, size_t key_bytes, uint64_t ttl_ms, void *tag)
{
	struct ask ask;
	int rc = ask_touch(s, ttl_ms, &ask);

	return rc ? rc : submit(s, key, key_bytes, &ask, tag);
}
