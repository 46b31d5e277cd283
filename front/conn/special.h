/* SPDX-License-Identifier: BSD-2-Clause */
/* special.h -- commands that are not of keys: flush_all, stats, and so on.  The loop's
 * thread. */
#ifndef FRONT_CONN_SPECIAL_H
#define FRONT_CONN_SPECIAL_H

#include "front/conn/impl.h"

/* Whether it is one of those that are answered without kvd; it is then. */
bool special_answer(struct request *r);
/* Begins what a waiting request asks for: flush_all and stats by the clerk, the others by
 * execute_start().  It may have ended, and be gone, at the return. */
void special_start(struct request *r);

/* A line of "set" before the client has said who they are: its value is name and password. */
void special_authorise(struct conn *c, struct request *r);

#endif
