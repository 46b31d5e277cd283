/* SPDX-License-Identifier: BSD-2-Clause */
/* guest.h -- what a worker does for the shard beside its requests; its thread. */
#ifndef SERVER_CLUSTER_SHARD_GUEST_H
#define SERVER_CLUSTER_SHARD_GUEST_H

#include <stdbool.h>

struct crew;

/* What other members sent, and what is ordered; whether there was something. */
bool crew_poll(struct crew *crew);
/* At the end of each round: what is new leaves. */
void crew_flush(struct crew *crew);
/* Behind the changes that ended, before others begin: some keys are copied to a joiner. */
void crew_copy(struct crew *crew);
/* Whether something goes on when it is time: a copy, or changes that found no memory. */
bool crew_waits(const struct crew *crew);
/* Before it sleeps: the descriptor will be readable.  After it was. */
void crew_arm(struct crew *crew);
void crew_woken(struct crew *crew);
int crew_descriptor(const struct crew *crew);
/* At its end: its connections end. */
void crew_leave(struct crew *crew);

#endif
