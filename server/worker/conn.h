/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn.h -- what may be done to a connection by who does not look inside it.
 *
 * A connection is the main thread's until its worker adopted it, the worker's until the
 * hook `done` is called, and the main thread's again to be buried.
 */
#ifndef SERVER_WORKER_CONN_H
#define SERVER_WORKER_CONN_H

#include <stdbool.h>

#include "common/wire.h"

struct conn;

/* Its worker: marks its end.  The queue pair is in error when this returns; the rest is done
 * by the next look at connections that close (drain.c). */
void conn_close(struct conn *conn, const char *reason);
/* The same for what no client of libkvd does: counted, and held against its address. */
void conn_close_malformed(struct conn *conn, const char *wrong);

/* Any thread: has its worker end it; `reason` is static. */
void conn_drop(struct conn *conn, const char *reason);
/* The same, but its queue pair is in error at once: the worker may be busy. */
void conn_cut(struct conn *conn, const char *reason);
/* Any thread: the queue pair is in error, and its last receive was taken. */
void conn_drained(struct conn *conn);
/* Any thread: its worker answers a request that was not answered at once. */
void conn_answer(struct conn *conn, const struct wire_request *request, enum wire_status status);
/* The locker: nothing waits for it there any more.  It may be gone right after. */
void conn_forgotten(struct conn *conn);

/* Any thread: whether its queue pair has just these remote rights; else it is in error. */
bool conn_check_rights(struct conn *conn, int rights);
/* Address as text. */
const char *conn_peer(const struct conn *conn);

#endif
