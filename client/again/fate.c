/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/again/fate.h"

#include <time.h>

#include "client/again/ready.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/session.h"
#include "client/session/wait.h"
#include "common/lease.h"

/* How often a connection may break under the question for a fate. */
#define ASKS_BROKEN_MAX 10

#define KNOWN_MS_MAX 3600000u /* who says more is not believed */

static int no_answer(struct kvd_session *s, const struct wire_reply *r)
{
	if (r->status == WIRE_EELSEWHERE)
		return request_result(session_engine(s), 0, r->status);
	err_set(session_err(s), KVD_EUNKNOWN,
		"kvd does not know any more what became of the change: it may have happened");
	return r->status == WIRE_EBUSY ? KVD_EBUSY : KVD_EUNKNOWN;
}

/* A cluster's reign, in which the change was asked for; 0: of none. */
static uint32_t reign_of(const struct kvd_receipt *receipt)
{
	return (uint32_t)(receipt->request >> 32);
}

/*
 * A primary that joined, or forgot, does not know all of that reign, but all that was sent in the last
 * so many milliseconds before its answer.  Of the two clocks one may go slow and the other fast.
 */
static bool is_since(const struct sent *sent, const struct wire_reply *r)
{
	uint64_t known_ns = r->value_bytes < KNOWN_MS_MAX ? r->value_bytes * 1000000 : 0;
	uint64_t passed_ns = clock_read_ns(CLOCK_BOOTTIME) - sent->ns;

	return sent->ns && reign_of(&sent->receipt) &&
	       passed_ns + passed_ns / LEASE_RHO < known_ns - known_ns / LEASE_RHO;
}

/* One question.  As fate_ask; KVD_EBUSY: kvd wants to be asked again. */
static int ask_once(struct kvd_session *s, const struct sent *sent, int *result,
		    struct changed *changed)
{
	struct engine *e = session_engine(s);
	const struct kvd_receipt *receipt = &sent->receipt;
	const struct wire_request ask = { .op = WIRE_FATE,
					  .version = receipt->connection,
					  .value_bytes = (uint32_t)receipt->request,
					  .item_flags = reign_of(receipt),
					  .value_checksum = receipt->secret };
	const struct outcome *out;
	int rc = session_ready(s);

	if (rc)
		return rc;
	if (!reign_of(receipt) && e->table.welcome.instance != receipt->instance)
		return err_set(session_err(s), KVD_EUNKNOWN,
			       "kvd was started again since: the change may have happened");
	struct op *op = op_new(e, &call_class, NULL, 0);
	rc = request_start(op, &ask, NULL, 0);
	if (!rc)
		rc = session_run(s, op, &out);
	if (rc)
		return rc;
	const struct wire_reply *r = &out->reply;
	if (r->status == WIRE_NOT_FOUND || (r->status == WIRE_EUNSUPPORTED && is_since(sent, r)))
		return KVD_NOT_FOUND;
	if (r->status != WIRE_OK)
		return no_answer(s, r);
	/* Its value was misread as the connection broke: nothing was done. */
	if (r->word == WIRE_EPULL)
		return KVD_NOT_FOUND;
	*result = request_result(e, 0, r->word);
	*changed = (struct changed){ r->version, r->value_bytes, (int64_t)r->value_bytes };
	return KVD_OK;
}

int fate_ask_for(struct kvd_session *s, const struct sent *sent, uint64_t deadline_ns,
		 int *result, struct changed *changed)
{
	struct engine *e = session_engine(s);

	for (unsigned broken = 0;;) {
		int rc = ask_once(s, sent, result, changed);
		if (rc != KVD_EBUSY && rc != KVD_ECONNECT)
			return rc;
		/* This one too; a kvd that is gone refuses at once.  Who refers to another one, does not. */
		broken += rc == KVD_ECONNECT && !e->health.moved;
		if (broken > ASKS_BROKEN_MAX || clock_ns() >= deadline_ns ||
		    clock_ns() >= call_deadline_ns(&e->time))
			return rc;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

int fate_ask(struct kvd_session *s, const struct sent *sent, uint64_t deadline_ns,
	     int *result, struct changed *changed)
{
	int rc = fate_ask_for(s, sent, deadline_ns, result, changed);

	return rc == KVD_EBUSY ? KVD_EUNKNOWN : rc;
}

bool fate_again(struct kvd_session *s, const struct sent *sent, uint64_t deadline_ns,
		int *result, struct changed *changed)
{
	const struct err why = *session_err(s);
	int rc;

	/* Another member of a cluster serves: this one did nothing. */
	if (*result == KVD_ECONNECT && session_engine(s)->health.moved)
		return clock_ns() < deadline_ns;
	if (*result != KVD_EUNKNOWN || clock_ns() >= deadline_ns)
		return false;
	rc = fate_ask(s, sent, deadline_ns, result, changed);

	if (rc == KVD_NOT_FOUND)
		return true;
	if (rc != KVD_OK) {
		*result = KVD_EUNKNOWN;
		*session_err(s) = why; /* the first reason is the one */
	}
	return false;
}
