/* SPDX-License-Identifier: BSD-2-Clause */
/* loop.h -- the main thread: what happens, until a signal. */
#ifndef SERVER_HOST_LOOP_H
#define SERVER_HOST_LOOP_H

#include "common/err.h"

struct host;

/* Opens the device for the first of the host's servers: addr, ctx.  0, or -1 after setting
 * err. */
int listen_start(struct host *host, struct err *err);
/* Until a signal asks to stop: 0; -1: the device is of no use any more, which was told. */
int listen_run(struct host *host);
/* Workers, connections, lockers and listeners end. */
void listen_stop(struct host *host);

#endif
