/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of all engines: how they begin, and how what came back is delivered. */
#include "server/cluster/agree/agree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/cluster/agree/impl.h"

/* A call that is about to be made. */
static int begin(struct agree *a, const char *what, const char *path, size_t length,
		 agree_done *done, void *arg, struct agree_call **call)
{
	struct agree_call *c;

	if (path[0] != '/' || strlen(path) >= AGREE_PATH_BYTES || length > AGREE_BYTES_MAX)
		return EINVAL;
	c = malloc(sizeof *c);
	if (!c)
		return ENOMEM;
	c->agree = a;
	c->what = what;
	strcpy(c->path, path);
	c->done = done;
	c->arg = arg;
	c->version = 0;
	c->length = 0;
	c->count = 0;
	c->why[0] = 0;
	pthread_mutex_lock(&a->lock);
	bool is_full = a->count == AGREE_CALLS_MAX;
	if (!is_full) {
		a->count++;
		c->next = a->calls;
		c->self = &a->calls;
		if (c->next)
			c->next->self = &c->next;
		a->calls = c;
	}
	pthread_mutex_unlock(&a->lock);
	if (is_full) {
		free(c);
		return EAGAIN;
	}
	*call = c;
	return 0;
}

int agree_read(struct agree *a, const char *path, bool watch, agree_done *done, void *arg)
{
	struct agree_call *c;
	int rc = begin(a, "reading", path, 0, done, arg, &c);

	if (!rc)
		a->engine->read(c, watch);
	return rc;
}

int agree_write(struct agree *a, const char *path, const void *bytes, size_t length,
		int32_t version, agree_done *done, void *arg)
{
	struct agree_call *c;
	int rc = begin(a, "writing", path, length, done, arg, &c);

	if (!rc)
		a->engine->write(c, bytes, length, version);
	return rc;
}

int agree_create(struct agree *a, const char *path, const void *bytes, size_t length,
		 bool is_ephemeral, agree_done *done, void *arg)
{
	struct agree_call *c;
	int rc = begin(a, "creating", path, length, done, arg, &c);

	if (!rc)
		a->engine->create(c, bytes, length, is_ephemeral);
	return rc;
}

int agree_list(struct agree *a, const char *path, agree_done *done, void *arg)
{
	struct agree_call *c;
	int rc = begin(a, "listing", path, 0, done, arg, &c);

	if (!rc)
		a->engine->list(c);
	return rc;
}

int agree_descriptor(const struct agree *a)
{
	return a->fd;
}

static void deliver(struct agree_call *c)
{
	struct agree_answer answer = {
		.status = c->status,
		.bytes = c->bytes,
		.length = c->count ? 0 : c->length,
		.version = c->version,
		.names = c->names,
		.count = c->count,
		.why = c->why[0] ? c->why : NULL,
	};

	c->done(c->arg, &answer);
	free(c);
}

static void deliver_events(struct agree *a)
{
	char changed[AGREE_CHANGED_MAX][AGREE_PATH_BYTES];

	pthread_mutex_lock(&a->lock);
	unsigned count = a->changed_count;
	memcpy(changed, a->changed, sizeof changed);
	bool is_any = a->is_any_changed;
	enum agree_session session = a->session;
	bool is_told = a->told == session;
	a->told = session;
	a->changed_count = 0;
	a->is_any_changed = false;
	pthread_mutex_unlock(&a->lock);
	if (!is_told)
		a->events.session(a->events.arg, session);
	for (unsigned i = 0; i < count; i++)
		a->events.changed(a->events.arg, changed[i]);
	if (is_any)
		a->events.changed(a->events.arg, NULL);
}

void agree_poll(struct agree *a)
{
	uint64_t some;
	struct agree_call *c, *next;

	if (read(a->fd, &some, sizeof some) < 0 && errno != EAGAIN)
		return;
	pthread_mutex_lock(&a->lock);
	c = a->answered;
	a->answered = NULL;
	a->answered_end = &a->answered;
	for (struct agree_call *i = c; i; i = i->next)
		a->count--;
	pthread_mutex_unlock(&a->lock);
	for (; c; c = next) {
		next = c->next;
		deliver(c);
	}
	deliver_events(a);
}

static void free_calls(struct agree_call *c)
{
	struct agree_call *next;

	for (; c; c = next) {
		next = c->next;
		free(c);
	}
}

void agree_close(struct agree **agree)
{
	struct agree *a = *agree;

	if (!a)
		return;
	*agree = NULL;
	a->engine->close(a);
	free_calls(a->calls);
	free_calls(a->answered);
	close(a->fd);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
