/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/lock/inbox.h"

#include <stdlib.h>
#include <time.h>

void inbox_init(struct inbox *b)
{
	pthread_condattr_t attr;

	b->end = &b->first;
	pthread_mutex_init(&b->lock, NULL);
	/* Who sets the time of day neither ends a wait nor makes it longer. */
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->more, &attr);
	pthread_condattr_destroy(&attr);
}

void inbox_fini(struct inbox *b)
{
	pthread_mutex_destroy(&b->lock);
	pthread_cond_destroy(&b->more);
}

static void append(struct inbox *b, struct message *m)
{
	m->next = NULL;
	*b->end = m;
	b->end = &m->next;
	pthread_cond_signal(&b->more);
}

void inbox_append(struct inbox *b, struct message *m)
{
	pthread_mutex_lock(&b->lock);
	append(b, m);
	pthread_mutex_unlock(&b->lock);
}

bool inbox_post(struct inbox *b, const struct message *m)
{
	struct message *copy = malloc(sizeof *copy);

	if (!copy)
		return false;
	*copy = *m;
	pthread_mutex_lock(&b->lock);
	bool has_room = b->copies < INBOX_COPIES_MAX;
	if (has_room) {
		b->copies++;
		append(b, copy);
	}
	pthread_mutex_unlock(&b->lock);
	if (!has_room)
		free(copy);
	return has_room;
}

struct message *inbox_take(struct inbox *b, unsigned wait_ms)
{
	pthread_mutex_lock(&b->lock);
	if (!b->first && !b->closed) {
		struct timespec ts;
		clock_gettime(CLOCK_MONOTONIC, &ts);
		ts.tv_nsec += (long)wait_ms * 1000000;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&b->more, &b->lock, &ts);
	}
	struct message *m = b->first;
	b->first = NULL;
	b->end = &b->first;
	b->copies = 0;
	pthread_mutex_unlock(&b->lock);
	return m;
}

void inbox_close(struct inbox *b)
{
	pthread_mutex_lock(&b->lock);
	b->closed = true;
	pthread_cond_signal(&b->more);
	pthread_mutex_unlock(&b->lock);
}

bool inbox_is_closed(struct inbox *b)
{
	pthread_mutex_lock(&b->lock);
	bool closed = b->closed && !b->first;
	pthread_mutex_unlock(&b->lock);
	return closed;
}
