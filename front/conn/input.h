/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * input.h -- bytes of a connection to requests.
 *
 * A line needs its end before it is parsed, but for the keys of get and gets: these are
 * taken one by one as they come, so that a line of them may be of any length.  A value goes
 * from the socket into its block; only what came with its line is copied.
 */
#ifndef FRONT_CONN_INPUT_H
#define FRONT_CONN_INPUT_H

#include "front/conn/impl.h"

/* Reads what is there, once.  False: nothing came, and perhaps conn.ended is set. */
bool input_read(struct conn *c);
/* Makes requests of it while the connection may have more.  Whether it took anything. */
bool input_take(struct conn *c);
/* What was not taken stays where the next read does not overwrite it. */
void input_keep(struct conn *c);
void input_drop(struct conn *c);

#endif
