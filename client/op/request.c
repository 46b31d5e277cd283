/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages to kvd: changes, and the calls that its workers answer.
 *
 * A value that fits a message goes behind its key, copied there or gathered from
 * registered memory; a longer one stays where it is, registered until the reply,
 * and kvd READs it from there.
 */
#include <string.h>

#include "client/op/session.h"

int check_key(struct kvd_session *s, const void *key, size_t key_bytes)
{
	if (!key || !key_bytes)
		return err_set(&s->err, KVD_EINVAL, "the key is empty: keys have 1 to %d bytes",
			       KVD_KEY_BYTES_MAX);
	if (key_bytes > KVD_KEY_BYTES_MAX)
		return err_set(&s->err, KVD_ETOOBIG,
			       "the key has %zu bytes: keys have 1 to %d bytes", key_bytes,
			       KVD_KEY_BYTES_MAX);
	return 0;
}

/* Lets kvd READ the value from the caller's memory: sets its segments. */
static int offer(struct op *op, struct wire_request *q, uint8_t *segments)
{
	struct kvd_session *s = op->session;
	struct pieces *v = &op->value;
	int rc = pieces_register(v, &s->registrar, IBV_ACCESS_REMOTE_READ);

	if (rc)
		return err_set_errno(&s->err, KVD_EDEVICE, rc,
				     "can't register the value's %zu bytes: the locked-memory limit may be "
				     "too low (see 'ulimit -l')", v->bytes);
	q->flags |= WIRE_PULL;
	q->value_checksum = pieces_hash(v);
	q->segments = v->count;
	for (unsigned i = 0; i < v->count; i++) {
		struct wire_segment segment = { .addr = (uintptr_t)v->iov[i].iov_base,
						.bytes = v->iov[i].iov_len,
						.rkey = v->keys[i].rkey };
		memcpy(segments + i * sizeof segment, &segment, sizeof segment);
	}
	return 0;
}

/* Under this, copying a value is cheaper than gathering it. */
#define GATHER_BYTES_MIN 512u

int request_send(struct op *op, const struct wire_request *ask, size_t value_bytes)
{
	struct kvd_session *s = op->session;
	uint8_t *message = op->memory->message;
	struct wire_request *q = (struct wire_request *)message;
	uint32_t bytes = (uint32_t)sizeof *q + op->key_bytes;
	bool gather = false;

	op->phase = PHASE_REPLY;
	op->sent_ns = clock_ns();
	/* The slot, and a count, so that an answer to a former request is known. */
	op->request_id = op->index + OPS_MAX * ++s->next_request;
	*q = *ask;
	q->request_id = op->request_id;
	q->key_bytes = (uint16_t)op->key_bytes;
	if (value_bytes)
		q->value_bytes = value_bytes;
	if (op->class->changes) {
		op->sent = (struct kvd_receipt){ s->table.welcome.instance, s->table.welcome.connection_id,
						 s->secret, op->request_id };
		if (s->receipt)
			*s->receipt = op->sent;
	}
	memcpy(message + sizeof *q, op->key, op->key_bytes);
	if (bytes + value_bytes > WIRE_MESSAGE_BYTES_MAX) {
		int rc = offer(op, q, message + bytes);
		if (rc)
			return rc;
		bytes += q->segments * (uint32_t)sizeof(struct wire_segment);
	} else if (value_bytes >= GATHER_BYTES_MIN && op->value.count < s->sge_max &&
		   pieces_find(&op->value, s->registrar.buffers)) {
		gather = true;
	} else if (value_bytes) {
		pieces_gather(&op->value, message + bytes);
		bytes += (uint32_t)value_bytes;
	}
	op_send(op, bytes, gather);
	return 0;
}

int request_fail(struct op *op, int code, const char *why)
{
	return err_set(&op->session->err, code, "%s (key of %u bytes, kvd at %s)", why,
		       op->key_bytes, op->session->client->addr.text);
}

int request_result(struct op *op, uint64_t status)
{
	switch ((enum wire_status)status) {
	case WIRE_OK:
		return KVD_OK;
	case WIRE_NOT_FOUND:
		return KVD_NOT_FOUND;
	case WIRE_CONDITION:
		return KVD_CONDITION;
	case WIRE_EMEMORY:
		return request_fail(op, KVD_EFULL, "the table has no memory for this value: delete keys or "
					     "start kvd with more --memory");
	case WIRE_ECROWDED:
		return request_fail(op, KVD_EFULL, "more than 200 other keys share this one's place in kvd's "
					     "index: somebody made them for it; delete those");
	case WIRE_ETOOBIG:
		return request_fail(op, KVD_ETOOBIG, "the value would be over the limit of 1 GiB: it was left as "
						"it is");
	case WIRE_EPULL:
		return request_fail(op, KVD_EINVAL, "the value changed while kvd read it, and was not stored");
	case WIRE_EBUSY:
		return request_fail(op, KVD_EBUSY, "the key was locked or kvd too busy: nothing was done");
	case WIRE_ENUMBER:
		return request_fail(op, KVD_ENUMBER, "the value is not a whole number in decimal text: it was "
					       "left as it is");
	case WIRE_ERANGE:
		return request_fail(op, KVD_ERANGE, "the sum does not fit 64 bits: the value was left as it is");
	case WIRE_EDENIED:
		return session_denied(op->session);
	case WIRE_EDISK:
		return request_fail(op, KVD_EDISK, "kvd's disk is full or broken: nothing was changed (its log "
					     "says more)");
	case WIRE_EUNKNOWN:
		return request_fail(op, KVD_EUNKNOWN, "kvd's disk failed: the change was not made, but may be "
						"found after kvd is started again");
	case WIRE_ESTOPPING:
		return request_fail(op, KVD_ECONNECT, "kvd is stopping");
	default:
		return request_fail(op, KVD_EPROTOCOL, "kvd answered with a status that this client does not "
						 "know");
	}
}

/* What others changed: the mirror has it before anybody asks. */
static void learn_news(struct op *op, const uint8_t *payload)
{
	struct wire_news news;

	for (uint32_t at = 0; at + sizeof news <= op->payload_bytes; at += (uint32_t)sizeof news) {
		memcpy(&news, payload + at, sizeof news);
		mirror_store_word(op->session->table.mirror, news.place >> 8, news.place & 0xff,
				  news.word);
	}
}

static void change_reply(struct op *op, const uint8_t *payload)
{
	const struct wire_reply *r = &op->reply;
	const struct remote_table *t = &op->session->table;

	/* The reply tells where the entry is now: the mirror need not find out. */
	table_learn_buckets(t, r->buckets);
	if (r->status == WIRE_OK && r->bucket != ~0ull)
		mirror_store_word(t->mirror, r->bucket, r->flags & WIRE_SLOT_MASK,
				  r->op == WIRE_DELETE ? 0 : r->word);
	learn_news(op, payload);
	op->result_version = r->version;
	op->result_bytes = r->value_bytes;
	op->result_number = (int64_t)r->value_bytes; /* of a WIRE_INCR */
	op_done(op, request_result(op, r->status));
}

static void call_reply(struct op *op, const uint8_t *payload)
{
	memcpy(op->memory->message, payload, op->payload_bytes);
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

const struct op_class call_class = { .advance = sent, .reply = call_reply };
const struct op_class change_class = { .advance = sent, .reply = change_reply, .changes = true };
const struct op_class detached_class = { .advance = sent, .reply = detached_reply, .detached = true };
