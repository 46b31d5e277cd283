/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/device.h"

#include <errno.h>
#include <stdatomic.h>

#include "client/session/client.h"
#include "client/session/session_impl.h"

/* Of all clients of the process: while there is one, rdma_cm must not close contexts. */
static _Atomic unsigned pds;

void session_free_pd(struct kvd_client *c)
{
	if (!c->pd || c->verbs->dealloc_pd(c->pd))
		return; /* it fails while the user's buffers are registered with it */
	c->pd = NULL;
	c->ctx = NULL;
	atomic_fetch_sub(&pds, 1);
}

/* Lets go of a protection domain that no session uses any more and whose device is
 * gone.  Under the client's lock. */
static void drop_pd(struct kvd_client *c)
{
	if (c->pd_users || !c->device_lost || !c->pd)
		return;
	session_free_pd(c);
	if (c->pd)
		return;
	c->device_lost = false;
	if (!atomic_load(&pds))
		c->verbs->forget_devices();
}

void session_leave_device(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	struct kvd_client *c = s->client;

	if (e->memory_mr)
		c->verbs->dereg_mr(e->memory_mr);
	if (s->held_mr)
		c->verbs->dereg_mr(s->held_mr);
	e->memory_mr = s->held_mr = NULL;
	pthread_mutex_lock(&c->lock);
	c->device_lost |= e->health.device_lost;
	c->pd_users -= s->uses_pd;
	s->uses_pd = false;
	e->health.ctx = NULL;
	drop_pd(c);
	pthread_mutex_unlock(&c->lock);
}

static int make_pd(struct kvd_session *s)
{
	struct kvd_client *c = s->client;
	struct err *err = &s->engine.health.err;
	struct ibv_context *ctx = s->id->verbs;

	if (link_query(c->verbs, ctx, s->id->port_num ? s->id->port_num : 1, &c->limits, err))
		return KVD_EDEVICE;
	c->pd = c->verbs->alloc_pd(ctx);
	if (!c->pd)
		return err_set_errno(err, KVD_EDEVICE, errno, "can't allocate a protection domain");
	c->ctx = ctx;
	atomic_fetch_add(&pds, 1);
	return 0;
}

/* Whether the client was on another device, or on one that was taken away. */
static bool has_moved(struct kvd_session *s)
{
	struct kvd_client *c = s->client;

	pthread_mutex_lock(&c->lock); /* another session may be the first just now */
	bool moved = c->ctx && c->ctx != s->id->verbs;
	pthread_mutex_unlock(&c->lock);
	return moved;
}

int session_share_pd(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	struct kvd_client *c = s->client;
	int rc = 0;

	if (has_moved(s)) {
		e->health.device_lost = true;
		session_leave_device(s);
	}
	pthread_mutex_lock(&c->lock);
	drop_pd(c);
	if (!c->pd)
		rc = make_pd(s);
	else if (c->ctx != s->id->verbs)
		rc = err_set(
			&e->health.err, KVD_EDEVICE,
			"the route to %s leads to another device than before, where other sessions or "
			"buffers of this client still are: end them",
			s->addr.text);
	if (!rc) {
		e->registrar.pd = c->pd;
		e->health.ctx = c->ctx;
		c->pd_users += !s->uses_pd;
		s->uses_pd = true;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}
