/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/device.h"

#include <errno.h>
#include <string.h>

#include "client/op/operation.h"
#include "client/session/client.h"
#include "client/session/session_impl.h"

/*
 * Of all clients of the process: while one is gone that has a protection domain, rdma_cm must not
 * close contexts.  The lock is taken inside a client's.
 */
static struct client_device *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned number_of(const struct kvd_client *c, const struct client_device *d)
{
	return (unsigned)(d - c->devices);
}

static void list(struct client_device *d)
{
	pthread_mutex_lock(&all_lock);
	d->next = all;
	all = d;
	pthread_mutex_unlock(&all_lock);
}

static void unlist(const struct client_device *d)
{
	struct client_device **at = &all;

	pthread_mutex_lock(&all_lock);
	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	pthread_mutex_unlock(&all_lock);
}

static bool answers(const struct verbs *v, const struct client_device *d)
{
	struct ibv_device_attr attr;

	return !v->query_device(d->ctx, &attr);
}

/* rdma_cm lets go of what is gone, unless a client has it still. */
static void forget_gone(const struct verbs *v)
{
	const struct client_device *d;

	pthread_mutex_lock(&all_lock);
	for (d = all; d && answers(v, d); d = d->next)
		;
	if (!d)
		v->forget_devices();
	pthread_mutex_unlock(&all_lock);
}

/* It stays where somebody has memory registered with it. */
static void give_back(struct kvd_client *c, struct client_device *d)
{
	struct ibv_pd *pd = d->pd;

	buffers_leave(c->buffers, c->verbs, number_of(c, d));
	if (c->verbs->dealloc_pd(pd)) {
		/* Without the buffers: it is on its way out. */
		d->is_lost = true;
		return;
	}
	unlist(d);
	*d = (struct client_device){ .pd = NULL };
}

/* Lets go of devices that no session uses and that are gone. */
static void tidy(struct kvd_client *c)
{
	bool any = false;

	for (unsigned i = 0; i < CLIENT_DEVICES_MAX; i++) {
		struct client_device *d = &c->devices[i];

		if (!d->pd || d->users || (!d->is_lost && answers(c->verbs, d)))
			continue;
		give_back(c, d);
		any |= !d->pd;
	}
	if (any)
		forget_gone(c->verbs);
}

bool client_has_device(struct kvd_client *c)
{
	tidy(c);
	for (unsigned i = 0; i < CLIENT_DEVICES_MAX; i++)
		if (c->devices[i].pd)
			return true;
	return false;
}

void client_leave_devices(struct kvd_client *c)
{
	for (unsigned i = 0; i < CLIENT_DEVICES_MAX; i++)
		if (c->devices[i].pd)
			give_back(c, &c->devices[i]);
}

void session_leave_device(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	struct kvd_client *c = s->client;

	ops_leave_device(e);
	if (e->memory_mr)
		c->verbs->dereg_mr(e->memory_mr);
	if (s->held_mr)
		c->verbs->dereg_mr(s->held_mr);
	e->memory_mr = s->held_mr = NULL;
	e->registrar.pd = NULL;
	e->health.ctx = NULL;
	pthread_mutex_lock(&c->lock);
	if (s->device) {
		s->device->is_lost |= e->health.device_lost;
		s->device->users--;
		tidy(c);
	}
	pthread_mutex_unlock(&c->lock);
	s->device = NULL;
	e->health.was_lost |= e->health.device_lost;
	e->health.device_lost = false;
}

/* The one of this context; one with its name is one that was taken away, and came back. */
static struct client_device *find(struct kvd_client *c, const struct ibv_context *ctx)
{
	struct client_device *found = NULL;

	for (unsigned i = 0; i < CLIENT_DEVICES_MAX; i++) {
		struct client_device *d = &c->devices[i];

		if (d->pd && d->ctx == ctx)
			found = d;
		else if (d->pd && !strcmp(d->ctx->device->name, ctx->device->name))
			d->is_lost = true;
	}
	return found;
}

/* One that no session uses gives its place up, if there is no other. */
static struct client_device *free_place(struct kvd_client *c)
{
	struct client_device *idle = NULL;

	for (unsigned i = 0; i < CLIENT_DEVICES_MAX; i++) {
		if (!c->devices[i].pd)
			return &c->devices[i];
		if (!c->devices[i].users)
			idle = &c->devices[i];
	}
	if (idle)
		give_back(c, idle);
	return idle && !idle->pd ? idle : NULL;
}

static int make(struct kvd_session *s, struct client_device *d)
{
	struct kvd_client *c = s->client;
	struct err *err = &s->engine.health.err;
	struct ibv_context *ctx = s->id->verbs;

	if (link_query(c->verbs, ctx, s->id->port_num ? s->id->port_num : 1, &d->limits, err))
		return KVD_EDEVICE;
	struct ibv_pd *pd = c->verbs->alloc_pd(ctx);
	if (!pd)
		return err_set_errno(err, KVD_EDEVICE, errno, "can't allocate a protection domain");
	int rc = buffers_join(c->buffers, c->verbs, number_of(c, d), pd);
	if (rc) {
		c->verbs->dealloc_pd(pd);
		return err_set_errno(err, KVD_EDEVICE, rc,
				     "can't register the client's buffers with %s, too, where the "
				     "route to %s leads: the locked-memory limit may be too low (see "
				     "'ulimit -l')", ctx->device->name, s->addr.text);
	}
	d->ctx = ctx;
	d->pd = pd;
	d->users = 1;
	list(d);
	return 0;
}

static int join(struct kvd_session *s)
{
	struct kvd_client *c = s->client;
	struct client_device *d = find(c, s->id->verbs);
	int rc = 0;

	/* One that does not answer, and that nobody was on, is not given back under this session. */
	if (d)
		d->users++;
	tidy(c);
	if (!d) {
		d = free_place(c);
		rc = d ? make(s, d)
		       : err_set(&s->engine.health.err, KVD_EDEVICE,
				 "the route to %s leads to %s, and sessions of this client are on %u "
				 "other devices already: end some, or make another client",
				 s->addr.text, s->id->verbs->device->name, CLIENT_DEVICES_MAX);
	}
	if (rc)
		return rc;
	s->device = d;
	s->engine.registrar.pd = d->pd;
	s->engine.registrar.device = number_of(c, d);
	s->engine.health.ctx = d->ctx;
	return 0;
}

int session_join_device(struct kvd_session *s)
{
	int rc;

	if (s->device && s->device->ctx == s->id->verbs)
		return 0;
	session_leave_device(s);
	pthread_mutex_lock(&s->client->lock);
	rc = join(s);
	pthread_mutex_unlock(&s->client->lock);
	return rc;
}
