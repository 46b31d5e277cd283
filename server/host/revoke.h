/* SPDX-License-Identifier: BSD-2-Clause */
/* revoke.h -- users lose what they had.  Main thread. */
#ifndef SERVER_HOST_REVOKE_H
#define SERVER_HOST_REVOKE_H

struct server;

/*
 * Reads the users file again.  A user who is not in it any more, or with another key or
 * role, is cut off before it returns, and the table's rkeys change: what they learnt is
 * worth nothing on any queue pair.  The other connections break and come back by
 * themselves.
 */
void revoke_reload(struct server *server);

#endif
