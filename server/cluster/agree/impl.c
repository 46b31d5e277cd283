/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for an answer is part of its call, and events are kept in a place of fixed size,
 * so the engine's threads allocate nothing and wait for nobody.
 */
#include "server/cluster/agree/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct agree *agree_new(const struct agree_engine *engine, void *handle,
			const struct agree_events *events)
{
	struct agree *a = calloc(1, sizeof *a);

	if (!a)
		return NULL;
	a->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (a->fd < 0) {
		free(a);
		return NULL;
	}
	a->engine = engine;
	a->handle = handle;
	a->events = *events;
	a->answered_end = &a->answered;
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

static void wake(struct agree *a)
{
	uint64_t one = 1;

	/* It is full only if it is readable. */
	if (write(a->fd, &one, sizeof one) < 0)
		return;
}

bool agree_call_bytes(struct agree_call *c, const void *bytes, size_t length)
{
	if (length > sizeof c->bytes)
		return false;
	if (length)
		memcpy(c->bytes, bytes, length);
	c->length = length;
	return true;
}

bool agree_call_name(struct agree_call *c, const char *name)
{
	size_t bytes = strlen(name) + 1;

	if (c->count == AGREE_NAMES_MAX || bytes > sizeof c->bytes - c->length)
		return false;
	memcpy(c->bytes + c->length, name, bytes);
	c->names[c->count++] = (const char *)c->bytes + c->length;
	c->length += bytes;
	return true;
}

static void unlink_call(struct agree_call *c)
{
	*c->self = c->next;
	if (c->next)
		c->next->self = c->self;
	c->next = NULL;
}

void agree_answer(struct agree_call *c, enum agree_status status, const char *why)
{
	struct agree *a = c->agree;

	c->status = status;
	if (why)
		snprintf(c->why, sizeof c->why, "%s %s: %s", c->what, c->path, why);
	pthread_mutex_lock(&a->lock);
	unlink_call(c);
	*a->answered_end = c;
	a->answered_end = &c->next;
	pthread_mutex_unlock(&a->lock);
	wake(a);
}

void agree_changed(struct agree *a, const char *path)
{
	pthread_mutex_lock(&a->lock);
	if (a->changed_count < AGREE_CHANGED_MAX && strlen(path) < AGREE_PATH_BYTES)
		strcpy(a->changed[a->changed_count++], path);
	else
		a->is_any_changed = true;
	pthread_mutex_unlock(&a->lock);
	wake(a);
}

void agree_session_is(struct agree *a, enum agree_session session)
{
	pthread_mutex_lock(&a->lock);
	if (a->session != AGREE_OVER)
		a->session = session;
	pthread_mutex_unlock(&a->lock);
	wake(a);
}
