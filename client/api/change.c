/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The changes of <kvd.h>: each is one message.  A change is described once, by a
 * struct ask; the synchronous calls run it and the submits start it.
 */
#include <string.h>

#include "client/again/fate.h"
#include "client/again/ready.h"
#include "client/api/async.h"
#include "client/get/get.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/session.h"
#include "client/session/wait.h"

struct ask {
	struct wire_request request;
	const struct iovec *iov;
	int iov_count;
};

/* Of a struct kvd_change as it was at first. */
#define ELDER_CHANGE_BYTES (offsetof(struct kvd_change, version) + sizeof(uint64_t))

/* With zeros where the caller's is of an elder kind. */
static int take_change(struct kvd_session *s, const struct kvd_change *from,
		       struct kvd_change *change)
{
	*change = (struct kvd_change){ 0 };
	if (from->size != ELDER_CHANGE_BYTES && from->size != sizeof *change)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.size is %zu: set it to sizeof(struct kvd_change)", from->size);
	memcpy(change, from, from->size);
	return 0;
}

static int check_time(struct kvd_session *s, const struct kvd_change *change)
{
	if (change->ttl_ms && change->expires_unix_ms)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.ttl_ms and change.expires_unix_ms are set: give one of them");
	if (change->expires_unix_ms > KVD_UNIX_MS_MAX)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.expires_unix_ms is %llu: it is a Unix time in milliseconds, to "
			       "the year 9999",
			       (unsigned long long)change->expires_unix_ms);
	if (change->ttl_ms > KVD_TTL_MS_MAX)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.ttl_ms is %llu: it counts from now, to a hundred years "
			       "(%llu), and 0 is for ever",
			       (unsigned long long)change->ttl_ms, KVD_TTL_MS_MAX);
	return 0;
}

/* What each kind of change makes use of: of KVD_KEEP_TTL and so on. */
enum { PUT_OPTIONS = KVD_KEEP_TTL | KVD_OR_STALE, TOUCH_OPTIONS = KVD_KEEP_TTL | KVD_SET_SIGNS };

static int check_kind(struct kvd_session *s, const struct kvd_change *change, int options)
{
	if (change->condition < KVD_ALWAYS || change->condition > KVD_IF_VERSION)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.condition is %d: it is a KVD_IF_* or "
			       "KVD_ALWAYS",
			       change->condition);
	if (change->signs & ~(KVD_STALE | KVD_CLAIMED))
		return err_set(session_err(s), KVD_EINVAL,
			       "change.signs is %d: there are KVD_STALE and KVD_CLAIMED",
			       change->signs);
	if (change->options & ~options)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.options is %d: this kind of change has not all of that",
			       change->options);
	if ((change->options & KVD_OR_STALE) && change->condition != KVD_IF_VERSION)
		return err_set(session_err(s), KVD_EINVAL,
			       "change.options has KVD_OR_STALE, which goes with KVD_IF_VERSION");
	return 0;
}

static int check_change(struct kvd_session *s, const struct kvd_change *from, int options,
			struct wire_request *q)
{
	static const uint32_t conditions[] = { 0, WIRE_IF_ABSENT, WIRE_IF_PRESENT,
					       WIRE_IF_VERSION };
	struct kvd_change change;
	int rc = from ? take_change(s, from, &change) : 0;

	if (!from || rc)
		return rc;
	rc = check_kind(s, &change, options);
	if (!rc)
		rc = check_time(s, &change);
	if (rc)
		return rc;
	q->flags |= conditions[change.condition];
	if (change.expires_unix_ms)
		q->flags |= WIRE_UNIX;
	if (change.signs & KVD_STALE)
		q->flags |= WIRE_STALE;
	if (change.signs & KVD_CLAIMED)
		q->flags |= WIRE_CLAIMED;
	if (change.options & KVD_KEEP_TTL)
		q->flags |= WIRE_KEEP_TTL;
	if (change.options & KVD_OR_STALE)
		q->flags |= WIRE_OR_STALE;
	if (change.options & KVD_SET_SIGNS)
		q->flags |= WIRE_SIGNS;
	q->version = change.version;
	q->ttl_ms = change.expires_unix_ms ? change.expires_unix_ms : change.ttl_ms;
	q->item_flags = change.flags;
	return 0;
}

