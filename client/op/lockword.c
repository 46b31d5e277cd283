/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/op/lockword.h"

#include <sched.h>

#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/poll.h"
#include "client/op/post.h"
#include "client/op/request.h"

bool stripes_are_asked(const struct engine *e)
{
	return !e->table.welcome.lock_rkey;
}

static void post_cas(struct op *op, uint64_t stripe, uint64_t expected, uint64_t desired)
{
	const struct wire_welcome *w = &op->engine->table.welcome;

	op_cas(op, w->lock_addr + stripe * 8, w->lock_rkey, expected, desired);
}

/* kvd gives it back, or hands it over. */
static void tell_kvd(struct op *op)
{
	/* The completion before it may have lain there for as long as nobody looked. */
	op->deadline_ns = call_deadline_ns(&op->engine->time);
	request_send(op,
		     &(struct wire_request){ .op = WIRE_UNLOCK,
					     .token = op->words[1],
					     .version = op->words[0] },
		     0);
}

/* Somebody waits for the lock: kvd hands it over. */
static void swapped_back(struct op *op)
{
	if (op->memory->small[0] == (op->words[1] | LAYOUT_LOCK_WAIT))
		tell_kvd(op);
	else
		op_done(op, KVD_OK);
}

/* The answer to that: there is nobody to tell. */
static void handed_over(struct op *op, const uint8_t *payload)
{
	(void)payload;
	op_done(op, KVD_OK);
}

static const struct op_class lock_class = { .advance = op_finish };
static const struct op_class unlock_class = { .advance = swapped_back,
					      .reply = handed_over,
					      .detached = true };

struct op *stripe_start(struct engine *e, uint64_t stripe, uint64_t token)
{
	struct op *op = op_new(e, &lock_class, NULL, 0);

	post_cas(op, stripe, 0, token);
	return op;
}

struct op *stripe_resume(struct engine *e, bool complete)
{
	struct op *op = op_new(e, &lock_class, NULL, 0);

	if (complete)
		op_finish(op);
	else
		op->reads = 1;
	return op;
}

struct op *stripe_ask(struct engine *e, uint64_t stripe, uint64_t token)
{
	struct op *op = op_new(e, &lock_class, NULL, 0);

	post_cas(op, stripe, token, token);
	return op;
}

bool stripe_is_held(const struct op *op, uint64_t token)
{
	return (op->memory->small[0] & ~LAYOUT_LOCK_WAIT) == token;
}

bool stripe_was_free(const struct op *op)
{
	return op->memory->small[0] == 0;
}

void stripe_release(struct engine *e, uint64_t stripe, uint64_t token)
{
	struct op *op;

	held_say_free(&e->held, token);
	if (!health_is_good(&e->health))
		return;
	/* One operation is kept for it: it is free, or an earlier unlock's. */
	while (!(op = op_new(e, &unlock_class, NULL, 0)) && !engine_look(e))
		sched_yield();
	if (!op)
		return;
	op->words[0] = stripe;
	op->words[1] = token;
	if (stripes_are_asked(e))
		tell_kvd(op);
	else
		post_cas(op, stripe, token, 0);
	engine_flush(e);
}
