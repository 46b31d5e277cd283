/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resume.h -- submitted operations whose connection was lost, on a new one.
 *
 * GETs are asked again.  Of a change kvd is asked what became of it: it ends with what it was
 * answered, or had no effect, and is sent again.  What can't be known yet waits, until the
 * operation's own time is over.
 */
#ifndef CLIENT_AGAIN_RESUME_H
#define CLIENT_AGAIN_RESUME_H

#include <stdint.h>

struct kvd_session;

/* The connection is good. */
void session_resume(struct kvd_session *s);
/*
 * As session_poll_for(), for a while: operations that lose their connection go on with another.
 * What is not done when the time is over stays in flight.  0.
 */
int session_poll_or_resume(struct kvd_session *s, uint64_t wait_ns);

#endif