static int run_once(struct kvd_session *s, const void *key, size_t key_bytes, const struct ask *ask,
		    struct changed *changed, struct sent *sent)
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
	struct sent sent;
	int rc;

	do {
		rc = run_once(s, key, key_bytes, ask, changed, &sent);
	} while (fate_again(s, &sent, t->end_ns, &rc, changed));
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
	return check_change(s, change, PUT_OPTIONS, &ask->request);
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
	int rc = check_change(s, change, 0, &ask->request);
	if (!rc && (ask->request.ttl_ms || ask->request.item_flags ||
		    (ask->request.flags & (WIRE_STALE | WIRE_CLAIMED))))
		rc = err_set(session_err(s), KVD_EINVAL,
			     "change has a time to live, flags or signs: a deletion has none");
	return rc;
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
static int ask_incr(struct kvd_session *s, uint32_t flags, int64_t delta, const int64_t *initial,
		    const struct kvd_change *change, struct wire_incr *incr, struct iovec *iov,
		    struct ask *ask)
{
	*incr = (struct wire_incr){ .delta = delta, .initial = initial ? *initial : 0 };
	*iov = (struct iovec){ incr, sizeof *incr };
	*ask = (struct ask){ .request = { .op = WIRE_INCR,
					  .flags = flags | (initial ? WIRE_INITIAL : 0) },
			     .iov = iov,
			     .iov_count = 1 };
	return check_change(s, change, 0, &ask->request);
}

static int count(kvd_session *s, const void *key, size_t key_bytes, uint32_t flags, int64_t delta,
		 const int64_t *initial, const struct kvd_change *change, struct changed *done)
{
	struct wire_incr incr;
	struct iovec iov;
	struct ask ask;
	int rc = ask_incr(s, flags, delta, initial, change, &incr, &iov, &ask);

	return rc ? rc : run(s, key, key_bytes, &ask, done);
}

static int submit_count(kvd_session *s, const void *key, size_t key_bytes, uint32_t flags,
			int64_t delta, const int64_t *initial, const struct kvd_change *change,
			void *tag)
{
	struct wire_incr incr;
	struct iovec iov;
	struct ask ask;
	int rc = ask_incr(s, flags, delta, initial, change, &incr, &iov, &ask);

	return rc ? rc : submit(s, key, key_bytes, &ask, tag);
}

int kvd_incr(kvd_session *s, const void *key, size_t key_bytes, int64_t delta,
	     const int64_t *initial, const struct kvd_change *change, int64_t *number)
{
	struct changed done;
	int rc = count(s, key, key_bytes, 0, delta, initial, change, &done);

	if (rc == KVD_OK && number)
		*number = done.number;
	return rc;
}

int kvd_submit_incr(kvd_session *s, const void *key, size_t key_bytes, int64_t delta,
		    const int64_t *initial, const struct kvd_change *change, void *tag)
{
	return submit_count(s, key, key_bytes, 0, delta, initial, change, tag);
}

#define DOWN ((uint32_t)WIRE_UNSIGNED | WIRE_DOWN)

int kvd_incr_u64(kvd_session *s, const void *key, size_t key_bytes, uint64_t delta,
		 const uint64_t *initial, const struct kvd_change *change, uint64_t *number)
{
	struct changed done;
	int rc = count(s, key, key_bytes, WIRE_UNSIGNED, (int64_t)delta, (const int64_t *)initial,
		       change, &done);

	if (rc == KVD_OK && number)
		*number = (uint64_t)done.number;
	return rc;
}

int kvd_decr_u64(kvd_session *s, const void *key, size_t key_bytes, uint64_t delta,
		 const uint64_t *initial, const struct kvd_change *change, uint64_t *number)
{
	struct changed done;
	int rc = count(s, key, key_bytes, DOWN, (int64_t)delta, (const int64_t *)initial, change,
		       &done);

	if (rc == KVD_OK && number)
		*number = (uint64_t)done.number;
	return rc;
}

int kvd_submit_incr_u64(kvd_session *s, const void *key, size_t key_bytes, uint64_t delta,
			const uint64_t *initial, const struct kvd_change *change, void *tag)
{
	return submit_count(s, key, key_bytes, WIRE_UNSIGNED, (int64_t)delta,
			    (const int64_t *)initial, change, tag);
}

int kvd_submit_decr_u64(kvd_session *s, const void *key, size_t key_bytes, uint64_t delta,
			const uint64_t *initial, const struct kvd_change *change, void *tag)
{
	return submit_count(s, key, key_bytes, DOWN, (int64_t)delta, (const int64_t *)initial,
			    change, tag);
}

/* WIRE_APPEND, WIRE_PREPEND */
static int join(kvd_session *s, enum wire_op op, const void *key, size_t key_bytes,
		const void *value, size_t value_bytes, const struct kvd_change *change,
		size_t *total_bytes)
{
	const struct iovec iov = { (void *)(uintptr_t)value, value_bytes };
	struct ask ask = { .request = { .op = (uint8_t)op }, .iov = &iov, .iov_count = 1 };
	struct changed done;
	int rc = check_change(s, change, 0, &ask.request);

	if (!rc)
		rc = run(s, key, key_bytes, &ask, &done);
	if (rc == KVD_OK && total_bytes)
		*total_bytes = done.value_bytes;
	return rc;
}

