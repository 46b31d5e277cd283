/* SPDX-License-Identifier: BSD-2-Clause */
/* session.h -- the parts of a session, for who must not see all of it. */
#ifndef CLIENT_SESSION_SESSION_H
#define CLIENT_SESSION_SESSION_H

#include <stdbool.h>

struct engine;
struct err;
struct kvd_session;

struct engine *session_engine(struct kvd_session *s);
/* How many it may connect to. */
unsigned session_addresses(struct kvd_session *s);
/* That kvd, whom it met last, is a member of one. */
bool session_is_of_cluster(const struct kvd_session *s);
/* Its device has. */
bool session_has_atomics(const struct kvd_session *s);
/* The sentence of the last call that failed. */
struct err *session_err(struct kvd_session *s);

#endif
