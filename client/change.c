/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages to kvd: changes, and the calls that its workers answer.
 *
 * A value that fits a message goes behind its key; a longer one stays where it
 * is, registered until the reply, and kvd READs it from there.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "client/session.h"

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

/* Lets kvd READ the value from the caller's memory. */
static int offer(struct op *op, struct wire_request *q, const void *value, size_t value_bytes)
{
	struct kvd_session *s = op->session;

	op->mr = s->verbs->reg_mr(s->client->pd, (void *)(uintptr_t)value, value_bytes,
				  IBV_ACCESS_REMOTE_READ);
	if (!op->mr)
		return err_set_errno(&s->err, KVD_EDEVICE, errno,
				     "can't register the value's %zu bytes: the locked-memory limit may be "
				     "too low (see 'ulimit -l')", value_bytes);
	q->flags |= WIRE_PULL;
	q->value_addr = (uintptr_t)value;
	q->value_rkey = op->mr->rkey;
	q->value_checksum = hash_bytes(value, value_bytes);
	return 0;
}

/*
 * `arg` is the request's `version`: a cursor or a condition's version.  On an
 * error nothing was sent and the caller frees the operation.
 */
int change_start(struct op *op, enum wire_op wire, unsigned flags, const void *value,
		 size_t value_bytes, uint64_t arg)
{
	struct kvd_session *s = op->session;
	uint8_t *message = op->memory->message;
	struct wire_request *q = (struct wire_request *)message;
	uint32_t bytes = (uint32_t)sizeof *q + op->key_bytes;

	op->phase = PHASE_REPLY;
	/* The slot, and a count, so that an answer to a former request is known. */
	op->request_id = op->index + DEPTH_MAX * ++s->next_request;
	*q = (struct wire_request){ .request_id = op->request_id, .op = (uint8_t)wire,
				    .flags = (uint8_t)flags, .key_bytes = (uint16_t)op->key_bytes,
				    .value_bytes = value_bytes, .version = arg,
				    .token = op->token, .ttl_ms = op->wait_ms };
	if (wire == WIRE_HELLO) {
		q->value_addr = (uintptr_t)s->held;
		q->value_rkey = s->held_mr->rkey;
		q->value_checksum = s->secret;
	}
	if (op->fate) {
		q->value_bytes = op->fate->request;
		q->value_checksum = op->fate->secret;
	}
	if (op->kind == OP_CHANGE) {
		op->sent = (struct kvd_receipt){ s->welcome.instance, s->welcome.connection_id,
						 s->secret, op->request_id };
		if (s->receipt)
			*s->receipt = op->sent;
	}
	memcpy(message + sizeof *q, op->key, op->key_bytes);
	if (bytes + value_bytes > WIRE_MESSAGE_BYTES_MAX) {
		int rc = offer(op, q, value, value_bytes);
		if (rc)
			return rc;
	} else if (value_bytes) {
		memcpy(message + bytes, value, value_bytes);
		bytes += (uint32_t)value_bytes;
	}
	op_send(op, bytes);
	return 0;
}

static int failed(struct op *op, int code, const char *why)
{
	return err_set(&op->session->err, code, "%s (key of %u bytes, kvd at %s)", why,
		       op->key_bytes, op->session->client->addr.text);
}

static int result_of_status(struct op *op, uint64_t status)
{
	switch ((enum wire_status)status) {
	case WIRE_OK:
		return KVD_OK;
	case WIRE_NOT_FOUND:
		return KVD_NOT_FOUND;
	case WIRE_CONDITION:
		return KVD_CONDITION;
	case WIRE_EMEMORY:
		return failed(op, KVD_EFULL, "the table has no memory for this value: delete keys or "
					     "start kvd with more --memory");
	case WIRE_ETOOBIG:
		return failed(op, KVD_ETOOBIG, "the value is over the limit");
	case WIRE_EPULL:
		return failed(op, KVD_EINVAL, "the value changed while kvd read it, and was not stored");
	case WIRE_EBUSY:
		return failed(op, KVD_EBUSY, "the key was locked or kvd too busy: nothing was done");
	case WIRE_ESTOPPING:
		return failed(op, KVD_ECONNECT, "kvd is stopping");
	default:
		return failed(op, KVD_EPROTOCOL, "kvd answered with a status that this client does not "
						 "know");
	}
}

void change_reply(struct op *op)
{
	const struct wire_reply *r = &op->reply;
	struct kvd_client *c = op->session->client;
	uint64_t known = atomic_load_explicit(&c->buckets, memory_order_relaxed);

	/* The reply tells where the entry is now: the mirror need not find out. */
	while (known < r->buckets &&
	       !atomic_compare_exchange_weak_explicit(&c->buckets, &known, r->buckets,
						      memory_order_relaxed, memory_order_relaxed))
		;
	if (r->status == WIRE_OK && r->bucket != ~0ull)
		mirror_store_word(c->mirror, r->bucket, r->flags & WIRE_SLOT_MASK,
				  r->op == WIRE_DELETE ? 0 : r->word);
	op->result_version = r->version;
	op->result_bytes = r->value_bytes;
	op_done(op, result_of_status(op, r->status));
}

/*
 * Asks what became of a change whose answer was lost, on the session's connection.
 * KVD_OK: it was answered: *result and *version; KVD_NOT_FOUND: it had no effect and
 * never will; KVD_EUNKNOWN: kvd does not know; other errors: it could not be asked.
 */
int fate_ask(struct kvd_session *s, const struct kvd_receipt *receipt, uint64_t deadline_ns,
	     int *result, uint64_t *version)
{
	for (;;) {
		int rc = session_ready(s);
		if (rc)
			return rc;
		if (s->welcome.instance != receipt->instance)
			return err_set(&s->err, KVD_EUNKNOWN,
				       "kvd was started again since: the change may have happened");
		struct op *op = op_new(s, OP_CALL, NULL, 0);
		op->fate = receipt;
		rc = change_start(op, WIRE_FATE, 0, NULL, 0, receipt->connection);
		if (!rc)
			rc = flight_run(op);
		if (rc)
			return rc;
		switch ((enum wire_status)op->reply.status) {
		case WIRE_OK:
			*result = result_of_status(op, op->reply.word);
			*version = op->reply.version;
			return KVD_OK;
		case WIRE_NOT_FOUND:
			return KVD_NOT_FOUND;
		case WIRE_EBUSY:
			if (session_now_ns() < deadline_ns) {
				nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
				continue;
			}
			/* fall through */
		default:
			return err_set(&s->err, KVD_EUNKNOWN,
				       "kvd does not know any more what became of the change: it may have "
				       "happened");
		}
	}
}

/*
 * A change whose answer was lost with the connection: on a new one kvd tells what
 * became of it.  True if it had no effect and is to be sent again.
 */
bool fate_resolve(struct kvd_session *s, const struct kvd_receipt *sent, uint64_t deadline_ns,
		  int *result, uint64_t *version)
{
	const struct err why = s->err;
	int rc = fate_ask(s, sent, deadline_ns, result, version);

	if (rc == KVD_NOT_FOUND)
		return true;
	if (rc != KVD_OK) {
		*result = KVD_EUNKNOWN;
		s->err = why; /* the first reason is the one */
	}
	return false;
}
