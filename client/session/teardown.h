/* SPDX-License-Identifier: BSD-2-Clause */
/* teardown.h -- the end of a session's connection, from any state. */
#ifndef CLIENT_SESSION_TEARDOWN_H
#define CLIENT_SESSION_TEARDOWN_H

struct kvd_session;

/* The connection's: no operation is in flight but that of a hello. */
void session_disconnect(struct kvd_session *s);
/* The same, and then the end of all operations that are in flight. */
void session_down(struct kvd_session *s);
/* The same, but those that can go on with another connection wait for it. */
void session_drift(struct kvd_session *s);

#endif
