/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One stripe's lock word.
 *
 * Happy path: compare-and-swap of the word from 0 to a fresh token.  Unlock: a
 * compare-and-swap back to 0, posted and not waited for.
 *
 * Lost: ask kvd to wait in its queue (WIRE_LOCK); the answer is the grant.  From
 * then on the word has WAIT, our unlock's compare-and-swap fails, and when its
 * completion is seen the lock is handed over with WIRE_UNLOCK.  Should this thread
 * do something else by then: kvd READs session->held, where the token is gone.
 *
 * The token is put into `held` before the compare-and-swap and taken out before the
 * unlock, so that kvd never takes a lock from somebody who holds it.
 */
#include <sched.h>

#include "client/api/lock.h"

/* ------------------------------------------------------------------- held */

bool stripe_say_held(struct kvd_session *s, uint64_t stripe, uint64_t token)
{
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++) {
		if (!s->held[i].token) {
			s->held[i].stripe = stripe;
			__atomic_store_n(&s->held[i].token, token, __ATOMIC_RELEASE);
			return true;
		}
	}
	return false;
}

void stripe_say_free(struct kvd_session *s, uint64_t token)
{
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++)
		if (s->held[i].token == token)
			__atomic_store_n(&s->held[i].token, 0, __ATOMIC_RELEASE);
}

/* --------------------------------------------------------------- operations */

static void post_cas(struct op *op, uint64_t stripe, uint64_t expected, uint64_t desired)
{
	op->phase = PHASE_READS;
	op->stripe = stripe;
	op->token = expected ? expected : desired;
	op_cas(op, op->session->table.welcome.lock_addr + stripe * 8, op->session->table.welcome.lock_rkey,
	       expected, desired);
}

static void done(struct op *op)
{
	op_done(op, KVD_OK);
}

/* Somebody waits for the lock: kvd hands it over. */
static void swapped_back(struct op *op)
{
	if (op->memory->small[0] != (op->token | LAYOUT_LOCK_WAIT)) {
		op_done(op, KVD_OK);
		return;
	}
	/* Its completion may have lain there for as long as nobody looked. */
	op->deadline_ns = session_deadline_ns(op->session);
	request_send(op, &(struct wire_request){ .op = WIRE_UNLOCK, .token = op->token,
						 .version = op->stripe }, 0);
}

/* The answer to that: there is nobody to tell. */
static void handed_over(struct op *op, const uint8_t *payload)
{
	(void)payload;
	op_done(op, KVD_OK);
}

static const struct op_class lock_class = { .advance = done };
static const struct op_class unlock_class = { .advance = swapped_back, .reply = handed_over,
					      .detached = true };

struct op *stripe_start(struct kvd_session *s, uint64_t stripe, uint64_t token)
{
	struct op *op = op_new(s, &lock_class, NULL, 0);

	post_cas(op, stripe, 0, token);
	return op;
}

struct op *stripe_resume(struct kvd_session *s, uint64_t stripe, uint64_t token, bool complete)
{
	struct op *op = op_new(s, &lock_class, NULL, 0);

	op->phase = PHASE_READS;
	op->stripe = stripe;
	op->token = token;
	if (complete)
		done(op);
	else
		op->reads = 1;
	return op;
}

void stripe_release(struct kvd_session *s, uint64_t stripe, uint64_t token)
{
	struct op *op;

	stripe_say_free(s, token);
	if (!s->connected || s->broken)
		return;
	/* One operation is kept for it: it is free, or an earlier unlock's. */
	while (!(op = op_new(s, &unlock_class, NULL, 0)) && !flight_look(s))
		sched_yield();
	if (!op)
		return;
	post_cas(op, stripe, token, 0);
	flight_flush(s);
}
