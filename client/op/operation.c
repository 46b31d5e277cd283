/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/op/operation.h"

#include <stdlib.h>
#include <string.h>

#include "client/op/engine.h"
#include "client/op/operation_impl.h"
#include "common/layout.h"

int check_key(struct err *err, const void *key, size_t key_bytes)
{
	if (!key || !key_bytes)
		return err_set(err, KVD_EINVAL, "the key is empty: keys have 1 to %d bytes",
			       KVD_KEY_BYTES_MAX);
	if (key_bytes > KVD_KEY_BYTES_MAX)
		return err_set(err, KVD_ETOOBIG, "the key has %zu bytes: keys have 1 to %d bytes",
			       key_bytes, KVD_KEY_BYTES_MAX);
	return 0;
}

/* ------------------------------------------------------------------- begin */

/* Within the time of the call that it is a part of, if it is of one. */
static void set_times(struct op *op, const struct call_time *t)
{
	op->begun_ns = t->end_ns ? t->begun_ns : clock_coarse_ns();
	op->deadline_ns = t->end_ns ? t->end_ns : op->begun_ns + t->tick_ns + t->limit_ns;
	op->more_ms = 0;
}

struct op *op_new(struct engine *e, const struct op_class *class, const void *key, size_t key_bytes)
{
	struct op *op = e->free_ops;

	if (!op)
		return NULL;
	e->free_ops = op->next;
	e->in_flight++;
	op->class = class;
	op->phase = PHASE_BUSY;
	op->ended = op->done = false;
	op->tag = NULL;
	op->value.count = 0;
	op->value.bytes = 0;
	op->value.registered = false;
	op->out.allocated = NULL;
	op->out.payload_bytes = 0;
	op->out.lengths = op->out.expiry = 0;
	op->reads = 0;
	set_times(op, &e->time);
	op->key_bytes = (uint32_t)key_bytes;
	if (key_bytes)
		memcpy(op->key, key, key_bytes);
	return op;
}

void op_set_tag(struct op *op, void *tag)
{
	op->tag = tag;
}

int op_set_value(struct op *op, const struct iovec *iov, int count)
{
	if (pieces_set(&op->value, iov, count))
		return err_set(&op->engine->health.err, KVD_EINVAL,
			       "a value has 0 to %d pieces, not %d", KVD_IOV_MAX, count);
	return 0;
}

void op_allow_ms(struct op *op, int more_ms)
{
	op->deadline_ns += (uint64_t)more_ms * 1000000;
	op->more_ms += more_ms;
}

/* --------------------------------------------------------------------- end */

void op_free(struct op *op)
{
	struct engine *e = op->engine;

	op->phase = PHASE_FREE;
	op->next = e->free_ops;
	e->free_ops = op;
	e->in_flight--;
}

void op_done(struct op *op, int result)
{
	struct engine *e = op->engine;

	pieces_release(&op->value, e->registrar.verbs);
	if (result != KVD_OK) {
		free(op->out.allocated);
		op->out.allocated = NULL;
	}
	op->out.result = result;
	if (op->reads && !e->health.broken) {
		op->ended = true;
		return;
	}
	if (op->class->detached) {
		op_free(op);
		return;
	}
	op->done = true;
	op->next = NULL;
	*e->done_end = op;
	e->done_end = &op->next;
}

void op_finish(struct op *op)
{
	op_done(op, KVD_OK);
}

const struct outcome *op_outcome(const struct op *op)
{
	return &op->out;
}

/* --------------------------------------------------------------------- all */

bool ops_new(struct engine *e, struct op_memory *memory)
{
	e->ops = calloc(e->depth, sizeof *e->ops);
	e->done_end = &e->done;
	for (uint32_t i = e->ops ? e->depth : 0; i-- > 0;) {
		struct op *op = &e->ops[i];
		op->engine = e;
		op->index = i;
		op->memory = memory + i;
		op->next = e->free_ops;
		e->free_ops = op;
	}
	return e->ops;
}

void ops_delete(struct engine *e)
{
	for (uint32_t i = 0; e->ops && i < e->depth; i++)
		pieces_release(&e->ops[i].value, e->registrar.verbs);
	free(e->ops);
}

void ops_abort(struct engine *e)
{
	int code = e->health.broken_code;

	e->wr_count = e->parts = 0;
	e->parked = NULL;
	e->later_ns = 0;
	for (uint32_t i = 0; i < e->depth; i++) {
		struct op *op = &e->ops[i];
		if (op->phase == PHASE_ADRIFT)
			op->reads = 0;
		if (op->phase == PHASE_FREE || op->phase == PHASE_ADRIFT || op->done)
			continue;
		/* One that is to be posted again had no effect. */
		bool unknown = op->class->changes && op->phase != PHASE_LATER &&
			       (code == KVD_ECONNECT || code == KVD_ETIMEDOUT);
		op_done(op, op->ended ? op->out.result : unknown ? KVD_EUNKNOWN : code);
	}
}

uint32_t ops_detached(const struct engine *e)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->depth; i++)
		n += e->ops[i].phase != PHASE_FREE && e->ops[i].class->detached;
	return n;
}

