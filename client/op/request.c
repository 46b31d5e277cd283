/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/op/request.h"

#include <string.h>

#include "client/op/engine.h"
#include "client/op/message.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/post.h"

static int cannot_register(struct op *op, int rc)
{
	return err_set_errno(&op->engine->health.err, KVD_EDEVICE, rc,
			     "can't register the value's %zu bytes: the locked-memory limit may be "
			     "too low (see 'ulimit -l')", op->value.bytes);
}

/* Lets kvd READ the value from the caller's memory: sets its segments. */
static int offer(struct op *op, uint8_t *segments)
{
	struct engine *e = op->engine;
	struct pieces *v = &op->value;
	int rc = pieces_register(v, &e->registrar, IBV_ACCESS_REMOTE_READ);

	if (rc)
		return cannot_register(op, rc);
	for (unsigned i = 0; i < v->count; i++) {
		struct wire_segment segment = { .addr = (uintptr_t)v->iov[i].iov_base,
						.bytes = v->iov[i].iov_len,
						.rkey = v->keys[i].rkey };
		memcpy(segments + i * sizeof segment, &segment, sizeof segment);
	}
	return 0;
}

/* Of a message that was sent by another device: where its value stands there. */
static int offer_again(struct op *op)
{
	struct wire_request *q = (struct wire_request *)op->memory->message;

	if (q->flags & WIRE_PULL)
		return offer(op, op->memory->message + sizeof *q + op->key_bytes);
	if (!op->gathers)
		return 0;
	int rc = pieces_register(&op->value, &op->engine->registrar, 0);
	return rc ? cannot_register(op, rc) : 0;
}

/* Under this, copying a value is cheaper than gathering it. */
#define GATHER_BYTES_MIN 512u

int request_send(struct op *op, const struct wire_request *ask, size_t value_bytes)
{
	struct engine *e = op->engine;
	uint8_t *message = op->memory->message;
	struct wire_request *q = (struct wire_request *)message;
	uint32_t bytes = (uint32_t)sizeof *q + op->key_bytes;
	bool gather = false;

	*q = *ask;
	q->key_bytes = (uint16_t)op->key_bytes;
	if (value_bytes)
		q->value_bytes = (uint32_t)value_bytes;
	memcpy(message + sizeof *q, op->key, op->key_bytes);
	if (bytes + value_bytes > WIRE_MESSAGE_BYTES_MAX) {
		int rc = offer(op, message + bytes);
		if (rc)
			return rc;
		q->flags |= WIRE_PULL;
		q->value_checksum = pieces_hash(&op->value);
		q->segments = (uint8_t)op->value.count;
		bytes += q->segments * (uint32_t)sizeof(struct wire_segment);
	} else if (value_bytes >= GATHER_BYTES_MIN && op->value.count < e->sge_max &&
		   pieces_find(&op->value, &e->registrar)) {
		gather = true;
	} else if (value_bytes) {
		pieces_gather(&op->value, message + bytes);
		bytes += (uint32_t)value_bytes;
		e->counters.copied_bytes += value_bytes;
	}
	message_post(op, bytes, gather);
	/* kvd pulls it while the next one's checksum is made. */
	if (q->flags & WIRE_PULL)
		engine_flush(e);
	return 0;
}

int request_start(struct op *op, const struct wire_request *ask, const struct iovec *iov, int count)
{
	struct err *err = &op->engine->health.err;
	int rc = op_set_value(op, iov, count);

	if (!rc && op->value.bytes > KVD_VALUE_BYTES_MAX)
		rc = err_set(err, KVD_ETOOBIG, "the value has %zu bytes: the limit is %llu",
			     op->value.bytes, KVD_VALUE_BYTES_MAX);
	if (!rc)
		rc = request_send(op, ask, op->value.bytes);
	if (rc)
		op_free(op);
	else
		op->engine->counters.changes += op->class->changes;
	return rc;
}

void request_tell(struct engine *e, const struct wire_request *ask)
{
	struct op *op = op_new(e, &detached_class, NULL, 0);

	if (op)
		request_start(op, ask, NULL, 0);
}

#define DOORBELL 8u /* changes that are submitted together */

void request_submitted(const struct op *op)
{
	struct engine *e = op->engine;

	/* Unless others want the core: kvd, whom it wakes, would take it away. */
	if (e->wr_count >= DOORBELL && !spin_is_crowded(&e->spin, op->sent_ns))
		engine_flush(e);
}

int request_fail(struct engine *e, uint32_t key_bytes, int code, const char *why)
{
	if (!key_bytes)
		return err_set(&e->health.err, code, "%s (kvd at %s)", why, e->health.peer);
	return err_set(&e->health.err, code, "%s (key of %u bytes, kvd at %s)", why, key_bytes,
		       e->health.peer);
}

