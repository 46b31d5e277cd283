/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/host/room.h"

#include <stdlib.h>

#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/worker/conn.h"
#include "server/worker/context.h"

#define HANDSHAKES_PART 2 /* a half of all connections */

/* Here and below: of one namespace, or of all, where s is NULL. */
static uint32_t limit_of(const struct host *h, const struct server *s)
{
	return s ? s->connections_max : h->servers->connections_max;
}

static bool is_full(const struct host *h, const struct server *s)
{
	return (s ? s->conn_count : conns_count(h)) >= limit_of(h, s);
}

static unsigned count_waiting(const struct host *h, const struct server *s)
{
	unsigned n = 0;

	for (const struct arrival *a = h->waiting; a; a = a->next)
		n += !s || s == a->server;
	return n;
}

static enum room make_in(struct host *h, const struct server *s)
{
	struct conn *eldest;

	if (!is_full(h, s))
		return ROOM_THERE;
	if (conns_look(h, s, &eldest) > count_waiting(h, s))
		return ROOM_SOON;
	if (!eldest)
		return ROOM_NONE;
	conn_drop(eldest, "it did not finish its handshake, and all connections are taken");
	return ROOM_SOON;
}

/* Many that don't finish their handshake must not keep others from theirs. */
static void keep_a_part(struct host *h)
{
	uint64_t most = (uint64_t)h->servers->connections_max / HANDSHAKES_PART;
	struct conn *eldest;

	if (conns_count_pending(h) < (most ? most : 1))
		return;
	conns_look(h, NULL, &eldest);
	if (eldest)
		conn_drop(eldest, "it did not finish its handshake, and others wait for theirs");
}

enum room room_make(struct host *h, struct server *s, uint32_t *limit)
{
	enum room own = make_in(h, s), all;

	*limit = limit_of(h, s);
	if (own == ROOM_NONE)
		return own;
	*limit = limit_of(h, NULL);
	all = make_in(h, NULL);
	if (own == ROOM_THERE && all == ROOM_THERE)
		keep_a_part(h);
	return all == ROOM_THERE ? own : all;
}

bool room_wait(struct host *h, const struct arrival *arrival)
{
	struct arrival *a = malloc(sizeof *a), **end = &h->waiting;

	if (!a)
		return false;
	*a = *arrival;
	a->next = NULL;
	while (*end)
		end = &(*end)->next;
	*end = a;
	return true;
}

static struct arrival *take(struct arrival **at)
{
	struct arrival *a = *at;

	if (a)
		*at = a->next;
	return a;
}

struct arrival *room_next(struct host *h)
{
	struct arrival **at = &h->waiting;

	if (is_full(h, NULL))
		return NULL;
	while (*at && is_full(h, (*at)->server))
		at = &(*at)->next;
	return take(at);
}

struct arrival *room_late(struct host *h, uint64_t before_ns)
{
	struct arrival **at = &h->waiting;

	while (*at && (*at)->since_ns >= before_ns)
		at = &(*at)->next;
	return take(at);
}
