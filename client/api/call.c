/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that wait: one operation at a time. */
#include <string.h>
#include <time.h>

#include "client/again/fate.h"
#include "client/again/ready.h"
#include "client/api/flushing.h"
#include "client/get/fast.h"
#include "client/get/get.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/session.h"
#include "client/session/wait.h"
#include "common/text.h"

static int finish_get(struct kvd_session *s, struct op *op, struct got *got)
{
	const struct outcome *out;
	int rc = session_run(s, op, &out);

	*got = (struct got){ out->allocated, out->bytes, out->version, out->lengths, out->expiry };
	return rc;
}

static int get_once(struct kvd_session *s, const void *key, size_t key_bytes,
		    const struct iovec *iov, int count, struct got *got)
{
	struct op *op = op_new(session_engine(s), &get_class, key, key_bytes);
	int rc = get_start(op, iov ? GET_PLAIN : GET_ALLOCATES, iov, count);

	return rc ? rc : finish_get(s, op, got);
}

/* What the short way has not done. */
static __attribute__((noinline)) int go_on(struct kvd_session *s, struct op *begun, const void *key,
					   size_t key_bytes, const struct iovec *iov, int count,
					   struct got *got)
{
	struct engine *e = session_engine(s);
	bool outermost = call_begin(&e->time);
	int rc = begun ? finish_get(s, begun, got) : 0;
	bool again = !begun || (rc == KVD_ECONNECT && clock_ns() < e->time.end_ns);

	while (again) {
		rc = session_begin(s, key, key_bytes);
		if (rc) /* where no connection was made, the time is as good as over */
			break;
		rc = get_once(s, key, key_bytes, iov, count, got);
		again = rc == KVD_ECONNECT && clock_ns() < e->time.end_ns;
	}
	call_end(&e->time, outermost);
	return rc;
}

/* Without an iov the value is allocated.  A GET that lost its connection is asked
 * again on a new one, as long as a call may take. */
static inline int run_get(struct kvd_session *s, const void *key, size_t key_bytes,
			  const struct iovec *iov, int count, struct got *got)
{
	struct op *begun = NULL;
	int rc;

	if (iov && count == 1 &&
	    fast_get(session_engine(s), key, key_bytes, iov, got, &begun, &rc) == FAST_DONE)
		return rc;
	return go_on(s, begun, key, key_bytes, iov, count, got);
}

static int too_short(struct kvd_session *s, size_t value_bytes)
{
	return err_set(session_err(s), KVD_ESPACE,
		       "the value has %zu bytes: the buffer is too short", value_bytes);
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
	return rc == KVD_ESPACE ? too_short(s, got.bytes) : rc;
}

int kvd_get(kvd_session *s, const void *key, size_t key_bytes, void *value, size_t value_bytes_max,
	    size_t *value_bytes, uint64_t *version)
{
	struct iovec all = { value, value_bytes_max };

	return kvd_getv(s, key, key_bytes, &all, 1, value_bytes, version);
}

int kvd_get_info(kvd_session *s, const void *key, size_t key_bytes, void *value,
		 size_t value_bytes_max, struct kvd_info *info)
{
	const struct iovec all = { value, value_bytes_max };
	struct got got;

	if (info->size != sizeof *info)
		return err_set(session_err(s), KVD_EINVAL,
			       "info.size is %zu: set it to sizeof(struct kvd_info)", info->size);
	int rc = run_get(s, key, key_bytes, &all, 1, &got);
	if (rc != KVD_OK && rc != KVD_ESPACE)
		return rc;
	uint64_t expiry_ms = layout_expiry_ms(got.expiry);
	*info = (struct kvd_info){
		.size = sizeof *info,
		.value_bytes = got.bytes,
		.version = got.version,
		.ttl_ms = expiry_ms ? clock_left_ms(&session_engine(s)->table.clock, expiry_ms,
						    clock_ns())
				    : 0,
		.flags = layout_flags(got.lengths, got.expiry),
		.signs = (int)layout_signs(got.expiry),
	};
	return rc == KVD_ESPACE ? too_short(s, got.bytes) : rc;
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
	rc = fate_ask(s, &(struct sent){ .receipt = *receipt }, t->end_ns, result, &changed);
	call_end(t, outermost);
	if (rc == KVD_OK && version)
		*version = changed.version;
	return rc;
}

