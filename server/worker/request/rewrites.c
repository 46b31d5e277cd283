/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/request/rewrites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/store/rewrite.h"
#include "server/worker/context.h"
#include "server/worker/reply.h"
#include "server/worker/request/owed.h"

/* One may be in another change's way for as long before it is answered "busy". */
#define ASIDE_NS_MAX 4000000000ull

struct rewriting {
	struct sendq *to; /* NULL: free */
	struct wire_request request;
	struct layout_item *input;
	uint64_t begun_ns;
	uint64_t aside_ns;  /* since when somebody is in its way; 0: nobody */
	uint64_t report_ns; /* when to tell of a lock in its way */
	struct rewrite rewrite;
};

int rewrites_init(struct rewrites *s, const struct request_parts *parts)
{
	s->parts = *parts;
	s->turn = 0;
	s->count = 0;
	s->all = aligned_alloc(_Alignof(struct rewriting), REWRITES * sizeof *s->all);
	if (!s->all)
		return ENOMEM;
	memset(s->all, 0, REWRITES * sizeof *s->all);
	return 0;
}

void rewrites_fini(struct rewrites *s)
{
	free(s->all);
}

static struct rewriting *find(const struct rewrites *s, const struct sendq *to)
{
	for (unsigned i = 0; i < REWRITES; i++)
		if (s->all[i].to == to)
			return &s->all[i];
	return NULL;
}

bool rewrites_may_begin(const struct rewrites *s, const struct sendq *to)
{
	return find(s, NULL) && !find(s, to);
}

bool rewrites_waiting(const struct rewrites *s)
{
	return s->count;
}

void rewrites_begin(struct rewrites *s, struct sendq *to, const struct wire_request *q,
		    struct layout_item *input, uint64_t begun_ns)
{
	struct rewriting *x = find(s, NULL);
	const struct store_change c = {
		.hash = hash_key(s->parts.server->table->hash_seed, input->data, q->key_bytes),
		.key = input->data,
		.key_bytes = q->key_bytes,
		.value = input->data + q->key_bytes,
		.value_bytes = layout_value_bytes(input->lengths),
		.token = q->token,
		.with = item_attributes(input),
		.version = q->version,
		.flags = q->flags,
	};

	s->count++;
	x->to = to;
	x->request = *q;
	x->input = input;
	x->begun_ns = begun_ns;
	x->aside_ns = 0;
	rewrite_init(&x->rewrite, (enum wire_op)q->op, &c);
	to->pulls++; /* the connection stays until it has ended */
}

static void end(struct rewrites *s, struct rewriting *x)
{
	store_item_delete(s->parts.store, x->input);
	x->to->pulls--;
	x->to = NULL;
	s->count--;
}

static void answer(struct rewrites *s, struct rewriting *x, enum wire_status status,
		   const struct store_result *r)
{
	reply_answer_result(s->parts.tx, x->to, &x->request, status, r);
	timing_note(s->parts.timings, x->to->peer, &x->request, x->input->data, x->begun_ns);
	end(s, x);
}

/* Somebody is in its way. */
static void wait(struct rewrites *s, struct rewriting *x)
{
	uint64_t now = clock_ns();

	if (!x->aside_ns) {
		x->aside_ns = now;
		x->report_ns = now + REPORT_FIRST_NS;
	}
	deferred_report(s->parts.server->locker, s->parts.store->blocked, &x->report_ns, now);
	if (now - x->aside_ns <= ASIDE_NS_MAX)
		return;
	rewrite_drop(s->parts.store, &x->rewrite);
	answer(s, x, WIRE_EBUSY, &(struct store_result){ .bucket = ~0ull });
}

static void advance(struct rewrites *s, struct rewriting *x)
{
	struct store_result r = { .bucket = ~0ull };

	if (x->to->closing) {
		rewrite_drop(s->parts.store, &x->rewrite);
		end(s, x);
		return;
	}
	if (!s->parts.tx->free)
		return; /* no room for an answer */
	if (!server_is_in_reign(s->parts.server, x->to->reign)) {
		rewrite_drop(s->parts.store, &x->rewrite);
		answer(s, x, WIRE_EELSEWHERE, &r);
		return;
	}
	s->parts.store->blocked = STORE_NOT_BLOCKED;
	int status = rewrite_step(s->parts.store, &x->rewrite, &r);
	if (status == STORE_ASIDE) {
		wait(s, x);
		return;
	}
	x->aside_ns = 0;
	if (status == STORE_LONG)
		return;
	if (status != STORE_COMMIT) {
		answer(s, x, (enum wire_status)status, &r);
		return;
	}
	owed_add(s->parts.owed, s->parts.store->commit, x->to, &x->request, x->input->data,
		 x->begun_ns);
	end(s, x);
}

void rewrites_step(struct rewrites *s)
{
	for (unsigned i = 0; s->count && i < REWRITES; i++) {
		struct rewriting *x = &s->all[s->turn++ % REWRITES];
		if (x->to) {
			advance(s, x);
			return;
		}
	}
}
