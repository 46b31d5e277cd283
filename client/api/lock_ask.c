/* SPDX-License-Identifier: BSD-2-Clause */
/* What kvd is asked of a lock: to wait for it, and whether it counts. */
#include <time.h>

#include "client/api/kvd_lock.h"
#include "client/op/lockword.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/wait.h"

#define CONFIRM_NS 1000000000ull /* for a primary to have a lease again */
#define AGAIN_NS 1000000

/* Whether kvd is to be asked again: in a cluster "busy" may mean that it had no lease. */
static bool may_ask_again(const struct engine *e, const struct outcome *out, uint64_t end_ns)
{
	if (out->reply.status != WIRE_EBUSY || !e->table.grant.is_needed || clock_ns() >= end_ns)
		return false;
	nanosleep(&(struct timespec){ .tv_nsec = AGAIN_NS }, NULL);
	return true;
}

static int left_ms(uint64_t end_ns)
{
	uint64_t now_ns = clock_ns();

	return now_ns < end_ns ? (int)((end_ns - now_ns) / 1000000) + 1 : 1;
}

/* Asks until then, where that may help, and kvd waits no longer.  *out: the answer.  KVD_OK or KVD_E*. */
static int ask(struct kvd_session *s, struct wire_request q, uint64_t end_ns,
	       const struct outcome **out)
{
	struct engine *e = session_engine(s);
	int rc;

	do {
		struct op *op = op_new(e, &call_class, NULL, 0);
		if (q.op == WIRE_LOCK) {
			int ms = left_ms(end_ns);

			q.ttl_ms = (uint64_t)ms;
			op_allow_ms(op, ms);
		}
		rc = request_start(op, &q, NULL, 0);
		if (!rc)
			rc = session_run(s, op, out);
	} while (!rc && may_ask_again(e, *out, end_ns));
	return rc;
}

static int no_lease(struct engine *e)
{
	return err_set(&e->health.err, KVD_EBUSY, "the primary at %s does not reach its backups: it gives "
		       "no locks", e->health.peer);
}

int lock_confirm(struct kvd_session *s)
{
	struct engine *e = session_engine(s);
	const struct wire_request q = { .op = WIRE_RELEASE, .version = UINT64_MAX };
	const struct outcome *out;
	int rc = ask(s, q, clock_ns() + CONFIRM_NS, &out);

	if (rc || out->reply.status == WIRE_OK)
		return rc;
	if (out->reply.status == WIRE_EBUSY)
		return no_lease(e);
	return request_result(e, 0, out->reply.status);
}

/*
 * Nobody waits for no time: who has it is told so, and others that it is not theirs.  In a cluster
 * "busy" with a lease says that, without one it says nothing.
 */
int lock_ask(struct kvd_session *s, uint64_t stripe, uint64_t token, bool *held)
{
	const struct wire_request q = { .op = WIRE_LOCK, .token = token, .version = stripe };
	struct engine *e = session_engine(s);
	uint64_t end_ns = clock_ns() + CONFIRM_NS;
	const struct outcome *out;
	int rc;

	do {
		struct op *op = op_new(e, &call_class, NULL, 0);

		rc = request_start(op, &q, NULL, 0);
		if (!rc)
			rc = session_run(s, op, &out);
	} while (!rc && !out->reply.lease_ms && may_ask_again(e, out, end_ns));
	if (rc)
		return rc;
	*held = out->reply.status == WIRE_OK;
	if (out->reply.status == WIRE_EELSEWHERE)
		return request_result(e, 0, WIRE_EELSEWHERE);
	if (out->reply.status == WIRE_EBUSY && e->table.grant.is_needed && !out->reply.lease_ms)
		return no_lease(e);
	return KVD_OK;
}

int lock_wait(struct kvd_session *s, uint64_t stripe, uint64_t token, int timeout_ms)
{
	struct engine *e = session_engine(s);
	const struct wire_request q = { .op = WIRE_LOCK,
					.token = token,
					.version = stripe };
	const struct outcome *out;
	uint64_t wait_ms = timeout_ms ? (uint64_t)timeout_ms : 1; /* kvd knows no shorter one */
	int rc = ask(s, q, clock_ns() + wait_ms * 1000000, &out);

	if (rc || out->reply.status == WIRE_OK)
		return rc;
	if (out->reply.status == WIRE_EBUSY && !timeout_ms)
		return err_set(&e->health.err, KVD_EBUSY, "somebody else holds the lock");
	if (out->reply.status == WIRE_EBUSY)
		return err_set(&e->health.err, KVD_EBUSY, "the lock was not free within %d ms",
			       timeout_ms);
	if (out->reply.status == WIRE_EELSEWHERE)
		return request_result(e, 0, WIRE_EELSEWHERE);
	if (stripes_are_asked(e))
		return err_set(&e->health.err, KVD_EDEVICE,
			       "kvd at %s has no locks: its device has no atomic operations",
			       e->health.peer);
	return err_set(&e->health.err, KVD_EPROTOCOL,
		       "kvd at %s has no locks (its device has no atomics)", e->health.peer);
}