struct op_memory *ops_next_memory(const struct engine *e)
{
	return e->free_ops->memory;
}

void ops_forget_done(struct engine *e)
{
	e->done = NULL;
	e->done_end = &e->done;
}

bool ops_take_done(struct engine *e, struct kvd_completion *c)
{
	struct op *op = e->done;

	if (!op)
		return false;
	e->done = op->next;
	if (!e->done)
		e->done_end = &e->done;
	*c = (struct kvd_completion){ .tag = op->tag,
				      .result = op->out.result,
				      .value_bytes = op->out.bytes,
				      .version = op->out.version,
				      .number = op->out.number,
				      .ttl_ms = op->out.ttl_ms,
				      .flags = layout_flags(op->out.lengths, op->out.expiry),
				      .signs = (int)layout_signs(op->out.expiry) };
	op_free(op);
	return true;
}

/* ------------------------------------------------------------------ adrift */

/* While its queue pair is there its SEND may still complete: ops_abort() ends that. */
static void set_adrift(struct op *op, bool is_unsettled)
{
	op->phase = PHASE_ADRIFT;
	op->is_unsettled = is_unsettled;
	op->engine->adrift++;
}

bool op_drift(struct op *op)
{
	if (!op->engine->may_drift || !op->class->resume)
		return false;
	set_adrift(op, false);
	return true;
}

void ops_drift(struct engine *e)
{
	uint64_t now = clock_ns();
	int code = e->health.broken_code;
	bool may = (code == KVD_ECONNECT || code == KVD_ETIMEDOUT);

	for (uint32_t i = 0; i < e->depth && may; i++) {
		struct op *op = &e->ops[i];

		if (op->phase == PHASE_FREE || op->phase == PHASE_ADRIFT || op->done || op->ended ||
		    !op->class->resume || op->deadline_ns <= now)
			continue;
		/* One that is to be posted again had no effect. */
		set_adrift(op, op->class->changes && op->phase != PHASE_LATER);
	}
	ops_abort(e);
	if (!may)
		ops_end_adrift(e, code);
}

void ops_leave_device(struct engine *e)
{
	for (uint32_t i = 0; e->ops && i < e->depth; i++)
		if (e->ops[i].phase != PHASE_FREE)
			pieces_release(&e->ops[i].value, e->registrar.verbs);
}

struct op *ops_next_unsettled(const struct engine *e)
{
	for (uint32_t i = 0; i < e->depth; i++)
		if (e->ops[i].phase == PHASE_ADRIFT && e->ops[i].is_unsettled)
			return &e->ops[i];
	return NULL;
}

const struct sent *op_sent(const struct op *op)
{
	return &op->out.sent;
}

uint64_t op_deadline_ns(const struct op *op)
{
	return op->deadline_ns;
}

void op_had_no_effect(struct op *op)
{
	op->is_unsettled = false;
}

static void leave_adrift(struct op *op)
{
	op->phase = PHASE_BUSY;
	op->engine->adrift--;
}

void op_end_adrift(struct op *op, int result, uint64_t version, size_t value_bytes, int64_t number)
{
	leave_adrift(op);
	op->out.version = version;
	op->out.bytes = value_bytes;
	op->out.number = number;
	op_done(op, result);
}

void ops_send_adrift(struct engine *e)
{
	for (uint32_t i = 0; i < e->depth; i++) {
		struct op *op = &e->ops[i];

		if (op->phase != PHASE_ADRIFT)
			continue;
		leave_adrift(op);
		op->class->resume(op);
	}
}

static void end_adrift(struct op *op, int code)
{
	bool is_unsettled = op->is_unsettled;

	leave_adrift(op);
	op_done(op, is_unsettled ? KVD_EUNKNOWN : code);
}

void ops_end_adrift(struct engine *e, int code)
{
	for (uint32_t i = 0; i < e->depth && e->adrift; i++)
		if (e->ops[i].phase == PHASE_ADRIFT)
			end_adrift(&e->ops[i], code ? code : KVD_ECONNECT);
}

void ops_end_late(struct engine *e, uint64_t now_ns)
{
	for (uint32_t i = 0; i < e->depth && e->adrift; i++)
		if (e->ops[i].phase == PHASE_ADRIFT && e->ops[i].deadline_ns <= now_ns)
			end_adrift(&e->ops[i], KVD_ETIMEDOUT);
}

void ops_take_out(struct engine *e, const struct op *op)
{
	struct op **at = &e->done;

	while (*at && *at != op)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = op->next;
	if (!*at)
		e->done_end = at;
}

struct op *ops_stash_done(struct engine *e)
{
	struct op *done = e->done;

	ops_forget_done(e);
	return done;
}

void ops_restore_done(struct engine *e, struct op *done)
{
	struct op **end_of = &done;

	if (!done)
		return;
	while (*end_of)
		end_of = &(*end_of)->next;
	*end_of = e->done;
	if (e->done)
		end_of = e->done_end;
	e->done = done;
	e->done_end = end_of;
}
