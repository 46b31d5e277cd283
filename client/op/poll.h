/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll.h -- completions, which advance operations.
 *
 * Each says with KVD_E* that the connection is broken, and goes no further: the session
 * tears it down.  Operations are in flight until then.
 */
#ifndef CLIENT_OP_POLL_H
#define CLIENT_OP_POLL_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

struct engine;
struct op;

/* What the completion queue had: every one of a session's completions goes there. */
void engine_completed(struct engine *e, const struct ibv_wc *wc, int n);
/* Takes what is complete; how much that was, or KVD_E*. */
int engine_take(struct engine *e);
/* The same, and what was posted goes out before.  Whether an operation is done now; what else
 * there is to look at waits for the next of the calls below, or for every 64th of these. */
bool engine_take_now(struct engine *e);
/* Makes what progress there is without waiting, whatever is completed.  0 or KVD_E*. */
int engine_look(struct engine *e);
/* Makes progress; waits up to `until_ns` while nothing is completed.  0 or KVD_E*. */
int engine_poll(struct engine *e, uint64_t until_ns);
/* The same for so long; 0: a look, which does not wait. */
int engine_poll_for(struct engine *e, uint64_t wait_ns);
/* Until these two are done, with nothing else in flight that somebody waits for; `other`
 * may be NULL.  They are on no list then, and the caller frees them.  0 or KVD_E*. */
int engine_await(struct engine *e, const struct op *op, const struct op *other);
/* Asks for an event on the next completion, having taken all that came before. */
void engine_arm(struct engine *e);

#endif
