/* SPDX-License-Identifier: BSD-2-Clause */
/* clustered.h -- kvd as a member of a cluster (--cluster).  Main thread. */
#ifndef SERVER_CLUSTERED_H
#define SERVER_CLUSTERED_H

#include "common/err.h"

struct server;

/* These do nothing without --cluster.  0, or -1 after setting err. */
/* Before the table is made: the key, and what follows from it. */
int clustered_prepare(struct server *server, struct err *err);
/* Before the workers are started. */
int clustered_new(struct server *server, struct err *err);
/* When clients are listened for. */
int clustered_start(struct server *server, struct err *err);
/* Before the workers are stopped, and when they have ended. */
void clustered_stop(struct server *server);
void clustered_delete(struct server *server);

#endif
