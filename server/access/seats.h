/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * seats.h -- how many connections each user has, by name: a user who is removed and comes
 * again has those that are still being ended.  Memory grows with the users who have some.
 * The gate's, under its lock.
 */
#ifndef SERVER_ACCESS_SEATS_H
#define SERVER_ACCESS_SEATS_H

#include <stdbool.h>

#define SEATS_CHAINS 256u

struct seat;

struct seats {
	unsigned max; /* of a user; 0: any number */
	struct seat *chain[SEATS_CHAINS];
};

/* One more of this user.  False: they have as many as they may, or there is no memory. */
bool seats_take(struct seats *seats, const char *name);
/* One that was taken. */
void seats_leave(struct seats *seats, const char *name);
void seats_free(struct seats *seats);

#endif
