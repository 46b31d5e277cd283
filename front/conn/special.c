/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/conn/special.h"

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "front/conn/auth.h"
#include "front/conn/execute.h"
#include "front/conn/request.h"
#include "front/conn/submit.h"

/* The protocol's version, which clients look at; behind it what this is. */
#define VERSION_TEXT "VERSION 1.6.18-kvfront-" PACKAGE_VERSION

static void answer_stats(struct request *r, const char *kvd_json)
{
	const struct front *front = r->loop->front;
	const char *words = r->command.rest;
	char *text = front->stats(front, words, words ? strcspn(words, "\r\n") : 0, kvd_json);

	if (!text) {
		request_end_text(r, "SERVER_ERROR out of memory writing stats");
		return;
	}
	r->value = (struct block){ .at = (uint8_t *)text, .heap = true }; /* not of the budget */
	r->value_bytes = strlen(text);
	request_end(r, OUTCOME_OK);
}

static void set_verbosity(struct request *r)
{
	uint64_t level = r->command.delta;

	atomic_store_explicit(&r->loop->front->verbosity, level > 3 ? 3 : (int)level,
			      memory_order_relaxed);
	request_end_text(r, "OK");
}

bool special_answer(struct request *r)
{
	const char *rest = r->command.rest;

	switch (r->command.verb) {
	case VERB_VERSION:
		request_end_text(r, VERSION_TEXT);
		return true;
	case VERB_META_NOOP:
		request_end_text(r, "MN");
		return true;
	case VERB_VERBOSITY:
		set_verbosity(r);
		return true;
	case VERB_SHUTDOWN:
		r->conn->closing = true;
		r->loop->front->on_shutdown();
		request_end_text(r, NULL);
		return true;
	case VERB_STATS:
		if (*rest == '\r' || *rest == '\n') {
			r->command.rest = NULL;
			return false;
		}
		answer_stats(r, NULL);
		return true;
	default:
		return false;
	}
}

/* ------------------------------------------------------------------- clerk */

struct visit {
	struct errand errand; /* first */
	struct request *request;
	char *json;           /* of stats */
	uint64_t at_unix_ms;  /* of a flush; 0: now */
};

/* As with memcached a flush takes the place of one that is pending. */
static int run_flush(kvd_session *session, struct errand *errand)
{
	uint64_t at_unix_ms = ((struct visit *)errand)->at_unix_ms;
	int rc = kvd_flush_at(session, at_unix_ms);

	return rc < 0 || at_unix_ms ? rc : kvd_flush(session);
}

static int run_stats(kvd_session *session, struct errand *errand)
{
	return kvd_stats(session, &((struct visit *)errand)->json);
}

static void back(struct letter *letter)
{
	struct visit *v = (struct visit *)letter;
	struct request *r = v->request;

	if (r->command.verb == VERB_STATS)
		answer_stats(r, v->errand.result ? NULL : v->json);
	else if (v->errand.result < 0)
		request_end_error(r, v->errand.why.text);
	else
		request_end_text(r, "OK");
	free(v->json);
	free(v);
}

static void send_clerk(struct request *r)
{
	bool is_stats = r->command.verb == VERB_STATS;
	struct visit *v = calloc(1, sizeof *v);

	if (!v) {
		request_end_text(r, "SERVER_ERROR out of memory");
		return;
	}
	v->request = r;
	v->errand.box = &r->loop->box;
	v->errand.letter.open = back;
	v->errand.run = is_stats ? run_stats : run_flush;
	v->at_unix_ms = is_stats ? 0 : submit_unix_ms(r->command.exptime);
	r->state = REQUEST_RUNS;
	if (!clerk_send(r->loop->front->clerk, &v->errand)) {
		free(v);
		request_end_error(r, "too many of these commands wait already");
	}
}

void special_start(struct request *r)
{
	if (r->command.verb == VERB_FLUSH)
		count(r->loop, COUNTER_cmd_flush);
	if (r->command.verb == VERB_FLUSH || r->command.verb == VERB_STATS)
		send_clerk(r);
	else
		execute_start(r);
}

void special_authorise(struct conn *c, struct request *r)
{
	bool known = auth_knows(c->loop->front->auth, (const char *)r->value.at,
				(size_t)r->value_bytes);

	count(c->loop, COUNTER_auth_cmds);
	if (!known)
		count(c->loop, COUNTER_auth_errors);
	c->authorised = known;
	r->command.quiet = false;
	memset(r->value.at, 0, (size_t)r->value_bytes);
	request_end_text(r, known ? "STORED" : "CLIENT_ERROR authentication failure");
}
