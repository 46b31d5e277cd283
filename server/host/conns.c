/* SPDX-License-Identifier: BSD-2-Clause */
/* The connections that there are. */
#include "server/host/conns.h"

#include <string.h>

#include "server/host/host.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"

/* The state is the worker's, but a stale look only delays what follows from it. */
bool conn_is_pending(const struct conn *c)
{
	int state = (int)__atomic_load_n(&c->state, __ATOMIC_RELAXED);

	return state == CONN_NEW || state == CONN_DENIED;
}

/* The worker may close one before the main thread hears of it. */
static bool is_ending(const struct conn *c)
{
	return atomic_load(&c->disconnected) ||
	       __atomic_load_n(&c->state, __ATOMIC_RELAXED) == CONN_CLOSING;
}

unsigned conns_look(const struct host *h, const struct server *s, struct conn **eldest)
{
	unsigned ending = 0;

	*eldest = NULL;
	for (unsigned i = 0; i < h->server_count; i++) {
		const struct server *other = &h->servers[i];
		for (struct conn *c = !s || s == other ? other->conns : NULL; c; c = c->all_next) {
			if (is_ending(c))
				ending++;
			else if (conn_is_pending(c) && (!*eldest || c->since_ns <= (*eldest)->since_ns))
				*eldest = c;
		}
	}
	return ending;
}

uint64_t conns_count(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < h->server_count; i++)
		n += h->servers[i].conn_count;
	return n;
}

uint64_t conns_count_pending(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < h->server_count; i++)
		n += atomic_load(&h->servers[i].pending);
	return n;
}

void conns_add(struct server *s, struct conn *c)
{
	pthread_mutex_lock(&s->conns_lock);
	c->all_next = s->conns;
	c->all_prev = &s->conns;
	if (s->conns)
		s->conns->all_prev = &c->all_next;
	s->conns = c;
	s->conn_count++;
	pthread_mutex_unlock(&s->conns_lock);
}

void conns_remove(struct conn *c)
{
	pthread_mutex_lock(&c->server->conns_lock);
	*c->all_prev = c->all_next;
	if (c->all_next)
		c->all_next->all_prev = c->all_prev;
	c->server->conn_count--;
	pthread_mutex_unlock(&c->server->conns_lock);
}

bool conns_know(struct server *s, uint64_t connection_id)
{
	bool found = false;

	if (!connection_id)
		return false;
	pthread_mutex_lock(&s->conns_lock);
	for (const struct conn *c = s->conns; c && !found; c = c->all_next)
		found = atomic_load(&c->connection_id) == connection_id;
	pthread_mutex_unlock(&s->conns_lock);
	return found;
}

void conns_count_by(struct server *s, unsigned *counts)
{
	memset(counts, 0, LISTENERS_MAX * sizeof counts[0]);
	pthread_mutex_lock(&s->conns_lock);
	for (const struct conn *c = s->conns; c; c = c->all_next)
		counts[c->listener]++;
	pthread_mutex_unlock(&s->conns_lock);
}

void conns_each(struct server *s,
		void (*see)(void *arg, struct conn *conn, const struct handshake *handshake),
		void *arg)
{
	for (struct conn *c = s->conns; c; c = c->all_next)
		see(arg, c, &c->handshake);
}
