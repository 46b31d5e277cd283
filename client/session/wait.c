/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for operations.  A connection that broke meanwhile is torn down here, which
 * ends all of them.
 */
#include "client/op/session.h"

static int look_after(struct kvd_session *s, int rc)
{
	if (s->broken)
		session_down(s);
	return s->done ? 0 : rc;
}

int session_poll(struct kvd_session *s, uint64_t until_ns)
{
	return look_after(s, flight_poll(s, until_ns));
}

int session_poll_for(struct kvd_session *s, uint64_t wait_ns)
{
	return look_after(s, flight_poll_for(s, wait_ns));
}

void session_arm(struct kvd_session *s)
{
	flight_arm(s);
	look_after(s, 0);
}

void session_wait(struct kvd_session *s, struct op *first, struct op *second)
{
	while (!first->done || !second->done) {
		session_poll(s, first->deadline_ns + 1000000000ull);
		s->done = NULL;
		s->done_end = &s->done;
	}
}

uint32_t session_settle(struct kvd_session *s)
{
	if (!s->in_flight)
		return 0;
	if (s->connected && !s->broken)
		flight_take(s);
	uint32_t detached = flight_detached(s);
	if (s->in_flight > detached)
		return s->in_flight - detached;
	/* Each of them ends, or the session does: see check_deadlines(). */
	while (s->in_flight + 2 > s->depth)
		session_poll(s, UINT64_MAX);
	return 0;
}

int session_run(struct op *op)
{
	struct kvd_session *s = op->session;

	while (!op->done)
		session_poll(s, op->deadline_ns + 1000000000ull);
	s->done = NULL;
	s->done_end = &s->done;
	int result = op->result;
	op_free(op);
	return result;
}
