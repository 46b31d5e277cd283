/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/conn/execute.h"

#include <string.h>

#include "front/conn/request.h"
#include "front/conn/submit.h"

/* A key that others change all the while is looked at so often. */
#define ROUNDS_MAX 16u

static void done(struct ticket *ticket, const struct kvd_completion *end, const char *why);

static void go(struct request *r, enum step step)
{
	struct loop *loop = r->loop;
	bool is_get = step <= STEP_LOOK;

	r->step = step;
	r->state = REQUEST_RUNS;
	r->ticket.send = submit_step;
	r->ticket.done = done;
	r->ticket.is_get = is_get;
	if (!r->ticket.deadline_ns)
		r->ticket.deadline_ns = loop->now_ns + loop->front->timeout_ns;
	link_send(is_get ? loop->gets : loop->changes, &r->ticket, loop->now_ns);
}

/* ------------------------------------------------------------------- reads */

static bool wants_value(const struct command *c)
{
	return c->verb != VERB_META_DEBUG && (c->verb != VERB_META_GET || c->meta.value);
}

static void look(struct request *r)
{
	memory_give_back(&r->loop->memory, &r->value);
	if (!wants_value(&r->command))
		go(r, STEP_LOOK);
	else if (memory_take(&r->loop->memory, MEMORY_SMALL_BYTES, &r->value))
		go(r, STEP_GET);
	else
		request_end_text(r, "SERVER_ERROR out of memory writing get response");
}

/* It has turned out to be long. */
static void look_again(struct request *r, uint64_t bytes)
{
	memory_give_back(&r->loop->memory, &r->value);
	r->is_long = true;
	if (r->conn && request_must_wait(r))
		request_wait(r);
	else if (++r->rounds < ROUNDS_MAX && memory_take(&r->loop->memory, bytes, &r->value))
		go(r, STEP_LONG);
	else
		request_end_text(r, "SERVER_ERROR out of memory writing get response");
}

static void overtaken(struct request *r)
{
	if (++r->rounds < ROUNDS_MAX)
		look(r);
	else
		request_end_error(r, "others change the key all the while");
}

/* Whether who gets it may be the one to renew it. */
static bool may_claim(const struct request *r)
{
	const struct meta *m = &r->command.meta;

	if (r->command.verb != VERB_META_GET || (r->signs & KVD_CLAIMED))
		return false;
	return (r->signs & KVD_STALE) || (m->has_recache && r->ttl_ms && m->recache > 0 &&
					  r->ttl_ms / 1000 < (uint64_t)m->recache);
}

static bool touches(const struct command *c)
{
	return c->verb == VERB_GAT || c->verb == VERB_GATS ||
	       (c->verb == VERB_META_GET && c->meta.has_ttl);
}

static void found(struct request *r)
{
	if (touches(&r->command)) {
		count(r->loop, COUNTER_touch_hits);
		go(r, STEP_TOUCH);
	} else {
		request_end(r, OUTCOME_OK);
	}
}

static void got(struct request *r, const struct kvd_completion *end)
{
	r->value_bytes = end->value_bytes;
	r->version = end->version;
	r->ttl_ms = end->ttl_ms;
	r->flags = end->flags;
	r->signs = end->signs;
	count(r->loop, COUNTER_get_hits);
	if (may_claim(r))
		go(r, STEP_CLAIM);
	else
		found(r);
}

static void absent(struct request *r)
{
	if (r->command.meta.has_vivify) {
		go(r, STEP_VIVIFY);
		return;
	}
	count(r->loop, COUNTER_get_misses);
	if (touches(&r->command))
		count(r->loop, COUNTER_touch_misses);
	request_end(r, OUTCOME_NOT_FOUND);
}

static void read_done(struct request *r, const struct kvd_completion *end)
{
	if (r->command.verb == VERB_META_ARITHMETIC) { /* behind the count, for what it tells */
		r->ttl_ms = end->ttl_ms;
		request_end(r, OUTCOME_OK);
	} else if (end->result == KVD_NOT_FOUND) {
		absent(r);
	} else if (end->result == KVD_ESPACE && r->step != STEP_LOOK) {
		look_again(r, end->value_bytes);
	} else {
		got(r, end);
	}
}

/* ----------------------------------------------------------------- changes */

/* The end of a touch that followed a GET, or stood alone. */
static void touch_done(struct request *r, const struct kvd_completion *end)
{
	enum verb verb = r->command.verb;
	bool alone = verb == VERB_TOUCH || verb == VERB_META_DELETE;

	if (end->result == KVD_OK)
		r->version = end->version;
	if (verb == VERB_TOUCH)
		count(r->loop, end->result == KVD_OK ? COUNTER_touch_hits : COUNTER_touch_misses);
	if (!alone || end->result == KVD_OK)
		request_end(r, OUTCOME_OK);
	else
		request_end(r, end->result == KVD_CONDITION && end->version ? OUTCOME_EXISTS
									   : OUTCOME_NOT_FOUND);
}

static void claim_done(struct request *r, const struct kvd_completion *end)
{
	if (end->result != KVD_OK) {
		overtaken(r);
		return;
	}
	r->version = end->version;
	r->has_won = true;
	found(r);
}

static void vivify_done(struct request *r, const struct kvd_completion *end)
{
	const struct command *c = &r->command;

	if (end->result != KVD_OK) {
		overtaken(r);
		return;
	}
	int64_t left = submit_seconds_left(c->meta.has_ttl ? c->exptime : c->meta.vivify);
	r->version = end->version;
	r->ttl_ms = left < 0 ? 0 : (uint64_t)left * 1000;
	r->has_won = true;
	count(r->loop, COUNTER_get_misses);
	request_end(r, OUTCOME_OK);
}

