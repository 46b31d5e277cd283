/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guests.h -- who is connected to --metrics, and for how long they may take.
 *
 * A guest has GUEST_NS from their connection, or from their last answer, until the end of
 * the next one.  More than GUESTS_OF_ADDRESS_MAX of an address, or than GUESTS_MAX of all,
 * and the eldest of them goes: so a new one is always served.  To go is to have the socket
 * shut down; whoever owns it sees its end.  One thread.
 */
#ifndef SERVER_METRICS_GUESTS_H
#define SERVER_METRICS_GUESTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define GUESTS_MAX 16u
#define GUESTS_OF_ADDRESS_MAX 8u
#define GUEST_NS 10000000000ull

struct guest {
	int fd; /* -1: nobody */
	bool gone; /* shut down, and not yet closed */
	uint64_t since_ns;
	uint8_t address[16];
};

struct guests {
	/* Twice as many: those that go keep their places for a moment. */
	struct guest guest[2 * GUESTS_MAX];
	unsigned count;
};

void guests_init(struct guests *guests);
/* NULL: there is no place, so it is not to be served. */
struct guest *guests_come(struct guests *guests, int fd, const struct sockaddr *peer,
			  uint64_t now_ns);
void guests_leave(struct guests *guests, struct guest *guest);
/* Those whose time is over go. */
void guests_look(struct guests *guests, uint64_t now_ns);

#endif
