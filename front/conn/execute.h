/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * execute.h -- requests at kvd: what a command is there, step by step.
 *
 * A GET of a value that is longer than a small block is two: the first tells the length.
 * A touch that also gets is a GET, then a touch.  A claim of what is stale or about to expire
 * is a touch on condition of the version that the GET found; who is overtaken looks again.
 */
#ifndef FRONT_CONN_EXECUTE_H
#define FRONT_CONN_EXECUTE_H

#include "front/conn/impl.h"

/* Begins what a waiting request asks for.  It may have ended, and be gone, at the return. */
void execute_start(struct request *r);

#endif