int request_result(struct engine *e, uint32_t key_bytes, uint64_t status)
{
	switch ((enum wire_status)status) {
	case WIRE_OK:
		return KVD_OK;
	case WIRE_NOT_FOUND:
		return KVD_NOT_FOUND;
	case WIRE_CONDITION:
		return KVD_CONDITION;
	case WIRE_EMEMORY:
		return request_fail(e, key_bytes, KVD_EFULL,
				    "the table has no memory for this "
				    "value: delete keys or start kvd with more --memory");
	case WIRE_ECROWDED:
		return request_fail(e, key_bytes, KVD_EFULL,
				    "more than 200 other keys share "
				    "this one's place in kvd's index: somebody made them for "
				    "it; delete those");
	case WIRE_EELSEWHERE:
		e->health.moved = true;
		return request_fail(e, key_bytes, KVD_ECONNECT,
				    "this member of a cluster does not serve: nothing was done");
	case WIRE_ETOOBIG:
		return request_fail(e, key_bytes, KVD_ETOOBIG,
				    "the value would be over the "
				    "limit of 1 GiB: it was left as it is");
	case WIRE_EPULL:
		return request_fail(e, key_bytes, KVD_EINVAL,
				    "the value changed while kvd read "
				    "it, and was not stored");
	case WIRE_EBUSY:
		return request_fail(e, key_bytes, KVD_EBUSY,
				    "the key was locked or kvd too "
				    "busy: nothing was done");
	case WIRE_ENUMBER:
		return request_fail(e, key_bytes, KVD_ENUMBER,
				    "the value is not a whole number "
				    "in decimal text: it was left as it is");
	case WIRE_ERANGE:
		return request_fail(e, key_bytes, KVD_ERANGE,
				    "the sum does not fit 64 bits: "
				    "the value was left as it is");
	case WIRE_EDENIED:
		return health_denied(&e->health);
	case WIRE_EDISK:
		return request_fail(e, key_bytes, KVD_EDISK,
				    "kvd's disk is full or broken: "
				    "nothing was changed (its log says more)");
	case WIRE_EUNKNOWN:
		return request_fail(e, key_bytes, KVD_EUNKNOWN,
				    "kvd's disk failed: the change "
				    "was not made, but may be found after kvd is started again");
	case WIRE_ESTOPPING:
		return request_fail(e, key_bytes, KVD_ECONNECT, "kvd is stopping");
	default:
		return request_fail(e, key_bytes, KVD_EPROTOCOL,
				    "kvd answered with a status "
				    "that this client does not know");
	}
}

/* What others changed: the mirror has it before anybody asks. */
static void learn_news(struct op *op, const uint8_t *payload)
{
	struct wire_news news;

	for (size_t at = 0; at + sizeof news <= op->out.payload_bytes; at += sizeof news) {
		memcpy(&news, payload + at, sizeof news);
		mirror_store_word(op->engine->table.mirror, news.place >> 8, news.place & 0xff,
				  news.word);
	}
}

/* The reply tells where the entry is now: the mirror need not find out. */
void request_learn(struct op *op, const uint8_t *payload)
{
	const struct wire_reply *r = &op->out.reply;
	const struct remote_table *t = &op->engine->table;

	table_learn_buckets(t, r->buckets);
	if (r->status == WIRE_OK && r->bucket != ~0ull)
		mirror_store_word(t->mirror, r->bucket, r->flags & WIRE_SLOT_MASK,
				  r->op == WIRE_DELETE ? 0 : r->word);
	learn_news(op, payload);
}

bool request_is_moved(struct op *op)
{
	struct engine *e = op->engine;

	if (op->out.reply.status != WIRE_EELSEWHERE)
		return false;
	request_result(e, op->key_bytes, WIRE_EELSEWHERE);
	return op_drift(op);
}

/* kvd read other bytes of the value than stand there: a device may do so that has to try again. */
static bool is_misread(const struct op *op)
{
	const struct wire_request *q = (const struct wire_request *)op->memory->message;

	return op->out.reply.status == WIRE_EPULL && (q->flags & WIRE_PULL) &&
	       pieces_hash(&op->value) == q->value_checksum;
}

static void change_reply(struct op *op, const uint8_t *payload)
{
	const struct wire_reply *r = &op->out.reply;

	request_learn(op, payload);
	if ((r->status == WIRE_EBUSY || is_misread(op)) && message_put_off(op))
		return;
	if (request_is_moved(op))
		return;
	op->out.version = r->version;
	op->out.bytes = r->value_bytes;
	op->out.number = (int64_t)r->value_bytes; /* of a WIRE_INCR */
	op_done(op, request_result(op->engine, op->key_bytes, r->status));
}

static void call_reply(struct op *op, const uint8_t *payload)
{
	memcpy(op->memory->message, payload, op->out.payload_bytes);
	op->out.payload = op->memory->message;
	op_done(op, KVD_OK);
}

static void detached_reply(struct op *op, const uint8_t *payload)
{
	(void)payload;
	op_done(op, KVD_OK);
}

/* A SEND from the caller's memory is complete: the reply is what it waits for. */
static void sent(struct op *op)
{
	(void)op;
}

/* On another connection. */
static void change_resume(struct op *op)
{
	int rc = offer_again(op);

	if (rc)
		op_done(op, rc);
	else
		message_again(op);
}

const struct op_class call_class = { .advance = sent, .reply = call_reply };
const struct op_class change_class = { .advance = sent, .reply = change_reply, .changes = true,
				       .resume = change_resume };
const struct op_class detached_class = { .advance = sent,
					 .reply = detached_reply,
					 .detached = true };
