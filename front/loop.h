/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop.h -- an event loop: a thread with its connections and its two sessions of libkvd.
 *
 * A round: what the sockets brought becomes requests, these are submitted; then, before it
 * sleeps, it polls both sessions and answers, until nothing comes any more.  So the requests
 * of a round go out with as few doorbells as they can.
 */
#ifndef FRONT_LOOP_H
#define FRONT_LOOP_H

#include "client/kvd.h"
#include "common/err.h"
#include "front/conn/impl.h"

/* Its thread is not there yet.  0, or -1 after setting err. */
int loop_new(struct front *front, kvd_client *client, struct loop **loop, struct err *err);
int loop_start(struct loop *loop, struct err *err);
/* Answers what is under way, for a second at the most, and ends the thread.  Takes NULL. */
void loop_stop(struct loop *loop);
/* It is stopped, and so is the clerk.  Takes NULL. */
void loop_delete(struct loop **loop);

/* A connection for it: any thread.  -1: out of memory, and it is closed. */
int loop_adopt(struct loop *loop, int fd);

#endif
