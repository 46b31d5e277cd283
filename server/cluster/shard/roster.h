/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roster.h -- who is there: the members that the agreement lists, looked at now and then.
 *
 * The shard's thread looks.  Others read a copy, under the shard's lock.
 */
#ifndef SERVER_CLUSTER_SHARD_ROSTER_H
#define SERVER_CLUSTER_SHARD_ROSTER_H

#include <stdint.h>

#include "server/cluster/shard/present.h"

struct shard;

/* Every some milliseconds, while the agreement can be asked. */
void roster_look(struct shard *s, uint64_t now_ns);
/* It looks at once. */
void roster_want(struct shard *s);
/* The session with the agreement is over: what was asked is not answered. */
void roster_forget(struct shard *s);
/* NULL: nobody of that name is known. */
const struct roster_member *roster_find(const struct roster *r, const char *name);
/* How many it has that are there with a table like this one's; the first `max` of them. */
unsigned roster_fit(const struct shard *s, const struct roster_member **fit, unsigned max);

#endif
