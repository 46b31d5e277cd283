/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hello.h -- the first message of a connection: who the client is, and what kvd's welcome
 * says of itself and its table.
 */
#ifndef CLIENT_SESSION_HELLO_H
#define CLIENT_SESSION_HELLO_H

struct kvd_session;

/* 0 or KVD_E*, with the session's err set. */
int hello_say(struct kvd_session *s);

#endif
