/* SPDX-License-Identifier: BSD-2-Clause */
/* commit.h -- the thread that writes what was handed in. */
#ifndef SERVER_DURABLE_COMMIT_H
#define SERVER_DURABLE_COMMIT_H

/* Until the database is stopped and its queue is empty; `durable` is a struct durable. */
void *durable_run_commits(void *durable);

#endif
