/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/lock/queue.h"

#include <stdlib.h>

#define WAITERS_MAX 65536u

static struct queue **slot_of(struct queues *s, uint64_t stripe)
{
	struct queue **at = &s->at[stripe % QUEUES];

	while (*at && (*at)->stripe != stripe)
		at = &(*at)->next;
	return at;
}

struct queue *queue_find(struct queues *s, uint64_t stripe)
{
	return *slot_of(s, stripe);
}

struct queue *queue_get(struct queues *s, uint64_t stripe)
{
	struct queue **at = slot_of(s, stripe);

	if (!*at) {
		struct queue *q = calloc(1, sizeof *q);
		if (!q)
			return NULL;
		q->stripe = stripe;
		q->end = &q->first;
		*at = q;
		s->count++;
	}
	return *at;
}

void queue_drop(struct queues *s, struct queue *q)
{
	*slot_of(s, q->stripe) = q->next;
	s->count--;
	free(q);
}

bool queue_push(struct queues *s, struct queue *q, struct conn *conn,
		const struct wire_request *request, uint64_t now)
{
	struct waiter *w = s->waiters < WAITERS_MAX ? calloc(1, sizeof *w) : NULL;

	if (!w)
		return false;
	w->conn = conn;
	w->request = *request;
	w->end_ns = now + request->ttl_ms * 1000000;
	*q->end = w;
	q->end = &w->next;
	s->waiters++;
	return true;
}

static struct waiter *take_out(struct queues *s, struct queue *q, struct waiter **at)
{
	struct waiter *w = *at;

	*at = w->next;
	if (!w->next)
		q->end = at;
	s->waiters--;
	return w;
}

struct waiter *queue_pop(struct queues *s, struct queue *q)
{
	return take_out(s, q, &q->first);
}

struct waiter *queue_expired(struct queues *s, struct queue *q, uint64_t now)
{
	struct waiter **at = &q->first;

	while (*at && (*at)->end_ns > now)
		at = &(*at)->next;
	return *at ? take_out(s, q, at) : NULL;
}

void queues_forget(struct queues *s, const struct conn *conn)
{
	for (unsigned i = 0; i < QUEUES; i++)
		for (struct queue *q = s->at[i]; q; q = q->next)
			for (struct waiter **at = &q->first; *at;)
				if ((*at)->conn == conn)
					free(take_out(s, q, at));
				else
					at = &(*at)->next;
}

void queues_clear(struct queues *s)
{
	for (unsigned i = 0; i < QUEUES; i++)
		while (s->at[i]) {
			while (s->at[i]->first)
				free(queue_pop(s, s->at[i]));
			queue_drop(s, s->at[i]);
		}
}