static int submit_join(kvd_session *s, enum wire_op op, const void *key, size_t key_bytes,
		       const void *value, size_t value_bytes, const struct kvd_change *change,
		       void *tag)
{
	const struct iovec iov = { (void *)(uintptr_t)value, value_bytes };
	struct ask ask = { .request = { .op = (uint8_t)op }, .iov = &iov, .iov_count = 1 };
	int rc = check_change(s, change, 0, &ask.request);

	return rc ? rc : submit(s, key, key_bytes, &ask, tag);
}

int kvd_append(kvd_session *s, const void *key, size_t key_bytes, const void *value,
	       size_t value_bytes, const struct kvd_change *change, size_t *total_bytes)
{
	return join(s, WIRE_APPEND, key, key_bytes, value, value_bytes, change, total_bytes);
}

int kvd_submit_append(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		      size_t value_bytes, const struct kvd_change *change, void *tag)
{
	return submit_join(s, WIRE_APPEND, key, key_bytes, value, value_bytes, change, tag);
}

int kvd_prepend(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		size_t value_bytes, const struct kvd_change *change, size_t *total_bytes)
{
	return join(s, WIRE_PREPEND, key, key_bytes, value, value_bytes, change, total_bytes);
}

int kvd_submit_prepend(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		       size_t value_bytes, const struct kvd_change *change, void *tag)
{
	return submit_join(s, WIRE_PREPEND, key, key_bytes, value, value_bytes, change, tag);
}

static int ask_touch(struct kvd_session *s, const struct kvd_change *change, struct ask *ask)
{
	*ask = (struct ask){ .request = { .op = WIRE_TOUCH } };
	int rc = check_change(s, change, TOUCH_OPTIONS, &ask->request);

	if (!rc && ask->request.item_flags)
		rc = err_set(session_err(s), KVD_EINVAL,
			     "change.flags is set: a touch leaves a value's flags as they are");
	if (!rc && (ask->request.flags & (WIRE_STALE | WIRE_CLAIMED)) &&
	    !(ask->request.flags & WIRE_SIGNS))
		rc = err_set(session_err(s), KVD_EINVAL,
			     "change.signs is set without KVD_SET_SIGNS among its options");
	return rc;
}

int kvd_touch_with(kvd_session *s, const void *key, size_t key_bytes,
		   const struct kvd_change *change, uint64_t *version)
{
	struct changed done;
	struct ask ask;
	int rc = ask_touch(s, change, &ask);

	if (!rc)
		rc = run(s, key, key_bytes, &ask, &done);
	if ((rc == KVD_OK || rc == KVD_CONDITION) && version)
		*version = done.version;
	return rc;
}

int kvd_touch(kvd_session *s, const void *key, size_t key_bytes, uint64_t ttl_ms)
{
	const struct kvd_change change = { .size = sizeof change, .ttl_ms = ttl_ms };

	return kvd_touch_with(s, key, key_bytes, &change, NULL);
}

int kvd_submit_touch_with(kvd_session *s, const void *key, size_t key_bytes,
			  const struct kvd_change *change, void *tag)
{
	struct ask ask;
	int rc = ask_touch(s, change, &ask);

	return rc ? rc : submit(s, key, key_bytes, &ask, tag);
}

int kvd_get_touch(kvd_session *s, const void *key, size_t key_bytes,
		  const struct kvd_change *change, void *value, size_t value_bytes_max,
		  struct kvd_info *info)
{
	struct call_time *t = &session_engine(s)->time;
	bool outermost = call_begin(t);
	int rc = info->size == sizeof *info ? kvd_touch_with(s, key, key_bytes, change, NULL)
					    : KVD_OK; /* kvd_get_info() says what is wrong */

	if (rc == KVD_OK)
		rc = kvd_get_info(s, key, key_bytes, value, value_bytes_max, info);
	call_end(t, outermost);
	return rc;
}

int kvd_submit_get_touch(kvd_session *s, const void *key, size_t key_bytes,
			 const struct kvd_change *change, void *value, size_t value_bytes_max,
			 void *tag)
{
	const struct iovec all = { value, value_bytes_max };
	struct ask ask;
	struct op *op;
	int rc = ask_touch(s, change, &ask);

	if (!rc)
		rc = session_submit(s, &touch_get_class, key, key_bytes, tag, &op);
	if (!rc)
		rc = get_start_touched(op, &ask.request, &all, 1);
	if (!rc)
		request_submitted(op);
	return rc;
}

int kvd_submit_touch(kvd_session *s, const void *key, size_t key_bytes, uint64_t ttl_ms, void *tag)
{
	const struct kvd_change change = { .size = sizeof change, .ttl_ms = ttl_ms };

	return kvd_submit_touch_with(s, key, key_bytes, &change, tag);
}
