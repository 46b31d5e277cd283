/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/metrics/guests.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#define PLACES (2 * GUESTS_MAX)

void guests_init(struct guests *g)
{
	*g = (struct guests){ .count = 0 };
	for (unsigned i = 0; i < PLACES; i++)
		g->guest[i].fd = -1;
}

/* Who has one address of IPv6 has its /64. */
static void take_address(struct guest *guest, const struct sockaddr *peer)
{
	memset(guest->address, 0, sizeof guest->address);
	if (peer && peer->sa_family == AF_INET6)
		memcpy(guest->address, &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr, 8);
	else if (peer && peer->sa_family == AF_INET)
		memcpy(guest->address + 8, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
}

static void go(struct guest *guest)
{
	guest->gone = true;
	shutdown(guest->fd, SHUT_RDWR);
}

/* Of one address (NULL: of all), if there are more than so many, the eldest. */
static void make_room(struct guests *g, const uint8_t *address, unsigned most)
{
	struct guest *eldest = NULL;
	unsigned n = 0;

	for (struct guest *i = g->guest; i < g->guest + PLACES; i++) {
		if (i->fd < 0 || i->gone || (address && memcmp(i->address, address, sizeof i->address)))
			continue;
		n++;
		if (!eldest || i->since_ns < eldest->since_ns)
			eldest = i;
	}
	if (n > most)
		go(eldest);
}

struct guest *guests_come(struct guests *g, int fd, const struct sockaddr *peer, uint64_t now_ns)
{
	struct guest *guest = g->guest;

	while (guest < g->guest + PLACES && guest->fd >= 0)
		guest++;
	if (guest == g->guest + PLACES)
		return NULL;
	*guest = (struct guest){ .fd = fd, .since_ns = now_ns };
	take_address(guest, peer);
	g->count++;
	make_room(g, guest->address, GUESTS_OF_ADDRESS_MAX);
	make_room(g, NULL, GUESTS_MAX);
	return guest;
}

void guests_leave(struct guests *g, struct guest *guest)
{
	guest->fd = -1;
	g->count--;
}

void guests_look(struct guests *g, uint64_t now_ns)
{
	for (struct guest *i = g->guest; i < g->guest + PLACES; i++)
		if (i->fd >= 0 && !i->gone && now_ns - i->since_ns > GUEST_NS)
			go(i);
}
