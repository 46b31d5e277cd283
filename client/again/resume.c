/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/again/resume.h"

#include <poll.h>

#include "client/again/fate.h"
#include "client/again/ready.h"
#include "client/op/operation.h"
#include "client/op/engine.h"
#include "client/op/poll.h"
#include "client/session/session.h"
#include "client/session/teardown.h"

/* Where somebody answers, a connection takes less. Who waits in steps of a millisecond would else never have
 * one. */
#define RESCUE_NS_MIN 250000000ull

/* False: it is not known yet. */
static bool settle(struct kvd_session *s, struct op *op)
{
	struct changed changed = { 0 };
	struct sent sent = *op_sent(op);
	uint64_t deadline_ns = op_deadline_ns(op);
	int result;
	int rc = fate_ask_for(s, &sent, deadline_ns, &result, &changed);

	if (rc == KVD_OK)
		op_end_adrift(op, result, changed.version, changed.value_bytes, changed.number);
	else if (rc == KVD_NOT_FOUND)
		op_had_no_effect(op);
	else if (rc == KVD_EUNKNOWN)
		op_end_adrift(op, KVD_EUNKNOWN, 0, 0, 0);
	return rc >= 0 || rc == KVD_EUNKNOWN;
}

void session_resume(struct kvd_session *s)
{
	struct engine *e = session_engine(s);
	struct op *op;

	if (!e->adrift || e->is_resuming)
		return;
	e->is_resuming = true;
	/* Which become fewer, or it stops: the connection is lost again, or kvd wants time. */
	while (health_is_usable(&e->health) && (op = ops_next_unsettled(e)) && settle(s, op))
		;
	if (health_is_usable(&e->health) && !ops_next_unsettled(e))
		ops_send_adrift(e);
	e->is_resuming = false;
}

/* Connects again, and resumes what is adrift; until then, or for RESCUE_NS_MIN, at the latest. */
static void rescue(struct kvd_session *s, uint64_t until_ns)
{
	struct engine *e = session_engine(s);
	bool outermost = call_begin(&e->time);
	uint64_t least_ns = clock_ns() + RESCUE_NS_MIN;

	e->time.end_ns = until_ns > least_ns ? until_ns : least_ns;
	if (!session_ready(s))
		session_resume(s);
	call_end(&e->time, outermost);
	ops_end_late(e, clock_ns());
}

/* What is adrift goes on when there is a connection again; to where that has to be. */
static void poll_and_rescue(struct kvd_session *s, uint64_t until_ns)
{
	struct engine *e = session_engine(s);

	while (e->in_flight && !e->done) {
		if (!health_is_usable(&e->health))
			session_drift(s);
		if (e->adrift && !e->done)
			rescue(s, until_ns);
		if (e->done || clock_ns() >= until_ns)
			break;
		if (health_is_usable(&e->health) && e->in_flight > e->adrift)
			engine_poll(e, until_ns);
		else
			poll(NULL, 0, 1);
	}
}

int session_poll_or_resume(struct kvd_session *s, uint64_t wait_ns)
{
	struct engine *e = session_engine(s);

	e->may_drift = true;
	if (!e->adrift && health_is_good(&e->health) && !engine_take_now(e))
		engine_poll_for(e, wait_ns);
	if (!e->done && (e->adrift || !health_is_usable(&e->health)))
		poll_and_rescue(s, clock_ns() + wait_ns);
	e->may_drift = false;
	return 0;
}
