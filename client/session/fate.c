/* SPDX-License-Identifier: BSD-2-Clause */
/* What became of a change whose answer was lost with its connection: kvd is asked. */
#include <time.h>

#include "client/op/session.h"

/* How often a connection may break under the question for a fate. */
#define ASKS_BROKEN_MAX 10

/* One question.  As fate_ask; KVD_EBUSY: kvd wants to be asked again. */
static int ask_once(struct kvd_session *s, const struct kvd_receipt *receipt, int *result,
		    struct changed *changed)
{
	int rc = session_ready(s);

	if (rc)
		return rc;
	if (s->table.welcome.instance != receipt->instance)
		return err_set(&s->err, KVD_EUNKNOWN,
			       "kvd was started again since: the change may have happened");
	struct op *op = op_new(s, &call_class, NULL, 0);
	rc = request_send(op, &(struct wire_request){ .op = WIRE_FATE,
						      .version = receipt->connection,
						      .value_bytes = receipt->request,
						      .value_checksum = receipt->secret }, 0);
	if (!rc)
		rc = session_run(op);
	if (rc)
		return rc;
	const struct wire_reply *r = &op->reply;
	switch ((enum wire_status)r->status) {
	case WIRE_OK:
		*result = request_result(op, r->word);
		*changed = (struct changed){ r->version, r->value_bytes, (int64_t)r->value_bytes };
		return KVD_OK;
	case WIRE_NOT_FOUND:
		return KVD_NOT_FOUND;
	default:
		err_set(&s->err, KVD_EUNKNOWN,
			"kvd does not know any more what became of the change: it may have happened");
		return r->status == WIRE_EBUSY ? KVD_EBUSY : KVD_EUNKNOWN;
	}
}

/*
 * Asks what became of a change whose answer was lost, on the session's connection.
 * KVD_OK: it was answered: *result and *changed; KVD_NOT_FOUND: it had no effect and
 * never will; KVD_EUNKNOWN: kvd does not know; other errors: it could not be asked.
 */
int fate_ask(struct kvd_session *s, const struct kvd_receipt *receipt, uint64_t deadline_ns,
	     int *result, struct changed *changed)
{
	for (unsigned broken = 0;;) {
		int rc = ask_once(s, receipt, result, changed);
		if (rc != KVD_EBUSY && rc != KVD_ECONNECT)
			return rc;
		broken += rc == KVD_ECONNECT; /* this one too; a kvd that is gone refuses at once */
		if (broken > ASKS_BROKEN_MAX || clock_ns() >= deadline_ns)
			return rc == KVD_EBUSY ? KVD_EUNKNOWN : rc;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/*
 * A change whose answer was lost with the connection: on a new one kvd tells what
 * became of it.  True if it had no effect and is to be sent again.
 */
bool fate_resolve(struct kvd_session *s, const struct kvd_receipt *sent, uint64_t deadline_ns,
		  int *result, struct changed *changed)
{
	const struct err why = s->err;
	int rc = fate_ask(s, sent, deadline_ns, result, changed);

	if (rc == KVD_NOT_FOUND)
		return true;
	if (rc != KVD_OK) {
		*result = KVD_EUNKNOWN;
		s->err = why; /* the first reason is the one */
	}
	return false;
}
