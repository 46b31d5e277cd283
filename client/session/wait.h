/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h -- waiting for operations.  A connection that broke meanwhile is torn down here,
 * which ends all of them.
 */
#ifndef CLIENT_SESSION_WAIT_H
#define CLIENT_SESSION_WAIT_H

#include <stdint.h>

struct kvd_session;
struct op;
struct outcome;

/* As those of poll.h.  0, if an operation is done; or 0 or KVD_E*. */
int session_poll(struct kvd_session *s, uint64_t until_ns);
int session_poll_for(struct kvd_session *s, uint64_t wait_ns);
void session_arm(struct kvd_session *s);

/* Runs one operation to its end and frees it; its result.  *out: until the session's next
 * operation begins. */
int session_run(struct kvd_session *s, struct op *op, const struct outcome **out);
/* Runs two to their ends; the caller frees them. */
void session_run_both(struct kvd_session *s, struct op *op, struct op *other);

/*
 * Takes what detached operations left.  How many others are in flight; if
 * none is, two operations are free when it returns.
 */
uint32_t session_settle(struct kvd_session *s);
/* The same; 0, or KVD_EINVAL with a sentence if others are in flight. */
int session_alone(struct kvd_session *s);

#endif
