/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/op/message.h"

#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/post.h"

#define PAUSE_NS 1000000ull
#define DOUBLED_MAX 5u /* the longest pause: 32 ms */
/* kvd puts a request off for two seconds before it answers "busy".  An operation that got no
 * answer in its time would end the connection. */
#define ANSWER_NS 2250000000ull

/*
 * A fresh id: the slot, and a count, so that an answer to a former request is known.  Changes have
 * counts of their own: kvd keeps the fates of a connection's last ones, and other requests may come
 * round to the id of one of these.
 */
static uint32_t next_id(struct op *op)
{
	struct engine *e = op->engine;
	bool is_change = op->class->changes;
	uint32_t count = is_change ? ++e->next_change : ++e->next_request;

	return op->index + OPS_MAX * (2 * count + is_change);
}

static void post(struct op *op)
{
	struct engine *e = op->engine;

	op->phase = PHASE_REPLY;
	op->sent_ns = clock_coarse_ns(); /* up to a tick before */
	op->asked_ns = grant_clock_ns(&e->table.grant);
	op->request_id = next_id(op);
	((struct wire_request *)op->memory->message)->request_id = op->request_id;
	if (op->class->changes) {
		op->out.sent = (struct sent){ { e->table.welcome.instance,
						e->table.welcome.connection_id, e->secret,
						op->request_id | e->reign << 32 }, op->asked_ns };
		if (e->receipt)
			*e->receipt = op->out.sent.receipt;
	}
	op_send(op, op->message_bytes, op->gathers);
}

void message_post(struct op *op, uint32_t bytes, bool gather)
{
	op->message_bytes = bytes;
	op->gathers = gather;
	op->refusals = 0;
	post(op);
}

void message_again(struct op *op)
{
	op->refusals = 0;
	post(op);
}

/* Until when it may be posted: then there is time for an answer. */
static uint64_t last_ns(const struct op *op)
{
	uint64_t half = op->engine->time.limit_ns / 2;

	return op->deadline_ns - (half < ANSWER_NS ? half : ANSWER_NS);
}

bool message_put_off(struct op *op)
{
	struct engine *e = op->engine;
	unsigned doubled = op->refusals < DOUBLED_MAX ? op->refusals : DOUBLED_MAX;
	uint64_t again_ns = clock_ns() + (PAUSE_NS << doubled);

	if (again_ns > last_ns(op))
		return false;
	op->phase = PHASE_LATER;
	op->refusals = doubled + 1;
	op->again_ns = again_ns;
	if (!e->later_ns || again_ns < e->later_ns)
		e->later_ns = again_ns;
	return true;
}

/* It was too long until somebody polled: it ends as it was answered. */
static void give_up(struct op *op)
{
	op->phase = PHASE_BUSY;
	op->out.payload_bytes = 0;
	op->class->reply(op, NULL);
}

void messages_look(struct engine *e, uint64_t now)
{
	uint64_t next = 0;

	if (!e->later_ns || now < e->later_ns)
		return;
	for (uint32_t i = 0; i < e->depth; i++) {
		struct op *op = &e->ops[i];
		if (op->phase != PHASE_LATER)
			continue;
		if (op->again_ns <= now && now > last_ns(op))
			give_up(op);
		else if (op->again_ns <= now)
			post(op);
		else if (!next || op->again_ns < next)
			next = op->again_ns;
	}
	e->later_ns = next;
}