static void count_cas(struct request *r, enum outcome outcome)
{
	if (r->command.verb == VERB_CAS || r->command.meta.has_cas)
		count(r->loop, outcome == OUTCOME_OK	   ? COUNTER_cas_hits
			       : outcome == OUTCOME_EXISTS ? COUNTER_cas_badval
							   : COUNTER_cas_misses);
}

/* Of what is stored, deleted or counted under a condition. */
static enum outcome outcome_of(const struct request *r, const struct kvd_completion *end)
{
	bool by_version = r->command.verb == VERB_CAS || r->command.meta.has_cas;

	if (end->result == KVD_OK)
		return OUTCOME_OK;
	if (by_version)
		return end->result == KVD_CONDITION && end->version ? OUTCOME_EXISTS
								    : OUTCOME_NOT_FOUND;
	return r->step == STEP_PUT || r->step == STEP_ADD_TO ? OUTCOME_NOT_STORED
							     : OUTCOME_NOT_FOUND;
}

static void store_done(struct request *r, const struct kvd_completion *end)
{
	enum outcome outcome = outcome_of(r, end);

	memory_give_back(&r->loop->memory, &r->value);
	r->version = end->version;
	count_cas(r, outcome);
	request_end(r, outcome);
}

static void delete_done(struct request *r, const struct kvd_completion *end)
{
	enum outcome outcome = outcome_of(r, end);

	count(r->loop, outcome == OUTCOME_OK ? COUNTER_delete_hits : COUNTER_delete_misses);
	if (r->command.verb == VERB_SET) /* what could not be stored leaves nothing old */
		request_end_text(r, r->command.quiet ? NULL : r->text);
	else
		request_end(r, outcome);
}

/* Behind a count: the time to live is to be set, or told. */
static bool goes_on(struct request *r)
{
	if (r->command.meta.has_ttl)
		go(r, STEP_TOUCH);
	else if (memchr(r->command.meta.order, 't', r->command.meta.count))
		go(r, STEP_LOOK);
	else
		return false;
	return true;
}

static void count_done(struct request *r, const struct kvd_completion *end)
{
	bool down = r->command.verb == VERB_DECR || r->command.meta.mode == 'D';
	enum outcome outcome = outcome_of(r, end);

	r->number = (uint64_t)end->number;
	r->version = end->version;
	if (outcome == OUTCOME_OK)
		count(r->loop, down ? COUNTER_decr_hits : COUNTER_incr_hits);
	else if (outcome == OUTCOME_NOT_FOUND)
		count(r->loop, down ? COUNTER_decr_misses : COUNTER_incr_misses);
	count_cas(r, outcome);
	if (outcome != OUTCOME_OK || !goes_on(r))
		request_end(r, outcome);
}

/* ------------------------------------------------------------------- drive */

static void failed(struct request *r, int result, const char *why)
{
	switch (result) {
	case KVD_EFULL:
		count(r->loop, COUNTER_store_no_memory);
		request_end_text(r, "SERVER_ERROR out of memory storing object");
		break;
	case KVD_ETOOBIG:
		count(r->loop, COUNTER_store_too_large);
		request_end_text(r, "SERVER_ERROR object too large for cache");
		break;
	case KVD_ENUMBER:
	case KVD_ERANGE:
		request_end_text(r, "CLIENT_ERROR cannot increment or decrement non-numeric value");
		break;
	case KVD_EUNKNOWN:
		request_end_error(r, "the change may or may not have been made: kvd did not answer");
		break;
	case KVD_EBUSY:
		request_end_error(r, "kvd was too busy and did nothing; try again");
		break;
	default:
		request_end_error(r, *why ? why : kvd_strerror(result));
	}
}

static void done(struct ticket *ticket, const struct kvd_completion *end, const char *why)
{
	static void (*const ends[])(struct request *r, const struct kvd_completion *end) = {
		[STEP_GET] = read_done,	      [STEP_LONG] = read_done,
		[STEP_LOOK] = read_done,      [STEP_TOUCH] = touch_done,
		[STEP_CLAIM] = claim_done,    [STEP_VIVIFY] = vivify_done,
		[STEP_PUT] = store_done,      [STEP_ADD_TO] = store_done,
		[STEP_COUNT] = count_done,    [STEP_DELETE] = delete_done,
	};
	struct request *r = (struct request *)ticket;

	if (end->result < 0 && end->result != KVD_ESPACE)
		failed(r, end->result, why);
	else
		ends[r->step](r, end);
}

static enum step first_step(const struct command *c)
{
	switch (c->verb) {
	case VERB_APPEND:
	case VERB_PREPEND:
		return STEP_ADD_TO;
	case VERB_META_SET:
		return c->meta.mode == 'A' || c->meta.mode == 'P' ? STEP_ADD_TO : STEP_PUT;
	case VERB_INCR:
	case VERB_DECR:
	case VERB_META_ARITHMETIC:
		return STEP_COUNT;
	case VERB_DELETE:
		return STEP_DELETE;
	case VERB_META_DELETE:
		return c->meta.invalidates ? STEP_TOUCH : STEP_DELETE;
	case VERB_TOUCH:
		return STEP_TOUCH;
	default:
		return STEP_PUT;
	}
}

void execute_start(struct request *r)
{
	const struct command *c = &r->command;

	switch (c->verb) {
	case VERB_GET:
	case VERB_GETS:
	case VERB_GAT:
	case VERB_GATS:
	case VERB_META_GET:
	case VERB_META_DEBUG:
		look(r);
		break;
	case VERB_SET:
		/* One that was too large: what is there goes. */
		go(r, r->text ? STEP_DELETE : STEP_PUT);
		break;
	default:
		go(r, first_step(c));
	}
}
