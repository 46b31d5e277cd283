/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listener.h -- the sockets that clients connect to, and the connections' way to the loops.
 * The main thread.
 */
#ifndef FRONT_LISTENER_H
#define FRONT_LISTENER_H

#include "common/err.h"
#include "front/conn/impl.h"
#include "front/options.h"

struct listeners;

/* Listens, and hands connections to the front's loops in turn, as events of `base`. */
int listeners_new(const struct options *options, struct front *front, struct event_base *base,
		  struct listeners **listeners, struct err *err);
/* Takes the Unix socket's name away.  Takes NULL. */
void listeners_delete(struct listeners **listeners);

/* "127.0.0.1:11211" and so on, a line each; lives with them. */
const char *listeners_text(const struct listeners *listeners);

#endif
