/* SPDX-License-Identifier: BSD-2-Clause */
/* session.h -- the parts of a session, for who must not see all of it. */
#ifndef CLIENT_SESSION_SESSION_H
#define CLIENT_SESSION_SESSION_H

struct engine;
struct err;
struct kvd_client;
struct kvd_session;

struct engine *session_engine(struct kvd_session *s);
struct kvd_client *session_client(struct kvd_session *s);
/* The sentence of the last call that failed. */
struct err *session_err(struct kvd_session *s);

#endif
