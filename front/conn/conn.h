/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn.h -- a connection of a client, from its arrival to its end.  The loop's thread.
 *
 * Happy path: input arrives, becomes requests, these are started; the ends of requests make
 * the connection dirty; before the loop sleeps the answers go out in order.
 *
 * A client that sends faster than it is answered is not read from meanwhile: at most
 * REQUESTS_MAX requests, IN_BYTES of input and OUT_SEGMENTS of output are kept for it.  One
 * that does not take its answers for --stall is closed.  At the end of its input what it
 * asked for is still executed and answered.
 */
#ifndef FRONT_CONN_CONN_H
#define FRONT_CONN_CONN_H

#include "front/conn/impl.h"

/* Takes the descriptor, which does not block; -1: out of memory, and it is closed. */
int conn_new(struct loop *loop, int fd);
/* Runs those that are dirty; whether there were any. */
bool conns_run(struct loop *loop);
/* Closes those that were idle, or stalled, for too long. */
void conns_look(struct loop *loop);
void conns_close(struct loop *loop);
/* Whether all have had their answers. */
bool conns_are_quiet(const struct loop *loop);

#endif
