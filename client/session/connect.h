/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect.h -- a session's connection.
 *
 * Happy path: resolve address and route, make the queue pair, connect, bring it
 * to RTS, say hello, learn the table.  Every step is bounded by the client's
 * time-out.  Failure at any step takes apart what was made (session_disconnect
 * does so from any state) and leaves a sentence that names the step.
 */
#ifndef CLIENT_SESSION_CONNECT_H
#define CLIENT_SESSION_CONNECT_H

#include <stdbool.h>

struct kvd_session;

/* 0 or KVD_E*, with the session's err set: of the first connection, */
int session_connect(struct kvd_session *s);
/* and of one attempt to make another, at the route's present address. */
int session_attempt(struct kvd_session *s, int timeout_ms);
/* To its own address, if the session is idle and somebody may be there: connected there, or as before,
 * or not at all. */
void session_go_home(struct kvd_session *s);
/* It would go there, but something is in flight: whether nothing new begins until that has ended. */
bool session_drains(struct kvd_session *s);

#endif