/* A call that kvd answers with a payload: in *out until the next call. */
static int ask_kvd(struct kvd_session *s, const struct wire_request *ask, const void *key,
		   size_t key_bytes, const struct outcome **out)
{
	int rc = session_ready_alone(s);

	if (rc)
		return rc;
	struct op *op = op_new(session_engine(s), &call_class, key, key_bytes);
	rc = request_start(op, ask, NULL, 0);
	return rc ? rc : session_run(s, op, out);
}

/* Whether kvd is to be asked again: it had no room for an answer, and there is time.  To a
 * flush "busy" says more. */
static bool ask_again(struct engine *e, enum wire_op wire, const struct outcome *out)
{
	/* Where it serves the next attempt finds out. */
	e->health.moved |= out->reply.status == WIRE_EELSEWHERE;
	if (out->reply.status == WIRE_EELSEWHERE)
		return clock_ns() < e->time.end_ns;
	if (out->reply.status != WIRE_EBUSY || wire == WIRE_FLUSH || clock_ns() >= e->time.end_ns)
		return false;
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return true;
}

static int run_ask(struct kvd_session *s, const struct wire_request *ask, const void *key,
		   size_t key_bytes, const struct outcome **out)
{
	struct engine *e = session_engine(s);
	enum wire_op wire = (enum wire_op)ask->op;
	bool outermost = call_begin(&e->time);
	int rc;

	do {
		rc = ask_kvd(s, ask, key, key_bytes, out);
	} while (!rc && ask_again(e, wire, *out));
	call_end(&e->time, outermost);
	if (rc)
		return rc;
	switch ((enum wire_status)(*out)->reply.status) {
	case WIRE_OK:
		return KVD_OK;
	case WIRE_EBUSY:
		return wire == WIRE_FLUSH ? KVD_OK
					  : err_set(&e->health.err, KVD_EBUSY,
						    "kvd at %s was too busy to answer: others ask "
						    "for more than it can send",
						    e->health.peer);
	case WIRE_EDENIED:
		return health_denied(&e->health);
	case WIRE_EELSEWHERE:
		return request_result(e, 0, WIRE_EELSEWHERE);
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

static int run_call(struct kvd_session *s, enum wire_op wire, const void *key, size_t key_bytes,
		    uint64_t arg, const struct outcome **out)
{
	const struct wire_request ask = { .op = (uint8_t)wire, .version = arg };

	return run_ask(s, &ask, key, key_bytes, out);
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
	if (!*json)
		return err_set(session_err(s), KVD_ENOMEM, "out of memory");
	text_tame(*json);
	return KVD_OK;
}

/* A cursor's bucket: pages come in the order of buckets (kvd-protocol(7)). */
#define CURSOR_BUCKET_SHIFT 20

/* Whether kvd's next cursor, of keys or of a flush, leads on; 0: it was the last page. */
static bool leads_on(uint64_t from, uint64_t next)
{
	return !next || next >> CURSOR_BUCKET_SHIFT >= from >> CURSOR_BUCKET_SHIFT;
}

static int malformed(struct kvd_session *s, const char *what)
{
	return err_set(session_err(s), KVD_EPROTOCOL, "kvd at %s sent %s that makes no sense",
		       session_engine(s)->health.peer, what);
}

int kvd_flush(kvd_session *s)
{
	uint64_t limit_ns = session_engine(s)->time.limit_ns, deadline = clock_ns() + limit_ns;
	struct flushing f = { .reign = session_engine(s)->reign };
	const struct outcome *out;

	for (;;) {
		int rc = run_call(s, WIRE_FLUSH, NULL, 0, f.from, &out);
		bool has_next = session_is_of_cluster(s) && clock_ns() < deadline;
		if (flushing_begins_again(&f, rc, session_engine(s)->reign, has_next))
			continue;
		if (rc)
			return rc;
		bool busy = out->reply.status == WIRE_EBUSY;
		if (!leads_on(f.from, out->reply.version))
			return malformed(s, "a cursor");
		f.from = out->reply.version;
		if (!busy && !f.from)
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

int kvd_flush_at(kvd_session *s, uint64_t unix_ms)
{
	const struct wire_request ask = { .op = WIRE_FLUSH, .flags = WIRE_UNIX, .ttl_ms = unix_ms };
	const struct outcome *out = NULL;

	if (unix_ms > KVD_UNIX_MS_MAX)
		return err_set(session_err(s), KVD_EINVAL,
			       "%llu is no Unix time in milliseconds: they end with the year 9999",
			       (unsigned long long)unix_ms);
	int rc = run_ask(s, &ask, NULL, 0, &out);
	if (rc == KVD_EPROTOCOL && out && out->reply.status == WIRE_EUNSUPPORTED)
		return err_set(session_err(s), KVD_EINVAL,
			       "kvd at %s is a member of a cluster, which deletes keys now or never: "
			       "flush when the time has come", session_engine(s)->health.peer);
	return rc;
}

/* The key at `at` of a page, and the next one's place: 0, there is none that could be. */
static size_t key_at(const struct outcome *page, size_t at, const void *prefix,
		     size_t prefix_bytes, struct wire_key *head)
{
	size_t left = page->payload_bytes - at;
	const uint8_t *key = page->payload + at + sizeof *head;

	if (left < sizeof *head)
		return 0;
	memcpy(head, page->payload + at, sizeof *head);
	if (!head->key_bytes || head->key_bytes > KVD_KEY_BYTES_MAX ||
	    head->key_bytes > left - sizeof *head || head->key_bytes < prefix_bytes ||
	    head->value_bytes > KVD_VALUE_BYTES_MAX)
		return 0;
	if (prefix_bytes && memcmp(key, prefix, prefix_bytes))
		return 0;
	return at + sizeof *head + head->key_bytes;
}

/* Tells of a page's keys once all of it is known to be good.  Not 0: enough. */
static int tell_page(struct kvd_session *s, const struct outcome *page, const void *prefix,
		     size_t prefix_bytes,
		     int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
		     void *arg)
{
	struct wire_key head;

	for (size_t at = 0; at < page->payload_bytes;) {
		at = key_at(page, at, prefix, prefix_bytes, &head);
		if (!at)
			return malformed(s, "a page of keys");
	}
	for (size_t at = 0, next; at < page->payload_bytes; at = next) {
		next = key_at(page, at, prefix, prefix_bytes, &head);
		if (each(arg, page->payload + at + sizeof head, head.key_bytes, head.value_bytes))
			return 1;
	}
	return 0;
}

int kvd_keys_page(kvd_session *s, const void *prefix, size_t prefix_bytes, uint64_t *cursor,
		  int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
		  void *arg)
{
	const struct outcome *page;

	if (prefix_bytes > KVD_KEY_BYTES_MAX)
		return err_set(session_err(s), KVD_ETOOBIG,
			       "the prefix is longer than a key may be");
	int rc = run_call(s, WIRE_KEYS, prefix, prefix_bytes, *cursor, &page);
	if (rc)
		return rc;
	uint64_t next = page->reply.version;
	if (next == *cursor ? next : !leads_on(*cursor, next))
		return malformed(s, "a cursor");
	rc = tell_page(s, page, prefix, prefix_bytes, each, arg);
	if (rc < 0)
		return rc;
	*cursor = rc ? 0 : next;
	return KVD_OK;
}

int kvd_keys(kvd_session *s, const void *prefix, size_t prefix_bytes,
	     int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
	     void *arg)
{
	uint64_t cursor = 0;
	int rc;

	do {
		rc = kvd_keys_page(s, prefix, prefix_bytes, &cursor, each, arg);
	} while (!rc && cursor);
	return rc;
}
