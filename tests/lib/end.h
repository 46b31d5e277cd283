/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * end.h -- a session without a kvd: a queue pair in this process whose
 * READs are of a table written by hand (bytes.h), whose atomics are of a few words, and
 * whose messages the test answers.
 */
#ifndef TESTS_LIB_END_H
#define TESTS_LIB_END_H

#include "client/op/outcome.h"
#include "client/session/client.h"
#include "client/session/session_impl.h"
#include "tests/lib/bytes.h"

#define END_DEPTH 8u

struct end {
	struct bytes *bytes;
	struct kvd_client client;
	struct kvd_session session;
	struct engine *engine;         /* of it */
	uint64_t words[BYTES_STRIPES]; /* of locks */

	/* What the next messages are answered: by this, if it is set. */
	void (*answer)(struct end *end, const struct wire_request *request);
	struct wire_request asked; /* the last one */
	uint8_t behind[4096];      /* what stood behind it: the key, and the value if it was copied */
	unsigned messages, reads;
	const void *read_to;       /* where the last READ ended up */
	unsigned delay;            /* polls before a completion is seen */
	enum ibv_wc_status status; /* of the next completions of what is sent */
	bool is_hung;              /* nothing that is sent from now on ever completes */
	bool port_is_down;
	int notify_error;          /* what asking for an event of the completion queue gives */
};

struct end *end_new(void);
void end_delete(struct end *end);

/* Sends a reply to what was asked last, with a payload. */
void end_reply(struct end *end, struct wire_reply reply, const void *payload, size_t bytes);

/* A change of that key that has begun. */
struct op *end_change(struct end *end, const char *key, void *tag);

/* To its end, or until the connection is broken, which ends it too; then it is free. */
const struct outcome *end_run(struct end *end, struct op *op);

#endif
