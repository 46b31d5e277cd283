/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route.h -- where kvd may be: the addresses that the user gave, and those of a cluster's members.
 *
 * A client's; any thread.  One of them is the present one, where sessions connect: it moves on
 * when nobody answers there, and to a cluster's primary when that is learnt.
 */
#ifndef CLIENT_SESSION_ROUTE_H
#define CLIENT_SESSION_ROUTE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"

#define ROUTE_MAX 24u
#define ROUTE_SUFFIX_BYTES 40u

struct route {
	pthread_mutex_t lock;
	struct addr of[ROUTE_MAX]; /* texts with the namespace */
	unsigned count, at;
	bool is_list; /* more than one kvd: all are kept */
	uint64_t epoch; /* of what was learnt; 0: nothing was */
	unsigned primary; /* of that epoch */
	bool is_gone;     /* it was lost, or did not answer, and is not to be tried again yet */
	char suffix[ROUTE_SUFFIX_BYTES]; /* "/NAMESPACE" */
};

void route_init(struct route *r);
void route_fini(struct route *r);
/* False: there are too many. */
bool route_add(struct route *r, const struct addr *addr);

unsigned route_count(struct route *r);
void route_present(struct route *r, struct addr *addr);
/*
 * Nobody answered there: the next one is the present one, unless another thread moved on.  A
 * primary is gone then, until another member does not answer, or a later epoch is learnt.
 */
void route_failed(struct route *r, const struct addr *addr);
bool route_is_gone(struct route *r);
/* It is not: it is the present one. */
void route_found(struct route *r);
/* kvd answered there: of a name with several addresses the others are forgotten. */
void route_settled(struct route *r, const struct addr *addr);
/*
 * What WIRE_WHERE said, which is changed: members that are new are added; the primary is
 * the present one, if `goes` and it is not gone.  *primary: its address; false: it is not known, or this is older than what is.
 */
bool route_learn(struct route *r, uint64_t epoch, char *lines, bool goes,
		 struct addr *primary);
bool route_is_same(const struct addr *a, const struct addr *b);

#endif
