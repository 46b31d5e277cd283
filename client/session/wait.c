/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/wait.h"

#include "client/op/operation.h"
#include "client/op/poll.h"
#include "client/session/session_impl.h"
#include "client/session/teardown.h"

static int look_after(struct kvd_session *s, int rc)
{
	struct engine *e = &s->engine;

	/* It does not wait for another connection. */
	if (e->health.broken || (e->adrift && !e->health.connected)) {
		session_down(s);
		ops_end_adrift(e, e->health.broken_code);
	}
	return s->engine.done ? 0 : rc;
}

int session_poll(struct kvd_session *s, uint64_t until_ns)
{
	return look_after(s, engine_poll(&s->engine, until_ns));
}

int session_poll_for(struct kvd_session *s, uint64_t wait_ns)
{
	return look_after(s, engine_poll_for(&s->engine, wait_ns));
}

void session_arm(struct kvd_session *s)
{
	engine_arm(&s->engine);
	look_after(s, 0);
}

void session_run_both(struct kvd_session *s, struct op *op, struct op *other)
{
	struct op *done;

	/* They may be done: a fast GET goes on as an operation with its READ complete. */
	ops_take_out(&s->engine, op);
	ops_take_out(&s->engine, other);
	done = ops_stash_done(&s->engine);
	if (engine_await(&s->engine, op, other)) {
		session_down(s);
		ops_forget_done(&s->engine);
	}
	ops_restore_done(&s->engine, done);
}

int session_run(struct kvd_session *s, struct op *op, const struct outcome **out)
{
	session_run_both(s, op, NULL);
	*out = op_outcome(op);
	op_free(op);
	return (*out)->result;
}

uint32_t session_settle(struct kvd_session *s)
{
	struct engine *e = &s->engine;

	if (!e->in_flight)
		return 0;
	if (health_is_good(&e->health))
		engine_take(e);
	uint32_t detached = ops_detached(e);
	if (e->in_flight > detached)
		return e->in_flight - detached;
	/* Each of them ends, or the connection does, for their deadlines. */
	while (e->in_flight + 2 > e->depth)
		session_poll(s, UINT64_MAX);
	return 0;
}

int session_alone(struct kvd_session *s)
{
	return session_settle(s) ? err_set(&s->engine.health.err, KVD_EINVAL,
					   "operations are in flight: take their completions with "
					   "kvd_poll first")
				 : 0;
}
